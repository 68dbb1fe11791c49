"""How a task is drawn: tables, requests about them, and the calls that do what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from agentgym_envs.sheet.book import Book, Rows, cell_name
from agentgym_envs.sheet.evaluate import Value, constant, matcher, show
from agentgym_envs.sheet.formulas import LETTERS, MAX_COLUMNS, write_number
from agentgym_envs.sheet.repair import Call
from agentgym_envs.sheet.tools import ASCENDING, DESCENDING, call
from agentgym_envs.sheet.wording import say, sentence
from agentgym_envs.sheet.words import WORDS, draw
from agentgym_py.env.tools import format_call
from agentgym_py.rng import Rng

_FUNCTIONS = {"sum": "SUM", "average": "AVERAGE", "max": "MAX", "min": "MIN"}
_SIGNS = {"more": ">", "less": "<", "least": ">=", "most": "<="}


class RetryError(Exception):
    """The drawn table does not allow the drawn request."""


class Read(NamedTuple):
    """A lookup that a fair teacher needs before a call."""

    before: int
    """The number of that call."""
    text: str
    note: str


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A workbook and what is asked of it."""

    path: tuple[Book, ...]
    """The workbook before, between and after the calls; nothing may change them."""
    calls: tuple[Call, ...]
    reads: tuple[Read, ...]
    needs: tuple[str, ...]
    """Sheets on which the calls depend."""
    answer: str
    """Empty if the request asks nothing."""
    answer_note: str

    @property
    def start(self) -> Book:
        """The workbook at the start."""
        return self.path[0]

    @property
    def goal(self) -> Book:
        """The workbook at the end."""
        return self.path[-1]


@dataclass
class Table:
    """What is known of a sheet while requests are drawn."""

    sheet: str
    key: str
    group: str
    """The headers of its columns by what they hold; texts, numbers, and columns to be filled."""
    counts: list[str]
    rates: list[str]
    blank: list[str]
    last: int
    """The number of the last row of data, from 0."""

    @property
    def numbers(self) -> list[str]:
        """All columns of numbers."""
        return self.counts + self.rates


class Condition(NamedTuple):
    """A condition on rows."""

    words: str
    column: str
    criterion: str
    """As SUMIF takes it."""
    test: str
    """As a comparison with the cell in the second row."""
    rows: tuple[int, ...]
    """The rows that fit, from 0."""


