"""The world's expert corrects episodes: what it would have done in every state that the agent reached."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.errors import AgentGymError
from agentgym_py.feedback.types import CorrectionFeedback, EpisodeRef, Feedback, NoFeedback, ScoreFeedback
from agentgym_py.rewards.expert_labels import Label, labels_or_reason
from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class ExpertCorrections:
    """Corrections by the world's expert in every state that the agent reached, less those before a fork."""

    expert: Literal["fair", "exact"] = "fair"
    """Expert that corrects: `fair` knows only what the episode has shown, so that an agent can learn from it; `exact`
    knows the whole state."""
    corrections: Literal["all", "first"] = "all"
    """Steps to correct: `all` in which the expert acts differently, or only the `first` of an episode."""
    thoughts: bool = True
    """Whether a correction has the expert's thought, if there is one, before the action."""

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        """Replay each episode; return its corrections, and the share of steps that agree with the expert as its score.

        Steps that are not trained, as those before a fork, do not count. An episode has no feedback if it does not
        replay, or the expert has no action in any of its states.
        """
        expert = ExpertAgent(fair=self.expert == "fair", thoughts=self.thoughts)
        with closing(EnvPool()) as pool:
            return [item for trajectory in trajectories for item in self._judge(trajectory, expert, pool)]

    def _judge(self, trajectory: Trajectory, expert: ExpertAgent, pool: EnvPool) -> list[Feedback]:
        ref = EpisodeRef.of(trajectory)
        try:
            labels = labels_or_reason(trajectory, expert, pool)
        except AgentGymError as error:  # its world is not installed, or a file chose something to read
            labels = str(error)
        if isinstance(labels, str):
            return [NoFeedback(ref, labels, "expert")]
        answers = [(number, label) for number, label in enumerate(labels) if label and trajectory.steps[number].trained]
        if not answers:
            return [NoFeedback(ref, "the expert has no action", "expert")]
        score = sum(label.agrees for _, label in answers) / len(answers)
        return [ScoreFeedback(ref, score, {"agreement": score}, "", "expert"), *self._corrections(ref, answers)]

    def _corrections(self, ref: EpisodeRef, answers: Sequence[tuple[int, Label]]) -> list[Feedback]:
        wrong = [(number, label) for number, label in answers if not label.agrees]
        chosen = wrong if self.corrections == "all" else wrong[:1]
        return [CorrectionFeedback(ref, number, label.reply, "", "expert") for number, label in chosen]
