"""Find the plugins of every `Group`, such as environments: installed ones by their entry points, others by source."""

from __future__ import annotations

import hashlib
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import Any, Literal

from agentgym_py import trust
from agentgym_py.errors import UnknownNameError, did_you_mean
from agentgym_py.files import read_bytes

Group = Literal[
    "agentgym.envs", "agentgym.trainers", "agentgym.agents", "agentgym.rewards", "agentgym.curricula",
    "agentgym.coresets", "agentgym.step_kinds",
    "agentgym.feedback", "agentgym.reflections", "agentgym.credit",
]  # fmt: skip
_NOUN = {
    "agentgym.envs": "environment", "agentgym.trainers": "trainer", "agentgym.agents": "agent",
    "agentgym.rewards": "reward function", "agentgym.curricula": "curriculum",
    "agentgym.coresets": "coreset", "agentgym.step_kinds": "kind function",
    "agentgym.feedback": "feedback source", "agentgym.reflections": "reflection",
    "agentgym.credit": "credit estimator",
}  # fmt: skip


def _is_env(value: Any) -> bool:
    if not inspect.isclass(value) or value.__module__.startswith("agentgym_py."):
        return False
    return any(base.__name__ == "TextEnv" for base in value.__mro__[1:])


def _is_trainer(value: Any) -> bool:
    return inspect.isclass(value) and is_dataclass(value) and not {"train", "improve"}.isdisjoint(dir(value))


def _is_agent(value: Any) -> bool:
    if not inspect.isclass(value):
        return False
    return "act" in dir(value) and "Protocol" not in [base.__name__ for base in value.__bases__]


def _is_curriculum(value: Any) -> bool:
    return inspect.isclass(value) and is_dataclass(value) and "weights" in dir(value)


def _is_coreset(value: Any) -> bool:
    return inspect.isclass(value) and "Coreset" in [base.__name__ for base in value.__mro__[1:]]


def _is_step_kind(value: Any) -> bool:
    return inspect.isfunction(value) and not value.__name__.startswith("_")


def _is_feedback_source(value: Any) -> bool:
    return inspect.isclass(value) and is_dataclass(value) and "feedback" in dir(value)


def _is_reflection(value: Any) -> bool:
    return inspect.isclass(value) and is_dataclass(value) and "reflect" in dir(value)


def _is_reward(value: Any) -> bool:
    if isinstance(value, partial):
        return True
    is_callable = inspect.isfunction(value) or (inspect.isclass(value) and "__call__" in vars(value))
    return is_callable and not value.__name__.startswith("_")


_SOURCE_RULES: Mapping[Group, tuple[str, Callable[[Any], bool]]] = {
    "agentgym.envs": ("an environment is a subclass of TextEnv", _is_env),
    "agentgym.trainers": ("a trainer is a dataclass with a method train or improve", _is_trainer),
    "agentgym.agents": ("an agent is a class with a method act", _is_agent),
    "agentgym.rewards": ("a reward function is a function, or a class with a method __call__", _is_reward),
    "agentgym.curricula": ("a curriculum is a dataclass with a method weights", _is_curriculum),
    "agentgym.coresets": ("a coreset is a subclass of Coreset", _is_coreset),
    "agentgym.step_kinds": ("a kind function takes a trajectory and the number of a step", _is_step_kind),
    "agentgym.feedback": ("a feedback source is a dataclass with a method feedback", _is_feedback_source),
    "agentgym.reflections": ("a reflection is a dataclass with a method reflect", _is_reflection),
    "agentgym.credit": ("a credit estimator is a function, or a class with a method __call__", _is_reward),
}
"""What of a source belongs to a group, in words and as a test."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One installed entry point."""

    name: str
    """The registered name; the Gymnasium id of an environment."""
    target: str
    """`module:attribute`."""
    package: str
    """The distribution that contains it."""
    broken: str | None = None
    """Why it does not load; None if it does, or was not tried."""


