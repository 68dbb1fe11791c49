"""AgentSQL-v0: answer a question about a database with one SQL statement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from agentgym_envs.sql import questions
from agentgym_envs.sql.guard import Cell, GuardedDatabase, Result, StatementError
from agentgym_envs.sql.questions import Question
from agentgym_envs.sql.tables import Layout, Plant, build_tables, draw_layout, draw_rows, plant
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task, function_tool, text_parameter
from agentgym_py.env.actions import parse_reply
from agentgym_py.env.generated import Draft
from agentgym_py.env.types import TINY_DATA_DEFAULTS
from agentgym_py.errors import CatalogueError
from agentgym_py.rng import Rng

PAGE_ROWS = 12
_PAGE_COLUMNS = 12
_MAX_CELL_LENGTH = 300
_MAX_ANSWER_ROWS = 20
_TWINS, _MAX_TWINS = 64, 1024
_JUDGES, _MAX_JUDGES = 8, 40
_CALL_START = re.compile(r"(?:query|answer)\s*\[", re.IGNORECASE)
_FENCED = re.compile(r"\s*```(?:sql|sqlite)?\s(.*?)```\s*", re.DOTALL | re.IGNORECASE)
_SCHEMA = "SELECT sql FROM sqlite_master"
_FORM = "Write query[SELECT ...] to look, or answer[SELECT ...] to answer, on one line."


Answer = set[tuple[Cell, ...]]
"""The set of a result's rows, without order and repetitions."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A question about a database."""

    layout: Layout
    rows: questions.Rows
    question: Question
    answer: Answer


