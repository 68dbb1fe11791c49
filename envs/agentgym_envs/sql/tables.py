"""The database of a task: names of tables and columns, notation of values, and rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from agentgym_envs.sql import words
from agentgym_envs.sql.domains import DOMAINS, Domain, Entity, Extra
from agentgym_envs.sql.guard import Cell, Row, Table
from agentgym_envs.sql.subjects import draw_subject
from agentgym_py.rng import Rng

_MIN_ROWS, _EXTRA_ROWS = (8, 24, 45), (4, 8, 12)
_TRAINING_MIN_ROWS, _TRAINING_EXTRA_ROWS = (5, 10, 16), (6, 12, 18)
_OTHER_ROWS = 5
_STRIDE = 10_007
"""Distance between the values of an extra column: prime, so that all occur; cheaper than to draw each."""
_STYLES: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "upper": str.upper,
    "lower": str.lower,
    "code": lambda value: value[:3].upper(),
}
_TRAINING_STYLES: Mapping[str, Callable[[str], str]] = {
    **_STYLES,
    "capital": str.capitalize,
    "short": lambda value: value[:3].lower(),
    "long": lambda value: value[:4].upper(),
    "abbreviated": lambda value: f"{value[:3].capitalize()}.",
    "joined": lambda value: value.lower().replace(" ", "_"),
    "marked": lambda value: f"x-{value.lower()}",
}


@dataclass(frozen=True, slots=True)
class Plant:
    """A value that many rows of a twin have, so that it tells the right statement from others."""

    level: int
    """Place of its table in the chain of three."""
    column: str
    cell: Cell
    parent: int = 0
    """Key of the row to which all rows with the value refer; 0: they are any rows."""


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
    extras: tuple[Extra, ...] = ()
    order: tuple[int, ...] = ()
    """Order of the columns, as positions in the usual order; empty for that."""

    def columns(self) -> list[str]:
        """Return the columns in order; usually the key comes first."""
        usual = ["id", *filter(None, (self.label, self.choice, self.amount, self.link))]
        usual += [extra.name for extra in self.extras]
        return [usual[place] for place in self.order] if self.order else usual


@dataclass(frozen=True, slots=True)
class Layout:
    """A database without its amounts, choices and links, which are drawn again for its twin."""

    domain: Domain
    names: tuple[Names, Names, Names]
    labels: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    """Names of the rows by table; empty texts in the third."""
    others: tuple[Table, ...] = ()
    """Tables that no question is about."""

    def schema(self) -> list[tuple[str, list[str]]]:
        """Return the tables and their columns in the order in which the database shows them."""
        tables = [(names.table, names.columns()) for names in self.names]
        tables += [(table.name, [column.partition(" ")[0] for column in table.columns]) for table in self.others]
        return [tables[place] for place in self.domain.order]


def draw_layout(rng: Rng, split: str, plain: bool) -> Layout:
    """Draw a layout; with `plain` the database writes values as the question does."""
    domain = draw_subject(rng) if split == "train" else rng.choice(DOMAINS)
    styles = _TRAINING_STYLES if split == "train" else _STYLES
    names: list[Names] = []
    for level, entity in enumerate(domain.entities):
        link = f"{domain.entities[level - 1].singular.replace(' ', '_')}_id" if level else ""
        names.append(_draw_names(rng, entity, link, _STYLES if plain else styles, plain))
    first, second, third = (_labels(rng, entity, split, level) for level, entity in enumerate(domain.entities))
    layout = Layout(domain, (names[0], names[1], names[2]), (first, second, third))
    return replace(layout, others=(_draw_other(rng, domain.distractor),)) if domain.distractor else layout


def _draw_names(rng: Rng, entity: Entity, link: str, styles: Mapping[str, Callable[[str], str]], plain: bool) -> Names:
    label = entity.label or (
        rng.choice(("name", "title")) if entity.labels == "titles" else "name" if entity.labels else ""
    )
    style = styles["plain" if plain else rng.choice(tuple(styles))]
    stored = {value: style(value) for value in entity.choice.values}
    table, amount, choice = (rng.choice(names) for names in (entity.names, entity.amount.names, entity.choice.names))
    return Names(table, label, amount, choice, link, stored, entity.extras, entity.order)


def _draw_other(rng: Rng, entity: Entity) -> Table:
    """Draw a table that no question is about."""
    names = _draw_names(rng, entity, "", _STYLES, plain=True)
    labels = _labels(rng, entity, "train", 0)[:_OTHER_ROWS]
    return Table(names.table, _definitions(names), _draw_table(entity, names, labels, 0, rng))


def _labels(rng: Rng, entity: Entity, split: str, level: int) -> tuple[str, ...]:
    least, extra = (_TRAINING_MIN_ROWS, _TRAINING_EXTRA_ROWS) if split == "train" else (_MIN_ROWS, _EXTRA_ROWS)
    count = least[level] + rng.below(extra[level] + 1)
    if not entity.labels:
        return ("",) * count
    return tuple(rng.sample((words.people if entity.labels == "people" else words.titles)(split), count))


def draw_rows(layout: Layout, rng: Rng) -> tuple[list[Row], list[Row], list[Row]]:
    """Draw the rows of the three tables."""
    first, second, third = (
        _draw_table(
            layout.domain.entities[level], layout.names[level], layout.labels[level], len(layout.labels[level - 1]), rng
        )
        for level in range(3)
    )
    return first, second, third


def _draw_table(entity: Entity, names: Names, labels: Sequence[str], parents: int, rng: Rng) -> list[Row]:
    values, low, span = list(names.stored.values()), entity.amount.low, entity.amount.high - entity.amount.low + 1
    kinds, below, extras, order = len(values), rng.below, names.extras, names.order
    rows: list[Row] = []
    for number, label in enumerate(labels, 1):
        name = (label,) if label else ()
        link = (1 + below(parents),) if names.link else ()
        rows.append((number, *name, values[below(kinds)], low + below(span), *link))
    for extra in extras:
        start, count = below(len(extra.values)), len(extra.values)
        rows = [(*row, extra.values[(start + _STRIDE * number) % count]) for number, row in enumerate(rows)]
    return list(map(itemgetter(*order), rows)) if order else rows


def plant(layout: Layout, rows: Sequence[list[Row]], value: Plant, rng: Rng) -> None:
    """Write a value into all rows of one parent, or into about a half, a third or a quarter of all rows."""
    names, one_in = layout.names[value.level], 2 + rng.below(3)
    place, link = names.columns().index(value.column), names.columns().index(names.link or "id")
    table = rows[value.level]
    for number, row in enumerate(table):
        if row[link] == value.parent if value.parent else not rng.below(one_in):
            table[number] = (*row[:place], value.cell, *row[place + 1 :])


def build_tables(layout: Layout, rows: tuple[list[Row], list[Row], list[Row]]) -> list[Table]:
    """Return the tables in the order in which the database shows them."""
    tables = [
        Table(names.table, _definitions(names), content) for names, content in zip(layout.names, rows, strict=True)
    ]
    tables += layout.others
    return [tables[place] for place in layout.domain.order]


def _definitions(names: Names) -> tuple[str, ...]:
    """The columns of a table as in CREATE TABLE."""
    types = {"id": "INTEGER PRIMARY KEY", names.label: "TEXT", names.choice: "TEXT"}
    types |= {extra.name: "TEXT" for extra in names.extras if isinstance(extra.values[0], str)}
    return tuple(f"{name} {types.get(name, 'INTEGER')}" for name in names.columns())
