"""What the cells of a workbook show: exact numbers, texts, TRUE and FALSE, and errors."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any

from agentgym_envs.sheet.formulas import (
    NUMBER,
    Binary,
    Call,
    Cell,
    Lost,
    Negation,
    Node,
    Number,
    Range,
    Text,
    parse,
    read_number,
    references,
    write_number,
)

MAX_BITS = 128
"""Size of a numerator or a denominator: about 38 digits."""


class Fault(Enum):
    """The error that a cell shows."""

    CYCLE = "#CYCLE!"
    DIVISION = "#DIV/0!"
    MISSING = "#N/A"
    NUMBER = "#NUM!"
    REFERENCE = "#REF!"
    VALUE = "#VALUE!"


Value = int | Fraction | str | bool | Fault | None
"""None is an empty cell."""
Matrix = Sequence[Sequence[str]]
"""The contents of a sheet, row by row; all rows are equally long."""
Place = tuple[str, int, int]
"""Sheet, row, column."""


class _FaultError(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


@lru_cache(maxsize=8_192)
def constant(content: str) -> Value:
    """Return what a cell without a formula shows."""
    if not content:
        return None
    digits = content.removeprefix("-")
    if not NUMBER.fullmatch(digits):
        return content
    number = read_number(digits)
    return -number if content[0] == "-" else number


def show(value: Value) -> str:
    """Return a value as an observation shows it: a number with at most two decimals."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, Fault):
        return value.value
    return value if isinstance(value, str) else write_number(round_half_up(value, 2))


@lru_cache(maxsize=8_192)
def show_content(content: str) -> str:
    """Return what a cell without a formula shows, as text."""
    return show(constant(content))


def round_half_up(value: int | Fraction, digits: int) -> int | Fraction:
    """Round to a number of decimals, halves away from zero."""
    scale, below = 10**digits, value.denominator
    size = (2 * abs(value.numerator) * scale + below) // (2 * below)
    return _whole(Fraction(-size if value < 0 else size, scale))


# ---- the cells of a workbook ----------------------------------------------------------------------------------------


def compute(sheets: Mapping[str, Matrix]) -> dict[str, list[list[Value]]]:
    """Return what each cell shows; a cell whose formula leads to a circle of references shows #CYCLE!."""
    grid: dict[str, list[list[Value]]] = {}
    trees: dict[Place, Node] = {}
    for name, rows in sheets.items():
        grid[name] = [[None if text[:1] == "=" else constant(text) for text in row] for row in rows]
        for r, row in enumerate(rows):
            for c, text in enumerate(row):
                if text[:1] == "=":
                    trees[name, r, c] = parse(text)
    for place, fault in _order(trees, grid):
        name, r, c = place
        grid[name][r][c] = fault or _Evaluation(grid, name).result(trees[place])
    return grid


def value_of(formula: str, grid: Mapping[str, list[list[Value]]], sheet: str) -> Value:
    """Return the value of a formula that stands nowhere, with the cells of an open sheet."""
    return _Evaluation(grid, sheet).result(parse(formula))


def _order(trees: Mapping[Place, Node], grid: Mapping[str, list[list[Value]]]) -> Iterator[tuple[Place, Fault | None]]:
    """Yield the formulas in an order in which each comes after those that it needs, and which lead to a circle.

    It is a depth-first search with a stack of its own, because a chain may be as long as the workbook has cells.
    """
    open_, circular, done = set[Place](), set[Place](), set[Place]()
    for root in trees:
        stack = [root]
        while stack:
            place = stack[-1]
            if place in done:
                stack.pop()
                continue
            needed = [each for each in _needed(trees[place], place[0], grid) if each in trees]
            if place not in open_:
                open_.add(place)
                if any(each in open_ for each in needed if each not in done):
                    circular.add(place)
                stack += [each for each in needed if each not in open_]
                continue
            if any(each in circular for each in needed):
                circular.add(place)
            done.add(place)
            stack.pop()
            yield place, Fault.CYCLE if place in circular else None


def _needed(node: Node, own: str, grid: Mapping[str, list[list[Value]]]) -> Iterator[Place]:
    for reference in references(node):
        first = reference if isinstance(reference, Cell) else reference.first
        last = reference if isinstance(reference, Cell) else reference.last
        name = first.sheet or own
        height = len(grid.get(name, ()))
        for row in range(first.row, min(last.row + 1, height)):
            for column in range(first.column, last.column + 1):
                yield name, row, column


