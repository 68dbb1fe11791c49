"""An episode as JSON values, and back: every value is checked against its field, and an error names its key."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from agentgym_py.checks import TYPE_NAMES
from agentgym_py.env import StopReason
from agentgym_py.errors import ConfigError, DataError
from agentgym_py.trajectory.types import Tokens, Trajectory, Usage

_MOST_FLOAT = 1e15
"""Largest reward or other float of an episode: sums and squares of it are finite, and it is beyond any world's."""
MAX_TOKENS, MAX_COST, _MOST_DEPTH = 1 << 32, 1e9, 100
"""Limits of token ids and counts, of a reply's cost and of the nesting of arguments, which no episode reaches."""
MIN_INT, MAX_INT, _MAX_UNSIGNED = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
"""Limits of integers, which a column of a table has."""
_OLD_STOP_KEYS = {
    "given_up": StopReason.GAVE_UP, "terminated": StopReason.TERMINATED, "truncated": StopReason.TRUNCATED,
}  # fmt: skip
"""Keys of lines up to commit 58a3e36, in order of precedence; `truncated` was also true of episodes given up."""
Reader = Callable[[Any, str], Any]
T = TypeVar("T")


def to_json(trajectory: Trajectory) -> dict[str, Any]:
    """Convert an episode to JSON values; tuples become lists.

    Raises:
        DataError: a value that JSON cannot hold (a path, an infinite reward); the message names its key.
    """
    value: dict[str, Any] = plain_values(trajectory)
    return value


def from_json(data: Mapping[str, Any]) -> Trajectory:
    """Rebuild the episode of `to_json`; also of older lines without `stop_reason`.

    Raises:
        DataError: an unknown key, a missing key without a default, or a value of the wrong type; names the key.
    """
    return read_record(Trajectory, _with_stop_reason(data))


def read_record(kind: type[T], data: Mapping[str, Any]) -> T:
    """Build a dataclass from JSON values, at any depth; its annotations say what is read.

    Raises:
        DataError: an unknown key, a missing key without a default, or a value of the wrong type; names the key.
    """
    value: T = _record_reader(cast("type", kind))(data, "")
    return value


def plain_values(record: Any) -> Any:
    """Convert a dataclass to JSON values; DataError for a value that JSON cannot hold, which names its key."""
    return _to_plain(record, "", finite)


