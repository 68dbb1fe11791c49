"""A formula is right if it means what is asked, and wrong if it fits only the table at hand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

import pytest

from agentgym_envs.sheet.book import Book, cell_name, formula
from agentgym_envs.sheet.env import SheetEnv
from agentgym_envs.sheet.evaluate import Fault, Place, Value, constant, matcher, show, value_of
from agentgym_envs.sheet.formulas import LETTERS
from agentgym_envs.sheet.judge import TWINS, contents, twins, wrong_cells
from agentgym_py.env import SPLITS

EACH = 4
"""Formulas of each shape, in each difficulty and split."""
LEVELS = pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
NEGATED = {">": "<=", "<": ">=", ">=": "<", "<=": ">", "=": "<>", "": "<>"}
FLIPPED = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "=": "="}
TOTAL = re.compile(r"=(SUM|AVERAGE|MAX|MIN)\(((\w)2:\w(\d+))\)")
SOME = re.compile(r'=(COUNTIF|SUMIF|AVERAGEIF)\(((\w)2:\w(\d+)),"([<>]=?|)([^"]+)"(?:,((\w)2:\w\d+))?\)')
GROUP = re.compile(r"=SUMIF\((\w+)!\$(\w)\$2:\$\w\$(\d+),(\w\d+),\w+!\$(\w)\$2:\$\w\$\d+\)")
FLAG = re.compile(r'=IF\((\w\d+)([<>]=?|=)("?)([^",]+)"?,("\w[^"]*"),("\w[^"]*")\)')
JOIN = re.compile(r"=VLOOKUP\((\w\d+),(\w+)!\$A\$2:\$(\w)\$(\d+),(\d),FALSE\)")
SHARE = re.compile(r"=(\w\d+)\*(\d+)/100")
PAIR = re.compile(r"=(\w\d+)([-+*])(\w\d+)")
SHAPES = (TOTAL, SOME, GROUP, FLAG, JOIN, SHARE, PAIR)


@lru_cache
def goals(difficulty: str) -> list[tuple[Book, Place, str]]:
    """Return formulas in the goals of tasks of all splits, each with its workbook and its place."""
    found = list[tuple[Book, Place, str]]()
    for split in SPLITS:
        env, counts = SheetEnv(difficulty=difficulty, split=split), Counter[re.Pattern[str]]()
        for number in range(150):
            goal = env.puzzle_of(env.task(number)).goal
            for place, text in contents(goal).items():
                if text[0] == "=" and place[1] % 3 == 1:
                    (shape,) = [shape for shape in SHAPES if shape.fullmatch(text)]
                    counts[shape] += 1
                    found += [(goal, place, text)] if counts[shape] <= EACH else []
        assert set(SHAPES) - set(counts) == ({GROUP, JOIN} if difficulty == "easy" else set())
    return found


def is_right(goal: Book, place: Place, text: str) -> bool:
    """Judge a formula in place of the goal's."""
    name, row, column = place
    book = goal.copy()
    book.sheets[name][row][column] = formula(text, goal)
    return not wrong_cells(book, goal)


def shown(goal: Book, place: Place) -> Value:
    """Return what a cell shows."""
    name, row, column = place
    return goal.values[name][row][column]


def cells(letter: str, rows: Iterable[int]) -> list[str]:
    """Return the names of cells of a column."""
    return [f"{letter}{row}" for row in rows]


# ---- right ----------------------------------------------------------------------------------------------------------


