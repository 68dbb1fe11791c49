"""`agentgym faults`: locate the first fault of each failed episode."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentgym_py.checks import Basic, require_at_least
from agentgym_py.cli.agent_options import (
    AgentOptions,
    ModelOptions,
    add_agent_options,
    phases_for,
    read_agent,
    showing_cost_of_stop,
)
from agentgym_py.cli.env_options import add_own_envs, register_own_envs
from agentgym_py.cli.interrupts import require_not_interrupted
from agentgym_py.cli.parser import Parser, UsageError, Values, add_config, read_options
from agentgym_py.cli.runtime import console, print_json, read_trajectories
from agentgym_py.cli.saved_settings import world_advice
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.errors import ConfigError
from agentgym_py.files import inside

if TYPE_CHECKING:
    from agentgym_py.agents import Agent
    from agentgym_py.collection import Job
    from agentgym_py.evaluation.first_fault import FirstFaults
    from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class FaultOptions:
    """The search."""

    by: Basic[Literal["exact", "fair", "forks"]] = "exact"
    """What locates a fault: the plans of the `exact` or the `fair` expert, or `forks`: each state is continued several
    times by the --model or --agent that played the episodes."""
    min_regret: int = 2
    """Steps that a step must cost to be a fault of an expert's plan: a detour of 2 steps is one, with 1 also a wasted
    step. With a large value, such as 100, only steps after which the expert cannot succeed are faults."""
    attempts: Basic[int] = 16
    """Continuations of each state for --by forks."""
    temperature: float = 1.0
    """Sampling temperature of a model for --by forks; a greedy one repeats its failure."""
    level: float = 0.05
    """Chance of a false fault per episode for --by forks."""
    first: int | None = None
    """Only the first of the failed episodes, this many."""
    format: str | None = None
    """Format of the files, if their content does not tell; docs/reference/formats.md."""
    json: Basic[bool] = False
    """Print the profile and every fault as JSON, for a program."""

    def __post_init__(self) -> None:
        require_at_least(self, {"min_regret": 1, "attempts": 2})
        if self.first is not None and self.first < 1:
            raise ConfigError(f"first must be at least 1, got {self.first}")
        if not 0 < self.level < 0.5:
            raise ConfigError(f"level must be above 0 and below 0.5, got {self.level}")
        SamplingParams(temperature=self.temperature)  # raises for a wrong one


def options(parser: Parser) -> None:
    """Add the options of `faults`."""
    add_config(parser)
    parser.add_positional(
        "files", metavar="FILE", item=str,
        help="Trajectories in any format of docs/reference/formats.md, or folders of `agentgym eval --out`.",
    )  # fmt: skip
    parser.add_dataclass(FaultOptions)
    add_own_envs(parser)
    add_agent_options(parser)


def run(args: Values) -> int:
    """Locate and print; return 1 if no failed episode could be searched."""
    from agentgym_py.evaluation.first_fault import first_faults
    from agentgym_py.report.terminal import print_faults

    chosen: FaultOptions = read_options(FaultOptions, args)
    forks = read_agent(args, None) if chosen.by == "forks" else None
    if forks is None and (args["model"] or args["agent"]):
        raise UsageError("--model and --agent continue episodes: they need --by forks")
    _require_used(chosen)
    register_own_envs(args)
    trajectories = [trajectory for path in args["files"] for trajectory in _read(path, chosen.format)]
    failures = [t for t in trajectories if t.is_evidence and not t.success][: chosen.first]
    if forks:
        faults = _by_forks(failures, chosen, *forks)
    else:
        assert chosen.by != "forks"
        faults = first_faults(failures, by=chosen.by, min_regret=chosen.min_regret)
    if chosen.json:
        print_json({"files": args["files"], "episodes": len(trajectories), **faults.as_dict()})
    else:
        print_faults(console(), faults)
    if faults.unsearched and (advice := world_advice("faults", args, args["files"][0])):
        print(f"the run's world needs its source: {advice}", file=sys.stderr)
    return int(0 < faults.failures == faults.unsearched)


def _require_used(chosen: FaultOptions) -> None:
    """Raise UsageError for an option that the search would not use."""
    of_forks = ("attempts", "temperature", "level")
    for name in ("min_regret",) if chosen.by == "forks" else of_forks:
        if getattr(chosen, name) != getattr(FaultOptions(), name):
            raise UsageError(f"--{name} needs --by {'forks' if name in of_forks else 'exact or fair'}")


def _agent_warning(failures: Sequence[Trajectory], agent: Agent) -> str:
    """Say how the agent that continues the episodes differs from the one that played them; empty if it does not."""
    different = []
    for what, ours, theirs in (
        ("agent", agent.name, {t.provenance.agent for t in failures}),
        ("weights", agent.policy_digest, {t.provenance.policy_digest for t in failures}),
        (
            "temperature",
            agent.sampling.get("temperature"),
            {t.provenance.sampling.get("temperature") for t in failures},
        ),
    ):
        if others := sorted(map(repr, theirs - {ours})):
            different.append(f"{what} {', '.join(others):.80} in the episodes, {ours!r} here")
    return f"warning: forks are not continued by the agent of the episodes: {'; '.join(different)}" if different else ""


def _read(path: str, form: str | None) -> Sequence[Trajectory]:
    """Read the trajectories of a file, or those of an evaluation's folder."""
    from agentgym_py.evaluation.folder import TRAJECTORIES

    if (Path(path) / TRAJECTORIES).is_file():
        path = str(inside(Path(path), TRAJECTORIES))
    return list(read_trajectories(path, form))


def _by_forks(
    failures: Sequence[Trajectory], chosen: FaultOptions, agent_options: AgentOptions, model: ModelOptions
) -> FirstFaults:
    from agentgym_py.collection import Collector
    from agentgym_py.evaluation.first_fault import first_faults_by_forks, worlds_of

    agent_options = agent_options.in_worlds(worlds_of(failures))
    (agent,), executor = agent_options.make_agents(model, [chosen.temperature])
    if warning := _agent_warning(failures, agent):
        print(warning, file=sys.stderr)
    collector = Collector(agent, agent_options.play_config(executor, model))
    with showing_cost_of_stop([agent]), executor, phases_for(agent, console(chosen.json)) as phases:

        def play(jobs: Sequence[Job]) -> list[Trajectory]:
            show = phases.begin(f"continue by {agent.name}", len(jobs))

            def progress(trajectory: Trajectory) -> None:
                require_not_interrupted()
                show(trajectory)

            return collector.collect_batch(jobs, progress)

        return first_faults_by_forks(failures, play, attempts=chosen.attempts, level=chosen.level)
