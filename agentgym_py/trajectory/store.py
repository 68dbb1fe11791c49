"""The trajectory store: one line of JSON per episode, each with its own digest.

A line is the canonical JSON of an episode (sorted keys, no spaces) with a last key `"digest"`: the first 16 hex digits
of the SHA-256 of the canonical JSON without it. A last line without its end is *torn* (the process was killed while
writing); readers report and drop it. Any other damage is a `DataError` that names the line.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Self

from agentgym_py.errors import DataError
from agentgym_py.files import (
    MOST_BYTES,
    add_filename,
    append_or_undo,
    numbered_lines,
    open_to_append,
    open_to_change,
    parse_json,
    replacing,
    require_few_values,
    walk,
)
from agentgym_py.trajectory.json_values import from_json, quote, to_json
from agentgym_py.trajectory.types import Trajectory

_DIGEST_LENGTH = 16
_BLOCK = 1 << 16
_PEEKED = 1 << 20
"""Bytes of a file's first line that tell whether it holds trajectories."""
_MAX_LISTED = 20
"""Maximum number of stores that an error names."""


# --------------------------------------------------------------------------------------------------------- one line


def to_line(trajectory: Trajectory) -> bytes:
    """Return the episode's line in the file, with its digest and the line feed.

    Raises:
        DataError: a value that JSON cannot hold or `from_line` would refuse; names its key.
    """
    data = to_json(trajectory)
    from_json(data)  # so that nothing unreadable is ever written
    body = _canonical_bytes(data)
    line = body[:-1] + _digest_suffix(_digest(body)) + b"\n"
    _require_length(line)
    try:
        require_few_values(line)
    except ValueError as error:
        raise DataError(f"{trajectory.id}: {error}") from error
    return line


def from_line(raw: bytes) -> Trajectory:
    """Parse the episode of one line.

    Raises:
        DataError: not JSON, not this format, or damaged since it was written.
    """
    data, _ = _parse_line(raw)
    return from_json(data)


def _parse_line(raw: bytes) -> tuple[dict[str, Any], bool]:
    """The object of a line without its digest, and whether it had one."""
    _require_length(raw)
    try:
        data = parse_json(raw.decode().rstrip("\r\n"), parse_constant=_refuse_constant)
    except ValueError as error:
        raise DataError(f"no JSON: {error}") from error
    if not isinstance(data, dict):
        raise DataError(f"expected an object, found {quote(data)}")
    digest = data.pop("digest", None)
    if digest is not None and not _digest_matches(raw, data, digest):
        raise DataError(f"the digest {quote(digest)} is not that of the line: it was changed after it was written")
    return data, digest is not None


def _require_length(line: bytes) -> None:
    if len(line) > MOST_BYTES:
        raise DataError(f"an episode of more than {MOST_BYTES >> 20} MiB")


def _digest_matches(raw: bytes, data: dict[str, Any], digest: Any) -> bool:
    if not isinstance(digest, str):
        return False
    tail = _digest_suffix(digest)
    line = raw.rstrip(b"\r\n")
    if line.endswith(tail) and _digest(line[: -len(tail)] + b"}") == digest:
        return True
    with suppress(ValueError, RecursionError):  # values that JSON cannot hold
        return _digest(_canonical_bytes(data)) == digest  # another program may have written them in another layout
    return False


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _canonical_bytes(data: Mapping[str, Any]) -> bytes:
    """UTF-8, or ASCII with escapes if a text has a lone surrogate (a split pair comes back as one character)."""
    dumps = partial(json.dumps, data, allow_nan=False, sort_keys=True, separators=(",", ":"))
    try:
        return dumps(ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return dumps(ensure_ascii=True).encode()


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:_DIGEST_LENGTH]


def _digest_suffix(digest: str) -> bytes:
    return f',"digest":"{digest}"}}'.encode()


# --------------------------------------------------------------------------------------------------------- the file


