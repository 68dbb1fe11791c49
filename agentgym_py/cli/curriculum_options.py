"""The options of a curriculum, the curriculum that they describe, and what a run says of it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import closing
from dataclasses import is_dataclass

from agentgym_py import registry
from agentgym_py.cli.plugin_options import PluginOption
from agentgym_py.env import EnvSpec
from agentgym_py.env.registration import short_name
from agentgym_py.errors import ConfigError
from agentgym_py.evolution import EvolveConfig
from agentgym_py.evolution.curricula import find_levels


def _curriculum_class(name: str) -> type:
    curriculum = registry.load("agentgym.curricula", name)
    if not (inspect.isclass(curriculum) and is_dataclass(curriculum) and "weights" in dir(curriculum)):
        raise ConfigError(f"the curriculum {name!r} must be a dataclass with a method weights, got {curriculum!r}")
    return curriculum


CURRICULUM = PluginOption(
    "curriculum", "agentgym.curricula", _curriculum_class,
    "How a round shares a world's tasks among its difficulties: {names}, or a source (FILE.py, FILE.py:Class, "
    "module:Class). `--curriculum NAME --help-all` lists its settings; docs/guides/curriculum.md explains them. By "
    "default a round explores the world's own difficulty. Round 0 and all evaluations always do.",
)  # fmt: skip


def curriculum_lines(config: EvolveConfig, envs: Sequence[EnvSpec], name: str | None) -> list[str]:
    """Say which levels, steps and partners a run explores with, and on which levels it is evaluated."""
    lines = list[str]()
    for spec in envs if config.curriculum and config.rounds else ():
        with closing(spec.make()) as env:
            own = env.task(0, "train").difficulty
        levels = ", ".join(level.difficulty for level in find_levels(spec, config.levels))
        world = short_name(spec.local_spec.name)
        lines.append(f"Curriculum {name} of {world}: exploration at {levels}; demonstrations and evaluations at {own}.")
    if config.horizon and config.rounds:
        steps = " steps, then ".join(map(str, config.horizon))
        limits = "each world's limit"
        if len(envs) == 1:
            with closing(envs[0].make()) as env:
                limits = f"the world's limit of {env.max_steps}"
        lines.append(f"Episodes of exploration end after {steps} steps; evaluations have {limits}.")
    if config.self_play and config.rounds:
        lines.append("Self-play: the last round's agent plays the other roles in exploration, but not in evaluations.")
    return lines
