"""The tools that read and change a workbook, and their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agentgym_envs.sheet.book import (
    Area,
    Book,
    area_of,
    column_of,
    content_of,
    copies,
    formula,
    no_sheet,
)
from agentgym_envs.sheet.evaluate import constant, matcher, show
from agentgym_envs.sheet.formulas import LETTERS
from agentgym_py.env.tools import RefusedError, Tool, make_tool, require_tool

ASCENDING, DESCENDING = "ascending", "descending"
_SHORTEST = 3
"""Letters of a shortened choice."""
_MAX_SHOWN = 12
"""Cells whose old and new values an observation lists."""


_VALUE = {"type": ["string", "number"], "description": "A number, a text, or a formula such as =B2*C2; empty clears."}
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "sheet": {"type": "string", "description": "A sheet's name."},
    "cell": {"type": "string", "description": "A cell, such as B2."},
    "range": {"type": "string", "description": "A range, such as D2:D6."},
    "column": {"type": "string", "description": "A column's letter."},
    "row": {"type": "integer", "description": "A row's number, from 2."},
    "rows": {"type": "array", "items": {"type": "integer"}, "description": "Numbers of rows, from 2."},
    "value": _VALUE,
    "values": {"type": "array", "items": _VALUE, "description": "The contents of the cells, in their order."},
    "lines": {"type": "array", "items": {"type": "array", "items": _VALUE}, "description": "A list for each row."},
    "order": {"type": "string", "enum": [ASCENDING, DESCENDING], "description": "Lowest or highest first."},
    "where": {"type": ["string", "number"], "description": "A value, or a comparison such as >10 or <>Oslo."},
    "formula": {"type": "string", "description": "A formula, such as =SUM(B2:B6)."},
    "answer": {"type": ["string", "number"], "description": "The bare answer, if the request asks a question."},
}


def call(book: Book, name: str, arguments: Mapping[str, Any]) -> str:
    """Make a call and return its observation; RefusedError, with nothing changed, if it cannot be done."""
    return require_tool(name, TOOLS).call(book, arguments)


_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "number": (int, float), "integer": (int,), "array": (list,)
}  # fmt: skip


def _check(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    """Return an argument; one that stands alone is a list of one, except of lists, which might be a row or a column."""
    if "items" in schema and schema["items"]["type"] != "array" and not isinstance(value, list):
        value = [value]
    return _typed(name, value, schema)


def _typed(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if names == ["integer"] and isinstance(value, float) and value.is_integer():
        value = int(value)
    if names == ["integer"] and isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, tuple(kind for each in names for kind in _KINDS[each])):
        raise RefusedError(f"{name!r} must be of type {' or '.join(names)}. {schema['description']}")
    if "enum" in schema:
        return _choice(name, str(value), schema["enum"])
    if isinstance(value, list):
        return [_typed(name, item, schema["items"] | {"description": schema["description"]}) for item in value]
    return value


def _choice(name: str, value: str, choices: list[str]) -> str:
    """Return the choice that a text is, in any case, or that it shortens to three letters or more."""
    text = value.casefold()
    found = [choice for choice in choices if len(text) >= _SHORTEST and choice.startswith(text)]
    if len(found) != 1:
        raise RefusedError(f"{name!r} must be one of {', '.join(choices)}.")
    return found[0]


# ---- reading --------------------------------------------------------------------------------------------------------


def open_sheet(book: Book, sheet: str) -> str:
    """Open a sheet and show it."""
    if sheet not in book.sheets:
        raise RefusedError(no_sheet(sheet, book))
    book.open = sheet
    return book.table()


def get_cell(book: Book, cell: str) -> str:
    """Show a cell and its formula."""
    area = _cell(cell)
    content = book.at(area.top, area.left)
    return f"{area.name} is {book.show(area)}{f', {content}' * (content[:1] == '=')}."


def find_rows(book: Book, column: str, where: float | str) -> str:
    """Find the rows whose cell in a column fits."""
    criterion = where if isinstance(where, str) else constant(content_of(where, book))
    place, fits = column_of(column, book), matcher(criterion)
    found = [f"{row}" for row in range(2, len(book.rows) + 1) if fits(book.value(row - 1, place))]
    return f"{len(found)} row{'s' * (len(found) > 1)}: {', '.join(found)}." if found else "No row."


def evaluate(book: Book, formula: str) -> str:
    """Compute a formula."""
    return f"{_formula(formula, book)} is {show(book.evaluate(_formula(formula, book)))}."


# ---- changes --------------------------------------------------------------------------------------------------------


def update_cell(book: Book, cell: str, value: object) -> str:
    """Write into a cell."""
    area = _cell(cell)
    return _write(book, area, [[content_of(value, book)]])


def fill_range(book: Book, range: str, value: object) -> str:
    """Write into all cells of a range, as if the first cell was copied."""
    area = area_of(range)
    return _write(book, area, copies(area, content_of(value, book)))


def update_range(book: Book, cell: str, lines: list[list[object]]) -> str:
    """Write lines of values."""
    area = _cell(cell)
    contents = [[content_of(value, book) for value in line] for line in lines]
    if not contents or not contents[0] or {len(line) for line in contents} != {len(contents[0])}:
        raise RefusedError("'lines' must hold lists of the same length, one for each row.")
    return _write(
        book, area._replace(bottom=area.top + len(contents) - 1, right=area.left + len(contents[0]) - 1), contents
    )


def insert_row(book: Book, row: int, values: list[object] | tuple[object, ...] = ()) -> str:
    """Insert a row."""
    book.insert_row(row - 1, [content_of(value, book) for value in values])
    return book.table()


def insert_column(book: Book, column: str, values: list[object] | tuple[object, ...] = ()) -> str:
    """Insert a column."""
    book.insert_column(column_of(column, book), [content_of(value, book) for value in values])
    return book.table()


def delete_rows(book: Book, rows: list[int]) -> str:
    """Delete rows."""
    old = {row: " | ".join(book.rows[row - 1]).rstrip() for row in sorted(set(rows)) if 0 < row <= len(book.rows)}
    book.delete_rows(row - 1 for row in rows)
    return "\n".join([*(f"Deleted row {row}: {text}" for row, text in old.items()), book.table()])


def delete_column(book: Book, column: str) -> str:
    """Delete a column."""
    place = column_of(column, book)
    old = ", ".join(row[place] or "empty" for row in book.rows) if place < len(book.rows[0]) else ""
    book.delete_column(place)
    return f"Deleted column {LETTERS[place]}: {old}\n{book.table()}"


def sort_rows(book: Book, column: str, order: str) -> str:
    """Sort all rows below the first."""
    book.sort(column_of(column, book), descending=order == DESCENDING)
    return book.table()


def finish(book: Book, answer: object = "") -> str:
    """Finish the request; the environment ends the episode."""
    del book
    return f"Finished: {answer}"[:100] if answer != "" else "Finished."


def _cell(text: str) -> Area:
    area = area_of(text)
    if (area.top, area.left) != (area.bottom, area.right):
        raise RefusedError(f"{text[:40]!r} is not one cell.")
    return area


def _formula(text: str, book: Book) -> str:
    return formula(" ".join(text.split()), book)


def _write(book: Book, area: Area, contents: list[list[str]]) -> str:
    old = [
        book.at(row, column) or "empty"
        for row in range(area.top, min(area.bottom, area.top + _MAX_SHOWN) + 1)
        for column in range(area.left, area.right + 1)
    ]
    book.write(area.top, area.left, contents)
    was = ", ".join(old[:_MAX_SHOWN]) if any(text != "empty" for text in old) else "empty"
    shown = area._replace(bottom=min(area.bottom, area.top + _MAX_SHOWN - 1))
    return f"{area.name} was {was}. Now it is {book.show(shown)}."


_tool = partial(make_tool, schemas=ARGUMENTS, check_argument=_check)
TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        _tool(open_sheet, "Open a sheet and show it; edits are made in the open sheet.", "sheet"),
        _tool(get_cell, "Show a cell and its formula.", "cell"),
        _tool(find_rows, "Find the rows whose cell in a column fits, as in >10 or <>Oslo.", "column where"),
        _tool(evaluate, "Compute a formula and write nothing.", "formula"),
        _tool(update_cell, "Write a value or a formula into a cell.", "cell value"),
        _tool(fill_range, "Write a value into all cells of a range; a formula is for its first cell and moves along.",
              "range value"),
        _tool(update_range, "Write lines of values, the first of them at a cell.", "cell lines"),
        _tool(insert_row, "Insert a row with values, so that it has this number.", "row", "values"),
        _tool(insert_column, "Insert a column with values, so that it has this letter.", "column", "values"),
        _tool(delete_rows, "Delete rows.", "rows"),
        _tool(delete_column, "Delete a column.", "column"),
        _tool(sort_rows, "Sort all rows below the first by a column, ascending or descending.", "column order"),
        _tool(finish, "Say that the request is done, with the answer if it asks something.", "", "answer"),
    )
}  # fmt: skip
