"""The database of a task: names of tables and columns, notation of values, and rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentgym_envs.sql import words
from agentgym_envs.sql.domains import DOMAINS, Domain, Entity
from agentgym_envs.sql.guard import Row, Table
from agentgym_py.rng import Rng

_MIN_ROWS, _EXTRA_ROWS = (8, 24, 45), (4, 8, 12)
_STYLES: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "upper": str.upper,
    "lower": str.lower,
    "code": lambda value: value[:3].upper(),
}


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a table and its columns, and the notation of its values."""

    table: str
    label: str
    """The column with the rows' names; empty if they have none."""
    amount: str
    choice: str
    link: str
    """The column that refers to the previous table; empty in the first."""
    stored: Mapping[str, str]
    """Values of the choice column: the word, and how the database writes it."""

    def columns(self) -> list[str]:
        """Return the columns in order, the key first."""
        return ["id", *filter(None, (self.label, self.choice, self.amount, self.link))]


@dataclass(frozen=True, slots=True)
class Layout:
    """A database without its amounts, choices and links, which are drawn again for its twin."""

    domain: Domain
    names: tuple[Names, Names, Names]
    labels: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    """Names of the rows by table; empty texts in the third."""


def draw_layout(rng: Rng, split: str, plain: bool) -> Layout:
    """Draw a layout; with `plain` the database writes values as the question does."""
    domain = rng.choice(DOMAINS)
    names: list[Names] = []
    for level, entity in enumerate(domain.entities):
        link = f"{domain.entities[level - 1].singular}_id" if level else ""
        label = rng.choice(("name", "title")) if entity.labels == "titles" else "name" if entity.labels else ""
        style = _STYLES["plain" if plain else rng.choice(tuple(_STYLES))]
        stored = {value: style(value) for value in entity.choice.values}
        table, amount, choice = (
            rng.choice(entity.names),
            rng.choice(entity.amount.names),
            rng.choice(entity.choice.names),
        )
        names.append(Names(table, label, amount, choice, link, stored))
    first, second, third = (_labels(rng, entity, split, level) for level, entity in enumerate(domain.entities))
    return Layout(domain, (names[0], names[1], names[2]), (first, second, third))


def _labels(rng: Rng, entity: Entity, split: str, level: int) -> tuple[str, ...]:
    count = _MIN_ROWS[level] + rng.below(_EXTRA_ROWS[level] + 1)
    if not entity.labels:
        return ("",) * count
    return tuple(rng.sample((words.people if entity.labels == "people" else words.titles)(split), count))


def draw_rows(layout: Layout, rng: Rng) -> tuple[list[Row], list[Row], list[Row]]:
    """Draw the rows of the three tables."""
    first, second, third = (_draw_table(layout, level, rng) for level in range(3))
    return first, second, third


def _draw_table(layout: Layout, level: int, rng: Rng) -> list[Row]:
    entity, names, labels = layout.domain.entities[level], layout.names[level], layout.labels[level]
    values, low, span = list(names.stored.values()), entity.amount.low, entity.amount.high - entity.amount.low + 1
    above, kinds, below = len(layout.labels[level - 1]), len(values), rng.below
    rows: list[Row] = []
    for number, label in enumerate(labels, 1):
        name = (label,) if label else ()
        link = (1 + below(above),) if level else ()
        rows.append((number, *name, values[below(kinds)], low + below(span), *link))
    return rows


def build_tables(layout: Layout, rows: tuple[list[Row], list[Row], list[Row]]) -> list[Table]:
    """Return the definitions of the tables."""
    types = {"id": "INTEGER PRIMARY KEY"}
    tables = []
    for names, content in zip(layout.names, rows, strict=True):
        texts = (names.label, names.choice)
        columns = [f"{name} {types.get(name) or ('TEXT' if name in texts else 'INTEGER')}" for name in names.columns()]
        tables.append(Table(names.table, tuple(columns), content))
    return tables
