"""The settings of a run or an evaluation as its folder keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py.cli.env_options import absolute_paths, path_arguments
from agentgym_py.cli.parser import as_plain
from agentgym_py.cli.trainer_options import path_settings
from agentgym_py.env import EnvSpec

if TYPE_CHECKING:
    from jsonargparse import Namespace

_NOT_SETTINGS = {"config", "print_config", "preset", "out", "resume", "manifest", "json", "threads", "ray"}
"""Options that are not part of what a command computes."""


def settings_of(given: Namespace, envs: Sequence[EnvSpec]) -> dict[str, Any]:
    """What was asked for, as a config file says it, with whole paths: it is read again, maybe from another folder."""
    settings = {key: value for key, value in as_plain(given).items() if key not in _NOT_SETTINGS}
    if not settings.get("step_threads"):
        settings.pop("step_threads", None)  # then files are as those of versions without it
    settings["env"] = [spec.name for spec in envs]
    paths = {key for spec in envs for key in path_arguments(spec.name)}
    settings["env_kwargs"] = absolute_paths(settings["env_kwargs"], paths)
    if settings.get("agent") in (None, "model"):
        settings["model"] = whole_path(settings["model"])
    if settings.get("reward_model"):
        settings["reward_model"] = str(Path(settings["reward_model"]).absolute())
    if "trainer" in settings:
        settings["trainer"] = absolute_paths(settings["trainer"], path_settings(settings["trainer"]["name"]))
    return settings


def whole_path(model: str) -> str:
    """A model's name; of a folder its whole path."""
    from agentgym_py.policy.loading import BUILT_IN

    return str(Path(model).absolute()) if model not in (*BUILT_IN, "") and Path(model).is_dir() else model
