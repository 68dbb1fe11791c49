"""Worlds whose tasks are made from a seed: endless, numbered, and each id names the same task forever."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar, Generic, TypeVar

from agentgym_py.env.base import TextEnv, require_choice, require_split, unknown_task_error
from agentgym_py.env.types import SPLITS, Task
from agentgym_py.errors import UnknownNameError
from agentgym_py.rng import Rng

_ID = re.compile(rf"(?P<world>\w+)/(?P<split>{'|'.join(SPLITS)})/(?P<difficulty>\w+)/(?:0|[1-9][0-9]{{0,17}})")
_KEPT = 256


P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Draft(Generic[P]):
    """What a world makes of a seed: the parts of a `Task`, and what only the world knows."""

    instruction: str
    """What the agent is asked to do."""
    puzzle: P
    """The world's own: rooms, a hidden word, rows of a database."""
    kind: str
    """The task's type within its world."""
    optimal_steps: int | None = None
    """Steps of a shortest solution, where it is known."""


class GeneratedEnv(TextEnv, Generic[P]):
    """A `TextEnv` whose tasks are `name/split/difficulty/number`, drawn by `draft` from the id alone.

    A world gives `draft` in place of `task`, and finds what it drew in `puzzle`.

    Args:
        difficulty: one of `difficulties`.
        max_steps: when an episode is cut; by default `limits[difficulty]`.
        split: where tasks come from if `reset` names none.
        render_mode: `ansi` or None.
    """

    id_arguments: ClassVar[tuple[str, ...]] = ("difficulty",)
    limits: ClassVar[Mapping[str, int]]
    """The difficulties, and how many steps an episode of each may have."""
    random_baselines: ClassVar[Mapping[str, float]] = {}
    """The `random_baseline` of a difficulty that has its own."""

    def __init__(
        self,
        *,
        difficulty: str = "medium",
        max_steps: int | None = None,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        require_choice("difficulty", difficulty, list(self.limits))
        usual = self.limits[difficulty]
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode, usual_steps=usual)
        self.difficulty = difficulty
        self.random_baseline = self.random_baselines.get(difficulty, self.random_baseline)
        self._drafts: dict[str, tuple[Task, P]] = {}

    @abstractmethod
    def draft(self, rng: Rng, split: str) -> Draft[P]:
        """Draw a task of this difficulty from `rng` alone, which is seeded with the task's id.

        What it draws is kept for the next episode of the task, so nothing may change it.

        Splits must be disjoint by construction: what makes a task (words, rooms, templates) belongs to one of them.
        """

    def task(self, name: str | int, split: str | None = None) -> Task:
        """The task of an id, or number `name` of a split (default: the environment's)."""
        return self._made(name, split)[0]

    @property
    def puzzle(self) -> P:
        """What `draft` drew for the current task."""
        return self.puzzle_of(self._require_reset())

    def puzzle_of(self, task: Task) -> P:
        """What `draft` drew for a task of this environment."""
        return self._made(task.id, None)[1]

    def _made(self, name: str | int, split: str | None) -> tuple[Task, P]:
        if isinstance(name, Integral) and not isinstance(name, bool):
            name = f"{self.name}/{require_split(split or self.split)}/{self.difficulty}/{name}"
        elif not isinstance(name, str):
            raise UnknownNameError(f"A task is named by its id or its number, not by {name!r}.")
        if name not in self._drafts:
            made = self._make(name)
            if len(self._drafts) >= _KEPT:
                del self._drafts[next(iter(self._drafts))]
            self._drafts[name] = made
        return self._drafts[name]

    def _make(self, name: str) -> tuple[Task, P]:
        found = _ID.fullmatch(name)
        if not found or (found["world"], found["difficulty"]) != (self.name, self.difficulty):
            raise unknown_task_error(name, self.name, self.difficulty, list(self.limits))
        split = found["split"]
        drawn = self.draft(Rng(name), split)
        return Task(name, split, drawn.kind, self.difficulty, drawn.instruction, drawn.optimal_steps), drawn.puzzle
