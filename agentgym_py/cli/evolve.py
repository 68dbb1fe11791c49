"""`agentgym evolve`: an AgentEvol run in its folder, from the start or from where it was interrupted."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass, fields
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentgym_py import distributed
from agentgym_py.agents.model import require_room
from agentgym_py.checks import Basic
from agentgym_py.cli import interrupted, resume_hint, sigterm_as_interrupt, status_of
from agentgym_py.cli.agent_options import ModelOptions
from agentgym_py.cli.engine_options import EngineOptions
from agentgym_py.cli.env_options import add_env_options, env_specs, env_versions, require_tasks
from agentgym_py.cli.interrupts import InterruptibleReporter
from agentgym_py.cli.parser import Parser, UsageError, add_config, peek_options, read_options, suggestion, wants_help
from agentgym_py.cli.runtime import console, load_torch, print_json, provenance, require_model_files
from agentgym_py.cli.saved_settings import require_sources, settings_of, sources_of
from agentgym_py.cli.trainer_options import (
    add_cloner_options,
    add_trainer_options,
    read_cloner,
    read_trainer,
    trainer_class,
)
from agentgym_py.collection import Executor
from agentgym_py.collection.processes import Workers
from agentgym_py.env import registration
from agentgym_py.errors import ConfigError, EndpointError, NothingToTrainOnError, RunError
from agentgym_py.evolution import Evolution, EvolveConfig
from agentgym_py.evolution.config import (
    require_cloner,
    require_compatible,
    require_compatible_policy,
    require_reachable,
)
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.evolution.task_sampling import tasks_per_env
from agentgym_py.files import new_folder
from agentgym_py.registry import is_source
from agentgym_py.rewards.reward_model import require_reward_model
from agentgym_py.training import tracking
from agentgym_py.training.trainer import info_of, require_policy_trainer
from agentgym_py.trajectory.selectors import SelectConfig

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym_py.cli.parser import Values
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
"""Other defaults by name; what a trainer has no setting for is left out."""
_NOTHING_YET = "nothing was written yet; start it again"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The run."""

    out: Basic[str | None] = None
    """Run folder; by default runs/ENV-TRAINER-sSEED, with -2, -3, … where that exists."""
    resume: Basic[str | None] = None
    """Resume the run in this folder, with its own settings and as many threads unless --threads says otherwise."""
    preset: Basic[str] = "default"
    """`default`, or `smoke`: every step of a run, but small, in under a minute. It checks the machinery only: it trains
    on failed episodes too, continues when there is nothing to learn from, and its success rates mean nothing."""
    json: bool = False
    """Print the test result as JSON at the end; what happens meanwhile goes to stderr."""


