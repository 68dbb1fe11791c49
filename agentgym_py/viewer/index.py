"""An SQLite index beside trajectory files: the place of each episode, the fields to filter by, the words of its text.

The index is created once and then updated. If a file has grown, reading continues at the end of the last update; if it
was rewritten (it shrank, its first or last indexed bytes changed, or it changed without growing), it is read again. A
broken line is left out and listed with the reason. A torn last line is read again when the file grows.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from agentgym_py.env.registration import short_name
from agentgym_py.errors import ConfigError, DataError, RunError, UnknownNameError
from agentgym_py.evaluation.failures import failure_kind
from agentgym_py.files import MOST_BYTES, inside
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.viewer.database import IndexDatabase, transaction
from agentgym_py.viewer.source import Source, short_digest

Outcome = Literal["success", "failure", "error"]
"""How an episode ended; `error` is an infrastructure failure."""
Order = Literal["file", "best", "worst", "longest", "shortest"]
"""In the order of the files, by return, or by number of steps."""

_BATCH_BYTES = 1 << 20
"""Bytes indexed per transaction, at least a line."""
_EDGE = 4096
"""Bytes at either end of the indexed part that identify a file that has grown."""
_ROUND = re.compile(r"(?:^|/)rounds/(\d{1,9})/")
_WORD = re.compile(r"[^\W_]+")
_ORDERS: dict[Order, str] = {
    "file": "n", "best": "reward DESC, n", "worst": "reward, n", "longest": "steps DESC, n", "shortest": "steps, n",
}  # fmt: skip
_FACETS = ("env", "split", "round", "agent", "kind", "difficulty", "failure_kind")
_COLUMNS = (
    "n, path, line, id, env, task, split, kind, difficulty, agent, round, outcome, failure_kind, reward, steps, "
    "invalid, tokens, instruction"
)


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of episodes; None and the empty text let all pass."""

    env: str | None = None
    """Short name of the env."""
    split: str | None = None
    round: int | None = None
    agent: str | None = None
    kind: str | None = None
    difficulty: str | None = None
    failure_kind: str | None = None
    """How it failed, one of `agentgym_py.evaluation.failures.FAILURES`."""
    outcome: Outcome | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    min_steps: int | None = None
    max_steps: int | None = None
    text: str = ""
    """Words; each must begin a word of the episode's task, texts or actions."""

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
    """Whether it is the incomplete last line of a file."""


def words(text: str) -> list[str]:
    """Split a text into searchable words: case-folded runs of letters and digits of any script."""
    return _WORD.findall(text.casefold())


def outcome_of(trajectory: Trajectory) -> Outcome:
    """Return how an episode ended."""
    return "error" if not trajectory.is_evidence else "success" if trajectory.success else "failure"


