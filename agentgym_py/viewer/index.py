"""An SQLite index beside trajectory files: where each episode begins, what lists filter by, the words of its text.

It is made once and then only brought up to date. A file that has grown is read on from where the last look ended; one
that was rewritten (it shrank, its first or last bytes known so far are others, or it changed without growing) is read
again. A broken line is left out and remembered with the reason. A torn last line is looked at again when it grows.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from agentgym_py.env.registration import short_name
from agentgym_py.errors import ConfigError, DataError, UnknownNameError
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.viewer.source import Source, short_digest

Outcome = Literal["success", "failure", "error"]
"""How an episode ended; `error` is an infrastructure failure, which is no evidence."""
Order = Literal["file", "best", "worst", "longest", "shortest"]
"""As they stand in the files; by return; by number of steps."""

_VERSION = 1
"""Version of the tables below; an index of another version is rebuilt."""
_BATCH = 1 << 20
"""Bytes that are indexed in one transaction, at least a line."""
_PATIENCE = 60.0
"""Seconds to wait for another process that writes into the index."""
_EDGE = 4096
"""Bytes at either end of what is indexed by which a file that has grown is known."""
_ROUND = re.compile(r"(?:^|/)rounds/(\d{1,9})/")
_WORD = re.compile(r"[^\W_]+")
_ORDERS: dict[Order, str] = {
    "file": "n", "best": "reward DESC, n", "worst": "reward, n", "longest": "steps DESC, n", "shortest": "steps, n",
}  # fmt: skip
_TABLES = """
CREATE TABLE files (
    file INTEGER PRIMARY KEY, path TEXT UNIQUE, end INTEGER, lines INTEGER, size INTEGER, mtime INTEGER, head TEXT,
    tail TEXT, torn TEXT);
CREATE TABLE broken (file INTEGER, line INTEGER, why TEXT);
CREATE TABLE episodes (
    n INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER, line INTEGER, start INTEGER, size INTEGER, id TEXT, env TEXT,
    task TEXT, task_key TEXT, split TEXT, kind TEXT, difficulty TEXT, agent TEXT, round INTEGER, outcome TEXT,
    reward REAL, steps INTEGER, invalid INTEGER, tokens INTEGER, instruction TEXT);
CREATE INDEX episodes_task ON episodes (task_key);
CREATE INDEX episodes_file ON episodes (file);
CREATE INDEX episodes_reward ON episodes (reward);
CREATE INDEX episodes_steps ON episodes (steps);
CREATE INDEX episodes_facets ON episodes (env, split, round, agent, kind, difficulty, outcome, reward, steps);
"""
_FACETS = ("env", "split", "round", "agent", "kind", "difficulty")
_FULL_TEXT = "CREATE VIRTUAL TABLE text USING fts5(words, content='', detail=none, columnsize=0, tokenize=ascii)"
"""Holds only which episode has which word; what was deleted stays there, under a number that is not used again."""
_COLUMNS = (
    "n, path, line, id, env, task, split, kind, difficulty, agent, round, outcome, reward, steps, invalid, tokens, "
    "instruction"
)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which episodes are listed; None and the empty text let all pass."""

    env: str | None = None
    """Short name of the world."""
    split: str | None = None
    round: int | None = None
    agent: str | None = None
    kind: str | None = None
    difficulty: str | None = None
    outcome: Outcome | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    min_steps: int | None = None
    max_steps: int | None = None
    text: str = ""
    """Words; an episode has, for each, one that begins so, in its task, its texts or its actions."""

    def __post_init__(self) -> None:
        if self.outcome is not None and self.outcome not in get_args(Outcome):
            raise ConfigError(f"outcome must be one of {', '.join(get_args(Outcome))}, not {self.outcome!r}")


@dataclass(frozen=True, slots=True)
class Broken:
    """A line that is left out."""

    path: str
    line: int
    why: str
    torn: bool
    """The last line of a file that is being written, or whose writing was cut off."""


