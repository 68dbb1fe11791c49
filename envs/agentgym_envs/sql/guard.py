"""A SQLite database in memory that anybody may ask anything: no statement can write, leave it, hang or fill the memory.

What SQLite offers against each danger, in the order in which a statement meets it:

- its length, depth, columns and terms: `setlimit`;
- what it grows to while it is prepared: `size.grown_size`;
- what it does: the authorizer lets through reading the database's own tables and a list of functions;
- its time: the progress handler stops it after `MOST_OPS` instructions of SQLite's machine, so that the same statement
  ends in the same way on every machine, and after `MOST_SECONDS` of computing if somebody found instructions that are
  slow (not of waiting: a busy machine stops no honest statement);
- its memory: no value and no row is longer than `LONGEST_VALUE`, and nothing is spilled to a file.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentgym_envs.sql.size import grown_size

Cell = str | int | float | bytes | None
Row = tuple[Cell, ...]

MOST_ROWS = 200
MOST_OPS = 500_000
MOST_SECONDS = 1.0
LONGEST_STATEMENT = 4_000
LONGEST_VALUE = 1_000
MOST_SIZE = 3_000_000
"""Of a statement once everything is put in."""
_OPS_A_CALL = 500
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 * LONGEST_STATEMENT,  # in bytes
    sqlite3.SQLITE_LIMIT_COLUMN: 60,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 20,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 60,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 20_000,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_FUNCTIONS = (
    "abs avg ceil ceiling coalesce concat count cume_dist dense_rank first_value floor glob group_concat ifnull iif "
    "lag last_value lead length like lower ltrim max min mod nth_value ntile nullif percent_rank rank replace "
    "round row_number rtrim sign substr substring sum total trim typeof upper"
)
FUNCTIONS = frozenset(_FUNCTIONS.split())
"""What a statement may call: nothing that draws at random, reads the clock or makes long values of short ones."""
_SCHEMA = frozenset({"sqlite_master", "sqlite_schema"})
_READS = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*[^*]*\*+(?:[^*/][^*]*\*+)*/)*(?:select|with|values)\b",  # one way to read a comment
    re.IGNORECASE,
)


class StatementError(Exception):
    """A statement that was not run to its end; the text says why, for who wrote it."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement gave."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    """At most `MOST_ROWS`."""
    more: bool
    """Whether there were more."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table to be made."""

    name: str
    columns: tuple[str, ...]
    """Each as in CREATE TABLE: `title TEXT`."""
    rows: Sequence[Row]


class GuardedDatabase:
    """The tables in a database of their own, behind the guard."""

    def __init__(self, tables: Iterable[Table]) -> None:
        # One thread at a time: a world may be made in one thread and played in another.
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._tables = {name: name for name in _SCHEMA}
        self._calls, self._until, self._why = 0, 0.0, ""
        self._connection.execute("BEGIN")
        for table in tables:
            self._make(table)
        self._connection.execute("COMMIT")
        self._lock()

    def _make(self, table: Table) -> None:
        self._connection.execute(f"CREATE TABLE {table.name} ({', '.join(table.columns)})")
        marks = ", ".join("?" * len(table.columns))
        self._connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", table.rows)
        self._tables[table.name.lower()] = table.name

    def _lock(self) -> None:
        self._connection.execute("PRAGMA temp_store = MEMORY")
        self._connection.execute("PRAGMA query_only = ON")
        for limit, most in _LIMITS.items():
            self._connection.setlimit(limit, most)
        self._connection.set_authorizer(self._authorize)
        self._connection.set_progress_handler(self._tick, _OPS_A_CALL)

    def run(self, statement: str) -> Result:
        """The result of one statement that only reads; StatementError if there is none."""
        if len(statement) > LONGEST_STATEMENT:
            raise StatementError(f"a statement may have {LONGEST_STATEMENT} characters, this one has {len(statement)}")
        if not _READS.match(statement):
            raise StatementError("write one SELECT statement")
        if grown_size(statement) > MOST_SIZE:
            raise StatementError("the statement is too large once its parts are put in")
        self._calls, self._until, self._why = 0, time.thread_time() + MOST_SECONDS, ""
        try:
            cursor = self._connection.execute(statement)
            columns = tuple(str(column[0]) for column in cursor.description)
            rows = cursor.fetchmany(MOST_ROWS + 1)
            cursor.close()
        except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
            raise StatementError(self._why or self._said(error)) from None
        return Result(columns, tuple(rows[:MOST_ROWS]), len(rows) > MOST_ROWS)

    def close(self) -> None:
        """Free the memory."""
        self._connection.close()

    def _said(self, error: Exception) -> str:
        if isinstance(error, UnicodeError):
            return "the statement has characters that no text can hold"
        said = " ".join(str(error).split())
        if said.startswith("no such table"):
            said += f"; there are {', '.join(name for name in self._tables.values() if name not in _SCHEMA)}"
        return said

    def _authorize(self, action: int, first: str | None, second: str | None, database: str | None, *_: object) -> int:
        self._why = self._why or self._refused(action, str(first), str(second), database)
        return sqlite3.SQLITE_DENY if self._why else sqlite3.SQLITE_OK

    def _refused(self, action: int, first: str, second: str, database: str | None) -> str:
        """Why a part of a statement may not be; empty where it may."""
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return ""
        if action == sqlite3.SQLITE_READ:  # of no database: a common table expression
            return "" if database is None or first.lower() in self._tables else f"no such table: {first}"
        if action == sqlite3.SQLITE_FUNCTION:
            return "" if second.lower() in FUNCTIONS else f"the function {second} is not available here"
        return "only reading is allowed: write one SELECT statement"

    def _tick(self) -> bool:
        self._calls += 1
        if self._calls * _OPS_A_CALL <= MOST_OPS and time.thread_time() <= self._until:
            return False
        self._why = "the statement takes too long; look at fewer rows"
        return True