class _Evaluation:
    """Computes formulas of one sheet, in a grid that has the values of all cells that they need."""

    def __init__(self, grid: Mapping[str, list[list[Value]]], sheet: str) -> None:
        self._grid, self._sheet = grid, sheet

    def result(self, node: Node) -> Value:
        """Return the value of a formula; a reference to an empty cell is 0."""
        try:
            value = self.value(node)
        except _FaultError as error:
            return error.fault
        return 0 if value is None else value

    def value(self, node: Node) -> Value:
        match node:
            case Number() | Text():
                return node.value
            case Lost():
                raise _FaultError(Fault.REFERENCE)
            case Range():
                raise _FaultError(Fault.VALUE)
            case Cell():
                value = self._at(node.sheet or self._sheet, node.row, node.column)
                if isinstance(value, Fault):
                    raise _FaultError(value)
                return value
            case Negation():
                return -self.number(node.value)
            case Binary():
                if node.sign in _COMPARE:
                    return _compare(node.sign, self.value(node.left), self.value(node.right))
                return _calculate(node.sign, self.number(node.left), self.number(node.right))
            case Call():
                return _FUNCTIONS[node.name](self, *node.arguments)

    def number(self, node: Node) -> int | Fraction:
        """Return a number; an empty cell is 0, and anything else #VALUE!."""
        value = self.value(node)
        if value is None:
            return 0
        if isinstance(value, bool | str | Fault):
            raise _FaultError(Fault.VALUE)
        return value

    def truth(self, node: Node) -> bool:
        """Return TRUE or FALSE; a number is true unless it is 0."""
        value = self.value(node)
        if isinstance(value, str | Fault):
            raise _FaultError(Fault.VALUE)
        return bool(value)

    def cells(self, node: Node) -> list[list[Value]]:
        """Return the values of a range, or of a single cell."""
        if isinstance(node, Lost):
            raise _FaultError(Fault.REFERENCE)
        if not isinstance(node, Cell | Range):
            raise _FaultError(Fault.VALUE)
        first, last = (node, node) if isinstance(node, Cell) else (node.first, node.last)
        name = first.sheet or self._sheet
        return [
            [self._at(name, row, column) for column in range(first.column, last.column + 1)]
            for row in range(first.row, last.row + 1)
        ]

    def numbers(self, *nodes: Node) -> list[int | Fraction]:
        """Return the numbers in ranges, where texts do not count, and of other arguments, which must be numbers."""
        numbers: list[int | Fraction] = []
        for node in nodes:
            if isinstance(node, Cell | Range | Lost):
                numbers += [_plain(value) for row in self.cells(node) for value in row if _is_number_or_fault(value)]
            else:
                numbers.append(self.number(node))
        return numbers

    def _at(self, sheet: str, row: int, column: int) -> Value:
        rows = self._grid.get(sheet)
        if rows is None:
            raise _FaultError(Fault.REFERENCE)
        return rows[row][column] if row < len(rows) and column < len(rows[row]) else None


# ---- calculations ---------------------------------------------------------------------------------------------------


def _whole(number: int | Fraction) -> int | Fraction:
    return number.numerator if number.denominator == 1 else number


def _bounded(number: int | Fraction) -> int | Fraction:
    if number.numerator.bit_length() > MAX_BITS or number.denominator.bit_length() > MAX_BITS:
        raise _FaultError(Fault.NUMBER)
    return _whole(number)


def _calculate(sign: str, left: int | Fraction, right: int | Fraction) -> int | Fraction:
    if sign == "/":
        if not right:
            raise _FaultError(Fault.DIVISION)
        return _bounded(Fraction(left) / right)
    return _bounded(left + right if sign == "+" else left - right if sign == "-" else left * right)


def _total(numbers: Sequence[int | Fraction]) -> int | Fraction:
    total: int | Fraction = 0
    for number in numbers:
        total = _bounded(total + number)
    return total


_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_CRITERION = re.compile(r"(<>|<=|>=|=|<|>)?(.*)", re.DOTALL)


def _is_number_or_fault(value: Value) -> bool:
    return value is not None and not isinstance(value, bool | str)


def _plain(value: Value) -> int | Fraction:
    """Return a number from a range; an error passes on."""
    if isinstance(value, Fault):
        raise _FaultError(value)
    assert isinstance(value, int | Fraction)
    return value


def _kind(value: Value) -> str:
    return "truth" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def _compare(sign: str, left: Value, right: Value) -> bool:
    """Compare two values: texts in any case, an empty cell as 0 or '', different kinds only by = and <>."""
    if left is None:
        left = "" if isinstance(right, str) else 0
    if right is None:
        right = "" if isinstance(left, str) else 0
    if _kind(left) != _kind(right):
        if sign in ("=", "<>"):
            return sign == "<>"
        raise _FaultError(Fault.VALUE)
    if isinstance(left, str) and isinstance(right, str):
        left, right = left.casefold(), right.casefold()
    return _COMPARE[sign](left, right)


def matcher(criterion: Value) -> Callable[[Value], bool]:
    """Return the test of a criterion: a value to be equal to, or a text such as `>10` or `<>Oslo`."""
    sign, wanted = "=", criterion
    if isinstance(criterion, str):
        found = _CRITERION.fullmatch(criterion)
        assert found
        sign, wanted = found[1] or "=", constant(found[2].strip())
    if wanted is None:
        wanted = ""

    def fits(value: Value) -> bool:
        if isinstance(value, Fault) or isinstance(wanted, Fault):
            return False
        if value is None:
            value = ""
        if _kind(value) != _kind(wanted):
            return sign == "<>"
        return _compare(sign, value, wanted)

    return fits


