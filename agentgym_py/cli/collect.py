"""`agentgym collect`: collect trajectories of an agent."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from agentgym_py.agents.base import agent_title
from agentgym_py.checks import Basic, require_at_least
from agentgym_py.cli import print_interrupted
from agentgym_py.cli.agent_options import (
    AgentOptions,
    ModelOptions,
    add_agent_options,
    phases_for,
    read_agent,
    show_outcome,
    showing_cost_of_stop,
)
from agentgym_py.cli.env_options import add_env_options, env_specs, require_tasks
from agentgym_py.cli.interrupts import no_interrupt_lost, require_not_interrupted
from agentgym_py.cli.parser import Parser, UsageError, Values, add_config, read_options
from agentgym_py.cli.runtime import console, new_file, print_json, require_new_file
from agentgym_py.collection import Collector, Job, jobs_for
from agentgym_py.collection.branching import collect_with_branches
from agentgym_py.collection.job import attempts_for_agent
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.env import EnvSpec, require_split
from agentgym_py.trajectory import store


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """The episodes."""

    out: Basic[str | None] = None
    """New file (required), with one line of JSON per episode; missing parent folders are created."""
    split: Basic[str] = "train"
    """Tasks to play; train on `train` only."""
    tasks: Basic[int] = 100
    """Number of tasks of each world, starting at --first."""
    first: Basic[int] = 0
    """Number of the first task."""
    attempts: Basic[int] = 1
    """Episodes per task and temperature."""
    forks: int = 0
    """Randomly chosen states per episode from which further episodes start: pairs that share a state, for
    `agentgym train --trainer dpo --trainer.level fork`."""
    fork_attempts: int = 4
    """Episodes per such state."""
    json: Basic[bool] = False
    """Print a summary as JSON, for a program."""

    def __post_init__(self) -> None:
        require_split(self.split)
        require_at_least(self, {"tasks": 1, "attempts": 1, "first": 0, "forks": 0, "fork_attempts": 1})


def options(parser: Parser) -> None:
    """Add the options of `collect`."""
    add_config(parser)
    add_env_options(parser)
    parser.add_dataclass(CollectOptions)
    parser.add(
        "temperature", default=[], item=_temperature, metavar="T", group="The episodes",
        help="Sampling temperature of a model, by default 1.0; with several, as 0.7,1.0, every task is played at each.",
    )  # fmt: skip
    add_agent_options(parser)


class CollectPlan(NamedTuple):
    """The episodes to collect, and their agent."""

    episodes: CollectOptions
    agent: AgentOptions
    model: ModelOptions
    temperatures: list[float]
    envs: list[EnvSpec]
    tasks: range


def read_plan(args: Values) -> CollectPlan:
    """Read and check the options before anything is loaded or written."""
    episodes = read_options(CollectOptions, args)
    (agent, model), temperatures = read_agent(args, "expert"), args["temperature"]
    if temperatures:
        agent.require_sampling()
    envs = env_specs(args)
    tasks = range(episodes.first, episodes.first + episodes.tasks)
    option = f"--first {episodes.first} with --tasks {episodes.tasks}" if episodes.first else "--tasks"
    require_tasks(envs, {episodes.split: (option, tasks.stop)}, tasks.start)
    return CollectPlan(episodes, agent, model, temperatures, envs, tasks)


def run(args: Values) -> int:
    """Collect into a file."""
    if args["out"] is None:
        raise UsageError("--out FILE.jsonl is needed")
    require_new_file(args["out"], "--out")
    try:
        plan = read_plan(args)
        with no_interrupt_lost(), new_file(args["out"], "--out") as target:
            return _run(plan, target)
    except KeyboardInterrupt:
        if not Path(args["out"]).exists():
            print(f"\n{args['out']}: no episode had ended, so there is no file", file=sys.stderr)
        raise


def _run(plan: CollectPlan, target: Path) -> int:
    episodes, agent_options, model, temperatures, envs, tasks = plan
    jobs = jobs_for(envs, episodes.split, tasks, episodes.attempts)
    agents, executor = agent_options.make_agents(model, temperatures or [1.0])
    play = agent_options.play_config(executor, model)
    parts = [
        (Collector(agent, play), attempts_for_agent(jobs, number, len(agents))) for number, agent in enumerate(agents)
    ]
    with showing_cost_of_stop(agents), executor:
        _write(parts, target, episodes)
    title = agent_title(agents[0].name, agents[0].sampling)
    if longest := agents[0].sampling.get("max_new_tokens"):
        title += f" (replies of at most {longest} tokens)"
    return _summary(str(target), title, episodes.json)


def _temperature(value: Any) -> float:
    return SamplingParams(temperature=float(value)).temperature  # raises for a wrong one


def _write(parts: Sequence[tuple[Collector, Sequence[Job]]], target: Path, episodes: CollectOptions) -> None:
    """Write the trajectories in order, each as soon as possible. After an error an empty file is removed."""
    jobs_done, writer = 0, store.TrajectoryWriter(target)
    job_count = sum(len(jobs) for _, jobs in parts)
    total = job_count * (1 + episodes.forks * episodes.fork_attempts)  # at most, because short episodes have few states
    try:
        with writer, phases_for(parts[0][0].agent, console(episodes.json)) as phases:
            progress = phases.begin("collect", total)
            for collector, jobs in parts:
                first_attempt = episodes.attempts * len(parts)
                for family in collect_with_branches(
                    collector, jobs, episodes.forks, episodes.fork_attempts, first_attempt
                ):
                    for trajectory in family:
                        require_not_interrupted()
                        writer.append(trajectory)
                        progress(trajectory)
                        show_outcome(collector.agent, trajectory)
                    jobs_done += 1
    except BaseException:
        if writer.written:
            most = "at most " if episodes.forks else ""
            tasks_done = jobs_done * episodes.tasks // job_count if len(parts) == 1 else 0
            first, rest = episodes.first + tasks_done, episodes.tasks - tasks_done
            options = f" --first {first} --tasks {rest}" if tasks_done else ""
            outcome = "plays the other tasks" if tasks_done else "begins again"
            if tasks_done and (begun := jobs_done % episodes.attempts):
                outcome += f", and the last {begun} of these once more"
            kept = f"{target}: {writer.written} of {most}{total} trajectories were written and are kept"
            print_interrupted(f"the same command with{options} --out ANOTHER.jsonl {outcome}", kept)
        raise
    finally:
        if not writer.written:
            target.unlink(missing_ok=True)


def _summary(path: str, agent: str, as_json: bool) -> int:
    """Print a summary; return 1 if every episode ended with an infrastructure failure."""
    from agentgym_py.evaluation import summarise
    from agentgym_py.evaluation.text import (
        context_note,
        cut_note,
        cut_warning,
        extra_calls_note,
        failure_note,
        format_rate,
        given_up_note,
        refused_note,
    )

    trajectories = list(store.read(path))
    summary = summarise(trajectories)
    status = int(summary.errors == len(trajectories))
    if warning := cut_warning(trajectories):
        warnings.warn(warning, stacklevel=2)
    if as_json:
        print_json({"file": path, "agent": agent, "trajectories": len(trajectories), **summary.as_dict()})
        return status
    cut = f", {note}" if (note := cut_note(summary.cut)) else ""
    print(f"{path}: {len(trajectories)} trajectories of {agent}, success {format_rate(summary.success)}{cut}")
    episodes = len(trajectories) - summary.errors
    if note := context_note(episodes, summary.outgrown, summary.turns_dropped, summary.summary_tokens):
        print(note)
    for note in (
        given_up_note(summary.given_up), refused_note(summary.refused), extra_calls_note(summary.extra_calls)
    ):  # fmt: skip
        if note:
            print(note, file=sys.stderr)
    if summary.errors:
        print(failure_note(trajectories), file=sys.stderr)
    if summary.spent:
        print(summary.spent, file=sys.stderr)
    return status
