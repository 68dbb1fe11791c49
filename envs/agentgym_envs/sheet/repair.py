"""The exact expert: calls that lead from any state of a workbook to the goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from agentgym_envs.sheet.book import Area, Book, Rows, cell_name, copies
from agentgym_envs.sheet.formulas import LETTERS
from agentgym_envs.sheet.tools import call
from agentgym_py.env.tools import RefusedError


class Call(NamedTuple):
    """A call of a tool."""

    tool: str
    arguments: Mapping[str, Any]
    note: str = ""
    """What a teacher says before it."""


def plan(book: Book, path: Sequence[Book], calls: Sequence[Call]) -> list[Call]:
    """Return a shortest known list of calls that makes a workbook equal to the last one of a path.

    `path` holds the workbooks before, between and after `calls`. On the path the rest of it is the plan. Elsewhere the
    workbook is mended to be as anywhere on the path, or the rest of the path is followed if it leads to the goal
    nevertheless.
    """
    for number in reversed(range(len(path))):
        if book == path[number]:
            return list(calls[number:])
    plans = [[*mend(book, path[number]), *calls[number:]] for number in reversed(range(len(path)))]
    plans += [list(calls[number:]) for number in range(len(calls)) if _leads(book, calls[number:], path[-1])]
    return min(plans, key=_length)


def _length(calls: Sequence[Call]) -> tuple[int, int]:
    return len(calls), sum(len(str(each.arguments)) for each in calls)


def _leads(book: Book, calls: Sequence[Call], goal: Book) -> bool:
    trial = book.copy()
    try:
        for each in calls:
            call(trial, each.tool, each.arguments)
    except RefusedError:
        return False
    return trial == goal


def mend(book: Book, target: Book) -> list[Call]:
    """Return calls that make a workbook equal to another one with the same sheets."""
    plans = [_Mending(book).run(target, edits=False)]
    with suppress(RefusedError):  # such as an empty row at the end, which cannot be inserted
        plans.append(_Mending(book).run(target, edits=True))
    return min(plans, key=_length)


class _Mending:
    """Calls, done on a copy of a workbook as they are chosen."""

    def __init__(self, book: Book) -> None:
        self._book = book.copy()
        self._calls: list[Call] = []

    def run(self, target: Book, *, edits: bool) -> list[Call]:
        """Choose the calls; with `edits` missing rows and columns are inserted, and additional ones deleted."""
        names = sorted(target.sheets, key=lambda name: name != self._book.open)
        for name in names if edits else ():
            self._set_columns(name, target.sheets[name])
            self._set_rows(name, target.sheets[name])
        for name in names:
            self._write(name, target.sheets[name])
        self._open(target.open)
        return self._calls

    def _do(self, note: str, tool: str, **arguments: Any) -> None:
        call(self._book, tool, arguments)
        self._calls.append(Call(tool, arguments, note))

    def _open(self, sheet: str) -> None:
        if self._book.open != sheet:
            self._do(f"Back to {sheet}.", "open_sheet", sheet=sheet)

    def _set_columns(self, name: str, rows: Rows) -> None:
        old, new = _columns(self._book.sheets[name]), _columns(rows)
        if len(old) == len(new):
            return
        self._open(name)
        if len(old) > len(new):
            kept = matches(new, old)
            for column in reversed(range(len(old))):
                if column not in kept:
                    letter = LETTERS[column]
                    self._do(f"Column {letter} does not belong there.", "delete_column", column=letter)
            return
        kept = matches(old, new)
        for column in range(len(new)):
            if column not in kept:
                letter = LETTERS[column]
                self._do(f"Column {letter} is missing.", "insert_column", column=letter, values=new[column])

    def _set_rows(self, name: str, rows: Rows) -> None:
        old = self._book.sheets[name]
        if len(old) == len(rows):
            return
        self._open(name)
        if len(old) > len(rows):
            kept = {0, *(row + 1 for row in matches(rows[1:], old[1:]))}
            extra = [row + 1 for row in range(len(old)) if row not in kept]
            self._do(f"Rows that do not belong there: {', '.join(map(str, extra))}.", "delete_rows", rows=extra)
            return
        kept = {0, *(row + 1 for row in matches(old[1:], rows[1:]))}
        for row in range(len(rows)):
            if row not in kept:
                self._do(f"Row {row + 1} is missing.", "insert_row", row=row + 1, values=rows[row])

    def _write(self, name: str, rows: Rows) -> None:
        """Correct the cells of a sheet by one call."""
        wrong = differences(self._book.sheets[name], rows)
        if not wrong:
            return
        self._open(name)
        lines, columns = [row for row, _ in wrong], [column for _, column in wrong]
        area = Area(min(lines), min(columns), max(lines), max(columns))
        contents = [
            [_content(rows, row, column) for column in range(area.left, area.right + 1)]
            for row in range(area.top, area.bottom + 1)
        ]
        first = contents[0][0]
        if len(wrong) == 1:
            self._do(f"{area.name} is wrong.", "update_cell", cell=area.name, value=first)
        elif contents == copies(area, first):
            self._do(f"{area.name} are wrong.", "fill_range", range=area.name, value=first)
        else:
            cell = cell_name(area.top, area.left)
            self._do(f"{area.name} are wrong.", "update_range", cell=cell, lines=contents)


def differences(rows: Rows, others: Rows) -> list[tuple[int, int]]:
    """Return the places where two sheets have different contents."""
    height, width = max(len(rows), len(others)), max(len(rows[0]), len(others[0]))
    return [
        (row, column)
        for row in range(height)
        for column in range(width)
        if _content(rows, row, column) != _content(others, row, column)
    ]


def _content(rows: Rows, row: int, column: int) -> str:
    return rows[row][column] if row < len(rows) and column < len(rows[row]) else ""


def _columns(rows: Rows) -> Rows:
    return [list(column) for column in zip(*rows, strict=True)]


def matches(few: Rows, many: Rows) -> set[int]:
    """Return the lines of `many` that fit those of `few`, in order and with the most equal cells."""
    best: list[list[tuple[int, tuple[int, ...]]]] = [[(0, ())] * (len(many) + 1)]
    for i in range(len(few)):
        row: list[tuple[int, tuple[int, ...]]] = [(-1, ())] * (len(many) + 1)
        for j in range(i, len(many)):
            equal, chosen = best[i][j]
            taken = (equal + _alike(few[i], many[j]), (*chosen, j)) if equal >= 0 else (-1, ())
            row[j + 1] = max(row[j], taken, key=lambda each: each[0])
        best.append(row)
    return set(best[len(few)][len(many)][1])


def _alike(line: list[str], other: list[str]) -> int:
    """Number of equal cells; formulas count as equal, because edits change their references."""
    return sum(a == b or a[:1] == b[:1] == "=" for a, b in zip(line, other, strict=False))
