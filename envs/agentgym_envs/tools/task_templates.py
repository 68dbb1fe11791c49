"""The requests of each difficulty, with their plans and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from agentgym_envs.tools.catalogue import CORE, ORDER, all_tools, themed_name
from agentgym_envs.tools.database import DATABASES, ConnectionPool, Database, clock, database_of
from agentgym_envs.tools.plans import Call, Key, Planner, Redraw, divisions, possible
from agentgym_envs.tools.themes import THEMES
from agentgym_envs.tools.tool import ToolError, rows_of, to_json
from agentgym_envs.tools.wording import Ask, Change, wordings
from agentgym_py.env.generated import Draft
from agentgym_py.rng import Rng

OFFERED = {"easy": 8, "medium": 14, "hard": 20}
"""The number of tools in an episode, beside `finish`; `retrieval` has a search for tools instead."""


@dataclass(frozen=True)
class Puzzle:
    """The hidden part of a task."""

    database: Database
    calls: tuple[Call, ...]
    """The needed calls, ordered so that the arguments of each are known."""
    notes: tuple[str, ...]
    """What the expert thinks before each call: the part of the request that it is for."""
    answer: str
    answer_note: str
    """How the answer follows from what the request and the calls have shown."""
    field: str
    """The field of an answer that is asked for; empty if there is none."""
    tools: tuple[str, ...] | None
    """The available tools, without `finish` and `undo_last_change`; None if they must be searched."""
    named: Mapping[str, tuple[Any, ...]]
    """The values that the request names, by parameter."""

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The keys of the needed calls."""
        return tuple(call.key for call in self.calls)

    @cached_property
    def subgoals(self) -> int:
        """The number of subgoals: calls, answer, and the right state or no call at all."""
        return len(self.calls) + 1 + bool(self.changes) + (not self.calls)

    @cached_property
    def names(self) -> frozenset[str]:
        """The needed tools."""
        return frozenset(call.tool for call in self.calls)

    @cached_property
    def changes(self) -> tuple[Key, ...]:
        """The keys of the needed calls that change something."""
        return tuple(call.key for call in self.calls if all_tools()[call.tool].changes)


@dataclass(frozen=True, slots=True)
class _Request:
    kind: str
    instruction: str
    answer: Any
    note: str
    """See `Puzzle.answer_note`."""
    field: str
    """See `Puzzle.field`."""


Template = Callable[[Planner], _Request]


def draft(connections: ConnectionPool, rng: Rng, split: str, difficulty: str) -> Draft[Puzzle]:
    """Draw a request of a difficulty."""
    database = database_of(split, rng.below(DATABASES[split]), difficulty == "retrieval")
    return draft_on(database, connections, rng, split, difficulty)


def draft_on(database: Database, connections: ConnectionPool, rng: Rng, split: str, difficulty: str) -> Draft[Puzzle]:
    """Draw a request to this database."""
    wide = difficulty == "retrieval"
    templates = TEMPLATES[difficulty]
    make = templates[rng.below(len(templates))]
    while True:
        connection = connections.acquire(database)
        planner = Planner(rng, split, database, connection)
        try:
            request = make(planner)
            planner.require_lookups()
            break
        except Redraw:
            continue
        finally:
            connections.release(database, connection)
    calls = tuple(planner.calls)
    tools = None if wide else _offer(rng, calls, OFFERED[difficulty])
    named = {parameter: tuple(values) for parameter, values in planner.named.items()}
    puzzle = Puzzle(
        database, calls, tuple(planner.notes), str(request.answer), request.note, request.field, tools, named
    )
    return Draft(request.instruction, puzzle, request.kind, None if wide else len(calls) + 1)


def _offer(rng: Rng, calls: tuple[Call, ...], count: int) -> tuple[str, ...]:
    """Draw the available tools: those of the plan, similar ones, and random ones."""
    needed = dict.fromkeys(call.tool for call in calls)
    twins = dict.fromkeys(twin for name in needed for twin in CORE[name].twins)
    chosen = dict.fromkeys(list({**needed, **twins})[: max(count, len(needed))])
    dice = 0
    while len(chosen) < count:  # one draw of bits is enough for eleven tools
        dice, place = divmod(dice or rng.bits(), len(_NAMES))
        chosen[_NAMES[place]] = None
    return tuple(sorted(chosen, key=ORDER.__getitem__))


_NAMES = tuple(CORE)


# ---- kinds of requests ----------------------------------------------------------------------------------------------


def _question(planner: Planner, ask: Ask, calls: int, kind: str) -> _Request:
    question = planner.ask(ask, calls)
    return _request(planner, kind, _question_text(planner, question.words), question.value, ask.field or ask.pick)


def _question_text(planner: Planner, words: str) -> str:
    """Draw a question, for a noun phrase or, in training, a clause such as "who directed it" or a whole question."""
    if words.endswith("?"):
        return words
    return planner.say(wordings().frames["questions" if _is_noun_phrase(planner, words) else "clauses"], a=words)


