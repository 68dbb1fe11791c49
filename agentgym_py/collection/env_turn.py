"""What an env returned, checked: a value that the records cannot hold is the env's failure."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from agentgym_py.env import SPLITS, PartnerRecord, Reply, StopReason, Task, TextEnv
from agentgym_py.env.types import MAX_TEXT
from agentgym_py.errors import AgentGymError
from agentgym_py.trajectory.json_values import MAX_INT, MIN_INT

MAX_REWARD = 1e9
"""Largest size of a reward: sums, squares and float32 numbers of such rewards stay finite."""
MAX_MOVES = 1 << 20
"""Most moves of a partner's record; no episode has as many."""
_PLAIN = (str, bool, int, type(None))
"""Types of JSON values that need no further look."""
_TEXTS = ("id", "split", "kind", "difficulty", "instruction")


class EnvTurn(NamedTuple):
    """The values of one `step` of an env, as a trajectory holds them."""

    observation: str
    reward: float
    stop_reason: StopReason | None
    """How the env ended the episode; None while it runs."""
    valid: bool
    parts: dict[str, float]
    costs: dict[str, float]


def read_start(start: Any, prompt: str, env: TextEnv) -> tuple[str, str]:
    """Return the rules and the first observation from what `reset` returned.

    Raises:
        TypeError, ValueError, LookupError: no string, or an `info` that JSON cannot hold.
    """
    observation, info = _unpacked(start, 2, "reset")
    _require_info(info)
    return text(env.rules[prompt], f"rules[{prompt!r}]"), text(observation, "the observation")


def read_version(env: TextEnv) -> int:
    """Return the version of a world; TypeError or ValueError for other than an integer that a trajectory holds."""
    return whole(env.version, "version")


def read_turn(turn: Any) -> EnvTurn:
    """Convert what `step` returned; numbers of numpy become those of Python.

    Raises:
        TypeError, ValueError, LookupError: not five values, a reward that is not a finite number, no string as
            observation, or an `info` that lacks something or that JSON cannot hold.
    """
    observation, reward, terminated, truncated, info = _unpacked(turn, 5, "step")
    _require_info(info)
    terminated, truncated = flag(terminated, "terminated"), flag(truncated, "truncated")
    stop_reason = StopReason.TERMINATED if terminated else StopReason.TRUNCATED if truncated else None
    observation, reward = text(observation, "the observation"), finite(reward, "the reward")
    valid, parts = flag(info["valid_action"], "valid_action"), _numbers(info, "reward_parts")
    return EnvTurn(observation, reward, stop_reason, valid, parts, _costs(info))


def read_task(task: Any) -> Task:
    """Return a task whose fields have the types that a trajectory holds.

    Raises:
        TypeError, ValueError: it is no task, or a field of it has another type.
    """
    if not isinstance(task, Task):
        raise TypeError(f"task() is {task!r:.60}, not a Task")
    for name in _TEXTS:
        text(getattr(task, name), f"the task's {name}")
    if task.split not in SPLITS:
        raise ValueError(f"the task's split is {task.split!r:.60}, not one of {', '.join(SPLITS)}")
    steps = task.optimal_steps
    return task if steps is None else replace(task, optimal_steps=whole(steps, "optimal_steps"))


def read_digest(env: TextEnv) -> str | None:
    """Return the digest of the files that a world read; TypeError for other than a string."""
    return None if env.files_digest is None else text(env.files_digest, "files_digest")


def read_partner(env: TextEnv) -> PartnerRecord | None:
    """Return the moves of an episode with a model as partner; None if a server that has them does not answer.

    Raises:
        TypeError, ValueError, LookupError: it is no record of moves, or one of too many.
    """
    try:
        record = env.partner_record
    except AgentGymError:
        return None
    if record is None:
        return None
    if not isinstance(record, PartnerRecord) or not isinstance(record.moves, tuple):
        raise TypeError(f"partner_record is {record!r:.60}, not a PartnerRecord")
    if len(record.moves) > MAX_MOVES:
        raise ValueError(f"partner_record has {len(record.moves):,} moves, more than {MAX_MOVES:,}")
    moves = tuple(None if move is None else text(move, "a partner's move") for move in record.moves)
    return PartnerRecord(text(record.digest, "the partner's digest"), moves)


