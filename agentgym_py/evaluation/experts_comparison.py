"""Compare an agent's episodes with the experts' plans for the same tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.expert_plans import ExpertPlan, next_action, play_expert, tool_name
from agentgym_py.env import TextEnv
from agentgym_py.evaluation.stats import Estimate, bootstrap_mean, success_rate
from agentgym_py.trajectory import Trajectory

ANSWER_TOOLS = frozenset({"finish", "answer"})
"""Tools that give the answer. An env that has one is a tool-use env: its agent chooses which other tools to call, and
when to stop. In other envs every agent calls the same few commands, so the tool metrics would say nothing."""


@dataclass(frozen=True, slots=True)
class ExpertsComparison:
    """An agent's episodes compared with the env's experts on the same tasks; intervals are clustered by task.

    The exact expert knows the whole state. The fair one knows only what an episode has shown, so it tells which tools
    are needed.
    """

    regret: Estimate
    """The exact expert's return minus the agent's."""
    weighted_success: Estimate
    """Success weighted by path length: optimal steps / steps taken, 0 for a failure (Anderson et al. 2018).

    Optimal steps are the task's if the env knows them, else those of the exact expert's plan.
    """
    efficiency: Estimate
    """Optimal steps / steps taken, of successes."""
    tool_f1: Estimate
    """F1 of the set of tools that valid actions call, against the set that the fair expert calls; tool-use envs only
    (`ANSWER_TOOLS`)."""
    plan_success: Estimate
    """Share of episodes in which valid actions call every tool that the fair expert needs; tool-use envs only."""
    timing: Estimate
    """Share of steps that call a tool when the fair expert would, or answer when it would; tool-use envs only."""

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return asdict(self)


def compare_with_experts(trajectories: Iterable[Trajectory]) -> ExpertsComparison:
    """Let both experts play the task of each episode from its start, and compare.

    Episodes with an infrastructure failure are left out, as are those in which the env fails now or has no expert.
    """
    plans: dict[Hashable, tuple[ExpertPlan, ExpertPlan]] = {}
    metrics: defaultdict[str, list[tuple[Hashable, float]]] = defaultdict(list)
    with closing(EnvPool()) as pool:
        for trajectory in trajectories:
            if not trajectory.is_evidence:
                continue
            task = trajectory.provenance.task_key
            env = None
            try:
                spec = trajectory.replay_spec()
                env = pool.take(spec)
                if task not in plans:
                    plans[task] = play_expert(env, trajectory, fair=False), play_expert(env, trajectory, fair=True)
                exact, fair = plans[task]
                values = list(_metrics(trajectory, exact))
                if _has_answer_tool(env):
                    values += [*_tool_metrics(trajectory, fair), *_timing(env, trajectory)]
            except Exception:  # an env may raise anything, and need not have an expert
                if env:
                    pool.drop(env)
                continue
            pool.give(spec, env)
            for name, value in values:
                metrics[name].append((task, value))
    columns = {name: tuple(zip(*metrics[name], strict=True)) or ((), ()) for name in ExpertsComparison.__slots__}
    tasks, regrets = columns.pop("regret")
    rates = {name: success_rate(values, tasks) for name, (tasks, values) in columns.items()}
    return ExpertsComparison(regret=bootstrap_mean(regrets, clusters=tasks), **rates)


def _has_answer_tool(env: TextEnv) -> bool:
    return not ANSWER_TOOLS.isdisjoint(tool["function"]["name"] for tool in env.tools() or ())


def _metrics(trajectory: Trajectory, exact: ExpertPlan) -> Iterator[tuple[str, float]]:
    optimal, steps = trajectory.optimal_steps or len(exact.tools), len(trajectory.steps)
    path = optimal / max(optimal, steps) if optimal else 1.0
    yield "regret", exact.reward - trajectory.reward
    yield "weighted_success", trajectory.success * path
    if trajectory.success:
        yield "efficiency", path


def _tool_metrics(trajectory: Trajectory, fair: ExpertPlan) -> Iterator[tuple[str, float]]:
    tools, needed = {tool_name(step.action) for step in trajectory.steps if step.valid}, set(fair.tools)
    total = len(tools) + len(needed)
    yield "tool_f1", 2 * len(tools & needed) / total if total else 1.0
    yield "plan_success", float(needed <= tools)


def _timing(env: TextEnv, trajectory: Trajectory) -> Iterator[tuple[str, float]]:
    """Yield for each step whether it calls a tool, or answers, as the fair expert would in its state."""
    trajectory.restart(env)
    for step in trajectory.steps:
        expert_action = next_action(env, fair=True)
        if expert_action is None:
            break
        answers = tool_name(env.parse(expert_action).action) in ANSWER_TOOLS
        yield "timing", float(bool(step.action) and (tool_name(step.action) in ANSWER_TOOLS) == answers)
        env.step(step.reply)
