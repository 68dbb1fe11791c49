"""The settings of `agentgym evolve`: as options, in `run.yaml`, and checked as objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from agentgym_py.cli.agent_options import ModelOptions
from agentgym_py.cli.coreset_options import CORESET
from agentgym_py.cli.curriculum_options import CURRICULUM
from agentgym_py.cli.engine_options import EngineOptions
from agentgym_py.cli.env_options import add_env_options, env_specs
from agentgym_py.cli.evolve_defaults import world_defaults
from agentgym_py.cli.evolve_tasks import require_all_tasks
from agentgym_py.cli.improvement_options import CRITIC, REFLECTION
from agentgym_py.cli.parser import Parser, UsageError, Values, read_options, suggestion, with_option_names
from agentgym_py.cli.saved_settings import saved_settings
from agentgym_py.cli.trainer_options import add_cloner_options, add_trainer_options, read_cloner, read_trainer
from agentgym_py.cli.values import flatten_options, plugin_names
from agentgym_py.errors import ConfigError, setting
from agentgym_py.evolution import EvolveConfig
from agentgym_py.evolution.config import (
    require_cloner,
    require_compatible,
    require_costs,
    require_levels,
    require_reachable,
    require_roles,
    require_sequence,
)
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.training import tracking
from agentgym_py.training.trainer import require_policy_trainer
from agentgym_py.trajectory.selectors import SelectConfig

if TYPE_CHECKING:
    from agentgym_py.env import EnvSpec

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "smoke": {
        "rounds": 1, "expert_tasks": 8, "explore_tasks": 8, "valid_tasks": 4, "test_tasks": 4, "max_new_tokens": 32,
        "select.threshold": 0.0, "select.success_only": False, "select.mask_invalid": False, "trainer.epochs": 1,
        "trainer.threshold": 0.0, "trainer.tasks_per_iteration": 4, "trainer.group_size": 2, "allow_empty": True,
    },
}  # fmt: skip
"""Other defaults by name; settings that a trainer does not have are ignored."""


@dataclass(frozen=True, slots=True)
class TrackOptions:
    """Tracking."""

    track: tracking.Service | None = None
    """Service that logs every training step and round, offline: `tensorboard`, `trackio` or `wandb`; see
    docs/guides/tracking.md."""


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """The options allowed with --resume; all other settings come from the run."""

    resume: str
    """The run's folder."""
    threads: int | None = None
    """CPU threads and processes; by default those of the run, so that the result is bit-identical."""
    ray: int | None = None
    """Number of actors that play in a Ray cluster."""
    rounds: int | None = None
    """New total number of rounds. A finished run continues and is tested again; it is then bit-identical to a run that
    began with this number."""
    base_url: str | None = None
    """New address of the model server."""
    json: bool = False
    """Print the test result as JSON at the end."""


RESUMABLE = tuple(field.name for field in fields(ResumeOptions) if field.name not in ("resume", "json"))
"""Settings that may change when a run is resumed."""


def add_settings(parser: Parser, trainer: str, plugins: Mapping[str, str]) -> None:
    """Add the options that `run.yaml` holds; `plugins` has the names of all plugins but the trainer."""
    add_env_options(parser)
    parser.add_dataclass(ModelOptions)
    parser.add_dataclass(EngineOptions, basic=False)
    parser.add_dataclass(EvolveConfig, skip={"select", "curriculum", "coreset", "critic", "reflection"})
    CURRICULUM.add(parser, plugins.get("curriculum"))
    CRITIC.add(parser, plugins.get("critic"))
    REFLECTION.add(parser, plugins.get("reflection"))
    parser.add_dataclass(SelectConfig, "select.", "Which trajectories a round learns from", basic=False)
    CORESET.add(parser, plugins.get("coreset"))
    add_trainer_options(parser, trainer)
    add_cloner_options(parser, trainer)
    parser.add_dataclass(TrackOptions, basic=False)


