"""AgentSQL-v0: a question, a database behind a guard, and one statement that answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from agentgym_envs.sql import questions
from agentgym_envs.sql.guard import Cell, GuardedDatabase, Result, StatementError
from agentgym_envs.sql.questions import Question
from agentgym_envs.sql.tables import Layout, layout, rows, tables
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task, function_tool, text_parameter
from agentgym_py.env.actions import parse_reply
from agentgym_py.env.generated import Draft
from agentgym_py.errors import CatalogueError
from agentgym_py.rng import Rng

SHOWN_ROWS = 12
_SHOWN_COLUMNS = 12
_LONGEST_CELL = 300
_MOST_NAMED = 20
_TWINS, _MOST_TWINS = 64, 1024
_BEGUN = re.compile(r"(?:query|answer)\s*\[", re.IGNORECASE)
_FENCED = re.compile(r"\s*```(?:sql|sqlite)?\s(.*?)```\s*", re.DOTALL | re.IGNORECASE)
_SCHEMA = "SELECT sql FROM sqlite_master"
_FORM = "Write query[SELECT ...] to look, or answer[SELECT ...] to answer, on one line."


Answer = set[tuple[Cell, ...]]
"""What counts of a result: the set of its rows, neither their order nor how often each stands there."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A question to a database."""

    made: Layout
    filled: questions.Filled
    question: Question
    answer: Answer


