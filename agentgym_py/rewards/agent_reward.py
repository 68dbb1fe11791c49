"""A reward of the way an agent works with its tools: a weighted sum of parts that are logged by name.

    0.40 task + 0.25 tools + 0.15 efficiency + 0.10 timing + 0.10 format
    - 0.3 a call of a wrong tool - 0.2 a redundant call - 0.1 a format error - 0.5 if the episode reached its step limit

The reference is the plan of the fair expert, which has to look up what the agent has to look up, without the agent's
step limit if that cuts the plan. If the fair expert does not solve the task, it is the exact expert's. An action is a
call of the tool that it names: `search` in `search[red shoes]`, `look` in `look at the lamp`. For N calls of the agent
and M of the plan:

- `task`: success;
- `tools`: the F1 score of the two multisets of names, 2 c / (N + M) with c the calls in both;
- `efficiency`: optimal / actual steps, 0 without success, as the reward function `efficiency`;
- `timing`: the longest common subsequence of the names, divided by c: 1 if the calls in both have the plan's order;
- `format`: the share of replies that can be read.

A tool is wrong if the plan does not use it. A call is redundant if an earlier one was the same after the same
observation, as far as there are more of these than in the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

from agentgym_py.collection.expert_plans import ExpertPlan, play_expert, tool_name
from agentgym_py.env import EnvSpec
from agentgym_py.env.actions import format_reply, parse_reply
from agentgym_py.errors import ExpertError
from agentgym_py.rewards.outcomes import efficiency
from agentgym_py.trajectory import Step, Trajectory


@dataclass(frozen=True, slots=True)
class AgentReward:
    """Success, choice of tools, efficiency, timing and format, less penalties."""

    task: float = 0.40
    """Weight of success."""
    tools: float = 0.25
    """Weight of the F1 score of the tools called."""
    efficiency: float = 0.15
    """Weight of the optimal number of steps divided by the actual one."""
    timing: float = 0.10
    """Weight of the order of the calls."""
    format: float = 0.10
    """Weight of the share of replies that can be read."""
    wrong_tool: float = -0.3
    """Reward of each call of a tool that the plan does not use."""
    redundant: float = -0.2
    """Reward of each call that repeats an earlier one after the same observation."""
    format_error: float = -0.1
    """Reward of each reply that cannot be read."""
    timeout: float = -0.5
    """Reward of an episode that reached its step limit."""
    _plans: dict[tuple[object, ...], ExpertPlan] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Plans by the start of an episode."""

    def __call__(self, trajectory: Trajectory) -> dict[str, float]:
        """Return the weighted parts; an error of the world or its expert is raised as it is."""
        return self.parts(trajectory, self._plan(trajectory))

    def parts(self, trajectory: Trajectory, plan: ExpertPlan) -> dict[str, float]:
        """Return the weighted parts, compared with a plan."""
        needed = [name.casefold() for name in plan.tools]
        names, steps = [called_tool(step) for step in trajectory.steps], len(trajectory.steps)
        calls, errors = [name for name in names if name], names.count("")
        readable = [step for step, name in zip(trajectory.steps, names, strict=True) if name]
        common = sum((Counter(calls) & Counter(needed)).values())
        parts = {
            "task": self.task * trajectory.success,
            "tools": self.tools * 2 * common / max(len(calls) + len(needed), 1),
            "efficiency": self.efficiency * efficiency(trajectory),
            "timing": self.timing * longest_common_subsequence(calls, needed) / max(common, 1),
            "format": self.format * len(calls) / max(steps, 1),
            "wrong_tool": self.wrong_tool * sum(name not in needed for name in calls),
            "redundant": self.redundant * max(count_redundant(readable) - plan.repeated, 0),
            "format_error": self.format_error * errors,
            "timeout": self.timeout * trajectory.truncated,
        }
        return {name: value + 0.0 for name, value in parts.items()}  # no -0.0

    def _plan(self, trajectory: Trajectory) -> ExpertPlan:
        start = (*trajectory.provenance.task_key, trajectory.provenance.env_seed)
        if start not in self._plans:
            self._plans[start] = reference_plan(trajectory)
        return self._plans[start]


def reference_plan(trajectory: Trajectory) -> ExpertPlan:
    """Return the fair expert's plan for an episode's task, or the exact expert's if the fair one does not solve it.

    Raises:
        ExpertError: no expert solves the task.
    """
    spec = trajectory.replay_spec()
    uncut = EnvSpec(spec.name, {name: value for name, value in spec.kwargs.items() if name != "max_steps"})
    for limited, fair in ((spec, True), (uncut, True), (uncut, False)):
        with closing(limited.make()) as env:
            plan = play_expert(env, trajectory, fair)
            if env.succeeded:
                return plan
    raise ExpertError(f"{trajectory.id}: no expert of {spec.name} solves the task, so there is no plan to compare with")


def called_tool(step: Step) -> str:
    """Return the name of the tool that a step calls; empty if the reply cannot be read."""
    if not step.action or parse_reply(format_reply(step.action, "", step.action_input)).error:
        return ""
    return tool_name(step.action).casefold()


def count_redundant(steps: Sequence[Step]) -> int:
    """Return how many calls repeat an earlier one after the same observation."""
    calls = Counter((step.observation, step.action, step.action_input) for step in steps)
    return sum(number - 1 for number in calls.values())


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest sequence that both contain in this order."""
    lengths = [0] * (len(second) + 1)
    for name in first:
        before = lengths[:]
        for j, other in enumerate(second, 1):
            lengths[j] = before[j - 1] + 1 if name == other else max(before[j], lengths[j - 1])
    return lengths[-1]
