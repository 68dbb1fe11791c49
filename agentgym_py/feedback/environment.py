"""The world's own outcome as feedback: completion, rewards and efficiency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentgym_py.feedback.dimensions import require_weights, weighted_mean
from agentgym_py.feedback.types import BROKEN, EpisodeRef, Feedback, NoFeedback, ScoreFeedback
from agentgym_py.registry import describe_error
from agentgym_py.rewards.outcomes import efficiency
from agentgym_py.trajectory import Trajectory

DIMENSIONS = ("completion", "reward", "efficiency")


@dataclass(frozen=True, slots=True)
class EnvironmentOutcome:
    """Scores by the world's outcome: completion, rewards and efficiency."""

    weights: dict[str, float] = field(default_factory=lambda: {"completion": 0.5, "reward": 0.3, "efficiency": 0.2})
    """Weights of completion (1 for a success), reward (the sum of the step rewards, clipped to [0, 1]) and efficiency
    (optimal / actual steps of a success) in the score."""

    def __post_init__(self) -> None:
        require_weights(self.weights, DIMENSIONS)

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        """Score the episodes."""
        return [self._feedback(trajectory) for trajectory in trajectories]

    def _feedback(self, trajectory: Trajectory) -> Feedback:
        ref = EpisodeRef.of(trajectory)
        if not trajectory.is_evidence:
            return NoFeedback(ref, BROKEN, "environment")
        try:
            dimensions = {
                "completion": float(trajectory.success),
                "reward": min(1.0, max(0.0, sum(step.reward for step in trajectory.steps))),
                "efficiency": efficiency(trajectory),
            }
        except Exception as error:  # a world that has to play the expert's plan may raise anything
            return NoFeedback(ref, f"the world failed: {describe_error(error)}", "environment")
        return ScoreFeedback(ref, weighted_mean(dimensions, self.weights), dimensions, "", "environment")
