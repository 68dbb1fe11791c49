"""The defaults of `agentgym evolve` that its worlds choose (`TextEnv.evolve_defaults`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from agentgym_py.cli.env_options import ALL, env_names
from agentgym_py.cli.help import format_default
from agentgym_py.cli.parser import Parser, suggestion
from agentgym_py.cli.trainer_options import trainer_class
from agentgym_py.cli.values import flatten_options
from agentgym_py.env.registration import env_class
from agentgym_py.env.types import TINY_WORLDS_DEFAULTS
from agentgym_py.errors import AgentGymError, ConfigError
from agentgym_py.training.settings import DataSettings
from agentgym_py.training.trainer import info_of, is_on_policy

_LEAST = "select.threshold"
"""Of this number several worlds have the smallest, because the rewards of some stay below 1 in a success."""
_OF_CLONING = ("merge", "restart")
"""Options that a world chooses only for a trainer that clones the expert, as filtered_bc does: others continue the last
agent, because what they learn from an episode depends on who played it."""

_OF_ROUNDS = ("explore_tasks", "horizon", *_OF_CLONING)
"""Options that change nothing in a run without rounds."""


def defaults_by_world(names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the `TextEnv.evolve_defaults` of installed worlds; wrong names are reported later."""
    defaults: dict[str, Mapping[str, Any]] = {}
    for name in names:
        with suppress(AgentGymError):
            defaults[name] = getattr(env_class(name), "evolve_defaults", {})
    return defaults


def defaults_for_trainer(defaults: Mapping[str, Any], trainer: object) -> dict[str, Any]:
    """Return those of the worlds' defaults that suit a trainer, or its class."""
    maker = info_of(trainer).warm_start
    left_out = _OF_CLONING if maker is not None or is_on_policy(trainer) else ()
    if not _has_epochs(trainer if maker is None else trainer_class(maker)):
        left_out = (*left_out, "expert_epochs")
    return {key: value for key, value in defaults.items() if key not in left_out}


def _has_epochs(trainer: object) -> bool:
    return issubclass(trainer if isinstance(trainer, type) else type(trainer), DataSettings)


def world_defaults(names: Sequence[str], parser: Parser) -> dict[str, Any]:
    """Return the defaults for the worlds of `--env`.

    One world has its own. Several have the largest of their numbers (the smallest of `select.threshold`), or the usual
    default if one of them has none. They have the order of demonstrations if they name only one, and the arguments of
    each, unless the command line has `--env_kwargs`. They have the model that all of them name, or else `tiny-worlds`,
    which has read most worlds. With `all` the rounds share their tasks by what can be learnt.
    """
    by_world = defaults_by_world(env_names(names))
    for name, defaults in by_world.items():
        require_options(parser, defaults, f"the world {name}")
    if len(by_world) == 1:
        return dict(*by_world.values())
    numbers = {
        key for defaults in by_world.values() for key, value in defaults.items() if isinstance(value, int | float)
    }
    usual = {key: parser.options[key].default for key in sorted(numbers)}
    values = {key: [defaults.get(key, usual[key]) for defaults in by_world.values()] for key in usual}
    chosen: dict[str, Any] = {
        key: min(of_worlds) if key == _LEAST else max(of_worlds)
        for key, of_worlds in values.items()
        if None not in of_worlds
    }
    orders = {str(defaults["expert_order"]) for defaults in by_world.values() if "expert_order" in defaults}
    if len(orders) == 1:
        chosen["expert_order"] = orders.pop()
    models = {defaults.get("model") for defaults in by_world.values()}
    if models != {None}:
        chosen["model"] = models.pop() if len(models) == 1 else TINY_WORLDS_DEFAULTS["model"]
    if not any(word.startswith("--env_kwargs") for word in parser.argv):
        chosen["env_kwargs"] = _kwargs_by_world(by_world)
    return chosen | ({"explore_order": "learnable"} if ALL in names else {})


def _kwargs_by_world(by_world: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: defaults["env_kwargs"] for name, defaults in by_world.items() if "env_kwargs" in defaults}


def require_options(parser: Parser, defaults: Mapping[str, Any], whose: str) -> None:
    """Raise ConfigError if `evolve_defaults` name no option."""
    for name in defaults:
        if name not in parser.options:
            near = suggestion(name, [option.flag for option in parser.options.values()])
            raise ConfigError(f"{whose} has evolve_defaults for {name!r}, no option of evolve{near}")


def chosen_by_worlds(settings: Mapping[str, Any]) -> list[str]:
    """Return a line for each world of a run that chose some of its settings."""
    values, by_world = flatten_options(settings), defaults_by_world(settings.get("env", []))
    lines = []
    for name, defaults in by_world.items():
        several = {"env_kwargs": _kwargs_by_world({name: defaults})}
        flat = flatten_options(defaults if len(by_world) == 1 else several)
        unused = _OF_ROUNDS if settings.get("rounds") == 0 else ()
        chosen = [
            f"--{key} {format_default(value)}" for key, value in flat.items()
            if values.get(key) == value and key not in unused
        ]  # fmt: skip
        lines += [f"Defaults of {name}: {' '.join(chosen)}"] if chosen else []
    return lines
