"""Texts of a command line and objects of a YAML file as values of an annotated type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import yaml

from agentgym_py.checks import TYPE_NAMES, has_type
from agentgym_py.errors import nearest
from agentgym_py.files import parse_yaml

_NAMES = TYPE_NAMES | {NoneType: "null"}

PLUGINS = ("trainer", "curriculum", "coreset", "source", "critic", "reflection", "judge")
"""Settings that name a plugin, whose own settings are options such as `trainer.learning_rate`."""


class _Loader(yaml.SafeLoader):
    """YAML in which `1e-4` is a number, as in version 1.2."""


_FLOAT = re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?([eE][-+]?\d+)?|\.\d[\d_]*([eE][-+]?\d+)?|\.inf|\.Inf|\.nan|\.NaN)$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


def load_yaml(text: str) -> Any:
    """Parse YAML; `trainer: NAME` is short for `trainer: {name: NAME}`, also for the other `PLUGINS`.

    Raises:
        ValueError: it is not YAML.
    """
    value = parse_yaml(text, _Loader)
    return expand_plugins(value) if isinstance(value, dict) else value


def expand_plugins(settings: Mapping[Any, Any]) -> dict[Any, Any]:
    """Write `trainer: NAME` as `trainer: {name: NAME}`, and so on for all `PLUGINS`; null is no plugin."""
    return {
        key: {"name": value} if key in PLUGINS and isinstance(value, str | None) else value
        for key, value in settings.items()
    }


def plugin_names(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the `PLUGINS` in nested settings."""
    expanded = expand_plugins(settings)
    names = {key: group.get("name") for key in PLUGINS if isinstance(group := expanded.get(key), Mapping)}
    return {key: name for key, name in names.items() if isinstance(name, str)}


def convert(value: Any, hint: Any) -> Any:
    """Convert a text or an object to the type `hint`.

    Raises:
        ValueError: it has another type; the message says what is expected.
    """
    parsed = parse_scalar(value, hint) if isinstance(value, str) and is_mapping_type(hint) else value
    if isinstance(parsed, Mapping) and is_mapping_type(hint):
        inner = next((get_args(part)[1] for part in _alternatives(hint) if get_args(part)), Any)
        return {str(key): item if inner is Any else convert(item, inner) for key, item in parsed.items()}
    for alternative in _alternatives(hint):
        try:
            return _convert(value, alternative)
        except (TypeError, ValueError, OverflowError):  # int(1e400)
            continue
    choices = choices_of(hint)
    one_of = f"one of {', '.join(choices)}" if len(choices) > 1 else "".join(choices)
    expected, near = one_of or " or ".join(map(_type_name, _parts(hint))), nearest(str(value), choices)
    raise ValueError(f"expected {expected}, got {value!r:.100}" + (f"; did you mean {near}?" if near else ""))


def _convert(value: Any, hint: Any) -> Any:
    """Convert `value` to one type that is not a union."""
    origin = get_origin(hint) or hint
    if origin is Literal:
        return _require(value in get_args(hint), value)
    if hint is str or hint is Path:
        return _require(isinstance(value, str | Path), value)
    if hint is NoneType:
        return _require(value is None or value == "null", None)
    if hint in (int, float):
        _require(not isinstance(value, bool) and (hint is float or not isinstance(value, float)), value)
        number = parse_scalar(value, hint) if isinstance(value, str) else value
        return _require(hint is float or int(number) == number, hint(number))
    if isinstance(value, str):
        value = parse_scalar(value, hint)
    return _require(isinstance(value, bool) if hint is bool else has_type(value, hint), value)


def _require(condition: bool, value: Any) -> Any:
    if not condition:
        raise ValueError
    return value


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the parts of a union: None first, because `null` is not a name; text last, because it takes anything."""
    return tuple(sorted(_parts(hint), key=lambda part: (part is not NoneType, part in (str, Path))))


def _parts(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def choices_of(hint: Any) -> list[str]:
    """Return the values that a `Literal` lists."""
    return [str(value) for part in _alternatives(hint) if get_origin(part) is Literal for value in get_args(part)]


def is_mapping_type(hint: Any) -> bool:
    """Return whether a type, or a part of a union, is a mapping."""
    return any((get_origin(part) or part) in (dict, Mapping) for part in _alternatives(hint))


def metavar_of(hint: Any, name: str = "text") -> str:
    """Return the placeholder for a value in help texts: `INT`, `all|last`, or `name` in capitals for a text."""
    if choices := choices_of(hint):
        return "|".join(choices)
    if is_mapping_type(hint):
        return "NAME VALUE"
    if get_origin(hint) is list:
        return f"{metavar_of(get_args(hint)[0], name)},..."
    metavars = {bool: "true|false", int: "INT", float: "FLOAT", Path: "PATH", str: name.upper()}
    return next((metavars[part] for part in _alternatives(hint) if part in metavars), "VALUE")


def _type_name(hint: Any) -> str:
    origin = get_origin(hint) or hint
    return _NAMES.get(origin) or str(getattr(origin, "__name__", origin))


def as_list(value: Any, item: Callable[[Any], Any] = str) -> list[Any]:
    """Return the items of an option that takes several: parts of a text between commas, or a list or item of a file."""
    parts = [part for part in value.split(",") if part] if isinstance(value, str) else value
    try:
        return [item(part) for part in (parts if isinstance(parts, list | tuple) else [parts])]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{value!r} is not what it takes ({error})") from error


def parse_scalar(value: Any, hint: Any = Any) -> Any:
    """Parse a text as a YAML scalar, unless only the text itself fits the type."""
    try:
        parsed = parse_yaml(value, _Loader) if isinstance(value, str) else value
    except ValueError:
        return value
    return value if has_type(value, hint) and not has_type(parsed, hint) else parsed


def as_plain(value: Any) -> Any:
    """Return a value with plain types only, for YAML and JSON."""
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def nest_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nest values by option name as in a file: `{"trainer.name": "ppo"}` becomes `{"trainer": {"name": "ppo"}}`."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        place, *parts = nested, *name.split(".")
        for part in parts[:-1]:
            place = place.setdefault(part, {})
        place[parts[-1]] = as_plain(value)
    return nested


def flatten_options(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by dotted name: the inverse of `nest_options`."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        flat |= flatten_options(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat
