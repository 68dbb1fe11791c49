"""A SQLite database in memory for untrusted statements: none can write, leave it, hang or fill the memory.

The guards, in the order in which a statement meets them:

- length, depth, columns and terms: `setlimit`;
- growth while SQLite prepares it: `size.expanded_size`;
- operations: the authorizer allows reading the database's own tables and a list of functions;
- time: the progress handler stops it after `MAX_OPS` instructions of SQLite's virtual machine, which gives the same
  result on every machine; and after `MAX_SECONDS` of CPU time, in case some instructions are slow (waiting does not
  count, so a busy machine stops no honest statement);
- memory: no value and no row is longer than `MAX_VALUE_LENGTH`, and nothing is spilled to a file.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentgym_envs.sql.size import expanded_size

Cell = str | int | float | bytes | None
Row = tuple[Cell, ...]

MAX_ROWS = 200
MAX_OPS = 500_000
MAX_SECONDS = 1.0
MAX_STATEMENT_LENGTH = 4_000
MAX_VALUE_LENGTH = 1_000
MAX_SIZE = 3_000_000
"""Size of a statement after expansion."""
_OPS_PER_CALL = 500
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_VALUE_LENGTH,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 * MAX_STATEMENT_LENGTH,  # in bytes
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
    "instr lag last_value lead length like lower ltrim max min mod nth_value ntile nullif percent_rank rank replace "
    "round row_number rtrim sign substr substring sum total trim typeof upper"
)
FUNCTIONS = frozenset(_FUNCTIONS.split())
"""Functions that a statement may call: none is random, reads the clock or makes long values from short ones."""
_SCHEMA = frozenset({"sqlite_master", "sqlite_schema"})
_READS = re.compile(  # unambiguous, so that backtracking is never slow
    r"(?:\s|--[^\n]*(?:\n|$)|/\*[^*]*\*+(?:[^*/][^*]*\*+)*/)*(?:select|with|values)\b", re.IGNORECASE
)


class StatementError(Exception):
    """A statement did not run to its end; the message is an observation."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a statement."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    """At most `MAX_ROWS`."""
    more: bool
    """Whether there are more."""


@dataclass(frozen=True, slots=True)
class Table:
    """The definition of a table."""

    name: str
    columns: tuple[str, ...]
    """Column definitions as in CREATE TABLE: `title TEXT`."""
    rows: Sequence[Row]


class GuardedDatabase:
    """A database with the given tables, behind the guard."""

    def __init__(self, tables: Iterable[Table]) -> None:
        # Used by one thread at a time; a world may be made in one thread and played in another.
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._tables = {name: name for name in _SCHEMA}
        self._calls, self._deadline, self._why = 0, 0.0, ""
        self._connection.execute("BEGIN")
        for table in tables:
            self._create(table)
        self._connection.execute("COMMIT")
        self._lock()

    def _create(self, table: Table) -> None:
        self._connection.execute(f"CREATE TABLE {table.name} ({', '.join(table.columns)})")
        marks = ", ".join("?" * len(table.columns))
        self._connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", table.rows)
        self._tables[table.name.lower()] = table.name

    def _lock(self) -> None:
        self._connection.execute("PRAGMA temp_store = MEMORY")
        self._connection.execute("PRAGMA query_only = ON")
        for limit, value in _LIMITS.items():
            self._connection.setlimit(limit, value)
        self._connection.set_authorizer(self._authorize)
        self._connection.set_progress_handler(self._tick, _OPS_PER_CALL)

    def run(self, statement: str) -> Result:
        """Return the result of one reading statement; StatementError if it fails."""
        if len(statement) > MAX_STATEMENT_LENGTH:
            raise StatementError(
                f"a statement may have {MAX_STATEMENT_LENGTH} characters, this one has {len(statement)}"
            )
        if not _READS.match(statement):
            raise StatementError("write one SELECT statement")
        if expanded_size(statement) > MAX_SIZE:
            raise StatementError("the statement is too large once its parts are put in")
        self._calls, self._deadline, self._why = 0, time.thread_time() + MAX_SECONDS, ""
        try:
            cursor = self._connection.execute(statement)
            columns = tuple(str(column[0]) for column in cursor.description)
            rows = cursor.fetchmany(MAX_ROWS + 1)
            cursor.close()
        except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
            raise StatementError(self._why or self._message(error)) from None
        return Result(columns, tuple(rows[:MAX_ROWS]), len(rows) > MAX_ROWS)

    def close(self) -> None:
        """Free the memory."""
        self._connection.close()

    def _message(self, error: Exception) -> str:
        if isinstance(error, UnicodeError):
            return "the statement has characters that no text can hold"
        message = " ".join(str(error).split())
        if message.startswith("no such table"):
            message += f"; there are {', '.join(name for name in self._tables.values() if name not in _SCHEMA)}"
        return message

    def _authorize(self, action: int, first: str | None, second: str | None, database: str | None, *_: object) -> int:
        self._why = self._why or self._denial(action, str(first), str(second), database)
        return sqlite3.SQLITE_DENY if self._why else sqlite3.SQLITE_OK

    def _denial(self, action: int, first: str, second: str, database: str | None) -> str:
        """Why a part of a statement is not allowed; empty if it is."""
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return ""
        if action == sqlite3.SQLITE_READ:  # a common table expression has no database
            return "" if database is None or first.lower() in self._tables else f"no such table: {first}"
        if action == sqlite3.SQLITE_FUNCTION:
            return "" if second.lower() in FUNCTIONS else f"the function {second} is not available here"
        if first in _SCHEMA and action == sqlite3.SQLITE_UPDATE:  # how SQLite begins to open a virtual table
            return (
                "only the database's own tables are there: SELECT sql FROM sqlite_master shows them and their columns"
            )
        return "only reading is allowed: write one SELECT statement"

    def _tick(self) -> bool:
        self._calls += 1
        if self._calls * _OPS_PER_CALL <= MAX_OPS and time.thread_time() <= self._deadline:
            return False
        self._why = "the statement takes too long; look at fewer rows"
        return True
