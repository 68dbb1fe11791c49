"""The critic of a run: a source of feedback whose scores select the explored episodes, while the world only watches.

An episode's reward is its score, and a score of at least 0.5 counts as a success, as `feedback.learning` has it. What
the world would have said is measured beside it: where a critic's scores rise and the success does not, the agent learns
to please the critic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from agentgym_py.errors import ConfigError, setting
from agentgym_py.evaluation.stats import Estimate, success_rate
from agentgym_py.feedback import EpisodeRef, Feedback
from agentgym_py.feedback.agreement import agreement
from agentgym_py.feedback.types import NoFeedback, scores_of
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.selectors import SelectConfig

SELECT_DEFAULTS = {"select.threshold": 0.5, "select.success_only": False}
"""Defaults of the selection by a critic, whose scores are from 0 to 1."""


def require_threshold(select: SelectConfig) -> None:
    """Raise ConfigError if no score of a critic can pass the selection."""
    if select.threshold > 1:
        raise ConfigError(f"{setting('select.threshold')} must be at most 1 with a critic, got {select.threshold:g}")


def critic_metrics(
    explored: Sequence[Trajectory],
    feedback: Sequence[Feedback],
    kept: Sequence[Trajectory],
    retries: Sequence[Trajectory] = (),
) -> dict[str, Any]:
    """Compare the scores and the choice of a critic with the world, as JSON values.

    Args:
        explored: The episodes with the world's rewards.
        feedback: The critic's on them.
        kept: Those that the selection kept.
        retries: Retries with the world's rewards, which the selection may have kept too.
    """
    episodes = [(EpisodeRef.of(trajectory).digest, trajectory) for trajectory in explored if trajectory.is_evidence]
    scores, by_digest = scores_of(feedback), dict(episodes)
    by_digest |= {EpisodeRef.of(retry).digest: retry for retry in retries}
    scored = [(scores[digest].score, trajectory) for digest, trajectory in episodes if digest in scores]
    chosen = [by_digest[digest] for t in kept if (digest := EpisodeRef.of(t).digest) in by_digest]
    found = agreement(explored, feedback)
    return {
        "scores": len(scored), "mean_score": fmean(score for score, _ in scored) if scored else None,
        "missing": dict(Counter(item.reason for item in feedback if isinstance(item, NoFeedback))),
        "success_of_scored": asdict(_success([trajectory for _, trajectory in scored])),
        "success_of_kept": asdict(_success(chosen)),
        "pairwise": found.pairwise and asdict(found.pairwise), "tau": found.tau,
        "calibration_error": found.calibration_error, "brier": found.brier,
    }  # fmt: skip


def _success(trajectories: Sequence[Trajectory]) -> Estimate:
    return success_rate([t.success for t in trajectories], [t.provenance.task_key for t in trajectories])
