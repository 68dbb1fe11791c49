"""A workbook: sheets of texts, numbers and formulas, their edits, and how an observation shows them.

A cell's content is a text in one form: a number as short as possible, a formula as `formulas.write` returns it, or any
other text; it is empty where there is nothing. A sheet ends with the last row and column that are not empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from agentgym_envs.sheet.evaluate import Fault, Value, compute, constant, show, show_content, value_of
from agentgym_envs.sheet.formulas import (
    LETTERS,
    MAX_COLUMNS,
    MAX_ROWS,
    NUMBER,
    Cell,
    FormulaError,
    Range,
    after_edit,
    column_number,
    copy_to,
    parse,
    references,
    write,
    write_number,
)
from agentgym_py.env.tools import RefusedError
from agentgym_py.errors import did_you_mean

MAX_TEXT, MAX_ENTRY = 60, 100
"""Characters of a text, and of a formula that is entered."""
Rows = list[list[str]]


class Area(NamedTuple):
    """A rectangle of cells, both corners included, from 0."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def name(self) -> str:
        """Return `B2` or `B2:C5`."""
        first, last = cell_name(self.top, self.left), cell_name(self.bottom, self.right)
        return first if first == last else f"{first}:{last}"


class Book:
    """The state of a workbook, and which of its sheets is open."""

    __slots__ = ("_values", "open", "sheets")

    def __init__(self, sheets: dict[str, Rows], open_: str) -> None:
        self.sheets, self.open = sheets, open_
        self._values: dict[str, list[list[Value]]] | None = None

    def copy(self) -> Book:
        """Return a workbook of its own."""
        return Book({name: [row[:] for row in rows] for name, rows in self.sheets.items()}, self.open)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Book) and (self.open, self.sheets) == (other.open, other.sheets)

    @property
    def rows(self) -> Rows:
        """The contents of the open sheet."""
        return self.sheets[self.open]

    @property
    def values(self) -> dict[str, list[list[Value]]]:
        """What every cell shows."""
        if self._values is None:
            self._values = compute(self.sheets)
        return self._values

    def at(self, row: int, column: int) -> str:
        """Return the content of a cell of the open sheet."""
        rows = self.rows
        return rows[row][column] if row < len(rows) and column < len(rows[row]) else ""

    def value(self, row: int, column: int) -> Value:
        """Return what a cell of the open sheet shows."""
        rows = self.values[self.open]
        return rows[row][column] if row < len(rows) and column < len(rows[row]) else None

    def text(self, row: int, column: int) -> str:
        """Return what a cell of the open sheet shows, as text; values are computed only if it has a formula."""
        content = self.at(row, column)
        return show(self.value(row, column)) if content[:1] == "=" else show_content(content)

    def evaluate(self, formula: str) -> Value:
        """Return the value of a formula that stands nowhere."""
        return value_of(formula, self.values, self.open)

    # ---- edits ------------------------------------------------------------------------------------------------------

    def write(self, top: int, left: int, contents: Sequence[Sequence[str]]) -> None:
        """Write a rectangle of contents."""
        bottom, right = top + len(contents), left + len(contents[0])
        if bottom > MAX_ROWS or right > MAX_COLUMNS:
            raise RefusedError(f"A sheet has {MAX_ROWS} rows and {MAX_COLUMNS} columns.")
        rows = self.rows
        width = max(right, len(rows[0]))
        for row in rows:
            row += [""] * (width - len(row))
        rows += [[""] * width for _ in range(bottom - len(rows))]
        for offset, line in enumerate(contents):
            rows[top + offset][left:right] = line
        self._changed()

    def fill(self, area: Area, content: str) -> None:
        """Write a content into each cell of an area; a formula is copied from the first cell."""
        self.write(area.top, area.left, copies(area, content))

    def insert_row(self, row: int, contents: Sequence[str]) -> None:
        """Insert a row before row `row`."""
        rows = self.rows
        if not 0 < row <= len(rows):
            raise RefusedError(f"A row can be inserted as row 2 to {len(rows) + 1}.")
        if len(rows) >= MAX_ROWS or len(contents) > MAX_COLUMNS:
            raise RefusedError(f"A sheet has {MAX_ROWS} rows and {MAX_COLUMNS} columns.")
        rows.insert(row, [""] * len(rows[0]))
        self._shift("row", row, deleted=False)
        self.write(row, 0, [contents or [""]])

    def insert_column(self, column: int, contents: Sequence[str]) -> None:
        """Insert a column before column `column`."""
        rows = self.rows
        if not 0 <= column <= len(rows[0]):
            raise RefusedError(
                f"A column can be inserted as column A to {LETTERS[min(len(rows[0]), MAX_COLUMNS - 1)]}."
            )
        if len(rows[0]) >= MAX_COLUMNS or len(contents) > MAX_ROWS:
            raise RefusedError(f"A sheet has {MAX_ROWS} rows and {MAX_COLUMNS} columns.")
        for row in rows:
            row.insert(column, "")
        self._shift("column", column, deleted=False)
        self.write(0, column, [[content] for content in contents or [""]])

    def delete_rows(self, numbers: Iterable[int]) -> None:
        """Delete rows other than the first."""
        chosen = sorted(set(numbers), reverse=True)
        if not chosen or chosen[-1] < 1 or chosen[0] >= len(self.rows):
            raise RefusedError(f"Rows 2 to {len(self.rows)} can be deleted.")
        for row in chosen:
            del self.rows[row]
            self._shift("row", row, deleted=True)
        self._changed()

    def delete_column(self, column: int) -> None:
        """Delete a column, unless it is the only one."""
        if column >= len(self.rows[0]) or len(self.rows[0]) == 1:
            raise RefusedError(f"The sheet has no column {LETTERS[column]} that can be deleted.")
        for row in self.rows:
            del row[column]
        self._shift("column", column, deleted=True)
        self._changed()

    def sort(self, column: int, *, descending: bool) -> None:
        """Sort all rows but the first by what a column shows: numbers, then texts, empty cells last; ties stay."""
        rows, shown = self.rows, self.values[self.open]
        if column >= len(rows[0]):
            raise RefusedError(f"The sheet has no column {LETTERS[column]}.")
        order = sorted(range(1, len(rows)), key=lambda row: _sort_key(shown[row][column]), reverse=descending)
        order.sort(key=lambda row: shown[row][column] is None)
        rows[1:] = [_moved(rows[old], new - old) for new, old in enumerate(order, 1)]
        self._changed()

    def _shift(self, axis: str, at: int, *, deleted: bool) -> None:
        """Adapt all formulas to an insertion or a deletion in the open sheet."""
        for name, rows in self.sheets.items():
            for row in rows:
                for column, content in enumerate(row):
                    if content[:1] == "=":
                        row[column] = write(after_edit(parse(content), name, self.open, axis, at, deleted=deleted))

    def _changed(self) -> None:
        trim(self.rows)
        self._values = None

    # ---- observations -----------------------------------------------------------------------------------------------

    def table(self) -> str:
        """Return the open sheet, a line per row, and its formulas."""
        rows = [[*map(show_content, row)] for row in self.rows]
        formulas: list[str] = []
        if any(content[:1] == "=" for row in self.rows for content in row):
            for area in formula_runs(self.rows):
                formulas.append(f"{area.name} {self.at(area.top, area.left)}")
                for row in range(area.top, area.bottom + 1):
                    rows[row][area.left] = self.text(row, area.left)
        head = " | ".join(
            [f"{letter}: {text}" if text else f"{letter}:" for letter, text in zip(LETTERS, rows[0], strict=False)]
        )
        lines = [
            f"{self.open}\n1 | {head}",
            *(f"{r} | {' | '.join(row)}".rstrip() for r, row in enumerate(rows[1:], 2)),
        ]
        return "\n".join([*lines, *([f"Formulas: {', '.join(formulas)}"] if formulas else [])])

    def show(self, area: Area) -> str:
        """Return what the cells of an area show."""
        rows, columns = range(area.top, area.bottom + 1), range(area.left, area.right + 1)
        return ", ".join([self.text(row, column) or "empty" for row in rows for column in columns])