def words(text: str) -> list[str]:
    """The words that a search knows: runs of letters and digits of any script, in one case."""
    return _WORD.findall(text.casefold())


def outcome_of(trajectory: Trajectory) -> Outcome:
    """How it ended."""
    return "error" if not trajectory.is_evidence else "success" if trajectory.success else "failure"


class Index:
    """The index of a source. Every call may come from another thread; other processes may read and update it too."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.done, self.total = 0, 0
        """Bytes of the files that `update` has come to, of how many."""
        self._db = self._place()
        self._renewing, self._renewed = threading.RLock(), 0
        self._held: sqlite3.Connection | None = None
        """Nothing goes through it; while it is open, closing another connection writes nothing to the disk."""
        with suppress(DataError):  # it was no database, or damaged: there is a new one now
            self._prepare()
        if self._held is None:
            self._prepare()

    def close(self) -> None:
        """Let go of the index; nothing may be asked afterwards."""
        if self._held:
            self._held.close()

    def update(self) -> None:
        """Bring the index up to date with the files; of unchanged ones only size and time are looked at."""
        paths = self.source.files()
        sizes = [path.stat().st_size for path in paths]
        begun, self.total = 0, sum(sizes)
        with self._open() as db:
            known = {row["path"]: row for row in db.execute("SELECT * FROM files")}
            for name in known.keys() - {self.name_of(path) for path in paths}:
                with _written(db):
                    _forget(db, known[name]["file"])
            for path, size in zip(paths, sizes, strict=True):
                self.done = begun
                row = known.get(self.name_of(path))
                if row is None or not _unchanged(row, path.stat()):
                    while (end := self._batch(db, path)) is not None:
                        self.done = begun + end
                begun += size
        self.done = self.total

    def look_at(self, path: Path) -> None:
        """Bring the index up to date with one file."""
        with self._open() as db:
            while self._batch(db, path) is not None:
                pass

    def name_of(self, path: Path) -> str:
        """A file's path within the source, with slashes; bytes that are no UTF-8 are halves of surrogate pairs."""
        return path.relative_to(self.source.root).as_posix()

    def _batch(self, db: sqlite3.Connection, path: Path) -> int | None:
        """Read on in a file; where it came to, or None at the end. A transaction: another process may do the same."""
        name, stat = self.name_of(path), path.stat()
        with _written(db), path.open("rb") as file:
            row = db.execute("SELECT * FROM files WHERE path = CAST(? AS TEXT)", (_bytes(name),)).fetchone()
            if row is not None and _unchanged(row, stat):
                return None
            if row is not None and not _continues(file, row, stat.st_size):
                _forget(db, row["file"])
                row = None
            if row is None:
                db.execute("INSERT INTO files (path, end, lines) VALUES (CAST(? AS TEXT), 0, 0)", (_bytes(name),))
                row = db.execute("SELECT * FROM files WHERE path = CAST(? AS TEXT)", (_bytes(name),)).fetchone()
            end, lines, torn = _read_on(db, file, row)
            over = torn is not None or not file.read(1)
            head, tail = _edges(file, end)
            db.execute(
                "UPDATE files SET end = ?, lines = ?, head = ?, tail = ?, torn = ?, size = ?, mtime = ? WHERE file = ?",
                (end, lines, head, tail, torn, stat.st_size if over else None, stat.st_mtime_ns, row["file"]),
            )
            return None if over else end

    # ---- looking ----------------------------------------------------------------------------------------------------

    def find(
        self, wanted: Filter | None = None, order: Order = "file", offset: int = 0, limit: int = 100
    ) -> tuple[int, list[dict[str, Any]]]:
        """How many episodes pass, and of them `limit` rows from `offset` on."""
        if order not in _ORDERS:
            raise ConfigError(f"order must be one of {', '.join(_ORDERS)}, not {order!r}")
        where, values = self._where(wanted or Filter())
        with self._open() as db:
            total = db.execute(f"SELECT count(*) FROM episodes WHERE {where}", values).fetchone()[0]  # noqa: S608  # fixed parts, values bound
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM (SELECT * FROM episodes WHERE {where} ORDER BY {_ORDERS[order]} LIMIT ? "  # noqa: S608  # the same
                f"OFFSET ?) AS episodes JOIN files USING (file) ORDER BY {_ORDERS[order]}",
                (*values, limit, offset),
            )
            return total, [dict(row) for row in rows]

    def row(self, n: int) -> dict[str, Any]:
        """The row of one episode; UnknownNameError where there is none."""
        return self._rows("n = ?", n)[0]

    def number_of(self, path: str, id: str) -> int:
        """The number of an episode by file and id, the last one of several; UnknownNameError where there is none."""
        with self._open() as db:
            sql = "SELECT max(n) FROM episodes JOIN files USING (file) WHERE path = CAST(? AS TEXT) AND id = ?"
            number = db.execute(sql, (_bytes(path), id)).fetchone()[0]
        if number is None:
            raise UnknownNameError(f"No episode {id!r} of {path} is indexed.")
        return int(number)

    def siblings(self, n: int) -> list[dict[str, Any]]:
        """The rows of all episodes of the same task, this one included."""
        return self._rows("task_key = (SELECT task_key FROM episodes WHERE n = ?)", n)

    def _rows(self, where: str, n: int) -> list[dict[str, Any]]:
        sql = f"SELECT {_COLUMNS} FROM episodes JOIN files USING (file) WHERE {where} ORDER BY n"  # noqa: S608  # fixed parts
        with self._open() as db:
            rows = [dict(row) for row in db.execute(sql, (n,))]
        if not rows:
            raise UnknownNameError(f"No episode {n} is indexed.")
        return rows

    def read(self, n: int) -> Trajectory:
        """The episode itself, from its file.

        Raises:
            UnknownNameError: there is none of that number.
            DataError: the file was changed since it was indexed.
        """
        sql = "SELECT path, start, episodes.size, id FROM episodes JOIN files USING (file) WHERE n = ?"
        with self._open() as db:
            row = db.execute(sql, (n,)).fetchone()
        if row is None:
            raise UnknownNameError(f"No episode {n} is indexed.")
        with (self.source.root / row["path"]).open("rb") as file:
            file.seek(row["start"])
            trajectory = store.from_line(file.read(row["size"]))
        if _text(trajectory.id) != row["id"]:
            raise DataError(f"{row['path']} was changed since it was indexed")
        return trajectory

    def facets(self) -> dict[str, list[tuple[Any, int]]]:
        """Of each field to choose from its values and how many episodes have them."""
        counts: dict[str, Counter[Any]] = {name: Counter() for name in _FACETS}
        names = ", ".join(_FACETS)
        with self._open() as db:
            for *values, number in db.execute(f"SELECT {names}, count(*) FROM episodes GROUP BY {names}"):  # noqa: S608  # fixed names
                for name, value in zip(_FACETS, values, strict=True):
                    counts[name][value] += number
        return {name: sorted((k, n) for k, n in found.items() if k is not None) for name, found in counts.items()}

    def broken(self) -> list[Broken]:
        """The lines that were left out."""
        with self._open() as db:
            rows = db.execute(
                "SELECT path, line, why, 0 FROM broken JOIN files USING (file) UNION ALL "
                "SELECT path, lines + 1, torn, 1 FROM files WHERE torn IS NOT NULL ORDER BY 4, path, 2"
            )
            return [Broken(path, line, why, bool(torn)) for path, line, why, torn in rows]

    def _where(self, wanted: Filter) -> tuple[str, list[Any]]:
        parts, values = ["1"], list[Any]()
        for name in (*_FACETS, "outcome"):
            if (value := getattr(wanted, name)) is not None:
                parts.append(f"{name} = ?")
                values.append(value)
        for name in ("reward", "steps"):
            for end, sign in (("min", ">="), ("max", "<=")):
                if (value := getattr(wanted, f"{end}_{name}")) is not None:
                    parts.append(f"{name} {sign} ?")
                    values.append(value)
        for word in words(_text(wanted.text)):
            known = "text MATCH ?" if self._searches else "words LIKE ?"
            parts.append(f"n IN (SELECT rowid FROM text WHERE {known})")  # noqa: S608  # fixed parts
            values.append(f'"{word}"*' if self._searches else f"% {word}%")
        return " AND ".join(parts), values

    # ---- the database -----------------------------------------------------------------------------------------------

    @cached_property
    def _searches(self) -> bool:
        """Whether the words are in a full-text index; else every row is looked at."""
        with self._open() as db:
            return "fts5" in db.execute("SELECT sql FROM sqlite_master WHERE name = 'text'").fetchone()[0]

    def _prepare(self) -> None:
        """Make the tables where they are not there, or those of another version."""
        with self._open() as db:
            db.execute("PRAGMA journal_mode = WAL")
            with _written(db):
                if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                    _make(db)
            db.execute("SELECT count(*) FROM files").fetchone()
            self._held = sqlite3.connect(self._db, check_same_thread=False)
            self._held.execute("SELECT count(*) FROM files").fetchone()

    def _place(self) -> Path:
        """Beside the store, or where nothing can be written there, in a folder that ends with this process."""
        path = self.source.index
        try:
            with path.open("ab"):
                return path
        except OSError:
            self._scratch = tempfile.TemporaryDirectory(prefix="agentgym-view")
            return Path(self._scratch.name) / path.name

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection; DataError if the index is damaged, which is then rebuilt."""
        known = self._renewed
        try:
            with closing(sqlite3.connect(self._db, timeout=_PATIENCE, isolation_level=None)) as db:
                db.row_factory = sqlite3.Row
                db.text_factory = lambda held: held.decode("utf-8", "surrogateescape")
                db.execute("PRAGMA synchronous = NORMAL")
                yield db
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise
            self._renew(known)
            raise DataError(f"the index {self._db} was damaged and is being rebuilt: ask again") from error

    def _renew(self, known: int) -> None:
        """Rebuild the index unless that was done since: it is only a copy of the files."""
        with self._renewing:
            if known != self._renewed:
                return
            self._renewed += 1
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
                _make(fresh)
                try:  # in its place, as a transaction: others may have it open
                    with closing(sqlite3.connect(self._db, timeout=_PATIENCE)) as db:
                        fresh.backup(db, progress=_until(time.monotonic() + _PATIENCE))
                    return
                except sqlite3.OperationalError:  # a full disk, or another process writes for long
                    raise
                except sqlite3.DatabaseError:  # it is no database at all
                    self.close()
            for end in ("", "-wal", "-shm"):
                Path(f"{self._db}{end}").unlink(missing_ok=True)
            self._prepare()


@contextmanager
def _written(db: sqlite3.Connection) -> Iterator[None]:
    """A transaction that no other process writes beside."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _until(end: float) -> Callable[[int, int, int], None]:
    """A backup's progress that waits no longer for others; Python itself would wait without end."""

    def progress(status: int, left: int, pages: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > end:
            raise sqlite3.OperationalError("the index is locked by another process")

    return progress


def _make(db: sqlite3.Connection) -> None:
    for name in ("files", "broken", "episodes", "text"):
        db.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in filter(str.strip, _TABLES.split(";")):
        db.execute(statement)
    try:
        db.execute(_FULL_TEXT)
    except sqlite3.OperationalError:  # an SQLite without it
        db.execute("CREATE TABLE text (words TEXT)")
    db.execute(f"PRAGMA user_version = {_VERSION}")


def _forget(db: sqlite3.Connection, file: int) -> None:
    for table in ("episodes", "broken", "files"):
        db.execute(f"DELETE FROM {table} WHERE file = ?", (file,))  # noqa: S608  # fixed names


def _unchanged(row: sqlite3.Row, stat: os.stat_result) -> bool:
    return (row["size"], row["mtime"]) == (stat.st_size, stat.st_mtime_ns)


def _continues(file: Any, row: sqlite3.Row, size: int) -> bool:
    """Whether what is indexed still stands there, and what is new stands behind it, in lines of its own."""
    end = row["end"]
    if size < end or size == row["size"]:  # it was changed, and did not grow
        return False
    file.seek(max(end - 1, 0))
    if end and b"\n" not in file.read(2):  # the last line had no end, and continues now
        return False
    return bool(_edges(file, end) == (row["head"], row["tail"]))


def _edges(file: Any, end: int) -> tuple[str, str]:
    """Digests of the first and the last bytes before `end`."""
    file.seek(0)
    head = file.read(min(_EDGE, end))
    file.seek(max(end - _EDGE, 0))
    return hashlib.sha256(head).hexdigest(), hashlib.sha256(file.read(min(_EDGE, end))).hexdigest()


def _read_on(db: sqlite3.Connection, file: Any, row: sqlite3.Row) -> tuple[int, int, str | None]:
    """Index some lines from where the last look ended; the new end, the lines before it, and why the last is torn."""
    end, lines = row["end"], row["lines"]
    file.seek(end)
    while end - row["end"] < _BATCH and (raw := file.readline()):
        whole = raw.endswith(b"\n")
        if raw.strip():
            try:
                trajectory = store.from_line(raw)
            except DataError as error:
                if not whole:
                    return end, lines, _text(str(error))
                db.execute("INSERT INTO broken VALUES (?, ?, ?)", (row["file"], lines + 1, _text(str(error))))
            else:
                _insert(db, trajectory, row, lines + 1, end, len(raw))
        end += len(raw)
        lines += whole
    return end, lines, None


def _insert(db: sqlite3.Connection, t: Trajectory, file: sqlite3.Row, line: int, start: int, size: int) -> None:
    made, steps, found = t.provenance, t.steps, _ROUND.search(file["path"])
    row = {
        "file": file["file"], "line": line, "start": start, "size": size, "id": t.id, "env": short_name(made.env_id),
        "task": t.task_id, "task_key": short_digest("\n".join(made.task_key)), "split": t.split, "kind": t.kind,
        "difficulty": t.difficulty, "agent": made.agent, "round": int(found[1]) if found else None,
        "outcome": outcome_of(t), "reward": t.reward, "steps": len(steps), "instruction": t.instruction,
        "invalid": sum(not step.valid for step in steps), "tokens": any(step.tokens for step in steps),
    }  # fmt: skip
    added = db.execute(
        f"INSERT INTO episodes ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",  # noqa: S608  # fixed names
        [_text(value) if isinstance(value, str) else value for value in row.values()],
    )
    known = sorted(set(words(_text(" ".join(dict.fromkeys(_texts(t)))))))
    db.execute("INSERT INTO text (rowid, words) VALUES (?, ?)", (added.lastrowid, f" {' '.join(known)}"))


def _texts(t: Trajectory) -> Iterator[str]:
    """All that a search looks in."""
    yield from (t.task_id, t.instruction, t.final_observation, t.error or "")
    for step in t.steps:
        yield from (step.observation, step.reply)


def _text(text: str) -> str:
    """What SQLite can hold: without halves of surrogate pairs, which a model may write."""
    return text.encode("utf-8", "replace").decode()


def _bytes(name: str) -> bytes:
    """A path for `CAST(? AS TEXT)`: it need not be UTF-8, and SQLite takes only bytes as they are."""
    return name.encode("utf-8", "surrogateescape")
