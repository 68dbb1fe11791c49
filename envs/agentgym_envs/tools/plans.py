"""Drawing a request: its plan of calls runs on the database, and the words follow from the answers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

from agentgym_envs.tools.catalogue import all_tools
from agentgym_envs.tools.database import WEEK, Database, clock
from agentgym_envs.tools.lookups import MAX_ROWS
from agentgym_envs.tools.tool import Answer, ToolError, rows_of, to_json
from agentgym_envs.tools.wording import Ask, Change, Hop, Pick, Search, Wording, wordings
from agentgym_py.env.wording import expand
from agentgym_py.rng import Rng

Kind = str
Key = tuple[str, str]
"""A hashable form of a call that ignores case."""


NUMBERS: Mapping[Kind, Callable[[Rng], str | int]] = {
    "quantity": lambda rng: 2 + rng.below(8),
    "start": lambda rng: clock(15 * (32 + rng.below(45))),
    "minutes": lambda rng: 15 * (1 + rng.below(12)),
}
"""Kinds of values that a request draws freely."""
_FIRST_DAY = {"day": 0, "past": -WEEK}
NAMEABLE: Mapping[Kind, str] = {
    **{kind: kind for kind in ("city", "country", "genre", "status", "day", "quantity", "start", "minutes")},
    **{"past": "day", "order": "order_id", "topic": "title", "guest": "name", "author_name": "name"},
    **{"order:processing": "order_id", "order:delivered": "order_id"},
}
"""Kinds of things that a request can name, and their parameter."""


class Redraw(Exception):  # noqa: N818  # control flow: the caller draws again
    """This draw yields no valid request."""


_SORTED = json.JSONEncoder(sort_keys=True).encode


class Call(NamedTuple):
    """A tool with its arguments."""

    tool: str
    arguments: Mapping[str, Any]

    @property
    def key(self) -> Key:
        """Return the same key for equivalent calls."""
        return self.tool, _SORTED(self.arguments).casefold()

    @property
    def text(self) -> str:
        """Write the call in one line, as an agent does."""
        return f"{self.tool} {to_json(self.arguments)}"


class Phrase(NamedTuple):
    """A value and the words for it in a request."""

    words: str
    value: Any
    note: str = ""
    """How a thought says it; empty if the value says enough."""


@dataclass(slots=True)
class Planner:
    """Draws a request: its words, its calls and the values that it names."""

    rng: Rng
    split: str
    database: Database
    connection: sqlite3.Connection
    """A copy of the database, on which the calls run."""
    calls: list[Call] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """The part of the request that each call is for, with what is known by then; and the field that it shows."""
    named: dict[str, list[Any]] = field(default_factory=dict)
    """The values that the request names, by parameter."""
    reached: set[tuple[Kind, Any]] = field(default_factory=set)
    """Kind and value of the things that calls have found."""
    answers: list[list[dict[str, Any]]] = field(default_factory=list)
    """The rows of each call's answer."""
    lookups: list[tuple[Call, str, Any]] = field(default_factory=list)
    """The calls that look up a name, with the name and the value found."""

    # ---- drawing ----------------------------------------------------------------------------------------------------

    def say(self, wording: Wording, **parts: object) -> str:
        """Draw one of the split's wordings and fill it in."""
        return self.draw(wording).format(**parts)

    def draw(self, wording: Wording) -> str:
        """Draw one of the split's wordings."""
        texts = wording[self.split]
        return expand(self.rng, texts[0] if len(texts) == 1 else self.rng.choice(texts))

    def name(self, parameter: str, value: Any) -> Any:
        """Record that the request names a value."""
        values = self.named.setdefault(parameter, [])
        if value not in values:
            values.append(value)
        return value

    def call(self, tool: str, **arguments: Any) -> Answer:
        """Make a call of the request; Redraw if it fails or was made before."""
        new = Call(tool, arguments)
        if any(new == call for call in self.calls):
            raise Redraw
        try:
            answer = all_tools()[tool].on(self.connection, arguments)
        except ToolError as refused:
            raise Redraw from refused
        self.calls.append(new)
        self.answers.append(rows_of(answer))
        return answer

    def require_lookups(self) -> None:
        """Redraw if the other calls return a name and its value in one row, so that the lookup is not needed."""
        for search, name, value in self.lookups:
            if any({name, value} <= set(row.values()) for row in self._rows_without(search)):
                raise Redraw

    def _rows_without(self, omitted: Call) -> list[dict[str, Any]]:
        """Collect the rows of the calls that can be made without one of them, in any order."""
        values = {value for named in self.named.values() for value in named}
        rows: list[dict[str, Any]] = []
        waiting = [(call, answer) for call, answer in zip(self.calls, self.answers, strict=True) if call is not omitted]
        while ready := [pair for pair in waiting if values.issuperset(pair[0].arguments.values())]:
            waiting = [pair for pair in waiting if pair not in ready]
            for _, answer in ready:
                rows += answer
                values.update(value for row in answer for value in row.values())
        return rows

    # ---- things -----------------------------------------------------------------------------------------------------

    def thing(self, kind: Kind, calls: int) -> Phrase:
        """Draw a thing of a kind that takes exactly this many calls."""
        if calls == 0:
            return self._name(kind)
        ways = ways_to(kind, calls)
        if not ways:
            raise Redraw
        way = self.rng.choice(ways)
        if isinstance(way, Search):
            return self._look_up(way, kind.split(":")[0])
        source = self.thing(way.source, calls - 1)
        value = pick_value(self.call(way.tool, **{way.parameter: source.value}), way.field, way.pick)
        text = self.draw(way.say)
        self.notes.append(f"{text.format(x=source.value)}: {' '.join(filter(None, (way.pick, way.field)))}.")
        return Phrase(text.format(x=source.words), self._new(kind, value))

    def _new(self, kind: Kind, value: Any) -> Any:
        """Record a found thing; Redraw if it was found before."""
        if (kind, value) in self.reached:
            raise Redraw
        self.reached.add((kind, value))
        return value

    def _look_up(self, way: Search, kind: Kind) -> Phrase:
        name = self.rng.choice(self.database.names["customer" if kind == "order" else kind])
        answer = self.call(way.tool, **{way.parameter: self.name(way.parameter, name)})
        values = [row[way.field] for row in rows_of(answer) if row[way.match] == name]
        if len(values) != 1:
            raise Redraw
        self.lookups.append((self.calls[-1], name, values[0]))
        words = self.say(way.say, x=name)
        self.notes.append(f"{words}: {way.field}.")
        return Phrase(words, self._new(kind, values[0]))

    def _name(self, kind: Kind) -> Phrase:
        if kind in _FIRST_DAY:
            return self._day(_FIRST_DAY[kind])
        value: Any = NUMBERS[kind](self.rng) if kind in NUMBERS else self.rng.choice(self.database.names[kind])
        self.name(NAMEABLE[kind], value)
        wording = wordings().named.get(kind)
        return Phrase(self.say(wording, x=value) if wording else str(value), value)

    def _day(self, first: int) -> Phrase:
        """Draw a day with weather, in words or as a date."""
        distance = first + self.rng.below(WEEK)
        today = self.database.today
        value = self.name("day", (today + timedelta(days=distance)).isoformat())
        wording = wordings().days.get(distance)
        if not wording or not self.rng.below(2):
            return Phrase(value, value)
        words = self.say(wording)
        return Phrase(words, value, f"{words}, {today} {'+' if distance >= 0 else '-'} {abs(distance)} = {value}")

    # ---- questions and requests -------------------------------------------------------------------------------------

    def ask(self, ask: Ask, calls: int) -> Phrase:
        """Draw a question, as a noun phrase, that takes exactly this many calls, and its answer."""
        source, *on = self.things((ask.source, ask.days) if ask.days else (ask.source,), calls - 1)
        extra = {"day": on[0].value} if on else {}
        answer = self.call(ask.tool, **{ask.parameter: source.value}, **extra)
        value = pick_value(answer, ask.field, ask.pick)
        if any((ask.field, value) in row.items() for rows in self.answers[:-1] for row in rows):
            raise Redraw
        words = self._adverb(on[0].words) if on else ""
        text = self.draw(ask.say)
        known = text.format(x=source.value, d=on[0].note or f"on {on[0].value}" if on else "").rstrip("?")
        self.notes.append(f"{known}: {' '.join(filter(None, (ask.pick, ask.field)))}.")
        return Phrase(text.format(x=source.words, d=words), value)

    def _adverb(self, day: str) -> str:
        if any(day in wording[self.split] for wording in wordings().days.values()):
            return day
        return self.say(wordings().frames["on"], x=day)

    def change(self, change: Change, calls: int, *, asked: bool = True) -> tuple[str, Phrase]:
        """Draw an imperative of exactly this many calls, and the question about its effect with the answer.

        With `asked`, the request has that question, and the thought names what it asks for.
        """
        things = dict(zip(change.slots, self.things(tuple(change.slots.values()), calls - 1), strict=True))
        answer = self.call(change.tool, **{name: thing.value for name, thing in things.items()})
        text = self.draw(change.say)
        do = text.format(**{name: thing.words for name, thing in things.items()})
        known = text.format(**{name: thing.value for name, thing in things.items()})
        self.notes.append(f"{known}: {change.field}." if asked else f"{known}.")
        return do, Phrase(self.say(change.ask), pick_value(answer, change.field, ""))

    def things(self, kinds: tuple[Kind, ...], calls: int) -> list[Phrase]:
        """Draw a thing of each kind with exactly this many calls in total."""
        ways = divisions(kinds, calls)
        if not ways:
            raise Redraw
        return [self.thing(kind, share) for kind, share in zip(kinds, self.rng.choice(ways), strict=True)]