def preset(name: str, parser: Parser) -> dict[str, Any]:
    """Return the defaults of a preset that are options of this command."""
    if name not in PRESETS:
        choices = f"choose from {', '.join(PRESETS)}{suggestion(name, PRESETS)}"
        raise UsageError(f"{setting('preset')}: no preset {name!r}; {choices}")
    return {key: value for key, value in PRESETS[name].items() if key in parser.options}


class RunPlan(NamedTuple):
    """The settings of a run as objects."""

    model: ModelOptions
    engine: EngineOptions
    config: EvolveConfig
    trainer: Any
    cloner: Any
    """The trainer that makes Agent_v0, if it is another one."""
    envs: list[EnvSpec]


def read_plan(settings: Values, args: Values) -> RunPlan:
    """Read and check the settings before anything is loaded or written.

    `args` are the options of the command line, `settings` those of the run; for a new run both are the same.
    """
    model = read_options(ModelOptions, settings, threads=args["threads"], ray=args["ray"])
    engine = read_options(EngineOptions, settings, base_url=args["base_url"] or settings["base_url"])
    if engine.base_url and engine.engine != "server":
        server = f"{setting('engine', 'server')} {setting('base_url', 'ADDRESS')}"
        raise UsageError(f"{setting('base_url')} needs a model server: {server}")
    config, trainer = evolve_config(settings), read_trainer(settings)
    require_policy_trainer(trainer)
    envs = env_specs(settings)
    cloner = read_cloner(settings)
    try:
        require_compatible(config, trainer, len(envs))
        require_reachable(config, trainer, envs)
        require_levels(config, envs)
        require_roles(config, envs)
        require_costs(trainer, envs)
        require_sequence(config, trainer, envs)
        require_cloner(config, trainer, cloner)
    except ConfigError as error:
        raise with_option_names(error, settings, "") from error
    model.require_room(config.max_new_tokens)
    engine.require_no_step_timeout(config.step_timeout)
    if settings is args:
        require_all_tasks(config, envs)
    return RunPlan(model, engine, config, trainer, cloner, envs)


def evolve_config(args: Values) -> EvolveConfig:
    """Read the settings of the rounds."""
    select = read_options(SelectConfig, args, "select.")
    return read_options(
        EvolveConfig, args, select=select, curriculum=CURRICULUM.read(args), coreset=CORESET.read(args),
        critic=CRITIC.read(args), reflection=REFLECTION.read(args),
    )  # fmt: skip


def parser_of(settings: Mapping[str, Any]) -> Parser:
    """Return a parser of a run's settings."""
    parser, names = Parser("agentgym evolve"), plugin_names(settings)
    add_settings(parser, names.get("trainer", str(settings.get("trainer"))), names)
    return parser


def read_settings(folder: RunFolder) -> Values:
    """Read `run.yaml`, with the same checks as for a command line."""
    settings = folder.config()
    return parser_of(settings).read_mapping(settings, str(folder.path / "run.yaml"))


def require_same_settings(folder: RunFolder, settings: Mapping[str, Any]) -> None:
    """Raise ConfigError if a run has other settings than these; those that `RESUMABLE` names may differ."""
    stored = folder.config()
    parser, names = parser_of(stored), plugin_names(stored)
    ignored = {"preset", *RESUMABLE}
    given = {name: value for name, value in settings.items() if name not in ignored}
    for group, name in plugin_names(given).items():
        if name != names.get(group):
            known = names.get(group)
            raise ConfigError(
                f"{group}.name is {known!r} in the run of {folder.path}, not {name!r}; choose another out"
            )
    before = parser.read_mapping(stored, "")
    kwargs = world_defaults(stored["env"], parser).get("env_kwargs", {})
    if "env_kwargs" in given:
        given["env_kwargs"] = {**kwargs, **given["env_kwargs"]}
    after = before | parser.flatten(given, f"the run of {folder.path}")
    saved = [flatten_options(saved_settings(values, env_specs(values))) for values in (before, after)]
    for name in saved[0] | saved[1]:
        if (old := saved[0].get(name)) != (new := saved[1].get(name)):
            raise ConfigError(f"{name} is {old!r} in the run of {folder.path}, not {new!r}; choose another out")
