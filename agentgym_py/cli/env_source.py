"""A world that is not installed, from its source: `FILE.py`, `FILE.py:Class` or `module:Class`."""

from __future__ import annotations

import inspect
import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType

import gymnasium

from agentgym_py.env import TextEnv, registration
from agentgym_py.errors import UnknownNameError, did_you_mean


def resolve_env(name: str) -> str:
    """The name of a world as it is; where it is its source, the class's Gymnasium id, under which it is registered.

    Raises:
        UnknownNameError: no such file, module or class, or it does not load.
    """
    place, _, wanted = name.partition(":")
    if not place.endswith(".py") and (not wanted or wanted in gymnasium.registry):
        return name
    module = _import(place)
    worlds = {key: each for key, each in vars(module).items() if _is_world(each)}
    own = [each for each in worlds.values() if each.__module__ == module.__name__]
    if wanted in worlds:
        return registration.id_of(worlds[wanted])
    if wanted or len(own) != 1:
        what = f"has no world {wanted!r}" if wanted else f"defines {len(own)} worlds: name one as {place}:Class"
        if not worlds:
            raise UnknownNameError(f"{place} defines no world: a world is a subclass of TextEnv.")
        raise UnknownNameError(f"{place} {what}." + did_you_mean(wanted, worlds, "There are"))
    return registration.id_of(own[0])


def _is_world(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, TextEnv) and not value.__module__.startswith("agentgym_py.")


def _describe(error: BaseException) -> str:
    """What was raised, and where, in a line."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    file, line, said = last.filename, last.lineno, str(error)
    if isinstance(error, SyntaxError):
        file, line, said = str(error.filename), error.lineno, error.msg
    where = "" if file.startswith("<") else f" ({file}, line {line})"
    return f"{type(error).__name__}: {said}{where}"


def _import(place: str) -> ModuleType:
    path = Path(place).absolute() if place.endswith(".py") else None
    if path and not path.is_file():
        raise UnknownNameError(f"There is no file {place!r}.")
    name, folder = (path.stem, path.parent) if path else (place, Path.cwd())
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # where processes of a check look, too
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:  # a stranger's module may do anything at import
        raise UnknownNameError(f"{place} does not load: {_describe(error)}") from error
    if path and not path.samefile(module.__file__ or ""):
        raise UnknownNameError(f"{place} cannot be loaded: {name!r} is also the name of {module.__file__}")
    return module