def equivalents(text: str) -> list[str]:
    """Return formulas that mean the same."""
    if found := TOTAL.fullmatch(text):
        name, area, letter, last = found.groups()
        head, end = f"{letter}2:{letter}{int(last) - 1}", f"{letter}{last}"
        return {
            "SUM": [
                f"=SUM({head})+{end}", f"={'+'.join(cells(letter, range(2, int(last) + 1)))}",
                f"=AVERAGE({area})*COUNT({area})", f"=SUM({letter}1:{end})",
            ],
            "AVERAGE": [f"=SUM({area})/COUNT({area})", f"=SUM({area})/{int(last) - 1}"],
            "MAX": [f"=MAX({head},{end})", f"=IF({end}>MAX({head}),{end},MAX({head}))"],
            "MIN": [f"=MIN({head},{end})", f"=IF({end}<MIN({head}),{end},MIN({head}))"],
        }[name]  # fmt: skip
    if found := SOME.fullmatch(text):
        name, area, _, last, sign, wanted, of, _ = found.groups()
        fits, fails = f'{area},"{sign}{wanted}"', f'{area},"{NEGATED[sign]}{wanted}"'
        return {
            "COUNTIF": [f"={int(last) - 1}-COUNTIF({fails})", f'=countif({area},"{sign or "="}{wanted.upper()}")'],
            "SUMIF": [f"=SUM({of})-SUMIF({fails},{of})", f"=SUMIF( {fits} , {of})*1+0"],
            "AVERAGEIF": [
                f"=SUMIF({fits},{of})/COUNTIF({fits})", f"=IF(COUNTIF({fits})=0,0,AVERAGEIF({fits},{of}))",
            ],
        }[name]  # fmt: skip
    if found := GROUP.fullmatch(text):
        sheet, where, last, key, of = found.groups()
        return [f"=SUMIF({sheet}!{where}$1:{where}${last},${key},{sheet}!{of}$1:{of}${last})"]
    if found := FLAG.fullmatch(text):
        cell, sign, quote, wanted, yes, no = found.groups()
        value = f"{quote}{wanted}{quote}"
        return [
            f"=IF({cell}{NEGATED[sign]}{value},{no},{yes})",
            f"=IF(NOT({cell}{sign}{value}),{no},{yes})", f"=IF({value}{FLIPPED[sign]}{cell},{yes},{no})",
            f'=IF(COUNTIF({cell},"{sign}{wanted}")=1,{yes},{no})', f"=IF(AND(TRUE,{cell}{sign}{value}),{yes},{no})",
        ]  # fmt: skip
    if found := JOIN.fullmatch(text):
        cell, sheet, end, last, column = found.groups()
        letter = LETTERS[int(column) - 1]
        return [
            f"=SUMIF({sheet}!A2:A{last},{cell},{sheet}!{letter}2:{letter}{last})",
            f"=VLOOKUP({cell},{sheet}!A:{end},{column},FALSE)", f"=VLOOKUP({cell},{sheet}!A1:{letter}{last},{column})",
        ]  # fmt: skip
    if found := SHARE.fullmatch(text):
        cell, percent = found.groups()
        part = f"{int(percent) / 100:g}"
        return [f"={cell}*{part}", f"={part}*{cell}", f"={cell}/100*{percent}", f"={cell}-{cell}*(1-{part})"]
    found = PAIR.fullmatch(text)
    assert found, text
    first, sign, second = found.groups()
    return {
        "*": [f"={second}*{first}", f"={first}/(1/{second})"], "+": [f"=SUM({first},{second})", f"={second}+{first}"],
        "-": [f"=-({second}-{first})", f"=-{second}+{first}"],
    }[sign]  # fmt: skip


@LEVELS
def test_formulas_that_mean_the_same_are_right(difficulty: str) -> None:
    """However they are written."""
    for goal, place, text in goals(difficulty):
        for other in equivalents(text):
            assert is_right(goal, place, other), (text, other, goal.sheets)


# ---- wrong ----------------------------------------------------------------------------------------------------------


def constants_and_references(goal: Book, place: Place) -> list[str]:
    """Return formulas that show the right value without a calculation."""
    value = shown(goal, place)
    same = [each for each in contents(goal) if each[1] and goal.sheets[each[0]][each[1]][each[2]][0] != "="]
    found = [f"={name}!{cell_name(r, c)}" for name, r, c in same if shown(goal, (name, r, c)) == value]
    if isinstance(value, str):
        return [*found, f'="{value}"']
    assert value is not None and not isinstance(value, bool | Fault)
    return [*found, f"={value.numerator}/{value.denominator}".replace("=-", "=0-")]


def narrow(goal: Book, place: Place, text: str) -> list[str]:
    """Return formulas that show the right value, and would not if another row fitted, or another one was largest."""
    found = list[str]()
    if total := TOTAL.fullmatch(text):
        name, _, letter, last = total.groups()
        rows = range(2, int(last) + 1)
        if name in ("MAX", "MIN"):
            after = {row: f",{letter}{row + 1}:{letter}{last}" for row in rows[:-1]}
            found = [f"={name}({letter}1:{letter}{row - 1}{after.get(row, '')})" for row in rows]
    elif some := SOME.fullmatch(text):
        name, _, letter, last, sign, wanted, _, of = some.groups()
        rows = range(2, int(last) + 1)
        fits = matcher(f"{sign}{wanted}")
        chosen = [row for row in rows if fits(goal.values[place[0]][row - 1][LETTERS.index(letter)])]
        added = "+".join(cells(of or letter, chosen))
        found = {
            "COUNTIF": [f"=COUNT({letter}2:{letter}{len(chosen) + 1})"], "SUMIF": [f"={added}"],
            "AVERAGEIF": [f"=({added})/{len(chosen)}"],
        }[name]  # fmt: skip
        if sign:
            found += [text.replace(f'"{sign}{wanted}"', f'"{other}"') for other in near(sign, wanted)]
    elif flag := FLAG.fullmatch(text):
        cell, sign, quote, wanted, yes, no = flag.groups()
        column = LETTERS.index(cell[0])
        if quote:
            texts = {row[column] for row in goal.sheets[place[0]][1:] if row[column] not in ("", wanted)}
            tests = ",".join(f'{cell}="{each}"' for each in sorted(texts))
            found = [f"=IF(OR({tests}),{no},{yes})"]
        else:
            found = [f"=IF({cell}{other},{yes},{no})" for other in near(sign, wanted)]
    elif pair := PAIR.fullmatch(text):
        first, sign, second = pair.groups()
        found = {"-": [f"=ABS({first}-{second})"], "*": [f"={first}*{shown_at(goal, place, second)}"]}.get(sign, [])
    return [each for each in found if value_of(formula(each, goal), goal.values, place[0]) == shown(goal, place)]


