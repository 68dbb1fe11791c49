"""The options of a curriculum, the curriculum that they describe, and what a run says of it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import closing
from dataclasses import is_dataclass
from typing import Any

from agentgym_py import registry
from agentgym_py.cli.parser import Parser, UsageError, Values, read_options
from agentgym_py.env import EnvSpec
from agentgym_py.env.registration import short_name
from agentgym_py.errors import ConfigError, setting
from agentgym_py.evolution import EvolveConfig
from agentgym_py.evolution.curricula import find_levels


def _curriculum_class(name: str) -> type:
    curriculum = registry.load("agentgym.curricula", name)
    if not (inspect.isclass(curriculum) and is_dataclass(curriculum) and "weights" in dir(curriculum)):
        raise ConfigError(f"the curriculum {name!r} must be a dataclass with a method weights, got {curriculum!r}")
    return curriculum


def add_curriculum_options(parser: Parser, name: str | None) -> None:
    """Add `--curriculum NAME`, and `--curriculum.FIELD` for the fields of that curriculum.

    Raises:
        UsageError: the command line has a setting of a curriculum and names none.
    """
    words = [word.removeprefix("--").partition("=")[0] for word in parser.argv if word.startswith("--curriculum.")]
    if not name and (fields := [word for word in words if word != "curriculum.name"]):
        raise UsageError(f"{setting(fields[0])} needs {setting('curriculum', 'NAME')}")
    names = registry.names("agentgym.curricula")
    about = (
        f"How a round shares a world's tasks among its difficulties: {', '.join(names)}, or a source (FILE.py, "
        "FILE.py:Class, module:Class). `--curriculum NAME --help-all` lists its settings; docs/guides/curriculum.md "
        "explains them. By default a round explores the world's own difficulty. Round 0 and all evaluations always do."
    )
    group = "The curriculum"
    parser.add("curriculum.name", str | None, name, about, metavar="NAME", group=group, basic=False)
    if name:
        parser.add_dataclass(_curriculum_class(name), "curriculum.", group, basic=False)


def read_curriculum(args: Values) -> Any:
    """Read the curriculum of `add_curriculum_options`, or None."""
    name = args["curriculum.name"]
    return read_options(_curriculum_class(name), args, "curriculum.") if name else None


def curriculum_lines(config: EvolveConfig, envs: Sequence[EnvSpec], name: str | None) -> list[str]:
    """Say which levels and steps a run explores, and on which it is evaluated."""
    lines = list[str]()
    for spec in envs if config.curriculum and config.rounds else ():
        with closing(spec.make()) as env:
            own = env.task(0, "train").difficulty
        levels = ", ".join(level.difficulty for level in find_levels(spec, config.levels))
        world = short_name(spec.local_spec.name)
        lines.append(f"Curriculum {name} of {world}: exploration at {levels}; demonstrations and evaluations at {own}.")
    if config.horizon and config.rounds:
        steps = " steps, then ".join(map(str, config.horizon))
        lines.append(f"Episodes of exploration end after {steps} steps; evaluations have the world's limit.")
    return lines