class SQLEnv(GeneratedEnv[Puzzle]):
    """AgentSQL-v0: answer a question with one SQL query.

    The question is about a database that nobody has seen.

    Task: a question such as "How many loans of more than 12 days are there?" to a database of three tables that is made
    for it: one of eight subjects, with names of tables and columns, rows, and ways to write values drawn from the
    task's id. The splits share neither the ways to ask a question nor the names of people and things; subjects and
    columns stand in all of them.

    | difficulty | questions | values in the database | shown at first | fair expert's steps | random success |
    |---|---|---|---|---|---|
    | `easy` | one table, one condition | as in the question | tables and columns | 1.0 | 0.0 % |
    | `medium` | joins, averages, groups | capitals, codes (`NOR` for Norway) | tables and columns | 1.6 | 0.0 % |
    | `hard` | joins of three, shares, above the average, absence | the same | tables | 2.7 | 0.0 % |

    The last two columns: means over 300 test tasks. The exact expert needs one step.

    Actions: `query[SELECT ...]` runs a statement and shows its first 12 rows; `answer[SELECT ...]` runs one and ends
    the episode, unless the statement fails, which is said and may be mended. A statement may stand on several lines and
    between ```sql fences; `Action: query` and `Action Input: SELECT ...` is the same. As tools: `query(sql)`,
    `answer(sql)`.

    Observation: the question and the tables; then a result (its columns, a row a line, `NULL` for nothing) or SQLite's
    error.

    Reward: 1 where the answer is right, else 0, and `success` with it. Right is: on the database, and on a hidden twin
    with the same tables, names and ways to write but other rows, the statement gives the set of rows that the question
    asks for (BIRD's rule: neither order nor repeated rows count; numbers to six digits). The twin's answer differs,
    which is why a guessed or copied result is no answer. `info["reward_parts"]` holds both, `shown` and `twin`.

    End: an answer that runs terminates; `max_steps` (6, 8, 10) truncates.

    No statement can write, leave the database, hang or fill the memory: see `guard`. The expert answers at once, with
    a statement that it knows, which is a shortest plan; the fair expert looks up the columns and values it needs first.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        max_steps: when an episode is cut; by default as above.
        split: where tasks come from if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentSQL-v0.
    """

    name: ClassVar[str] = "sql"
    max_return: ClassVar[float | None] = 1.0
    limits: ClassVar[Mapping[str, int]] = {"easy": 6, "medium": 8, "hard": 10}
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "Answer a question about an SQLite database with one SELECT statement. Each turn you do one action:\n"
            "query[SELECT ...] shows the first 12 rows of a result: look how values are written before you compare "
            "with them; query[SELECT sql FROM sqlite_master] shows the columns of the tables.\n"
            "answer[SELECT ...] gives the statement whose result answers the question, with only the columns asked "
            "for; people and things are named by their name or title. It ends the task. The statement is also run on "
            "other data, so compute the answer, do not copy it.\n"
            "Answer in this form:\nThought: why\nAction: query[SELECT ...] or answer[SELECT ...]"
        ),
        "brief": "Look with query[SELECT ...], then give the statement that answers: answer[SELECT ...].",
        "none": "",
    }

    _looked: list[int]
    _answered = False
    _open: tuple[Puzzle, GuardedDatabase] | None = None
    _listed: tuple[Puzzle, list[str]] | None = None

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Puzzle]:
        """A database and a question that has one answer in it."""
        while True:
            made = layout(rng, split, plain=self.difficulty == "easy")
            filled = rows(made, rng)
            shown = GuardedDatabase(tables(made, filled))
            for _ in range(8):
                question = questions.draw(made, filled, rng, split, self.difficulty)
                answer = _one_answer(shown, question)
                if answer is not None:
                    puzzle = self._opened(Puzzle(made, filled, question, answer), shown)
                    return Draft(question.words, puzzle, question.kind, 1)
            shown.close()

    def _opened(self, puzzle: Puzzle, database: GuardedDatabase) -> Puzzle:
        """Keep the database of a puzzle, most are played as soon as they are drawn, and none but it."""
        self.close()
        self._open = puzzle, database
        return puzzle

    def close(self) -> None:
        """Free the database; it is made again when it is needed."""
        if self._open is not None:
            self._open[1].close()
        self._open = None

    @property
    def database(self) -> GuardedDatabase:
        """The current task's; one is kept at a time."""
        puzzle = self.puzzle
        if self._open is not None and self._open[0] is puzzle:
            return self._open[1]
        database = GuardedDatabase(tables(puzzle.made, puzzle.filled))
        self._opened(puzzle, database)
        return database

    def twin(self) -> tuple[GuardedDatabase, Answer]:
        """Other rows, and the answer for them: another one than here.

        Where none has another answer worth asking for, one that says 0 or nothing will do.

        Raises:
            CatalogueError: none of a thousand draws has another answer, so that the task cannot be judged.
        """
        question, here, plain = self.puzzle.question, self.puzzle.answer, not self.puzzle.question.tie
        draws = [*reversed(range(_TWINS))]
        again = [*draws, *range(_TWINS, _MOST_TWINS)]
        for weak, number in (*((False, each) for each in draws), *((plain, each) for each in again)):
            made, answer = self._redrawn(number)
            if answer != here and (weak or _one_answer(made, question) is not None):
                return made, answer
            made.close()
        raise CatalogueError(f"{self._require_reset().id}: no other rows give another answer")

    def _redrawn(self, number: int) -> tuple[GuardedDatabase, Answer]:
        puzzle = self.puzzle
        filled = rows(puzzle.made, Rng(self._require_reset().id, "twin", number))
        made = GuardedDatabase(tables(puzzle.made, filled))
        return made, _answer(made.run(puzzle.question.sql))

    # ---- the episode ------------------------------------------------------------------------------------------------

    def begin(self, task: Task) -> str:
        """The question and the tables."""
        self._looked, self._answered = [], False
        names, bare = self.puzzle_of(task).made.names, self.difficulty == "hard"
        listed = ", ".join(each.table if bare else f"{each.table}({', '.join(each.columns())})" for each in names)
        return f"{task.instruction}\nTables: {listed}"

    def read(self, text: str) -> Reply:
        """A reply in any form; what is in the brackets may stand on several lines."""
        reply = parse_reply(text)
        if reply.form != "react" or reply.action_input is not None or not _BEGUN.match(reply.action):
            return reply
        lines = text[text.rfind(reply.action) :].partition("\nObservation:")[0]
        whole = lines[: lines.rfind("]") + 1]
        return replace(reply, action=whole) if whole and not reply.action.endswith("]") else reply

    def act(self, reply: Reply) -> Outcome:
        """Look or answer."""
        name, argument = reply.parts
        name = name.strip().casefold()
        if name not in ("query", "answer") or argument is None:
            return Outcome(f"Not an action. {_FORM}", valid=False)
        fenced = _FENCED.fullmatch(argument)
        statement = fenced[1].strip() if fenced else argument
        try:
            result = self.database.run(statement)
            if name == "query":
                self._remember(statement)
                return Outcome(_page(result))
            return self._judged(statement, result)
        except StatementError as error:
            return Outcome(f"Error: {error}.", valid=False)

    def _judged(self, statement: str, result: Result) -> Outcome:
        if result.more:
            raise StatementError(f"an answer has at most {len(result.rows)} rows")
        shown = _answer(result) == self.puzzle.answer
        again = shown and self._right_on_twin(statement)
        self._answered = True
        said = "Right." if again else "Wrong: right here, but not on other data." if shown else "Wrong."
        parts = {"shown": float(shown), "twin": float(again)}
        return Outcome(said, float(again), terminated=True, success=again, parts=parts)

    def _right_on_twin(self, statement: str) -> bool:
        twin, wanted = self.twin()
        try:
            return _answer(twin.run(statement)) == wanted
        except StatementError:
            return False
        finally:
            twin.close()

    def _remember(self, statement: str) -> None:
        looks = self._looks()
        if statement in looks and looks.index(statement) not in self._looked:
            self._looked = sorted([*self._looked, looks.index(statement)])

    def actions(self) -> list[str]:
        """Looks at each table and at the columns that the first observation shows, and answers as plain as these."""
        puzzle = self.puzzle
        if self._listed is None or self._listed[0] is not puzzle:
            self._listed = puzzle, self._plain_actions(puzzle)
        return [] if self._answered else list(self._listed[1])

    def _plain_actions(self, puzzle: Puzzle) -> list[str]:
        listed = [f"query[{_SCHEMA}]"]
        for each in puzzle.made.names:
            listed += [f"query[SELECT * FROM {each.table} LIMIT 3]", f"answer[SELECT COUNT(*) FROM {each.table}]"]
            for column in each.columns() if self.difficulty != "hard" else ():
                listed += [_distinct(each.table, column), f"answer[SELECT {column} FROM {each.table}]"]
        return listed

    def tools(self) -> list[dict[str, Any]]:
        """`query(sql)` and `answer(sql)`."""
        sql = {"sql": text_parameter("One SELECT statement of SQLite.")}
        return [
            function_tool("query", "Run a SELECT statement and see the first 12 rows.", sql),
            function_tool(
                "answer", "Answer with the SELECT statement whose result is asked for; this ends the task.", sql
            ),
        ]

    # ---- forks and the experts --------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Which of the fair expert's looks were taken, and whether an answer was given."""
        return {"looked": self._looked, "answered": self._answered}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Go on with an episode."""
        looked, answered = state["looked"], state["answered"]
        possible = range(len(self._looks(self.puzzle_of(task))))
        if type(looked) is not list or any(type(each) is not int or each not in possible for each in looked):
            raise ValueError(f"no list of looks: {looked!r}")
        if looked != sorted(set(looked)) or type(answered) is not bool:
            raise ValueError(f"looks out of order, or answered={answered!r}")
        self._looked, self._answered = list(looked), answered

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Whether an answer was given."""
        return state["answered"] is True

    def expert(self) -> list[str]:
        """The statement that answers: a shortest plan."""
        return [] if self._answered else [f"answer[{self.puzzle.question.sql}]"]

    def fair_expert(self) -> str | None:
        """Looks at the columns, where they are not shown, and at how the values it compares with are written."""
        left = [look for number, look in enumerate(self._looks()) if number not in self._looked]
        return f"query[{left[0]}]" if left and not self._answered else next(iter(self.expert()), None)

    def _looks(self, puzzle: Puzzle | None = None) -> list[str]:
        columns = [_SCHEMA] if self.difficulty == "hard" else []
        values = (puzzle or self.puzzle).question.looks if self.difficulty != "easy" else ()
        return columns + [f"SELECT DISTINCT {column} FROM {table}" for table, column in values]

    def secrets(self) -> list[str]:
        """The statement that answers; at the start also the names in its result, which any statement may show then."""
        if self._answered:
            return []
        cells = {cell for row in self.puzzle.answer for cell in row} if self.steps == 0 else set[Cell]()
        return [self.puzzle.question.sql, *sorted(cell for cell in cells if isinstance(cell, str))]

    def expert_thought(self, action: str) -> str:
        """Why the fair expert looks."""
        if action == f"query[{_SCHEMA}]":
            return "I need the columns."
        return "I need to see how the values are written." if action.startswith("query[SELECT DISTINCT") else ""


