"""Drawing tasks: a company, a customer and one or two wishes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from agentgym_envs.service.conversation import begin, needed_calls
from agentgym_envs.service.customer import open_conversation
from agentgym_envs.service.desk import Desk
from agentgym_envs.service.domain import Drafter, NoFitError, Wish, called, judge
from agentgym_envs.service.experts import plan
from agentgym_envs.service.puzzle import Puzzle, spellings
from agentgym_envs.service.talk import DOMAINS
from agentgym_py.env.generated import Draft
from agentgym_py.rng import Rng

_TRIES = 12
"""The draws on a database before a new one is drawn."""
_REFUSED = {"easy": 4, "medium": 3, "hard": 3}
"""Difficulty to n: one of n changes must be refused."""
_FOREIGN = 8
"""One of n changes that must be refused is of another customer's row, if it is of a row."""


def draft(rng: Rng, split: str, difficulty: str) -> Draft[Puzzle]:
    """Draw a task of a difficulty."""
    domain = DOMAINS[rng.choice(tuple(DOMAINS))]
    # drawn once, so that wishes that seldom fit a database are as frequent as others
    kinds = _draw_kinds(rng, tuple(domain.wishes), difficulty)
    refused = tuple(rng.below(_REFUSED[difficulty]) == 0 for _ in kinds)
    fallback = difficulty == "hard" and rng.below(4) == 0
    if fallback:
        refused = (True, False)
    foreign = tuple(must and rng.below(_FOREIGN) == 0 for must in refused)
    while True:
        drafter = Drafter(domain, rng, split, difficulty)
        for _ in range(_TRIES):
            try:
                wishes = _draw_wishes(drafter, tuple(zip(kinds, refused, foreign, strict=True)))
                return _make(drafter, wishes, fallback=fallback and bool(wishes[0].codes))
            except NoFitError:
                pass
        kinds = _draw_kinds(rng, tuple(domain.wishes), difficulty)


def _draw_kinds(rng: Rng, names: tuple[str, ...], difficulty: str) -> tuple[str, ...]:
    """Draw the kinds of a task's wishes; `no tool` is the wish that no tool fulfils, which comes last."""
    kinds = rng.sample(names, 2 if difficulty == "hard" else 1)
    if difficulty != "easy" and rng.below(16) == 0:
        kinds[-1] = "no tool"
    return tuple(kinds)


def _draw_wishes(drafter: Drafter, drawn: tuple[tuple[str, bool, bool], ...]) -> tuple[Wish, ...]:
    wishes = tuple(_draw_wish(drafter, *each) for each in drawn)
    touched = [row for wish in wishes if (row := _row(drafter, wish))]
    codes = [code for wish in wishes for code in wish.codes]
    if len(set(touched)) < len(touched) or len(set(codes)) < len(codes):
        raise NoFitError  # of two wishes for one row, one might exclude or answer the other
    return wishes


def _row(drafter: Drafter, wish: Wish) -> str:
    """Return the id of the row that a wish changes or asks about; empty if there is none."""
    call = wish.call or (wish.reads[-1] if wish.answer else None)
    return str(call[1][drafter.domain.tools[call[0]].about[0]]) if call else ""


def _require_description(drafter: Drafter, desk: Desk, wish: Wish) -> None:
    """Raise NoFitError if what the customer calls the row of a wish names another row as well, or none."""
    described = drafter.domain.described(desk, drafter.caller)
    for name, words in wish.facts.values():
        if name.endswith("_with") and called(described, words) != [_row(drafter, wish)]:
            raise NoFitError


def _fulfil(drafter: Drafter, wishes: Iterable[Wish]) -> Desk:
    """Return the database after the changes of the allowed wishes."""
    desk = Desk(drafter.tables, drafter.today, drafter.numbers)
    for call in needed_calls(wishes):
        run = drafter.domain.tools[call[0]].run
        assert run
        desk.history.append((call, {}))
        run(desk, **call[1])
    return desk


def _draw_wish(drafter: Drafter, kind: str, refused: bool, foreign: bool) -> Wish:
    """Draw a wish of a kind that must be refused or not, with what the policy says of it."""
    drafter.foreign = foreign
    if kind == "no tool":
        return Wish("no tool", {}, no_tool=True)
    wish = drafter.domain.wishes[kind](drafter)
    if wish.call:
        verdict = judge(drafter.domain.tools[wish.call[0]], drafter.desk, drafter.caller, wish.call[1])
        changes_mind = drafter.difficulty != "easy" and drafter.rng.below(2) == 0
        if bool(verdict.codes) != refused:
            raise NoFitError
        wish = _with_first(drafter, replace(wish, codes=verdict.codes, why=verdict.why), changes_mind)
    given = [topic for topic in wish.facts if drafter.difficulty == "easy" or drafter.rng.below(4) == 0]
    return replace(wish, given=tuple(given))


def _with_first(drafter: Drafter, wish: Wish, changes_mind: bool) -> Wish:
    """Keep the change asked for at first if the customer changes their mind, from an allowed change to another."""
    if wish.first and changes_mind and not wish.codes:
        name, arguments = wish.first
        verdict = judge(drafter.domain.tools[name], drafter.desk, drafter.caller, arguments)
        if not verdict.codes:
            return replace(wish, first_why=verdict.why)
    return replace(wish, first=None, first_facts=None)


def _make(drafter: Drafter, wishes: tuple[Wish, ...], *, fallback: bool) -> Draft[Puzzle]:
    rng, desk = drafter.rng, _fulfil(drafter, wishes)
    for wish in wishes:  # its own change may make it look different, because the customer then no longer speaks of it
        _require_description(drafter, drafter.desk, wish)
        _require_description(drafter, _fulfil(drafter, [other for other in wishes if other is not wish]), wish)
    if fallback:
        wishes = (wishes[0], replace(wishes[1], is_fallback=True))
    together = 2 if len(wishes) == 2 and not fallback and rng.below(2) else 1
    says_identity = drafter.difficulty == "easy" or rng.below(4) == 0
    puzzle = Puzzle(
        drafter.domain, drafter.split, drafter.today, drafter.numbers, drafter.tables, drafter.caller,
        drafter.identity, drafter.find, says_identity, wishes, together, desk.changed,
        spellings(drafter.tables, [fact for wish in wishes for fact in wish.all_facts]), rng.bits(),
    )  # fmt: skip
    talk = begin(puzzle)
    kind = f"{drafter.domain.name}: {' and '.join(map(_kind, wishes))}"
    return Draft(open_conversation(talk), puzzle, kind, len(plan(talk)))


def _kind(wish: Wish) -> str:
    """Return what there is to do for a wish."""
    features: Mapping[str, bool] = {
        "refuse": bool(wish.codes), "transfer": wish.no_tool, "answer": bool(wish.answer), "repair": wish.is_repair,
        "change of mind": wish.first is not None, "change": True,
    }  # fmt: skip
    return next(name for name, holds in features.items() if holds)
