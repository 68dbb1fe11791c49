"""Convert your own chats to AgentTraj, which `agentgym train`, `data` and `AgentTrajDataset.load` read.

    python examples/own_chats.py examples/chats/support.jsonl chats.json

A line of the input is `{"id": ..., "messages": [{"role": ..., "content": ...}, ...], "rating": 1 to 5}`. Change
`conversation` and `outcome` for other data.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Turn = dict[str, Any]


def conversation(messages: Sequence[dict[str, str]]) -> list[Turn]:
    """Return AgentTraj's turns: the system message as rules, then users and assistant in turn."""
    turns: list[Turn] = []
    for message in messages:
        role, text = message["role"], message["content"]
        if role == "system":
            turns += [{"from": "human", "loss": None, "value": text}, {"from": "gpt", "loss": False, "value": "Ok."}]
            continue
        turn: Turn = {"from": "human", "loss": None, "value": text}
        if role == "assistant":
            turn |= {"from": "gpt", "loss": True}
        if turns and (turns[-1]["from"], turns[-1]["loss"]) == (turn["from"], turn["loss"]):
            turns[-1]["value"] += f"\n{text}"  # two messages in a row are one turn
        else:
            turns.append(turn)
    return turns


def outcome(chat: dict[str, Any]) -> dict[str, Any]:
    """Return reward and success: a rating of 4 or 5 is a success."""
    return {"reward": chat["rating"] / 5, "success": chat["rating"] >= 4}


def convert(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row of AgentTraj for each line; chats that open alike are attempts at one task."""
    rows, tasks = [], dict[tuple[str, ...], str]()
    for line in lines:
        chat = json.loads(line)
        turns = conversation(chat["messages"])
        first_reply = next((i for i, turn in enumerate(turns) if turn["loss"]), 0)
        opening = tuple(turn["value"] for turn in turns[:first_reply])
        task = tasks.setdefault(opening, f"chat_{len(tasks)}")
        rows.append({"item_id": task, "conversations": turns, **outcome(chat)})
    return rows


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    rows = convert(source.read_text(encoding="utf-8").splitlines())
    target.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print(f"{target}: {len(rows)} chats")
