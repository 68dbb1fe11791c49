"""What an episode is about: the requests of each difficulty, with their plans and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from agentgym_envs.tools.catalogue import CORE, PLACE, all_tools, themed_name
from agentgym_envs.tools.plans import Again, Call, Key, Planner, divisions, possible
from agentgym_envs.tools.themes import THEMES
from agentgym_envs.tools.tool import Refused, rows_of
from agentgym_envs.tools.wording import Ask, Change, phrases
from agentgym_envs.tools.world import WORLDS, Desk, World, clock, world_of
from agentgym_py.env.generated import Draft
from agentgym_py.rng import Rng

OFFERED = {"easy": 8, "medium": 14, "hard": 20}
"""How many tools an episode offers, beside `finish`; in `retrieval` a search finds them."""


@dataclass(frozen=True)
class Errand:
    """What only the world knows of a task."""

    world: World
    calls: tuple[Call, ...]
    """The calls that the request takes, in an order in which each one's arguments are known."""
    answer: str
    tools: tuple[str, ...] | None
    """The tools on offer, `finish` and `undo_last_change` aside; None where they must be searched."""
    named: Mapping[str, tuple[Any, ...]]
    """What the request names outright, by parameter."""

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The needed calls as they are compared."""
        return tuple(call.key for call in self.calls)

    @cached_property
    def subgoals(self) -> int:
        """What the reward is divided by: calls, answer, and a right state or the calling of nothing."""
        return len(self.calls) + 1 + bool(self.changes) + (not self.calls)

    @cached_property
    def names(self) -> frozenset[str]:
        """The tools that are needed."""
        return frozenset(call.tool for call in self.calls)

    @cached_property
    def changes(self) -> tuple[Key, ...]:
        """Those of them that change something."""
        return tuple(call.key for call in self.calls if all_tools()[call.tool].changes)


@dataclass(frozen=True, slots=True)
class _Request:
    kind: str
    instruction: str
    answer: Any


Maker = Callable[[Planner], _Request]


def draft(desk: Desk, rng: Rng, split: str, difficulty: str) -> Draft[Errand]:
    """Draw a request of a difficulty."""
    wide = difficulty == "retrieval"
    world = world_of(split, rng.below(WORLDS[split]), wide)
    makers = MAKERS[difficulty]
    make = makers[rng.below(len(makers))]
    while True:
        connection = desk.lend(world)
        planner = Planner(rng, split, world, connection)
        try:
            request = make(planner)
            planner.need_searches()
            break
        except Again:
            continue
        finally:
            desk.take_back(world, connection)
    calls = tuple(planner.calls)
    tools = None if wide else _offer(rng, calls, OFFERED[difficulty])
    named = {parameter: tuple(values) for parameter, values in planner.named.items()}
    errand = Errand(world, calls, str(request.answer), tools, named)
    return Draft(request.instruction, errand, request.kind, None if wide else len(calls) + 1)


def _offer(rng: Rng, calls: tuple[Call, ...], count: int) -> tuple[str, ...]:
    """The tools that a plan takes, those that look like them, and others by chance."""
    needed = dict.fromkeys(call.tool for call in calls)
    twins = dict.fromkeys(twin for name in needed for twin in CORE[name].twins)
    chosen = dict.fromkeys(list({**needed, **twins})[: max(count, len(needed))])
    dice = 0
    while len(chosen) < count:  # one throw does for eleven tools
        dice, place = divmod(dice or rng.bits(), len(_NAMES))
        chosen[_NAMES[place]] = None
    return tuple(sorted(chosen, key=PLACE.__getitem__))


_NAMES = tuple(CORE)


# ---- the sorts of requests ------------------------------------------------------------------------------------------


def _question(planner: Planner, ask: Ask, calls: int, kind: str) -> _Request:
    asked = planner.ask(ask, calls)
    return _request(planner, kind, planner.say(phrases().frames["questions"], a=asked.words), asked.value)


def _request(planner: Planner, kind: str, text: str, answer: Any) -> _Request:
    """A request; Again where its own words hold the answer."""
    said = str(answer)
    if not said.isdigit() and said.casefold() in text.casefold():
        raise Again
    return _Request(kind, text[0].upper() + text[1:], answer)


@cache
def _asks(calls: int, twins: bool = False) -> tuple[Ask, ...]:
    """Questions that this many calls can answer; with `twins` those whose tool looks like another."""
    return tuple(ask for ask in phrases().asks if possible(ask.source, calls - 1) and (not twins or _real_twins(ask)))


def _real_twins(ask: Ask) -> list[str]:
    """The look-alikes of a question's tool that take the same parameters."""
    tool = CORE[ask.tool]
    return [twin for twin in tool.twins if CORE[twin].parameters == tool.parameters]


