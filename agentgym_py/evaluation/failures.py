"""How episodes fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from agentgym_py.env import StopReason
from agentgym_py.trajectory import Trajectory

FAILURES = ("gave up", "no valid action", "wrong goal", "looped", "out of steps")
"""Kinds of failure; the first one that applies counts."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The failures of one kind."""

    count: int
    example: str
    """Id of the first such trajectory."""


def failure_kind(trajectory: Trajectory) -> str | None:
    """Return which of `FAILURES` an episode is; None for a success or an infrastructure failure.

    An episode that ran out of steps looped if at least half of its steps repeat an action on the same observation.
    """
    if trajectory.success or not trajectory.is_evidence:
        return None
    if trajectory.stop_reason is StopReason.GAVE_UP:
        return "gave up"
    if not any(step.valid for step in trajectory.steps):
        return "no valid action"
    if trajectory.stop_reason is StopReason.TERMINATED:
        return "wrong goal"
    different = {(step.observation, step.action, step.action_input) for step in trajectory.steps}
    return "looped" if 2 * len(different) <= len(trajectory.steps) else "out of steps"


def count_failures(trajectories: Iterable[Trajectory]) -> dict[str, Failure]:
    """Count the failures of each kind that occurs."""
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for trajectory in trajectories:
        if kind := failure_kind(trajectory):
            ids[kind].append(trajectory.id)
    return {kind: Failure(len(ids[kind]), ids[kind][0]) for kind in FAILURES if kind in ids}
