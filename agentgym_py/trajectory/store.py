"""The trajectory store: one line of JSON per episode, each with its own digest.

A line is the canonical JSON of an episode (sorted keys, no spaces) with a last key `"digest"`: the first 16 hex digits
of the SHA-256 of the canonical JSON without it. A last line without its end is *torn* (the process was killed while
writing); readers report and drop it. Any other damage is a `DataError` that names the line.
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
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO, Self, Union, get_args, get_origin, get_type_hints

from agentgym_py.env import StopReason
from agentgym_py.errors import DataError
from agentgym_py.files import add_filename, append_or_undo, replacing
from agentgym_py.trajectory.types import Tokens, Trajectory

_DIGEST_LENGTH = 16
_BLOCK = 1 << 16
_MOST_TOKENS, _MOST_INT, _MOST_DEPTH = 1 << 32, 1 << 128, 100
"""Limits of token ids, other numbers and the nesting of arguments, which no episode reaches and readers rely on."""
_OLD_STOP_KEYS = {
    "given_up": StopReason.GAVE_UP, "terminated": StopReason.TERMINATED, "truncated": StopReason.TRUNCATED,
}  # fmt: skip
"""Keys of lines up to commit 58a3e36, in order of precedence; `truncated` was also true of episodes given up."""
Reader = Callable[[Any, str], Any]


# ---------------------------------------------------------------------------------------------------- one episode


def to_json(trajectory: Trajectory) -> dict[str, Any]:
    """Convert an episode to JSON values; tuples become lists.

    Raises:
        DataError: a value that JSON cannot hold (a path, an infinite reward); the message names its key.
    """
    value: dict[str, Any] = _to_plain(trajectory, "")
    return value


def from_json(data: Mapping[str, Any]) -> Trajectory:
    """Rebuild the episode of `to_json`; also of older lines without `stop_reason`.

    Raises:
        DataError: an unknown key, a missing key without a default, or a value of the wrong type; names the key.
    """
    value: Trajectory = _record_reader(Trajectory)(_with_stop_reason(data), "")
    return value


def _with_stop_reason(data: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a line; three older keys become one `stop_reason`."""
    if "stop_reason" in data or not _OLD_STOP_KEYS.keys() & data.keys():
        return dict(data)
    rest = {name: value for name, value in data.items() if name not in _OLD_STOP_KEYS}
    flags = {name: _exact_reader(bool)(data.get(name, False), name) for name in _OLD_STOP_KEYS}
    return rest | {"stop_reason": next((reason for name, reason in _OLD_STOP_KEYS.items() if flags[name]), None)}


def _to_plain(value: Any, where: str) -> Any:
    """JSON values of any part of a trajectory; `where` is its path, for errors."""
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return _finite(value, where)
    if isinstance(value, list | tuple):
        return (
            list(value) if _are_plain_numbers(value) else [_to_plain(v, f"{where}[{i}]") for i, v in enumerate(value)]
        )
    if isinstance(value, Mapping):
        return {_require_string(name, where): _to_plain(v, f"{where}.{name}") for name, v in value.items()}
    if is_dataclass(value):
        items = [(f, getattr(value, f.name)) for f in fields(value)]
        stored = [(f.name, item) for f, item in items if not (f.metadata.get("omit_default") and item == f.default)]
        return {name: _to_plain(item, _join(where, name)) for name, item in stored}
    raise DataError(f"{where}: JSON cannot hold a {type(value).__name__}: {value!r}")


def _are_plain_numbers(values: Sequence[Any]) -> bool:
    """Whether all are ints, or all finite floats, as in token rows; a fast path."""
    kinds = set(map(type, values))
    return kinds <= {int} or (kinds == {float} and all(map(math.isfinite, values)))