def chain(calls: int) -> Maker:
    """A question that a chain of this many calls answers."""

    def make(planner: Planner) -> _Request:
        kind = "single" if calls == 1 else "chain"
        return _question(planner, planner.rng.choice(_asks(calls)), calls, kind)

    return make


def lookalike(calls: int) -> Maker:
    """A question whose last tool has a look-alike that would answer something else."""

    def make(planner: Planner) -> _Request:
        ask = planner.rng.choice(_asks(calls, twins=True))
        request = _question(planner, ask, calls, "lookalike")
        if any(str(request.answer) in _answers(planner, twin) for twin in _real_twins(ask)):
            raise Again
        return request

    return make


def _answers(planner: Planner, twin: str) -> set[str]:
    """All that a look-alike would say in the place of the last call."""
    try:
        answer = CORE[twin].on(planner.connection, planner.calls[-1].arguments)
    except Refused:
        return set()
    found = rows_of(answer)
    return {str(len(found)), *(str(value) for row in found for value in row.values())}


def compare(calls: int) -> Maker:
    """A difference or a sum of two numbers, in this many calls together."""

    def make(planner: Planner) -> _Request:
        first = 1 + planner.rng.below(calls - 1)
        ask = planner.rng.choice(_numbers(first, calls - first))
        one, other = planner.ask(ask, first), planner.ask(ask, calls - first)
        return _reckoned(planner, "compare", one.words, one.value, other.words, other.value)

    return make


@cache
def _numbers(*shares: int) -> tuple[Ask, ...]:
    """The questions for numbers that can be answered with each of these numbers of calls."""
    return tuple(
        ask for ask in phrases().asks if ask.number and all(possible(ask.source, calls - 1) for calls in shares)
    )


def _reckoned(planner: Planner, kind: str, one: str, first: int, other: str, second: int) -> _Request:
    frame, answer = ("sums", first + second) if planner.rng.below(2) else ("differences", abs(first - second))
    return _request(planner, kind, planner.say(phrases().frames[frame], a=one, b=other), answer)


def change(calls: int) -> Maker:
    """A request that changes one thing, in this many calls."""

    def make(planner: Planner) -> _Request:
        do, asked = planner.change(planner.rng.choice(_changes(calls)), calls)
        return _request(planner, "change", planner.say(phrases().frames["orders"], do=do, a=asked.words), asked.value)

    return make


@cache
def _changes(calls: int, orders: bool | None = None) -> tuple[Change, ...]:
    """Changes that can take this many calls; of the orders, of the calendar, or of either."""
    return tuple(
        change
        for change in phrases().changes
        if divisions(tuple(change.slots.values()), calls - 1) and orders in (None, not _of_calendar(change))
    )


def _of_calendar(change: Change) -> bool:
    return "event" in change.tool or "attendee" in change.tool


def changes(calls: int) -> Maker:
    """A request that changes a thing in the calendar and an order, in either order, in this many calls."""

    def make(planner: Planner) -> _Request:
        first = 2 + planner.rng.below(calls - 3)
        orders = bool(planner.rng.below(2))
        do, _ = planner.change(planner.rng.choice(_changes(first, orders)), first)
        then, asked = planner.change(planner.rng.choice(_changes(calls - first, not orders)), calls - first)
        both = f"{do}{planner.say(phrases().frames['then'])} {then}"
        text = planner.say(phrases().frames["orders"], do=both, a=asked.words)
        return _request(planner, "changes", text, asked.value)

    return make


def untooled(planner: Planner) -> _Request:
    """A question that says all that is needed to answer it."""
    kind = planner.rng.choice(sorted(phrases().untooled))
    parts = _RECKONINGS[kind](planner)
    text = planner.say(phrases().untooled[kind], **parts)
    return _request(planner, "no_tool", text, parts["answer"])


