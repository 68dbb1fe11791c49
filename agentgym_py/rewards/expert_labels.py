"""What the expert would have done in every state that an episode went through, by replaying the episode."""

from __future__ import annotations

from typing import NamedTuple

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection.branching import or_none
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.env import EnvSpec, StopReason, TextEnv
from agentgym_py.errors import SnapshotError
from agentgym_py.rewards.state_values import CHANGED, FAILED
from agentgym_py.trajectory import Trajectory


class Label(NamedTuple):
    """What the expert would have done in a state."""

    reply: str
    agrees: bool
    """Whether the action that was taken is the expert's."""
    regret: float = 0.0
    """By how many steps that action made the exact expert's plan longer than its own action."""


def labels_or_reason(
    trajectory: Trajectory, expert: ExpertAgent, pool: EnvPool, spec: EnvSpec | None = None, *, costs: bool = False
) -> list[Label | None] | str:
    """Label every state of an episode, in an env from `pool`; why there are no labels if that fails."""

    def labels() -> list[Label | None]:
        with pool.lent(spec or trajectory.replay_spec()) as env:
            return label_episode(trajectory, env, expert, costs)

    if not trajectory.is_evidence:
        return "ended by an infrastructure error"
    try:
        answers = or_none(labels)
        return FAILED if answers is None else answers
    except SnapshotError:
        return CHANGED


def label_episode(trajectory: Trajectory, env: TextEnv, expert: ExpertAgent, costs: bool = False) -> list[Label | None]:
    """Replay an episode and ask the expert before each step; None if it has no answer.

    Raises:
        SnapshotError: the env behaves differently on replay.
    """
    observation = trajectory.restart(env)
    labels, left = list[Label | None](), cost_to_go(env) if costs else None
    for number, step in enumerate(trajectory.steps, 1):
        if observation != step.observation:
            raise SnapshotError(f"{trajectory.id}: the observation of step {number} differs on replay")
        reply = expert.reply(env)
        agrees = reply is not None and _action(env, reply.text) == _action(env, step.reply)
        observation, *_ = env.step(step.reply)
        before, left = left, cost_to_go(env) if costs else None
        labels.append(Label(reply.text, agrees, regret(before, left, env)) if reply else None)
    return labels


def cost_to_go(env: TextEnv) -> int | None:
    """Return the number of steps of the exact expert's plan; None if it has none, or the episode ended unsolved."""
    if env.stop_reason:
        return 0 if env.succeeded else None
    return len(env.expert()) or None


def regret(before: int | None, after: int | None, env: TextEnv) -> float:
    """Return by how many steps an action was worse than the plan; `env` is in the state after it."""
    if before is None or (after is None and env.stop_reason is StopReason.TRUNCATED):
        return 0.0
    return float(before if after is None else max(0, 1 + after - before))


def _action(env: TextEnv, reply: str) -> tuple[str, str | None]:
    read = env.read(reply)
    return read.action, read.action_input
