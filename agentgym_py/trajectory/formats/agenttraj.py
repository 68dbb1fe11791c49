"""Read and write AgentTraj, the format of WooooDyy/AgentGym, and its pairs for DPO.

A row is `{"item_id": "webshop_6", "conversations": [...]}`, in a JSON array or in JSON lines. The turns are the rules,
`"Ok."`, then observations and replies in turn; rollouts add a last observation, `reward` and `success`. The reader
fills the gaps as follows:

- Files hold successful demonstrations unless they say otherwise: without `success`, an episode succeeded if its
  `reward` is at least 1, or if it has a reply but no reward; without `reward`, success is 1.0 and failure 0.0.
- The first reply answers the rules and is not a step if its `loss` is false or its text is "Ok."; it is never trained
  on. A later reply is trained on if its `loss` is true or missing (`Step.trained`).
- Labels may stand on lines of their own, and tools are called by `Action: <name> with Action Input: <JSON>`.
- `conversations` null or empty, as in AgentEval, is a task without steps or success.
- `provenance.env_id` is `AgentGym/<env>`, an environment of the original that is not installed here, because such an
  episode cannot be replayed. `kind` is the env's name, for ALFWorld the type of its task.
- Rows that this project writes are read in the same way. A row cannot hold the environment, its arguments, seeds or
  rewards per step, so a converted episode cannot be replayed; the store that it comes from can.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym_py.env import StopReason
from agentgym_py.env.actions import parse_reply
from agentgym_py.errors import DataError
from agentgym_py.trajectory.formats.foreign import outcome, outcome_keys, unique_ids
from agentgym_py.trajectory.formats.rows import parse_rows, read_rows, write_rows
from agentgym_py.trajectory.types import Preference, Provenance, Step, Trajectory

_ALFWORLD = re.compile(r"(?P<kind>(?:look_at_obj|pick_)[^-]*)(?:-.*)?_trial_T[0-9_]+\Z")
_INDEXED = re.compile(r"(?P<env>.+)_(?P<index>[0-9]+)\Z")
_PROMPT_TURNS = 3
AGENT = "agenttraj"
"""`provenance.agent` of episodes read from this format, which does not name the agent."""
Row = Mapping[str, Any]


# ------------------------------------------------------------------------------------------------------------ episodes


def read(path: str | Path, *, warn: bool = True) -> Iterator[Trajectory]:
    """Stream the episodes of an AgentTraj or AgentEval file; a second row of one `item_id` gets the id `<item_id>#2`.

    JSON lines are read one at a time; a torn last line is dropped, with a warning unless `warn` is false. An array is
    loaded into memory.

    Raises:
        DataError: no such file, or a row is not in this format; names the row and the key.
    """
    return unique_ids(parse_rows(path, read_rows(path, warn=warn), from_row))


def write(path: str | Path, trajectories: Iterable[Trajectory], *, rollout: bool | None = None) -> int:
    """Write episodes, as JSON lines to a `.jsonl` file, else as an array; return how many.

    Raises:
        DataError: an infrastructure failure ended an episode.
    """
    return write_rows(Path(path), (to_row(trajectory, rollout=rollout) for trajectory in trajectories))


def to_row(trajectory: Trajectory, *, rollout: bool | None = None) -> dict[str, Any]:
    """Return AgentTraj's row: rules, "Ok.", then observations and replies in turn, up to the last reply.

    `rollout` adds what rollouts have: the last observation, `reward` and `success`. None adds only what a reader could
    not infer: the outcome of an episode that is not a plain success, and a last observation that the row had when read.

    Raises:
        DataError: an infrastructure failure ended the episode; a row would say that the agent failed.
    """
    outcome_of_row = outcome_keys(trajectory, always=bool(rollout))
    turns = [_human_turn(trajectory.rules), {"from": "gpt", "loss": False, "value": "Ok."}]
    for step in trajectory.steps:
        turns += [_human_turn(step.observation), {"from": "gpt", "loss": step.trained, "value": step.reply}]
    row: dict[str, Any] = {"item_id": trajectory.task_id, "conversations": turns}
    last = trajectory.provenance.agent == AGENT and trajectory.final_observation
    if rollout or (rollout is None and last):
        turns.append(_human_turn(trajectory.final_observation))
    return row if rollout is False else row | outcome_of_row


def from_row(row: Row, *, id: str | None = None) -> Trajectory:
    """Return the episode of a row; its `id` is the `item_id` by default.

    Raises:
        DataError: a missing key or a value of the wrong type; names the key.
    """
    item = _item_id(row, "item_id")
    rules, steps, final = _conversation(_turns(row, "conversations"))
    success, reward = outcome(row, bool(steps))
    env, kind = _env_and_kind(item)
    return Trajectory(
        id=item if id is None else id,
        provenance=Provenance(f"AgentGym/{env}" if env else "", 0, {}, item, 0, AGENT),
        split="",
        kind=kind,
        difficulty="",
        instruction="",
        rules=rules,
        steps=_with_reward(steps, reward),
        final_observation=final,
        reward=reward,
        success=success,
        stop_reason=StopReason.TERMINATED if success else None,
    )


def _human_turn(text: str) -> dict[str, Any]:
    return {"from": "human", "loss": None, "value": text}


def _item_id(row: Row, key: str) -> str:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(f"missing key {key!r}" if key not in row else f"{key}: expected a string, found {value!r}")
    return str(value)


def _env_and_kind(item: str) -> tuple[str, str]:
    """Env and kind of an `item_id`; both empty if it names no env."""
    alfworld = _ALFWORLD.match(item)
    if alfworld:
        return "alfworld", alfworld["kind"]
    indexed = _INDEXED.match(item)
    return (indexed["env"], indexed["env"]) if indexed else ("", "")


def _turns(row: Row, key: str) -> list[dict[str, Any]]:
    """The turns of a conversation, checked; none if it is null."""
    if key not in row:
        raise DataError(f"missing key {key!r}")
    turns = row[key]
    if turns is None:
        return []
    if not isinstance(turns, list):
        raise DataError(f"{key}: expected a list, found {type(turns).__name__}")
    for i, turn in enumerate(turns):
        _check_turn(turn, f"{key}[{i}]")
    return turns


def _check_turn(turn: object, where: str) -> None:
    if not isinstance(turn, dict):
        raise DataError(f"{where}: expected an object, found {type(turn).__name__}")
    if turn.get("from") not in ("human", "gpt"):
        raise DataError(f"{where}.from: expected 'human' or 'gpt', found {turn.get('from')!r}")
    if not isinstance(turn.get("value"), str):
        raise DataError(f"{where}.value: expected a string, found {turn.get('value')!r}")
    if not isinstance(turn.get("loss"), bool | None):
        raise DataError(f"{where}.loss: expected null, false or true, found {turn['loss']!r}")


def _conversation(turns: Sequence[dict[str, Any]]) -> tuple[str, list[Step], str]:
    """Rules, steps and last observation of alternating turns, human first."""
    for i, turn in enumerate(turns):
        if turn["from"] != ("human", "gpt")[i % 2]:
            raise DataError(f"conversations[{i}]: two turns of {turn['from']!r} in a row, or the first is not 'human'")
    rules = ""
    if len(turns) > 1 and _is_acknowledgement(turns[1]):
        rules, turns = turns[0]["value"], turns[2:]
    steps = [_step(turns[i]["value"], turns[i + 1]) for i in range(0, len(turns) - 1, 2)]
    return rules, steps, turns[-1]["value"] if len(turns) % 2 else ""


def _is_acknowledgement(turn: dict[str, Any]) -> bool:
    return turn.get("loss") is False or turn["value"].strip().lower() in ("ok", "ok.")


def _step(observation: str, turn: dict[str, Any]) -> Step:
    text = turn["value"]
    reply = parse_reply(text)
    action = reply.action if reply.action_input is None else reply.action.removesuffix(" with")
    trained = turn.get("loss", True) is True
    return Step(observation, text, reply.thought, action, reply.action_input, 0.0, True, trained=trained)


def _with_reward(steps: Sequence[Step], reward: float) -> tuple[Step, ...]:
    """Put the episode's reward on the last step, because the format has no rewards per step."""
    return (*steps[:-1], replace(steps[-1], reward=reward)) if steps else ()