def _moved(row: list[str], down: int) -> list[str]:
    if not down:
        return row
    return [write(copy_to(parse(content), down, 0)) if content[:1] == "=" else content for content in row]


def _sort_key(value: Value) -> tuple[int, int | Fraction, str]:
    if value is None or isinstance(value, Fault):
        return 3, 0, ""
    if isinstance(value, bool):
        return 2, int(value), ""
    return (1, 0, value.casefold()) if isinstance(value, str) else (0, value, "")


def trim(rows: Rows) -> None:
    """Remove empty rows at the end and empty columns at the right; one cell stays."""
    while len(rows) > 1 and not any(rows[-1]):
        rows.pop()
    width = len(rows[0])
    while width > 1 and not any(row[width - 1] for row in rows):
        width -= 1
    if width < len(rows[0]):
        for row in rows:
            del row[width:]


def copies(area: Area, content: str) -> Rows:
    """Return the contents of an area into whose first cell a content is written and then copied."""
    node = parse(content) if content[:1] == "=" else None
    return [
        [write(copy_to(node, row, column)) if node else content for column in range(area.right - area.left + 1)]
        for row in range(area.bottom - area.top + 1)
    ]


def formula_runs(rows: Rows) -> list[Area]:
    """Return the areas of formulas: cells of a column in which each is a copy of the one above."""
    runs: list[Area] = []
    for column in range(len(rows[0])):
        expected = ""
        for row, line in enumerate(rows):
            content = line[column]
            if content[:1] != "=":
                expected = ""
                continue
            if content == expected:
                runs[-1] = runs[-1]._replace(bottom=row)
            else:
                runs.append(Area(row, column, row, column))
            expected = write(copy_to(parse(content), 1, 0))
    return runs