class Desk:
    """Draws a table, then requests one after the other, each about what the last one left."""

    def __init__(self, rng: Rng, split: str, rows: int, shape: Mapping[str, int]) -> None:
        """Draw the tables: `shape` has the number of columns of each kind, and `list` for a second sheet."""
        self.rng, self.split, self.words = rng, split, WORDS[split]
        self.taken: set[str] = set()
        self.calls: list[Call] = []
        self.reads: list[Read] = []
        self.needs: list[str] = []
        self.answer = self.answer_note = ""
        self._draw_tables(rows, shape)
        self.path = [self.book.copy()]

    # ---- tables -----------------------------------------------------------------------------------------------------

    def name(self, names: tuple[str, ...]) -> str:
        """Draw a name that is new in this task."""
        (name,) = draw(self.rng, self.split, names, 1, self.taken)
        self.taken.add(name)
        return name

    def _draw_tables(self, rows: int, shape: Mapping[str, int]) -> None:
        rng, words = self.rng, self.words
        sheet = self._sheet_name()
        key, group = rng.choice(words.keys), rng.choice(words.groups)
        *names, new = draw(rng, self.split, key.values, rows + 1)
        self.new_name = new
        self.taken |= {*names, new}
        self.group_values = draw(rng, self.split, group.values, 2 + rng.below(2) + (rows > 6), self.taken)
        self.taken |= set(self.group_values)
        self.table = Table(
            sheet, self.name(key.headers), self.name(group.headers) if shape.get("group") else "",
            [self.name(words.counts) for _ in range(shape.get("counts", 0))],
            [self.name(words.rates) for _ in range(shape.get("rates", 0))],
            [self.name(words.results) for _ in range(shape.get("blank", 0))],
            rows,
        )  # fmt: skip
        table = self.table
        others = [table.group] * bool(table.group) + table.numbers
        columns = [table.key, *rng.sample(others, len(others)), *table.blank]
        contents = {header: self._numbers(rows, whole=header in table.counts) for header in table.numbers}
        contents[table.key] = names
        if table.group:
            first = rng.sample(self.group_values, len(self.group_values))
            more = [rng.choice(self.group_values) for _ in range(rows)]
            contents[table.group] = rng.sample((first + more)[:rows], rows)
        lines = [[contents.get(header, [""] * rows)[row] for header in columns] for row in range(rows)]
        sheets: dict[str, Rows] = {sheet: [columns, *lines]}
        self.list: Table | None = None
        if shape.get("list"):
            self.list = self._draw_list(sheets)
        self.book = Book(sheets, sheet)

    def _sheet_name(self) -> str:
        name = self.name(self.words.sheets)
        return name[:1].upper() + name[1:]

    def _draw_list(self, sheets: dict[str, Rows]) -> Table:
        """Draw a second sheet with a line for each value of the group."""
        rng, rows = self.rng, len(self.group_values)
        rates = [self.name(self.words.rates) for _ in range(2)]
        table = Table(self._sheet_name(), self.table.group, self.table.group, [], rates, [], rows)
        columns = [rng.sample(self.group_values, rows), *(self._numbers(rows, whole=False) for _ in rates)]
        lines = [[column[row] for column in columns] for row in range(rows)]
        sheets[table.sheet] = [[table.key, *rates], *lines]
        return table

    def _numbers(self, count: int, *, whole: bool) -> list[str]:
        """Draw different numbers; some columns have halves or quarters."""
        top, part = self.rng.choice((20, 40, 90)), 1 if whole else self.rng.choice((1, 1, 2, 4))
        return [write_number(Fraction(1 + number, part)) for number in self.rng.sample(range(top), count)]

    def column(self, header: str, table: Table | None = None) -> int:
        """Return the place of a column."""
        return self.book.sheets[(table or self.table).sheet][0].index(header)

    def letter(self, header: str, table: Table | None = None) -> str:
        """Return the letter of a column."""
        return LETTERS[self.column(header, table)]

    def span(self, header: str) -> str:
        """Return the range of a column's data."""
        letter = self.letter(header)
        return f"{letter}2:{letter}{self.table.last + 1}"

    def cells(self, header: str) -> list[Value]:
        """Return what a column's data shows."""
        column = self.column(header)
        return [row[column] for row in self.book.values[self.table.sheet][1 : self.table.last + 1]]

    # ---- calls ------------------------------------------------------------------------------------------------------

    def do(self, note: str, tool: str, **arguments: Any) -> None:
        """Make a call that belongs to the solution."""
        call(self.book, tool, arguments)
        self.path.append(self.book.copy())
        self.calls.append(Call(tool, arguments, note))

    def visit(self, sheet: str) -> None:
        """Open a sheet unless it is open."""
        if self.book.open != sheet:
            self.do(f"Next: {sheet}.", "open_sheet", sheet=sheet)

    def read(self, note: str, tool: str, **arguments: Any) -> None:
        """Have a fair teacher make a call before the next one of the solution."""
        self.reads.append(Read(len(self.calls), format_call(tool, arguments), note))

    def say(self, meaning: str, **slots: str) -> str:
        """Draw the words of a part of a sentence."""
        return say(self.rng, self.split, meaning, **slots)

    def sentence(self, meaning: str, **slots: str) -> str:
        """Draw a sentence."""
        return sentence(self.rng, self.split, meaning, **slots)

    def fork(self) -> Desk:
        """Return a desk on which requests can be drawn that are never done."""
        other = object.__new__(Desk)
        other.__dict__.update(self.__dict__)
        other.book, other.path, other.calls = self.book.copy(), list(self.path), list(self.calls)
        other.reads, other.needs, other.taken = list(self.reads), list(self.needs), set(self.taken)
        table = self.table
        other.table = replace(table, counts=[*table.counts], rates=[*table.rates], blank=[*table.blank])
        return other

    # ---- parts of requests ------------------------------------------------------------------------------------------

    def condition(self, *exclude: str) -> Condition:
        """Draw a condition that some rows meet and some do not."""
        rng, table = self.rng, self.table
        columns = [header for header in (table.group, *table.numbers) if header and header not in exclude]
        if not columns:
            raise RetryError
        header = rng.choice(columns)
        values, letter = self.cells(header), self.letter(header)
        if header == table.group:
            wanted = rng.choice(values)
            criterion, test = f"{wanted}", f'{letter}2="{wanted}"'
            words = self.say("eq", c=header, v=f"{wanted}")
        else:
            kind, bound = rng.choice([*_SIGNS]), rng.choice(values)
            if bound is None:
                raise RetryError
            criterion, test = f"{_SIGNS[kind]}{show(bound)}", f"{letter}2{_SIGNS[kind]}{show(bound)}"
            words = self.say(kind, c=header, n=show(bound))
        fits = matcher(criterion)
        rows = tuple(row for row, value in enumerate(values, 1) if fits(value))
        if not 0 < len(rows) < len(values):
            raise RetryError
        return Condition(words, header, criterion, test, rows)

    def aggregate(self, *, filtered: bool) -> tuple[str, str, str]:
        """Draw words and a formula for a total, an average and so on, and a note on where its data is."""
        rng = self.rng
        header = rng.choice(self.table.numbers)
        where = f"{header} is {self.span(header)}"
        if not filtered:
            name = rng.choice([*_FUNCTIONS])
            return self.say(name, c=header), f"={_FUNCTIONS[name]}({self.span(header)})", f"{where}."
        name = rng.choice(("sum", "sum", "average", "count", "count"))
        condition = self.condition(header)
        tested, quoted = self.span(condition.column), f'"{condition.criterion}"'
        if name == "count":
            words = self.say("counting", w=condition.words)
            return words, f"=COUNTIF({tested},{quoted})", f"{condition.column} is {tested}."
        words = self.say("only", x=self.say(name, c=header), w=condition.words)
        note = f"{condition.column} is {tested}, {where}."
        return words, f"={_FUNCTIONS[name]}IF({tested},{quoted},{self.span(header)})", note

    def free_cell(self) -> str:
        """Draw an empty cell below a column of numbers, or right of the table."""
        rows = self.book.rows
        column = self.column(self.rng.choice(self.table.numbers))
        place = (self.table.last + 1, column)
        if self.rng.below(2):
            place = (1 + self.rng.below(self.table.last), len(rows[0]) + 1)
        if place[1] >= MAX_COLUMNS or self.book.at(*place):
            raise RetryError
        return cell_name(*place)

    def some_row(self) -> tuple[str, int]:
        """Draw a row; return its name and its number, from 0."""
        row = 1 + self.rng.below(self.table.last)
        return self.book.rows[row][self.column(self.table.key)], row

    def fill(self, formula: str, words: str, note: str, table: Table | None = None) -> str:
        """Fill an empty column, or add one, by a formula for the second row; return the sentence."""
        table = table or self.table
        if table.blank:
            header = table.blank.pop(0)
            text = self.sentence("fill", d=header, x=words)
        else:
            header = self.name(self.words.results)
            column = len(self.book.sheets[table.sheet][0])
            if column >= MAX_COLUMNS:
                raise RetryError
            text = self.sentence("add", d=header, x=words)
            self.do(f"The new column is {LETTERS[column]}.", "update_cell", cell=f"{LETTERS[column]}1", value=header)
        letter = self.letter(header, table)
        place = f"{letter}2:{letter}{table.last + 1}"
        self.do(f"{note} {header} is {place}.", "fill_range", range=place, value=formula)
        if not isinstance(constant(show(self.book.value(1, self.column(header, table)))), str):
            table.rates.append(header)
        return text


def exact_answer(value: Value) -> str:
    """Return an answer as text; RetryError if it would have to be rounded."""
    text = show(value)
    if value is None or constant(text) != value:
        raise RetryError
    return text


def order_words(value: Value, *, descending: bool) -> str:
    """Return the meaning of an order, which is worded differently for texts and for numbers."""
    return f"{'down' if descending else 'up'} {'text' if isinstance(value, str) else 'number'}"


def order_name(*, descending: bool) -> str:
    """Return the tool's word for an order."""
    return DESCENDING if descending else ASCENDING