class SQLEnv(GeneratedEnv[Puzzle]):
    """AgentSQL-v0: answer a question with one SQL query.

    Each task has its own generated database.

    Task: a question such as "How many loans of more than 12 days are there?" about a database of three tables. Its
    subject, names of tables and columns, rows and notation of values are drawn from the task's id. Valid and test tasks
    have eight subjects. Training tasks combine other tables, columns and values; two of five are made up. Names of
    tables and columns may differ from those in the question, and some databases have a column or a table more. So a
    question must be read against the tables shown. The splits share neither wordings of questions nor names of people
    and things.

    | difficulty | questions | values in the database | first observation | fair expert's steps | random success |
    |---|---|---|---|---|---|
    | `easy` | one table, one condition | as in the question | tables and columns | 1.4 | 0.0 % |
    | `medium` | joins, averages, groups | capitals, codes (`NOR` for Norway) | tables and columns | 1.9 | 0.0 % |
    | `hard` | joins of three, shares, above the average, absence | the same | tables | 2.8 | 0.0 % |

    The last two columns are means over 300 test tasks. The exact expert needs one step.

    Actions: `query[SELECT ...]` runs a statement and shows its first 12 rows. `answer[SELECT ...]` runs one and ends
    the episode; if it fails, the observation is the error and the episode continues. A statement may have several lines
    and ```sql fences; `Action: query` and `Action Input: SELECT ...` is the same. As tools: `query(sql)`,
    `answer(sql)`.

    Observation: the question and the tables; then a result (its columns, then a line per row, with `NULL`) or SQLite's
    error.

    Reward: 1 for a right answer, else 0; `success` likewise. An answer is right if the statement returns the expected
    set of rows on the database and on hidden twins (BIRD's rule: order and repeated rows do not count; numbers to six
    digits). So a rounded number is wrong. Groups whose count is 0 may be listed or left out. A twin has the same
    tables, names and notation, but other rows. One has another answer, so a guessed or copied result is wrong. Others
    have the question's own numbers, so `>=` for `more than` is wrong. `info["reward_parts"]` holds `shown` (right on
    the database) and `twin` (right on all twins too).

    End: an answer that runs terminates; `max_steps` (6, 8, 10) truncates.

    No statement can write, leave the database, hang or fill the memory: see `guard`. The expert knows a right statement
    and answers at once, a shortest plan. The fair expert knows no synonyms: it takes a table that has the question's
    word, else the one to which `author_id` elsewhere refers, else the rest. It looks at the values of a column that the
    question does not name, unless no other column is left, and at the notation of values.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        max_steps: Step limit; by default as above.
        split: Where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentSQL-v0.
    """

    name: ClassVar[str] = "sql"
    reading_actions: ClassVar[tuple[str, ...]] = ("query",)
    version: ClassVar[int] = 4
    max_return: ClassVar[float | None] = 1.0
    evolve_defaults: ClassVar[Mapping[str, Any]] = {**TINY_DATA_DEFAULTS, "max_new_tokens": 160}
    limits: ClassVar[Mapping[str, int]] = {"easy": 6, "medium": 8, "hard": 10}
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "Answer a question about an SQLite database with one SELECT statement. Each turn you do one action:\n"
            "query[SELECT ...] shows the first 12 rows of a result: look how values are written before you compare "
            "with them; query[SELECT sql FROM sqlite_master] shows the columns of the tables.\n"
            "answer[SELECT ...] gives the statement whose result answers the question, with only the columns asked "
            "for; people and things are named by their name or title. Do not round numbers. It ends the task. The "
            "statement is also run on other data, so compute the answer, do not copy it.\n"
            "Answer in this form:\nThought: why\nAction: query[SELECT ...] or answer[SELECT ...]"
        ),
        "brief": "Look with query[SELECT ...], then give the statement that answers: answer[SELECT ...].",
        "none": "",
    }

    _looked: list[int]
    _answered = False
    _open: tuple[Puzzle, GuardedDatabase] | None = None
    _action_cache: tuple[Puzzle, list[str]] | None = None

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Puzzle]:
        """Draw a database and a question with one answer in it."""
        while True:
            layout = draw_layout(rng, split, plain=self.difficulty == "easy")
            rows = draw_rows(layout, rng)
            database = GuardedDatabase(build_tables(layout, rows))
            for _ in range(8):
                question = questions.draw_question(layout, rows, rng, split, self.difficulty)
                answer = _unique_answer(database, question)
                if answer is not None:
                    puzzle = Puzzle(layout, rows, question, answer)
                    self._keep_open(puzzle, database)
                    return Draft(question.words, puzzle, question.kind, 1)
            database.close()

    def _keep_open(self, puzzle: Puzzle, database: GuardedDatabase) -> None:
        """Keep only this database open, because most tasks are played as soon as they are drawn."""
        self.close()
        self._open = puzzle, database

    def close(self) -> None:
        """Free the database; it is built again on use."""
        if self._open is not None:
            self._open[1].close()
        self._open = None

    @property
    def database(self) -> GuardedDatabase:
        """The database of the current task."""
        puzzle = self.puzzle
        if self._open is not None and self._open[0] is puzzle:
            return self._open[1]
        database = GuardedDatabase(build_tables(puzzle.layout, puzzle.rows))
        self._keep_open(puzzle, database)
        return database

    def twin(self) -> tuple[GuardedDatabase, Answer]:
        """Return a database with other rows, and its answer, which differs.

        If no draw has another good answer, an answer of 0 or nothing will do.

        Raises:
            CatalogueError: none of a thousand draws has another answer, so the task cannot be judged.
        """
        question, may_be_weak = self.puzzle.question, not self.puzzle.question.tie
        numbers = [*reversed(range(_TWINS))]
        retries = [*numbers, *range(_TWINS, _MAX_TWINS)]
        for weak, number in (*((False, n) for n in numbers), *((may_be_weak, n) for n in retries)):
            database, answer = self._draw_twin(number)
            if answer != self.puzzle.answer and (weak or _unique_answer(database, question) is not None):
                return database, answer
            database.close()
        raise CatalogueError(f"{self._require_reset().id}: no other rows give another answer")

    def twins(self) -> Iterator[tuple[GuardedDatabase, Answer]]:
        """Draw the twin and, one by one, more databases with other rows; yield each with its answer.

        Of the further ones, many rows have the values with which the question compares. There are eight good ones, and
        more while a near miss has the right results on all of them.
        """
        yield self.twin()
        question, left = self.puzzle.question, _JUDGES - 1
        misses = question.near_misses
        for number in range(_MAX_TWINS, _MAX_TWINS + _MAX_JUDGES):
            if left <= 0 and not misses:
                return
            plants = question.plants if left > 0 else (*question.near_miss_plants, *question.plants)
            database, answer = self._draw_twin(number, plants)
            same = tuple(miss for miss in misses if _answer(database.run(miss), question) == answer)
            if _unique_answer(database, question) is None or (left <= 0 and same == misses):
                database.close()
                continue
            yield database, answer
            left, misses = left - 1, same

    def _draw_twin(self, number: int, plants: Sequence[Plant] = ()) -> tuple[GuardedDatabase, Answer]:
        puzzle, rng = self.puzzle, Rng(self._require_reset().id, "twin", number)
        rows = draw_rows(puzzle.layout, rng)
        for value in plants:
            plant(puzzle.layout, rows, value, rng)
        database = GuardedDatabase(build_tables(puzzle.layout, rows))
        return database, _answer(database.run(puzzle.question.sql), puzzle.question)

    # ---- the episode ------------------------------------------------------------------------------------------------

    def begin(self, task: Task) -> str:
        """Return the question and the tables."""
        self._looked, self._answered = [], False
        schema = self.puzzle_of(task).layout.schema()
        if self.difficulty == "hard":
            tables = [table for table, _ in schema]
        else:
            tables = [f"{table}({', '.join(columns)})" for table, columns in schema]
        return f"{task.instruction}\nTables: {', '.join(tables)}"

    def read(self, text: str) -> Reply:
        """Parse a reply in any form; the text in brackets may have several lines."""
        reply = parse_reply(text)
        if reply.form != "react" or reply.action_input is not None or not _CALL_START.match(reply.action):
            return reply
        lines = text[text.rfind(reply.action) :].partition("\nObservation:")[0]
        action = lines[: lines.rfind("]") + 1]
        return replace(reply, action=action) if action and not reply.action.endswith("]") else reply

    def act(self, reply: Reply) -> Outcome:
        """Do `query` or `answer`."""
        name, argument = reply.parts
        name = name.strip().casefold()
        if name not in ("query", "answer") or argument is None:
            return self.invalid(f"Not an action. {_FORM}")
        fenced = _FENCED.fullmatch(argument)
        statement = fenced[1].strip() if fenced else argument
        try:
            result = self.database.run(statement)
            if name == "query":
                self._remember(statement)
                return Outcome(page(result))
            return self._judge(statement, result)
        except StatementError as error:
            return self.invalid(f"Error: {error}.")

    def _judge(self, statement: str, result: Result) -> Outcome:
        if result.more:
            raise StatementError(f"an answer has at most {len(result.rows)} rows")
        right_here = _answer(result, self.puzzle.question) == self.puzzle.answer
        success = right_here and all(self._is_right_on(twin, answer, statement) for twin, answer in self.twins())
        self._answered = True
        text = "Right." if success else "Wrong: right here, but not on other data." if right_here else "Wrong."
        parts = {"shown": float(right_here), "twin": float(success)}
        return Outcome(text, float(success), terminated=True, success=success, parts=parts)

    def _is_right_on(self, twin: GuardedDatabase, answer: Answer, statement: str) -> bool:
        try:
            return _answer(twin.run(statement), self.puzzle.question) == answer
        except StatementError:
            return False
        finally:
            twin.close()

    def _remember(self, statement: str) -> None:
        looks = self._looks()
        if statement in looks and looks.index(statement) not in self._looked:
            self._looked = sorted([*self._looked, looks.index(statement)])

    def actions(self) -> list[str]:
        """List queries of each table and of the columns in the first observation, and equally plain answers."""
        puzzle = self.puzzle
        if self._action_cache is None or self._action_cache[0] is not puzzle:
            self._action_cache = puzzle, self._plain_actions(puzzle)
        return [] if self._answered else list(self._action_cache[1])

    def _plain_actions(self, puzzle: Puzzle) -> list[str]:
        actions = [f"query[{_SCHEMA}]"]
        for table, columns in puzzle.layout.schema():
            actions += [f"query[SELECT * FROM {table} LIMIT 3]", f"answer[SELECT COUNT(*) FROM {table}]"]
            for column in columns if self.difficulty != "hard" else ():
                actions += [_distinct(table, column), f"answer[SELECT {column} FROM {table}]"]
        return actions

    def tools(self) -> list[dict[str, Any]]:
        """Return `query(sql)` and `answer(sql)`."""
        sql = {"sql": text_parameter("One SELECT statement of SQLite.")}
        return [
            function_tool("query", "Run a SELECT statement and see the first 12 rows.", sql),
            function_tool(
                "answer", "Answer with the SELECT statement whose result is asked for; this ends the task.", sql
            ),
        ]

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`."""
        return {"query": "query[{sql}]", "answer": "answer[{sql}]"}

    # ---- forks and the experts --------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return which of the fair expert's queries were made, and whether an answer was given."""
        return {"looked": self._looked, "answered": self._answered}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Continue an episode."""
        looked, answered = state["looked"], state["answered"]
        numbers = range(len(self._looks(self.puzzle_of(task))))
        if type(looked) is not list or any(type(number) is not int or number not in numbers for number in looked):
            raise ValueError(f"not a list of looks: {looked!r}")
        if looked != sorted(set(looked)) or type(answered) is not bool:
            raise ValueError(f"looks out of order, or answered={answered!r}")
        self._looked, self._answered = list(looked), answered

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Return whether an answer was given."""
        return state["answered"] is True

    def expert(self) -> list[str]:
        """Return the right answer, which is a shortest plan."""
        return [] if self._answered else [f"answer[{self.puzzle.question.sql}]"]

    def fair_expert(self) -> str | None:
        """Query the columns, if they are unknown, and the notation of values to compare with; then answer."""
        open_looks = [look for number, look in enumerate(self._looks()) if number not in self._looked]
        return f"query[{open_looks[0]}]" if open_looks and not self._answered else next(iter(self.expert()), None)

    def _looks(self, puzzle: Puzzle | None = None) -> list[str]:
        columns = [_SCHEMA] if self.difficulty == "hard" else []
        return columns + [look.statement for look in (puzzle or self.puzzle).question.looks]

    def secrets(self) -> list[str]:
        """Return the right statement; at the start also the names in its result, which later queries may show."""
        if self._answered:
            return []
        cells = {cell for row in self.puzzle.answer for cell in row} if self.steps == 0 else set[Cell]()
        return [self.puzzle.question.sql, *sorted(cell for cell in cells if isinstance(cell, str))]

    def expert_thought(self, action: str) -> str:
        """Return which tables and columns the question means, as far as the fair expert knows them."""
        if action != self.fair_expert():
            return ""
        question, looks = self.puzzle.question, self._looks()
        if action == f"query[{_SCHEMA}]":
            return "I need the columns."
        if action.startswith("answer"):
            return question.answer_thought
        number = looks.index(action[len("query[") : -1])
        return question.look_thought(number - (len(looks) - len(question.looks)))


def _unique_answer(database: GuardedDatabase, question: Question) -> Answer | None:
    """The answer to a question in this database; None if it is ambiguous, empty, 0 or too long."""
    result = database.run(question.sql)
    if not result.rows or len(result.rows) > _MAX_ANSWER_ROWS or result.rows[0] in ((None,), (0,)):
        return None
    first_two = database.run(question.tie).rows if question.tie else ()
    return None if len(first_two) == 2 and first_two[0] == first_two[1] else _answer(result, question)


def _answer(result: Result, question: Question | None = None) -> Answer:
    """The rows of a result as a set, with numbers to six digits; of counts per group, without those of 0."""
    rows = {tuple(float(f"{cell:.6g}") if isinstance(cell, float) else cell for cell in row) for row in result.rows}
    return {row for row in rows if row[-1] != 0} if question is not None and question.counts_groups else rows


def page(result: Result) -> str:
    """A result as text."""
    lines = [" | ".join(_cell(column) for column in result.columns[:_PAGE_COLUMNS])]
    lines += [" | ".join(map(_cell, row[:_PAGE_COLUMNS])) for row in result.rows[:PAGE_ROWS]]
    if not result.rows:
        lines.append("(no rows)")
    hidden = len(result.rows) - PAGE_ROWS
    if hidden > 0:
        lines.append(f"({'at least ' if result.more else ''}{hidden} more rows)")
    return "\n".join(lines)


def _cell(value: Cell) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)
    return text if len(text) <= _MAX_CELL_LENGTH else f"{text[:_MAX_CELL_LENGTH]}..."


def _distinct(table: str, column: str) -> str:
    return f"query[SELECT DISTINCT {column} FROM {table}]"
