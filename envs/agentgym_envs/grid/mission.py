"""Missions: BabyAI's grammar of clauses, and their meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

LOCATIONS = ("left", "right", "front", "behind")
"""Where a thing lies in the first room, seen from the start."""


class Verb(StrEnum):
    """What a clause asks for."""

    GO_TO = "go to"
    """Stand before a thing and face it."""
    PICK_UP = "pick up"
    OPEN = "open"
    PUT = "put"
    """Drop a thing beside another one."""


@dataclass(frozen=True, slots=True)
class Description:
    """A description of things: `a red ball on your left`."""

    kind: str | None
    """`ball`, `box`, `key` or `door`; None for any thing."""
    color: str | None = None
    location: str | None = None
    """One of `LOCATIONS`."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One demand. What it means is fixed at the start: sets of things, by index."""

    verb: Verb
    thing: Description
    things: frozenset[int]
    """All things that `thing` describes; any of them will do."""
    other: Description | None = None
    """What the thing is put next to."""
    others: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Mission:
    """Clauses in one or two parts: the second part counts only when the first is done."""

    clauses: tuple[Clause, ...]
    parts: tuple[tuple[int, ...], ...]
    """Indices of the clauses of each part, in the order of doing; within a part any order will do."""
    after: bool = False
    """Whether the second part is named first: `X after you Y`."""

    @property
    def navigations(self) -> int:
        """Return the number of walks that it needs; BabyAI's time limit grows with it."""
        return sum(1 + (clause.verb is Verb.PUT) for clause in self.clauses)


def join(mission: Mission, say: Callable[[int], str], forms: tuple[str, str, str]) -> str:
    """Write a mission from its clauses' texts and the forms of `and`, `then` and `after`, such as `{a} and {b}`."""
    both, then, after = forms

    def part(indices: tuple[int, ...]) -> str:
        texts = [say(index) for index in indices]
        return texts[0] if len(texts) == 1 else both.format(a=texts[0], b=texts[1])

    texts = [part(indices) for indices in mission.parts]
    if len(texts) == 1:
        return texts[0]
    return after.format(a=texts[1], b=texts[0]) if mission.after else then.format(a=texts[0], b=texts[1])