def near(sign: str, bound: str) -> list[str]:
    """Return conditions with the other strictness, and with bounds that are higher and lower by one."""
    numbers = [show(constant(bound) + step) for step in (-1, 1)]  # type: ignore[operator]  # a number
    return [f"{sign[0]}{'' if '=' in sign else '='}{bound}", *(f"{sign}{number}" for number in numbers)]


def shown_at(goal: Book, place: Place, name: str) -> str:
    """Return what a cell of the same sheet shows, by its name."""
    return show(shown(goal, (place[0], int(name[1:]) - 1, LETTERS.index(name[0]))))


@LEVELS
def test_constants_and_references_are_wrong(difficulty: str) -> None:
    """Of every shape of formula."""
    for goal, place, text in goals(difficulty):
        for other in constants_and_references(goal, place):
            assert not is_right(goal, place, other), (text, other, goal.sheets)


@LEVELS
def test_formulas_for_this_table_alone_are_wrong(difficulty: str) -> None:
    """Sums of the rows that fit today, bounds between today's numbers, and a largest number without some row."""
    count = 0
    for goal, place, text in goals(difficulty):
        for other in narrow(goal, place, text):
            count += 1
            assert not is_right(goal, place, other), (text, other, goal.sheets)
    assert count > 20


# ---- twins ----------------------------------------------------------------------------------------------------------


@LEVELS
def test_twins_keep_the_kinds_of_values(difficulty: str) -> None:
    """Whole numbers stay whole, texts stay texts, names of rows stay different, and each cell takes many values."""
    for split in SPLITS:
        env = SheetEnv(difficulty=difficulty, split=split)
        for number in range(15):
            goal = env.puzzle_of(env.task(number)).goal
            held, others = contents(goal), list(twins(goal))
            assert len(others) == TWINS > max(map(len, goal.sheets.values()))
            places = {place for place, content in held.items() if place[1] and content[0] != "="}
            for twin in others:
                assert set(twin) == places
                for name in goal.sheets:
                    names = [content for place, content in twin.items() if place[::2] == (name, 0)]
                    assert len(set(names)) == len(names)
            for place in places:
                values = [constant(twin[place]) for twin in others]
                assert {isinstance(value, str) for value in values} == {isinstance(constant(held[place]), str)}
                column = {content for other, content in held.items() if other[1] and other[::2] == place[::2]}
                assert len(set(values)) > 1 or len(column) == 1
                assert isinstance(values[0], str) or len(set(values)) == TWINS


@LEVELS
def test_goals_show_no_errors(difficulty: str) -> None:
    """Where a goal shows one, any formula would be right."""
    for goal, place, text in goals(difficulty):
        assert not isinstance(shown(goal, place), Fault), text


def test_a_cell_that_the_agent_broke_is_one_wrong_cell() -> None:
    """A formula on other cells keeps its verdict; one on the broken cell shows another value."""
    rows = [["name", "n", "m"], ["a", "1", "5"], ["b", "2", "6"], ["", "=SUM(B2:B3)", "=MAX(C2:C3)"]]
    goal = Book({"Data": rows}, "Data")
    book = goal.copy()
    book.sheets["Data"][1][2] = "7"
    book.sheets["Data"][3][1] = "=B2+B3"
    assert wrong_cells(book, goal) == {("Data", 1, 2), ("Data", 3, 2)}
    book.sheets["Data"][3][1] = "=B3+1"
    assert ("Data", 3, 1) in wrong_cells(book, goal)
    assert wrong_cells(goal, goal) == set()
