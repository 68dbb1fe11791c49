"""What can be asked for, and in which words; read from `agentgym_data/tools/requests.json`.

A split has wordings of its own for everything. `{x}` is the thing that is spoken of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Pick = Literal["", "first", "last", "count"]
"""What of a tool's answer counts: its one row, the first or last of several, or their number."""
Wording = Mapping[str, tuple[str, ...]]
"""How a thing is said: the alternatives of each split."""


@dataclass(frozen=True, slots=True)
class Search:
    """How a thing is found by the name that a request gives."""

    tool: str
    parameter: str
    match: str
    """The column that holds the name."""
    field: str
    """The column that holds the thing."""
    say: Wording


@dataclass(frozen=True, slots=True)
class Hop:
    """From a thing to another one by a call: the director of a film."""

    source: str
    """The kind of what is known."""
    target: str
    tool: str
    parameter: str
    field: str
    """The column of the answer that holds the other thing."""
    say: Wording
    pick: Pick = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question about a thing, answered by one call."""

    source: str
    tool: str
    parameter: str
    say: Wording
    """A noun phrase; `{d}` is the day, where the call takes one."""
    field: str = ""
    pick: Pick = ""
    days: Literal["", "day", "past"] = ""
    number: bool = False
    """Whether differences and sums of it make sense."""


@dataclass(frozen=True, slots=True)
class Change:
    """A request that changes something, with a question about what comes of it."""

    tool: str
    slots: Mapping[str, str]
    """The kind of each parameter."""
    field: str
    """The column of the answer that is asked for."""
    say: Wording
    """An imperative with the parameters in braces."""
    ask: Wording


@dataclass(frozen=True, slots=True)
class Phrases:
    """Everything that can be asked for."""

    named: Mapping[str, Wording]
    """What a request names outright, where that takes more than the name."""
    searches: Mapping[str, Search]
    hops: tuple[Hop, ...]
    asks: tuple[Ask, ...]
    changes: tuple[Change, ...]
    frames: Mapping[str, Wording]
    """Sentences around questions and requests."""
    days: Mapping[int, Wording]
    """Words for days, by their distance from today."""
    untooled: Mapping[str, Wording]
    """Questions that need no tool."""


@cache
def phrases() -> Phrases:
    """The embedded ones."""
    raw = json.loads((files("agentgym_data") / "tools" / "requests.json").read_text(encoding="utf-8"))
    return Phrases(
        named=_wordings(raw["named"]),
        searches={kind: Search(**_worded(each)) for kind, each in raw["searches"].items()},
        hops=tuple(Hop(**_worded(each)) for each in raw["hops"]),
        asks=tuple(Ask(**_worded(each)) for each in raw["asks"]),
        changes=tuple(Change(**_worded(each)) for each in raw["changes"]),
        frames=_wordings(raw["frames"]),
        days={int(distance): wording for distance, wording in _wordings(raw["days"]).items()},
        untooled=_wordings(raw["untooled"]),
    )


def _wording(raw: Mapping[str, list[str]]) -> Wording:
    return {split: tuple(texts) for split, texts in raw.items()}


def _wordings(raw: Mapping[str, Mapping[str, list[str]]]) -> dict[str, Wording]:
    return {key: _wording(each) for key, each in raw.items()}


def _worded(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _wording(value) if key in ("say", "ask") else value for key, value in raw.items()}
