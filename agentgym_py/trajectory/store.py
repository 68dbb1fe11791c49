"""The trajectory store: one line of JSON an episode, flushed whole, each line with a digest of itself.

A line is the canonical JSON of an episode (keys sorted, no spaces) with `"digest"` put in as its last key: the first
16 hex digits of the SHA-256 of that canonical JSON without the digest. A line that lacks its end is *torn* (a process
was killed while it wrote): it is reported and dropped. Any other damage is a `DataError` that names the line.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Self, Union, get_args, get_origin, get_type_hints

from agentgym_py.env import StopReason
from agentgym_py.errors import DataError
from agentgym_py.files import add_filename, sync_to_disk
from agentgym_py.trajectory.types import Trajectory

_DIGEST_LENGTH = 16
_BLOCK = 1 << 16
_OLD_ENDS = {
    "given_up": StopReason.GAVE_UP, "terminated": StopReason.TERMINATED, "truncated": StopReason.TRUNCATED,
}  # fmt: skip
"""Keys of lines up to commit 58a3e36, the one that counts first; `truncated` was true of episodes given up, too."""
Reader = Callable[[Any, str], Any]


# ---------------------------------------------------------------------------------------------------- one episode


def to_json(trajectory: Trajectory) -> dict[str, Any]:
    """The episode as JSON values; tuples become lists.

    Raises:
        DataError: a value that JSON cannot hold (a path, an infinite reward); the message names its key.
    """
    value: dict[str, Any] = _plain(trajectory, "")
    return value


def from_json(data: Mapping[str, Any]) -> Trajectory:
    """The episode of `to_json`, equal to the one that went in; also of a line that has no `stop_reason` yet.

    Raises:
        DataError: an unknown key, a missing key without a default, or a value of the wrong type; names the key.
    """
    value: Trajectory = _record_reader(Trajectory)(_with_stop_reason(data), "")
    return value


def _with_stop_reason(data: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a line; one of four older keys, which said together how an episode ended, gets its reason."""
    if "stop_reason" in data or not _OLD_ENDS.keys() & data.keys():
        return dict(data)
    found = {name: value for name, value in data.items() if name not in _OLD_ENDS}
    ended = {name: _exactly(bool)(data.get(name, False), name) for name in _OLD_ENDS}
    return found | {"stop_reason": next((reason for name, reason in _OLD_ENDS.items() if ended[name]), None)}


def _plain(value: Any, where: str) -> Any:
    """JSON values of anything that a trajectory holds."""
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return _finite(value, where)
    if isinstance(value, list | tuple):
        return list(value) if _all_numbers(value) else [_plain(each, f"{where}[{i}]") for i, each in enumerate(value)]
    if isinstance(value, Mapping):
        return {_key(name, where): _plain(each, f"{where}.{name}") for name, each in value.items()}
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name), _join(where, each.name)) for each in fields(value)}
    raise DataError(f"{where}: JSON cannot hold a {type(value).__name__}: {value!r}")


def _all_numbers(values: Sequence[Any]) -> bool:
    """Whether these are only ints, or only finite floats: token rows, which need no look at each."""
    kinds = set(map(type, values))
    return kinds <= {int} or (kinds == {float} and all(map(math.isfinite, values)))