def read_reply(reply: Reply) -> tuple[str, str, str | None]:
    """Return thought, action and action input of a reply as the env read it; TypeError for other than strings."""
    action_input = reply.action_input if reply.action_input is None else text(reply.action_input, "the action input")
    return text(reply.thought, "the thought"), text(reply.action, "the action"), action_input


def finite(value: Any, what: str) -> float:
    """Return a finite number as a float; a string is none."""
    if isinstance(value, str | bytes) or value is None:
        raise TypeError(f"{what} is {value!r:.60}, not a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{what} is of type {type(value).__name__} and not a finite number: {error}") from error
    if not math.isfinite(number):
        raise ValueError(f"{what} is {number}, not a finite number")
    if abs(number) > MAX_REWARD:
        raise ValueError(f"{what} is {number:g}, beyond {MAX_REWARD:g}")
    return number


def whole(value: Any, what: str) -> int:
    """Return an integer that a trajectory holds; an error for anything else, such as a bool."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is {value!r:.60}, not an integer")
    number = operator.index(value)
    if not MIN_INT <= number <= MAX_INT:
        raise ValueError(f"{what} is an integer of more than 64 bits")
    return number


def text(value: Any, what: str) -> str:
    """Return a string of at most `MAX_TEXT` characters; an error for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r:.60}, not a string")
    if len(value) > MAX_TEXT:
        raise ValueError(f"{what} has {len(value):,} characters, more than {MAX_TEXT:,}")
    return str.__str__(value)  # of a subclass, which another process may not know, the plain string


def flag(value: Any, what: str) -> bool:
    """Return a bool; TypeError for anything else, such as the text 'False'."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{what} is {value!r:.60}, not true or false")
    return bool(value)


def _unpacked(values: Any, number: int, call: str) -> Any:
    if not isinstance(values, tuple | list):
        raise TypeError(f"{call} returned {values!r:.60}, not {number} values")
    if len(values) != number:
        raise ValueError(f"{call} returned {len(values)} values, not {number}")
    return values


def _numbers(info: Mapping[str, Any], key: str) -> dict[str, float]:
    numbers = info.get(key, {})
    if not isinstance(numbers, Mapping):
        raise TypeError(f"{key} is {numbers!r:.60}, not a mapping")
    return {str(name): finite(number, f"{key}[{name!r:.60}]") for name, number in numbers.items()}


def _costs(info: Mapping[str, Any]) -> dict[str, float]:
    costs = _numbers(info, "costs")
    for name, cost in costs.items():
        if cost < 0:
            raise ValueError(f"costs[{name!r:.60}] is {cost:g}, below 0")
    return costs


def _require_info(info: Any) -> None:
    """Refuse an `info` that is no mapping of names to JSON values, or lacks `valid_action`."""
    if not isinstance(info, Mapping):
        raise TypeError(f"info is {info!r:.60}, not a mapping")
    if "valid_action" not in info:
        raise KeyError("info lacks valid_action")
    if "success" in info:
        flag(info["success"], "success")
    for name, value in info.items():
        if not isinstance(name, str):
            raise TypeError(f"info has the key {name!r:.60}, which is no string")
        if type(value) not in _PLAIN and name not in ("reward_parts", "costs"):
            _require_json(value, f"info[{name!r:.60}]")


def _require_json(value: Any, what: str) -> None:
    try:
        json.dumps(value, allow_nan=False, default=_number_of_numpy)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not JSON: {error}") from error


def _number_of_numpy(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"an object of type {type(value).__name__}")
