"""Check the arguments of environments, agents and trainers against their annotations."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from agentgym_py.errors import ConfigError, did_you_mean, nearest

T = TypeVar("T")
_BASIC = "basic"
Basic = Annotated[T, _BASIC]
"""Marks a common setting: `--help` shows `rounds: Basic[int] = 3`, and `--help-all` the others too."""
_ABSTRACT: Mapping[Any, type] = {int: Integral, float: Real}  # so that numpy's numbers count
TYPE_NAMES: dict[Any, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path", list: "a list",
    dict: "a mapping", NoneType: "None",
}  # fmt: skip
"""Types in the words of error messages."""


@lru_cache(maxsize=256)
def parameters_of(target: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a class or function by name, with their annotations as types (Any if that fails)."""
    function = target.__init__ if inspect.isclass(target) else target
    try:
        hints = get_type_hints(target if is_dataclass(target) else function)
    except Exception:  # a name that is imported only for type checkers, or anything else
        hints = {}
    parameters = list(inspect.signature(function).parameters.values())[inspect.isclass(target) :]
    return {p.name: p.replace(annotation=hints.get(p.name, Any)) for p in parameters}


def require_arguments(target: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that a class or function does not take.

    Raises:
        ConfigError: an unknown name, or a value that is not of the annotated type; names the first.
    """
    parameters = parameters_of(target)
    names = [name for name, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name, value in arguments.items():
        if name in names:
            if not has_type(value, parameters[name].annotation):
                raise ConfigError(_type_error(name, value, parameters[name].annotation))
        elif not takes_all:
            raise ConfigError(f"{target.__name__} takes no argument {name!r}.{did_you_mean(name, names, 'It takes')}")


def require_field_types(settings: Any) -> None:
    """Raise ConfigError for the first field of a dataclass whose value is not of its annotated type."""
    require_arguments(type(settings), {field.name: getattr(settings, field.name) for field in fields(settings)})


def is_finite(value: Any) -> bool:
    """Return whether a value is a finite number; an integer that no float holds is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return bool(abs(value) <= sys.float_info.max)  # type: ignore[operator]  # typeshed's Real lacks it


def require_at_least(settings: object, bounds: Mapping[str, float]) -> None:
    """Raise ConfigError for the first of the named fields that is not finite or below its minimum."""
    for name, bound in bounds.items():
        value = getattr(settings, name)
        if not (is_finite(value) and value >= bound):
            raise ConfigError(f"{name} must be a number of at least {bound:g}, got {value}")


def require_positive(settings: object, *names: str) -> None:
    """Raise ConfigError for the first of the named fields that is not finite or not above 0."""
    for name in names:
        value = getattr(settings, name)
        if not (is_finite(value) and value > 0):
            raise ConfigError(f"{name} must be a number above 0, got {value}")


def is_basic(hint: Any) -> bool:
    """Return whether an annotation is `Basic`."""
    return get_origin(hint) is Annotated and _BASIC in get_args(hint)[1:]


def is_path(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter is a file or a folder."""
    return "Path" in str(parameter.annotation)


def has_type(value: object, hint: Any) -> bool:
    """Return whether a value has an annotated type; the content of containers is not checked."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(has_type(value, member) for member in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if isinstance(value, bool) and hint in _ABSTRACT:
        return False
    try:
        return isinstance(value, _ABSTRACT.get(hint, origin or hint))
    except TypeError:  # not a class: a type variable, Any, a protocol
        return True


def _type_error(name: str, value: object, hint: Any) -> str:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    choices = [choice for part in parts if get_origin(part) is Literal for choice in get_args(part)]
    if choices:
        parts = tuple(part for part in parts if part is not NoneType)
    near = nearest(str(value), [choice for choice in choices if isinstance(choice, str)])
    hint_text = f". Did you mean {near!r}?" if near else ""
    return f"{name} must be {' or '.join(map(_type_text, parts))}, not {value!r:.100}{hint_text}"


def _type_text(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    kind = get_origin(hint) or hint
    return TYPE_NAMES.get(kind) or str(getattr(kind, "__name__", kind))