def _key(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise DataError(f"{where}: the key {name!r} is a {type(name).__name__}, not a string")
    return name


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _finite(value: Any, where: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):  # an int of hundreds of digits
            if math.isfinite(found := float(value)):
                return found
    raise DataError(f"{where}: expected a finite number, found {_shown(value)}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@cache
def _record_reader(kind: type) -> Reader:
    hints = get_type_hints(kind)
    readers = {each.name: _reader(hints[each.name]) for each in fields(kind)}
    wanted = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]

    def read_record(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise DataError(f"{where or 'the line'}: expected an object, found {_shown(value)}")
        for name in wanted:
            if name not in value:
                raise DataError(f"missing key {_join(where, name)!r}")
        for name in value:
            if name not in readers:
                raise DataError(f"unknown key {_join(where, str(name))!r}")
        return kind(**{name: readers[name](each, _join(where, name)) for name, each in value.items()})

    return read_record


def _reader(hint: Any) -> Reader:
    """A function that checks and rebuilds a value of the annotated type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        return _optional(_reader(arguments[0]))
    if origin is tuple:
        return _numbers(arguments[0]) if arguments[0] in (int, float) else _many(_reader(arguments[0]))
    if isinstance(hint, type) and is_dataclass(hint):
        return _record_reader(hint)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _member(hint)
    if hint is float:
        return _finite
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(arguments[1])
    return _exactly(hint)


def _optional(reader: Reader) -> Reader:
    return lambda value, where: None if value is None else reader(value, where)


def _many(reader: Reader) -> Reader:
    def read_many(value: Any, where: str) -> tuple[Any, ...]:
        return tuple(reader(each, f"{where}[{i}]") for i, each in enumerate(_exactly(list)(value, where)))

    return read_many


def _numbers(kind: type) -> Reader:
    def read_numbers(value: Any, where: str) -> tuple[Any, ...]:
        if _all_numbers(_exactly(list)(value, where)) and (not value or type(value[0]) is kind):
            return tuple(value)
        one: Reader = _finite if kind is float else _exactly(int)
        return tuple(one(each, f"{where}[{i}]") for i, each in enumerate(value))

    return read_numbers


def _member(kind: type[StrEnum]) -> Reader:
    def read_member(value: Any, where: str) -> StrEnum:
        if not isinstance(value, str) or value not in list(kind):
            raise DataError(f"{where}: expected one of {', '.join(kind)}, found {_shown(value)}")
        return kind(value)

    return read_member


def _mapping(kind: Any) -> Reader:
    def read_mapping(value: Any, where: str) -> dict[str, Any]:
        items = _exactly(dict)(value, where).items()
        return {name: _finite(each, _join(where, name)) if kind is float else each for name, each in items}

    return read_mapping


def _exactly(kind: type) -> Reader:
    def read_exactly(value: Any, where: str) -> Any:
        if type(value) is not kind:
            raise DataError(f"{where}: expected {kind.__name__}, found {_shown(value)}")
        return value

    return read_exactly


# --------------------------------------------------------------------------------------------------------- one line


def to_line(trajectory: Trajectory) -> bytes:
    """The episode's line in the file, its digest and the line feed included.

    Raises:
        DataError: a value that JSON cannot hold or that `from_line` would refuse; names its key.
    """
    data = to_json(trajectory)
    from_json(data)  # so that nothing is ever written that cannot be read
    body = _canonical(data)
    return body[:-1] + _tail(_digest(body)) + b"\n"


def from_line(raw: bytes) -> Trajectory:
    """The episode of one line.

    Raises:
        DataError: no JSON, not this format, or damaged since it was written.
    """
    data, _ = _open(raw)
    return from_json(data)


def _open(raw: bytes) -> tuple[dict[str, Any], bool]:
    """The object of a line without its digest, and whether it had one."""
    try:
        data = json.loads(raw.decode(), parse_constant=_no_constant)
    except RecursionError as error:
        raise DataError("no JSON: nested too deeply") from error
    except ValueError as error:
        raise DataError(f"no JSON: {error}") from error
    if not isinstance(data, dict):
        raise DataError(f"expected an object, found {_shown(data)}")
    digest = data.pop("digest", None)
    if digest is not None and not _matches(raw, data, digest):
        raise DataError(f"the digest {_shown(digest)} is not that of the line: it was changed after it was written")
    return data, digest is not None


def _matches(raw: bytes, data: dict[str, Any], digest: Any) -> bool:
    if not isinstance(digest, str):
        return False
    tail = _tail(digest)
    line = raw.rstrip(b"\r\n")
    if line.endswith(tail) and _digest(line[: -len(tail)] + b"}") == digest:
        return True
    return _digest(_canonical(data)) == digest  # another program wrote the same values in another layout


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _canonical(data: Mapping[str, Any]) -> bytes:
    """UTF-8; where a text holds a lone surrogate, ASCII with escapes (a split pair comes back as one character)."""
    try:
        return _dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _dumps(data, ensure_ascii=True).encode()


def _dumps(data: Mapping[str, Any], ensure_ascii: bool) -> str:
    return json.dumps(data, ensure_ascii=ensure_ascii, allow_nan=False, sort_keys=True, separators=(",", ":"))


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:_DIGEST_LENGTH]


def _tail(digest: str) -> bytes:
    return f',"digest":"{digest}"}}'.encode()


# --------------------------------------------------------------------------------------------------------- the file


class TrajectoryWriter:
    """Appends episodes to a store; a torn last line is cut off first. One writer a file at a time.

    Usable as a context manager. Folders on the way are made.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.written = 0
        """Episodes that this writer appended."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _mend(self.path)
        self._file: int | None = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append(self, trajectory: Trajectory) -> None:
        """Write one episode; it is with the operating system, whole, when this returns.

        Raises:
            DataError: a value that JSON cannot hold, or a closed writer.
        """
        if self._file is None:
            raise DataError(f"{self.path}: the writer is closed")
        with add_filename(self.path):
            _write_whole(self._file, to_line(trajectory))
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
    """Append episodes to a store; returns how many."""
    with TrajectoryWriter(path) as writer:
        for trajectory in trajectories:
            writer.append(trajectory)
    return writer.written


def write(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Make or replace a store in one go (the old file stays until the new one is whole); returns how many."""
    target = Path(path)
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        written = append(partial, trajectories)
        sync_to_disk(partial)
        partial.replace(target)
        sync_to_disk(target.parent)
    finally:
        partial.unlink(missing_ok=True)
    return written


def read(path: str | Path, *, warn: bool = True) -> Iterator[Trajectory]:
    """Stream the episodes of a store; a torn last line is dropped, with a warning unless `warn` is false.

    Raises:
        DataError: no such file, or a broken line; names the line.
    """
    return _read(existing(path), warn)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `verify` found in a file."""

    path: Path
    episodes: int
    """Lines that can be read."""
    unsigned: int
    """Of these, lines without a digest, which were written by another program, or in a form that has none."""
    bad: Mapping[int, str]
    """Number (from 1) of each broken line, in parquet or a JSON array of each row, and what is wrong with it."""
    torn: int | None
    """Number of the torn last line."""

    @property
    def ok(self) -> bool:
        """Whether every line is whole and undamaged."""
        return not self.bad and self.torn is None


def verify(path: str | Path) -> VerifyReport:
    """Check every line and its digest; never stops at a broken one.

    Raises:
        DataError: no such file.
    """
    target = existing(path)
    episodes, unsigned, bad, torn = 0, 0, {}, None
    with target.open("rb") as file:
        for number, raw in _lines(file):
            if _torn(raw) is not None:
                torn = number
                continue
            try:
                data, signed = _open(raw)
                from_json(data)
            except DataError as error:
                bad[number] = str(error)
            else:
                episodes += 1
                unsigned += not signed
    return VerifyReport(target, episodes, unsigned, bad, torn)


def salvage(path: str | Path, target: str | Path) -> VerifyReport:
    """Copy the whole lines of a store, byte for byte, to a new file; returns what `verify` says of the old one.

    Raises:
        DataError: no such file, or no line of it is whole.
    """
    report = verify(path)
    if not report.episodes:
        raise DataError(f"{path}: no line is whole")
    with report.path.open("rb") as old, Path(target).open("wb") as new:
        for number, raw in _lines(old):
            if number not in report.bad and number != report.torn:
                new.write(raw.rstrip(b"\r\n") + b"\n")
    return report


def _read(path: Path, warn: bool) -> Iterator[Trajectory]:
    with path.open("rb") as file:
        for number, raw in _lines(file):
            torn = _torn(raw)
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
    """The lines that are not blank, with their numbers from 1."""
    return ((number, raw) for number, raw in enumerate(file, 1) if raw.strip())


def _torn(raw: bytes) -> str | None:
    """Why a line counts as torn; only the last line can lack its line feed."""
    if raw.endswith(b"\n"):
        return None
    try:
        _open(raw)
    except DataError as error:
        return str(error)
    return None


def existing(path: str | Path) -> Path:
    """The path of a file that is there; DataError where there is none."""
    target = Path(path)
    if target.is_dir():
        within = target / "trajectories.jsonl"
        raise DataError(f"{target}: a folder, not a file" + f"; did you mean {within}?" * within.is_file())
    if not target.is_file():
        raise DataError(f"{target}: no such file")
    return target


def _mend(path: Path) -> None:
    """Cut a torn last line off; give a whole one the line feed that it lacks."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("r+b") as file:
        start = _last_line_start(file)
        file.seek(start)
        last = file.read()
        if last.endswith(b"\n"):
            return
        if _torn(last) is None:
            file.write(b"\n")
        else:
            warnings.warn(f"{path}: a torn last line of {len(last)} bytes was cut off", stacklevel=3)
            file.truncate(start)


def _last_line_start(file: BinaryIO) -> int:
    """Offset after the last line feed that is not the file's last byte."""
    end = file.seek(0, os.SEEK_END) - 1
    while end > 0:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def _write_whole(file: int, line: bytes) -> None:
    """All of `line`, or (disk full) none of it."""
    start = os.fstat(file).st_size
    sent = 0
    try:
        while sent < len(line):
            sent += os.write(file, line[sent:])
    except BaseException:
        os.ftruncate(file, start)
        raise