@dataclass(frozen=True, slots=True)
class TrackOptions:
    """Tracking."""

    track: tracking.Service | None = None
    """Where every training step and round is logged while the run goes: `tensorboard`, `trackio` or `wandb`, offline;
    docs/tracking.md."""


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """What may stand beside --resume; all other settings come from the run."""

    resume: str
    """The run's folder."""
    threads: int | None = None
    """CPU threads and processes; by default as many as the run began with, so that its end is bit-identical."""
    ray: int | None = None
    """Number of actors of a Ray cluster that play."""
    rounds: int | None = None
    """Rounds that the run has in the end. A finished run continues with more and is tested again. It is then
    bit-identical to a run that began with this many."""
    base_url: str | None = None
    """Address of the model server, where it is no longer the one that the run began with."""
    json: bool = False
    """Print the test result as JSON at the end."""


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `evolve` takes; the preset and the trainer that were asked for decide some of it."""
    first = peek_options(argv)
    if "resume" in first and not wants_help(argv):
        RunFolder.open(Path(first["resume"]))  # a wrong folder matters more than what stands beside it
        _refuse_settings(argv)
        parser.add_dataclass(ResumeOptions)
        return
    add_config(parser)
    parser.add_dataclass(RunOptions)
    trainer = first.get("trainer", "filtered_bc")
    add_settings(parser, trainer)
    needed = info_of(trainer_class(trainer)).evolve_defaults
    if wrong := next((name for name in needed if name not in parser.options), None):
        near = suggestion(wrong, [option.flag for option in parser.options.values()])
        raise ConfigError(f"the trainer {trainer} has evolve_defaults for {wrong!r}, no option of evolve{near}")
    parser.set_defaults({**needed, **_preset(first.get("preset", "default"), parser)})


def add_settings(parser: Parser, trainer: str) -> None:
    """The options that `run.yaml` holds."""
    add_env_options(parser)
    parser.add_dataclass(ModelOptions)
    parser.add_dataclass(EngineOptions, basic=False)
    parser.add_dataclass(EvolveConfig, skip={"select"})
    parser.add_dataclass(SelectConfig, "select.", "Which trajectories a round learns from", basic=False)
    add_trainer_options(parser, trainer)
    add_cloner_options(parser, trainer)
    parser.add_dataclass(TrackOptions, basic=False)


def _refuse_settings(argv: Sequence[str]) -> None:
    """A setting beside --resume would be ignored: say so instead."""
    allowed = [f"--{each.name}" for each in fields(ResumeOptions)]
    for word in argv:
        name = word.partition("=")[0]
        if name.startswith("--") and name not in allowed:
            beside = ", ".join(allowed[1:])
            raise UsageError(
                f"{name} cannot stand beside --resume: settings come from the run's run.yaml; {beside} can"
            )


def run(args: Values) -> int:
    """Start a run, or go on with one; 130 after Ctrl-C."""
    begun = [RunFolder.open(Path(args["resume"]))] if args.get("resume") else []
    try:
        with sigterm_as_interrupt(), ExitStack() as lock:
            result = _run(args, begun, lock)
    except KeyboardInterrupt as stop:
        interrupted(_how_to_go_on(begun))
        return status_of(stop)
    except NothingToTrainOnError as error:
        raise NothingToTrainOnError(f"{error}{resume_hint('start again with another --out')}") from error
    except EndpointError as error:
        raise EndpointError(f"{error}{resume_hint(_how_to_go_on(begun))}") from error
    if args["json"]:
        print_json(result | {"folder": str(begun[0].path)})
    return 0


def _how_to_go_on(begun: Sequence[RunFolder]) -> str:
    return f"to go on: agentgym evolve --resume {begun[0].path}" if begun else _NOTHING_YET


def _run(args: Values, begun: list[RunFolder], lock: ExitStack) -> dict[str, Any]:
    """Go on with the run in `begun`, or start one and put it there; `lock` keeps others out of it."""
    folder = begun[0] if begun else None
    if folder:
        require_sources(folder.read_json("provenance.json").get("sources", {}), str(folder.path))
    settings = _settings_of(folder) if folder else args
    more = folder is not None and args["rounds"] not in (None, settings["rounds"])
    if folder is not None and more:
        folder.require_extensible(args["rounds"])
        settings["rounds"] = args["rounds"]
    model, engine, config, trainer, cloner, envs = read(settings, args)
    require_reward_model(config.reward_model)
    distributed.init_process_group(model.device)
    if folder is None and args["out"]:
        distributed.on_rank_zero(new_folder, args["out"])
    finished = folder is not None and folder.finished and not more
    if more:
        _require_all_tasks(config, envs)
    if not finished:
        tracking.need(settings["track"])
        require_model_files(model.model)
    out = console(args["json"])
    out.print(_headline(settings, config), style="bold", soft_wrap=True)  # what follows takes seconds to load
    if not finished:
        load_torch(_threads(folder, model.threads))
    ready: list[Policy] = []
    executor: Executor = Workers(1)
    play = None
    if folder is None:
        ready = [model.load(config.seed)]  # a wrong name is said before there is a folder
        require_room(ready[0], config.max_new_tokens)
        require_compatible_policy(config, trainer, ready[0])
        executor, play = engine.executor_for(ready[0], model.ray), engine.engines_for(ready[0], config.slots)
        folder = distributed.on_rank_zero(lambda: lock.enter_context(_started(args, envs, ready[0])))
        begun.append(folder)
    else:
        distributed.on_rank_zero(lambda: lock.enter_context(folder.locked()))
        if not finished:
            base = model.load(config.seed)
            distributed.on_rank_zero(_check_basis, folder, envs, base)
            if more:
                require_compatible_policy(config, trainer, base)
                distributed.on_rank_zero(_extend, folder, config.rounds)
            executor, play = engine.executor_for(base, model.ray), engine.engines_for(base, config.slots)
    lock.enter_context(executor)
    load = _loader(model, config.seed, ready)
    evolution = partial(Evolution, folder, envs, config, trainer, load, cloner=cloner, executor=executor, engine=play)
    return _show(evolution, folder, _header(folder, config, len(envs)), out)


class Wanted(NamedTuple):
    """What a run is to be."""

    model: ModelOptions
    engine: EngineOptions
    config: EvolveConfig
    trainer: Any
    cloner: Any
    """Who makes Agent_v0, where it is not the trainer."""
    envs: list[EnvSpec]


def read(settings: Values, beside: Values) -> Wanted:
    """What is wanted; complains of what cannot be, before anything is loaded or written.

    Beside the settings of a run that is gone on with stand the command line's; a new one has no others.
    """
    model = read_options(ModelOptions, settings, threads=beside["threads"], ray=beside["ray"])
    engine = read_options(EngineOptions, settings, base_url=beside["base_url"] or settings["base_url"])
    if engine.base_url and engine.engine != "server":
        raise UsageError("--base_url is of a model server: --engine server --base_url ADDRESS")
    config, trainer = evolve_config(settings), read_trainer(settings)
    require_policy_trainer(trainer)
    envs = env_specs(settings)
    require_compatible(config, trainer, len(envs))
    require_reachable(config, trainer, envs)
    require_cloner(config, trainer, cloner := read_cloner(settings))
    engine.require_here(config.step_timeout)
    if settings is beside:
        _require_all_tasks(config, envs)
    return Wanted(model, engine, config, trainer, cloner, envs)


def _require_all_tasks(config: EvolveConfig, envs: Sequence[EnvSpec]) -> None:
    """Refuse more tasks than the worlds have."""
    for spec, share in zip(envs, tasks_per_env(envs, config.explore_weights, config.explore_tasks), strict=True):
        require_tasks([spec], _tasks_of(config, share))


def _extend(folder: RunFolder, rounds: int) -> None:
    """Give a run another number of rounds."""
    before = folder.stored_config()
    folder.set_rounds(rounds)
    tracking.accept_settings(folder.path, before, folder.stored_config())


def evolve_config(args: Values) -> EvolveConfig:
    """The settings of the rounds."""
    return read_options(EvolveConfig, args, select=read_options(SelectConfig, args, "select."))


# ---------------------------------------------------------------------------------------------------------- the folder


def _started(args: Values, envs: Sequence[EnvSpec], base: Policy) -> AbstractContextManager[RunFolder]:
    settings, made_with = settings_of(args, envs), provenance() | {"preset": args["preset"]} | _basis(envs, base)
    made_with |= {"sources": found} if (found := sources_of(settings)) else {}
    return RunFolder.start(Path(args["out"]) if args["out"] else _own_folder(settings), settings, made_with)


def _basis(envs: Sequence[EnvSpec], base: Policy) -> dict[str, Any]:
    """What a run stands on beside its settings: the base policy's weights and the worlds' versions."""
    return {"base_policy": base.digest(), "env_versions": env_versions(envs, "train")}


def _check_basis(folder: RunFolder, envs: Sequence[EnvSpec], base: Policy) -> None:
    """Refuse to resume with other weights or worlds than the run began with; note who resumes and when."""
    held, now = folder.read_json("provenance.json"), _basis(envs, base)
    for name, value in now.items():
        if held.get(name) != value:
            raise RunError(f"{folder.path} cannot go on: its {name} was {held.get(name)}, and is {value} now")
    resumed = [*held.get("resumed", []), provenance()]
    folder.write_json("provenance.json", held | {"resumed": resumed})


def _own_folder(settings: Mapping[str, Any]) -> Path:
    """The first free folder of this run's name; that it is made here keeps it from everybody who starts meanwhile."""
    envs = "+".join(registration.short_name(registration.env_id(name)) if is_source(name) else name
                    for name in settings["env"])  # fmt: skip
    name = settings["trainer"]["name"]
    trainer = trainer_class(name).__name__.lower() if is_source(name) else name
    first = Path("runs") / f"{envs}-{trainer}-s{settings['seed']}"
    first.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        path = first if number == 1 else first.with_name(f"{first.name}-{number}")
        with suppress(FileExistsError):
            path.mkdir()
            break
    return path


