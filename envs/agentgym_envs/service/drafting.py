"""Drawing tasks: a company, a customer and one or two wishes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentgym_envs.service.conversation import begin, needed_calls
from agentgym_envs.service.customer import open_conversation
from agentgym_envs.service.desk import Call, Desk
from agentgym_envs.service.domain import Drafter, NoFitError, Wish, judge
from agentgym_envs.service.experts import plan
from agentgym_envs.service.puzzle import Puzzle, spellings
from agentgym_envs.service.talk import DOMAINS
from agentgym_py.env.generated import Draft
from agentgym_py.rng import Rng

_TRIES = 12
"""The draws on a database before a new one is drawn."""
_REFUSED = {"easy": 4, "medium": 3, "hard": 3}
"""Difficulty to n: one of n changes must be refused."""


def draft(rng: Rng, split: str, difficulty: str) -> Draft[Puzzle]:
    """Draw a task of a difficulty."""
    domain = DOMAINS[rng.choice(tuple(DOMAINS))]
    # drawn once, so that wishes that seldom fit a database are as frequent as others
    kinds = _draw_kinds(rng, tuple(domain.wishes), difficulty)
    refused = tuple(rng.below(_REFUSED[difficulty]) == 0 for _ in kinds)
    fallback = difficulty == "hard" and rng.below(4) == 0
    if fallback:
        refused = (True, False)
    while True:
        drafter = Drafter(domain, rng, split, difficulty)
        for _ in range(_TRIES):
            try:
                wishes = _draw_wishes(drafter, kinds, refused)
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


def _draw_wishes(drafter: Drafter, kinds: tuple[str, ...], refused: tuple[bool, ...]) -> tuple[Wish, ...]:
    wishes = tuple(_draw_wish(drafter, kind, must) for kind, must in zip(kinds, refused, strict=True))
    touched = [_row(drafter, wish.call) for wish in wishes if wish.call]
    codes = [code for wish in wishes for code in wish.codes]
    if len(set(touched)) < len(touched) or len(set(codes)) < len(codes):
        raise NoFitError  # two wishes for one row might exclude each other
    return wishes


def _row(drafter: Drafter, call: Call) -> str:
    return str(call[1][drafter.domain.tools[call[0]].about[0]])


def _draw_wish(drafter: Drafter, kind: str, refused: bool) -> Wish:
    """Draw a wish of a kind that must be refused or not, with what the policy says of it."""
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
    rng, desk = drafter.rng, Desk(drafter.tables, drafter.today, drafter.numbers)
    for call in needed_calls(wishes):
        run = drafter.domain.tools[call[0]].run
        assert run
        desk.history.append((call, {}))
        run(desk, **call[1])
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
        "refuse": bool(wish.codes), "transfer": wish.no_tool, "answer": bool(wish.answer), "repair": bool(wish.faults),
        "change of mind": wish.first is not None, "change": True,
    }  # fmt: skip
    return next(name for name, holds in features.items() if holds)
