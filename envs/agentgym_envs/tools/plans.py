"""How a request is made: a plan of calls is played on the database, and the words follow from it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

from agentgym_envs.tools.catalogue import all_tools
from agentgym_envs.tools.lookups import MOST_ROWS
from agentgym_envs.tools.tool import Answer, Refused, rows_of, to_json
from agentgym_envs.tools.wording import Ask, Change, Hop, Pick, Search, Wording, phrases
from agentgym_envs.tools.world import WEEK, World, clock
from agentgym_py.rng import Rng

Kind = str
Key = tuple[str, str]
"""A call as a hashable thing, indifferent to case."""


NUMBERS: Mapping[Kind, Callable[[Rng], str | int]] = {
    "quantity": lambda rng: 2 + rng.below(8),
    "start": lambda rng: clock(15 * (32 + rng.below(45))),
    "minutes": lambda rng: 15 * (1 + rng.below(12)),
}
"""What a request may choose freely."""
_FIRST_DAY = {"day": 0, "past": -WEEK}
NAMEABLE: Mapping[Kind, str] = {
    **{kind: kind for kind in ("city", "country", "genre", "status", "day", "quantity", "start", "minutes")},
    **{"past": "day", "order": "order_id", "topic": "title", "guest": "name", "author_name": "name"},
    **{"order:processing": "order_id", "order:delivered": "order_id"},
}
"""What a request can name outright, and the parameter that it is."""


class Again(Exception):  # noqa: N818  # no error of the program: these dice lead nowhere, throw others
    """This draw leads nowhere."""


_SORTED = json.JSONEncoder(sort_keys=True).encode


class Call(NamedTuple):
    """A tool with its arguments."""

    tool: str
    arguments: Mapping[str, Any]

    @property
    def key(self) -> Key:
        """The same for calls that do the same."""
        return self.tool, _SORTED(self.arguments).casefold()

    @property
    def text(self) -> str:
        """The call as an agent writes it in one line."""
        return f"{self.tool} {to_json(self.arguments)}"


class Said(NamedTuple):
    """A thing and how a request speaks of it."""

    words: str
    value: Any


@dataclass(slots=True)
class Planner:
    """Draws one request: what is asked, the calls that it takes, and what a request names outright."""

    rng: Rng
    split: str
    world: World
    connection: sqlite3.Connection
    """A copy of the world's database, to play the calls on."""
    calls: list[Call] = field(default_factory=list)
    named: dict[str, list[Any]] = field(default_factory=dict)
    """What the request names outright, by parameter."""
    found: set[tuple[Kind, Any]] = field(default_factory=set)
    """What calls have found, by kind."""
    told: list[list[dict[str, Any]]] = field(default_factory=list)
    """The rows that each of them has said: who asks for what is there needs no further call."""
    searched: list[tuple[Call, str, Any]] = field(default_factory=list)
    """The calls that look a name up, with the name and what it stands for."""

    # ---- drawing ----------------------------------------------------------------------------------------------------

    def say(self, wording: Wording, **parts: object) -> str:
        """One of a split's wordings, filled in."""
        texts = wording[self.split]
        return (texts[0] if len(texts) == 1 else self.rng.choice(texts)).format(**parts)

    def name(self, parameter: str, value: Any) -> Any:
        """Note that the request names a value."""
        noted = self.named.setdefault(parameter, [])
        if value not in noted:
            noted.append(value)
        return value

    def call(self, tool: str, **arguments: Any) -> Answer:
        """Make a call that the request takes; Again where it fails, or is no news."""
        made = Call(tool, arguments)
        if any(made == each for each in self.calls):
            raise Again
        try:
            answer = all_tools()[tool].on(self.connection, arguments)
        except Refused as refused:
            raise Again from refused
        self.calls.append(made)
        self.told.append(rows_of(answer))
        return answer

    def need_searches(self) -> None:
        """Again where the other calls show in one row what a search is for, a name and what it stands for."""
        for search, name, found in self.searched:
            if any({name, found} <= set(row.values()) for row in self._told_without(search)):
                raise Again

    def _told_without(self, left: Call) -> list[dict[str, Any]]:
        """What is told by the calls that can be made without this one, in whatever order."""
        known = {value for values in self.named.values() for value in values}
        rows: list[dict[str, Any]] = []
        waiting = [(call, told) for call, told in zip(self.calls, self.told, strict=True) if call is not left]
        while ready := [each for each in waiting if known.issuperset(each[0].arguments.values())]:
            waiting = [each for each in waiting if each not in ready]
            for _, told in ready:
                rows += told
                known.update(value for row in told for value in row.values())
        return rows

    # ---- things -----------------------------------------------------------------------------------------------------

    def thing(self, kind: Kind, calls: int) -> Said:
        """A thing of a kind that is found with exactly this many calls."""
        if calls == 0:
            return self._named(kind)
        ways = ways_to(kind, calls)
        if not ways:
            raise Again
        way = self.rng.choice(ways)
        if isinstance(way, Search):
            return self._searched(way, kind.split(":")[0])
        source = self.thing(way.source, calls - 1)
        found = picked(self.call(way.tool, **{way.parameter: source.value}), way.field, way.pick)
        return Said(self.say(way.say, x=source.words), self._new(kind, found))

    def _new(self, kind: Kind, value: Any) -> Any:
        """A value found, if it was not before: a way that leads back is no way."""
        if (kind, value) in self.found:
            raise Again
        self.found.add((kind, value))
        return value

    def _searched(self, way: Search, kind: Kind) -> Said:
        name = self.rng.choice(self.world.names["customer" if kind == "order" else kind])
        answer = self.call(way.tool, **{way.parameter: self.name(way.parameter, name)})
        found = [row[way.field] for row in rows_of(answer) if row[way.match] == name]
        if len(found) != 1:
            raise Again
        self.searched.append((self.calls[-1], name, found[0]))
        return Said(self.say(way.say, x=name), self._new(kind, found[0]))

    def _named(self, kind: Kind) -> Said:
        if kind in _FIRST_DAY:
            return self._day(_FIRST_DAY[kind])
        value: Any = NUMBERS[kind](self.rng) if kind in NUMBERS else self.rng.choice(self.world.names[kind])
        self.name(NAMEABLE[kind], value)
        wording = phrases().named.get(kind)
        return Said(self.say(wording, x=value) if wording else str(value), value)

    def _day(self, first: int) -> Said:
        """A day that weather is known for, in words or as a date."""
        distance = first + self.rng.below(WEEK)
        value = self.name("day", (self.world.today + timedelta(days=distance)).isoformat())
        known = phrases().days.get(distance)
        return Said(self.say(known) if known and self.rng.below(2) else value, value)

    # ---- questions and requests -------------------------------------------------------------------------------------

    def ask(self, ask: Ask, calls: int) -> Said:
        """A noun phrase for what is asked, found with exactly this many calls, and the answer."""
        source, *on = self.things((ask.source, ask.days) if ask.days else (ask.source,), calls - 1)
        extra = {"day": on[0].value} if on else {}
        answer = self.call(ask.tool, **{ask.parameter: source.value}, **extra)
        found = picked(answer, ask.field, ask.pick)
        if any((ask.field, found) in row.items() for told in self.told[:-1] for row in told):
            raise Again
        words = self._adverb(on[0].words) if on else ""
        return Said(self.say(ask.say, x=source.words, d=words), found)

    def _adverb(self, day: str) -> str:
        if any(day in known[self.split] for known in phrases().days.values()):
            return day
        return self.say(phrases().frames["on"], x=day)

    def change(self, change: Change, calls: int) -> tuple[str, Said]:
        """An imperative, and the question about its outcome with the answer, in exactly this many calls."""
        things = dict(zip(change.slots, self.things(tuple(change.slots.values()), calls - 1), strict=True))
        answer = self.call(change.tool, **{name: thing.value for name, thing in things.items()})
        do = self.say(change.say, **{name: thing.words for name, thing in things.items()})
        return do, Said(self.say(change.ask), picked(answer, change.field, ""))

    def things(self, kinds: tuple[Kind, ...], calls: int) -> list[Said]:
        """A thing of each kind, with exactly this many calls in all."""
        ways = divisions(kinds, calls)
        if not ways:
            raise Again
        return [self.thing(kind, share) for kind, share in zip(kinds, self.rng.choice(ways), strict=True)]


