"""The data of an environment: a task, what an action did, how an episode ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Prompt = Literal["full", "brief", "none"]
"""How much of a world's rules opens an episode."""

SPLITS = ("train", "valid", "test")


class StopReason(StrEnum):
    """How an episode ended.

    A world ends it by `TERMINATED` or `TRUNCATED`; the other two are known only to what plays the episode.
    """

    TERMINATED = "terminated"
    """The world ended it: the task is solved or lost."""
    TRUNCATED = "truncated"
    """The world's step limit cut it."""
    GAVE_UP = "gave_up"
    """The agent ended it: a model whose context is full, an expert with nothing left to do."""
    ERROR = "error"
    """An infrastructure failure ended it. Such an episode is no evidence about the agent."""


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to do in a world; its id always means the same task."""

    id: str
    """Stable name, for example `shop/test/medium/17`."""
    split: str
    """`train`, `valid` or `test`; no task is in two splits."""
    kind: str
    """The task's type within its world, for tables by type."""
    difficulty: str
    """`easy`, `medium` or `hard`, or the world's own word."""
    instruction: str
    """What the agent is asked to do."""
    optimal_steps: int | None = None
    """Steps of a shortest solution, if known."""


@dataclass(slots=True)  # not frozen: every step makes one, and that would cost more than twice as much
class Outcome:
    """What one action did; `TextEnv.step` turns it into Gymnasium's 5-tuple."""

    observation: str
    reward: float = 0.0
    terminated: bool = False
    success: bool = False
    valid: bool = True
    """False if the action could not be read or done here; the observation says why."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """The reward's parts by name."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Anything else that the world adds to `info`, as JSON values."""
