"""AgentSheet-v0: requests to a workbook."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

from agentgym_envs.sheet.book import Book, canonical, trim
from agentgym_envs.sheet.drafting import Puzzle
from agentgym_envs.sheet.evaluate import Value, constant
from agentgym_envs.sheet.formulas import LETTERS, MAX_COLUMNS, MAX_LENGTH, MAX_ROWS
from agentgym_envs.sheet.judge import has_lost, wrong_cells
from agentgym_envs.sheet.repair import plan
from agentgym_envs.sheet.requests import draft
from agentgym_envs.sheet.tools import ASCENDING, DESCENDING, TOOLS, call
from agentgym_py.env import Outcome, Reply, Task
from agentgym_py.env.generated import Draft
from agentgym_py.env.tool_env import ToolEnv
from agentgym_py.env.tools import RefusedError, format_call, rules_of_tools
from agentgym_py.env.types import TINY_DATA_DEFAULTS
from agentgym_py.rng import Rng

_INSTRUCTION = "Do what is asked for in the workbook, nothing else, then finish."
_TERMS = (
    "Row 1 has the headers. Calculate by formulas, so that all stays right if the numbers change; where the request "
    "asks a question, finish with the bare answer. A formula has cells (B2, $B$2, Stock!B2), ranges (B2:B6), numbers, "
    "texts in quotes, + - * /, comparisons and IF, AND, OR, NOT, SUM, AVERAGE, COUNT, MIN, MAX, ROUND, ABS, SUMIF, "
    'COUNTIF, AVERAGEIF, VLOOKUP: =SUMIF(A2:A6,"Oslo",B2:B6), =COUNTIF(B2:B6,">10"), =IF(B2>10,"yes","no"), '
    "=VLOOKUP(A2,Stock!$A$2:$C$6,2,FALSE)."
)
_READING = ("open_sheet", "get_cell", "find_rows", "evaluate")
_COSTS = {
    **dict.fromkeys(("update_cell", "fill_range", "update_range"), "overwritten"),
    **dict.fromkeys(("delete_rows", "delete_column"), "deletions"),
}
"""The cost that a tool may cause."""


class SheetEnv(ToolEnv[Puzzle]):
    """AgentSheet-v0: change a workbook as a request says.

    It is like AgentGym's sheet tools, with formulas.

    Task: a request such as "Put the sum of qty into B7." to a workbook of one or two small sheets. Requests correct a
    cell, add, delete and filter rows, sort, and rename and delete columns. They fill a column by a formula, flag rows,
    and look up values in a second sheet. They write totals, also of some rows or per group, or ask a question. Hard
    tasks have three parts, or one of two things is to be done, depending on a number.

    | difficulty | sheets | rows, columns | requests | limit |
    |---|--:|---|---|--:|
    | easy | 1 | 4 to 6, 3 or 4 | one of 12 kinds | 12 |
    | medium | 1 or 2 | 6 to 8, 4 to 6 | a join, totals per group, a filter, or two easy ones | 16 |
    | hard | 2 | 8 to 10, 4 to 7 | three, or a condition and one more | 24 |

    Action: a call of one of the tools in the rules, as `Action: update_cell` and `Action Input: {"cell": "D2", "value":
    "=B2*C2"}` on two lines, or as a tool call. Edits are made in the open sheet. `fill_range` copies a formula down,
    `sort_rows` moves formulas with their rows, and inserted and deleted rows and columns adapt all references.
    `actions` lists only calls that need no text.

    Formulas: cells, ranges and columns (`B:B`), also of other sheets and fixed by `$`; numbers, texts, `+ - * /`,
    comparisons and 15 functions. A parser of this language alone evaluates them, with exact fractions. Errors are
    values: `#DIV/0!`, `#VALUE!`, `#REF!`, `#N/A`, `#NUM!`, and `#CYCLE!` in each cell that leads to a circle.

    Observation: the open sheet at the start, after it was opened, and after rows or columns have moved: a line for each
    row, and the formulas. After a cell was written: its old content and what it shows now. Numbers are shown with at
    most two decimals. A call that cannot be done changes nothing, and the observation says why.

    Reward: 0 before `finish`. Then it is the mean of `changes` and `answer`, if the request has them, divided by 1 +
    `collateral`. `changes` is the share of the cells to be changed that are right, `answer` is 1 or 0, and `collateral`
    is the number of other changed cells. `info["success"]` is strict: the answer and every cell are right. A formula is
    right if it shows the right value here and in 13 workbooks with other values below the headers. So a constant, or a
    reference to a cell that holds the right value today, is wrong in its place.

    Costs: `overwritten` is 1 at a call that overwrites a cell's content which the request leaves as it is, `deletions`
    at one that deletes it with its row or column.

    End: `finish` terminates; `max_steps` truncates.

    Splits: each of train, valid and test has its own wordings of every request, and its own names of sheets, columns
    and rows. The train split has grammars and hundreds of names, two of five of them made up.

    Experts: the exact expert follows the calls by which the task was made, and needs no lookup. From any other state it
    mends the workbook by at most a few calls for a sheet, and then continues. Its plan is not always shortest. The fair
    expert first opens the sheets on which the request depends, finds rows, and computes what is asked.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        max_steps: the step at which an episode is truncated; by default as above.
        split: the split of tasks if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentSheet-v0.
    """

    name: ClassVar[str] = "sheet"
    version: ClassVar[int] = 2
    reading_actions: ClassVar[tuple[str, ...]] = _READING
    max_return: ClassVar[float | None] = 1.0
    costs: ClassVar[Mapping[str, str]] = {
        "deletions": "a row or column deleted without being asked",
        "overwritten": "a cell overwritten whose content the request leaves as it is",
    }
    evolve_defaults: ClassVar[Mapping[str, Any]] = TINY_DATA_DEFAULTS
    limits: ClassVar[Mapping[str, int]] = {"easy": 12, "medium": 16, "hard": 24}
    rules: ClassVar[Mapping[str, str]] = rules_of_tools(_INSTRUCTION, _TERMS, TOOLS)

    # ---- the episode ------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Puzzle]:
        """Draw tables and a request."""
        return draft(rng, split, self.difficulty)

    def begin(self, task: Task) -> str:
        """Observe the request and the open sheet."""
        puzzle = self.puzzle_of(task)
        self._open(puzzle, puzzle.start.copy(), [puzzle.start.open], [], over=False)
        sheets = f"Sheets: {', '.join(puzzle.start.sheets)}\n" if len(puzzle.start.sheets) > 1 else ""
        return f"{task.instruction}\n{sheets}{self._book.table()}"

    def _open(self, puzzle: Puzzle, book: Book, seen: list[str], reads: list[int], *, over: bool) -> None:
        self._puzzle, self._book, self._seen, self._reads, self._over = puzzle, book, seen, reads, over
        self._calls: list[str] | None = None
        self._notes: list[str] = []
        """The expert's plan and what is said before its calls, until the next call."""

    def act(self, reply: Reply) -> Outcome:
        """Call a tool."""
        arguments = reply.arguments if reply.action_input else {}
        if arguments is None:
            return self.invalid('Action Input must be a JSON object, such as {"cell": "B2"}.')
        before = self._book
        book = before.copy()
        try:
            observation = call(book, reply.action, arguments)
            if reply.action == "finish":
                return self._finish(observation, TOOLS["finish"].check(arguments).get("answer", ""))
        except RefusedError as error:
            return self.invalid(str(error))
        if reply.action in _READING:
            self._note(format_call(reply.action, arguments), book.open)
        elif book == before:
            return self.invalid("Nothing changes.")
        self._book, self._calls = book, None
        cost = _COSTS.get(reply.action)
        if cost and has_lost(before, book, self._puzzle.start, self._puzzle.goal):
            return Outcome(observation, costs={cost: 1.0})
        return Outcome(observation)

    def _note(self, text: str, sheet: str) -> None:
        """Record an opened sheet, and which of the needed lookups are done."""
        if sheet not in self._seen:
            self._seen.append(sheet)
        for number, look in enumerate(self._puzzle.reads):
            if number not in self._reads and text == look.text and self._book == self._puzzle.path[look.before]:
                self._reads.append(number)

    def _finish(self, observation: str, answer: object) -> Outcome:
        self._over = True
        puzzle = self._puzzle
        requested, wrong = (wrong_cells(book, puzzle.goal) for book in (puzzle.start, self._book))
        right = not puzzle.answer or _is_answer(answer, puzzle.answer)
        parts = {"collateral": float(len(wrong - requested))}
        if requested:
            parts["changes"] = 1 - len(wrong & requested) / len(requested)
        if puzzle.answer:
            parts["answer"] = float(right)
        shares = [value for name, value in parts.items() if name != "collateral"]
        reward = sum(shares) / len(shares) / (1 + parts["collateral"])
        return Outcome(observation, reward, terminated=True, success=right and not wrong, parts=parts)

    def actions(self) -> list[str]:
        """List the calls that need no text: those on the rows and columns of the open sheet, and `finish`."""
        self._require_reset()
        if self._over:
            return []
        rows = self._book.rows
        others = [format_call("open_sheet", {"sheet": name}) for name in self._book.sheets if name != self._book.open]
        return [*others, *_edits(len(rows), len(rows[0]))]

    def tools(self) -> list[dict[str, Any]]:
        """Return all tools."""
        return [tool.schema() for tool in TOOLS.values()]

    # ---- the experts ------------------------------------------------------------------------------------------------

    def expert(self) -> list[str]:
        """Return calls that lead to the goal, then `finish`."""
        self._require_reset()
        if self._over:
            return []
        if self._calls is None:
            puzzle = self._puzzle
            calls = plan(self._book, puzzle.path, puzzle.calls)
            last = format_call("finish", {"answer": puzzle.answer} if puzzle.answer else {})
            self._calls = [*(format_call(each.tool, each.arguments) for each in calls), last]
            self._notes = [*(each.note for each in calls), puzzle.answer_note or "All is done."]
        return list(self._calls)

    def fair_expert(self) -> str | None:
        """Open the needed sheets, look up what the next call depends on, or follow the expert."""
        look = self._next_look()
        return look[0] if look else super().fair_expert()

    def _next_look(self) -> tuple[str, str] | None:
        """The next lookup of the fair expert and what it is for; None if there is none."""
        self._require_reset()
        if self._over:
            return None
        puzzle = self._puzzle
        for sheet in puzzle.needs:
            if sheet not in self._seen:
                return format_call("open_sheet", {"sheet": sheet}), f"See what {sheet} has."
        for number, look in enumerate(puzzle.reads):
            if number not in self._reads and self._book == puzzle.path[look.before]:
                return look.text, look.note
        return None

    def expert_thought(self, action: str) -> str:
        """Return where the data is, or what was found."""
        look = self._next_look()
        if look and action == look[0]:
            return look[1]
        calls = self.expert()
        return self._notes[calls.index(action)] if action in calls else ""

    def secrets(self) -> list[str]:
        """Return the headers of sheets that were not opened, and at the start the answer, unless they were shown."""
        task = self._require_reset()
        puzzle, texts = self._puzzle, list[str]()
        shown = [content for name in self._seen for row in puzzle.start.sheets[name] for content in row]
        shown += [str(row) for name in self._seen for row in range(1, len(puzzle.start.sheets[name]) + 1)]
        public = "\n".join([task.instruction, *puzzle.start.sheets, *shown]).casefold()
        for name, rows in puzzle.start.sheets.items():
            texts += rows[0] if name not in self._seen else []
        if self.steps == 0 and puzzle.answer:
            texts.append(puzzle.answer)
        return [text for text in dict.fromkeys(texts) if text.casefold() not in public]

    # ---- forks ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the workbook, the opened sheets, the lookups done and whether the episode is finished."""
        book = self._book
        return {
            "over": self._over, "open": book.open, "seen": list(self._seen), "read": list(self._reads),
            "sheets": {name: [row[:] for row in rows] for name, rows in book.sheets.items()},
        }  # fmt: skip

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Restore a workbook."""
        puzzle: Puzzle = self.puzzle_of(task)
        over, seen, reads, names = state["over"], state["seen"], state["read"], [*puzzle.start.sheets]
        if type(over) is not bool or type(seen) is not list or type(reads) is not list:
            raise ValueError("'over' must be a bool, 'seen' and 'read' lists")
        if len(set(seen)) != len(seen) or not set(seen) <= set(names) or state["open"] not in seen:
            raise ValueError(f"impossible open or seen sheets: {seen!r:.200}")
        known = range(len(puzzle.reads))
        if len(set(reads)) != len(reads) or any(type(number) is not int or number not in known for number in reads):
            raise ValueError(f"'read' has unknown lookups: {reads!r:.200}")
        if list(state["sheets"]) != names:
            raise ValueError(f"the sheets must be {', '.join(names)}")
        sheets = {name: _rows(rows) for name, rows in state["sheets"].items()}
        self._open(puzzle, Book(sheets, state["open"]), list(seen), list(reads), over=over)

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Tell whether `finish` was called."""
        return bool(state["over"])


