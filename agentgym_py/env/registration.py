"""Environments by name: registration with Gymnasium, short names, ids."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from agentgym_py.errors import ConfigError, UnknownNameError, did_you_mean, setting
from agentgym_py.registry import Plugin, absolute_source, entry_points_of, is_source, load, names, plugins, warn

if TYPE_CHECKING:
    from agentgym_py.env.base import TextEnv


SOURCES = "AGENTGYM_ENVS"
"""Environment variable with sources of own worlds, separated by semicolons; child processes read it."""
REMOTE = "AgentRemote-v0"
"""A world on an environment server (`agentgym_py.serving`). No plugin, because it needs the server's address: neither
`agentgym envs list` nor an error lists it."""


def env_plugins() -> list[Plugin]:
    """Load every environment plugin; warn about one that does not load or is no `TextEnv`."""
    return plugins("agentgym.envs", _env_problem)


def _env_problem(name: str, target: Any) -> str | None:
    """What is wrong with an environment's entry point, or None; a function is not called."""
    from agentgym_py.env.base import TextEnv

    if not callable(target) or (inspect.isclass(target) and not issubclass(target, TextEnv)):
        return "it is not a TextEnv"
    return _version_problem(name)


def _version_problem(name: str) -> str | None:
    return None if re.search(r"-v\d+$", name) else f"its id has no version such as {name}-v0"


def short_name(env_id: str) -> str:
    """Return the name that the command line uses: `shop` for `AgentShop-v0`."""
    return env_id.removeprefix("Agent").rsplit("-v", 1)[0].lower()


def env_id(name: str) -> str:
    """Return the Gymnasium id of a short name, an id or a source.

    Raises:
        UnknownNameError: there is no such environment.
    """
    import gymnasium

    ids = names("agentgym.envs")
    if name in ids or name in gymnasium.registry:
        return name
    if is_source(name):
        return register_source(name)
    by_short = {short_name(id_): id_ for id_ in (REMOTE, *ids)}
    if name in by_short:
        return by_short[name]
    by_short = {short_name(id_): id_ for id_ in _ids_in_gymnasium()} | by_short
    if name in by_short:
        return by_short[name]
    if _register_named_sources():
        return env_id(name)
    listed = [short for short, id_ in by_short.items() if id_ != REMOTE]
    near = did_you_mean(short_name(name), listed)
    raise UnknownNameError(f"No environment {name!r} is installed.{near} Name your own by its source, such as FILE.py.")


def stored_env_class(name: str) -> type[TextEnv]:
    """Return the class of the world that a file names; it is known to be a `TextEnv` before anything of it is called.

    Raises:
        ConfigError: the file names a server, a source, or something else that is no installed or registered TextEnv.
        UnknownNameError: there is no such environment.
    """
    from agentgym_py.env.base import TextEnv

    if is_source(name):
        raise ConfigError(f"the file names the Python source {name!r:.100}, which is not run for a stored trajectory")
    try:
        known_id = env_id(name)
    except UnknownNameError as error:
        source = setting("env", "FILE.py")
        raise UnknownNameError(f"No environment {name!r:.100} is installed; name its source: {source}") from error
    if known_id == REMOTE:
        raise ConfigError(f"the file names a server ({REMOTE}): stored trajectories name the world itself")
    if known_id in names("agentgym.envs"):
        return cast("type[TextEnv]", load("agentgym.envs", known_id))  # the user installed it
    target = _class_in_gymnasium(known_id)
    if not (inspect.isclass(target) and issubclass(target, TextEnv)):
        raise ConfigError(f"the file names {name!r:.100}, which is not a TextEnv")
    return target


def env_class(name: str) -> type | None:
    """Return the class of an installed world; None for one that was registered with Gymnasium directly.

    Raises:
        UnknownNameError: there is no such environment.
    """
    known_id = env_id(name)
    source = source_of(known_id)
    if not source and known_id not in names("agentgym.envs"):
        return None
    found = load("agentgym.envs", source or known_id)
    return found if inspect.isclass(found) else None


