"""What episodes show beside success: kinds of failure, and how far from the world's own experts they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentgym_py.env import StopReason
from agentgym_py.trajectory import Step, Trajectory

FAILURES = ("gave up", "no valid action", "wrong goal", "looped", "out of steps")
"""Kinds of failure, in the order in which an episode is asked for them."""
ANSWERS = frozenset({"finish", "answer"})
"""Tools that give the answer: a world that has one shows when its agent stopped calling others."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The failures of one kind."""

    count: int
    example: str
    """Id of the first such trajectory."""


def failure(trajectory: Trajectory) -> str | None:
    """Which of `FAILURES` an episode is; None for a success, and where infrastructure failed.

    An episode that ran out of steps looped if half of them or more did what was done before on the same page.
    """
    if trajectory.success or not trajectory.is_evidence:
        return None
    if trajectory.stop_reason is StopReason.GAVE_UP:
        return "gave up"
    if not any(step.valid for step in trajectory.steps):
        return "no valid action"
    if trajectory.stop_reason is StopReason.TERMINATED:
        return "wrong goal"
    return "looped" if _looped(trajectory.steps) else "out of steps"


def _looped(steps: Sequence[Step]) -> bool:
    return 2 * len({(step.observation, step.action, step.action_input) for step in steps}) <= len(steps)


def failures(trajectories: Iterable[Trajectory]) -> dict[str, Failure]:
    """The kinds of failure that there are, with how often and an example."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for trajectory in trajectories:
        if kind := failure(trajectory):
            found[kind].append(trajectory.id)
    return {kind: Failure(len(found[kind]), found[kind][0]) for kind in FAILURES if kind in found}


# ---- beside the experts ---------------------------------------------------------------------------------------------
