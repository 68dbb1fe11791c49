"""Data types of environments: tasks, outcomes of actions, stop reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Prompt = Literal["full", "brief", "none"]
"""How much of a world's rules the first prompt of an episode contains."""

SPLITS = ("train", "valid", "test")
MAX_TEXT = 1 << 20
"""Most characters of an observation or a reply."""
TINY_WORLDS_DEFAULTS: Mapping[str, Any] = {
    "model": "tiny-worlds",
    "env_kwargs": {"difficulty": "easy"},
    "expert_tasks": 25,
    "expert_order": "kinds",
    "max_new_tokens": 96,
}
"""`TextEnv.evolve_defaults` of a world for the base `tiny-worlds`; a world with longer replies changes the last."""
TINY_DATA_DEFAULTS: Mapping[str, Any] = {**TINY_WORLDS_DEFAULTS, "model": "tiny-data"}
"""The same for the base `tiny-data`."""


class StopReason(StrEnum):
    """How an episode ended.

    A world reports `TERMINATED` or `TRUNCATED`; the other two come from the collector.
    """

    TERMINATED = "terminated"
    """The world ended it: the task is solved or lost."""
    TRUNCATED = "truncated"
    """It reached the world's step limit."""
    GAVE_UP = "gave_up"
    """The agent gave up: a model's context is full, or an expert has nothing left to do."""
    ERROR = "error"
    """The infrastructure failed. Such an episode is no evidence about the agent."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task in a world; its id always means the same task."""

    id: str
    """Stable name, such as `shop/test/medium/17`."""
    split: str
    """`train`, `valid` or `test`; no task is in two splits."""
    kind: str
    """The task's type within its world, by which tables are grouped."""
    difficulty: str
    """`easy`, `medium` or `hard`, or another word of the world."""
    instruction: str
    """What the agent is asked to do."""
    optimal_steps: int | None = None
    """Steps of a shortest solution, if known."""


@dataclass(frozen=True, slots=True)
class PartnerRecord:
    """The moves of an episode whose other roles a frozen model played."""

    digest: str
    """SHA-256 of the model's weights."""
    moves: tuple[str | None, ...]
    """All moves in order, the agent's own ones in their normal form; None for a role that gave up."""


@dataclass(slots=True)  # not frozen, because every step makes one and frozen costs twice as much
class Outcome:
    """The result of one action; `TextEnv.step` turns it into Gymnasium's 5-tuple."""

    observation: str
    reward: float = 0.0
    terminated: bool = False
    success: bool = False
    valid: bool = True
    """False if the action could not be parsed or done; the observation says why."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """The reward's parts by name."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """What the action did wrong, by names of `TextEnv.costs`; those left out are 0."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """More entries of `info`, as JSON values."""
