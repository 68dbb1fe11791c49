"""The settings of a run or an evaluation as its folder keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py.cli.env_options import absolute_paths, path_arguments
from agentgym_py.cli.trainer_options import path_settings
from agentgym_py.cli.values import nested
from agentgym_py.env import EnvSpec, registration
from agentgym_py.errors import RunError
from agentgym_py.registry import absolute_source, is_source, source_digest, source_file

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Values

_NOT_SETTINGS = {"config", "print_config", "preset", "out", "resume", "manifest", "json", "threads", "ray"}
"""Options that are not part of what a command computes."""


def settings_of(args: Values, envs: Sequence[EnvSpec]) -> dict[str, Any]:
    """What was asked for, as a config file says it, with whole paths: it is read again, maybe from another folder."""
    settings = nested({key: value for key, value in args.items() if key not in _NOT_SETTINGS})
    if not settings.get("step_threads"):
        settings.pop("step_threads", None)  # then files are as those of versions without it
    settings["env"] = [registration.source_of(registration.env_id(spec.name)) or spec.name for spec in envs]
    paths = {key for spec in envs for key in path_arguments(spec.name)}
    settings["env_kwargs"] = absolute_paths(settings["env_kwargs"], paths)
    if settings.get("agent") in (None, "model"):
        settings["model"] = whole_path(settings["model"])
    if settings.get("reward_model"):
        settings["reward_model"] = str(Path(settings["reward_model"]).absolute())
    if is_source(settings.get("agent") or ""):
        settings["agent"] = absolute_source(settings["agent"])
    if "trainer" in settings:
        settings["trainer"]["name"] = absolute_source(settings["trainer"]["name"])
        settings["trainer"] = absolute_paths(settings["trainer"], path_settings(settings["trainer"]["name"]))
    return settings


def whole_path(model: str) -> str:
    """A model's name; of a folder its whole path."""
    from agentgym_py.policy.loading import BUILT_IN

    return str(Path(model).absolute()) if model not in (*BUILT_IN, "") and Path(model).is_dir() else model


def sources_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """The files of the user's own worlds, agent and trainer in the settings, each with the digest of its content."""
    trainer = settings.get("trainer") or {}
    names = [*settings.get("env", []), settings.get("agent"), trainer.get("name")]
    files = [source_file(name) for name in names if name and is_source(name)]
    return {str(path): source_digest(path) for path in files}


def require_sources(held: Mapping[str, str], what: str) -> None:
    """RunError if a file that `sources_of` named is gone, or is no longer what it was."""
    for name, was in held.items():
        if not Path(name).is_file():
            raise RunError(f"{what} needs {name}, which is gone: put the file back")
        if source_digest(Path(name)) != was:
            raise RunError(f"{what} began with another {name}: restore the file, or start a new run")