def _require_string(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise DataError(f"{where}: the key {name!r} is a {type(name).__name__}, not a string")
    return name


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _finite(value: Any, where: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):  # an int of hundreds of digits
            if math.isfinite(number := float(value)):
                return number
    raise DataError(f"{where}: expected a finite number, found {_quote(value)}")


def _quote(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@cache
def _record_reader(kind: type) -> Reader:
    hints = get_type_hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind)}
    required = [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]

    def read_record(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise DataError(f"{where or 'the line'}: expected an object, found {_quote(value)}")
        for name in required:
            if name not in value:
                raise DataError(f"missing key {_join(where, name)!r}")
        for name in value:
            if name not in readers:
                raise DataError(f"unknown key {_join(where, str(name))!r}")
        record: Any = kind(**{name: readers[name](field, _join(where, name)) for name, field in value.items()})
        if isinstance(record, Tokens):
            _require_tokens(record, where)
        return record

    return read_record


def _require_tokens(record: Tokens, where: str) -> None:
    """Raise DataError if ids are no token ids, or the lists of a reply differ in length."""
    for name in ("context", "ids"):
        numbers: tuple[int, ...] = getattr(record, name)
        if numbers and not (min(numbers) >= 0 and max(numbers) < _MOST_TOKENS):
            raise DataError(f"{_join(where, name)}: a token id is at least 0 and below {_MOST_TOKENS}")
    if not len(record.ids) == len(record.logprobs) == len(record.mask):
        raise DataError(f"{where}: ids, logprobs and mask differ in length")


def _reader(hint: Any) -> Reader:
    """A function that checks and rebuilds a value of an annotated type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        inner = _reader(arguments[0])
        return lambda value, where: None if value is None else inner(value, where)
    if origin is tuple:
        return _number_reader(arguments[0]) if arguments[0] in (int, float) else _tuple_reader(_reader(arguments[0]))
    if isinstance(hint, type) and is_dataclass(hint):
        return _record_reader(hint)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _enum_reader(hint)
    if hint is float:
        return _finite
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_reader(arguments[1])
    return _exact_reader(hint)


def _tuple_reader(reader: Reader) -> Reader:
    def read_many(value: Any, where: str) -> tuple[Any, ...]:
        return tuple(reader(item, f"{where}[{i}]") for i, item in enumerate(_exact_reader(list)(value, where)))

    return read_many


def _number_reader(kind: type) -> Reader:
    def read_numbers(value: Any, where: str) -> tuple[Any, ...]:
        if _are_plain_numbers(_exact_reader(list)(value, where)) and (not value or type(value[0]) is kind):
            return tuple(value)
        one: Reader = _finite if kind is float else _exact_reader(int)
        return tuple(one(number, f"{where}[{i}]") for i, number in enumerate(value))

    return read_numbers


def _enum_reader(kind: type[StrEnum]) -> Reader:
    def read_member(value: Any, where: str) -> StrEnum:
        if not isinstance(value, str) or value not in list(kind):
            raise DataError(f"{where}: expected one of {', '.join(kind)}, found {_quote(value)}")
        return kind(value)

    return read_member


def _mapping_reader(kind: Any) -> Reader:
    def read_mapping(value: Any, where: str) -> dict[str, Any]:
        items = _exact_reader(dict)(value, where).items()
        one: Reader = _finite if kind is float else _plain_value
        return {name: one(item, _join(where, name)) for name, item in items}

    return read_mapping


def _plain_value(value: Any, where: str, depth: int = 1) -> Any:
    """Return a JSON value of any kind, if its numbers are finite and it is not nested deeply."""
    if depth > _MOST_DEPTH:
        raise DataError(f"{where[:60]}...: nested more than {_MOST_DEPTH} deep")
    if isinstance(value, float):
        return _finite(value, where)
    if isinstance(value, list | dict):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            _plain_value(item, f"{where}.{name}", depth + 1)
    return value


def _exact_reader(kind: type) -> Reader:
    def read_exactly(value: Any, where: str) -> Any:
        if type(value) is not kind:
            raise DataError(f"{where}: expected {kind.__name__}, found {_quote(value)}")
        if isinstance(value, int) and not -_MOST_INT <= value <= _MOST_INT:
            raise DataError(f"{where}: a number of more than 128 bits")
        return value

    return read_exactly


# --------------------------------------------------------------------------------------------------------- one line


def to_line(trajectory: Trajectory) -> bytes:
    """Return the episode's line in the file, with its digest and the line feed.

    Raises:
        DataError: a value that JSON cannot hold or `from_line` would refuse; names its key.
    """
    data = to_json(trajectory)
    from_json(data)  # so that nothing unreadable is ever written
    body = _canonical_bytes(data)
    return body[:-1] + _digest_suffix(_digest(body)) + b"\n"


def from_line(raw: bytes) -> Trajectory:
    """Parse the episode of one line.

    Raises:
        DataError: not JSON, not this format, or damaged since it was written.
    """
    data, _ = _parse_line(raw)
    return from_json(data)


def _parse_line(raw: bytes) -> tuple[dict[str, Any], bool]:
    """The object of a line without its digest, and whether it had one."""
    try:
        data = json.loads(raw.decode(), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise DataError("no JSON: nested too deeply") from error
    except ValueError as error:
        raise DataError(f"no JSON: {error}") from error
    if not isinstance(data, dict):
        raise DataError(f"expected an object, found {_quote(data)}")
    digest = data.pop("digest", None)
    if digest is not None and not _digest_matches(raw, data, digest):
        raise DataError(f"the digest {_quote(digest)} is not that of the line: it was changed after it was written")
    return data, digest is not None


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
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.written = 0
        """Number of episodes that this writer appended."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _repair_end(self.path)
        self._file: int | None = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

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
    return ((number, raw) for number, raw in enumerate(file, 1) if raw.strip())


def _torn_reason(raw: bytes) -> str | None:
    """Why a line is torn, or None; only the last line can lack its line feed."""
    if raw.endswith(b"\n"):
        return None
    try:
        _parse_line(raw)
    except DataError as error:
        return str(error)
    return None


def require_file(path: str | Path) -> Path:
    """Return the path if it is a file; DataError otherwise."""
    target = Path(path)
    if target.is_dir():
        within = target / "trajectories.jsonl"
        raise DataError(f"{target}: a folder, not a file" + (f"; did you mean {within}?" if within.is_file() else ""))
    if not target.is_file():
        raise DataError(f"{target}: no such file")
    return target


def _repair_end(path: Path) -> None:
    """Cut off a torn last line; complete one that only lacks its line feed."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("r+b") as file:
        start = _last_line_start(file)
        file.seek(start)
        last = file.read()
        if last.endswith(b"\n"):
            return
        if _torn_reason(last) is None:
            file.write(b"\n")
        elif not last.startswith(b"{"):
            raise DataError(f"{path}: its last line is no torn episode, so this is no store; nothing was changed")
        else:
            warnings.warn(f"{path}: a torn last line of {len(last)} bytes was cut off", stacklevel=3)
            file.truncate(start)


def _last_line_start(file: BinaryIO) -> int:
    """Offset after the last line feed that is not the file's last byte."""
    end = file.seek(0, os.SEEK_END) - 1
    while end > 0:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        position = file.read(end - begin).rfind(b"\n")
        if position >= 0:
            return begin + position + 1
        end = begin
    return 0
