"""The options that choose environments, and the specs that they describe."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from traceback import format_exception_only
from typing import Any

from agentgym_py import registry, trust
from agentgym_py.checks import is_path, parameters_of
from agentgym_py.cli.parser import Parser, UsageError, Values, with_option_names
from agentgym_py.cli.values import as_list, as_plain, parse_scalar
from agentgym_py.env import EnvSpec, TextEnv, registration
from agentgym_py.env.tracebacks import contained, env_line
from agentgym_py.errors import AgentGymError, ConfigError, UnknownNameError, did_you_mean, setting
from agentgym_py.registry import is_source

TITLE = "The world"
ENV_FAILED = 1
ALL = "all"
"""The name of all installed worlds together."""
_COMPARED_TASKS = 50
"""Tasks of a split that are compared with training tasks."""
ENV_HELP = "A world, by short name or Gymnasium id, or by its source: FILE.py, FILE.py:Class or module:Class."
"""Help of the argument NAME of a command."""


def add_env_options(parser: Parser) -> None:
    """Add `--env`, which may be repeated, and `--env_kwargs.NAME`."""
    parser.add(
        "env", default=["shop"], item=str, metavar="NAME", group=TITLE,
        help="A world, by short name, Gymnasium id or source (FILE.py, FILE.py:Class, module:Class); repeated, or with "
        "commas, to mix worlds; all: every installed world.",
    )  # fmt: skip
    add_env_kwargs(
        parser,
        "Arguments of the world, as --env_kwargs.difficulty hard; for one of several --env_kwargs.shop.difficulty.",
    )
    parser.add(
        "roles", default=[], item=str, metavar="ROLE", group=TITLE,
        help="Roles that the agent plays in a world of several roles, such as asker; with several, each in turn. By "
        "default its first one. --env_kwargs.partner and .partner_model choose the agent of the others.",
    )  # fmt: skip


def add_env_kwargs(parser: Parser, about: str = "Arguments of the world, as --env_kwargs.difficulty hard.") -> None:
    """Add `--env_kwargs.NAME`, and suggest the arguments of the environments on the command line."""
    parser.add("env_kwargs", dict[str, Any], {}, about, group=TITLE)

    def arguments(words: Sequence[str]) -> list[str]:
        by_default = ["shop"] if "env" in parser.options and "--config" not in words else []
        names = find_env_names(words) or by_default
        with suppress(AgentGymError):  # a missing source, or one that only a file names, is reported later
            return [f"env_kwargs.{key}" for name in names for key in env_arguments(name)]
        return []

    parser.suggest = arguments


def add_own_envs(parser: Parser) -> None:
    """Add `--env SOURCE` to a command that reads env ids from files, for envs that are not installed."""
    parser.add(
        "env", default=[], item=str, metavar="SOURCE", group=TITLE,
        help="Source of a world that is not installed: FILE.py, FILE.py:Class or module:Class.",
    )  # fmt: skip


def register_own_envs(args: Mapping[str, Any]) -> None:
    """Register the worlds of `add_own_envs` under their ids."""
    for name in args["env"]:
        registration.env_id(name)


def env_specs(args: Values | Mapping[str, Any]) -> list[EnvSpec]:
    """Return the specs of the chosen worlds; each world is made once to check its arguments."""
    names = [registration.env_id(name) if is_source(name) else name for name in env_names(as_list(args["env"]))]
    if not names:
        raise UsageError(f"{setting('env')} needs the name of a world")
    kwargs = absolute_paths(as_plain(args["env_kwargs"]), {key for name in names for key in path_arguments(name)})
    roles = [{"role": role} for role in _roles(args, names)] or [{}]
    specs = [
        _require_makeable(EnvSpec(name, _env_kwargs(name, names, kwargs) | role)) for name in names for role in roles
    ]
    keys = [spec.key for spec in specs]
    for number, spec in enumerate(specs):
        if spec.key in keys[:number]:
            raise UsageError(f"{setting('env')} has {spec.name} twice with the same arguments; remove one of them")
    return specs


def _roles(args: Values | Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the --roles.

    Raises:
        UsageError: a world does not have them, or --env_kwargs says them too.
    """
    roles = as_list(args.get("roles") or [])
    for name in names if roles else ():
        known = getattr(registration.env_class(name), "roles", ())
        if not known:
            raise UsageError(f"{setting('roles')} needs worlds of several roles; {name} has one")
        for role in roles:
            if role not in known:
                raise UsageError(
                    f"{setting('roles')}: {name} has no role {role!r}.{did_you_mean(role, known, 'Its roles')}"
                )
    if roles and any("role" in _env_kwargs(name, names, as_plain(args["env_kwargs"])) for name in names):
        raise UsageError(f"{setting('roles')} and {setting('env_kwargs.role')} say the same: give one of them")
    return roles


def env_names(names: Sequence[str]) -> list[str]:
    """Return the names of worlds; `all` stands for every installed one."""
    installed = map(registration.short_name, registry.names("agentgym.envs"))
    return [world for name in names for world in (installed if name == ALL else [name])]


