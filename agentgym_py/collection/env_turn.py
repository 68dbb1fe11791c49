"""What an env returned, checked: a value that the records cannot hold is the env's failure."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentgym_py.env import Task


class EnvTurn(NamedTuple):
    """The values of one `step` of an env, as a trajectory holds them."""

    observation: str
    reward: float
    has_ended: bool
    valid: bool
    parts: dict[str, float]


def read_turn(turn: tuple[str, Any, bool, bool, Mapping[str, Any]]) -> EnvTurn:
    """Convert what `step` returned; numbers of numpy become floats.

    Raises:
        TypeError, ValueError, LookupError: a reward that is not a finite number, no string as observation, or
            an `info` that lacks something.
    """
    observation, reward, terminated, truncated, info = turn
    parts = {str(name): finite(part, f"reward_parts[{name!r}]") for name, part in info.get("reward_parts", {}).items()}
    reward, valid = finite(reward, "the reward"), bool(info["valid_action"])
    return EnvTurn(text(observation, "the observation"), reward, bool(terminated or truncated), valid, parts)


def finite(value: Any, what: str) -> float:
    """Return a finite number as a float; a string is none."""
    if isinstance(value, str | bytes) or value is None:
        raise TypeError(f"{what} is {value!r:.60}, not a number")
    if not math.isfinite(number := float(value)):
        raise ValueError(f"{what} is {number}, not a finite number")
    return number


def text(value: Any, what: str) -> str:
    """Return a string; TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r:.60}, not a string")
    return value


def optimal_steps(task: Task) -> int | None:
    """Return the task's optimal number of steps as an integer of Python; TypeError if it is not an integer."""
    return None if task.optimal_steps is None else operator.index(task.optimal_steps)