def _threads(folder: RunFolder | None, asked: int | None) -> int | None:
    """The threads that were asked for, else those that the run began with: sums round otherwise with other threads."""
    held = folder.read_json("provenance.json") if folder else {}
    begun, processes = held.get("threads"), held.get("processes", distributed.world_size())
    if folder and processes != distributed.world_size():
        warnings.warn(
            f"{folder.path} began with {processes} processes and resumes with {distributed.world_size()}: "
            "the result may not be bit-identical",
            stacklevel=2,
        )
        return asked
    if folder and asked and begun and asked != begun:
        warnings.warn(
            f"{folder.path} began with {begun} threads and resumes with {asked}: the result may differ in rounding",
            stacklevel=2,
        )
    return asked or begun


def _settings_of(folder: RunFolder) -> Values:
    """The settings in `run.yaml`, checked as those of a command line are."""
    held = folder.config()
    trainer = held.get("trainer")
    parser = Parser("agentgym evolve")
    add_settings(parser, str(trainer.get("name")) if isinstance(trainer, dict) else str(trainer))
    return parser.read_mapping(held, str(folder.path / "run.yaml"))


def _preset(name: str, parser: Parser) -> dict[str, Any]:
    if name not in PRESETS:
        raise UsageError(f"no preset {name!r}; there are {', '.join(PRESETS)}{suggestion(name, PRESETS)}")
    return {key: value for key, value in PRESETS[name].items() if key in parser.options}


