"""How far feedback agrees with the truth: the world's returns and successes, which a real judge does not see.

    pairwise accuracy   share of pairs of a task's episodes with different returns that the scores order as the returns
                        do; a pair with equal scores counts half
    Kendall tau-b       (C - D) / sqrt((P - Ts) (P - Tr)), over all P pairs of scored episodes: C concordant and D
                        discordant ones, Ts and Tr pairs with equal scores and with equal returns (Kendall 1945)
    calibration         the score as the chance of success: expected calibration error over ten equal bins, the mean
                        over episodes of |mean score - success rate| of their bin (arXiv:1706.04599), and Brier score,
                        the mean of (score - success)^2

Episodes that an infrastructure failure ended do not count.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from agentgym_py.evaluation.stats import Estimate, success_rate
from agentgym_py.feedback.types import (
    ComparisonFeedback,
    CorrectionFeedback,
    EpisodeRef,
    Feedback,
    NoFeedback,
    ScoreFeedback,
    scores_of,
)
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.preferences import opening_key

_BINS = 10
_ROUNDING = 1e-9
"""Returns that differ by no more are equal, because sums of rewards round."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Feedback in numbers, and its agreement with the world."""

    scores: int
    comparisons: int
    corrections: int
    missing: dict[str, int]
    """Number of episodes without feedback, by reason."""
    pairwise: Estimate | None
    """Pairwise accuracy of the scores, by tasks; None without a pair."""
    pairs: int
    """Number of its pairs."""
    compared: Estimate | None
    """Share of comparisons whose better episode has the larger return; None if no returns differ."""
    compared_pairs: int
    tau: float | None
    """Kendall's tau-b of scores and returns; None if either are all equal."""
    calibration_error: float | None
    brier: float | None


def agreement(trajectories: Sequence[Trajectory], feedback: Sequence[Feedback]) -> Agreement:
    """Compare feedback with the returns and successes of its episodes."""
    episodes = {EpisodeRef.of(trajectory).digest: trajectory for trajectory in trajectories if trajectory.is_evidence}
    scores, evidence = scores_of(feedback), [trajectory for trajectory in trajectories if trajectory.is_evidence]
    scored = [(t, scores[digest].score) for t in evidence if (digest := EpisodeRef.of(t).digest) in scores]
    outcomes, tasks = _pair_outcomes(scored)
    compared, compared_tasks = _comparison_outcomes(episodes, feedback)
    values, success = [score for _, score in scored], [trajectory.success for trajectory, _ in scored]
    return Agreement(
        scores=sum(isinstance(item, ScoreFeedback) for item in feedback),
        comparisons=sum(isinstance(item, ComparisonFeedback) for item in feedback),
        corrections=sum(isinstance(item, CorrectionFeedback) for item in feedback),
        missing=dict(Counter(item.reason for item in feedback if isinstance(item, NoFeedback))),
        pairwise=success_rate(outcomes, tasks) if outcomes else None, pairs=len(outcomes),
        compared=success_rate(compared, compared_tasks) if compared else None, compared_pairs=len(compared),
        tau=kendall_tau(values, [trajectory.reward for trajectory, _ in scored]),
        calibration_error=calibration_error(values, success) if scored else None,
        brier=float(np.mean((np.array(values) - np.array(success)) ** 2)) if scored else None,
    )  # fmt: skip


def _pair_outcomes(scored: Sequence[tuple[Trajectory, float]]) -> tuple[list[float], list[Hashable]]:
    """Return 1, 0.5 or 0 for each pair of episodes with one start and different returns, and the pairs' tasks."""
    groups: dict[tuple[Hashable, ...], list[tuple[float, float]]] = defaultdict(list)
    for trajectory, score in scored:
        if trajectory.steps:
            groups[trajectory.provenance.task_key, opening_key(trajectory)].append((trajectory.reward, score))
    outcomes, tasks = list[float](), list[Hashable]()
    for (task, _), group in groups.items():
        for first, second in combinations(group, 2):
            if abs(first[0] - second[0]) > _ROUNDING:
                better, worse = max(first, second), min(first, second)
                outcomes.append(0.5 if better[1] == worse[1] else float(better[1] > worse[1]))
                tasks.append(task)
    return outcomes, tasks


def _comparison_outcomes(
    episodes: dict[str, Trajectory], feedback: Sequence[Feedback]
) -> tuple[list[float], list[Hashable]]:
    """Return 1 or 0 for each comparison of episodes with different returns, and their tasks."""
    outcomes, tasks = list[float](), list[Hashable]()
    for item in feedback:
        if isinstance(item, ComparisonFeedback) and {item.better.digest, item.worse.digest} <= episodes.keys():
            better, worse = episodes[item.better.digest], episodes[item.worse.digest]
            if abs(better.reward - worse.reward) > _ROUNDING:
                outcomes.append(float(better.reward > worse.reward))
                tasks.append(better.provenance.task_key)
    return outcomes, tasks


def kendall_tau(first: ArrayLike, second: ArrayLike) -> float | None:
    """Return Kendall's tau-b of two rows of N numbers; None if either has no two different ones."""
    first_N, second_N = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    concordant, untied_first, untied_second = 0.0, 0, 0
    for n in range(len(first_N) - 1):  # one row of the pairs at a time: N^2 of them may not fit into memory
        signs_first, signs_second = np.sign(first_N[n + 1 :] - first_N[n]), np.sign(second_N[n + 1 :] - second_N[n])
        concordant += float(signs_first @ signs_second)
        untied_first += int(np.count_nonzero(signs_first))
        untied_second += int(np.count_nonzero(signs_second))
    return concordant / math.sqrt(untied_first * untied_second) if untied_first and untied_second else None


def calibration_error(scores: ArrayLike, success: ArrayLike) -> float:
    """Return the expected calibration error of N scores in [0, 1] over ten equal bins; nan without any."""
    scores_N, success_N = np.asarray(scores, dtype=np.float64), np.asarray(success, dtype=np.float64)
    if not len(scores_N):
        return math.nan
    bins_N = np.minimum((scores_N * _BINS).astype(int), _BINS - 1)
    gaps = [abs(float((scores_N - success_N)[bins_N == number].sum())) for number in range(_BINS)]
    return math.fsum(gaps) / len(scores_N)