def _end(planner: Planner) -> dict[str, Any]:
    start, minutes = 15 * (32 + planner.rng.below(40)), 20 + 5 * planner.rng.below(30)
    return {"start": clock(start), "m": minutes, "answer": clock(start + minutes)}


def _price(planner: Planner) -> dict[str, Any]:
    n, price = 2 + planner.rng.below(8), 11 + planner.rng.below(80)
    thing = planner.rng.choice(planner.world.names["product"])
    return {"n": n, "p": price, "thing": thing, "answer": n * price}


def _degrees(planner: Planner) -> dict[str, Any]:
    low, rise = planner.rng.below(12), 11 + planner.rng.below(14)
    return {"a": low, "b": low + rise, "city": planner.rng.choice(planner.world.names["city"]), "answer": rise}


def _years(planner: Planner) -> dict[str, Any]:
    year, n = 1900 + planner.rng.below(90), 12 + planner.rng.below(40)
    return {"y": year, "n": n, "answer": year + n}


def _letters(planner: Planner) -> dict[str, Any]:
    city = planner.rng.choice(planner.world.names["city"])
    return {"city": city, "answer": city[::-1].lower()}


def _change_due(planner: Planner) -> dict[str, Any]:
    total, note = 21 + planner.rng.below(68), planner.rng.choice((100, 200))
    return {"total": total, "note": note, "answer": note - total}


_RECKONINGS: Mapping[str, Callable[[Planner], dict[str, Any]]] = {
    "meeting_end": _end,
    "price": _price,
    "degrees": _degrees,
    "years": _years,
    "letters": _letters,
    "change": _change_due,
}


def _figure(planner: Planner) -> tuple[str, int]:
    """A number of a thing that only a themed tool knows."""
    theme = planner.rng.choice(THEMES)
    attribute = planner.rng.choice(theme.attributes)
    name = planner.name("name", planner.rng.choice(planner.world.names[f"theme:{theme.noun}"]))
    answer = planner.call(themed_name("get", theme.noun, attribute), name=name)
    words = planner.say(phrases().frames["figures"], attribute=attribute, noun=theme.noun, x=name)
    return words, rows_of(answer)[0][attribute.replace(" ", "_")]


def figure(planner: Planner) -> _Request:
    """A question about a number that a themed tool knows."""
    words, value = _figure(planner)
    return _request(planner, "themed", planner.say(phrases().frames["questions"], a=words), value)


def figures(planner: Planner) -> _Request:
    """A difference or a sum of two such numbers."""
    (one, first), (other, second) = _figure(planner), _figure(planner)
    return _reckoned(planner, "themed", one, first, other, second)


def superlative(planner: Planner) -> _Request:
    """A question about the first, or about all, of a sort of things."""
    theme = planner.rng.choice(THEMES)
    attribute = planner.rng.choice(theme.attributes)
    verb, frame, column = planner.rng.choice((("top", "tops", "name"), ("total", "totals", "total")))
    answer = planner.call(themed_name(verb, theme.noun, attribute))
    words = planner.say(phrases().frames[frame], attribute=attribute, noun=theme.noun)
    text = planner.say(phrases().frames["questions"], a=words)
    return _request(planner, "themed", text, rows_of(answer)[0][column])


MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "easy": (chain(1), chain(1), chain(1), lookalike(1), lookalike(2), change(1), change(1), change(2), untooled),
    "medium": (
        *(chain(2), chain(2), chain(3), chain(3), lookalike(2), lookalike(3), change(2), change(3), change(3)),
        *(compare(2), compare(3), untooled),
    ),
    "hard": (
        *(chain(4), chain(5), chain(6), lookalike(4), compare(4), compare(5), compare(6)),
        *(change(4), change(5), changes(4), changes(5), changes(6)),
    ),
    "retrieval": (
        *(figure, figures, figures, superlative, chain(1), chain(2), chain(3), lookalike(2)),
        *(change(1), change(2), compare(2)),
    ),
}
"""The sorts of requests of each difficulty; each is as frequent as it is often named."""
