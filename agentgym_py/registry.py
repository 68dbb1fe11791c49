"""What is installed: environments, trainers and agents, found by name through entry points."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, cast

from agentgym_py.errors import UnknownNameError, did_you_mean

if TYPE_CHECKING:
    from agentgym_py.env import TextEnv

Group = Literal["agentgym.envs", "agentgym.trainers", "agentgym.agents"]
REMOTE = "AgentRemote-v0"
"""Any world of an environment server (`agentgym_py.serving`): not installed as one, for it needs a server's address."""
_NOUN = {"agentgym.envs": "environment", "agentgym.trainers": "trainer", "agentgym.agents": "agent"}


@dataclass(frozen=True, slots=True)
class Plugin:
    """One installed entry point."""

    name: str
    """The registered name, for an environment its Gymnasium id."""
    target: str
    """`module:attribute`."""
    package: str
    """The distribution that brings it."""
    broken: str | None = None
    """Why it cannot be loaded; None when it can, or when nobody tried."""


@cache
def _points(group: Group) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        if point.name in found and found[point.name].value != point.value:
            used = found[point.name]
            both = f"{_package(used)} and {_package(point)}"
            _warn(f"Two packages register {point.name!r} in {group}, {both}; {used.value} is used")
            continue
        found[point.name] = point
    return found


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else ""


def _warn(message: str) -> None:
    """In one line: whose import it was, and the source of that line, say nothing here."""
    warnings.warn_explicit(message, UserWarning, "agentgym_py", 0)


def names(group: Group) -> list[str]:
    """The registered names of a group, sorted; nothing is imported."""
    return sorted(_points(group))


def installed(env_id: str) -> str | None:
    """`module:attribute` of the installed environment of that id; None where there is none."""
    point = _points("agentgym.envs").get(env_id)
    return point.value if point else None


def load(group: Group, name: str) -> Any:
    """Import the plugin of that name.

    Raises:
        UnknownNameError: not installed, or installed and broken; the message says which.
    """
    points = _points(group)
    if name not in points:
        raise UnknownNameError(f"No {_NOUN[group]} {name!r} is installed." + did_you_mean(name, points))
    point = points[name]
    try:
        return point.load()
    except (Exception, SystemExit) as error:  # a stranger's module may do anything at import
        raise UnknownNameError(f"The {_NOUN[group]} {name!r} ({point.value}) does not load: {error!r}") from error


def plugins(group: Group) -> list[Plugin]:
    """Every plugin of a group, each tried; a broken one warns and says why."""
    found = []
    for name, point in sorted(_points(group).items()):
        try:
            target = point.load()
            broken = _no_world(name, target) if group == "agentgym.envs" else None
        except (Exception, SystemExit) as error:  # a stranger's module may do anything at import
            broken = repr(error)
        if broken:
            _warn(f"{_NOUN[group]} plugin {name!r} ({point.value}) is broken: {broken}")
        found.append(Plugin(name, point.value, _package(point), broken))
    return found


def _no_world(name: str, target: Any) -> str | None:
    """Why a world's entry point is none, or None where it is one; a function that makes worlds is not called."""
    from agentgym_py.env import TextEnv

    if not callable(target) or (inspect.isclass(target) and not issubclass(target, TextEnv)):
        return "it is no TextEnv"
    return _no_version(name)


def _no_version(name: str) -> str | None:
    return None if re.search(r"-v\d+$", name) else f"its id has no version, as {name}-v0 has"


def short_name(env_id: str) -> str:
    """The name that the command line uses: `AgentShop-v0` is `shop`."""
    return env_id.removeprefix("Agent").rsplit("-v", 1)[0].lower()


def env_id(name: str) -> str:
    """The Gymnasium id of a short name, or of an id that is installed or registered with Gymnasium by hand.

    Raises:
        UnknownNameError: there is no such environment.
    """
    import gymnasium

    ids = names("agentgym.envs")
    if name in ids or name in gymnasium.registry:
        return name
    by_short = {short_name(each): each for each in (REMOTE, *ids)}
    if name in by_short:
        return by_short[name]
    by_short = {short_name(each): each for each in _registered_by_hand()} | by_short
    if name in by_short:
        return by_short[name]
    raise UnknownNameError(f"No environment {name!r} is installed." + did_you_mean(short_name(name), by_short))


def _registered_by_hand() -> Iterator[str]:
    """The ids of worlds that a script has told Gymnasium itself; nothing is imported."""
    import gymnasium

    from agentgym_py.env import TextEnv

    for name, known in gymnasium.registry.items():
        made: Any = known.entry_point
        if isinstance(made, str):
            module, _, attribute = made.partition(":")
            made = getattr(sys.modules.get(module), attribute, None)
        if inspect.isclass(made) and issubclass(made, TextEnv):
            yield name


def target_of(env_id: str) -> str:
    """`module:attribute` of what makes a registered environment."""
    import gymnasium

    point = gymnasium.registry[env_id].entry_point
    if isinstance(point, str):
        return point
    return f"{getattr(point, '__module__', '__main__')}:{getattr(point, '__qualname__', '')}"


def id_of(world: type[TextEnv]) -> str:
    """The Gymnasium id of a world's class, which is registered if it is not: as its card calls it, else by its name.

    An id that a class of the same name has elsewhere, as in an installed copy of the file, is this class's from now on.
    """
    import gymnasium

    target, made = f"{world.__module__}:{world.__qualname__}", cast(Any, world)
    for name, known in gymnasium.registry.items():
        if target_of(name) == target:
            if not isinstance(known.entry_point, str):
                known.entry_point = made  # a notebook has defined it again
            return name

    def free(name: str) -> bool:
        return name not in gymnasium.registry or target_of(name).partition(":")[2] == world.__qualname__

    said = [each[0] for each in re.finditer(r"\b\w+-v\d+\b", world.__doc__ or "")]
    chosen = next(filter(free, said), f"{world.__name__}-v{world.version}")
    register(chosen, made)
    return chosen


def register(env_id: str, target: Any) -> None:
    """Have Gymnasium make `env_id` by `target`, whoever has made it before."""
    import gymnasium

    gymnasium.registry.pop(env_id, None)  # else Gymnasium warns
    gymnasium.register(id=env_id, entry_point=target)


def register_envs() -> None:
    """Tell Gymnasium the installed environments by name; none of their modules is imported."""
    import gymnasium

    if REMOTE not in gymnasium.registry:
        gymnasium.register(id=REMOTE, entry_point="agentgym_py.serving.client:RemoteEnv")
    for name, point in _points("agentgym.envs").items():
        if name in gymnasium.registry:
            continue
        if wrong := _no_version(name):
            _warn(f"environment plugin {name!r} ({point.value}) is broken: {wrong}")
            continue
        try:
            gymnasium.register(id=name, entry_point=point.value)
        except gymnasium.error.Error as error:  # a stranger's name must not break the import of this package
            _warn(f"environment plugin {name!r} ({point.value}) is broken: {error}")


def install_advice(extra: str, package: Path = Path(__file__).parent) -> str:
    """The command that gets an extra of this package: in its clone where it is used from there."""
    clone = package.parent
    if (clone / "pyproject.toml").is_file() and (clone / "constraints.txt").is_file():
        return f'cd {quote(str(clone))} && pip install -c constraints.txt -e ".[{extra}]"'
    return f"pip install 'agentgym-py[{extra}]' (where it came as a file or folder: pip install 'PATH[{extra}]')"