def picked(answer: Answer, column: str, pick: Pick) -> Any:
    """What counts of an answer; Again where it is not the only one that could be meant."""
    if isinstance(answer, dict):
        return answer[column]
    if not answer or (pick != "first" and len(answer) == MOST_ROWS):
        raise Again
    if pick == "count":
        return len(answer)
    row, other = (answer[0], answer[1:2]) if pick == "first" else (answer[-1], answer[-2:-1])
    rank = next((key for key in ("year", "start") if key in row), None)
    if rank and other and row[rank] == other[0][rank]:
        raise Again
    return row[column]


@cache
def ways_to(kind: Kind, calls: int) -> tuple[Search | Hop, ...]:
    """How a thing of a kind is found with exactly this many calls, by the last of them."""
    known = phrases()
    search = known.searches.get(kind.split(":")[0]) if calls == 1 else None
    hops = tuple(hop for hop in known.hops if hop.target == kind and possible(hop.source, calls - 1))
    return (search, *hops) if search else hops


@cache
def possible(kind: Kind, calls: int) -> bool:
    """Whether some thing of a kind is found with exactly this many calls."""
    return kind in NAMEABLE if calls == 0 else calls > 0 and bool(ways_to(kind, calls))


@cache
def divisions(kinds: tuple[Kind, ...], calls: int) -> tuple[tuple[int, ...], ...]:
    """The ways to spend exactly this many calls on a thing of each kind."""
    if not kinds:
        return () if calls else ((),)
    return tuple(
        (first, *rest)
        for first in range(calls + 1)
        if possible(kinds[0], first)
        for rest in divisions(kinds[1:], calls - first)
    )