def pick_value(answer: Answer, column: str, pick: Pick) -> Any:
    """Return the value of an answer that counts; Redraw if it is ambiguous."""
    if isinstance(answer, dict):
        return answer[column]
    if not answer or (pick != "first" and len(answer) == MAX_ROWS):
        raise Redraw
    if pick == "count":
        return len(answer)
    row, other = (answer[0], answer[1:2]) if pick == "first" else (answer[-1], answer[-2:-1])
    rank = next((key for key in ("year", "start") if key in row), None)
    if rank and other and row[rank] == other[0][rank]:
        raise Redraw
    return row[column]


@cache
def ways_to(kind: Kind, calls: int) -> tuple[Search | Hop, ...]:
    """Return the last call of each way to find a thing of a kind with exactly this many calls."""
    parts = wordings()
    search = parts.searches.get(kind.split(":")[0]) if calls == 1 else None
    hops = tuple(hop for hop in parts.hops if hop.target == kind and possible(hop.source, calls - 1))
    return (search, *hops) if search else hops


@cache
def possible(kind: Kind, calls: int) -> bool:
    """Tell whether a thing of a kind can take exactly this many calls."""
    return kind in NAMEABLE if calls == 0 else calls > 0 and bool(ways_to(kind, calls))


@cache
def divisions(kinds: tuple[Kind, ...], calls: int) -> tuple[tuple[int, ...], ...]:
    """List the ways to divide exactly this many calls among a thing of each kind."""
    if not kinds:
        return () if calls else ((),)
    return tuple(
        (first, *rest)
        for first in range(calls + 1)
        if possible(kinds[0], first)
        for rest in divisions(kinds[1:], calls - first)
    )
