"""Texts of a command line and objects of a YAML file as values of an annotated type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import yaml

from agentgym_py.checks import has_type
from agentgym_py.errors import nearest

_NAMES = {NoneType: "null", bool: "true or false", dict: "a mapping", list: "a list", str: "text"}


class _Loader(yaml.SafeLoader):
    """YAML in which `1e-4` is a number, as in version 1.2."""


_FLOAT = re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?([eE][-+]?\d+)?|\.\d[\d_]*([eE][-+]?\d+)?|\.inf|\.Inf|\.nan|\.NaN)$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


def load_yaml(text: str) -> Any:
    """The YAML value; `trainer: NAME` is short for `trainer: {name: NAME}`.

    Raises:
        ValueError: it is no YAML.
    """
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506  # a SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    if isinstance(value, dict) and isinstance(value.get("trainer"), str):
        value["trainer"] = {"name": value["trainer"]}
    return value


def convert(value: Any, hint: Any) -> Any:
    """`value`, a text or an object, as the type `hint`.

    Raises:
        ValueError: it is none; says what is expected.
    """
    read = scalar(value, hint) if isinstance(value, str) and takes_mapping(hint) else value
    if isinstance(read, Mapping) and takes_mapping(hint):
        inner = next((get_args(part)[1] for part in _alternatives(hint) if get_args(part)), Any)
        return {str(key): each if inner is Any else convert(each, inner) for key, each in read.items()}
    for one in _alternatives(hint):
        try:
            return _convert(value, one)
        except (TypeError, ValueError):
            continue
    choices = choices_of(hint)
    names = choices or [_name(each) for each in _parts(hint)]
    near = nearest(str(value), choices)
    raise ValueError(f"expected {' or '.join(names)}, got {value!r}" + (f"; did you mean {near}?" if near else ""))


def _convert(value: Any, hint: Any) -> Any:
    """`value` as one type that is no union."""
    origin = get_origin(hint) or hint
    if origin is Literal:
        if value in get_args(hint):
            return value
        raise ValueError
    if hint is str or hint is Path:
        return _require(isinstance(value, str | Path), value)
    if hint is NoneType:
        return _require(value is None or value == "null", None)
    if hint in (int, float):
        _require(not isinstance(value, bool) and (hint is float or not isinstance(value, float)), value)
        return hint(scalar(value, hint) if isinstance(value, str) else value)
    if isinstance(value, str):
        value = scalar(value, hint)
    if hint is bool:
        return _require(isinstance(value, bool), value)
    return _require(has_type(value, hint), value)


def _require(true: bool, value: Any) -> Any:
    if not true:
        raise ValueError
    return value


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """The parts of a union: None first, because `null` is no name, and text last, because it takes anything."""
    return tuple(sorted(_parts(hint), key=lambda each: (each is not NoneType, each in (str, Path))))


def _parts(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def choices_of(hint: Any) -> list[str]:
    """The values that a type lists."""
    return [str(each) for part in _alternatives(hint) if get_origin(part) is Literal for each in get_args(part)]


def takes_mapping(hint: Any) -> bool:
    """Whether a type is a mapping."""
    return any((get_origin(part) or part) in (dict, Mapping) for part in _alternatives(hint))


def type_name(hint: Any, setting: str = "text") -> str:
    """What stands for a value of the type in help texts: `INT`, `all|last`, for a text the setting's name."""
    parts = [part for part in _alternatives(hint) if part is not NoneType]
    if choices := choices_of(hint):
        return "|".join(choices)
    if takes_mapping(hint):
        return "NAME VALUE"
    names = {bool: "true|false", int: "INT", float: "FLOAT", Path: "PATH", str: setting.upper()}
    return next((names[part] for part in parts if part in names), "VALUE")


def _name(hint: Any) -> str:
    origin = get_origin(hint) or hint
    return _NAMES.get(origin) or str(getattr(origin, "__name__", origin))


def as_list(value: Any, item: Callable[[Any], Any] = str) -> list[Any]:
    """The items of an option that takes several: of a text its parts between commas, of a file a list or one item."""
    parts = [part for part in value.split(",") if part] if isinstance(value, str) else value
    try:
        return [item(part) for part in (parts if isinstance(parts, list | tuple) else [parts])]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{value!r} is not what it takes ({error})") from error


def scalar(value: Any, hint: Any = Any) -> Any:
    """A text as the YAML scalar that it writes, or as it is when only that is of the type."""
    try:
        read = yaml.load(value, Loader=_Loader) if isinstance(value, str) else value  # noqa: S506  # a SafeLoader
    except yaml.YAMLError:
        return value
    return value if has_type(value, hint) and not has_type(read, hint) else read


def as_plain(value: Any) -> Any:
    """Values for YAML and JSON: `{"trainer.name": …}` as `{"trainer": {"name": …}}` at the top, paths as texts."""
    if isinstance(value, Mapping):
        return {str(key): as_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by option names as a file holds them: `{"trainer.name": "ppo"}` as `{"trainer": {"name": "ppo"}}`."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        place, *parts = found, *name.split(".")
        for part in parts[:-1]:
            place = place.setdefault(part, {})
        place[parts[-1]] = as_plain(value)
    return found
