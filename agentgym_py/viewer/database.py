"""The SQLite database of an index: its tables, transactions, and a new one in place of a damaged one."""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from agentgym_py.errors import DataError, RunError, WriteError
from agentgym_py.files import inside

_VERSION = 3
"""Version of the tables below; an index of another version is rebuilt."""
_LOCK_TIMEOUT = 60.0
"""Seconds to wait for another process that writes to the index."""
_NO_DAMAGE = (
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_MISUSE,
)  # fmt: skip
"""Errors of SQLite that come from the machine. All others come from the file, because the statements are our own."""
_TABLES = """
CREATE TABLE files (
    file INTEGER PRIMARY KEY, path TEXT UNIQUE, end INTEGER, lines INTEGER, size INTEGER, mtime INTEGER, head TEXT,
    tail TEXT, torn TEXT);
CREATE TABLE broken (file INTEGER, line INTEGER, why TEXT);
CREATE TABLE episodes (
    n INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER, line INTEGER, start INTEGER, size INTEGER, id TEXT, env TEXT,
    task TEXT, task_key TEXT, split TEXT, kind TEXT, difficulty TEXT, agent TEXT, round INTEGER, outcome TEXT,
    failure_kind TEXT, reward REAL, steps INTEGER, invalid INTEGER, tokens INTEGER, instruction TEXT);
CREATE INDEX episodes_task ON episodes (task_key);
CREATE INDEX episodes_file ON episodes (file);
CREATE INDEX episodes_reward ON episodes (reward);
CREATE INDEX episodes_steps ON episodes (steps);
CREATE INDEX episodes_facets ON episodes (
    env, split, round, agent, kind, difficulty, failure_kind, outcome, reward, steps);
"""
_TYPES = {
    "files": {
        **dict.fromkeys(("path", "head", "tail"), "text"),
        **dict.fromkeys(("end", "lines", "size", "mtime"), "integer"),
    },
    "broken": {"file": "integer", "line": "integer", "why": "text"},
    "episodes": {
        **dict.fromkeys(("file", "line", "start", "size", "steps", "invalid", "tokens"), "integer"), "reward": "real",
        **dict.fromkeys(("id", "env", "task", "task_key", "split", "kind", "difficulty", "agent", "outcome"), "text"),
        "instruction": "text",
    },
    "sqlite_sequence": {"name": "text", "seq": "integer"},
}  # fmt: skip
"""Types of the columns that are never null: SQLite lets a stranger write others."""
_MOST_NUMBER = 1 << 53
"""Largest number from which is counted: up to there JavaScript's are exact, and SQLite's have room."""
_COUNTED = {"files": ("end", "lines"), "episodes": ("n",), "sqlite_sequence": ("seq",)}
_MAY_BE_NULL = {"files": {"torn": "text"}, "episodes": {"round": "integer", "failure_kind": "text"}}
"""Types of the columns that may be null."""
_FULL_TEXT = "CREATE VIRTUAL TABLE text USING fts5(words, content='', detail=none, columnsize=0, tokenize=ascii)"
"""Stores only which episode has which word; deleted episodes remain, but their numbers are not used again."""


