"""The kinds of requests: each draws a sentence and makes the calls that do what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy

from agentgym_envs.sheet.drafting import Desk, Puzzle, RetryError, exact_answer, order_name, order_words
from agentgym_envs.sheet.formulas import LETTERS
from agentgym_py.env.generated import Draft
from agentgym_py.env.tools import format_call
from agentgym_py.rng import Rng

Kind = Callable[[Desk], str]
"""Draws a request on a desk and does it there; returns its words."""


# ---- rows and cells -------------------------------------------------------------------------------------------------


def correct(desk: Desk) -> str:
    """Change a cell of a named row."""
    table, rng = desk.table, desk.rng
    name, row = desk.some_row()
    header = rng.choice([*table.numbers, *[table.group] * bool(table.group)])
    place, old = f"{desk.letter(header)}{row + 1}", desk.book.rows[row][desk.column(header)]
    values = desk.group_values if header == table.group else [str(number) for number in range(1, 90)]
    value = rng.choice([value for value in values if value != old])
    text = desk.sentence("correct", c=header, k=table.key, v=name, n=value)
    desk.do(f"{header} of {name} is {place}.", "update_cell", cell=place, value=value)
    return text


def delete_row(desk: Desk) -> str:
    """Delete a named row."""
    name, row = desk.some_row()
    text = desk.sentence("delete_row", k=desk.table.key, v=name)
    desk.do(f"{name} is in row {row + 1}.", "delete_rows", rows=[row + 1])
    desk.table.last -= 1
    return text


def add_row(desk: Desk) -> str:
    """Add a row at the end."""
    table, rng = desk.table, desk.rng
    values = {header: str(1 + rng.below(90)) for header in table.numbers} | {table.key: desk.new_name}
    if table.group:
        values[table.group] = rng.choice(desk.group_values)
    heads = [header for header in desk.book.rows[0] if header in values]
    text = desk.sentence("add_row", r=", ".join(f"{header} {values[header]}" for header in heads))
    row = len(desk.book.rows) + 1
    contents = [values.get(header, "") for header in desk.book.rows[0]]
    while not contents[-1]:
        contents.pop()
    desk.do(f"The last row is {row - 1}.", "insert_row", row=row, values=contents)
    table.last += 1
    return text


def delete_rows(desk: Desk) -> str:
    """Delete all rows that meet a condition."""
    condition = desk.condition()
    text = desk.sentence("delete_rows", w=condition.words)
    _find_and_delete(desk, condition.column, condition.criterion, condition.rows, "{} must go.")
    return text


def keep_rows(desk: Desk) -> str:
    """Delete all rows that do not meet a condition."""
    condition = desk.condition()
    text = desk.sentence("keep_rows", w=condition.words)
    others = [row for row in range(1, desk.table.last + 1) if row not in condition.rows]
    _find_and_delete(desk, condition.column, condition.criterion, others, "{} must go, the others stay.")
    return text


def _find_and_delete(desk: Desk, header: str, criterion: str, rows: Sequence[int], note: str) -> None:
    if len(rows) > 5 or desk.table.last - len(rows) < 2:
        raise RetryError
    letter, numbers = desk.letter(header), [row + 1 for row in rows]
    desk.read(f"{header} is column {letter}.", "find_rows", column=letter, where=criterion)
    desk.do(note.format(f"Rows {', '.join(map(str, numbers))}"), "delete_rows", rows=numbers)
    desk.table.last -= len(rows)


def sort(desk: Desk) -> str:
    """Sort the rows by a column."""
    table, rng = desk.table, desk.rng
    header = rng.choice([table.key, *2 * table.numbers])
    value, descending = desk.cells(header)[0], bool(rng.below(2))
    letter, name = desk.letter(header), order_name(descending=descending)
    sorted_book = desk.book.copy()
    sorted_book.sort(desk.column(header), descending=descending)
    if sorted_book == desk.book:
        raise RetryError
    text = desk.sentence("sort", c=header, o=desk.say(order_words(value, descending=descending)))
    desk.do(f"{header} is column {letter}, {name}.", "sort_rows", column=letter, order=name)
    return text


# ---- columns --------------------------------------------------------------------------------------------------------


def rename(desk: Desk) -> str:
    """Rename a column."""
    table = desk.table
    names = [names for names in (table.counts, table.rates) if names]
    chosen = desk.rng.choice(names)
    place = desk.rng.below(len(chosen))
    old, new = chosen[place], desk.name(desk.words.counts if chosen is table.counts else desk.words.rates)
    cell = f"{desk.letter(old)}1"
    text = desk.sentence("rename", c=old, d=new)
    desk.do(f"{old} is in {cell}.", "update_cell", cell=cell, value=new)
    chosen[place] = new
    return text


def drop(desk: Desk) -> str:
    """Delete a column."""
    table = desk.table
    names = [names for names in (table.counts, table.rates) if names]
    if sum(map(len, names)) < 2:
        raise RetryError
    chosen = desk.rng.choice(names)
    header = desk.rng.choice(chosen)
    letter = desk.letter(header)
    text = desk.sentence("drop", c=header)
    desk.do(f"{header} is column {letter}.", "delete_column", column=letter)
    chosen.remove(header)
    return text


def compute(desk: Desk) -> str:
    """Fill a column by a calculation from each row."""
    table, rng = desk.table, desk.rng
    kind = rng.choice(("product", "product", "plus", "minus", "percent"))
    if kind == "percent":
        header, percent = rng.choice(table.numbers), rng.choice((5, 10, 15, 20, 25, 30, 40, 50, 60, 75, 80, 110, 120))
        words = desk.say("percent", a=header, n=str(percent))
        return desk.fill(f"={desk.letter(header)}2*{percent}/100", words, f"{header} is {desk.letter(header)}.")
    pool = [table.counts, table.rates] if kind == "product" else [table.numbers, table.numbers]
    if not all(pool) or len(table.numbers) < 2:
        raise RetryError
    first, second = (rng.choice(headers) for headers in pool)
    if first == second:
        raise RetryError
    left, right = desk.letter(first), desk.letter(second)
    sign = {"product": "*", "plus": "+", "minus": "-"}[kind]
    words = desk.say(kind, a=first, b=second)
    return desk.fill(f"={left}2{sign}{right}2", words, f"{first} is {left}, {second} is {right}.")


def flag(desk: Desk) -> str:
    """Fill a column by one of two words, depending on a condition."""
    condition = desk.condition()
    yes, no = desk.rng.choice(desk.words.flags)
    words = desk.say("flag", y=yes, z=no, w=condition.words)
    note = f"{condition.column} is {desk.letter(condition.column)}."
    return desk.fill(f'=IF({condition.test},"{yes}","{no}")', words, note)


def join(desk: Desk) -> str:
    """Fill a column by what a second sheet has for the row's group."""
    table, other = desk.table, desk.list
    if other is None:
        raise RetryError
    header = desk.rng.choice(other.rates[:2])
    place, key = desk.column(header, other), desk.letter(table.group)
    words = desk.say("lookup", e=header, k=table.group, s=other.sheet)
    desk.needs.append(other.sheet)
    note = f"{other.sheet} has {header} in column {LETTERS[place]}, {table.group} is {key}."
    area = f"{other.sheet}!$A$2:${LETTERS[len(desk.book.sheets[other.sheet][0]) - 1]}${other.last + 1}"
    return desk.fill(f"=VLOOKUP({key}2,{area},{place + 1},FALSE)", words, note)


