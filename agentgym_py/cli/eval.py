"""`agentgym eval`: an agent on held-out tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentgym_py import __version__, store
from agentgym_py.cli.common import (
    add_agent_options,
    add_env_options,
    console,
    env_specs,
    need_tasks,
    print_json,
    read_agent,
    settings_of,
    worlds_of,
)
from agentgym_py.cli.parser import add_options, read_options
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.env import checked_split
from agentgym_py.errors import ConfigError
from agentgym_py.runs import RunFolder, finite, new_folder

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

    from agentgym_py.agents import Agent
    from agentgym_py.evaluate import Evaluation
    from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """The evaluation."""

    split: str = "test"
    """`train`, `valid` or `test`."""
    tasks: int = 300
    """Number of tasks of each world."""
    attempts: int = 1
    """Episodes a task; with several the intervals are clustered by task."""
    temperature: float = 0.0
    """Sampling temperature of a model; 0 is greedy."""
    out: str | None = None
    """Folder that gets trajectories.jsonl and result.json; it must be new or empty."""
    json: bool = False
    """Print the result as JSON, for a program."""

    def __post_init__(self) -> None:
        checked_split(self.split)
        if self.tasks < 1 or self.attempts < 1:
            raise ConfigError("tasks and attempts must be at least 1")
        SamplingParams(temperature=self.temperature)  # complains of a wrong one


def options(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """Add what `eval` takes."""
    del argv
    parser.add_argument("--config", action="config", help="YAML file with any of these options.")
    add_env_options(parser)
    add_options(parser, EvalOptions)
    add_agent_options(parser)


def run(given: Namespace) -> int:
    """Evaluate, show, write."""
    chosen = read_options(EvalOptions, given)
    who, model = read_agent(given, None)
    out = new_folder(chosen.out) if chosen.out else None
    envs = env_specs(given)
    need_tasks(envs, {chosen.split: ("--tasks", chosen.tasks)})
    world_versions = worlds_of(envs, chosen.split)
    (agent,), workers = who.make(model, [chosen.temperature])
    from agentgym_py.agents import title_of
    from agentgym_py.evaluate import by_world, evaluate
    from agentgym_py.ui import Phases

    with workers, Phases(console(chosen.json)) as phases:
        episodes = len(envs) * chosen.tasks * chosen.attempts
        found, played = evaluate(
            agent, envs, chosen.split, range(chosen.tasks), attempts=chosen.attempts, slots=who.slots,
            prompt=who.prompt, seed=who.seed, workers=workers,
            progress=phases.begin(f"{chosen.split}, {title_of(agent)}", episodes),
        )  # fmt: skip
    made_by = {"env_versions": world_versions, "options": settings_of(given, envs)}
    result = finite(_result(played, agent) | made_by)
    if out:
        store.write(out / "trajectories.jsonl", played)
        RunFolder(out).write_json("result.json", result)
    if chosen.json:
        print_json(result)
    else:
        _show(found, by_world(played), f"{title_of(agent)}, {chosen.split} split, {len(played)} episodes")
    return 0


def _result(played: Sequence[Trajectory], agent: Agent) -> dict[str, Any]:
    from agentgym_py.evaluate import as_json

    return {
        "agent": agent.name, "policy_digest": agent.policy_digest, "sampling": agent.sampling,
        "package_version": __version__, **as_json(played),
    }  # fmt: skip


def _show(summary: Evaluation, worlds: Mapping[str, Evaluation], title: str) -> None:
    from agentgym_py.evaluate import decimal, left, percent
    from agentgym_py.ui import print_table

    lines = [("all", str(summary.success.n), percent(summary.success))]
    for world, each in worlds.items():
        rows = {f"kind {key}": of_kind for key, of_kind in each.by_kind.items()}
        rows |= {f"difficulty {key}": of_difficulty for key, of_difficulty in each.by_difficulty.items()}
        if len(worlds) > 1:  # kinds of two worlds may have one name
            rows = {f"world {world}": each.success} | {f"{world}, {name}": row for name, row in rows.items()}
        lines += [(name, str(estimate.n), percent(estimate)) for name, estimate in rows.items()]
    out = console()
    out.print(title, soft_wrap=True)
    print_table(out, ("", "tasks", "success [95 %]"), lines)
    means = f"{summary.steps:.1f} steps an episode, {100 * summary.invalid:.1f} % invalid actions"
    out.print(f"\nreward {decimal(summary.reward)}, {means}")
    if summary.given_up:
        out.print(f"{left(summary.given_up)} by the agent, whose context was full or who had nothing left to do")
    if summary.errors:
        out.print(f"{summary.errors} episodes ended by an infrastructure failure and are left out")
