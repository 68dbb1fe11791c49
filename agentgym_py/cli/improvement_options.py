"""The options of self-improvement, and what a run says of them: its critic and its reflection."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass

from agentgym_py import registry
from agentgym_py.cli.judge import source_class
from agentgym_py.cli.plugin_options import PluginOption
from agentgym_py.errors import ConfigError
from agentgym_py.evolution import EvolveConfig


def _reflection_class(name: str) -> type:
    reflection = registry.load("agentgym.reflections", name)
    if not (inspect.isclass(reflection) and is_dataclass(reflection) and "reflect" in dir(reflection)):
        raise ConfigError(f"the reflection {name!r} must be a dataclass with a method reflect, got {reflection!r}")
    return reflection


CRITIC = PluginOption(
    "critic", "agentgym.feedback", source_class,
    "What scores the explored episodes in place of the world, which only watches: {names}, or a source file (FILE.py, "
    "FILE.py:Class, module:Class). --select.threshold and the like then read these scores, from 0 to 1. `--critic NAME "
    "--help-all` lists its settings; docs/guides/self-improvement.md explains them.",
)  # fmt: skip
REFLECTION = PluginOption(
    "reflection", "agentgym.reflections", _reflection_class,
    "What writes a text on each failed episode, with which its task is tried once more: {names}, or a source file "
    "(FILE.py, FILE.py:Class, module:Class). Successes of these retries are learnt without the text. `--reflection "
    "NAME --help-all` lists its settings. By default nothing is tried again.",
)  # fmt: skip


def improvement_lines(config: EvolveConfig, critic: str | None, reflection: str | None) -> list[str]:
    """Say who judges the explored episodes, who reflects on failures, and at which temperatures a run explores."""
    lines = list[str]()
    if config.explore_temperatures and config.rounds:
        temperatures = ", ".join(f"{temperature:g}" for temperature in config.explore_temperatures)
        lines.append(f"The attempts at a task have the temperatures {temperatures} in turn.")
    if config.critic and config.rounds:
        lines.append(f"The critic {critic} selects the explored episodes; the world's reward is only measured.")
    if config.reflection and config.rounds:
        lines.append(f"Failed episodes are tried once more, with a reflection by {reflection} in the prompt.")
    return lines
