"""`agentgym credit`: measure advantage estimators against the policy's own advantages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentgym_py.checks import Basic, require_at_least
from agentgym_py.cli.agent_options import add_agent_options, phases_for, read_agent, showing_cost_of_stop
from agentgym_py.cli.argv import peek_options
from agentgym_py.cli.env_options import add_env_options, env_specs, require_tasks
from agentgym_py.cli.interrupts import require_not_interrupted
from agentgym_py.cli.judge import source_class
from agentgym_py.cli.parser import JSON_HELP, Parser, Values, add_config, read_options
from agentgym_py.cli.plugin_options import PluginOption
from agentgym_py.cli.runtime import console, new_file_if_named, print_json
from agentgym_py.collection import Collector
from agentgym_py.credit.estimators import load_estimators
from agentgym_py.credit.judge import Judge
from agentgym_py.credit.lab import measure_credit
from agentgym_py.credit.probes import CreditConfig
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.env import require_split
from agentgym_py.errors import ConfigError, setting

if TYPE_CHECKING:
    from agentgym_py.collection import Job
    from agentgym_py.trajectory import Trajectory


JUDGE = PluginOption(
    "judge", "agentgym.feedback", source_class,
    "Measure also `judge`: how much a step raises the score of the episode so far, by {names}, or a source file "
    "(FILE.py, FILE.py:Class, module:Class). `--judge NAME --help-all` lists its settings.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LabOptions:
    """The lab."""

    estimators: Basic[list[str]] = field(default_factory=list)
    """Estimators to measure, by default all installed ones: dr_grpo, gae, gigpo, grpo, progress, r3, rloo, tree,
    turn_group, or FILE.py:NAME for your own."""
    split: str = "train"
    """Split of the tasks."""
    tasks: Basic[int] = 20
    """Number of tasks of each world."""
    temperature: float = 1.0
    """Sampling temperature of a model."""
    report: Basic[str | None] = None
    """HTML file for the ranking with its figures."""

    def __post_init__(self) -> None:
        require_split(self.split)
        require_at_least(self, {"tasks": 1})
        SamplingParams(temperature=self.temperature)  # raises for a wrong one
        if self.temperature == 0:
            raise ConfigError("temperature must be above 0, because a greedy agent has no other action to compare")


def options(parser: Parser) -> None:
    """Add the options of `credit`."""
    add_config(parser)
    add_env_options(parser)
    parser.add_dataclass(LabOptions)
    JUDGE.add(parser, peek_options(parser.argv).get("judge"))
    parser.add_dataclass(CreditConfig)
    parser.add("json", bool, False, JSON_HELP, group="The lab")
    add_agent_options(parser)


def run(args: Values) -> int:
    """Measure and print."""
    from agentgym_py.report.sheet import write_credit
    from agentgym_py.report.terminal import print_table

    lab: LabOptions = read_options(LabOptions, args)
    config: CreditConfig = read_options(CreditConfig, args)
    agent_options, model = read_agent(args, None)
    estimators, envs = load_estimators(lab.estimators), env_specs(args)
    if judge := JUDGE.read(args):
        estimators["judge"] = Judge(judge)
    require_tasks(envs, {lab.split: ("--tasks", lab.tasks)})
    (agent,), executor = agent_options.make_agents(model, [lab.temperature])
    collector, out = Collector(agent, agent_options.play_config(executor, model)), console(args["json"])
    page = new_file_if_named(lab.report, setting("report"))
    with page as target, showing_cost_of_stop([agent]), executor, phases_for(agent, out) as phases:
        names = iter((f"play by {agent.name}", f"continue by {agent.name}"))

        def play(jobs: Sequence[Job]) -> list[Trajectory]:
            show = phases.begin(next(names), len(jobs))

            def progress(trajectory: Trajectory) -> None:
                require_not_interrupted()
                show(trajectory)

            return collector.collect_batch(jobs, progress)

        report = measure_credit(
            agent, play, envs, estimators, config, tasks=range(lab.tasks), split=lab.split, seed=args["seed"],
            policy=getattr(agent, "policy", None),
        )  # fmt: skip
        if target:
            write_credit(target, report)
    if args["json"]:
        print_json(report.as_dict())
    else:
        print_table(out, *report.rows())
        out.print()
        for note in report.notes():
            out.print(note, soft_wrap=True)
    if lab.report:
        out.print(f"written: {lab.report}", soft_wrap=True)
    return 0
