"""An agent's episodes beside the experts' plans for the same tasks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.env import TextEnv
from agentgym_py.errors import AgentGymError
from agentgym_py.evaluation.failures import ANSWERS
from agentgym_py.evaluation.stats import Estimate, bootstrap_mean, success_rate
from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class BesideExperts:
    """An agent's episodes beside what the world's experts do in the same tasks; intervals are clustered by task.

    The exact expert knows all; the fair one, which knows only what an episode has shown, says which tools are needed.
    """

    regret: Estimate
    """The exact expert's return less the agent's."""
    weighted_success: Estimate
    """Success weighted by path length: optimal steps / steps taken, 0 for a failure (Anderson et al. 2018).

    Optimal steps are the task's where the world knows them, else those of the exact expert's plan.
    """
    efficiency: Estimate
    """Optimal steps / steps taken, of the successes."""
    tool_f1: Estimate
    """F1 of the set of tools called, by valid actions, against the set that the fair expert calls."""
    plan_success: Estimate
    """Share of episodes in which every tool that the fair expert needs was called by a valid action."""
    timing: Estimate
    """Share of steps that called a tool where the fair expert would call one, or answered where it would answer.

    Of worlds in which answering is a tool of its own (`ANSWERS`); no data elsewhere.
    """

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What an expert did in a task."""

    reward: float
    steps: int
    tools: frozenset[str]


def beside_experts(trajectories: Iterable[Trajectory]) -> BesideExperts:
    """Let both experts play every task as these episodes began, and compare.

    Episodes in which a world fails now are left out, as those in which it failed then.
    """
    plans: dict[Hashable, tuple[_Plan, _Plan]] = {}
    found: defaultdict[str, list[tuple[Hashable, float]]] = defaultdict(list)
    with closing(EnvPool()) as pool:
        for trajectory in trajectories:
            if not trajectory.is_evidence:
                continue
            task = trajectory.provenance.task_key
            spec = trajectory.env_spec()
            env = pool.take(spec)
            try:
                if task not in plans:
                    plans[task] = _plan(env, trajectory, fair=False), _plan(env, trajectory, fair=True)
                figures = [*_figures(trajectory, *plans[task]), *_timing(env, trajectory)]
            except AgentGymError:
                raise
            except Exception:  # a stranger's world may fail anyhow
                pool.drop(env)
                continue
            pool.give(spec, env)
            for name, value in figures:
                found[name].append((task, value))
    tasks, values = zip(*found["regret"], strict=True) if found["regret"] else ((), ())
    rest = (
        success_rate([value for _, value in found[name]], [task for task, _ in found[name]])
        for name in BesideExperts.__slots__[1:]
    )
    return BesideExperts(bootstrap_mean(values, clusters=tasks), *rest)


def _begin(env: TextEnv, trajectory: Trajectory) -> None:
    env.reset(seed=trajectory.provenance.env_seed, options={"task": trajectory.task_id})


def _next(env: TextEnv, fair: bool) -> str | None:
    return env.fair_expert() if fair else next(iter(env.expert()), None)


def _plan(env: TextEnv, trajectory: Trajectory, fair: bool) -> _Plan:
    _begin(env, trajectory)
    reward, tools = 0.0, list[str]()
    while not env.stop_reason and (action := _next(env, fair)) is not None:
        tools.append(_tool(env.parse(action).action))
        reward += env.step(action)[1]
    return _Plan(reward, len(tools), frozenset(tools))


def _tool(action: str) -> str:
    """The name of the tool, or the first word of a bare action such as `click[back]`."""
    word = re.search(r"\w+", action)
    return word[0] if word else ""


def _figures(trajectory: Trajectory, exact: _Plan, fair: _Plan) -> Iterator[tuple[str, float]]:
    """The figures of one episode by name."""
    optimal, steps = trajectory.optimal_steps or exact.steps, len(trajectory.steps)
    path = optimal / max(optimal, steps) if optimal else 1.0
    called = {_tool(step.action) for step in trajectory.steps if step.valid}
    both = len(called) + len(fair.tools)
    yield "regret", exact.reward - trajectory.reward
    yield "weighted_success", trajectory.success * path
    if trajectory.success:
        yield "efficiency", path
    yield "tool_f1", 2 * len(called & fair.tools) / both if both else 1.0
    yield "plan_success", float(fair.tools <= called)


def _timing(env: TextEnv, trajectory: Trajectory) -> Iterator[tuple[str, float]]:
    """Of each step whether a tool was called, or not, as the fair expert would have in that state."""
    _begin(env, trajectory)
    if not ANSWERS & {each["function"]["name"] for each in env.tools() or ()}:
        return
    for step in trajectory.steps:
        wanted = _next(env, fair=True)
        if wanted is None:
            break
        answers = _tool(env.parse(wanted).action) in ANSWERS
        yield "timing", float(bool(step.action) and (_tool(step.action) in ANSWERS) == answers)
        env.step(step.reply)
