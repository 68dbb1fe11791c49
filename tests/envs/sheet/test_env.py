"""Requests are done by formulas, judged by the exact workbook, and mended from any state."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.sheet.book import Book
from agentgym_envs.sheet.env import SheetEnv
from agentgym_envs.sheet.formulas import LETTERS
from agentgym_envs.sheet.repair import matches, mend
from agentgym_envs.sheet.requests import EASY, KINDS, MEDIUM
from agentgym_envs.sheet.tools import ARGUMENTS, TOOLS, call
from agentgym_envs.sheet.wording import WORDINGS
from agentgym_envs.sheet.words import WORDS
from agentgym_py.env import SPLITS
from agentgym_py.env.tools import RefusedError, format_call
from agentgym_py.env.wording import count_expansions, is_expansion
from agentgym_py.errors import SnapshotError
from agentgym_py.rng import Rng

LEVELS = ("easy", "medium", "hard")


def do(env: SheetEnv, name: str, **arguments: Any) -> str:
    """Make a call that can be done; return the observation."""
    observation, *_, info = env.step(format_call(name, arguments))
    assert info["valid_action"], (name, arguments, observation)
    return observation


def find_task(kind: str, difficulty: str = "easy", split: str = "test") -> SheetEnv:
    """Return an environment at the start of the first task of a kind."""
    env = SheetEnv(difficulty=difficulty, split=split, max_steps=200)
    for number in range(500):
        if env.task(number).kind == kind:
            env.reset(options={"task": number})
            return env
    raise AssertionError(f"no task of kind {kind}")


def random_call(rng: Rng, book: Book) -> str:
    """Draw a call that may do harm: any tool, with cells, columns, rows and formulas near the table."""
    height, width = len(book.rows) + 1, min(len(book.rows[0]) + 1, 10)
    cell = f"{LETTERS[rng.below(width)]}{1 + rng.below(height)}"
    value = rng.choice(["7", "x", "", "=SUM(B2:B4)", "=B2*2", "=A1", f"={cell}", "2.5"])
    column, row = LETTERS[rng.below(width)], 2 + rng.below(height)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("update_cell", {"cell": cell, "value": value}),
        ("fill_range", {"range": f"{column}2:{column}{height}", "value": value}),
        ("insert_row", {"row": row, "values": [value, "1"]}), ("insert_row", {"row": row}),
        ("insert_column", {"column": column, "values": ["new", value]}), ("insert_column", {"column": column}),
        ("delete_rows", {"rows": [row]}), ("delete_rows", {"rows": [2, 3]}), ("delete_column", {"column": column}),
        ("sort_rows", {"column": column, "order": "descending"}),
        ("open_sheet", {"sheet": rng.choice([*book.sheets])}),
    ]  # fmt: skip
    return format_call(*rng.choice(calls))


# ---- experts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("difficulty", LEVELS)
def test_both_experts_solve_every_task(difficulty: str, split: str) -> None:
    """Within the limit, by valid calls, without costs, with a thought before each."""
    env = SheetEnv(difficulty=difficulty, split=split)
    for number in range(20):
        env.reset(options={"task": number})
        turns = [env.step(action) for action in env.expert()]
        assert env.succeeded and turns[-1][1] == 1, env.current_task
        env.reset(options={"task": number})
        while not env.stop_reason:
            action = env.fair_expert()
            assert action is not None and env.expert_thought(action), env.current_task
            turns.append(env.step(action))
        assert env.succeeded and turns[-1][1] == 1, env.current_task
        for *_, info in turns:
            assert info["valid_action"] and not any(info["costs"].values()), env.current_task
        assert env.expert() == [] and env.fair_expert() is None and env.actions() == []


@pytest.mark.parametrize("difficulty", LEVELS)
def test_both_experts_mend_whatever_was_done(difficulty: str) -> None:
    """After random edits, also when asked again after each call."""
    env, rng = SheetEnv(difficulty=difficulty, max_steps=100), Rng("mend", difficulty)
    for number in range(12):
        env.reset(options={"task": number})
        for _ in range(1 + rng.below(5)):
            env.step(random_call(rng, env._book))
        here = env.snapshot()
        last = env.steps + len(env.expert()) + 2
        while not env.stop_reason:
            env.step(env.expert()[0])
        assert env.succeeded and env.steps <= last, env.current_task
        env.restore(here)
        for action in env.expert():
            env.step(action)
        assert env.succeeded, env.current_task
        env.restore(here)
        while not env.stop_reason:
            env.step(env.fair_expert() or "lost")
        assert env.succeeded, env.current_task


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.sampled_from(["", "1", "x", "=A1+1", "=SUM(A1:B2)"]), min_size=3, max_size=3), min_size=1,
                max_size=5), st.integers(0, 200))  # fmt: skip
def test_any_workbook_can_be_mended(rows: list[list[str]], seed: int) -> None:
    """From one to another by at most one call per sheet beyond opening it, or inserting and deleting."""
    rows[0][0], rows[-1][2] = "head", "end"
    target = Book({"One": [row[:] for row in rows], "Two": [["a", "b"], ["1", "=One!A1"]]}, "One")
    book, rng = target.copy(), Rng("any", seed)
    for _ in range(6):
        name, _, given = random_call(rng, book).partition("\nAction Input: ")
        try:
            call(book, name, json.loads(given))
        except RefusedError:
            continue
    calls = mend(book, target)
    for each in calls:
        call(book, each.tool, each.arguments)
    assert book == target and len(calls) <= 5


def test_lines_are_matched_in_order() -> None:
    """With the most equal cells."""
    few = [["a", "1"], ["c", "3"]]
    assert matches(few, [["a", "1"], ["b", "2"], ["c", "3"]]) == {0, 2}
    assert matches(few, [["c", "3"], ["a", "1"], ["c", "4"]]) == {1, 2}
    assert matches([], few) == set()


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_fair_expert_names_only_what_was_shown(difficulty: str) -> None:
    """Every word in its calls stands in the request or an observation, and every sheet of a formula was seen."""
    env = SheetEnv(difficulty=difficulty, split="test")
    known = {"ascending", "descending", "FALSE", *re.findall(r"\w+", " ".join(env.rules.values()))}
    for number in range(25):
        shown, _ = env.reset(options={"task": number})
        while not env.stop_reason:
            action = env.fair_expert() or ""
            words = set(re.findall(r"[a-z]{3,}", action.partition("Action Input:")[2])) - known
            words -= set(ARGUMENTS)
            assert all(word in shown for word in words), (env.current_task, action)
            for sheet in re.findall(r"(\w+)!", action):
                assert sheet in env._seen, (env.current_task, action)
            shown += env.step(action)[0]


def test_every_kind_occurs() -> None:
    """Each of the easy ones, the larger ones of medium, pairs, triples and conditions."""
    kinds = {
        difficulty: Counter(SheetEnv(difficulty=difficulty).task(number).kind for number in range(200))
        for difficulty in LEVELS
    }
    assert set(kinds["easy"]) == set(EASY) and min(kinds["easy"].values()) > 5
    assert set(kinds["medium"]) == {*MEDIUM, "two requests"}
    assert set(kinds["hard"]) == {"three requests", "condition"}
    assert set(EASY) | set(MEDIUM) | {"condition"} == set(KINDS)


def test_small_sheets_are_short() -> None:
    """A small model reads the first observation of an easy task."""
    env = SheetEnv(difficulty="easy")
    for number in range(100):
        observation, _ = env.reset(options={"task": number})
        assert len(observation) < 450
        (rows,) = env.puzzle.start.sheets.values()
        assert 5 <= len(rows) <= 7 and 3 <= len(rows[0]) <= 4


# ---- judging --------------------------------------------------------------------------------------------------------


def test_a_number_in_the_place_of_a_formula_is_wrong() -> None:
    """It shows the right value, but not if the numbers change."""
    env = find_task("total")
    (action, finish) = env.expert()
    arguments = json.loads(action.partition("Action Input:")[2])
    start = env.snapshot()
    env.step(action)
    shown = env.step(format_call("get_cell", {"cell": arguments["cell"]}))[0].split(" is ")[1].split(",")[0]
    assert env.step(finish)[4]["success"]
    env.restore(start)
    do(env, "update_cell", cell=arguments["cell"], value=shown)
    _, reward, terminated, _, info = env.step("finish")
    assert (
        terminated and reward == 0 and not info["success"] and info["reward_parts"] == {"collateral": 0, "changes": 0}
    )


def test_an_equal_formula_is_right() -> None:
    """However it is written; one that names the rows whose numbers fit today is wrong."""
    env, number = find_task("filtered total"), 0
    while not re.search(r'SUMIF\([A-Z0-9:]+,\\"[<>]', env.expert()[0]):
        number += 1
        env.reset(options={"task": number, "split": "valid"})
    arguments = json.loads(env.expert()[0].partition("Action Input:")[2])
    where, criterion, of = arguments["value"].removeprefix("=SUMIF(").removesuffix(")").split(",")
    start = env.snapshot()
    do(env, "update_cell", cell=arguments["cell"], value=f"=0+sumif( {where}, {criterion} , {of})*1")
    assert env.step("finish")[4]["success"]
    env.restore(start)
    column, last = of[0], int(of.split(":")[1][1:])
    found = do(env, "find_rows", column=where[0], where=criterion.strip('"'))
    rows = [int(row) for row in re.findall(r"\d+", found.split(":")[1])]
    value = "=" + "+".join(f"{column}{row}" for row in rows)
    assert rows and max(rows) <= last
    do(env, "update_cell", cell=arguments["cell"], value=value)
    assert not env.step("finish")[4]["success"]


def test_a_formula_in_the_place_of_a_number_is_wrong() -> None:
    """Because the cell would change with others."""
    env = find_task("correct a cell")
    arguments = json.loads(env.expert()[0].partition("Action Input:")[2])
    text = arguments["value"]
    do(env, "update_cell", cell=arguments["cell"], value=f"={text}" if text.isdigit() else f'="{text}"')
    assert not env.step("finish")[4]["success"]


def test_collateral_damage_lowers_the_reward() -> None:
    """The requested change is right, another cell is not: half of the reward and no success."""
    env = find_task("rename a column")
    env.step(env.expert()[0])
    old = env._book.at(2, 1)
    do(env, "update_cell", cell="B3", value="77" if old != "77" else "78")
    _, reward, _, _, info = env.step("finish")
    assert reward == 0.5 and info["reward_parts"] == {"changes": 1.0, "collateral": 1.0} and not info["success"]


def test_answers_are_compared_as_values() -> None:
    """With quotes, Markdown, a full stop, and needless zeros; other words make it wrong."""
    env = find_task("question")
    start, answer = env.snapshot(), env.puzzle.answer
    for text, right in (
        (f'"{answer}".', True), (f" {answer}", True), (f"**{answer}**", True), (f"`{answer}.`", True),
        (f"{answer}1", False), (f"{answer} rows", False), (f"It is {answer}", False), ("", False),
    ):  # fmt: skip
        env.restore(start)
        assert env.step(format_call("finish", {"answer": text}))[4]["success"] is right, text
    env.restore(start)
    number = float(answer)
    assert env.step(format_call("finish", {"answer": int(number) if number.is_integer() else number}))[4]["success"]


# ---- costs ----------------------------------------------------------------------------------------------------------


def test_lost_data_costs_one_and_requested_changes_nothing() -> None:
    """A cell that is overwritten, a row and a column that are deleted; an own entry may be taken back."""
    env = find_task("delete a row")
    (row,) = json.loads(env.expert()[0].partition("Action Input:")[2])["rows"]
    other = 2 if row != 2 else 3

    def costs(name: str, **arguments: Any) -> dict[str, float]:
        *_, info = env.step(format_call(name, arguments))
        assert info["valid_action"]
        return {cost: value for cost, value in info["costs"].items() if value}

    start = env.snapshot()
    assert costs("update_cell", cell=f"B{other}", value="99999") == {"overwritten": 1.0}
    assert costs("update_cell", cell="I9", value="mine") == {}
    assert costs("update_cell", cell="I9", value="") == {}
    env.restore(start)
    assert costs("delete_rows", rows=[other]) == {"deletions": 1.0}
    env.restore(start)
    assert costs("delete_column", column="B") == {"deletions": 1.0}
    env.restore(start)
    assert costs("delete_rows", rows=[row]) == {}
    assert costs("sort_rows", column="B", order="descending") in ({}, {})
    assert costs("fill_range", range="B2:B3", value="0") == {"overwritten": 1.0}


# ---- words ----------------------------------------------------------------------------------------------------------


def test_splits_share_no_names() -> None:
    """Neither of sheets, columns and groups, nor of rows."""
    listed = {
        split: {
            name.casefold()
            for names in (
                words.sheets, words.counts, words.rates, words.results,
                *(part for pool in (*words.keys, *words.groups) for part in pool), *words.flags,
            )
            for name in names
        }
        for split, words in WORDS.items()
    }  # fmt: skip
    assert not listed["train"] & listed["valid"] and not listed["train"] & listed["test"]
    assert not listed["valid"] & listed["test"]
    assert len(listed["train"]) > 700


def test_training_wordings_are_rich_and_others_are_not_among_them() -> None:
    """At least 15 grammars a meaning; a held-out wording is no expansion of one."""
    for meaning, wordings in WORDINGS.items():
        assert len(wordings["train"]) >= 14, meaning
        assert sum(map(count_expansions, wordings["train"])) >= 14, meaning
        held_out = [*wordings["valid"], *wordings["test"]]
        assert len(set(held_out)) == len(held_out) >= 4
        for text in held_out:
            assert not any(is_expansion(text, grammar) for grammar in wordings["train"]), text


@pytest.mark.parametrize("split", ["valid", "test"])
def test_what_follows_a_condition_is_done_in_either_case(split: str) -> None:
    """And the request says so."""
    env = SheetEnv(difficulty="hard", split=split)
    tasks = [task for task in map(env.task, range(40)) if task.kind == "condition"]
    assert tasks
    for task in tasks:
        assert re.search("(whichever applied|of that outcome|either case|either outcome)[:,.]", task.instruction)


@pytest.mark.parametrize("difficulty", LEVELS)
def test_requests_name_only_words_of_their_split(difficulty: str) -> None:
    """Two tasks of one split hardly ever have the same request."""
    texts = [SheetEnv(difficulty=difficulty, split="train").task(number).instruction for number in range(200)]
    assert len(set(texts)) == len(texts)
    assert not any("{" in text or "[" in text or "|" in text for text in texts)


# ---- tools ----------------------------------------------------------------------------------------------------------

VALUES = st.one_of(
    st.integers(-3, 40), st.floats(), st.booleans(), st.none(), st.text(max_size=8), st.sampled_from(
        ["A", "B2", "B2:C4", "=SUM(B2:B4)", "=B2", "=1/0", ">3", "ascending", "descending", "J30", "A1:J30", "0"]
    ), st.lists(st.integers(0, 12), max_size=3),
    st.lists(st.lists(st.sampled_from(["1", "=A1", ""]), max_size=3), max_size=3),
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(set(TOOLS) - {"finish"})), st.lists(VALUES, max_size=2)), max_size=4))
def test_any_call_is_answered(calls: list[tuple[str, list[Any]]]) -> None:
    """Sensible or not; a refused one changes nothing, and a snapshot restores itself."""
    env = SheetEnv(difficulty="medium", max_steps=50)
    env.reset(options={"task": 3})
    for name, values in calls:
        tool = TOOLS[name]
        arguments = dict(zip((*tool.needs, *tool.takes), values, strict=False))
        before = env.state()
        observation, *_, info = env.step(format_call(name, arguments))
        assert observation and (info["valid_action"] or env.state() == before)
        here = env.snapshot()
        env.restore(here)
        assert env.snapshot() == here
    assert env.expert()[-1].startswith("finish")


def test_observations_tell_what_was_and_what_is() -> None:
    """So that nothing is lost for good."""
    env = find_task("total")
    table = env._book.table()
    first, second = (env._book.at(row, 1) for row in (1, 2))
    assert do(env, "get_cell", cell="B2") == f"B2 is {first}."
    assert do(env, "fill_range", range="B2:B3", value="0") == f"B2:B3 was {first}, {second}. Now it is 0, 0."
    assert do(env, "update_range", cell="B2", lines=[[first], [second]]).startswith("B2:B3 was 0, 0.")
    assert (
        do(env, "update_cell", cell="I2", value="=B2+B3").endswith(".") and "Formulas: I2 =B2+B3" in env._book.table()
    )
    do(env, "update_cell", cell="I2", value="")
    assert do(env, "delete_rows", rows=[2]).startswith(f"Deleted row 2: {env._puzzle.start.rows[1][0]} | ")
    assert do(env, "insert_row", row=2, values=env._puzzle.start.rows[1]) == table
    assert do(env, "evaluate", formula="=B2-B2") == "=B2-B2 is 0."


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("dance", "No tool 'dance'"), ("sort_rows", "sort_rows needs 'column'"), ("update_cell B2", "No tool"),
        ('update_cell {"cell": "B2:B3", "value": 1}', "not one cell"), ('delete_rows {"rows": [1]}', "Rows 2 to"),
        ('sort_rows {"column": "A", "order": "up"}', "must be one of ascending, descending"),
        ('update_cell {"cell": "B2", "value": "=SUM("}', "missing"), ('open_sheet {"sheet": "Nowhere"}', "No sheet"),
        ('delete_rows {"rows": "2, 3"}', "must be of type integer"), ('insert_row {"row": 25}', "inserted as row 2 to"),
        ('get_cell {"cell": "nothing here"}', "Nothing fits|No function"),
        ('evaluate {"formula": "=Other!A1"}', "No sheet"),
        ('update_range {"cell": "A1", "lines": [[1], [1, 2]]}', "same length"),
        ('update_range {"cell": "A1", "lines": [1, 2]}', "must be of type array"),
        ('fill_range {"range": "B:C", "value": 1}', "Name the rows too, such as B2:C6"),
        ('fill_range {"range": "A1:B2", "value": true}', "must be of type string or number"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(action: str, message: str) -> None:
    """And nothing changes."""
    env = find_task("total")
    before = env.state()
    observation, *_, info = env.step(action)
    assert re.search(message, observation), observation
    assert not info["valid_action"] and env.state() == before


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ('delete_rows {"rows": 3}', {"rows": [3]}), ('delete_rows {"rows": ["3", 2]}', {"rows": [3, 2]}),
        ("delete_rows(3)", {"rows": [3]}), ('insert_row {"row": "3", "values": 7}', {"row": 3, "values": [7]}),
        ('Sort_Rows(column="A", order="desc")', {"column": "A", "order": "descending"}),
        ('sort_rows {"column": "A", "order": "Descending"}', {"column": "A", "order": "descending"}),
    ],
)  # fmt: skip
def test_a_clear_call_is_done(action: str, arguments: dict[str, Any]) -> None:
    """A number as text, one thing for a list, a shortened choice, and a tool's name in capitals."""
    env, other = find_task("total"), find_task("total")
    name = re.match(r"\w+", action)
    assert name and env.step(action)[0] == do(other, name[0].lower(), **arguments)
    assert env.state() == other.state()
    env.step("Finish")
    assert env.stop_reason


