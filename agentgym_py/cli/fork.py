"""`agentgym fork`: continue a run from one of its rounds with other settings, beside the original."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from agentgym_py import distributed
from agentgym_py.checks import Basic
from agentgym_py.cli import evolve, evolve_settings
from agentgym_py.cli.argv import normalize_argv
from agentgym_py.cli.env_options import env_specs
from agentgym_py.cli.parser import Parser, UsageError, Values
from agentgym_py.cli.saved_settings import require_sources, saved_settings
from agentgym_py.cli.trainer_options import read_trainer, trainer_class
from agentgym_py.cli.values import PLUGINS, flatten_options, is_mapping_type, nest_options, plugin_names
from agentgym_py.errors import ConfigError, naming_options, setting
from agentgym_py.evolution.config import require_compatible
from agentgym_py.evolution.fork import Change, Fork
from agentgym_py.files import PROVENANCE
from agentgym_py.training.trainer import info_of, is_on_policy


@dataclass(frozen=True, slots=True)
class ForkOptions:
    """The fork."""

    set: Basic[list[str]] = field(default_factory=list)
    """Settings of `agentgym evolve` for the rounds after it, such as trainer.kl_coef=0.1; repeated, or with commas. A
    part without = continues the list before it: horizon=10,20,50."""
    out: Basic[str | None] = None
    """The fork's folder; by default RUN-fork, with -2, -3, … if that exists."""
    threads: int | None = None
    """CPU threads and processes; by default those of the run, because another number changes rounding."""
    ray: int | None = None
    """Number of actors that play in a Ray cluster."""
    base_url: str | None = None
    """New address of the model server."""
    json: bool = False
    """Print the test result as JSON at the end; progress goes to stderr."""


def options(parser: Parser) -> None:
    """Add the options of `fork`."""
    parser.add_positional(
        "point", metavar="RUN@ROUND",
        help="A run's folder and the last round that the fork shares: runs/mine@2 shares the rounds 0 to 2.",
    )  # fmt: skip
    parser.add_dataclass(ForkOptions)
    parser.options["set"].metavar = "NAME=VALUE"


def run(args: Values) -> int:
    """Fork a run and finish the fork; return 130 after Ctrl-C."""
    fork = Fork.parse(args["point"])
    stored = fork.run.read_json(PROVENANCE)
    require_sources(stored.get("sources", {}), str(fork.run.path))
    before = evolve_settings.read_settings(fork.run)
    values, changes = changed_settings(before, _assignments(args["set"]))
    fork = replace(fork, changes=changes)
    fork.require_changeable()
    if fork.after and _is_on_policy(before) != _is_on_policy(values):
        raise ConfigError(
            "trainer cannot change between an offline and an on-policy one after round 1, because it explores in "
            f"another way: fork {fork.run.path}@0"
        )
    config = evolve_settings.evolve_config(values)
    with naming_options(False):  # a fork takes NAME=VALUE
        require_compatible(config, read_trainer(values), len(values["env"]))
    schedule = config.schedule(len(values["env"]))
    fork.require_future(nest_options(values), schedule.rounds - 1)
    if not args["out"] and distributed.world_size() > 1:
        raise UsageError(f"{setting('out')} is needed with several processes")
    new_run = {"out": args["out"] or free_folder(fork.run.path), "preset": stored.get("preset", "default")}
    given = {key: args[key] for key in ("threads", "ray", "json")}
    return evolve.run({**values, **given, **new_run, "base_url": args["base_url"] or values["base_url"]}, fork)


def changed_settings(values: Values, assignments: Sequence[tuple[str, str]]) -> tuple[Values, dict[str, Change]]:
    """Return a run's settings with those of `--set`, and what they change.

    A trainer, or another plugin, that takes the place of one has the defaults of its settings.

    Raises:
        UsageError: there is no such setting, or its value is wrong.
    """
    words = normalize_argv([f"--{name}={value}" for name, value in assignments])
    names = [word[2:].partition("=")[0] for word in words]
    plugins = {f"{key}.name" for key in PLUGINS}
    chosen = {name.removesuffix(".name"): text for name, (_, text) in zip(names, assignments, strict=True)
              if name in plugins}  # fmt: skip
    settings = nest_options(values)
    for key, name in chosen.items():
        if plugin_names(settings).get(key) != name:
            settings[key] = {"name": name}
            settings.pop("cloner", None) if key == "trainer" else None
    parser = evolve_settings.parser_of(settings)
    before, given = parser.read_mapping(settings, ""), parser.parse(words)
    after = dict(before)
    for name in names:
        option = parser.find_option(name)
        assert option
        is_entry = is_mapping_type(option.hint) and option.name != name
        after[option.name] = {**(before[option.name] or {}), **given[option.name]} if is_entry else given[option.name]
    old, new = (flatten_options(saved_settings(either, env_specs(either))) for either in (values, after))
    changes = {name: Change(old.get(name), new.get(name)) for name in new | old if old.get(name) != new.get(name)}
    if "trainer" in chosen and "trainer.name" in changes:
        _note_other_defaults(chosen["trainer"], after, names)
        asked = {"trainer.name", *names}
        changes = {name: change for name, change in changes.items() if name in asked or not _is_trainers(name)}
    return after, changes


def _is_on_policy(values: Values) -> bool:
    return is_on_policy(trainer_class(values["trainer.name"]))


def _is_trainers(name: str) -> bool:
    return name.startswith(("trainer.", "cloner."))


def _note_other_defaults(trainer: str, values: Values, names: Sequence[str]) -> None:
    """Warn of settings that `agentgym evolve` would have set otherwise for a trainer."""
    others = {key: value for key, value in info_of(trainer_class(trainer)).evolve_defaults.items()
              if key not in names and values.get(key) != value}  # fmt: skip
    if others:
        texts = ", ".join(f"{key}={value}" for key, value in others.items())
        warnings.warn(
            f"the fork keeps the run's settings, but `agentgym evolve --trainer {trainer}` would have {texts}; "
            f"{setting('set')} changes them",
            stacklevel=2,
        )


def _assignments(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return names and values of `NAME=VALUE`; a part without a name belongs to the list before it.

    Raises:
        UsageError: the first has no name.
    """
    pairs: list[tuple[str, str]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if equals and name.strip():
            pairs.append((name.strip().removeprefix("--"), value.strip()))
        elif pairs and not equals:
            pairs[-1] = pairs[-1][0], f"{pairs[-1][1]},{text}"
        else:
            raise UsageError(f"{setting('set')} takes NAME=VALUE, such as trainer.kl_coef=0.1, not {text!r}")
    return pairs


def free_folder(run: str | os.PathLike[str]) -> str:
    """Return the first unused name of a fork's folder."""
    names = (f"{os.fspath(run)}-fork{'' if number == 1 else f'-{number}'}" for number in count(1))
    return next(name for name in names if not Path(name).exists())
