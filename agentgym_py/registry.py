"""Find environments, trainers and agents: installed ones by name, through entry points, others by their source."""

from __future__ import annotations

import hashlib
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import Any, Literal

from agentgym_py.errors import UnknownNameError, did_you_mean

Group = Literal["agentgym.envs", "agentgym.trainers", "agentgym.agents"]
_NOUN = {"agentgym.envs": "environment", "agentgym.trainers": "trainer", "agentgym.agents": "agent"}


def _is_env(found: type) -> bool:
    own = not found.__module__.startswith("agentgym_py.")
    return own and any(base.__name__ == "TextEnv" for base in found.__mro__[1:])


def _is_trainer(found: type) -> bool:
    return is_dataclass(found) and not {"train", "improve"}.isdisjoint(dir(found))


def _is_agent(found: type) -> bool:
    return "act" in dir(found) and "Protocol" not in [base.__name__ for base in found.__bases__]


_RULES = {
    "agentgym.envs": "an environment is a subclass of TextEnv",
    "agentgym.trainers": "a trainer is a dataclass with a method train or improve",
    "agentgym.agents": "an agent is a class with a method act",
}
_FITS: Mapping[str, Callable[[type], bool]] = {
    "agentgym.envs": _is_env, "agentgym.trainers": _is_trainer, "agentgym.agents": _is_agent,
}  # fmt: skip
"""Which classes of a source are of a group."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One installed entry point."""

    name: str
    """The registered name; of an environment its Gymnasium id."""
    target: str
    """`module:attribute`."""
    package: str
    """The distribution that contains it."""
    broken: str | None = None
    """Why it cannot be loaded; None if it can, or was not tried."""


@cache
def entry_points_of(group: Group) -> dict[str, EntryPoint]:
    """Find the entry points of a group, by name; nothing is imported."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        if point.name in found and found[point.name].value != point.value:
            used = found[point.name]
            both = f"{_package(used)} and {_package(point)}"
            warn(f"Two packages register {point.name!r} in {group}, {both}; {used.value} is used")
            continue
        found[point.name] = point
    return found


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else ""


def warn(message: str) -> None:
    """Warn in one line, without a source line, which would be of the importing code."""
    warnings.warn_explicit(message, UserWarning, "agentgym_py", 0)


def names(group: Group) -> list[str]:
    """The registered names of a group, sorted; nothing is imported."""
    return sorted(entry_points_of(group))


def installed(env_id: str) -> str | None:
    """`module:attribute` of the installed environment of that id; None without one."""
    point = entry_points_of("agentgym.envs").get(env_id)
    return point.value if point else None


def load(group: Group, name: str) -> Any:
    """Import the plugin of that name, or of that source: `FILE.py`, `FILE.py:Class`, `module:Class`.

    Raises:
        UnknownNameError: not installed, or installed and broken; the message says which.
    """
    points = entry_points_of(group)
    if name not in points and is_source(name):
        return load_source(name, _NOUN[group], _RULES[group], _FITS[group])
    if name not in points:
        raise UnknownNameError(f"No {_NOUN[group]} {name!r} is installed." + did_you_mean(name, points))
    point = points[name]
    try:
        return point.load()
    except (Exception, SystemExit) as error:  # a foreign module may do anything at import
        raise UnknownNameError(f"The {_NOUN[group]} {name!r} ({point.value}) does not load: {error!r}") from error


def plugins(group: Group, check: Callable[[str, Any], str | None] = lambda name, target: None) -> list[Plugin]:
    """Load every plugin of a group; warn of a broken one, also if `check` says what is wrong with it."""
    found = []
    for name, point in sorted(entry_points_of(group).items()):
        try:
            target = point.load()
            broken = check(name, target)
        except (Exception, SystemExit) as error:  # a foreign module may do anything at import
            broken = repr(error)
        if broken:
            warn(f"{_NOUN[group]} plugin {name!r} ({point.value}) is broken: {broken}")
        found.append(Plugin(name, point.value, _package(point), broken))
    return found


def install_advice(extra: str, package: Path = Path(__file__).parent) -> str:
    """The command that installs an extra of this package: in its clone if the package runs from there."""
    clone = package.parent
    if (clone / "pyproject.toml").is_file() and (clone / "constraints.txt").is_file():
        return f'cd {quote(str(clone))} && pip install -c constraints.txt -e ".[{extra}]"'
    return f"pip install 'agentgym-py[{extra}]' (where it came as a file or folder: pip install 'PATH[{extra}]')"


# ---- sources: FILE.py, FILE.py:Class, module:Class ------------------------------------------------------------------


def is_source(name: str) -> bool:
    """Whether a name is a source; `module:AgentShop-v0`, as `gymnasium.make` takes it, is none."""
    place, _, wanted = name.partition(":")
    return place.endswith(".py") or (bool(place) and wanted.isidentifier())


def absolute_source(name: str) -> str:
    """The name; of a file with its whole path, so that it can be read again from another folder."""
    place, colon, wanted = name.partition(":")
    return f"{Path(place).absolute()}{colon}{wanted}" if place.endswith(".py") else name


def source_file(name: str) -> Path:
    """The file of a source, which is imported if it is a module."""
    place = name.partition(":")[0]
    return Path(place).absolute() if place.endswith(".py") else Path(import_source(place).__file__ or "")


def source_digest(path: Path) -> str:
    """SHA-256 of a source's file; what it imports does not count."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_source(name: str, noun: str, rule: str, fits: Callable[[type], bool]) -> Any:
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
