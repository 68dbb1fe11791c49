"""What a workbook is judged by, and what a change has lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from fractions import Fraction

from agentgym_envs.sheet.book import Book, Rows
from agentgym_envs.sheet.evaluate import Fault, Place, Value, compute, constant
from agentgym_envs.sheet.formulas import write_number
from agentgym_py.rng import Rng

TWINS = 13
"""Workbooks with other values, in which formulas are tried: a prime number above the number of rows of any goal."""
_BOUND = re.compile(r"[<>]=?(\d+(?:\.\d+)?)")
_MAX_NEAR, _LEAST_TOP = 9, 40
"""Most numbers in a ladder that bounds determine, and the least range of the others; it is twice the largest number."""
Fact = tuple[str, str, str]
"""The name of a row, the header of a column, and the content there."""


def wrong_cells(book: Book, goal: Book) -> set[Place]:
    """Return the cells that are not as in the goal.

    A formula is right if it shows the same value as the goal's, here and in all twins of the goal. Twins keep the
    goal's formulas and have other values, so a formula that is right only here is wrong.
    """
    if book.sheets == goal.sheets:
        return set()
    now, wanted = contents(book), contents(goal)
    formulas = {place for place in now.keys() & wanted.keys() if now[place][0] == wanted[place][0] == "="}
    wrong = {place for place in now.keys() | wanted.keys() if now.get(place) != wanted.get(place)} - formulas
    right = _equal(formulas, book.values, goal.values) if formulas else formulas
    for twin in twins(goal) if right else ():
        shared = {place: content for place, content in twin.items() if now.get(place) == wanted[place]}
        right = _equal(right, compute(_replaced(book, shared)), compute(_replaced(goal, twin)))
        if not right:
            break
    return wrong | (formulas - right)


def contents(book: Book) -> dict[Place, str]:
    """Return what each cell that is not empty holds."""
    return {
        (name, r, c): content
        for name, rows in book.sheets.items()
        for r, row in enumerate(rows)
        for c, content in enumerate(row)
        if content
    }


def _replaced(book: Book, others: Mapping[Place, str]) -> dict[str, Rows]:
    sheets = book.copy().sheets
    for (name, r, c), content in others.items():
        sheets[name][r][c] = content
    return sheets


def _equal(
    places: Set[Place], grid: Mapping[str, list[list[Value]]], goal: Mapping[str, list[list[Value]]]
) -> set[Place]:
    """Return the places that show the same in both; where the goal shows an error, any value will do."""
    found = set[Place]()
    for name, r, c in places:
        value, wanted = grid[name][r][c], goal[name][r][c]
        is_same = value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
        if is_same or isinstance(wanted, Fault):
            found.add((name, r, c))
    return found


# ---- twins ----------------------------------------------------------------------------------------------------------

Columns = Mapping[tuple[str, int], Sequence[str]]
"""The constants below the header of each column, by sheet and column."""


def twins(goal: Book) -> Iterator[dict[Place, str]]:
    """Yield other contents for the constants below the headers, `TWINS` times; a number stays one, and a text too.

    Each cell of a column takes each value of the column's ladder once. A ladder has `TWINS` values, a prime number, so
    any count or total of some cells changes. Texts that no formula names are new ones.
    """
    places: dict[tuple[str, int], list[Place]] = {}
    held = contents(goal)
    for place, content in held.items():
        if place[1] and content[0] != "=":
            places.setdefault((place[0], place[2]), []).append(place)
    columns = {column: [held[place] for place in cells] for column, cells in places.items()}
    formulas = " ".join(content for content in held.values() if content[0] == "=")
    ladders = _ladders(columns, _BOUND.findall(formulas))
    for twin in range(TWINS):
        others: dict[Place, str] = {}
        for column, ladder in ladders.items():
            for i, place in enumerate(places[column]):
                value = ladder[(i * (column[1] + 1) + twin) % len(ladder)]
                is_named = not _is_text(ladder) or f'"{value}"' in formulas
                others[place] = value if is_named else f"new {value}"
        yield others


def _ladders(columns: Columns, bounds: Sequence[str]) -> dict[tuple[str, int], list[str]]:
    """Return the values of each column's cells in twins.

    Names of rows, in the first column, change places. Other texts are of those that stand in columns with one of them.
    """
    texts = [set(values) for values in columns.values() if _is_text(values)]
    largest = [int(Fraction(value)) for values in columns.values() if not _is_text(values) for value in values]
    top = max([_LEAST_TOP, *(2 * number for number in largest)])
    ladders: dict[tuple[str, int], list[str]] = {}
    for (sheet, column), values in columns.items():
        rng = Rng("twins", sheet, column)
        if not _is_text(values):
            ladder = rng.sample(
                _numbers(rng, top, bounds, parts=100 if any("." in each for each in values) else 1), TWINS
            )
        elif column:
            shared = sorted(set(values).union(*(each for each in texts if each & set(values))))
            ladder = rng.sample([shared[i % len(shared)] for i in range(TWINS)], TWINS)
        else:
            ladder = list(values)
        ladders[sheet, column] = ladder
    return ladders


def _numbers(rng: Rng, top: int, bounds: Sequence[str], *, parts: int) -> list[str]:
    """Draw different multiples of one part: one part, bounds, the numbers next to them, and others up to `top`."""
    near = [Fraction(bound) + Fraction(side, parts) for bound in dict.fromkeys(bounds) for side in (0, -1, 1)]
    numbers = {number for number in near[:_MAX_NEAR] if number > 0 and (number * parts).denominator == 1}
    numbers.add(Fraction(1, parts))
    while len(numbers) < TWINS:
        numbers.add(Fraction(1 + rng.below(top * parts), parts))
    return [write_number(number) for number in sorted(numbers)]


def _is_text(values: Sequence[str]) -> bool:
    return isinstance(constant(values[0]), str)


# ---- losses ---------------------------------------------------------------------------------------------------------


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
