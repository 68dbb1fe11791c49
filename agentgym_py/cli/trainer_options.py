"""The options of a trainer's settings, and the trainer that they describe."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import registry
from agentgym_py.checks import is_path, parameters_of
from agentgym_py.cli.parser import read_options
from agentgym_py.errors import ConfigError
from agentgym_py.training.trainer import info_of

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values


def trainer_class(name: str) -> type:
    """The dataclass of an installed trainer."""
    found = registry.load("agentgym.trainers", name)
    if not (inspect.isclass(found) and is_dataclass(found) and {"train", "improve"} & set(dir(found))):
        raise ConfigError(f"the trainer {name!r} is no dataclass with a method train, or improve: {found!r}")
    return found


def path_settings(trainer: str) -> set[str]:
    """The settings of a trainer that are files or folders."""
    return {key for key, each in parameters_of(trainer_class(trainer)).items() if is_path(each)}


def add_trainer_options(parser: Parser, name: str) -> None:
    """`--trainer NAME` and `--trainer.FIELD` for the fields of that trainer's dataclass."""
    names = registry.names("agentgym.trainers")
    about = f"One of {', '.join(names)}, or a source (FILE.py, FILE.py:Class, module:Class)."
    parser.add("trainer.name", str, name, about, metavar="NAME", group="The trainer")
    parser.add_dataclass(trainer_class(name), "trainer.", f"The trainer {name}", basic=False)


def read_trainer(args: Values) -> Any:
    """The trainer that `add_trainer_options` described, with its settings; its states know it by whole paths."""
    name = args["trainer.name"]
    given = {key: args[f"trainer.{key}"] for key in path_settings(name)}
    paths = {key: str(Path(path).absolute()) for key, path in given.items() if path}
    return read_options(trainer_class(name), args, "trainer.", **paths)


def add_cloner_options(parser: Parser, name: str) -> None:
    """`--cloner.FIELD`, where the trainer `name` has another one make Agent_v0."""
    if cloner := info_of(trainer_class(name)).warm_start:
        title = f"The trainer {cloner}, which makes Agent_v0"
        parser.add_dataclass(trainer_class(cloner), "cloner.", title, basic=False)


def read_cloner(args: Values) -> Any:
    """The trainer that `add_cloner_options` described, with its settings, or None."""
    cloner = info_of(trainer_class(args["trainer.name"])).warm_start
    return read_options(trainer_class(cloner), args, "cloner.") if cloner else None
