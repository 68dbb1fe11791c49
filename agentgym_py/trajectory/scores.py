"""Scores: what episodes are worth to a trainer, in place of their env's rewards.

A scorer is what selectors, pairs and trainers read in place of the env's rewards: `apply_scores` returns copies of the
trajectories with its rewards. Trajectories are stored and evaluated with those of the env.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from agentgym_py import distributed
from agentgym_py.trajectory.types import Trajectory


@dataclass(frozen=True, slots=True)
class Score:
    """What one episode of T steps is worth."""

    parts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """The parts of the reward by name, T numbers each; a step's reward is the sum of its parts."""
    error: str | None = None
    """Why there is no score: then the episode counts as ended by an infrastructure error."""


Scorer = Callable[[Sequence[Trajectory]], Sequence[float | Score]]
"""Scores episodes, each of which has a step; a number is a reward after the last step."""


def paid_at_end(reward: float, steps: int) -> tuple[float, ...]:
    """Return the rewards of an episode that are 0 except for the last one."""
    return (*[0.0] * (steps - 1), reward)


def as_score(score: float | Score, trajectory: Trajectory) -> Score:
    """Return a number as the score of an episode, paid after its last step; a score stays as it is."""
    return score if isinstance(score, Score) else Score({"score": paid_at_end(score, len(trajectory.steps))})


def with_score(trajectory: Trajectory, score: float | Score) -> Trajectory:
    """Replace the env's rewards and their parts by a score's."""
    score = as_score(score, trajectory)
    if score.error is not None:
        return replace(trajectory, error=score.error)
    steps = []
    for number, step in enumerate(trajectory.steps):
        parts = {name: float(rewards[number]) for name, rewards in score.parts.items()}
        steps.append(replace(step, reward=sum(parts.values(), 0.0), reward_parts=parts))
    return replace(trajectory, steps=tuple(steps), reward=sum((step.reward for step in steps), 0.0))


def apply_scores(trajectories: Sequence[Trajectory], scorer: Scorer | None) -> list[Trajectory]:
    """Return the trajectories with the scorer's rewards; those without a step or with an error stay as they are.

    Of several processes, rank 0 calls the scorer.
    """
    evidence = [trajectory for trajectory in trajectories if trajectory.steps and trajectory.is_evidence]
    if scorer is None or not evidence:
        return list(trajectories)
    scores = dict(zip(map(id, evidence), distributed.on_rank_zero(scorer, evidence), strict=True))
    return [with_score(t, scores[id(t)]) if id(t) in scores else t for t in trajectories]


def mean_parts(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return the mean of each part of the rewards over the episodes, by trl's name: `rewards/NAME/mean`."""
    evidence = [trajectory for trajectory in trajectories if trajectory.is_evidence]
    names = dict.fromkeys(name for t in evidence for step in t.steps for name in step.reward_parts)
    return {
        f"rewards/{name}/mean": fmean(sum(step.reward_parts.get(name, 0.0) for step in t.steps) for t in evidence)
        for name in names
    }