def _one_answer(database: GuardedDatabase, question: Question) -> Answer | None:
    """The answer to a question in this database; None where there are several, or none that is worth asking for."""
    found = database.run(question.sql)
    if not found.rows or len(found.rows) > _MOST_NAMED or found.rows[0] in ((None,), (0,)):
        return None
    first_two = database.run(question.tie).rows if question.tie else ()
    return None if len(first_two) == 2 and first_two[0] == first_two[1] else _answer(found)


def _answer(result: Result) -> Answer:
    """What counts of a result, numbers to six digits."""
    return {tuple(float(f"{cell:.6g}") if isinstance(cell, float) else cell for cell in row) for row in result.rows}


def _page(result: Result) -> str:
    """A result as text."""
    lines = [" | ".join(_cell(column) for column in result.columns[:_SHOWN_COLUMNS])]
    lines += [" | ".join(map(_cell, row[:_SHOWN_COLUMNS])) for row in result.rows[:SHOWN_ROWS]]
    if not result.rows:
        lines.append("(no rows)")
    hidden = len(result.rows) - SHOWN_ROWS
    if hidden > 0:
        lines.append(f"({'at least ' if result.more else ''}{hidden} more rows)")
    return "\n".join(lines)


def _cell(value: Cell) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}..."


def _distinct(table: str, column: str) -> str:
    return f"query[SELECT DISTINCT {column} FROM {table}]"
