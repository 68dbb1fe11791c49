"""A relative judge scores the tries of each task beside each other; see `rewards.relative_judge`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_py.feedback.types import EpisodeRef, Feedback, NoFeedback, ScoreFeedback
from agentgym_py.rewards.relative_judge import RelativeJudge, Verdict
from agentgym_py.trajectory import Trajectory

_NAME = "relative"


@dataclass(frozen=True, slots=True)
class RelativeScores(RelativeJudge):
    """Scores by a relative judge: all tries at a task in one request."""

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        """Score the episodes among the others of their group.

        Raises:
            ConfigError, EndpointError: as `RelativeJudge.verdicts`.
        """
        judged = [trajectory for trajectory in trajectories if trajectory.steps and trajectory.is_evidence]
        verdicts = dict(zip(map(id, judged), self.verdicts(judged), strict=True))
        return [self._feedback(trajectory, verdicts.get(id(trajectory))) for trajectory in trajectories]

    def _feedback(self, trajectory: Trajectory, verdict: Verdict | str | None) -> Feedback:
        ref = EpisodeRef.of(trajectory)
        if isinstance(verdict, Verdict):
            return ScoreFeedback(ref, verdict.score, {}, verdict.reason, _NAME)
        return NoFeedback(ref, verdict or "without a step, or ended by an infrastructure error", _NAME)