class TrajectoryWriter:
    """Appends episodes to a store; a context manager. One writer per file at a time.

    A torn last line is cut off first, and missing folders are created.

    Raises:
        DataError: the file is no store.
        OSError: it cannot be written, has hard links, or is a pipe or a device.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.written = 0
        """Number of episodes that this writer appended."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _repair_end(self.path)
        self._file: int | None = open_to_append(self.path)

    def append(self, trajectory: Trajectory) -> None:
        """Write one episode; the operating system has all of it when this returns.

        Raises:
            DataError: a value that JSON cannot hold, or a closed writer.
        """
        if self._file is None:
            raise DataError(f"{self.path}: the writer is closed")
        with add_filename(self.path):
            append_or_undo(self._file, to_line(trajectory))
        self.written += 1

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def append(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Append episodes to a store; return how many."""
    with TrajectoryWriter(path) as writer:
        for trajectory in trajectories:
            writer.append(trajectory)
    return writer.written


def write(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Write a store, or replace one when the new file is complete; return the number of episodes."""
    with replacing(Path(path)) as file:
        return append(file, trajectories)


def read(path: str | Path, *, warn: bool = True) -> Iterator[Trajectory]:
    """Stream the episodes of a store; a torn last line is dropped, with a warning unless `warn` is false.

    Raises:
        DataError: no such file, or a broken line; names the line.
    """
    return _read(require_file(path), warn)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The state of a file, line by line."""

    path: Path
    episodes: int
    """Number of readable lines."""
    unsigned: int
    """How many of these have no digest: another program or another format."""
    bad: Mapping[int, str]
    """What is wrong with each broken line, by its number from 1 (in parquet or a JSON array: each row)."""
    torn: int | None
    """Number of the torn last line, if there is one."""

    @property
    def ok(self) -> bool:
        """Whether every line is complete and undamaged."""
        return not self.bad and self.torn is None


def verify(path: str | Path) -> VerifyReport:
    """Check every line and its digest, also after a broken one.

    Raises:
        DataError: no such file.
    """
    target = require_file(path)
    episodes, unsigned, bad, torn = 0, 0, {}, None
    with target.open("rb") as file:
        for number, raw in _lines(file):
            if _torn_reason(raw) is not None:
                torn = number
                continue
            try:
                data, signed = _parse_line(raw)
                from_json(data)
            except DataError as error:
                bad[number] = str(error)
            else:
                episodes += 1
                unsigned += not signed
    return VerifyReport(target, episodes, unsigned, bad, torn)


def salvage(path: str | Path, target: str | Path) -> VerifyReport:
    """Copy the undamaged lines of a store to a new file, byte for byte; return `verify` of the old one.

    Raises:
        DataError: no such file, or no undamaged line.
    """
    report = verify(path)
    if not report.episodes:
        raise DataError(f"{path}: no line is whole")
    with report.path.open("rb") as old, replacing(Path(target)) as partial, partial.open("wb") as new:
        for number, raw in _lines(old):
            if number not in report.bad and number != report.torn:
                new.write(raw.rstrip(b"\r\n") + b"\n")
    return report


def _read(path: Path, warn: bool) -> Iterator[Trajectory]:
    with path.open("rb") as file:
        for number, raw in _lines(file):
            torn = _torn_reason(raw)
            if torn is not None:
                if warn:
                    warnings.warn(f"{path}:{number}: torn last line dropped ({torn})", stacklevel=2)
                return
            try:
                trajectory = from_line(raw)
            except DataError as error:
                raise DataError(f"{path}:{number}: {error}; `agentgym data salvage` copies the whole lines") from error
            yield trajectory


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The non-blank lines, with their numbers from 1."""
    return ((number, raw) for number, raw in numbered_lines(file) if raw.strip())


def _torn_reason(raw: bytes) -> str | None:
    """Why a line is torn, or None; only the last line can lack its line feed, or one that is cut for its length."""
    if raw.endswith(b"\n") or len(raw) > MOST_BYTES:
        return None
    try:
        _parse_line(raw)
    except DataError as error:
        return str(error)
    return None


def require_file(path: str | Path) -> Path:
    """Return the path if it is a file; DataError otherwise, which names the stores within a folder."""
    target = Path(path)
    if target.is_dir():
        raise DataError(f"{target}: a folder, not a file{_stores_within(target)}")
    if not target.is_file():
        raise DataError(f"{target}: {'it is no ordinary file' if target.exists() else 'no such file'}")
    return target


def _may_be_store(path: Path) -> bool:
    """Tell whether a path is a file that begins like a store, or is empty; other programs write JSON lines, too."""
    if not path.is_file():  # a pipe would be waited for
        return False
    with path.open("rb") as file:
        first = file.readline(_PEEKED)
    return not first or b'"provenance"' in first


def _stores_within(folder: Path) -> str:
    if (folder / "trajectories.jsonl").is_file():
        return f"; did you mean {folder / 'trajectories.jsonl'}?"
    stores = (path for path in walk(folder) if path.suffix == ".jsonl" and _may_be_store(path))
    found = sorted(islice(stores, _MAX_LISTED + 1))
    names = [str(path) for path in found[:_MAX_LISTED]] + ["…"] * (len(found) > _MAX_LISTED)
    return f"; name one of {', '.join(names)}" if names else ""


def _repair_end(path: Path) -> None:
    """Cut off a torn last line; complete one that only lacks its line feed."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    with open_to_change(path) as file:
        start = _last_line_start(file)
        file.seek(start)
        last = file.read(MOST_BYTES + 1)
        if last.endswith(b"\n"):
            return
        if len(last) <= MOST_BYTES and _torn_reason(last) is None:
            file.write(b"\n")
        elif not last.startswith(b"{") or len(last) > MOST_BYTES:
            raise DataError(f"{path}: its last line is no torn episode, so this is no store; nothing was changed")
        else:
            warnings.warn(f"{path}: a torn last line of {len(last)} bytes was cut off", stacklevel=3)
            file.truncate(start)


def _last_line_start(file: BinaryIO) -> int:
    """Offset after the last line feed that is not the file's last byte; no line before MOST_BYTES is searched."""
    end = size = file.seek(0, os.SEEK_END) - 1
    while end > 0 and size - end <= MOST_BYTES:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        position = file.read(end - begin).rfind(b"\n")
        if position >= 0:
            return begin + position + 1
        end = begin
    return max(end, 0)
