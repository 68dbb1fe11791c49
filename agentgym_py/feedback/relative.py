"""A relative judge scores the tries of each task beside each other; see `rewards.relative_judge`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agentgym_py.feedback.types import EpisodeRef, Feedback, NoFeedback, ScoreFeedback
from agentgym_py.rewards.judge_client import TOO_LONG
from agentgym_py.rewards.relative_judge import ALONE, Judgement, RelativeJudge
from agentgym_py.trajectory import Trajectory

_NAME = "relative"


@dataclass(frozen=True, slots=True)
class RelativeScores(RelativeJudge):
    """Scores by a relative judge: all tries at a task in one request."""

    least_attempts: ClassVar[int] = 2

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        """Score the episodes among the others of their group.

        Raises:
            ConfigError, EndpointError: as `RelativeJudge.judgements`.
        """
        judged = [trajectory for trajectory in trajectories if trajectory.steps and trajectory.is_evidence]
        judgements = dict(zip(map(id, judged), self.judgements(judged), strict=True))
        return [self._feedback(trajectory, judgements.get(id(trajectory))) for trajectory in trajectories]

    def _feedback(self, trajectory: Trajectory, judgement: Judgement | str | None) -> Feedback:
        ref = EpisodeRef.of(trajectory)
        if isinstance(judgement, Judgement):
            return ScoreFeedback(ref, judgement.score, {}, judgement.reason, _NAME)
        if judgement is None:
            return NoFeedback(ref, "without a step, or ended by an infrastructure error", _NAME)
        return NoFeedback(ref, judgement, _NAME, may_succeed=not self.program and judgement not in (ALONE, TOO_LONG))
