"""`agentgym evolve`: start or resume an AgentEvol run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, redirect_stdout
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from agentgym_py import distributed
from agentgym_py.agents.model import require_room
from agentgym_py.checks import Basic
from agentgym_py.cli import interrupt_status, print_interrupted, resume_hint, write_errors_with
from agentgym_py.cli.agent_options import ModelOptions
from agentgym_py.cli.argv import peek_envs, peek_options, require_allowed
from agentgym_py.cli.coreset_options import CORESET
from agentgym_py.cli.curriculum_options import CURRICULUM, curriculum_lines
from agentgym_py.cli.engine_options import EngineOptions
from agentgym_py.cli.env_options import (
    add_env_options,
    env_specs,
    warn_of_training_tasks,
)
from agentgym_py.cli.evolve_defaults import require_options, world_defaults
from agentgym_py.cli.evolve_folder import (
    record_resumption,
    require_same_inputs,
    start_folder,
    threads_of,
    trust_options,
)
from agentgym_py.cli.evolve_header import header, headline, learning_rates
from agentgym_py.cli.evolve_tasks import require_all_tasks
from agentgym_py.cli.improvement_options import CRITIC, REFLECTION, improvement_lines
from agentgym_py.cli.interrupts import InterruptibleReporter, no_interrupt_lost
from agentgym_py.cli.parser import (
    Parser,
    UsageError,
    Values,
    add_config,
    read_options,
    suggestion,
    wants_help,
    with_option_names,
)
from agentgym_py.cli.runtime import console, load_torch, print_json, require_model_files
from agentgym_py.cli.saved_settings import relative_source, require_sources, saved_settings
from agentgym_py.cli.trainer_options import (
    add_cloner_options,
    add_trainer_options,
    read_cloner,
    read_trainer,
    trainer_class,
)
from agentgym_py.cli.values import flatten_options, plugin_names
from agentgym_py.collection import Executor
from agentgym_py.collection.processes import Workers
from agentgym_py.errors import ConfigError, EndpointError, NothingToTrainOnError, setting
from agentgym_py.evolution import Evolution, EvolveConfig, critic
from agentgym_py.evolution.config import (
    require_cloner,
    require_compatible,
    require_compatible_policy,
    require_costs,
    require_levels,
    require_reachable,
    require_roles,
    require_sequence,
)
from agentgym_py.evolution.fork import Fork, fork_lines, origin_of
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.files import clear_read_errors, new_folder
from agentgym_py.rewards.reward_model import require_reward_model
from agentgym_py.training import tracking
from agentgym_py.training.trainer import info_of, require_policy_trainer
from agentgym_py.trajectory.selectors import SelectConfig

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym_py.engine import Engine
    from agentgym_py.env import EnvSpec
    from agentgym_py.policy import Policy
    from agentgym_py.training.progress import Reporter

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "smoke": {
        "rounds": 1, "expert_tasks": 8, "explore_tasks": 8, "valid_tasks": 4, "test_tasks": 4, "max_new_tokens": 32,
        "select.threshold": 0.0, "select.success_only": False, "trainer.epochs": 1, "trainer.threshold": 0.0,
        "trainer.tasks_per_iteration": 4, "trainer.group_size": 2, "allow_empty": True,
    },
}  # fmt: skip
"""Other defaults by name; settings that a trainer does not have are ignored."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The run."""

    out: Basic[str | None] = None
    """Run folder; by default runs/ENV-TRAINER-sSEED, with -2, -3, … if that exists."""
    resume: Basic[str | None] = None
    """Resume the run in this folder with its own settings; --threads, --ray, --rounds and --base_url can be changed."""
    preset: Basic[str] = "default"
    """`default`, or `smoke`: a small run in under a minute that only checks the machinery. It also trains on failed
    episodes and continues when there is nothing to learn from; its success rates mean nothing."""
    json: bool = False
    """Print the test result as JSON at the end; progress goes to stderr."""


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


def options(parser: Parser) -> None:
    """Add the options of `evolve`; --preset and --trainer change some defaults."""
    first = peek_options(parser.argv)
    if "resume" in first and not wants_help(parser.argv):
        RunFolder.open(Path(first["resume"]))  # an error of the folder comes before those of the options
        require_allowed(parser.argv, ResumeOptions, "settings come from the run.yaml")
        parser.add_dataclass(ResumeOptions)
        return
    add_config(parser)
    parser.add_dataclass(RunOptions)
    trainer = first.get("trainer", "filtered_bc")
    add_settings(parser, trainer, first)
    defaults = info_of(trainer_class(trainer)).evolve_defaults
    require_options(parser, defaults, f"the trainer {trainer}")
    worlds = world_defaults(peek_envs(parser.argv) or ["shop"], parser)
    scores = critic.SELECT_DEFAULTS if first.get("critic") else {}
    parser.set_defaults({**worlds, **scores, **defaults, **_preset(first.get("preset", "default"), parser)})


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


