"""What a workbook is judged by, and what a change has lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from agentgym_envs.sheet.book import Book, Rows
from agentgym_envs.sheet.evaluate import Fault, Value, compute, constant
from agentgym_envs.sheet.formulas import write_number

Place = tuple[str, int, int]
Marks = Mapping[Place, object]
"""What counts of each cell that is not empty."""
Fact = tuple[str, str, str]
"""The name of a row, the header of a column, and the content there."""


def marks(book: Book) -> Marks:
    """Return what counts of each cell: its content, or what its formula shows here and with other values.

    The other values are the same for all workbooks of the same contents, so a formula must be right in general, and a
    number in its place is not.
    """
    other = compute({name: twin(rows) for name, rows in book.sheets.items()})
    found: dict[Place, object] = {}
    for name, rows in book.sheets.items():
        here, there = book.values[name], other[name]
        for r, row in enumerate(rows):
            for c, content in enumerate(row):
                if content[:1] == "=":
                    found[name, r, c] = (_exact(here[r][c]), _exact(there[r][c]))
                elif content:
                    found[name, r, c] = content
    return found


def _exact(value: Value) -> tuple[type, Value]:
    """Tell 1 and TRUE apart."""
    kind = type(value) if isinstance(value, bool | str | Fault) else int
    return kind, value


def twin(rows: Rows) -> Rows:
    """Return a sheet with other values below its headers: larger numbers, and each text moved down in its column."""
    changed = [row[:] for row in rows]
    for c in range(len(rows[0])):
        texts: list[int] = []
        for r in range(1, len(rows)):
            value = constant(rows[r][c])
            if rows[r][c][:1] == "=" or value is None:
                continue
            if isinstance(value, str | bool | Fault):
                texts.append(r)
            else:
                changed[r][c] = write_number(value + 1 + (5 * r + 3 * c) % 7)
        for place, r in enumerate(texts):
            changed[r][c] = rows[texts[place - 1]][c]
    return changed


def facts(book: Book, sheet: str) -> Counter[Fact]:
    """Return what the cells of a sheet say below its headers; formulas are alike, because edits change them."""
    head, *rows = book.sheets[sheet]
    return Counter(
        [
            (row[0], header, "=" if content[:1] == "=" else content)
            for row in rows
            for header, content in zip(head, row, strict=True)
            if content
        ]
    )


def has_lost(before: Book, after: Book, start: Book, goal: Book) -> bool:
    """Tell whether a change in the open sheet has removed something that is in the start and in the goal."""
    old, new = facts(before, before.open), facts(after, before.open)
    gone = [fact for fact, count in old.items() if new[fact] < count]
    if not gone:
        return False
    first, last = facts(start, before.open), facts(goal, before.open)
    return any(new[fact] < min(old[fact], first[fact], last[fact]) for fact in gone)
