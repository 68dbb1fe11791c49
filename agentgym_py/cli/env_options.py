"""The options that choose environments, and the environments that they describe."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any

from agentgym_py import registry
from agentgym_py.checks import is_path, parameters_of
from agentgym_py.cli.parser import UsageError, with_option_names
from agentgym_py.cli.values import as_list, as_plain, scalar
from agentgym_py.env import EnvSpec, registration
from agentgym_py.env.tracebacks import env_line
from agentgym_py.errors import AgentGymError, ConfigError, UnknownNameError
from agentgym_py.registry import is_source

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values

TITLE = "The environment"
WORLD_RAISED = 1
WORLD = "A world, by short name or Gymnasium id, or by its source: FILE.py, FILE.py:Class or module:Class."
"""Help of a command's NAME."""


def add_env_options(parser: Parser) -> None:
    """`--env`, once or several times, and `--env_kwargs.NAME`."""
    parser.add(
        "env", default=["shop"], item=str, metavar="NAME", group=TITLE,
        help="A world, by short name, Gymnasium id or source (FILE.py, FILE.py:Class, module:Class); several times, or "
        "with commas, to mix worlds.",
    )  # fmt: skip
    add_env_kwargs(
        parser,
        "Arguments of the world, as --env_kwargs.difficulty hard; of one of several --env_kwargs.shop.difficulty.",
    )


def add_env_kwargs(parser: Parser, about: str = "Arguments of the world, as --env_kwargs.difficulty hard.") -> None:
    """`--env_kwargs.NAME`, for arguments of the environments that the command line names."""
    parser.add("env_kwargs", dict[str, Any], {}, about, group=TITLE)

    def arguments(words: Sequence[str]) -> list[str]:
        by_default = ["shop"] if "env" in parser.options and "--config" not in words else []
        names = envs_named_in(words) or by_default
        with suppress(UnknownNameError):  # a source that is not there: the environment will be complained of
            return [f"env_kwargs.{key}" for name in names for key in arguments_of(name)]
        return []

    parser.suggest = arguments


def add_own_envs(parser: Parser) -> None:
    """`--env` of a command that finds worlds by their ids in files: it names those that are not installed."""
    parser.add(
        "env", default=[], item=str, metavar="SOURCE", group=TITLE,
        help="A world of your own that the episodes were played in: FILE.py, FILE.py:Class or module:Class.",
    )  # fmt: skip


def register_own_envs(args: Mapping[str, Any]) -> None:
    """Register the worlds of `add_own_envs`, so that they are found by their ids."""
    for name in args["env"]:
        registration.env_id(name)


def env_specs(args: Values | Mapping[str, Any]) -> list[EnvSpec]:
    """The worlds that were asked for, each made once to see that its arguments fit."""
    names = [registration.env_id(name) if is_source(name) else name for name in as_list(args["env"])]
    if not names:
        raise UsageError("--env needs the name of a world")
    kwargs = absolute_paths(as_plain(args["env_kwargs"]), {key for name in names for key in path_arguments(name)})
    specs = [_checked(EnvSpec(name, _kwargs_of(name, names, kwargs))) for name in names]
    keys = [spec.key for spec in specs]
    for number, spec in enumerate(specs):
        if spec.key in keys[:number]:
            raise UsageError(f"--env has {spec.name} twice, with the same arguments: episodes would be played twice")
    return specs


def require_tasks(envs: Sequence[EnvSpec], wanted: Mapping[str, tuple[str, int]]) -> None:
    """Refuse more tasks than a world has, before anything is played; by split the option that asks, and how many."""
    few = []
    for split, (option, number) in wanted.items():
        for spec in envs:
            there = spec.count(split, number)
            if there < number:
                few.append(f"{option} asks for {number} {split} tasks, {spec.name} has {there}")
    if few:
        raise UsageError("; ".join(few))


def env_spec(name: str, kwargs: Any) -> EnvSpec:
    """One world, by its name or its source, made once to see that its arguments fit."""
    return env_specs({"env": [name], "env_kwargs": kwargs})[0]


def print_env_error(error: Exception, name: str, hint: str = "") -> int:
    """Say in one line what a world raised, and where in its source; returns the exit status for it.

    An error of ours, or one that did not come from a world, is raised again.
    """
    where = env_line(error)
    if not where or isinstance(error, AgentGymError):
        raise error
    said = " ".join("".join(format_exception_only(error)).split())
    print(f"agentgym: the world {name} raised {said} ({where}){hint}", file=sys.stderr)
    return WORLD_RAISED


def _kwargs_of(name: str, names: Sequence[str], args: Mapping[str, Any]) -> dict[str, Any]:
    """What is meant for all worlds, and over it what is meant for this one."""
    common = {key: value for key, value in args.items() if key not in names}
    own = args.get(name, {})
    if not isinstance(own, Mapping):
        raise UsageError(f"--env_kwargs.{name}: expected a mapping of that world's arguments, got {own!r}")
    taken = arguments_of(name)
    return {
        key: scalar(value, taken[key].annotation if key in taken else Any)
        for key, value in (common | dict(own)).items()
    }


def path_arguments(name: str) -> set[str]:
    """The arguments of a world that are files or folders."""
    return {key for key, each in arguments_of(name).items() if is_path(each)}


def arguments_of(name: str) -> dict[str, inspect.Parameter]:
    """The named arguments of an installed world's class."""
    found = _class_of(name)
    taken = parameters_of(found) if found else {}
    return {key: each for key, each in taken.items() if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}


def envs_named_in(words: Sequence[str]) -> list[str]:
    """The worlds that a command line names, wherever: `--env=shop,maze`, `play shop`."""
    ids = registry.names("agentgym.envs")
    names = {*ids, *map(registration.short_name, ids)}
    parts = [part for word in words for part in re.split("[=,]", word)]
    return [part for part in parts if part in names or is_source(part)]


def absolute_paths(kwargs: Mapping[str, Any], paths: set[str]) -> dict[str, Any]:
    """Worlds' arguments with whole paths: they are read again later, maybe from another folder."""
    return {
        key: absolute_paths(value, paths) if isinstance(value, Mapping)
        else str(Path(value).absolute()) if key in paths and isinstance(value, str) and scalar(value) is not None
        else value
        for key, value in kwargs.items()
    }  # fmt: skip


def env_versions(envs: Sequence[EnvSpec], split: str) -> dict[str, str]:
    """The worlds' versions by id, each with a digest of its first task, which a changed catalogue changes.

    A world that is made in several ways stands there with its arguments.
    """
    found, ids = {}, Counter(registration.env_id(spec.name) for spec in envs)
    for spec in envs:
        env = spec.make()
        env.reset(seed=0, options={"task": 0, "split": split})
        name = registration.env_id(spec.name)
        found[name if ids[name] == 1 else spec.key] = f"{env.version}-{hashlib.sha256(env.snapshot()).hexdigest()[:12]}"
        env.close()
    return found


def _checked(spec: EnvSpec) -> EnvSpec:
    try:
        spec.make().close()
    except ConfigError as error:
        raise with_option_names(error, spec.kwargs, "env_kwargs.") from error
    return spec


def _installed() -> list[str]:
    return registry.names("agentgym.envs")


def _class_of(name: str) -> type | None:
    """The class of an installed world; None for what was registered with Gymnasium by hand."""
    env_id = registration.env_id(name)
    place = registration.source_of(env_id) or env_id
    found = registry.load("agentgym.envs", place) if place != env_id or env_id in _installed() else None
    return found if inspect.isclass(found) else None