def register_source(name: str) -> str:
    """Register the world of a source, `FILE.py[:Class]` or `module:Class`, here and in child processes; return its id.

    Raises:
        UnknownNameError: no such file, module or class, or it does not load.
    """
    source = absolute_source(name)
    _sources[source] = registered_id(load("agentgym.envs", name))
    sources = dict.fromkeys([*os.environ.get(SOURCES, "").split(";"), source])
    os.environ[SOURCES] = ";".join(filter(None, sources))
    return _sources[source]


def source_of(env_id: str) -> str | None:
    """Return the source of a world by its id; None if it has none."""
    return next((source for source, id_ in reversed(_sources.items()) if id_ == env_id), None)


def _register_named_sources() -> bool:
    """Register the worlds that another process put into the environment variable; return whether one is new."""
    new = False
    for name in filter(None, os.environ.get(SOURCES, "").split(";")):
        if absolute_source(name) not in _sources:
            with suppress(UnknownNameError):  # the file is gone; using its world raises an error
                register_source(name)
                new = True
    return new


_sources: dict[str, str] = {}
"""Ids of registered worlds by their sources."""


def _ids_in_gymnasium() -> Iterator[str]:
    """Ids of worlds in Gymnasium's registry, such as those that a script registered; nothing is imported."""
    import gymnasium

    from agentgym_py.env.base import TextEnv

    for name in gymnasium.registry:
        target = _class_in_gymnasium(name)
        if inspect.isclass(target) and issubclass(target, TextEnv):
            yield name


def _class_in_gymnasium(env_id: str) -> Any:
    """Return the entry point of an id in Gymnasium's registry; None if its module is not imported yet."""
    import gymnasium

    target: Any = gymnasium.registry[env_id].entry_point
    if isinstance(target, str):
        module, _, attribute = target.partition(":")
        target = getattr(sys.modules.get(module), attribute, None)
    return target


def target_of(env_id: str) -> str:
    """Return `module:attribute` of a registered environment's entry point."""
    import gymnasium

    point = gymnasium.registry[env_id].entry_point
    if isinstance(point, str):
        return point
    return f"{getattr(point, '__module__', '__main__')}:{getattr(point, '__qualname__', '')}"


def registered_id(env_class: type[TextEnv]) -> str:
    """Return the Gymnasium id of a class; register it if needed, by the id in its docstring, else by its name.

    The class takes over an id of a class with the same name elsewhere, such as one in an installed copy of the file.
    """
    import gymnasium

    target = f"{env_class.__module__}:{env_class.__qualname__}"
    for name, spec in gymnasium.registry.items():
        if target_of(name) == target:
            if not isinstance(spec.entry_point, str):
                spec.entry_point = cast(Any, env_class)  # a notebook may have defined it again
            return name

    def is_free(name: str) -> bool:
        return name not in gymnasium.registry or target_of(name).partition(":")[2] == env_class.__qualname__

    ids = re.findall(r"\b\w+-v\d+\b", env_class.__doc__ or "")
    new_id = next(filter(is_free, ids), f"{env_class.__name__}-v{env_class.version}")
    register(new_id, env_class)
    return new_id


def register(env_id: str, target: Any) -> None:
    """Register `target` with Gymnasium as `env_id`, in place of an earlier one."""
    import gymnasium

    gymnasium.registry.pop(env_id, None)  # else Gymnasium warns
    gymnasium.register(id=env_id, entry_point=target)


def register_envs() -> None:
    """Register the installed environments with Gymnasium by name; none of their modules is imported."""
    import gymnasium

    if REMOTE not in gymnasium.registry:
        gymnasium.register(id=REMOTE, entry_point="agentgym_py.serving.client:RemoteEnv")
    for name, point in entry_points_of("agentgym.envs").items():
        if name in gymnasium.registry:
            continue
        problem: Any = _version_problem(name)
        if not problem:
            try:
                gymnasium.register(id=name, entry_point=point.value)
            except gymnasium.error.Error as error:  # a stranger's name must not break the import of this package
                problem = error
        if problem:
            warn(f"environment plugin {name!r} ({point.value}) is broken: {problem}")
