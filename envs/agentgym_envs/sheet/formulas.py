"""The language of formulas: a tokenizer, a precedence parser, and what edits of a sheet do to references.

    formula = "=" test
    test    = sum [("=" | "<>" | "<" | "<=" | ">" | ">=") sum]
    sum     = product {("+" | "-") product}
    product = factor {("*" | "/") factor}
    factor  = ("+" | "-") factor | atom
    atom    = number | text | "TRUE" | "FALSE" | "#REF!" | cell | range | name "(" test {"," test} ")" | "(" test ")"
    range   = cell ":" cell | [sheet "!"] ["$"] column ":" ["$"] column
    cell    = [sheet "!"] ["$"] column ["$"] row

Nothing is evaluated as code. Length, nesting, numbers and ranges of a formula are bounded, so no text takes long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

MAX_ROWS, MAX_COLUMNS = 30, 10
"""Size of a sheet."""
MAX_LENGTH, MAX_DEPTH, MAX_RANGES = 300, 12, 6
"""Characters of a formula, its nesting, and its ranges; what is entered has at most 100 characters, and edits lengthen
names of cells."""
LETTERS = "ABCDEFGHIJ"
"""The names of the columns."""
NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,6})?")
_TOKEN = re.compile(
    r'\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<text>"[^"]*")|(?P<fault>\#REF!)|(?P<sheet>[A-Za-z]\w*)!'
    r"|(?P<columns>\$?[A-Za-z]:\$?[A-Za-z])(?!\w)|(?P<cell>\$?[A-Za-z]\$?\d+)(?!\w)|(?P<name>[A-Za-z]\w*)|(?P<sign><>|<=|>=|[-+*/=<>(),:]))",
    re.ASCII,
)
_TESTS = frozenset(("=", "<>", "<", "<=", ">", ">="))


class FormulaError(ValueError):
    """A text is not a formula; the message is an observation."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number that is written out."""

    value: int | Fraction


@dataclass(frozen=True, slots=True)
class Text:
    """A text in quotes, or TRUE or FALSE."""

    value: str | bool


@dataclass(frozen=True, slots=True)
class Lost:
    """A reference to cells that were deleted."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A reference to a cell."""

    sheet: str
    """Empty for the formula's own sheet."""
    column: int
    row: int
    """Both from 0."""
    fixed_column: bool = False
    fixed_row: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """A reference to all cells between two corners, on the sheet of the first."""

    first: Cell
    last: Cell

    @property
    def is_columns(self) -> bool:
        """Whether it is one of whole columns, such as B:B."""
        return self.first.fixed_row and self.last.fixed_row and (self.first.row, self.last.row) == (0, MAX_ROWS - 1)


@dataclass(frozen=True, slots=True)
class Negation:
    """A minus before a value."""

    value: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """A calculation or a comparison."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values and ranges."""

    name: str
    arguments: tuple[Node, ...]


Node = Number | Text | Lost | Cell | Range | Negation | Binary | Call

FUNCTIONS: dict[str, tuple[int, int]] = {
    "ABS": (1, 1), "AND": (1, 8), "AVERAGE": (1, 8), "AVERAGEIF": (2, 3), "COUNT": (1, 8), "COUNTIF": (2, 2),
    "IF": (2, 3), "MAX": (1, 8), "MIN": (1, 8), "NOT": (1, 1), "OR": (1, 8), "ROUND": (1, 2), "SUM": (1, 8),
    "SUMIF": (2, 3), "VLOOKUP": (3, 4),
}  # fmt: skip
"""Least and most arguments of each function."""


# ---- reading --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4_096)
def parse(text: str) -> Node:
    """Return the tree of a formula that begins with `=`; FormulaError otherwise."""
    if not text.startswith("="):
        raise FormulaError("A formula begins with =.")
    if len(text) > MAX_LENGTH:
        raise FormulaError(f"A formula has at most {MAX_LENGTH} characters.")
    parser = _Parser(_tokens(text[1:]))
    node = parser.test()
    if parser.kind:
        raise FormulaError(f"Nothing fits {parser.text!r} there; is an operator or a bracket missing?")
    if sum(isinstance(reference, Range) for reference in references(node)) > MAX_RANGES:
        raise FormulaError(f"A formula has at most {MAX_RANGES} ranges.")
    return node


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place, text = 0, text.rstrip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if not found or not found.lastgroup:
            raise FormulaError(f"{text[place : place + 10].strip()!r} is nothing that formulas know.")
        yield found.lastgroup, found[found.lastgroup]
        place = found.end()