class Index:
    """The index of a source. It may be used from several threads and, at the same time, by other processes."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.done, self.total = 0, 0
        """Bytes of the files that `update` has read, and their total."""
        self._database = IndexDatabase(source.index)

    def close(self) -> None:
        """Close the index, which cannot be used afterwards."""
        self._database.close()

    def update(self) -> None:
        """Update the index from the files; for unchanged ones only size and time are read.

        Raises:
            DataError: the index is damaged again, just after it was rebuilt.
        """
        rebuilds = self._database.rebuilds
        try:
            self._update()
        except DataError:
            if self._database.rebuilds == rebuilds:
                raise
            self._update()

    def _update(self) -> None:
        paths = self.source.files()
        sizes = [path.stat().st_size for path in paths]
        start, self.total = 0, sum(sizes)
        with self._database.open() as db:
            indexed = {row["path"]: row for row in db.execute("SELECT * FROM files")}
            for name in indexed.keys() - {self._relative(path) for path in paths}:
                with transaction(db):
                    _delete_file(db, indexed[name]["file"])
            for path, size in zip(paths, sizes, strict=True):
                self.done = start
                row = indexed.get(self._relative(path))
                if row is None or not _unchanged(row, path.stat()):
                    while (end := self._batch(db, path)) is not None:
                        self.done = start + end
                start += size
        self.done = self.total

    def update_file(self, path: Path) -> None:
        """Update the index from one file."""
        with self._database.open() as db:
            while self._batch(db, path) is not None:
                pass

    def _relative(self, path: Path) -> str:
        """Return a path within the source, with slashes; bytes that are no UTF-8 are lone surrogates."""
        return path.relative_to(self.source.root).as_posix()

    def _batch(self, db: sqlite3.Connection, path: Path) -> int | None:
        """Index the next part of a file in a transaction; return where it ends, or None at the end of the file."""
        name, stat = self._relative(path), path.stat()
        with transaction(db), path.open("rb") as file:
            row = db.execute("SELECT * FROM files WHERE path = CAST(? AS TEXT)", (_path_bytes(name),)).fetchone()
            if row is not None and _unchanged(row, stat):
                return None
            if row is not None and not _continues(file, row, stat.st_size):
                _delete_file(db, row["file"])
                row = None
            if row is None:
                db.execute("INSERT INTO files (path, end, lines) VALUES (CAST(? AS TEXT), 0, 0)", (_path_bytes(name),))
                row = db.execute("SELECT * FROM files WHERE path = CAST(? AS TEXT)", (_path_bytes(name),)).fetchone()
            end, lines, torn = _index_lines(db, file, row)
            complete = torn is not None or not file.read(1)
            head, tail = _edges(file, end)
            db.execute(
                "UPDATE files SET end = ?, lines = ?, head = ?, tail = ?, torn = ?, size = ?, mtime = ? WHERE file = ?",
                (end, lines, head, tail, torn, stat.st_size if complete else None, stat.st_mtime_ns, row["file"]),
            )
            return None if complete else end

    # ---- queries ----------------------------------------------------------------------------------------------------

    def find(
        self, query: Filter | None = None, order: Order = "file", offset: int = 0, limit: int = 100
    ) -> tuple[int, list[dict[str, Any]]]:
        """Return the number of matching episodes, and `limit` of their rows from `offset` on."""
        if order not in _ORDERS:
            raise ConfigError(f"order must be one of {', '.join(_ORDERS)}, not {order!r}")
        where, values = self._where(query or Filter())
        with self._database.open() as db:
            total = db.execute(f"SELECT count(*) FROM episodes WHERE {where}", values).fetchone()[0]  # noqa: S608  # fixed parts, values bound
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM (SELECT * FROM episodes WHERE {where} ORDER BY {_ORDERS[order]} LIMIT ? "  # noqa: S608  # the same
                f"OFFSET ?) AS episodes JOIN files USING (file) ORDER BY {_ORDERS[order]}",
                (*values, limit, offset),
            )
            return total, [dict(row) for row in rows]

    def neighbours(self, n: int, query: Filter, order: Order = "file") -> tuple[int | None, int | None] | None:
        """Return the matching episodes before and after one; None if it does not match."""
        where, values = self._where(query)
        window = f"OVER (ORDER BY {_ORDERS[order]})"
        sql = f"SELECT n, lag(n) {window} AS previous, lead(n) {window} AS next FROM episodes WHERE {where}"  # noqa: S608  # the same
        with self._database.open() as db:
            found = db.execute(f"SELECT previous, next FROM ({sql}) WHERE n = ?", (*values, n)).fetchone()  # noqa: S608  # the same
        return None if found is None else (found["previous"], found["next"])

    def row(self, n: int) -> dict[str, Any]:
        """Return the row of an episode; raises UnknownNameError if there is none."""
        return self._rows("n = ?", n)[0]

    def find_number(self, path: str, id: str) -> int:
        """Return the number of the last episode with a file and id; raises UnknownNameError if there is none."""
        with self._database.open() as db:
            sql = "SELECT max(n) FROM episodes JOIN files USING (file) WHERE path = CAST(? AS TEXT) AND id = ?"
            number = db.execute(sql, (_path_bytes(path), id)).fetchone()[0]
        if number is None:
            raise UnknownNameError(f"No episode {id!r} of {path} is indexed.")
        return int(number)

    def siblings(self, n: int) -> list[dict[str, Any]]:
        """Return the rows of all episodes of the same task, including this one."""
        return self._rows("task_key = (SELECT task_key FROM episodes WHERE n = ?)", n)

    def _rows(self, where: str, n: int) -> list[dict[str, Any]]:
        sql = f"SELECT {_COLUMNS} FROM episodes JOIN files USING (file) WHERE {where} ORDER BY n"  # noqa: S608  # fixed parts
        with self._database.open() as db:
            rows = [dict(row) for row in db.execute(sql, (n,))]
        if not rows:
            raise UnknownNameError(f"No episode {n} is indexed.")
        return rows

    def read(self, n: int) -> Trajectory:
        """Read an episode from its file.

        Raises:
            UnknownNameError: no episode has this number.
            DataError: the file has changed since it was indexed, or the index says something else than the file.
        """
        sql = "SELECT path, episodes.* FROM episodes JOIN files USING (file) WHERE n = ?"
        with self._database.open() as db:
            row = db.execute(sql, (n,)).fetchone()
        if row is None:
            raise UnknownNameError(f"No episode {n} is indexed.")
        changed = DataError(f"{row['path']} was changed since it was indexed")
        try:
            if row["start"] < 0 or not 0 <= row["size"] <= MOST_BYTES:
                raise changed
            with inside(self.source.root, row["path"]).open("rb") as file:
                file.seek(row["start"])
                trajectory = store.from_line(file.read(row["size"]))
        except (RunError, TypeError, ValueError, OverflowError) as error:  # an index that came with the files may lie
            raise changed from error
        if any(row[name] != value for name, value in _fields_of(trajectory, row["path"]).items()):
            raise changed
        return trajectory

    def facets(self) -> dict[str, list[tuple[Any, int]]]:
        """Return the values of each field to filter by, with their numbers of episodes."""
        counts: dict[str, Counter[Any]] = {name: Counter() for name in _FACETS}
        names = ", ".join(_FACETS)
        with self._database.open() as db:
            for *values, number in db.execute(f"SELECT {names}, count(*) FROM episodes GROUP BY {names}"):  # noqa: S608  # fixed names
                for name, value in zip(_FACETS, values, strict=True):
                    counts[name][value] += number
        return {name: sorted((k, n) for k, n in values.items() if k is not None) for name, values in counts.items()}

    def broken(self) -> list[Broken]:
        """Return the lines that were left out."""
        with self._database.open() as db:
            rows = db.execute(
                "SELECT path, line, why, 0 FROM broken JOIN files USING (file) UNION ALL "
                "SELECT path, lines + 1, torn, 1 FROM files WHERE torn IS NOT NULL ORDER BY 4, path, 2"
            )
            return [Broken(path, line, why, bool(torn)) for path, line, why, torn in rows]

    def _where(self, query: Filter) -> tuple[str, list[Any]]:
        parts, values = ["1"], list[Any]()
        for name in (*_FACETS, "outcome"):
            if (value := getattr(query, name)) is not None:
                parts.append(f"{name} = ?")
                values.append(value)
        for name in ("reward", "steps"):
            for end, sign in (("min", ">="), ("max", "<=")):
                if (value := getattr(query, f"{end}_{name}")) is not None:
                    parts.append(f"{name} {sign} ?")
                    values.append(value)
        for word in words(_text(query.text)):
            match = "text MATCH ?" if self._database.has_fts else "words LIKE ?"
            parts.append(f"n IN (SELECT rowid FROM text WHERE {match})")  # noqa: S608  # fixed parts
            values.append(f'"{word}"*' if self._database.has_fts else f"% {word}%")
        return " AND ".join(parts), values


def _delete_file(db: sqlite3.Connection, file: int) -> None:
    for table in ("episodes", "broken", "files"):
        db.execute(f"DELETE FROM {table} WHERE file = ?", (file,))  # noqa: S608  # fixed names


def _unchanged(row: sqlite3.Row, stat: os.stat_result) -> bool:
    return (row["size"], row["mtime"]) == (stat.st_size, stat.st_mtime_ns)


def _continues(file: Any, row: sqlite3.Row, size: int) -> bool:
    """Tell whether the indexed part is the same, and the new part follows it in lines of its own."""
    end = row["end"]
    if size < end or size == row["size"]:  # changed without growing
        return False
    file.seek(max(end - 1, 0))
    if end and b"\n" not in file.read(2):  # the last line was incomplete, and continues now
        return False
    return bool(_edges(file, end) == (row["head"], row["tail"]))


def _edges(file: Any, end: int) -> tuple[str, str]:
    """Return digests of the first and the last bytes before `end`."""
    file.seek(0)
    head = file.read(min(_EDGE, end))
    file.seek(max(end - _EDGE, 0))
    return hashlib.sha256(head).hexdigest(), hashlib.sha256(file.read(min(_EDGE, end))).hexdigest()


def _index_lines(db: sqlite3.Connection, file: Any, row: sqlite3.Row) -> tuple[int, int, str | None]:
    """Index lines from the last end on; return the new end, its number of lines, and why the last line is torn."""
    end, lines = row["end"], row["lines"]
    file.seek(end)
    while end - row["end"] < _BATCH_BYTES and (raw := file.readline(MOST_BYTES + 1)):
        complete = raw.endswith(b"\n")
        if raw.strip():
            try:
                trajectory = store.from_line(raw)
            except DataError as error:
                if not complete:
                    return end, lines, _text(str(error))
                db.execute("INSERT INTO broken VALUES (?, ?, ?)", (row["file"], lines + 1, _text(str(error))))
            else:
                _insert(db, trajectory, row, lines + 1, end, len(raw))
        end += len(raw)
        lines += complete
    return end, lines, None


def _insert(db: sqlite3.Connection, t: Trajectory, file: sqlite3.Row, line: int, start: int, size: int) -> None:
    row = {"file": file["file"], "line": line, "start": start, "size": size, **_fields_of(t, file["path"])}
    added = db.execute(
        f"INSERT INTO episodes ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",  # noqa: S608  # fixed names
        [*row.values()],
    )
    vocabulary = sorted(set(words(_text(" ".join(dict.fromkeys(_texts(t)))))))
    db.execute("INSERT INTO text (rowid, words) VALUES (?, ?)", (added.lastrowid, f" {' '.join(vocabulary)}"))


def _fields_of(t: Trajectory, path: str) -> dict[str, Any]:
    """Return what the index holds of an episode besides its place."""
    provenance, in_round = t.provenance, _ROUND.search(path)
    fields = {
        "id": t.id, "env": short_name(provenance.env_id), "task": t.task_id,
        "task_key": short_digest("\n".join(provenance.task_key)), "split": t.split, "kind": t.kind,
        "difficulty": t.difficulty, "agent": provenance.agent, "round": int(in_round[1]) if in_round else None,
        "outcome": outcome_of(t), "failure_kind": failure_kind(t), "reward": t.reward, "steps": len(t.steps),
        "instruction": t.instruction,
        "invalid": sum(not step.valid for step in t.steps), "tokens": any(step.tokens for step in t.steps),
    }  # fmt: skip
    return {name: _text(value) if isinstance(value, str) else value for name, value in fields.items()}


def _texts(t: Trajectory) -> Iterator[str]:
    """Yield the searchable texts."""
    yield from (t.task_id, t.instruction, t.final_observation, t.error or "")
    for step in t.steps:
        yield from (step.observation, step.reply)


def _text(text: str) -> str:
    """Replace lone surrogates, which a model may write and SQLite cannot store."""
    return text.encode("utf-8", "replace").decode()


def _path_bytes(name: str) -> bytes:
    """Return a path's bytes for `CAST(? AS TEXT)`, because it may not be UTF-8."""
    return name.encode("utf-8", "surrogateescape")