def group_totals(desk: Desk) -> str:
    """Fill a column of a second sheet by the total of each group."""
    table, other = desk.table, desk.list
    if other is None:
        raise RetryError
    header = desk.rng.choice(table.numbers)
    words = desk.say("group", c=header, k=table.group, s=table.sheet)
    letter, key, last = desk.letter(header), desk.letter(table.group), table.last + 1
    desk.visit(other.sheet)
    note = f"In {table.sheet} {table.group} is {key}, {header} is {letter}."
    areas = [f"{table.sheet}!${column}$2:${column}${last}" for column in (key, letter)]
    text = desk.fill(f"=SUMIF({areas[0]},A2,{areas[1]})", words, note, other)
    return desk.sentence("place", s=other.sheet, a=text)


# ---- totals and questions -------------------------------------------------------------------------------------------


def total(desk: Desk) -> str:
    """Write a total, an average and so on into a cell."""
    return _write_total(desk, filtered=False)


def filtered_total(desk: Desk) -> str:
    """Write a total of some rows into a cell."""
    return _write_total(desk, filtered=True)


def _write_total(desk: Desk, *, filtered: bool) -> str:
    words, formula, note = desk.aggregate(filtered=filtered)
    cell = desk.free_cell()
    text = desk.sentence("write", x=words, cell=cell)
    desk.do(note, "update_cell", cell=cell, value=formula)
    return text