# ------------------------------------------------------------------------------------------------------------- the run


def _loader(model: ModelOptions, seed: int, ready: list[Policy]) -> Callable[[str | None], Policy]:
    """Loads the base or a checkpoint; a base that is ready is given away once, and kept no longer."""

    def load(folder: str | None) -> Policy:
        return ready.pop() if folder is None and ready else model.load(seed, folder)

    return load


def _show(
    evolution: Callable[[Reporter], Evolution], folder: RunFolder, header: Sequence[str], out: Console
) -> dict[str, Any]:
    """Run with bars and tables, and a report that is written again after each round."""
    from agentgym_py.report.page import SMOKE, comparison, is_smoke, write_report
    from agentgym_py.report.terminal import TerminalReporter

    out_of_the_way = redirect_stdout(sys.stderr) if out.stderr else nullcontext()  # a plugin may print; stdout is JSON
    report = partial(distributed.on_rank_zero, write_report, folder.path)
    track = None if folder.finished else folder.config().get("track")
    tracker = tracking.Tracker(track, folder.path, folder.stored_config()) if track else None
    with out_of_the_way, TerminalReporter(out, report) as reporter, tracker.listening() if tracker else nullcontext():
        reporter.header(*header)
        result = evolution(InterruptibleReporter(tracker.reporter(reporter) if tracker else reporter)).run()
        if tracker:
            tracker.test(result)
        rows, verdict = comparison(folder)
        said = "\n".join(filter(None, [verdict, SMOKE if is_smoke(folder) else ""]))
        reporter.finish(rows, said, report())
    return result


def _headline(settings: Values, config: EvolveConfig) -> str:
    worlds = ", ".join(settings["env"])
    several = f", {distributed.world_size()} processes" if distributed.world_size() > 1 else ""
    how = f"trainer {settings['trainer.name']}, model {settings['model']}, seed {config.seed}"
    return f"AgentEvol on {worlds}: {how}{several}"


def _tasks_of(config: EvolveConfig, share: int) -> dict[str, tuple[str, int]]:
    """By split: the options that say how many tasks of a world a run takes, and how many; in a round its share."""
    asked, train = "--expert_tasks", config.expert_tasks + config.rounds * share
    if config.rounds:
        asked += f" {config.expert_tasks} + --rounds {config.rounds} * --explore_tasks {share}"
        asked += ", by --explore_weights," * (share != config.explore_tasks)
    tests = ("--test_tasks", config.test_tasks)
    return {"train": (asked, train), "valid": ("--valid_tasks", config.valid_tasks), "test": tests}


def _header(folder: RunFolder, config: EvolveConfig, worlds: int) -> list[str]:
    """The run's plan, what may surprise in it, and how far it is."""
    from agentgym_py.report.page import SMOKE, is_smoke

    rounds = f"then {config.rounds} round{'s' * (config.rounds != 1)}" if config.rounds else "no rounds after it"
    experts = f"from {config.expert_tasks * worlds} episodes of the {config.expert} expert"
    lines = [f"Agent_v0 {experts if config.expert_tasks else 'is the model as it stands'}, {rounds}; {folder.path}"]
    if is_smoke(folder):
        lines.append(SMOKE)
    elif not config.select.success_only:
        how = f"--select.success_only false, --select.threshold {config.select.threshold:g}"
        lines.append(f"Failed episodes are selected too: {how}.")
    return lines + _so_far(folder, config)


def _so_far(folder: RunFolder, config: EvolveConfig) -> list[str]:
    if folder.finished:
        return ["This run was finished already, nothing is run again; it came to this:"]
    done = sum(folder.done(number) for number in range(config.rounds + 1))
    if done <= config.rounds and folder.round(done).is_dir() and any(folder.round(done).iterdir()):
        return [f"Resuming in the middle of round {done}."]
    last = f"round {done - 1}" if done > 1 else "Agent_v0"
    return [f"Going on after {last}{', with the test' * (done > config.rounds)}."] if done else []