# --------------------------------------------------------------------------------------------------------------- pairs


def read_pairs(path: str | Path) -> Iterator[Preference]:
    """Stream the pairs of a DPO file, `{id, prompt, chosen, rejected}` with a prompt of three turns.

    The chosen episode counts as a success of reward 1, the rejected one as a failure of reward 0.

    Raises:
        DataError: no such file, or a row is not in this format; names the row and the key.
    """
    return parse_rows(path, read_rows(path), pair_from_row)


def write_pairs(path: str | Path, pairs: Iterable[Preference]) -> int:
    """Write pairs, as JSON lines to a `.jsonl` file, else as an array; return how many."""
    return write_rows(Path(path), map(pair_to_row, pairs))


def pair_to_row(pair: Preference) -> dict[str, Any]:
    """Return the DPO row of a pair; an id `<env>_<index>` becomes its index, as in the original.

    Raises:
        DataError: an episode has no reply, or they do not open with the same rules and observation.
    """
    chosen, rejected = (to_row(side, rollout=False)["conversations"] for side in (pair.chosen, pair.rejected))
    if len(chosen) <= _PROMPT_TURNS or chosen[:_PROMPT_TURNS] != rejected[:_PROMPT_TURNS]:
        raise DataError(f"pair {pair.id!r}: chosen and rejected do not open with the same rules and observation")
    return {
        "id": _pair_id(pair.id),
        "prompt": chosen[:_PROMPT_TURNS],
        "chosen": chosen[_PROMPT_TURNS:],
        "rejected": rejected[_PROMPT_TURNS:],
    }


def pair_from_row(row: Row) -> Preference:
    """Return the pair of a DPO row.

    Raises:
        DataError: a missing key or a value of the wrong type; names the key.
    """
    name = _item_id(row, "id")
    prompt = _turns(row, "prompt")
    if len(prompt) != _PROMPT_TURNS:
        raise DataError(f"prompt: expected {_PROMPT_TURNS} turns, found {len(prompt)}")
    both = [_episode_of_pair(row, name, prompt, key) for key in ("chosen", "rejected")]
    return Preference(name, *both)


def _episode_of_pair(row: Row, name: str, prompt: list[dict[str, Any]], key: str) -> Trajectory:
    reward = 1.0 if key == "chosen" else 0.0
    turns = [*prompt, *_turns(row, key)]
    if len(turns) == _PROMPT_TURNS:
        raise DataError(f"{key}: expected a reply")
    return from_row({"item_id": name, "conversations": turns, "reward": reward}, id=f"{name}/{key}")


def _pair_id(name: str) -> str | int:
    if _ALFWORLD.match(name):
        return name
    if re.fullmatch(r"0|[1-9][0-9]{0,17}", name, re.ASCII):
        return int(name)
    indexed = _INDEXED.match(name)
    return int(indexed["index"]) if indexed else name