def question(desk: Desk) -> str:
    """Ask for a total, an average and so on."""
    return _ask_total(desk, filtered=False)


def filtered_question(desk: Desk) -> str:
    """Ask for a total of some rows."""
    return _ask_total(desk, filtered=True)


def _ask_total(desk: Desk, *, filtered: bool) -> str:
    _require_no_answer(desk)
    words, formula, note = desk.aggregate(filtered=filtered)
    desk.answer = exact_answer(desk.book.evaluate(formula))
    desk.answer_note = f"The answer is {desk.answer}."
    desk.read(note, "evaluate", formula=formula)
    return desk.sentence("ask", x=words)


def cell_question(desk: Desk) -> str:
    """Ask for a cell of a named row."""
    _require_no_answer(desk)
    name, row = desk.some_row()
    header = desk.rng.choice(desk.table.numbers)
    desk.answer = exact_answer(desk.cells(header)[row - 1])
    desk.answer_note = f"{header} of {name} is {desk.answer}."
    return desk.sentence("ask_cell", c=header, k=desk.table.key, v=name)


def _require_no_answer(desk: Desk) -> None:
    if desk.answer:
        raise RetryError


def condition(desk: Desk) -> str:
    """Do one of two things, depending on a total."""
    words, formula, note, value = _whole_total(desk)
    bound = max(0, value + desk.rng.choice((-9, -5, -3, -2, -1, 1, 2, 4, 6, 8)))
    holds = value > bound
    done, other = desk.rng.sample((correct, delete_row, add_row, sort, rename), 2)
    text = other(desk.fork())
    desk.read(note, "evaluate", formula=formula)
    texts = (done(desk), text) if holds else (text, done(desk))
    last = desk.calls[-1]
    desk.calls[-1] = last._replace(note=f"{value} is {'' if holds else 'not '}more than {bound}. {last.note}")
    return desk.sentence("if", x=words, n=str(bound), a=texts[0], b=texts[1])


def _whole_total(desk: Desk) -> tuple[str, str, str, int]:
    """Draw a total that is a whole number; return its words, formula, note and value."""
    for _ in range(8):
        words, formula, note = desk.aggregate(filtered=bool(desk.rng.below(2)))
        value = desk.book.evaluate(formula)
        if isinstance(value, int) and not isinstance(value, bool):
            return words, formula, note, value
    raise RetryError


# ---- tasks ----------------------------------------------------------------------------------------------------------

KINDS: Mapping[str, Kind] = {
    "condition": condition, "correct a cell": correct, "delete a row": delete_row, "add a row": add_row,
    "delete rows": delete_rows, "keep rows": keep_rows, "rename a column": rename, "delete a column": drop,
    "join": join, "compute a column": compute, "flag rows": flag, "sort": sort,
    "total": total, "filtered total": filtered_total, "group totals": group_totals,
    "question": question, "filtered question": filtered_question, "look up a cell": cell_question,
}  # fmt: skip
"""In the order in which requests of one task follow each other: totals come after all changes of rows."""
EASY = (
    "correct a cell", "delete a row", "add a row", "rename a column", "delete a column", "compute a column",
    "flag rows", "sort", "total", "filtered total", "question", "look up a cell",
)  # fmt: skip
MEDIUM = ("join", "group totals", "delete rows", "keep rows", "filtered question")
_LATER = ("compute a column", "flag rows", "sort", "total", "filtered total", "question", "filtered question")
_ORDER = {name: place for place, name in enumerate(KINDS)}