class IndexDatabase:
    """The database of an index. It may be used from several threads and, at the same time, by other processes.

    Args:
        path: Its file, beside the trajectories; a temporary one takes its place if that cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.rebuilds = 0
        """How often it was rebuilt."""
        self._path = self._usable_path(path)
        self._rebuilding = threading.RLock()
        self._idle: sqlite3.Connection | None = None
        """An unused connection; while it is open, closing another one does not write to the disk."""
        with suppress(DataError):  # a damaged index has been rebuilt
            self._prepare()
        if self._idle is None:
            self._prepare()

    def close(self) -> None:
        """Close it; it cannot be used afterwards."""
        if self._idle:
            self._idle.close()

    @cached_property
    def has_fts(self) -> bool:
        """Whether the words are in a full-text index; else a search reads every row."""
        with self.open() as db:
            return "fts5" in db.execute("SELECT sql FROM sqlite_master WHERE name = 'text'").fetchone()[0]

    def _prepare(self) -> None:
        """Create the tables if they are missing or of another version."""
        with self.open() as db:
            db.execute("PRAGMA journal_mode = WAL")
            with transaction(db):
                tables = _schema(db)
                if not tables:
                    _create_tables(db)
                is_ours = db.execute("PRAGMA user_version").fetchone()[0] == _VERSION and _schema(db) == _own_schema()
                is_ours = is_ours and not _has_other_types(db)
        if not is_ours:  # of another version, or prepared by a stranger: views would run in our queries, types end them
            self._rebuild(self.rebuilds)
        with self.open() as db:
            db.execute("SELECT count(*) FROM files").fetchone()
            self._idle = sqlite3.connect(self._path, check_same_thread=False)
            self._idle.execute("SELECT count(*) FROM files").fetchone()

    def _usable_path(self, path: Path) -> Path:
        """Return a file beside the store, or in a temporary folder if the store's is read-only or has links there."""
        try:
            for end in ("", "-wal", "-shm", "-journal"):
                beside = path.with_name(f"{path.name}{end}")
                if beside.is_symlink() or (beside.exists() and not (beside.is_file() and beside.stat().st_nlink == 1)):
                    raise RunError(f"{beside} is no ordinary file")
            path.with_name(f"{path.name}-journal").unlink(missing_ok=True)  # it may name any file, which SQLite deletes
            with inside(path.parent, path.name).open("ab"):
                return path
        except (OSError, RunError):
            self._scratch = tempfile.TemporaryDirectory(prefix="agentgym-view")
            return Path(self._scratch.name) / path.name

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Open a connection; raises DataError if the index is damaged, and rebuilds it."""
        rebuilds = self.rebuilds
        try:
            with closing(sqlite3.connect(self._path, timeout=_LOCK_TIMEOUT, isolation_level=None)) as db:
                db.row_factory = sqlite3.Row
                db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
                db.execute("PRAGMA synchronous = NORMAL")
                yield db
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter of a message with a damaged name
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                raise WriteError(f"the index {self._path} cannot be written: {error}") from error
            if code in _NO_DAMAGE:
                raise
            self._rebuild(rebuilds)
            raise DataError(f"the index {self._path} was damaged and is being rebuilt: ask again") from error

    def _rebuild(self, rebuilds: int) -> None:
        """Rebuild the index, unless another thread has done so meanwhile."""
        with self._rebuilding:
            if rebuilds != self.rebuilds:
                return
            self.rebuilds += 1
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
                _create_tables(fresh)
                try:  # in place, in a transaction: others may have it open
                    with closing(sqlite3.connect(self._path, timeout=_LOCK_TIMEOUT)) as db:
                        fresh.backup(db, progress=_deadline(time.monotonic() + _LOCK_TIMEOUT))
                    return
                except sqlite3.OperationalError as error:  # a full disk, or a long write of another process
                    if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_READONLY:  # pages of another size
                        raise
                    self.close()
                except (sqlite3.DatabaseError, UnicodeDecodeError):  # the file is no database
                    self.close()
            for end in ("", "-wal", "-shm"):
                Path(f"{self._path}{end}").unlink(missing_ok=True)
            self._prepare()


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Run a transaction during which no other process writes."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # the disk is full: closing the connection undoes the rest
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _deadline(end: float) -> Callable[[int, int, int], None]:
    """Return a backup's progress callback with a deadline; Python alone would wait for a lock forever."""

    def progress(status: int, remaining: int, pages: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > end:
            raise sqlite3.OperationalError("the index is locked by another process")

    return progress


def _schema(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in db.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master"))


def _has_other_types(db: sqlite3.Connection) -> bool:
    """Return whether a value has another type than our statements write, or is beyond any number of theirs."""
    for table, types in _TYPES.items():
        wrong = " OR ".join(f"typeof({name}) != '{kind}'" for name, kind in types.items())
        for name, kind in _MAY_BE_NULL.get(table, {}).items():
            wrong += f" OR typeof({name}) NOT IN ('{kind}', 'null')"
        if table == "episodes":
            wrong += " OR abs(reward) > 1e15"
        wrong += "".join(f" OR {name} NOT BETWEEN 0 AND {_MOST_NUMBER}" for name in _COUNTED.get(table, ()))
        if db.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchone():  # noqa: S608  # fixed names
            return True
    return False


@cache
def _own_schema() -> list[tuple[Any, ...]]:
    """Return what the index of this version holds."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        _create_tables(db)
        return _schema(db)


def _create_tables(db: sqlite3.Connection) -> None:
    for name in ("files", "broken", "episodes", "text"):
        db.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in filter(str.strip, _TABLES.split(";")):
        db.execute(statement)
    try:
        db.execute(_FULL_TEXT)
    except sqlite3.OperationalError:  # SQLite without FTS5
        db.execute("CREATE TABLE text (words TEXT)")
    db.execute(f"PRAGMA user_version = {_VERSION}")