def run(args: Values, fork: Fork | None = None) -> int:
    """Start, fork or resume a run; return 130 after Ctrl-C."""
    opened = [RunFolder.open(Path(args["resume"]))] if args.get("resume") else []
    try:
        with write_errors_with(lambda: _resume_advice(opened)), no_interrupt_lost(), ExitStack() as stack:
            result = _run(args, opened, stack, fork)
    except KeyboardInterrupt as stop:
        print_interrupted(_resume_advice(opened))
        return interrupt_status(stop)
    except NothingToTrainOnError as error:
        hint = resume_hint(f"start again with another {setting('out')}")
        raise NothingToTrainOnError(f"{error}{hint}") from error
    except EndpointError as error:
        raise EndpointError(f"{error}{resume_hint(_resume_advice(opened))}") from error
    if args["json"]:
        print_json(result | {"folder": str(opened[0].path)})
    return 0


def _resume_advice(opened: Sequence[RunFolder]) -> str:
    if not opened:
        return "nothing was written yet; start it again"
    return f"to resume: agentgym evolve --resume {opened[0].path}{trust_options(opened[0])}"


def _run(args: Values, opened: list[RunFolder], stack: ExitStack, fork: Fork | None) -> dict[str, Any]:
    """Resume the run in `opened`, or start one and append it there; `stack` holds its lock."""
    folder = opened[0] if opened else None
    settings, extends = _stored_settings(folder, args) if folder is not None else (args, False)
    plan = read_plan(settings, args)
    config, envs = plan.config, plan.envs
    require_reward_model(config.reward_model)
    distributed.init_process_group(plan.model.device)
    if folder is None and args["out"]:
        distributed.on_rank_zero(new_folder, args["out"])
    if extends:
        require_all_tasks(config, envs)
    finished = folder is not None and folder.finished and not extends
    if folder is None and distributed.is_rank_zero():
        warn_of_training_tasks(envs, ["valid", "test"])
    if not finished:
        tracking.require_service(settings["track"])
        require_model_files(plan.model.model)
    out = console(args["json"])
    out.print(headline(settings, config), style="bold", soft_wrap=True)  # before the imports, which take seconds
    if folder is not None:
        distributed.on_rank_zero(lambda: stack.enter_context(opened[0].locked()))
    base: list[Policy] = []
    executor: Executor = Workers(1)
    engines = None
    if not finished:
        base, executor, engines = _load(args, plan, opened, extends, stack, fork)
    folder = opened[0]
    stack.enter_context(executor)
    evolution = partial(
        Evolution, folder, envs, config, plan.trainer, _loader(plan.model, config.seed, base), cloner=plan.cloner,
        executor=executor, engine=engines,
        partner=plan.model.partner_settings(config.max_new_tokens, config.slots, plan.engine.kv_cache_gib),
    )  # fmt: skip
    lines = _header_lines(folder, plan, settings, base)
    if fork:
        base.clear()  # it is not what the next round starts from
    return _run_with_progress(evolution, folder, lines, out)


def _stored_settings(folder: RunFolder, args: Values) -> tuple[Values, bool]:
    """Return the settings of a run that is resumed, and whether `args` extend it by rounds."""
    require_sources(folder.read_json("provenance.json").get("sources", {}), str(folder.path))
    settings = read_settings(folder)
    extends = args["rounds"] not in (None, settings["rounds"])
    if extends:
        folder.require_extensible(args["rounds"])
        settings["rounds"] = args["rounds"]
    return settings, extends


def _header_lines(folder: RunFolder, plan: RunPlan, settings: Values, base: Sequence[Policy]) -> list[str]:
    """Describe a run before its first round; a new one, whose base is loaded, with its learning rates."""
    config = plan.config
    plan_lines = [
        *curriculum_lines(config, plan.envs, settings["curriculum.name"]),
        *improvement_lines(config, settings["critic.name"], settings["reflection.name"]),
    ]
    with clear_read_errors(folder.path):
        lines = header(folder, config, len(plan.envs), [*fork_lines(folder), *plan_lines])
    if base:
        trainers = {"trainer": (settings["trainer.name"], plan.trainer)}
        if plan.cloner and config.expert_tasks:
            trainers = {"cloner": (info_of(plan.trainer).warm_start or "", plan.cloner), **trainers}
        lines += learning_rates(base[0].num_parameters, trainers, base[0].learning_rate_scale)
    return lines