def test_a_column_may_be_named_by_its_header() -> None:
    """As well as by its letter."""
    env = find_task("sort")
    call_ = json.loads(env.expert()[0].partition("Action Input:")[2])
    header = env._book.rows[0][LETTERS.index(call_["column"])]
    do(env, "sort_rows", column=header, order=call_["order"])
    assert env.step("finish")[4]["success"]


@pytest.mark.parametrize(
    "change",
    [
        {"over": 1}, {"open": "Nowhere"}, {"seen": []}, {"seen": "x"}, {"read": [7]}, {"read": [True]}, {"sheets": {}},
        {"sheets": []},
    ],
)  # fmt: skip
def test_a_damaged_snapshot_is_refused(change: dict[str, Any]) -> None:
    """With nothing changed."""
    env = find_task("question")
    data = json.loads(env.snapshot())
    data["state"] |= change
    before = env.snapshot()
    with pytest.raises(SnapshotError):
        env.restore(json.dumps(data).encode())
    assert env.snapshot() == before


@pytest.mark.parametrize(
    "rows", [[], [[]], [["a"], []], [["a", ""]], [["a"], [""]], [["=1+"]], [["007"]], [[1]], [["a"]] * 31]
)
def test_a_snapshot_holds_only_what_edits_leave(rows: list[Any]) -> None:
    """Trimmed sheets of contents in their one form."""
    env = find_task("total")
    data = json.loads(env.snapshot())
    (sheet,) = data["state"]["sheets"]
    data["state"]["sheets"][sheet] = rows
    with pytest.raises(SnapshotError):
        env.restore(json.dumps(data).encode())