@cache
def entry_points_of(group: Group) -> dict[str, EntryPoint]:
    """Find the entry points of a group by name; nothing is imported."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        first = points.setdefault(point.name, point)
        if first.value != point.value:
            both = f"{_package(first)} and {_package(point)}"
            warn(f"Two packages register {point.name!r} in {group}, {both}; {first.value} is used")
    return points


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else ""


def warn(message: str) -> None:
    """Warn in one line, without a line of source, which would belong to the importing code."""
    warnings.warn_explicit(message, UserWarning, "agentgym_py", 0)


def names(group: Group) -> list[str]:
    """Return the registered names of a group, sorted; nothing is imported."""
    return sorted(entry_points_of(group))


def installed_target(env_id: str) -> str | None:
    """Return `module:attribute` of an installed environment; None if it is not installed."""
    point = entry_points_of("agentgym.envs").get(env_id)
    return point.value if point else None


def load(group: Group, name: str) -> Any:
    """Import a plugin by its name or its source: `FILE.py`, `FILE.py:Class`, `module:Class`.

    Raises:
        UnknownNameError: it is not installed, or does not load.
    """
    points = entry_points_of(group)
    if name not in points and is_source(name):
        return load_source(group, name)
    if name not in points:
        raise unknown_name(group, name, points)
    point = points[name]
    try:
        return point.load()
    except (Exception, SystemExit) as error:  # a foreign module may do anything at import
        raise UnknownNameError(f"The {_NOUN[group]} {name!r} ({point.value}) does not load: {error!r}") from error


def unknown_name(group: Group, name: str, choices: Iterable[str], there_is: str = "Installed") -> UnknownNameError:
    """Return the error for a name that is not installed, which lists `choices` after the words `there_is`."""
    return UnknownNameError(f"No {_NOUN[group]} {name!r} is installed." + did_you_mean(name, choices, there_is))


def plugins(group: Group, check: Callable[[str, Any], str | None] = lambda name, target: None) -> list[Plugin]:
    """Load every plugin of a group; warn about one that does not load, or for which `check` returns a problem."""
    loaded = []
    for name, point in sorted(entry_points_of(group).items()):
        try:
            target = point.load()
            broken = check(name, target)
        except (Exception, SystemExit) as error:  # a foreign module may do anything at import
            broken = repr(error)
        if broken:
            warn(f"{_NOUN[group]} plugin {name!r} ({point.value}) is broken: {broken}")
        loaded.append(Plugin(name, point.value, _package(point), broken))
    return loaded


def install_advice(extra: str, package: Path = Path(__file__).parent) -> str:
    """Return the command that installs an extra of this package, from its clone if it runs from one."""
    clone = package.parent
    if (clone / "pyproject.toml").is_file() and (clone / "constraints.txt").is_file():
        return f'cd {quote(str(clone))} && pip install -c constraints.txt -e ".[{extra}]"'
    return f"pip install 'agentgym-py[{extra}]' (where it came as a file or folder: pip install 'PATH[{extra}]')"


# ---- sources: FILE.py, FILE.py:Class, module:Class ------------------------------------------------------------------


def is_source(name: str) -> bool:
    """Return whether a name is a source; `module:AgentShop-v0`, as `gymnasium.make` takes it, is not."""
    place, _, class_name = name.partition(":")
    return place.endswith(".py") or (bool(place) and class_name.isidentifier())


def absolute_source(name: str) -> str:
    """Return a source with the absolute path of its file, so that it is valid in other folders too."""
    place, colon, class_name = name.partition(":")
    return f"{Path(place).absolute()}{colon}{class_name}" if place.endswith(".py") else name


def source_file(name: str) -> Path:
    """Return the file of a source; a module is imported."""
    place = name.partition(":")[0]
    return Path(place).absolute() if place.endswith(".py") else Path(import_source(place).__file__ or "")


def source_digest(path: Path) -> str:
    """Return the SHA-256 of a source's file, without what it imports; OSError as `read_bytes`."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def load_source(group: Group, name: str) -> Any:
    """Return the class or function of a source; without a name of it, the only one of the group in the file.

    Raises:
        UnknownNameError: there is no such file, module, class or function, or it does not load.
    """
    place, _, wanted = name.partition(":")
    noun, (rule, is_member) = _NOUN[group], _SOURCE_RULES[group]
    module = import_source(place)
    members = {key: value for key, value in vars(module).items() if is_member(value)}
    defined_here = [value for value in members.values() if value.__module__ == module.__name__]
    if wanted in members:
        return members[wanted]
    if not members:
        raise UnknownNameError(f"{place} defines no {noun}: {rule}.")
    there_are = did_you_mean(wanted, members, "There are")
    if wanted:
        raise UnknownNameError(f"{place} has no {noun} {wanted!r}.{there_are}")
    if len(defined_here) != 1:
        kind = "name" if group in ("agentgym.rewards", "agentgym.step_kinds", "agentgym.credit") else "Class"
        raise UnknownNameError(f"{place} defines {len(defined_here)} {noun}s: name one as {place}:{kind}.{there_are}")
    return defined_here[0]


def import_source(place: str) -> ModuleType:
    """Import a file or a dotted name; its folder stays on `sys.path`, because spawned processes import it too.

    Raises:
        ConfigError: only a file names it; see `trust`.
        UnknownNameError: it does not exist, or does not load.
    """
    trust.require_source(place)
    path = Path(place).absolute() if place.endswith(".py") else None
    if path and not path.is_file():
        raise UnknownNameError(f"{place}: no such file")
    name, folder = (path.stem, path.parent) if path else (place, Path.cwd())
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:  # a stranger's module may do anything at import
        raise UnknownNameError(f"{place} does not load: {describe_error(error)}") from error
    if path and not (module.__file__ and path.samefile(module.__file__)):
        known = f"{name!r} is also the name of {module.__file__}; rename one of the two"
        raise UnknownNameError(f"{place} cannot be loaded: {known}")
    return module


def describe_error(error: BaseException) -> str:
    """Return an error and its place, in one line."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    file, line, message = last.filename, last.lineno, str(error)
    if isinstance(error, SyntaxError):
        file, line, message = str(error.filename), error.lineno, error.msg
    where = "" if file.startswith("<") else f" ({file}, line {line})"
    return f"{type(error).__name__}: {message}{where}"
