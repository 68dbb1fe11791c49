"""Check arguments of environments, agents and trainers against their annotations."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from agentgym_py.errors import ConfigError, did_you_mean, nearest

T = TypeVar("T")
_BASIC = "basic"
Basic = Annotated[T, _BASIC]
"""Type of a setting that most people set: `rounds: Basic[int] = 3` is shown by `--help`, others by `--help-all`."""
_ABSTRACT: Mapping[Any, type] = {int: Integral, float: Real}  # numpy's numbers count too
_NAMES: Mapping[Any, str] = {bool: "true or false", NoneType: "None"}


@lru_cache(maxsize=256)
def parameters_of(made: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Parameters of a class or function by name, each with its annotation as a type, or as text if that fails."""
    own = made.__init__ if inspect.isclass(made) else made
    try:
        hints = get_type_hints(made if is_dataclass(made) else own)
    except Exception:  # a name that is imported only for type checkers, or anything else
        hints = {}
    taken = list(inspect.signature(own).parameters.values())[inspect.isclass(made) :]
    return {each.name: each.replace(annotation=hints.get(each.name, Any)) for each in taken}


def require_arguments(made: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse arguments that a class or function does not take.

    Raises:
        ConfigError: an unknown name, or a value that is not of the annotated type; names the first.
    """
    taken = parameters_of(made)
    known = [name for name, each in taken.items() if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    takes_all = any(each.kind is each.VAR_KEYWORD for each in taken.values())
    for name, value in given.items():
        if name in known:
            if not fits(value, taken[name].annotation):
                raise ConfigError(_wrong(name, value, taken[name].annotation))
        elif not takes_all:
            meant = did_you_mean(name, known, "It takes")
            raise ConfigError(f"{made.__name__} takes no argument {name!r}.{meant}")


def require_field_types(settings: Any) -> None:
    """Raise ConfigError for the first field of a dataclass whose value is not of its annotated type."""
    require_arguments(type(settings), {each.name: getattr(settings, each.name) for each in fields(settings)})


def require_at_least(settings: object, least: Mapping[str, float]) -> None:
    """Raise ConfigError for the first of the named fields that is not finite or below its minimum."""
    for name, bound in least.items():
        value = getattr(settings, name)
        if not (math.isfinite(value) and value >= bound):
            raise ConfigError(f"{name} must be a number of at least {bound:g}, got {value}")


def require_positive(settings: object, *names: str) -> None:
    """Raise ConfigError for the first of the named fields that is not finite or not above 0."""
    for name in names:
        value = getattr(settings, name)
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"{name} must be a number above 0, got {value}")


def is_basic(hint: Any) -> bool:
    """Whether an annotation is `Basic`."""
    return get_origin(hint) is Annotated and _BASIC in get_args(hint)[1:]


def is_path(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is a file or a folder."""
    return "Path" in str(parameter.annotation)


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of an annotated type, as far as this can be seen; the content of containers is not checked."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if isinstance(value, bool) and hint in _ABSTRACT:
        return False
    try:
        return isinstance(value, _ABSTRACT.get(hint, origin or hint))
    except TypeError:  # no class: a type variable, Any, a protocol
        return True


def _wrong(name: str, value: object, hint: Any) -> str:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    choices = [each for part in parts if get_origin(part) is Literal for each in get_args(part)]
    if choices:
        parts = tuple(part for part in parts if part is not NoneType)
    near = nearest(str(value), [each for each in choices if isinstance(each, str)])
    said = f"{name} must be {' or '.join(map(_said, parts))}, not {value!r}"
    return said + (f". Did you mean {near!r}?" if near else "")


def _said(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    return _NAMES.get(hint) or str(getattr(get_origin(hint) or hint, "__name__", hint))
