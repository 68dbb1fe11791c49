"""`agentgym collect`: an agent plays, its trajectories are stored."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentgym_py.agents.base import agent_title
from agentgym_py.checks import Basic, require_at_least
from agentgym_py.cli.agent_options import AgentOptions, ModelOptions, add_agent_options, phases_of, read_agent, tell
from agentgym_py.cli.env_options import add_env_options, env_specs, require_tasks
from agentgym_py.cli.interrupts import require_not_interrupted
from agentgym_py.cli.parser import UsageError, add_config, read_options
from agentgym_py.cli.runtime import console, new_file, print_json
from agentgym_py.collection import Collector, Job, jobs_for
from agentgym_py.collection.branching import collect_with_branches
from agentgym_py.collection.job import attempts_for_agent
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.env import EnvSpec, require_split
from agentgym_py.trajectory import store

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """The episodes."""

    out: Basic[str | None] = None
    """File that is written, one line of JSON an episode; folders on the way to it are made."""
    split: Basic[str] = "train"
    """`train`, `valid` or `test`."""
    tasks: Basic[int] = 100
    """Number of tasks of each world, from --first on."""
    first: Basic[int] = 0
    """Number of the first task."""
    attempts: Basic[int] = 1
    """Episodes per task, at each temperature."""
    forks: int = 0
    """States within each episode, drawn by the seed, from which further episodes start: pairs that share a state, for
    `agentgym train --trainer dpo --trainer.level fork`."""
    fork_attempts: int = 4
    """Episodes that start from each of these states."""
    json: Basic[bool] = False
    """Print a summary as JSON, for a program."""

    def __post_init__(self) -> None:
        require_split(self.split)
        require_at_least(self, {"tasks": 1, "attempts": 1, "first": 0, "forks": 0, "fork_attempts": 1})


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `collect` takes."""
    del argv
    add_config(parser)
    add_env_options(parser)
    parser.add_dataclass(CollectOptions)
    parser.add(
        "temperature", default=[], item=_temperature, metavar="T", group="The episodes",
        help="Sampling temperature of a model; several, as 0.7,1.0, play every task at each. By default 1.0.",
    )  # fmt: skip
    add_agent_options(parser)


class Wanted(NamedTuple):
    """What is to be played, and by whom."""

    episodes: CollectOptions
    who: AgentOptions
    model: ModelOptions
    temperatures: list[float]
    envs: list[EnvSpec]
    tasks: range


def read(args: Values) -> Wanted:
    """What is wanted; complains of what cannot be, before anything is loaded or written."""
    episodes = read_options(CollectOptions, args)
    (who, model), temperatures = read_agent(args, "expert"), args["temperature"]
    if temperatures and not who.takes("temperature"):
        raise UsageError(f"--temperature is for a --model: the agent {who.agent} samples nothing")
    envs = env_specs(args)
    tasks = range(episodes.first, episodes.first + episodes.tasks)
    asked = f"--first {episodes.first} with --tasks {episodes.tasks}" if episodes.first else "--tasks"
    require_tasks(envs, {episodes.split: (asked, tasks.stop)})
    return Wanted(episodes, who, model, temperatures, envs, tasks)


def run(args: Values) -> int:
    """Collect into a file."""
    if args["out"] is None:
        raise UsageError("--out FILE.jsonl wanted: where the trajectories go")
    target = new_file(args["out"], "--out")
    episodes, who, model, temperatures, envs, tasks = read(args)
    jobs = jobs_for(envs, episodes.split, tasks, episodes.attempts)
    agents, executor = who.make(model, temperatures or [1.0])
    play = who.play(executor)
    plans = [
        (Collector(agent, play), attempts_for_agent(jobs, number, len(agents))) for number, agent in enumerate(agents)
    ]
    with executor:
        _stream(plans, target, episodes)
    return _summary(str(target), agent_title(agents[0].name, agents[0].sampling), episodes.json)


def _temperature(value: Any) -> float:
    return SamplingParams(temperature=float(value)).temperature  # complains of a wrong one


def _stream(plans: Sequence[tuple[Collector, Sequence[Job]]], target: Path, episodes: CollectOptions) -> None:
    """Write each trajectory as soon as all before it are there: Ctrl-C or an error leaves those, or no file."""
    asked, done, writer = sum(len(jobs) for _, jobs in plans), 0, store.TrajectoryWriter(target)
    total = asked * (1 + episodes.forks * episodes.fork_attempts)  # at most: short episodes have fewer states
    try:
        with writer, phases_of(plans[0][0].agent, console(episodes.json)) as phases:
            progress = phases.begin("collect", total)
            for collector, jobs in plans:
                first_try = episodes.attempts * len(plans)
                for family in collect_with_branches(collector, jobs, episodes.forks, episodes.fork_attempts, first_try):
                    for trajectory in family:
                        require_not_interrupted()
                        writer.append(trajectory)
                        progress(trajectory)
                        tell(collector.agent, trajectory)
                    done += 1
    except BaseException as error:
        if writer.written:
            most = "at most " * bool(episodes.forks)
            kept = f"{target}: {writer.written} of {most}{total} trajectories were written, and are kept"
            whole = done * episodes.tasks // asked if len(plans) == 1 else 0
            rest = f" --first {episodes.first + whole} --tasks {episodes.tasks - whole}" if whole else ""
            goes_on = "plays the other tasks" if whole else "begins again"
            print(f"\n{kept}; the same command with{rest} --out ANOTHER.jsonl {goes_on}", file=sys.stderr)
        elif isinstance(error, KeyboardInterrupt):
            print(f"\n{target}: no episode was over, no file is left", file=sys.stderr)
        raise
    finally:
        if not writer.written:
            target.unlink(missing_ok=True)


def _summary(path: str, who: str, as_json: bool) -> int:
    """Say what was played; the exit status is 1 where nothing of it is any evidence."""
    from agentgym_py.evaluation import summarise
    from agentgym_py.evaluation.text import failure_note, format_rate, given_up_note

    played = list(store.read(path))
    summary = summarise(played)
    status = int(summary.errors == len(played))
    if as_json:
        print_json({"file": path, "agent": who, "trajectories": len(played), **summary.as_dict()})
        return status
    print(f"{path}: {len(played)} trajectories of {who}, success {format_rate(summary.success)}")
    if summary.given_up:
        print(f"{given_up_note(summary.given_up)} by the agent", file=sys.stderr)
    if summary.errors:
        print(failure_note(played), file=sys.stderr)
    if summary.spent:
        print(summary.spent, file=sys.stderr)
    return status