def _kinds(rng: Rng, difficulty: str) -> tuple[str, list[str]]:
    """Draw the kind of a task and its requests."""
    if difficulty == "easy":
        kind = rng.choice(EASY)
        return kind, [kind]
    if difficulty == "medium":
        if rng.below(2):
            kind = rng.choice(MEDIUM)
            return kind, [kind]
        return "two requests", rng.sample(EASY, 2)
    if rng.below(3) == 0:
        return "condition", ["condition", rng.choice(_LATER)]
    one = rng.choice(("join", "group totals", "delete rows", "keep rows"))
    return "three requests", [one, *rng.sample([name for name in EASY if name != "look up a cell"], 2)]


def _shape(rng: Rng, difficulty: str, kinds: Sequence[str]) -> tuple[int, dict[str, int]]:
    """Draw the number of rows and of columns of each kind."""
    fills = sum(name in ("compute a column", "flag rows", "join") for name in kinds)
    blank = sum(rng.below(2) for _ in range(fills))
    if difficulty == "easy":
        more = rng.choice(("group", "rates", "counts"))
        shape = {"counts": 1 + (more == "counts"), "rates": int(more == "rates"), "group": int(more == "group")}
        if kinds[0] in ("compute a column", "delete a column") and more == "group":
            shape |= {"group": 0, "rates": 1}
        return 4 + rng.below(3), shape | {"blank": blank}
    shape = {"counts": 1 + rng.below(2), "rates": 1, "group": 1, "blank": blank}
    listed = difficulty == "hard" or bool({"join", "group totals"} & set(kinds))
    return (6 if difficulty == "medium" else 8) + rng.below(3), shape | {"list": int(listed)}


def draft(rng: Rng, split: str, difficulty: str) -> Draft[Puzzle]:
    """Draw a task."""
    while True:
        kind, names = _kinds(rng, difficulty)
        names.sort(key=_ORDER.__getitem__)
        rows, shape = _shape(rng, difficulty, names)
        desk = Desk(rng, split, rows, shape)
        try:
            texts = [_request(desk, name) for name in names]
        except RetryError:
            continue
        wrapper = "either" if kind == "condition" else {1: "", 2: "two", 3: "three"}[len(texts)]
        slots = dict(zip("abc", texts, strict=False))
        text = desk.sentence(wrapper, **slots) if wrapper else texts[0]
        puzzle = Puzzle(
            tuple(desk.path), tuple(desk.calls), tuple(desk.reads), tuple(dict.fromkeys(desk.needs)), desk.answer,
            desk.answer_note,
        )  # fmt: skip
        return Draft(text, puzzle, kind)


def first_replies(rng: Rng, number: int) -> tuple[str, list[tuple[str, str, str]]]:
    """Draw a workbook and easy requests to it; return its page, and each request with the first call and its note."""
    rows, shape = _shape(rng, "easy", EASY)
    desk = Desk(rng, "train", rows, shape | {"counts": 2, "rates": 1, "group": 1, "blank": rng.below(2)})
    asked: list[tuple[str, str, str]] = []
    while len(asked) < number:
        other = deepcopy(desk)
        other.rng = rng
        with suppress(RetryError):
            text = _request(other, rng.choice(EASY))
            if other.reads:
                asked.append((text, other.reads[0].text, other.reads[0].note))
            elif other.calls:
                first = other.calls[0]
                asked.append((text, format_call(first.tool, first.arguments), first.note))
            else:
                asked.append((text, format_call("finish", {"answer": other.answer}), other.answer_note))
    return desk.path[0].table(), asked


def _request(desk: Desk, name: str) -> str:
    if name != "group totals":
        desk.visit(desk.table.sheet)
    for _ in range(4 if name != "condition" else 1):  # a kind that is not possible raises before it changes anything
        with suppress(RetryError):
            return KINDS[name](desk)
    raise RetryError
