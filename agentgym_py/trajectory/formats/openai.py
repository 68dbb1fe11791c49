"""Rows as OpenAI reads them: chat messages with tool calls."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentgym_py.trajectory.formats.rows import Message, Row
from agentgym_py.trajectory.types import Step, Trajectory, opening_text

if TYPE_CHECKING:
    pass


_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def openai_chat(trajectory: Trajectory, *, tools: Sequence[dict[str, Any]] | None = None, final: bool = False) -> Row:
    """OpenAI's chat form with `tool_calls`: `{"messages": [...], "tools": [...], "parallel_tool_calls": false}`.

    An action with an input calls the tool of its name; any other calls the tool `act` with the action's text. The
    arguments are a JSON string. `final` adds the answer to the last call, which a fine-tuning file must not have.
    A reply that must not be learned from has `weight` 0. `tools` are the schemas; by default loose ones by name.
    """
    turns: list[Message] = []
    for i, step in enumerate(trajectory.steps):
        if i == 0:
            turns.append({"role": "user", "content": opening_text(trajectory.rules, step.observation)})
        else:
            turns.append(tool_answer(i - 1, step.observation))
        turns.append(tool_call(i, step) | ({} if step.trained else {"weight": 0}))
    if final and trajectory.steps:
        turns.append(tool_answer(len(trajectory.steps) - 1, trajectory.final_observation))
    known = list(tools) if tools is not None else _loose_tools(trajectory)
    return {"messages": turns, "tools": known, "parallel_tool_calls": False}


def tool_call(number: int, step: Step) -> Message:
    """The message of a step as the tool call that it makes, `call_{number}`; see `openai_chat`."""
    name, arguments = _function(step)
    call = {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": step.thought or None, "tool_calls": [call]}


def tool_answer(number: int, observation: str) -> Message:
    """The message that answers the call `call_{number}`."""
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": observation}


def _function(step: Step) -> tuple[str, str]:
    """Name and arguments (JSON text of an object) of the call that a step makes."""
    if step.action_input is None or not _TOOL_NAME.fullmatch(step.action):
        text = step.action if step.action_input is None else f"{step.action}\nAction Input: {step.action_input}"
        return "act", json.dumps({"action": text}, ensure_ascii=False)
    try:
        whole = isinstance(json.loads(step.action_input), dict)
    except (ValueError, RecursionError):
        whole = False
    return step.action, step.action_input if whole else json.dumps({"input": step.action_input}, ensure_ascii=False)


def _loose_tools(trajectory: Trajectory) -> list[dict[str, Any]]:
    names = sorted({_function(step)[0] for step in trajectory.steps})
    return [{"type": "function", "function": {"name": name, "parameters": _loose(name)}} for name in names]


def _loose(name: str) -> dict[str, Any]:
    if name == "act":
        return {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]}
    return {"type": "object", "properties": {}}