def require_tasks(envs: Sequence[EnvSpec], needs: Mapping[str, tuple[str, int]], first: int = 0) -> None:
    """Raise UsageError if a world has too few tasks, or they are too many for a list.

    `needs` holds, by split, the setting and the number of tasks, of which those before `first` are not played.
    """
    from agentgym_py.collection.job import require_listable

    for _, number in needs.values():
        require_listable((number - first) * len(envs))
    if trust.is_offline():
        envs = [spec for spec in envs if registration.env_id(spec.name) != registration.REMOTE]
    errors = [
        f"{option} asks for {number} {split} tasks, {spec.name} has {spec.count(split, number)}"
        for split, (option, number) in needs.items()
        for spec in envs
        if spec.count(split, number) < number
    ]
    if errors:
        raise UsageError("; ".join(errors))


def warn_of_training_tasks(envs: Sequence[EnvSpec], splits: Iterable[str]) -> None:
    """Warn in one line if tasks of these splits have instructions of training tasks, in the first tasks of each.

    Success in such a split does not measure generalisation. A world on a server is not asked, because that takes long.
    """
    found = []
    for spec in envs:
        if registration.env_id(spec.name) == registration.REMOTE:
            continue
        with closing(spec.make()) as env:
            known = set(_instructions(env, "train"))
            for split in splits:
                instructions = _instructions(env, split)
                if repeated := sum(text in known for text in instructions):
                    found.append(f"{repeated} of {len(instructions)} {split} tasks of {spec.name}")
    if found:
        warnings.warn(
            f"{', '.join(found)} repeat instructions of training tasks, so success there does not measure "
            "generalisation; `agentgym check` shows them",
            stacklevel=2,
        )


def _instructions(env: TextEnv, split: str) -> list[str]:
    instructions = []
    with suppress(UnknownNameError):  # the split has fewer tasks
        for number in range(_COMPARED_TASKS):
            instructions.append(env.task(number, split).instruction)
    return instructions


def env_spec(name: str, kwargs: Any) -> EnvSpec:
    """Return the spec of one world, by name or source; the world is made once to check its arguments."""
    return env_specs({"env": [name], "env_kwargs": kwargs})[0]


def print_env_error(error: Exception, name: str, hint: str = "") -> int:
    """Print in one line what a world raised, and where in its source; return the exit status.

    Other errors are raised again.
    """
    where = env_line(error)
    if not where or isinstance(error, AgentGymError):
        raise error
    text = " ".join("".join(format_exception_only(error)).split())
    print(f"agentgym: the world {name} raised {text} ({where}){hint}", file=sys.stderr)
    return ENV_FAILED


def _env_kwargs(name: str, names: Sequence[str], args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for all worlds, overridden by those for this one."""
    common = {key: value for key, value in args.items() if key not in names}
    specific = args.get(name, {})
    if not isinstance(specific, Mapping):
        option = setting(f"env_kwargs.{name}")
        raise UsageError(f"{option}: expected a mapping of that world's arguments, got {specific!r}")
    parameters = env_arguments(name)
    return {
        key: parse_scalar(value, parameters[key].annotation if key in parameters else Any)
        for key, value in (common | dict(specific)).items()
    }


def path_arguments(name: str) -> set[str]:
    """Return the arguments of a world that are files or folders."""
    return {key for key, parameter in env_arguments(name).items() if is_path(parameter)}


def env_arguments(name: str) -> dict[str, inspect.Parameter]:
    """Return the named arguments of an installed world's class."""
    found = registration.env_class(name)
    parameters = parameters_of(found) if found else {}
    return {key: p for key, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def find_env_names(words: Sequence[str]) -> list[str]:
    """Return the worlds that a command line names anywhere: `--env=shop,maze`, `play shop`."""
    ids = registry.names("agentgym.envs")
    names = {*ids, *map(registration.short_name, ids)}
    parts = [part for word in words for part in re.split("[=,]", word)]
    return [part for part in parts if part in names or is_source(part)]


def absolute_paths(kwargs: Mapping[str, Any], paths: set[str]) -> dict[str, Any]:
    """Return arguments with absolute paths, because a later command may run in another folder."""
    return {
        key: absolute_paths(value, paths) if isinstance(value, Mapping)
        else str(Path(value).absolute()) if key in paths and isinstance(value, str) and parse_scalar(value) is not None
        else value
        for key, value in kwargs.items()
    }  # fmt: skip


def env_versions(envs: Sequence[EnvSpec], split: str) -> dict[str, str]:
    """Return the worlds' versions by id, each with a digest of its first task, which a changed catalogue changes.

    If a world is used with several sets of arguments, its keys include them.
    """
    versions, ids = {}, Counter(registration.env_id(spec.name) for spec in envs)
    for spec in envs:
        name = registration.env_id(spec.name)
        with contained(f"the world {name} fails at its first task"), closing(spec.make()) as env:
            env.reset(seed=0, options={"task": 0, "split": split})
            digest = hashlib.sha256(env.snapshot()).hexdigest()[:12]
            versions[name if ids[name] == 1 else spec.key] = f"{env.version}-{digest}"
    return versions


def _require_makeable(spec: EnvSpec) -> EnvSpec:
    for name in path_arguments(spec.name) & spec.kwargs.keys():
        trust.allow(str(spec.kwargs[name]))  # its trajectories name it, too
    if registration.env_id(spec.name) == registration.REMOTE and trust.is_offline():
        return spec
    try:
        with contained(f"the world {spec.name} cannot be made"):
            env = spec.make()
    except ConfigError as error:
        raise with_option_names(error, spec.kwargs, "env_kwargs.") from error
    with contained(f"the world {spec.name} fails as it is closed"):
        env.close()
    return spec
