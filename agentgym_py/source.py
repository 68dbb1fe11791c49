"""Classes of one's own by their source, instead of an installed name: `FILE.py`, `FILE.py:Class` or `module:Class`."""

from __future__ import annotations

import hashlib
import inspect
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from agentgym_py.errors import UnknownNameError, did_you_mean


def is_source(name: str) -> bool:
    """Whether a name is a source; `module:AgentShop-v0`, as `gymnasium.make` takes it, is none."""
    place, _, wanted = name.partition(":")
    return place.endswith(".py") or (bool(place) and wanted.isidentifier())


def absolute(name: str) -> str:
    """The name; of a file with its whole path, so that it can be read again from another folder."""
    place, colon, wanted = name.partition(":")
    return f"{Path(place).absolute()}{colon}{wanted}" if place.endswith(".py") else name


def file_of(name: str) -> Path:
    """The file of a source, which is imported if it is a module."""
    place = name.partition(":")[0]
    return Path(place).absolute() if place.endswith(".py") else Path(import_source(place).__file__ or "")


def digest(path: Path) -> str:
    """SHA-256 of a source's file; what it imports does not count."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load(name: str, noun: str, rule: str, fits: Callable[[type], bool]) -> Any:
    """The class of a source; without a class in the name the only one in the file that `fits`.

    Errors call it by its `noun`, and say with the `rule` what one is.

    Raises:
        UnknownNameError: there is no such file, module or class, or it does not load.
    """
    place, _, wanted = name.partition(":")
    module = import_source(place)
    classes = {key: each for key, each in vars(module).items() if inspect.isclass(each) and fits(each)}
    own = [each for each in classes.values() if each.__module__ == module.__name__]
    if wanted in classes:
        return classes[wanted]
    if not classes:
        raise UnknownNameError(f"{place} defines no {noun}: {rule}.")
    if wanted:
        raise UnknownNameError(f"{place} has no {noun} {wanted!r}." + did_you_mean(wanted, classes, "There are"))
    if len(own) != 1:
        several = f"{place} defines {len(own)} {noun}s: name one as {place}:Class."
        raise UnknownNameError(several + did_you_mean("", classes, "There are"))
    return own[0]


def import_source(place: str) -> ModuleType:
    """The module of a file or of a dotted name, whose folder stays on `sys.path`, where spawned processes look too.

    Raises:
        UnknownNameError: there is none, or it does not load.
    """
    path = Path(place).absolute() if place.endswith(".py") else None
    if path and not path.is_file():
        raise UnknownNameError(f"There is no file {place!r}.")
    name, folder = (path.stem, path.parent) if path else (place, Path.cwd())
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:  # a stranger's module may do anything at import
        raise UnknownNameError(f"{place} does not load: {_describe(error)}") from error
    if path and not (module.__file__ and path.samefile(module.__file__)):
        raise UnknownNameError(f"{place} cannot be loaded: {name!r} is also the name of {module.__file__}")
    return module


def _describe(error: BaseException) -> str:
    """What was raised, and where, in a line."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    file, line, what = last.filename, last.lineno, str(error)
    if isinstance(error, SyntaxError):
        file, line, what = str(error.filename), error.lineno, error.msg
    where = "" if file.startswith("<") else f" ({file}, line {line})"
    return f"{type(error).__name__}: {what}{where}"
