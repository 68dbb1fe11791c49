"""`agentgym collect`: an agent plays, its trajectories are stored."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentgym_py import store
from agentgym_py.cli.common import (
    AgentOptions,
    ModelOptions,
    add_env_options,
    console,
    env_specs,
    new_file,
    print_json,
)
from agentgym_py.cli.parser import Several, UsageError, add_options, listed, read_options
from agentgym_py.collect import Collector, Job, collect_with_diversity, jobs_for
from agentgym_py.env import checked_split
from agentgym_py.errors import ConfigError

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

    from agentgym_py.ui import Phases


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """The episodes."""

    out: str | None = None
    """File that is written, one line of JSON an episode."""
    split: str = "train"
    """`train`, `valid` or `test`."""
    tasks: int = 100
    """Number of tasks of each world, from --first on."""
    first: int = 0
    """Number of the first task."""
    attempts: int = 1
    """Episodes a task, at each temperature."""
    json: bool = False
    """Print a summary as JSON, for a program."""

    def __post_init__(self) -> None:
        checked_split(self.split)
        if self.tasks < 1 or self.attempts < 1 or self.first < 0:
            raise ConfigError("tasks and attempts must be at least 1, first at least 0")


def options(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """Add what `collect` takes."""
    del argv
    parser.add_argument("--config", action="config", help="YAML file with any of these options.")
    add_env_options(parser)
    add_options(parser, CollectOptions)
    parser.add_argument(
        "--temperatures", action=Several, item=float, default=[1.0], metavar="T",
        help="Sampling temperatures of a model, as 0.7,1.0: every task is played at each.",
    )  # fmt: skip
    add_options(parser, AgentOptions)
    add_options(parser, ModelOptions)
    parser.set_defaults({"agent": "expert"})


def run(given: Namespace) -> int:
    """Collect into a file."""
    episodes, model = read_options(CollectOptions, given), read_options(ModelOptions, given)
    if episodes.out is None:
        raise UsageError("--out FILE.jsonl wanted: where the trajectories go")
    target = new_file(episodes.out, "--out")
    agent, temperatures = read_options(AgentOptions, given), listed(given["temperatures"], float)
    envs = env_specs(given)
    tasks = range(episodes.first, episodes.first + episodes.tasks)
    jobs = jobs_for(envs, episodes.split, tasks, episodes.attempts)
    agents = [agent.make(model, each) for each in (temperatures if agent.agent == "model" else [0.0])]
    from agentgym_py.ui import Phases

    with Phases(console(episodes.json)) as phases:
        if len(agents) > 1:
            progress = phases.begin("collect", len(jobs) * len(agents))
            played = collect_with_diversity(
                agents, jobs, slots=agent.slots, prompt=agent.prompt, seed=agent.seed, progress=progress
            )
            store.write(target, played)
        else:
            _stream(Collector(agents[0], agent.slots, agent.prompt, agent.seed), jobs, target, phases)
    _summary(str(target), episodes.json)
    return 0


def _stream(collector: Collector, jobs: Sequence[Job], target: object, phases: Phases) -> None:
    """Write each trajectory as soon as all before it are there: Ctrl-C leaves what was played."""
    progress = phases.begin("collect", len(jobs))
    with store.TrajectoryWriter(str(target)) as writer:
        try:
            for trajectory in collector.in_order(jobs):
                writer.append(trajectory)
                progress(trajectory)
        except KeyboardInterrupt:
            print(f"\n{target}: {writer.written} of {len(jobs)} trajectories were written", file=sys.stderr)
            raise


def _summary(path: str, as_json: bool) -> None:
    from agentgym_py.evaluate import percent, summarise

    played = list(store.read(path))
    summary = summarise(played)
    if as_json:
        print_json({"file": path, "trajectories": len(played), **summary.as_dict()})
        return
    print(f"{path}: {len(played)} trajectories, success {percent(summary.success)}")
    if summary.errors:
        print(f"{summary.errors} of them ended by an infrastructure failure", file=sys.stderr)
