"""The options of a trainer, and the trainer that they describe."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from agentgym_py import registry
from agentgym_py.checks import is_path, parameters_of
from agentgym_py.cli.parser import Parser, Values, read_options, wants_help
from agentgym_py.errors import AgentGymError, ConfigError
from agentgym_py.training.settings import RENAMED, ordered_fields
from agentgym_py.training.trainer import info_of

_GROUP: registry.Group = "agentgym.trainers"


def trainer_class(name: str) -> type:
    """Return the dataclass of an installed trainer."""
    trainer = registry.load(_GROUP, name)
    if not (inspect.isclass(trainer) and is_dataclass(trainer) and {"train", "improve"} & set(dir(trainer))):
        raise ConfigError(f"the trainer {name!r} must be a dataclass with a method train or improve, got {trainer!r}")
    return trainer


def path_settings(trainer: str) -> set[str]:
    """Return the settings of a trainer that are files or folders."""
    return {key for key, parameter in parameters_of(trainer_class(trainer)).items() if is_path(parameter)}


def add_trainer_options(parser: Parser, name: str) -> None:
    """Add `--trainer NAME`, and `--trainer.FIELD` for the fields of that trainer.

    Raises:
        UnknownNameError: it is not installed; the message lists the trainers of the command.
    """
    if name not in registry.names(_GROUP) and not registry.is_source(name):
        there_is = f"Trainers of {parser.prog.removeprefix('agentgym ')}"
        raise registry.unknown_name(_GROUP, name, _fitting_names(parser.prog), there_is)
    names, source = ", ".join(_names_for(parser)), "a source (FILE.py, FILE.py:Class, module:Class)"
    about = f"One of {names}, or {source}. `agentgym trainers list` says what each learns from."
    parser.add("trainer.name", str, name, about, metavar="NAME", group="The trainer")
    trainer = trainer_class(name)
    parser.add_dataclass(trainer, "trainer.", f"The trainer {name}", basic=False, ordered=ordered_fields(trainer))
    parser.renamed = RENAMED.get(name, {})


def _names_for(parser: Parser) -> list[str]:
    """Return the installed trainers that a command takes; all of them unless its help, which names them, is wanted."""
    return _fitting_names(parser.prog) if wants_help(parser.argv) else registry.names(_GROUP)


def _fitting_names(prog: str) -> list[str]:
    """Return the installed trainers that a command takes; each is loaded."""
    return [name for name in registry.names(_GROUP) if _fits(name, prog)]


def _fits(name: str, prog: str) -> bool:
    try:
        trainer = trainer_class(name)
        makes_policy = info_of(trainer).output == "policy"
    except AgentGymError:  # broken; `agentgym trainers list` has the reason
        return False
    return hasattr(trainer, "train") if prog == "agentgym train" else makes_policy


def read_trainer(args: Values) -> Any:
    """Read the trainer of `add_trainer_options`; its paths are absolute, as in its saved states."""
    name = args["trainer.name"]
    values = {key: args[f"trainer.{key}"] for key in path_settings(name)}
    paths = {key: str(Path(path).absolute()) for key, path in values.items() if path}
    return read_options(trainer_class(name), args, "trainer.", **paths)


def add_cloner_options(parser: Parser, name: str) -> None:
    """Add `--cloner.FIELD` if another trainer makes Agent_v0 for the trainer `name`."""
    if cloner := info_of(trainer_class(name)).warm_start:
        title = f"The trainer {cloner}, which makes Agent_v0"
        parser.add_dataclass(trainer_class(cloner), "cloner.", title, basic=False)


def read_cloner(args: Values) -> Any:
    """Read the trainer of `add_cloner_options`, or None."""
    cloner = info_of(trainer_class(args["trainer.name"])).warm_start
    return read_options(trainer_class(cloner), args, "cloner.") if cloner else None
