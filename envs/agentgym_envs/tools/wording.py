"""The parts of requests and their wordings, from `agentgym_data/tools/requests.json`.

Each split has its own wordings. `{x}` is the thing in question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Pick = Literal["", "first", "last", "count"]
"""The part of a tool's answer that counts: its one row, the first or last of several, or their number."""
Wording = Mapping[str, tuple[str, ...]]
"""Split to its alternative texts."""


@dataclass(frozen=True, slots=True)
class Search:
    """A lookup of a thing by the name in a request."""

    tool: str
    parameter: str
    match: str
    """The column that holds the name."""
    field: str
    """The column that holds the thing."""
    say: Wording


@dataclass(frozen=True, slots=True)
class Hop:
    """A call that leads from a thing to another one: the director of a film."""

    source: str
    """The kind of the first thing."""
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
    """A noun phrase; `{d}` is the day, if the call takes one."""
    field: str = ""
    pick: Pick = ""
    days: Literal["", "day", "past"] = ""
    number: bool = False
    """Whether differences and sums of it make sense."""


@dataclass(frozen=True, slots=True)
class Change:
    """A request for a change, with a question about its effect."""

    tool: str
    slots: Mapping[str, str]
    """The kind of each parameter."""
    field: str
    """The requested column of the answer."""
    say: Wording
    """An imperative with the parameters in braces."""
    ask: Wording


@dataclass(frozen=True, slots=True)
class Wordings:
    """All parts of requests."""

    named: Mapping[str, Wording]
    """Kind to the phrase around a name in a request, if it needs one."""
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
def wordings() -> Wordings:
    """Read the embedded wordings."""
    raw = json.loads((files("agentgym_data") / "tools" / "requests.json").read_text(encoding="utf-8"))
    return Wordings(
        named=_wordings(raw["named"]),
        searches={kind: Search(**_fields(search)) for kind, search in raw["searches"].items()},
        hops=tuple(Hop(**_fields(hop)) for hop in raw["hops"]),
        asks=tuple(Ask(**_fields(ask)) for ask in raw["asks"]),
        changes=tuple(Change(**_fields(change)) for change in raw["changes"]),
        frames=_wordings(raw["frames"]),
        days={int(distance): wording for distance, wording in _wordings(raw["days"]).items()},
        untooled=_wordings(raw["untooled"]),
    )


def _wording(raw: Mapping[str, list[str]]) -> Wording:
    return {split: tuple(texts) for split, texts in raw.items()}


def _wordings(raw: Mapping[str, Mapping[str, list[str]]]) -> dict[str, Wording]:
    return {key: _wording(texts) for key, texts in raw.items()}


def _fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _wording(value) if key in ("say", "ask") else value for key, value in raw.items()}