class _Parser:
    """Reads tokens from left to right; a method per rule of the grammar."""

    def __init__(self, tokens: Iterator[tuple[str, str]]) -> None:
        self._rest, self._depth = tokens, 0
        self.next()

    def next(self) -> None:
        self.kind, self.text = next(self._rest, ("", ""))

    def take(self, *signs: str) -> str:
        """Return the sign that is next, and move on; empty if it is none of these."""
        if self.kind != "sign" or self.text not in signs:
            return ""
        sign = self.text
        self.next()
        return sign

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise FormulaError(f"{sign!r} is missing" + (f" before {self.text!r}." if self.kind else "."))

    def test(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FormulaError(f"A formula is nested at most {MAX_DEPTH} deep.")
        node = self.sum()
        if sign := self.take(*_TESTS):
            node = Binary(sign, node, self.sum())
        self._depth -= 1
        return node

    def sum(self) -> Node:
        node = self.product()
        while sign := self.take("+", "-"):
            node = Binary(sign, node, self.product())
        return node

    def product(self) -> Node:
        node = self.factor()
        while sign := self.take("*", "/"):
            node = Binary(sign, node, self.factor())
        return node

    def factor(self) -> Node:
        minus = 0
        while sign := self.take("+", "-"):
            minus += sign == "-"
        node = self.atom()
        return Negation(node) if minus % 2 else node

    def atom(self) -> Node:
        kind, text = self.kind, self.text
        if kind in ("", "sign") and text != "(":
            raise FormulaError("A value is missing" + (f" before {text!r}." if kind else "."))
        self.next()
        match kind:
            case "number":
                return Number(read_number(text))
            case "text":
                return Text(text[1:-1])
            case "fault":
                return Lost()
            case "sheet":
                kind, cell, self.text = self.kind, self.text, ""
                if kind not in ("cell", "columns"):
                    raise FormulaError(f"A cell is missing after {text}!.")
                self.next()
                return _columns(cell, text) if kind == "columns" else self.range(_cell(cell, text))
            case "cell":
                return self.range(_cell(text))
            case "columns":
                return _columns(text)
            case "name":
                return self.call(text)
        node = self.test()
        self.expect(")")
        return node

    def range(self, first: Cell) -> Node:
        if not self.take(":"):
            return first
        if self.kind != "cell":
            raise FormulaError("A cell is missing after ':'.")
        last = _cell(self.text)
        self.next()
        if last.column < first.column or last.row < first.row:
            raise FormulaError("A range goes from its upper left cell to its lower right one.")
        return Range(first, last)

    def call(self, name: str) -> Node:
        name = name.upper()
        if name in ("TRUE", "FALSE"):
            return Text(name == "TRUE")
        if name not in FUNCTIONS:
            raise FormulaError(f"No function {name[:20]!r}. There are {', '.join(FUNCTIONS)}; texts stand in quotes.")
        self.expect("(")
        arguments = [self.test()]
        while self.take(","):
            arguments.append(self.test())
        self.expect(")")
        low, high = FUNCTIONS[name]
        if not low <= len(arguments) <= high:
            number = f"{low}" if low == high else f"{low} to {high}"
            raise FormulaError(f"{name} takes {number} argument{'s' * (high > 1)}, not {len(arguments)}.")
        return Call(name, tuple(arguments))


def read_number(text: str) -> int | Fraction:
    """Return a number that is not negative; FormulaError if it is too long."""
    if not NUMBER.fullmatch(text):
        raise FormulaError("A number has at most 12 digits and 6 decimals.")
    return int(text) if "." not in text else Fraction(text)


def _cell(text: str, sheet: str = "") -> Cell:
    parts = text.upper().split("$")
    name = "".join(parts)
    column, row = column_number(name[0]), int(name[1:][:4])
    if not 1 <= row <= MAX_ROWS:
        raise FormulaError(f"No row {row}: rows are 1 to {MAX_ROWS}.")
    return Cell(sheet, column, row - 1, text[0] == "$", "$" in text[1:])


def _columns(text: str, sheet: str = "") -> Range:
    """Return the range of whole columns."""
    first, last = (_cell(f"{column}${row}") for column, row in zip(text.split(":"), (1, MAX_ROWS), strict=True))
    if last.column < first.column:
        raise FormulaError("A range goes from its left column to its right one.")
    return Range(replace(first, sheet=sheet), last)


def column_number(letter: str) -> int:
    """Return the number of a column, from 0; FormulaError if there is none."""
    if len(letter) != 1 or letter.upper() not in LETTERS:
        raise FormulaError(f"No column {letter[:20]!r}: columns are A to {LETTERS[-1]}.")
    return LETTERS.index(letter.upper())


def references(node: Node) -> Iterator[Cell | Range]:
    """Yield the cells and ranges in a formula."""
    match node:
        case Cell() | Range():
            yield node
        case Negation():
            yield from references(node.value)
        case Binary():
            yield from references(node.left)
            yield from references(node.right)
        case Call():
            for argument in node.arguments:
                yield from references(argument)


# ---- writing --------------------------------------------------------------------------------------------------------

_LEVELS = {**dict.fromkeys(_TESTS, 1), "+": 2, "-": 2, "*": 3, "/": 3}


def write(node: Node) -> str:
    """Return the text of a formula, of which `parse` makes the same tree."""
    return f"={_write(node, 1)}"


def _write(node: Node, level: int) -> str:
    """Write a part that binds as strongly as `level`: 1 a test, 2 a sum, 3 a product, 4 a factor, 5 an atom."""
    match node:
        case Number():
            return write_number(node.value)
        case Text(value=bool(truth)):
            return "TRUE" if truth else "FALSE"
        case Text():
            return f'"{node.value}"'
        case Lost():
            return "#REF!"
        case Cell():
            return f"{node.sheet}{'!' if node.sheet else ''}{_cell_name(node)}"
        case Range():
            text = f"{_write(node.first, 5)}:{_cell_name(node.last)}"
            return re.sub(r"\$\d+", "", text) if node.is_columns else text
        case Negation():
            text = f"-{_write(node.value, 5)}"
            return f"({text})" if level == 5 else text
        case Call():
            return f"{node.name}({','.join(_write(argument, 1) for argument in node.arguments)})"
    here = _LEVELS[node.sign]
    left = _write(node.left, here + (here == 1))
    text = f"{left}{node.sign}{_write(node.right, here + 1)}"
    return f"({text})" if here < level else text


def _cell_name(cell: Cell) -> str:
    return f"{'$' * cell.fixed_column}{LETTERS[cell.column]}{'$' * cell.fixed_row}{cell.row + 1}"


def write_number(value: int | Fraction) -> str:
    """Return a number of at most six decimals as it is written in a cell."""
    if value.denominator == 1:
        return str(value.numerator)
    scaled = abs(value.numerator) * 10**6 // value.denominator
    text = f"{scaled // 10**6}.{scaled % 10**6:06}".rstrip("0")
    return f"{'-' * (value < 0)}{text}"


# ---- references under edits -----------------------------------------------------------------------------------------


def _map_references(node: Node, change: Callable[[Cell | Range], Node]) -> Node:
    match node:
        case Cell() | Range():
            return change(node)
        case Negation():
            return replace(node, value=_map_references(node.value, change))
        case Binary():
            left, right = _map_references(node.left, change), _map_references(node.right, change)
            return replace(node, left=left, right=right)
        case Call():
            return replace(node, arguments=tuple(_map_references(each, change) for each in node.arguments))
    return node


def copy_to(node: Node, down: int, right: int) -> Node:
    """Return a formula as if it was copied: its references move along, except for what a `$` fixes."""

    def move(cell: Cell) -> Cell | None:
        row, column = cell.row + down * (not cell.fixed_row), cell.column + right * (not cell.fixed_column)
        inside = 0 <= row < MAX_ROWS and 0 <= column < MAX_COLUMNS
        return replace(cell, row=row, column=column) if inside else None

    def change(reference: Cell | Range) -> Node:
        if isinstance(reference, Cell):
            return move(reference) or Lost()
        first, last = move(reference.first), move(reference.last)
        if first is None or last is None:
            return Lost()
        (top, *upper), (bottom, *lower) = sorted(((first.row, first.fixed_row), (last.row, last.fixed_row)))
        columns = sorted(((first.column, first.fixed_column), (last.column, last.fixed_column)))
        (start, *left), (end, *right_) = columns
        return Range(Cell(first.sheet, start, top, *left, *upper), Cell("", end, bottom, *right_, *lower))

    return _map_references(node, change)


def after_edit(node: Node, own: str, sheet: str, axis: str, at: int, *, deleted: bool) -> Node:
    """Return a formula of sheet `own` after a row or column of `sheet` was inserted before `at`, or `at` was deleted.

    A reference to a deleted cell is lost, and so is one that is pushed out of the sheet; a range grows and shrinks.
    """
    size = MAX_ROWS if axis == "row" else MAX_COLUMNS

    def moved(cell: Cell, place: int) -> Cell:
        return replace(cell, row=place) if axis == "row" else replace(cell, column=place)

    def change(reference: Cell | Range) -> Node:
        first = reference if isinstance(reference, Cell) else reference.first
        last = first if isinstance(reference, Cell) else reference.last
        if (first.sheet or own) != sheet or (axis == "row" and isinstance(reference, Range) and reference.is_columns):
            return reference
        start, end = getattr(first, axis), getattr(last, axis)
        if deleted:
            start, end = start - (start > at), end - (end >= at)
        else:
            start, end = start + (start >= at), end + (end >= at)
        if isinstance(reference, Cell):
            is_lost = start >= size or (deleted and getattr(first, axis) == at)
            return Lost() if is_lost else moved(first, start)
        return Lost() if end < start or end >= size else Range(moved(first, start), moved(last, end))

    return _map_references(node, change)