def _load(
    args: Values, plan: RunPlan, opened: list[RunFolder], extends: bool, stack: ExitStack, fork: Fork | None
) -> tuple[list[Policy], Executor, Callable[[Policy], Engine]]:
    """Load torch and the base policy, and check, extend or start the folder; the list holds the base of a new run."""
    config, engine, folder = plan.config, plan.engine, opened[0] if opened else None
    load_torch(threads_of(fork.run if fork else folder, plan.model.threads))
    base = plan.model.load(config.seed)  # an error ends the command before there is a folder
    if folder is None:
        require_room(base, config.max_new_tokens)
        if fork:
            distributed.on_rank_zero(require_same_inputs, fork.run, plan.envs, base, "forked")
    else:
        distributed.on_rank_zero(record_resumption, folder, plan.envs, base)
    if folder is None or extends:
        require_compatible_policy(config, plan.trainer, base)
    if folder is not None and extends:
        distributed.on_rank_zero(_extend, folder, config.rounds)
    executor, engines = engine.executor_for(base, plan.model.ray), engine.engine_factory(base, config.slots)
    if folder is not None:
        return [], executor, engines
    opened.append(distributed.on_rank_zero(lambda: stack.enter_context(start_folder(args, plan.envs, base, fork))))
    return [base], executor, engines


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


def _extend(folder: RunFolder, rounds: int) -> None:
    """Change the number of rounds of a run."""
    before = folder.stored_config()
    folder.set_rounds(rounds)
    tracking.accept_settings(folder.path, before, folder.stored_config())


def evolve_config(args: Values) -> EvolveConfig:
    """Read the settings of the rounds."""
    select = read_options(SelectConfig, args, "select.")
    return read_options(
        EvolveConfig, args, select=select, curriculum=CURRICULUM.read(args), coreset=CORESET.read(args),
        critic=CRITIC.read(args), reflection=REFLECTION.read(args),
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------------- the settings


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
    given = {name: value for name, value in settings.items() if value is not None and name not in ignored}
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


def _preset(name: str, parser: Parser) -> dict[str, Any]:
    if name not in PRESETS:
        choices = f"choose from {', '.join(PRESETS)}{suggestion(name, PRESETS)}"
        raise UsageError(f"{setting('preset')}: no preset {name!r}; {choices}")
    return {key: value for key, value in PRESETS[name].items() if key in parser.options}


# ------------------------------------------------------------------------------------------------------------- the run


def _loader(model: ModelOptions, seed: int, loaded: list[Policy]) -> Callable[[str | None], Policy]:
    """Return a function that loads the base or a checkpoint; a loaded base is returned once and not kept."""

    def load(folder: str | None) -> Policy:
        return loaded.pop() if folder is None and loaded else model.load(seed, folder)

    return load


def _run_with_progress(
    evolution: Callable[[Reporter], Evolution], folder: RunFolder, lines: Sequence[str], out: Console
) -> dict[str, Any]:
    """Run with progress bars and tables, and update the report after each round."""
    from agentgym_py.report.page import SMOKE, comparison, is_smoke, matrix, remarks, write_report
    from agentgym_py.report.terminal import TerminalReporter, columns

    redirect = redirect_stdout(sys.stderr) if out.stderr else nullcontext()  # plugins may print, but stdout is JSON
    report = partial(distributed.on_rank_zero, write_report, folder.path)
    track = None if folder.finished else folder.config().get("track")
    tracker = tracking.Tracker(track, folder.path, folder.stored_config()) if track else None
    with redirect, TerminalReporter(out, report) as reporter, tracker.listening() if tracker else nullcontext():
        reporter.header(*lines)
        result = evolution(InterruptibleReporter(tracker.reporter(reporter) if tracker else reporter)).run()
        if tracker:
            tracker.test(result)
        with clear_read_errors(folder.path):
            rows, verdict = comparison(folder)
            by_stage = "\n".join(["", *columns(table), ""]) if (table := matrix(folder)) else ""
            notes = filter(None, [by_stage, verdict, *remarks(folder), SMOKE if is_smoke(folder) else ""])
            reporter.finish(rows, "\n".join(notes), report(), next_steps=_next_steps(folder, result["best"]))
    return result


def _next_steps(folder: RunFolder, best: int) -> str:
    """Return the best agent's checkpoint, and the command that evaluates it."""
    checkpoint, config = folder.round(best) / "checkpoint", folder.config()
    worlds = {f"env_kwargs.{name}": value for name, value in flatten_options(config.get("env_kwargs") or {}).items()}
    words = [f"--env {quote(','.join(map(relative_source, config['env'])))}"]
    words += [f"--{name} {quote(str(value))}" for name, value in worlds.items()]
    words += [f"--roles {','.join(config['roles'])}"] if config.get("roles") else []
    evaluation = f"agentgym eval --model {quote(str(checkpoint))} {' '.join(words)}"
    advice = f"best agent: {checkpoint}\nto evaluate it: {evaluation}"
    if origin := origin_of(folder):
        runs = f"{quote(str(folder.path))} {quote(relative_source(origin['run']))}"
        advice += f"\nto see the effect of what the fork changed: agentgym compare {runs}"
    return advice