# ---- functions ------------------------------------------------------------------------------------------------------


def _average(evaluation: _Evaluation, *nodes: Node) -> Value:
    return _mean(evaluation.numbers(*nodes))


def _mean(numbers: Sequence[int | Fraction]) -> int | Fraction:
    if not numbers:
        raise _FaultError(Fault.DIVISION)
    return _bounded(Fraction(_total(numbers)) / len(numbers))


def _count(evaluation: _Evaluation, *nodes: Node) -> Value:
    """Count numbers; in ranges anything else does not count, not even an error."""
    count = 0
    for node in nodes:
        if isinstance(node, Cell | Range):
            values = [value for row in evaluation.cells(node) for value in row]
        else:
            values = [evaluation.value(node)]
        count += sum(_is_number_or_fault(value) and not isinstance(value, Fault) for value in values)
    return count


def _selected(evaluation: _Evaluation, where: Node, criterion: Node, of: Node | None) -> list[int | Fraction]:
    """Return the numbers of `of` in the places where a cell of `where` fits the criterion."""
    tested = evaluation.cells(where)
    taken = tested if of is None else evaluation.cells(of)
    if [len(tested), *map(len, tested)] != [len(taken), *map(len, taken)]:
        raise _FaultError(Fault.VALUE)
    fits = matcher(evaluation.value(criterion))
    pairs = [pair for rows in zip(tested, taken, strict=True) for pair in zip(*rows, strict=True)]
    return [_plain(value) for test, value in pairs if fits(test) and _is_number_or_fault(value)]


def _sum_if(evaluation: _Evaluation, where: Node, criterion: Node, of: Node | None = None) -> Value:
    return _total(_selected(evaluation, where, criterion, of))


def _average_if(evaluation: _Evaluation, where: Node, criterion: Node, of: Node | None = None) -> Value:
    return _mean(_selected(evaluation, where, criterion, of))


def _count_if(evaluation: _Evaluation, where: Node, criterion: Node) -> Value:
    cells, fits = evaluation.cells(where), matcher(evaluation.value(criterion))
    return sum(fits(value) for row in cells for value in row)


def _if(evaluation: _Evaluation, test: Node, then: Node, otherwise: Node | None = None) -> Value:
    if evaluation.truth(test):
        return evaluation.value(then)
    return False if otherwise is None else evaluation.value(otherwise)


def _truths(evaluation: _Evaluation, nodes: Sequence[Node]) -> list[bool]:
    """Evaluate all arguments, because an error in any of them is the result."""
    return [evaluation.truth(node) for node in nodes]


def _lookup(evaluation: _Evaluation, key: Node, table: Node, column: Node, near: Node | None = None) -> Value:
    """Find the first row whose first cell is equal to the key; a nearest match is not supported."""
    wanted, rows, number = evaluation.value(key), evaluation.cells(table), evaluation.number(column)
    if near is not None and evaluation.truth(near):
        raise _FaultError(Fault.VALUE)
    if number.denominator != 1 or not 1 <= number <= len(rows[0]):
        raise _FaultError(Fault.REFERENCE)
    for row in rows:
        if row[0] is not None and not isinstance(row[0], Fault) and _compare("=", row[0], wanted):
            value = row[int(number) - 1]
            if isinstance(value, Fault):
                raise _FaultError(value)
            return value
    raise _FaultError(Fault.MISSING)


def _round(evaluation: _Evaluation, value: Node, digits: Node | None = None) -> Value:
    places = 0 if digits is None else evaluation.number(digits)
    if places.denominator != 1 or not 0 <= places <= 6:
        raise _FaultError(Fault.NUMBER)
    return _bounded(round_half_up(evaluation.number(value), int(places)))


_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "ABS": lambda evaluation, node: abs(evaluation.number(node)),
    "AND": lambda evaluation, *nodes: all(_truths(evaluation, nodes)),
    "AVERAGE": _average,
    "AVERAGEIF": _average_if,
    "COUNT": _count,
    "COUNTIF": _count_if,
    "IF": _if,
    "MAX": lambda evaluation, *nodes: max(evaluation.numbers(*nodes), default=0),
    "MIN": lambda evaluation, *nodes: min(evaluation.numbers(*nodes), default=0),
    "NOT": lambda evaluation, node: not evaluation.truth(node),
    "OR": lambda evaluation, *nodes: any(_truths(evaluation, nodes)),
    "ROUND": _round,
    "SUM": lambda evaluation, *nodes: _total(evaluation.numbers(*nodes)),
    "SUMIF": _sum_if,
    "VLOOKUP": _lookup,
}
