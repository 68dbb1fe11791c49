"""The settings of a run or an evaluation as stored in its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

from agentgym_py import trust
from agentgym_py.cli.env_options import absolute_paths, path_arguments
from agentgym_py.cli.parser import Values
from agentgym_py.cli.trainer_options import path_settings
from agentgym_py.cli.values import PLUGINS, nest_options, plugin_names
from agentgym_py.env import EnvSpec, registration
from agentgym_py.errors import AgentGymError, RunError
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.registry import absolute_source, is_source, source_digest, source_file
from agentgym_py.rewards.functions import absolute_reward, absolute_settings, reward_sources

_NOT_SETTINGS = {
    "config",
    "print_config",
    "preset",
    "out",
    "resume",
    "manifest",
    "json",
    "fail_below",
    "threads",
    "ray",
}
"""Options that do not influence what a command computes."""
_WITH_FILES = {"critic", "reflection"}
"""Plugins with settings that name files: a `folder`, `answers`, or Python sources."""
_DEPTH = 4
"""Levels from a store up to its run: the store, its round, `rounds`, the run."""


def saved_settings(args: Values, envs: Sequence[EnvSpec]) -> dict[str, Any]:
    """Return the settings as a config file holds them, with absolute paths, because other folders may read them."""
    settings = nest_options({key: value for key, value in args.items() if key not in _NOT_SETTINGS})
    if not settings.get("step_threads"):
        settings.pop("step_threads", None)  # as in files of versions without it
    for key in ("roles", "first"):
        if not settings.get(key):
            settings.pop(key, None)  # likewise
    sources = [registration.source_of(registration.env_id(spec.name)) or spec.name for spec in envs]
    settings["env"] = list(dict.fromkeys(sources))  # a world of several roles has a spec for each of --roles
    paths = {key for spec in envs for key in path_arguments(spec.name)}
    settings["env_kwargs"] = absolute_paths(settings["env_kwargs"], paths)
    if settings.get("agent") in (None, "model"):
        settings["model"] = absolute_model_path(settings["model"])
    if settings.get("until_decided"):
        settings["until_decided"] = str(Path(settings["until_decided"]).absolute())
    if settings.get("reward_model"):
        settings["reward_model"] = str(Path(settings["reward_model"]).absolute())
    if settings.get("reward"):
        settings["reward"] = absolute_reward(settings["reward"])
    if settings.get("reward_kwargs"):
        settings["reward_kwargs"] = absolute_settings(settings["reward_kwargs"])
    if is_source(settings.get("agent") or ""):
        settings["agent"] = absolute_source(settings["agent"])
    for key in PLUGINS:
        if not settings.get(key, {}).get("name"):
            settings.pop(key, None)  # as in files of versions without it
        else:
            settings[key]["name"] = absolute_source(settings[key]["name"])
    for key in _WITH_FILES & settings.keys():
        settings[key] = absolute_paths(absolute_settings(settings[key]), {"folder", "answers"})
    if "trainer" in settings:
        if is_source(settings["trainer"].get("step_kind") or ""):
            settings["trainer"]["step_kind"] = absolute_source(settings["trainer"]["step_kind"])
        settings["trainer"] = absolute_paths(settings["trainer"], path_settings(settings["trainer"]["name"]))
    return settings


def absolute_model_path(model: str) -> str:
    """Return a model's name, or the absolute path of its folder."""
    from agentgym_py.policy.loading import BUILT_IN

    return str(Path(model).absolute()) if model not in (*BUILT_IN, "") and Path(model).is_dir() else model


def source_digests(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the source files of worlds, agents, trainers and so on in the settings, with digests of their content."""
    names = [*settings.get("env", []), settings.get("agent"), *plugin_names(settings).values()]
    names += [settings["trainer"].get("step_kind")] if "trainer" in settings else []
    names += reward_sources(settings.get("reward"), settings.get("reward_kwargs"))
    for key in _WITH_FILES & settings.keys():
        names += reward_sources(None, settings[key])
    files = [source_file(name) for name in names if name and is_source(name)]
    return {str(path): source_digest(path) for path in files}


def world_advice(command: str, args: Mapping[str, Any], path: str) -> str:
    """Return the command that names the sources of the worlds in a run or an evaluation, which a file must not choose.

    It is empty if nothing around `path` names a source that `--env` does not.
    """
    chosen = {absolute_source(name) for name in args["env"] if is_source(name)}
    sources = [name for name in _recorded_worlds(Path(path).absolute()) if name not in chosen]
    options = "".join(f" --env {quote(relative_source(name))}" for name in sources)
    return f"agentgym {command} {quote(path)}{options}" if sources else ""


def _recorded_worlds(path: Path) -> list[str]:
    """Return the sources of worlds in the settings of the run or evaluation that a path is or lies in."""
    for folder in [path, *path.parents][:_DEPTH]:
        with suppress(AgentGymError, OSError):
            if (folder / "run.yaml").is_file():
                settings: Any = RunFolder(folder).config()
            elif (folder / "manifest.json").is_file():
                settings = RunFolder(folder).read_json("manifest.json").get("options")
            else:
                continue
            names = settings.get("env") if isinstance(settings, Mapping) else None
            return [name for name in names if isinstance(name, str) and is_source(name)] if names else []
    return []


def relative_source(source: str) -> str:
    """Return a source relative to the current folder if it is below."""
    return source.removeprefix(f"{Path.cwd()}{os.sep}")


def require_sources(digests: object, what: str) -> None:
    """Check the files of `source_digests`.

    Raises:
        RunError: a file is missing or has changed, or it is anything else of a stranger's.
        ConfigError: only a file names it; see `trust`.
    """
    if not (isinstance(digests, Mapping) and all(isinstance(digest, str) for digest in digests.values())):
        raise RunError(f"{what} is damaged: its sources are {digests!r:.60}")
    for name, digest in digests.items():
        if not Path(name).is_file():
            raise RunError(f"{what} needs {name}, which is missing: restore the file")
        trust.require_source_file(name)
        if source_digest(Path(name)) != digest:
            raise RunError(f"{what} began with another {name}: restore the file, or start a new one")
