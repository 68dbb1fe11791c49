"""The company's database during an episode: rows, changes that can be taken back, and days."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from typing import Any

from agentgym_py.env.tools import RefusedError
from agentgym_py.errors import did_you_mean

Row = Mapping[str, Any]
"""A row; it is never mutated, a change replaces it."""
Tables = Mapping[str, Mapping[str, Row]]
"""Table to id to row."""
Key = tuple[str, str]
"""Table and id."""
Call = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""


@dataclass(slots=True)
class Desk:
    """The database as the changes of an episode have left it."""

    tables: Tables
    """The rows at the start, which nothing changes."""
    today: str
    numbers: Mapping[str, int]
    """The numbers of the policy, such as the days of a return."""
    changed: dict[Key, Row] = field(default_factory=dict)
    """The rows that differ from the start."""
    history: list[tuple[Call, dict[Key, Row]]] = field(default_factory=list)
    """The changes, with the rows that they replaced."""

    def get(self, table: str, rid: str) -> Row:
        """Return a row, which must exist."""
        row = self.changed.get((table, rid)) or self.tables[table].get(rid)
        if row is None:
            near = did_you_mean(rid[:20], self.tables[table], "There are", 0.5) if table == "plans" else ""
            raise RefusedError(f"No {table[:-1]} {rid[:20]!r}.{near}")
        return row

    def rows(self, table: str) -> Iterator[tuple[str, Row]]:
        """Yield the ids and rows of a table."""
        for rid, row in self.tables[table].items():
            yield rid, self.changed.get((table, rid), row)

    def put(self, table: str, rid: str, **fields: Any) -> str:
        """Change fields of a row as part of the latest change; return their old and new values."""
        key, old = (table, rid), self.get(table, rid)
        self.history[-1][1].setdefault(key, old)
        self._set(key, {**old, **fields})
        return ", ".join(f"{name}: {show(old[name])} -> {show(value)}" for name, value in fields.items())

    def undo(self) -> Call:
        """Take back the latest change, which must exist, and return it."""
        call, rows = self.history.pop()
        for key, row in rows.items():
            self._set(key, row)
        return call

    def _set(self, key: Key, row: Row) -> None:
        if row == self.tables[key[0]][key[1]]:
            self.changed.pop(key, None)
        else:
            self.changed[key] = row


def show(value: object) -> str:
    """Format a field."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value) if value not in ("", None) else "none"


def format_row(rid: str, row: Row, **more: object) -> str:
    """Format a row in one line, with some fields replaced or added."""
    return " | ".join((rid, *(f"{name} {show(value)}" for name, value in {**row, **more}.items())))


def find_customer(desk: Desk, what: str, **fields: str) -> str:
    """Return the answer of a tool that finds a customer by some of their fields, in any case; `what` names these."""
    wanted = {name: value.casefold() for name, value in fields.items()}
    for rid, row in desk.rows("customers"):
        if all(row[name].casefold() == value for name, value in wanted.items()):
            return f"The customer is {rid}."
    raise RefusedError(f"No customer has this {what}.")


def show_customer(desk: Desk, customer: str, table: str) -> str:
    """Return the answer of a tool that shows a customer and the ids of their rows in a table."""
    own = tuple(rid for rid, row in desk.rows(table) if row["customer"] == customer)
    return format_row(customer, desk.get("customers", customer), **{table: own})


@lru_cache(maxsize=4_000)
def shift(day: str, days: int) -> str:
    """Return the day this many days later."""
    return (date.fromisoformat(day) + timedelta(days)).isoformat()


@lru_cache(maxsize=4_000)
def days_between(first: str, second: str) -> int:
    """Return the days from one day to another."""
    return (date.fromisoformat(second) - date.fromisoformat(first)).days
