"""What a company consists of, and what drawing its tasks needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentgym_envs.service.desk import Call, Desk, Row, Tables, shift
from agentgym_envs.service.policy import COMMON, Rule
from agentgym_envs.service.tool import Tool, Verdict
from agentgym_envs.service.words import Words, draw_words
from agentgym_py.rng import Rng

SIZES: Mapping[str, int] = {"easy": 2, "medium": 3, "hard": 3}
"""Difficulty to the number of customers."""
_FIRST_TODAY, _TODAYS = "2026-01-05", 720
_FIRST_TRAINING_TODAY, _TRAINING_TODAYS = "2014-01-01", 9_000


Fact = tuple[str, str]
"""The wording of a statement, and its value."""


class NoFitError(Exception):
    """The draw does not fit the database; another one may."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Something that a customer wants."""

    kind: str
    """A key of the domain's wishes; it chooses the wordings."""
    facts: Mapping[str, Fact]
    """Topic to what the customer says of it when asked."""
    reads: tuple[Call, ...] = ()
    """Lookups that show everything on which the decision depends."""
    call: Call | None = None
    """The change that the customer wants."""
    answer: str = ""
    """What the customer asks for."""
    faults: tuple[str, ...] = ()
    """What is wrong with the settings of the customer's own device."""
    symptom: str = ""
    """What else is wrong with it, because of the row that `call` mends."""
    no_tool: bool = False
    """Whether no tool can fulfil it, so that a person must."""
    codes: tuple[str, ...] = ()
    """The rules that forbid `call`."""
    why: str = ""
    """The facts that decide, see `Verdict`."""
    first: Call | None = None
    """The change asked for at first, if the customer changes their mind when it is proposed."""
    first_why: str = ""
    """The facts that decide about `first`."""
    first_facts: Mapping[str, Fact] | None = None
    """The facts before the customer has changed their mind."""
    new_topic: str = ""
    """The topic that changes with their mind."""
    given: tuple[str, ...] = ()
    """The topics that the customer mentions at once."""
    is_fallback: bool = False
    """Whether it comes up when the wish before it is refused."""

    @property
    def is_repair(self) -> bool:
        """Whether something is wrong with the customer's device."""
        return bool(self.faults or self.symptom)

    @property
    def all_facts(self) -> list[Fact]:
        """What the customer says of it, before and after they have changed their mind."""
        return [*self.facts.values(), *(self.first_facts or {}).values()]


def called(described: Mapping[str, Sequence[str]], words: str) -> list[str]:
    """Return the ids of the rows that words describe."""
    return [rid for rid, texts in described.items() if words in texts]


class Drafter:
    """Draws the database of a task and the wishes of its caller."""

    def __init__(self, domain: Domain, rng: Rng, split: str, difficulty: str) -> None:
        self.domain, self.rng, self.split, self.difficulty = domain, rng, split, difficulty
        first, count = (
            (_FIRST_TRAINING_TODAY, _TRAINING_TODAYS) if split == "train" else (_FIRST_TODAY, _TODAYS)
        )  # fmt: skip
        self.today = shift(first, rng.below(count))
        self.words: Words = draw_words(rng, split)
        self.numbers = {name: rng.choice(values) for name, values in domain.numbers.items()}
        self.caller = ""
        """The id of the customer who calls, set by the domain's `seed`."""
        self.identity: dict[str, Fact] = {}
        """Topic to what the caller says of it, for one way to identify them; set by the domain's `seed`."""
        self.find: Call = ("", {})
        """The call that identifies the caller; set by the domain's `seed`."""
        self.foreign = False
        """Whether the present wish is about another customer's row, if it can be."""
        self._ids: set[str] = set()
        self.tables: Tables = domain.seed(self)
        self.desk = Desk(self.tables, self.today, self.numbers)

    def new_id(self, letter: str) -> str:
        """Draw an id that is new."""
        return self.new_number(100, 900, letter)

    def new_number(self, first: int, count: int, prefix: str = "") -> str:
        """Draw one of `count` numbers from `first` on that is new with this prefix."""
        while True:
            text = f"{prefix}{first + self.rng.below(count)}"
            if text not in self._ids:
                self._ids.add(text)
                return text

    def name(self) -> str:
        """Draw a person's name."""
        return f"{self.rng.choice(self.words['first'])} {self.rng.choice(self.words['last'])}"

    def one_of(self, items: Sequence[Any]) -> Any:
        """Draw one of the items; NoFitError if there is none."""
        if not items:
            raise NoFitError
        return self.rng.choice(items)

    def two_of(self, items: Sequence[Any]) -> list[Any]:
        """Draw two different items; NoFitError if there are fewer."""
        if len(items) < 2:
            raise NoFitError
        return self.rng.sample(items, 2)

    def identify_by(self, way: tuple[str, tuple[str, ...]], row: Row) -> None:
        """Let the caller, whose row this is, be found by a tool with these fields."""
        tool, names = way
        self.identity = {name: (name, str(row[name])) for name in names}
        self.find = (tool, {name: row[name] for name in names})

    def own(self, table: str) -> list[str]:
        """Return the ids of the caller's rows."""
        return [rid for rid, row in self.tables[table].items() if row["customer"] == self.caller]