def _is_noun_phrase(planner: Planner, words: str) -> bool:
    return planner.split != "train" or words.startswith("the ")


def _request(planner: Planner, kind: str, text: str, answer: Any, field: str, note: str = "") -> _Request:
    """Make a request; Redraw if its own words contain the answer."""
    answer_text = str(answer)
    if not answer_text.isdigit() and answer_text.casefold() in text.casefold():
        raise Redraw
    return _Request(kind, _sentence(text), answer, note or f'The answer is "{field}": {to_json(answer)}.', field)


@cache
def _asks(calls: int, twins: bool = False) -> tuple[Ask, ...]:
    """List the questions that this many calls can answer; with `twins`, those of a tool with a similar one."""
    return tuple(ask for ask in wordings().asks if possible(ask.source, calls - 1) and (not twins or _real_twins(ask)))


def _real_twins(ask: Ask) -> list[str]:
    """List the similar tools with the same parameters as a question's tool."""
    tool = CORE[ask.tool]
    return [twin for twin in tool.twins if CORE[twin].parameters == tool.parameters]


def chain(calls: int) -> Template:
    """Make a template of questions that a chain of this many calls answers."""

    def make(planner: Planner) -> _Request:
        kind = "single" if calls == 1 else "chain"
        return _question(planner, planner.rng.choice(_asks(calls)), calls, kind)

    return make


def lookalike(calls: int) -> Template:
    """Make a template of questions whose last tool has a similar one with another answer."""

    def make(planner: Planner) -> _Request:
        ask = planner.rng.choice(_asks(calls, twins=True))
        request = _question(planner, ask, calls, "lookalike")
        if any(str(request.answer) in _answers(planner, twin) for twin in _real_twins(ask)):
            raise Redraw
        return request

    return make


def _answers(planner: Planner, twin: str) -> set[str]:
    """Return all that a similar tool would answer in place of the last call."""
    try:
        answer = CORE[twin].on(planner.connection, planner.calls[-1].arguments)
    except ToolError:
        return set()
    rows = rows_of(answer)
    return {str(len(rows)), *(str(value) for row in rows for value in row.values())}


def compare(calls: int) -> Template:
    """Make a template of differences or sums of two numbers, with this many calls in total."""

    def make(planner: Planner) -> _Request:
        first = 1 + planner.rng.below(calls - 1)
        ask = planner.rng.choice(_numbers(first, calls - first))
        one, other = planner.ask(ask, first), planner.ask(ask, calls - first)
        return _arithmetic(planner, "compare", one.words, one.value, other.words, other.value, ask.field)

    return make


@cache
def _numbers(*shares: int) -> tuple[Ask, ...]:
    """List the questions for a number that each of these numbers of calls can answer."""
    return tuple(
        ask for ask in wordings().asks if ask.number and all(possible(ask.source, calls - 1) for calls in shares)
    )


def _arithmetic(
    planner: Planner, kind: str, one: str, first: int, other: str, second: int, field: str = ""
) -> _Request:
    if planner.rng.below(2):
        frame, answer, note = "sums", first + second, f"{first} + {second} = {first + second}."
    else:
        frame, answer = "differences", abs(first - second)
        note = f"{max(first, second)} - {min(first, second)} = {answer}."
    if not (_is_noun_phrase(planner, one) and _is_noun_phrase(planner, other)):
        frame, one, other = f"{frame} of answers", *(_sentence(_question_text(planner, a)) for a in (one, other))
    return _request(planner, kind, planner.say(wordings().frames[frame], a=one, b=other), answer, field, note)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _order_text(planner: Planner, do: str, question: str) -> str:
    """Draw a request for a change, followed by a question."""
    frame = "orders with questions" if question.endswith("?") else "orders"
    return planner.say(wordings().frames[frame], do=do, a=question)


def change(calls: int) -> Template:
    """Make a template of requests for one change, with this many calls."""

    def make(planner: Planner) -> _Request:
        change = planner.rng.choice(_changes(calls))
        do, question = planner.change(change, calls)
        text = _order_text(planner, do, question.words)
        return _request(planner, "change", text, question.value, change.field)

    return make


@cache
def _changes(calls: int, orders: bool | None = None) -> tuple[Change, ...]:
    """List the changes that can take this many calls: of the orders, of the calendar, or of either."""
    return tuple(
        change
        for change in wordings().changes
        if divisions(tuple(change.slots.values()), calls - 1) and orders in (None, not _of_calendar(change))
    )


def _of_calendar(change: Change) -> bool:
    return "event" in change.tool or "attendee" in change.tool


def changes(calls: int) -> Template:
    """Make a template of requests for a change of the calendar and one of an order, with this many calls."""

    def make(planner: Planner) -> _Request:
        first = 2 + planner.rng.below(calls - 3)
        orders = bool(planner.rng.below(2))
        do, _ = planner.change(planner.rng.choice(_changes(first, orders)), first, asked=False)
        last = planner.rng.choice(_changes(calls - first, not orders))
        then, question = planner.change(last, calls - first)
        both = f"{do}{planner.say(wordings().frames['then'])} {then}"
        text = _order_text(planner, both, question.words)
        return _request(planner, "changes", text, question.value, last.field)

    return make


