"""`agentgym evolve`: start or resume an AgentEvol run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from agentgym_py import distributed
from agentgym_py.agents.model import require_room
from agentgym_py.checks import Basic
from agentgym_py.cli import interrupt_status, print_interrupted, resume_hint, write_errors_with
from agentgym_py.cli.agent_options import ModelOptions
from agentgym_py.cli.argv import peek_envs, peek_options, require_allowed
from agentgym_py.cli.curriculum_options import curriculum_lines
from agentgym_py.cli.env_options import warn_of_training_tasks
from agentgym_py.cli.evolve_defaults import defaults_for_trainer, require_options, world_defaults
from agentgym_py.cli.evolve_folder import (
    record_resumption,
    require_same_inputs,
    start_folder,
    threads_of,
)
from agentgym_py.cli.evolve_header import header, headline, learning_rates, round_lines
from agentgym_py.cli.evolve_settings import ResumeOptions, RunPlan, add_settings, preset, read_plan, read_settings
from agentgym_py.cli.evolve_tasks import require_all_tasks
from agentgym_py.cli.improvement_options import improvement_lines
from agentgym_py.cli.interrupts import InterruptibleReporter, no_interrupt_lost
from agentgym_py.cli.parser import Parser, Values, add_config, wants_help
from agentgym_py.cli.runtime import console, load_torch, print_json, require_model_files
from agentgym_py.cli.saved_settings import relative_source, require_sources
from agentgym_py.cli.trainer_options import trainer_class
from agentgym_py.cli.values import flatten_options
from agentgym_py.collection import Executor
from agentgym_py.collection.processes import Workers
from agentgym_py.env import EnvSpec, reply_tokens
from agentgym_py.errors import EndpointError, NothingToTrainOnError, setting
from agentgym_py.evolution import Evolution, critic
from agentgym_py.evolution.config import require_compatible_policy
from agentgym_py.evolution.fork import Fork, fork_lines, origin_of
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.files import clear_read_errors, require_creatable
from agentgym_py.rewards.reward_model import require_reward_model
from agentgym_py.training import tracking
from agentgym_py.training.trainer import info_of, is_on_policy

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym_py.engine import Engine
    from agentgym_py.policy import Policy
    from agentgym_py.training.progress import Reporter


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
    kind = trainer_class(trainer)
    defaults = info_of(kind).evolve_defaults
    require_options(parser, defaults, f"the trainer {trainer}")
    envs = peek_envs(parser.argv) or ["shop"]
    parser.about += f" The defaults below are those of {', '.join(envs)}; `--env NAME --help` shows those of a world."
    worlds = defaults_for_trainer(world_defaults(envs, parser), kind)
    scores = critic.SELECT_DEFAULTS if first.get("critic") else {}
    parser.set_defaults({**worlds, **scores, **defaults, **preset(first.get("preset", "default"), parser)})


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
    return f"to resume: {opened[0].resume_command()}"


def _run(args: Values, opened: list[RunFolder], stack: ExitStack, fork: Fork | None) -> dict[str, Any]:
    """Resume the run in `opened`, or start one and append it there; `stack` holds its lock."""
    folder = opened[0] if opened else None
    settings, extends = _stored_settings(folder, args) if folder is not None else (args, False)
    plan = read_plan(settings, args)
    config, envs = plan.config, plan.envs
    require_reward_model(config.reward_model)
    distributed.init_process_group(plan.model.device)
    if folder is None and args["out"]:
        distributed.on_rank_zero(_require_new, args["out"])
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


def _require_new(path: str) -> None:
    """Raise RunError before the imports, which take seconds, if a run cannot begin in a folder."""
    RunFolder.require_new(path)
    require_creatable(path)


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
        *round_lines(config, len(plan.envs), is_on_policy(plan.trainer)),
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


def _extend(folder: RunFolder, rounds: int) -> None:
    """Change the number of rounds of a run."""
    before = folder.stored_config()
    folder.set_rounds(rounds)
    tracking.accept_settings(folder.path, before, folder.stored_config())


def _loader(model: ModelOptions, seed: int, loaded: list[Policy]) -> Callable[[str | None], Policy]:
    """Return a function that loads the base or a checkpoint; a loaded base is returned once and not kept."""

    def load(folder: str | None) -> Policy:
        return loaded.pop() if folder is None and loaded else model.load(seed, folder)

    return load


def _run_with_progress(
    evolution: Callable[[Reporter], Evolution], folder: RunFolder, lines: Sequence[str], out: Console
) -> dict[str, Any]:
    """Run with progress bars and tables, and update the report after each round."""
    from agentgym_py.report.comparison import comparison, matrix
    from agentgym_py.report.page import SMOKE, is_smoke, remarks, write_report
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


_KEPT_BY_NO_CHECKPOINT = {"prompt": "brief", "prompt_template": None, "context": "error", "max_context": None}
"""Settings of play, with the defaults of `agentgym eval`, that an evaluation needs besides the checkpoint."""


def _next_steps(folder: RunFolder, best: int) -> str:
    """Return the best agent's checkpoint, and the command that evaluates it."""
    checkpoint, config = folder.round(best) / "checkpoint", folder.config()
    worlds = {f"env_kwargs.{name}": value for name, value in flatten_options(config.get("env_kwargs") or {}).items()}
    words = [f"--env {quote(','.join(map(relative_source, config['env'])))}"]
    words += [f"--{name} {quote(str(value))}" for name, value in worlds.items()]
    words += [f"--roles {','.join(config['roles'])}"] if config.get("roles") else []
    usual = {**_KEPT_BY_NO_CHECKPOINT, "max_new_tokens": reply_tokens(map(EnvSpec, config["env"]))}
    words += [f"--{name} {quote(str(config[name]))}" for name in usual if config.get(name, usual[name]) != usual[name]]
    evaluation = f"agentgym eval --model {quote(str(checkpoint))} {' '.join(words)}"
    advice = f"best agent: {checkpoint}\nto evaluate it: {evaluation}"
    if origin := origin_of(folder):
        runs = f"{quote(str(folder.path))} {quote(relative_source(origin['run']))}"
        advice += f"\nto see the effect of what the fork changed: agentgym compare {runs}"
    return advice
