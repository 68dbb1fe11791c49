"""Formulas are read, written, computed and moved along as a slow evaluator and a real spreadsheet would."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.sheet.book import Book, canonical, content_of
from agentgym_envs.sheet.evaluate import Fault, Value, compute, show, value_of
from agentgym_envs.sheet.formulas import FormulaError, copy_to, parse, write
from agentgym_py.env.tools import RefusedError

ROWS, COLUMNS = 4, 3
Tree = tuple[Any, ...]
"""A formula of the tests: an operation and its operands; the reference computes it without `parse`."""


def ranges() -> st.SearchStrategy[Tree]:
    """Ranges within four rows and three columns."""
    pairs = st.tuples(*[st.integers(0, n - 1) for n in (ROWS, COLUMNS, ROWS, COLUMNS)])
    return pairs.map(lambda p: ("range", min(p[0], p[2]), min(p[1], p[3]), max(p[0], p[2]), max(p[1], p[3])))


def trees() -> st.SearchStrategy[Tree]:
    """Formulas of every kind of part."""
    cells = st.tuples(st.just("cell"), st.integers(0, ROWS - 1), st.integers(0, COLUMNS - 1))
    leaves = st.one_of(
        st.integers(0, 9).map(lambda n: ("number", n)),
        st.sampled_from(["x", "Y", ""]).map(lambda text: ("text", text)),
        cells,
    )

    def extend(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        return st.one_of(
            st.tuples(st.sampled_from(["+", "-", "*", "/", "=", "<>", "<", "<=", ">", ">="]), inner, inner),
            st.tuples(st.just("neg"), inner),
            st.tuples(st.just("IF"), inner, inner, inner),
            st.tuples(st.sampled_from(["SUM", "AVERAGE", "COUNT", "MIN", "MAX"]), ranges()),
            st.tuples(st.just("COUNTIF"), ranges(), st.sampled_from([">2", "<>x", "x", "3", "<=4"])),
            st.tuples(st.just("SUMIF"), st.integers(0, COLUMNS - 1), st.sampled_from([">2", "x", "<3"])),
        )

    return st.recursive(leaves, extend, max_leaves=5).filter(is_formula)


def is_formula(tree: Tree) -> bool:
    """Tell whether a tree is neither too long nor nested too deep."""
    try:
        return bool(parse(f"={text(tree)}"))
    except FormulaError:
        return False


def text(tree: Tree) -> str:
    """Write a tree with brackets around everything."""
    match tree:
        case ("number", n):
            return str(n)
        case ("text", word):
            return f'"{word}"'
        case ("cell", row, column):
            return f"{'ABC'[column]}{row + 1}"
        case ("range", top, left, bottom, right):
            return f"{'ABC'[left]}{top + 1}:{'ABC'[right]}{bottom + 1}"
        case ("neg", value):
            return f"-({text(value)})"
        case ("COUNTIF", area, criterion):
            return f'COUNTIF({text(area)},"{criterion}")'
        case ("SUMIF", column, criterion):
            return f'SUMIF(A1:A{ROWS},"{criterion}",{"ABC"[column]}1:{"ABC"[column]}{ROWS})'
        case ("IF" | "SUM" | "AVERAGE" | "COUNT" | "MIN" | "MAX" as name, *arguments):
            return f"{name}({','.join(map(text, arguments))})"
    sign, left, right = tree
    return f"({text(left)}){sign}({text(right)})"


# ---- a slow evaluator ------------------------------------------------------------------------------------------------

Grid = Mapping[tuple[int, int], Any]
"""Contents by row and column: numbers, texts and trees."""


def needed(tree: Any) -> set[tuple[int, int]]:
    """All cells that stand in a tree."""
    if not isinstance(tree, tuple):
        return set()
    if tree[0] == "cell":
        return {(tree[1], tree[2])}
    if tree[0] == "range":
        return {(r, c) for r in range(tree[1], tree[3] + 1) for c in range(tree[2], tree[4] + 1)}
    if tree[0] == "SUMIF":
        return {(r, c) for r in range(ROWS) for c in (0, tree[1])}
    return set[tuple[int, int]]().union(*map(needed, tree[1:]))


def is_circular(grid: Grid, place: tuple[int, int]) -> bool:
    """Whether a path of references from a cell comes to a cell twice: it reaches a cell that reaches itself."""

    def reached(start: tuple[int, int]) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        edge = needed(grid.get(start))
        while edge - found:
            found |= edge
            edge = set[tuple[int, int]]().union(*(needed(grid.get(each)) for each in edge))
        return found

    return any(each in reached(each) for each in reached(place) | {place})


def slow(grid: Grid, place: tuple[int, int]) -> Value:
    """The value of a cell, by recursion from scratch."""
    content = grid.get(place)
    if not isinstance(content, tuple):
        return content
    if is_circular(grid, place):
        return Fault.CYCLE
    value = slow_tree(grid, content)
    return 0 if value is None else value


def fits(value: Value, criterion: str) -> bool:
    """Whether a value fits one of the criteria of these tests."""
    number = isinstance(value, int | Fraction) and not isinstance(value, bool)
    tests: dict[str, bool] = {
        ">2": number and value > 2, "<=4": number and value <= 4,  # type: ignore[operator]
        "<3": number and value < 3, "3": number and value == 3,  # type: ignore[operator]
        "x": isinstance(value, str) and value.lower() == "x",
        "<>x": not isinstance(value, Fault) and not (isinstance(value, str) and value.lower() == "x"),
    }  # fmt: skip
    return tests[criterion]


def slow_tree(grid: Grid, tree: Tree) -> Value:
    """The value of a tree; a fault is a value like any other here."""
    match tree:
        case ("number", n):
            return int(n)
        case ("text", word):
            return str(word)
        case ("cell", row, column):
            return slow(grid, (row, column))
        case ("range", *_):
            return Fault.VALUE
        case ("IF", test, then, otherwise):
            value = slow_tree(grid, test)
            if isinstance(value, Fault):
                return value
            if isinstance(value, str):
                return Fault.VALUE
            return slow_tree(grid, then if value else otherwise)
        case ("COUNTIF", area, criterion):
            return sum(fits(slow(grid, place), criterion) for place in needed(area))
        case ("SUMIF", column, criterion):
            rows = [row for row in range(ROWS) if fits(slow(grid, (row, 0)), criterion)]
            return slow_total("SUM", [slow(grid, (row, column)) for row in rows])
        case ("SUM" | "AVERAGE" | "COUNT" | "MIN" | "MAX" as name, area):
            return slow_total(name, [slow(grid, place) for place in sorted(needed(area))])
        case ("neg", value):
            return slow_tree(grid, ("-", ("number", 0), value))
    sign, *operands = tree
    values = [slow_tree(grid, operand) for operand in operands]
    for value in values:
        if isinstance(value, Fault):
            return value
        if sign in "+-*/" and isinstance(value, str | bool):
            return Fault.VALUE
    if sign in ("+", "-", "*", "/"):
        left, right = (Fraction(0 if value is None else value) for value in values)  # type: ignore[arg-type]
        if sign == "/":
            return Fault.DIVISION if right == 0 else left / right
        return {"+": left + right, "-": left - right, "*": left * right}[sign]
    return slow_comparison(sign, *values)


def slow_comparison(sign: str, left: Value, right: Value) -> Value:
    """Compare values that are no faults."""
    if left is None:
        left = "" if isinstance(right, str) else 0
    if right is None:
        right = "" if isinstance(left, str) else 0
    kinds = {("truth" if isinstance(v, bool) else "text" if isinstance(v, str) else "number") for v in (left, right)}
    if len(kinds) == 2:
        return {"=": False, "<>": True}.get(sign, Fault.VALUE)
    if isinstance(left, str) and isinstance(right, str):
        left, right = left.lower(), right.lower()
    order = (left > right) - (left < right)  # type: ignore[operator]
    return {"=": order == 0, "<>": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[sign]


def slow_total(name: str, values: list[Value]) -> Value:
    """A function of the values of a range."""
    numbers = [value for value in values if isinstance(value, int | Fraction) and not isinstance(value, bool)]
    if name == "COUNT":
        return len(numbers)
    for value in values:
        if isinstance(value, Fault):
            return value
    if name in ("MIN", "MAX"):
        return min(numbers, default=0) if name == "MIN" else max(numbers, default=0)
    total = sum(numbers, Fraction(0))
    if name == "SUM":
        return total
    return Fraction(total, len(numbers)) if numbers else Fault.DIVISION


contents = st.one_of(st.none(), st.integers(-5, 9), st.sampled_from(["x", "Y"]), trees(), trees())


@settings(max_examples=60, deadline=None)
@given(st.lists(contents, min_size=ROWS * COLUMNS, max_size=ROWS * COLUMNS))
def test_a_sheet_shows_what_the_slow_evaluator_computes(cells: list[Any]) -> None:
    """Numbers, texts, TRUE and FALSE, every error, and circles."""
    grid = {divmod(place, COLUMNS): content for place, content in enumerate(cells)}
    texts = {
        place: f"={text(content)}" if isinstance(content, tuple) else "" if content is None else str(content)
        for place, content in grid.items()
    }
    shown = compute({"Data": [[texts[row, column] for column in range(COLUMNS)] for row in range(ROWS)]})["Data"]
    for row, column in grid:
        expected = slow(grid, (row, column))
        assert shown[row][column] == expected, (texts, row, column)
        assert isinstance(shown[row][column], bool) == isinstance(expected, bool)


@settings(max_examples=60, deadline=None)
@given(trees())
def test_a_formula_is_written_as_it_is_read(tree: Tree) -> None:
    """Its text has one form, with no needless brackets, and leads to the same tree."""
    once = write(parse(f"={text(tree)}"))
    assert parse(once) == parse(f"={text(tree)}")
    assert write(parse(once)) == once == canonical(once)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='=ABz129$!:()+-*/<>,."# SUMIFVLOKP\n', max_size=60))
def test_any_text_is_a_formula_or_refused(words: str) -> None:
    """And a formula has a value in an empty workbook."""
    try:
        node = parse(f"={words}")
    except FormulaError as error:
        assert str(error)
        return
    assert parse(write(node)) == node
    show(value_of(f"={words}", compute({"Data": [[""]]}), "Data"))


@settings(max_examples=60, deadline=None)
@given(trees(), st.integers(1, ROWS), st.integers(0, COLUMNS - 1))
def test_an_empty_row_or_column_changes_no_value(tree: Tree, row: int, column: int) -> None:
    """Formulas move along with their cells, and ranges grow."""
    rows = [["1", "x", "3"], ["2", "4", ""], ["Y", "5", "6"], ["7", "8", "9"], [canonical(f"={text(tree)}"), "", "end"]]
    if "COUNTIF" in rows[-1][0]:
        return  # an empty cell is different from x
    book = Book({"Data": [line[:] for line in rows]}, "Data")
    before = book.value(4, 0)
    book.insert_row(row, [])
    assert book.value(5, 0) == before and len(book.rows) == 6
    book.delete_rows([row])
    assert book.rows == rows
    book.insert_column(column, [])
    assert book.value(4, int(column == 0)) == before
    book.delete_column(column)
    assert book.rows == rows


# ---- examples -------------------------------------------------------------------------------------------------------

STOCK = [["item", "qty", "price"], ["cup", "4", "2.5"], ["pen", "10", "1"], ["Cup", "6", "3"], ["", "", ""]]


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        ("=SUM(B2:B4)", "20"), ("=B2*C2", "10"), ("=AVERAGE(B2:B4)", "6.67"), ("=COUNT(A1:C4)", "6"),
        ("=MAX(B2:B4)-MIN(B2:B4)", "6"), ('=SUMIF(A2:A4,"cup",B2:B4)', "10"), ('=COUNTIF(B2:B4,">4")', "2"),
        ('=AVERAGEIF(A2:A4,"<>pen",C2:C4)', "2.75"), ('=VLOOKUP("PEN",A2:C4,3,FALSE)', "1"), ("=ABS(2-5)", "3"),
        ('=IF(B2>4,"many","few")', "few"), ("=IF(AND(B2=4,C2<3),1,2)", "1"), ("=NOT(OR(1=2,3>4))", "TRUE"),
        ("=ROUND(10/3,1)", "3.3"), ("=-2--3", "1"), ("=2+3*4", "14"), ("=(2+3)*4", "20"), ("=1/0", "#DIV/0!"),
        ("=A2+1", "#VALUE!"), ('=VLOOKUP("hat",A2:C4,2)', "#N/A"), ("=VLOOKUP(A2,A2:C4,4)", "#REF!"),
        ("=SUM(A2:A4)", "0"), ("=AVERAGE(A2:A4)", "#DIV/0!"), ("=B5+1", "1"), ("=B5", "0"), ('=A5=""', "TRUE"),
        ("=Stock!B2", "4"), ("=Other!B2", "#REF!"), ("=A2>B2", "#VALUE!"), ("=A2=B2", "FALSE"), ("=B2:B4", "#VALUE!"),
        ('=VLOOKUP("pen",A2:C4,2,TRUE)', "#VALUE!"), ("=SUMIF(A2:A4,1,B2:B3)", "#VALUE!"), ("=ROUND(1,9)", "#NUM!"),
        ("=999999999999*999999999999*999999999999*999999999999", "#NUM!"), ("=IF(1=1,2,1/0)", "2"),
        ("=SUM(B:B)", "20"), ("=sum($b:c)", "26.5"), ('=SUMIF(A:A,"cup",Stock!C:C)', "5.5"), ("=B:B", "#VALUE!"),
        ('=VLOOKUP("pen",Stock!$A:$C,3,FALSE)', "1"),
    ],
)  # fmt: skip
def test_a_formula_shows(formula: str, shown: str) -> None:
    """Its value, exactly computed and rounded only for display."""
    assert show(value_of(formula, compute({"Stock": STOCK}), "Stock")) == shown


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("=", "value is missing"), ("=1+", "value is missing"), ("=SUM(B2", "')' is missing"),
        ("=SUM()", "value is missing"),
        ("=K1", "No column 'K'"), ("=A31", "No row 31"), ("=FOO(1)", "No function 'FOO'"), ("=B4:B2", "upper left"),
        ("=SUM(B:A)", "left column"), ("=SUM(K:K)", "No column 'K'"), ("=SUM(B:B2)", "No function"),
        ("=ABS(1,2)", "takes 1 argument, not 2"), ("=__import__", "nothing that formulas know"),
        ("=1 2", "Nothing fits"),
        ("=" + "(" * 13 + "1" + ")" * 13, "nested at most 12"), ("=" + "1+" * 200 + "1", "at most 300 characters"),
        ("=" + "+".join(["SUM(A1:A2)"] * 7), "at most 6 ranges"), ("=1234567890123", "at most 12 digits"),
        ("=Stock!", "cell is missing"), ("=A1:", "cell is missing"), ("B2", "begins with ="),
    ],
)  # fmt: skip
def test_other_texts_are_refused(formula: str, message: str) -> None:
    """With what is wrong."""
    with pytest.raises(
        FormulaError, match="(?i)" + message.replace("(", r"\(").replace(")", r"\)").replace("+", r"\+")
    ):
        parse(formula)


def test_a_chain_through_a_full_sheet_is_computed_without_recursion() -> None:
    """Each of 300 cells needs the next one."""
    names = [f"{letter}{row}" for letter in "ABCDEFGHIJ" for row in range(1, 31)]
    following = dict(zip(names, [*names[1:], ""], strict=True))
    rows = [[f"={following[f'{c}{r}']}+1" if following[f"{c}{r}"] else "1" for c in "ABCDEFGHIJ"] for r in range(1, 31)]
    assert compute({"Data": rows})["Data"][0][0] == 300
    rows[29][9] = "=A1"
    assert {value for row in compute({"Data": rows})["Data"] for value in row} == {Fault.CYCLE}


@pytest.mark.parametrize(
    ("formula", "moved"),
    [
        ("=B2*$C$1", "=D5*$C$1"),
        ("=SUM(B$2:C3)", "=SUM(D$2:E6)"),
        ("=Stock!A1", "=Stock!C4"),
        ("=J1", "=#REF!"),
        ("=SUM(B:$C)", "=SUM($C:D)"),
        ("=Stock!J:J", "=#REF!"),
    ],
)
def test_a_copied_formula_moves_along(formula: str, moved: str) -> None:
    """Three rows down and two columns right, but for what a dollar sign fixes."""
    assert write(copy_to(parse(formula), 3, 2)) == moved


def test_deleted_cells_are_lost() -> None:
    """A range shrinks, and a reference to a deleted cell becomes an error, also in another sheet."""
    book = Book({"Stock": [row[:] for row in STOCK[:4]], "Sum": [["=SUM(Stock!B2:B4)", "=Stock!B3"]]}, "Stock")
    book.delete_rows([2])
    assert book.sheets["Sum"] == [["=SUM(Stock!B2:B3)", "=#REF!"]]
    assert [show(value) for value in book.values["Sum"][0]] == ["10", "#REF!"]


def test_a_whole_column_stays_whole() -> None:
    """When rows come and go; a column that is deleted is lost."""
    book = Book({"Stock": [row[:] for row in STOCK[:4]], "Sum": [["=SUM(Stock!B:B)", "=SUM(Stock!B:C)"]]}, "Stock")
    book.insert_row(4, ["hat", "5", "1"])
    book.delete_rows([1])
    assert book.sheets["Sum"] == [["=SUM(Stock!B:B)", "=SUM(Stock!B:C)"]]
    assert [show(value) for value in book.values["Sum"][0]] == ["21", "26"]
    book.delete_column(1)
    assert book.sheets["Sum"] == [["=SUM(#REF!)", "=SUM(Stock!B:B)"]]
    book.rows[0][2:] = ["=SUM(A:C)"]
    assert show(compute(book.sheets)["Stock"][0][2]) == "#CYCLE!"


def test_sorted_rows_take_their_formulas_along() -> None:
    """References within the row move with it; empty cells come last in either order."""
    rows = [["n", "double"], ["3", "=A2*2"], ["1", "=A3*2"], ["", "x"], ["2", "=A5*2"]]
    for descending, expected in ((False, ["1", "2", "3", ""]), (True, ["3", "2", "1", ""])):
        book = Book({"Data": [row[:] for row in rows]}, "Data")
        book.sort(0, descending=descending)
        assert [row[0] for row in book.rows[1:]] == expected
        assert [row[1] for row in book.rows[1:]] == ["=A2*2", "=A3*2", "=A4*2", "x"]


@pytest.mark.parametrize(
    ("value", "content"),
    [(7, "7"), (2.50, "2.5"), ("007", "7"), ("-3.10", "-3.1"), (" a  b ", "a b"), ("=b2 + 1", "=B2+1"), (-0.0, "0")],
)
def test_an_entry_has_one_form(value: object, content: str) -> None:
    """Whatever is typed."""
    assert content_of(value, Book({"Data": [[""]]}, "Data")) == content


@pytest.mark.parametrize("value", [True, None, 10**12, float("inf"), float("nan"), 0.12345678, "x" * 61, "=Other!A1"])
def test_other_entries_are_refused(value: object) -> None:
    """Values of other types, numbers that are too long, texts, and formulas about sheets that do not exist."""
    with pytest.raises(RefusedError):
        content_of(value, Book({"Data": [[""]]}, "Data"))