# ---- contents and places --------------------------------------------------------------------------------------------


def content_of(value: object, book: Book) -> str:
    """Return the content that a cell has after a value was entered; RefusedError if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise RefusedError("A value is a number, a text, or a formula such as =B2*C2.")
    if not isinstance(value, str):
        return _number(value)
    text = " ".join(value[:1_000].split())
    if len(text) > (MAX_ENTRY if text[:1] == "=" else MAX_TEXT):
        raise RefusedError(f"A text has at most {MAX_TEXT} characters, and a formula {MAX_ENTRY}.")
    return formula(text, book) if text[:1] == "=" else canonical(text)


def _number(value: float) -> str:
    text = format(Decimal(repr(value)), "f") if abs(value) < 10**12 else "too long"  # so is NaN
    if not NUMBER.fullmatch(text.removeprefix("-")):
        raise RefusedError("A number has at most 12 digits and 6 decimals.")
    return canonical(text)


def formula(text: str, book: Book) -> str:
    """Return a formula in its one form; RefusedError if it is none, or names a sheet that does not exist."""
    text = text if text[:1] == "=" else f"={text}"
    if len(text) > MAX_ENTRY:
        raise RefusedError(f"A formula has at most {MAX_ENTRY} characters.")
    try:
        node = parse(text)
    except FormulaError as error:
        raise RefusedError(str(error)) from error
    for reference in references(node):
        sheet = (reference.first if isinstance(reference, Range) else reference).sheet
        if sheet and sheet not in book.sheets:
            raise RefusedError(no_sheet(sheet, book))
    return write(node)


@lru_cache(maxsize=8_192)
def canonical(text: str) -> str:
    """Return a content in its one form."""
    if text[:1] == "=":
        return write(parse(text))
    value = constant(text)
    if value is None or isinstance(value, bool | str | Fault):
        return text
    return write_number(value)


def no_sheet(name: str, book: Book) -> str:
    """Return what is said of a sheet that does not exist."""
    return f"No sheet {name[:40]!r}." + did_you_mean(name[:40], book.sheets, "There are", 0.5)


def cell_name(row: int, column: int) -> str:
    """Return `B2`."""
    return f"{LETTERS[column]}{row + 1}"


def area_of(text: str) -> Area:
    """Read `B2` or `B2:C5`; RefusedError if it is neither."""
    try:
        node = parse(f"={text[:40]}")
    except FormulaError as error:
        raise RefusedError(str(error)) from error
    if not isinstance(node, Cell | Range):
        raise RefusedError(f"{text[:40]!r} is no cell and no range such as B2:B5.")
    first, last = (node, node) if isinstance(node, Cell) else (node.first, node.last)
    if isinstance(node, Range) and node.is_columns:
        raise RefusedError(f"Name the rows too, such as {cell_name(1, first.column)}:{cell_name(5, last.column)}.")
    if first.sheet:
        raise RefusedError("Edits are made in the open sheet: name a cell without its sheet.")
    return Area(first.row, first.column, last.row, last.column)


def column_of(text: str, book: Book) -> int:
    """Read a column's letter, or the header of a column of the open sheet; RefusedError if there is none."""
    if len(text.strip()) == 1:
        try:
            return column_number(text.strip())
        except FormulaError as error:
            raise RefusedError(str(error)) from error
    heads = book.rows[0]
    if text.strip() in heads:
        return heads.index(text.strip())
    raise RefusedError(f"No column {text[:40]!r}: give a letter, A to {LETTERS[len(heads) - 1]}.")