def no_tool_question(planner: Planner) -> _Request:
    """Draw a question that needs no tool."""
    kind = planner.rng.choice(sorted(wordings().untooled))
    parts = _NO_TOOL_QUESTIONS[kind](planner)
    text = planner.say(wordings().untooled[kind], **parts)
    return _request(planner, "no_tool", text, parts["answer"], "", parts["thought"])


def _end(planner: Planner) -> dict[str, Any]:
    start, minutes = 15 * (32 + planner.rng.below(40)), 20 + 5 * planner.rng.below(30)
    end = clock(start + minutes)
    return {
        "start": clock(start),
        "m": minutes,
        "answer": end,
        "thought": f"{clock(start)} + {minutes} minutes = {end}.",
    }


def _price(planner: Planner) -> dict[str, Any]:
    n, price = 2 + planner.rng.below(8), 11 + planner.rng.below(80)
    thing = planner.rng.choice(planner.database.names["product"])
    return {"n": n, "p": price, "thing": thing, "answer": n * price, "thought": f"{n} * {price} = {n * price}."}


def _degrees(planner: Planner) -> dict[str, Any]:
    low, rise = planner.rng.below(12), 11 + planner.rng.below(14)
    city, high = planner.rng.choice(planner.database.names["city"]), low + rise
    return {"a": low, "b": high, "city": city, "answer": rise, "thought": f"{high} - {low} = {rise}."}


def _years(planner: Planner) -> dict[str, Any]:
    year, n = 1900 + planner.rng.below(90), 12 + planner.rng.below(40)
    return {"y": year, "n": n, "answer": year + n, "thought": f"{year} + {n} = {year + n}."}


def _letters(planner: Planner) -> dict[str, Any]:
    city = planner.rng.choice(planner.database.names["city"])
    back = city[::-1].lower()
    return {"city": city, "answer": back, "thought": f"{' '.join(city.lower())} backwards: {' '.join(back)}."}


def _change_due(planner: Planner) -> dict[str, Any]:
    total, note = 21 + planner.rng.below(68), planner.rng.choice((100, 200))
    answer = note - total
    return {"total": total, "note": note, "answer": answer, "thought": f"{note} - {total} = {answer}."}


_NO_TOOL_QUESTIONS: Mapping[str, Callable[[Planner], dict[str, Any]]] = {
    "meeting_end": _end,
    "price": _price,
    "degrees": _degrees,
    "years": _years,
    "letters": _letters,
    "change": _change_due,
}


def _figure(planner: Planner) -> tuple[str, int]:
    """Draw a number of a thing for a themed tool, in words and as a value."""
    theme = planner.rng.choice(THEMES)
    attribute = planner.rng.choice(theme.attributes)
    name = planner.name("name", planner.rng.choice(planner.database.names[f"theme:{theme.noun}"]))
    answer = planner.call(themed_name("get", theme.noun, attribute), name=name)
    words = planner.say(wordings().frames["figures"], attribute=attribute, noun=theme.noun, x=name)
    planner.notes.append(f"{words}.")
    return words, rows_of(answer)[0][attribute.replace(" ", "_")]


def figure(planner: Planner) -> _Request:
    """Draw a question about a number for a themed tool."""
    words, value = _figure(planner)
    return _request(planner, "themed", _question_text(planner, words), value, "value")


def figures(planner: Planner) -> _Request:
    """Draw a question about the difference or sum of two such numbers."""
    (one, first), (other, second) = _figure(planner), _figure(planner)
    return _arithmetic(planner, "themed", one, first, other, second)


def superlative(planner: Planner) -> _Request:
    """Draw a question about the highest or the total number of a kind of things."""
    theme = planner.rng.choice(THEMES)
    attribute = planner.rng.choice(theme.attributes)
    verb, frame, column = planner.rng.choice((("top", "tops", "name"), ("total", "totals", "total")))
    answer = planner.call(themed_name(verb, theme.noun, attribute))
    words = planner.say(wordings().frames[frame], attribute=attribute, noun=theme.noun)
    planner.notes.append(f"{words}.")
    return _request(planner, "themed", _question_text(planner, words), rows_of(answer)[0][column], column)


TEMPLATES: Mapping[str, tuple[Template, ...]] = {
    "easy": (
        chain(1),
        chain(1),
        chain(1),
        lookalike(1),
        lookalike(2),
        change(1),
        change(1),
        change(2),
        no_tool_question,
    ),
    "medium": (
        *(chain(2), chain(2), chain(3), chain(3), lookalike(2), lookalike(3), change(2), change(3), change(3)),
        *(compare(2), compare(3), no_tool_question),
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
"""The templates of each difficulty; a template that is listed twice is twice as frequent."""
