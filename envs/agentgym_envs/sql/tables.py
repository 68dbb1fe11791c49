"""The database of a task: how it calls its tables and columns, how it writes its values, and the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentgym_envs.sql import words
from agentgym_envs.sql.domains import DOMAINS, Domain, Sort
from agentgym_envs.sql.guard import Row, Table
from agentgym_py.rng import Rng

_LEAST, _MORE = (8, 24, 45), (4, 8, 12)
_STYLES: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "upper": str.upper,
    "lower": str.lower,
    "code": lambda value: value[:3].upper(),
}


@dataclass(frozen=True, slots=True)
class Names:
    """What one table and its columns are called."""

    table: str
    label: str
    """The column of its rows' names; empty where they have none."""
    amount: str
    choice: str
    link: str
    """The column that points to the table before; empty in the first."""
    stored: Mapping[str, str]
    """How the values of its choice are written: in words, and in the database."""

    def columns(self) -> list[str]:
        """In order, the key first."""
        return ["id", *filter(None, (self.label, self.choice, self.amount, self.link))]


@dataclass(frozen=True, slots=True)
class Layout:
    """A database without its numbers: what is drawn again for its twin are numbers, choices and links."""

    domain: Domain
    names: tuple[Names, Names, Names]
    labels: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    """The names of the rows; empty texts in the third table."""


def layout(rng: Rng, split: str, plain: bool) -> Layout:
    """Draw one; with `plain` the values are written as people write them."""
    domain = rng.choice(DOMAINS)
    names: list[Names] = []
    for level, sort in enumerate(domain.sorts):
        link = f"{domain.sorts[level - 1].one}_id" if level else ""
        label = rng.choice(("name", "title")) if sort.labels == "titles" else "name" if sort.labels else ""
        written = _STYLES["plain" if plain else rng.choice(tuple(_STYLES))]
        stored = {value: written(value) for value in sort.choice.values}
        table, amount, choice = rng.choice(sort.names), rng.choice(sort.amount.names), rng.choice(sort.choice.names)
        names.append(Names(table, label, amount, choice, link, stored))
    first, second, third = (_labels(rng, sort, split, level) for level, sort in enumerate(domain.sorts))
    return Layout(domain, (names[0], names[1], names[2]), (first, second, third))


def _labels(rng: Rng, sort: Sort, split: str, level: int) -> tuple[str, ...]:
    count = _LEAST[level] + rng.below(_MORE[level] + 1)
    if not sort.labels:
        return ("",) * count
    return tuple(rng.sample((words.people if sort.labels == "people" else words.titles)(split), count))


def rows(made: Layout, rng: Rng) -> tuple[list[Row], list[Row], list[Row]]:
    """Draw everything that is not in the layout."""
    first, second, third = (_rows_of(made, level, rng) for level in range(3))
    return first, second, third


def _rows_of(made: Layout, level: int, rng: Rng) -> list[Row]:
    sort, names, labels = made.domain.sorts[level], made.names[level], made.labels[level]
    values, low, span = list(names.stored.values()), sort.amount.low, sort.amount.high - sort.amount.low + 1
    above, kinds, below = len(made.labels[level - 1]), len(values), rng.below
    drawn: list[Row] = []
    for number, label in enumerate(labels, 1):
        name = (label,) if label else ()
        link = (1 + below(above),) if level else ()
        drawn.append((number, *name, values[below(kinds)], low + below(span), *link))
    return drawn


def tables(made: Layout, filled: tuple[list[Row], list[Row], list[Row]]) -> list[Table]:
    """The tables as they stand in the database."""
    types = {"id": "INTEGER PRIMARY KEY"}
    built = []
    for names, content in zip(made.names, filled, strict=True):
        texts = (names.label, names.choice)
        columns = [f"{each} {types.get(each) or ('TEXT' if each in texts else 'INTEGER')}" for each in names.columns()]
        built.append(Table(names.table, tuple(columns), content))
    return built
