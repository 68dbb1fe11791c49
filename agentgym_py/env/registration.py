"""Environments by name: registration with Gymnasium, short names, ids."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from agentgym_py.errors import UnknownNameError, did_you_mean
from agentgym_py.registry import Plugin, absolute_source, entry_points_of, is_source, load, names, plugins, warn

if TYPE_CHECKING:
    from agentgym_py.env.base import TextEnv


SOURCES = "AGENTGYM_ENVS"
"""Environment variable with the sources of worlds of one's own, separated by semicolons. Processes that this one starts
find them there."""
REMOTE = "AgentRemote-v0"
"""Any world of an environment server (`agentgym_py.serving`): not installed as one, for it needs a server's address."""


def env_plugins() -> list[Plugin]:
    """Load every environment plugin; warn of one that does not load or is no `TextEnv`."""
    return plugins("agentgym.envs", _no_world)


def _no_world(name: str, target: Any) -> str | None:
    """Why a world's entry point is none, or None where it is one; a function that makes worlds is not called."""
    from agentgym_py.env.base import TextEnv

    if not callable(target) or (inspect.isclass(target) and not issubclass(target, TextEnv)):
        return "it is no TextEnv"
    return _no_version(name)


def _no_version(name: str) -> str | None:
    return None if re.search(r"-v\d+$", name) else f"its id has no version, as {name}-v0 has"


def short_name(env_id: str) -> str:
    """The name that the command line uses: `AgentShop-v0` is `shop`."""
    return env_id.removeprefix("Agent").rsplit("-v", 1)[0].lower()


def env_id(name: str) -> str:
    """The Gymnasium id of a short name, of an id that is installed or registered by hand, or of a source.

    Raises:
        UnknownNameError: there is no such environment.
    """
    import gymnasium

    ids = names("agentgym.envs")
    if name in ids or name in gymnasium.registry:
        return name
    if is_source(name):
        return register_source(name)
    by_short = {short_name(each): each for each in (REMOTE, *ids)}
    if name in by_short:
        return by_short[name]
    by_short = {short_name(each): each for each in _registered_by_hand()} | by_short
    if name in by_short:
        return by_short[name]
    if _register_named_sources():
        return env_id(name)
    near = did_you_mean(short_name(name), by_short)
    raise UnknownNameError(f"No environment {name!r} is installed.{near} Your own is named by its file: --env FILE.py.")


def register_source(name: str) -> str:
    """The Gymnasium id of the world of a source, `FILE.py[:Class]` or `module:Class`, under which it is registered.

    Processes that are started from here on know it by that id.

    Raises:
        UnknownNameError: no such file, module or class, or it does not load.
    """
    found = registered_id(load("agentgym.envs", name))
    _sources[absolute_source(name)] = found
    named = dict.fromkeys([*os.environ.get(SOURCES, "").split(";"), absolute_source(name)])
    os.environ[SOURCES] = ";".join(filter(None, named))
    return found


def source_of(env_id: str) -> str | None:
    """The source of a world by its id; None if it was not registered by its source."""
    return next((source for source, known in reversed(_sources.items()) if known == env_id), None)


def _register_named_sources() -> bool:
    """Register the worlds of the environment variable, which another process has set; whether one was new."""
    new = False
    for name in filter(None, os.environ.get(SOURCES, "").split(";")):
        if absolute_source(name) not in _sources:
            with suppress(UnknownNameError):  # it is gone: who asks for its world is told so
                register_source(name)
                new = True
    return new


_sources: dict[str, str] = {}
"""The ids under which worlds are registered, by their sources."""


def _registered_by_hand() -> Iterator[str]:
    """The ids of worlds that a script has told Gymnasium itself; nothing is imported."""
    import gymnasium

    from agentgym_py.env.base import TextEnv

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


def registered_id(world: type[TextEnv]) -> str:
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
    for name, point in entry_points_of("agentgym.envs").items():
        if name in gymnasium.registry:
            continue
        if wrong := _no_version(name):
            warn(f"environment plugin {name!r} ({point.value}) is broken: {wrong}")
            continue
        try:
            gymnasium.register(id=name, entry_point=point.value)
        except gymnasium.error.Error as error:  # a stranger's name must not break the import of this package
            warn(f"environment plugin {name!r} ({point.value}) is broken: {error}")
