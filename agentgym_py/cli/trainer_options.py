"""The options of a trainer's settings, and the trainer that they describe."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import registry
from agentgym_py.checks import is_path, parameters_of
from agentgym_py.cli.parser import add_options, read_options
from agentgym_py.errors import ConfigError
from agentgym_py.training.trainer import info_of

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace


def trainer_class(name: str) -> type:
    """The dataclass of an installed trainer."""
    found = registry.load("agentgym.trainers", name)
    if not (inspect.isclass(found) and is_dataclass(found) and {"train", "improve"} & set(dir(found))):
        raise ConfigError(f"the trainer {name!r} is no dataclass with a method train, or improve: {found!r}")
    return found


def path_settings(trainer: str) -> set[str]:
    """The settings of a trainer that are files or folders."""
    return {key for key, each in parameters_of(trainer_class(trainer)).items() if is_path(each)}


def add_trainer_options(parser: ArgumentParser, name: str) -> None:
    """`--trainer NAME` and `--trainer.FIELD` for the fields of that trainer's dataclass."""
    names = registry.names("agentgym.trainers")
    group = parser.add_argument_group(f"The trainer {name}")
    group.add_argument(
        "--trainer.name", type=str, default=name, metavar="NAME",
        help=f"--trainer NAME for short; with --help it shows that one's settings. Installed: {', '.join(names)}.",
    )  # fmt: skip
    add_options(group, trainer_class(name), "trainer")


def read_trainer(given: Namespace) -> Any:
    """The trainer that `add_trainer_options` described, with its settings; its states know it by whole paths."""
    name, settings = given["trainer.name"], given["trainer"]
    paths = {key: str(Path(settings[key]).absolute()) for key in path_settings(name) if settings[key]}
    return read_options(trainer_class(name), settings, "trainer.", **paths)


def add_cloner_options(parser: ArgumentParser, name: str) -> None:
    """`--cloner.FIELD`, where the trainer `name` has another one make Agent_v0."""
    if cloner := info_of(trainer_class(name)).warm_start:
        group = parser.add_argument_group(f"The trainer {cloner}, which makes Agent_v0")
        add_options(group, trainer_class(cloner), "cloner")


def read_cloner(given: Namespace) -> Any:
    """The trainer that `add_cloner_options` described, with its settings, or None."""
    cloner = info_of(trainer_class(given["trainer.name"])).warm_start
    return read_options(trainer_class(cloner), given["cloner"], "cloner.") if cloner else None