@dataclass(frozen=True, slots=True)
class Domain:
    """A company: its data, tools, rules and customers' wishes."""

    name: str
    title: str
    """What it is: `a store`."""
    tools: Mapping[str, Tool]
    rules: tuple[Rule, ...]
    numbers: Mapping[str, tuple[int, ...]]
    """Number of the policy to its possible values."""
    topics: tuple[str, ...]
    """What a customer can be asked about."""
    seed: Callable[[Drafter], Tables]
    """Draws the database and sets the drafter's caller."""
    wishes: Mapping[str, Callable[[Drafter], Wish]]
    """Kind to a function that draws such a wish; NoFitError if none fits the database."""
    described: Callable[[Desk, str], Mapping[str, Sequence[str]]]
    """Returns the ids of a customer's rows, each with the words by which the customer may describe it."""
    options: Callable[[Desk, str], tuple[list[Call], list[Call]]]
    """Returns lookups and changes of a customer's rows that need no text, for `actions`."""
    steps: Mapping[str, str] | None = None
    """What the customer can do on their own device: a step to the fault that it repairs, empty for none."""
    symptoms: Mapping[str, tuple[str, str, object]] | None = None
    """What a row does to the customer's device: a symptom to the table, the field and its value that cause it."""

    @property
    def refusals(self) -> tuple[str, ...]:
        """The names of the rules that can forbid a wish."""
        return tuple(rule.code for rule in self.rules[len(COMMON) - 1 :])


def make_wish(
    kind: str, facts: Sequence[Fact], reads: Sequence[Call], call: Call | None = None, *, answer: str = ""
) -> Wish:
    """Return a wish; the topic of a fact is the name of its wording, without `_with`."""
    new = [read for number, read in enumerate(reads) if read not in reads[:number]]
    return Wish(kind, {fact[0].removesuffix("_with"): fact for fact in facts}, tuple(new), call, answer)


def or_first(wish: Wish, parameter: str, value: object, fact: Fact) -> Wish:
    """Let a customer ask for another value at first; `fact` says it, and its wording is its topic."""
    assert wish.call
    name, arguments = wish.call
    facts = {**wish.facts, fact[0]: fact}
    return replace(wish, first=(name, {**arguments, parameter: value}), first_facts=facts, new_topic=fact[0])


def judge(tool: Tool, desk: Desk, caller: str, arguments: Mapping[str, Any]) -> Verdict:
    """Return what the policy says of a change."""
    assert tool.judge
    if tool.owner(desk, arguments) != caller:
        return Verdict(("own_data",), f"{arguments[tool.about[0]]} is not theirs")
    return tool.judge(desk, **arguments)