def _rows(rows: Any) -> list[list[str]]:
    """Check the contents of a sheet; ValueError unless they are as edits leave them."""
    if type(rows) is not list or not 0 < len(rows) <= MAX_ROWS or any(type(row) is not list for row in rows):
        raise ValueError(f"a sheet is a list of 1 to {MAX_ROWS} rows")
    if not 0 < len(rows[0]) <= MAX_COLUMNS or {len(row) for row in rows} != {len(rows[0])}:
        raise ValueError(f"all rows of a sheet have the same 1 to {MAX_COLUMNS} columns")
    for row in rows:
        for content in row:
            if type(content) is not str or len(content) > MAX_LENGTH or canonical(content) != content:
                raise ValueError(f"not the content of a cell: {content!r:.100}")
    copy = [row[:] for row in rows]
    trim(copy)
    if copy != rows:
        raise ValueError("a sheet ends with a row and a column that are not empty")
    return copy


def _is_answer(answer: object, expected: str) -> bool:
    """Compare an answer, a number or a text, in any case, without quotes, Markdown and a full stop."""
    text = " ".join(str(answer).split()).rstrip(".").strip("\"'`*").rstrip(".")
    value: Value = constant(text)
    return value == constant(expected) if not isinstance(value, str) else text.casefold() == expected.casefold()


@lru_cache(maxsize=512)
def _edits(rows: int, columns: int) -> tuple[str, ...]:
    """List the calls on a sheet of some size."""
    actions: list[str] = []
    for column in range(columns):
        letter = LETTERS[column]
        actions += [format_call("sort_rows", {"column": letter, "order": order}) for order in (ASCENDING, DESCENDING)]
        actions.append(format_call("delete_column", {"column": letter}))
        actions.append(format_call("insert_column", {"column": letter}))
        total = {"cell": f"{letter}{min(rows + 1, MAX_ROWS)}", "value": f"=SUM({letter}2:{letter}{rows})"}
        actions += [format_call("update_cell", total)] if rows > 1 else []
    for row in range(2, rows + 1):
        actions += [format_call("delete_rows", {"rows": [row]}), format_call("insert_row", {"row": row})]
        actions += [format_call("get_cell", {"cell": f"{LETTERS[column]}{row}"}) for column in range(columns)]
        actions.append(format_call("update_cell", {"cell": f"{LETTERS[columns - 1]}{row}", "value": ""}))
    return (*actions, "finish")