def _with_stop_reason(data: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a line; three older keys become one `stop_reason`."""
    if "stop_reason" in data or not _OLD_STOP_KEYS.keys() & data.keys():
        return dict(data)
    rest = {name: value for name, value in data.items() if name not in _OLD_STOP_KEYS}
    flags = {name: _exact_reader(bool)(data.get(name, False), name) for name in _OLD_STOP_KEYS}
    return rest | {"stop_reason": next((reason for name, reason in _OLD_STOP_KEYS.items() if flags[name]), None)}


def _to_plain(value: Any, where: str, number: Reader) -> Any:
    """JSON values of any part of a trajectory; `where` is its path, for errors, and `number` checks a float."""
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return number(value, where)
    if isinstance(value, list | tuple):
        if _are_plain_numbers(value):
            return list(value)
        return [_to_plain(v, f"{where}[{i}]", number) for i, v in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        free = _free_fields(type(value))
        return {
            f.name: _to_plain(item, _join(where, f.name), _plain_value if f.name in free else finite)
            for f, item in ((f, getattr(value, f.name)) for f in _stored_fields(type(value)))
            if not (f.metadata.get("omit_default") and _is_default(f, item))
        }
    if isinstance(value, Mapping):
        return {_require_string(name, where): _to_plain(v, f"{where}.{name}", number) for name, v in value.items()}
    raise DataError(f"{where}: JSON cannot hold a {type(value).__name__}: {value!r}")


@cache
def _stored_fields(kind: type) -> list[Field[Any]]:
    return [f for f in fields(kind) if not f.metadata.get("not_stored")]


@cache
def _free_fields(kind: type) -> frozenset[str]:
    """Names of the fields that hold values of any type, such as the arguments of a call."""
    return frozenset(name for name, hint in get_type_hints(kind).items() if _holds_any(hint))


def _holds_any(hint: Any) -> bool:
    return hint is Any or any(map(_holds_any, get_args(hint)))


def _is_default(entry: Field[Any], value: Any) -> bool:
    default = entry.default if entry.default_factory is MISSING else entry.default_factory()
    return bool(value == default)


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


def finite(value: Any, where: str) -> float:
    """Return a number of an episode as a float; DataError for other than a finite one of reasonable size."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):  # an int of hundreds of digits
            if math.isfinite(number := float(value)):
                if abs(number) > _MOST_FLOAT:
                    raise DataError(f"{where}: expected a number of at most {_MOST_FLOAT:g}, found {quote(value)}")
                return number
    raise DataError(f"{where}: expected a finite number, found {quote(value)}")


def quote(value: Any) -> str:
    """Return a value for an error message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@cache
def _record_reader(kind: type) -> Reader:
    hints = get_type_hints(kind)
    readers = {
        field.name: _unsigned if field.metadata.get("unsigned") else _reader(hints[field.name])
        for field in fields(kind)
    }
    required = [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]

    def read_record(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise DataError(f"{where or 'the line'}: expected an object, found {quote(value)}")
        for name in required:
            if name not in value:
                raise DataError(f"missing key {_join(where, name)!r}")
        for name in value:
            if name not in readers:
                raise DataError(f"unknown key {_join(where, str(name))!r}")
        values = {name: readers[name](field, _join(where, name)) for name, field in value.items()}
        try:
            record: Any = kind(**values)
        except ConfigError as error:
            raise DataError(f"{where}: {error}") from error
        if isinstance(record, Tokens):
            _require_tokens(record, where)
        if isinstance(record, Usage):
            _require_usage(record, where)
        return record

    return read_record


def _require_tokens(record: Tokens, where: str) -> None:
    """Raise DataError if ids are no token ids, or the lists of a reply differ in length."""
    for name in ("context", "ids"):
        numbers: tuple[int, ...] = getattr(record, name)
        if numbers and not (min(numbers) >= 0 and max(numbers) < MAX_TOKENS):
            raise DataError(f"{_join(where, name)}: a token id is at least 0 and below {MAX_TOKENS}")
    if not len(record.ids) == len(record.logprobs) == len(record.mask):
        raise DataError(f"{where}: ids, logprobs and mask differ in length")
    if not {*record.mask} <= {0, 1}:
        raise DataError(f"{_join(where, 'mask')}: expected 0 and 1 only")


def _require_usage(record: Usage, where: str) -> None:
    """Raise DataError for counts or a cost whose sums over an episode could not be stored."""
    for name, most in (("prompt_tokens", MAX_TOKENS), ("completion_tokens", MAX_TOKENS), ("cost", MAX_COST)):
        number = getattr(record, name)
        if number is not None and not 0 <= number <= most:
            raise DataError(f"{_join(where, name)}: expected a number from 0 to {most:g}, found {quote(number)}")


def _reader(hint: Any) -> Reader:
    """A function that checks and rebuilds a value of an annotated type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        return _union_reader(arguments)
    if origin is tuple:
        return _number_reader(arguments[0]) if arguments[0] in (int, float) else _tuple_reader(_reader(arguments[0]))
    if isinstance(hint, type) and is_dataclass(hint):
        return _record_reader(hint)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _enum_reader(hint)
    if hint is float:
        return finite
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_reader(arguments[1])
    return _exact_reader(hint)


def _union_reader(members: Sequence[Any]) -> Reader:
    """Read None and text if they are members, and anything else as the last other member."""
    inner = _reader([member for member in members if member is not types.NoneType][-1])

    def read_union(value: Any, where: str) -> Any:
        if (value is None and types.NoneType in members) or (isinstance(value, str) and str in members):
            return value
        return inner(value, where)

    return read_union


def _tuple_reader(reader: Reader) -> Reader:
    def read_many(value: Any, where: str) -> tuple[Any, ...]:
        return tuple(reader(item, f"{where}[{i}]") for i, item in enumerate(_exact_reader(list)(value, where)))

    return read_many


def _number_reader(kind: type) -> Reader:
    def read_numbers(value: Any, where: str) -> tuple[Any, ...]:
        if _are_plain_numbers(_exact_reader(list)(value, where)) and (not value or type(value[0]) is kind):
            return tuple(value)
        one: Reader = finite if kind is float else _exact_reader(int)
        return tuple(one(number, f"{where}[{i}]") for i, number in enumerate(value))

    return read_numbers


def _enum_reader(kind: type[StrEnum]) -> Reader:
    def read_member(value: Any, where: str) -> StrEnum:
        if not isinstance(value, str) or value not in list(kind):
            raise DataError(f"{where}: expected one of {', '.join(kind)}, found {quote(value)}")
        return kind(value)

    return read_member


def _mapping_reader(kind: Any) -> Reader:
    def read_mapping(value: Any, where: str) -> dict[str, Any]:
        items = _exact_reader(dict)(value, where).items()
        one: Reader = finite if kind is float else _plain_value
        return {name: one(item, _join(where, name)) for name, item in items}

    return read_mapping


def _plain_value(value: Any, where: str, depth: int = 1) -> Any:
    """Return a JSON value of any kind, if its numbers are finite and it is not nested deeply."""
    if depth > _MOST_DEPTH:
        raise DataError(f"{where[:60]}...: nested more than {_MOST_DEPTH} deep")
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{where}: expected a finite number, found {quote(value)}")
    if isinstance(value, list | dict):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            _plain_value(item, f"{where}.{name}", depth + 1)
    return value


def _exact_reader(kind: type) -> Reader:
    def read_exactly(value: Any, where: str) -> Any:
        if type(value) is not kind:
            raise DataError(f"{where}: expected {TYPE_NAMES.get(kind, kind.__name__)}, found {quote(value)}")
        if isinstance(value, int) and not MIN_INT <= value <= MAX_INT:
            raise DataError(f"{where}: a number of more than 64 bits")
        return value

    return read_exactly


def _unsigned(value: Any, where: str) -> int:
    if type(value) is not int:
        raise DataError(f"{where}: expected a whole number, found {quote(value)}")
    if not 0 <= value <= _MAX_UNSIGNED:
        raise DataError(f"{where}: expected a whole number from 0 to 2^64 - 1, found {quote(value)}")
    return value
