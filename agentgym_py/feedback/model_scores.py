"""Scores by models that were trained to judge: a reward model, or a process reward model.

    reward_model     sigma(score): the chance that the episode is preferred to one with the mean score of the model's
                     training data, by the Bradley-Terry model that it learnt
    process_reward   the predicted correctness of its steps, clipped to [0, 1]: the value of the state each led to

An episode has no score if the model has another tokenizer than the one that wrote it, or a shorter context.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from agentgym_py.checks import require_field_types
from agentgym_py.errors import ConfigError
from agentgym_py.feedback.types import EpisodeRef, Feedback, NoFeedback, ScoreFeedback
from agentgym_py.rewards.process_reward_model import CORRECTNESS, ProcessRewardModel, require_process_reward
from agentgym_py.rewards.reward_model import RewardModel, require_reward_model
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

OfSteps = Literal["last", "mean", "min"]
"""Score of an episode by those of its steps: the last one's, their mean, or the smallest."""


@dataclass(frozen=True, slots=True)
class RewardModelScores:
    """Scores by a reward model, of the trainer reward_model."""

    folder: str = ""
    """Folder of the reward model (required)."""

    def __post_init__(self) -> None:
        require_field_types(self)
        _require_folder(self.folder, "reward model")
        require_reward_model(self.folder)

    def check_policy(self, policy: Policy) -> None:
        """Raise ConfigError if the model cannot read what a policy writes."""
        require_reward_model(self.folder, policy)

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        """Score the episodes.

        Raises:
            PolicyError: the folder holds no reward model that opens.
        """
        model = RewardModel.load(self.folder)

        def score(readable: Sequence[Trajectory]) -> list[float]:
            return [_sigmoid(value) for value in model.score(readable).tolist()]

        return _scores(trajectories, model.members[0].policy, score, "reward_model")


@dataclass(frozen=True, slots=True)
class ProcessRewardScores:
    """Scores by a process reward model, of the trainer process_reward."""

    folder: str = ""
    """Folder of the process reward model (required)."""
    of_steps: OfSteps = "last"
    """Score of an episode by those of its steps: `last`, `mean` or `min`."""

    def __post_init__(self) -> None:
        require_field_types(self)
        _require_folder(self.folder, "process reward model")
        require_process_reward(self.folder)

    def check_policy(self, policy: Policy) -> None:
        """Raise ConfigError if the model cannot read what a policy writes."""
        require_process_reward(self.folder, policy)

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        """Score the episodes.

        Raises:
            PolicyError: the folder holds no process reward model that opens.
        """
        model = ProcessRewardModel.load(self.folder)
        combine: dict[str, Callable[[list[float]], float]] = {
            "last": lambda row: row[-1], "mean": fmean, "min": min,
        }  # fmt: skip

        def score(readable: Sequence[Trajectory]) -> list[float]:
            rows = [predicted_TD[:, CORRECTNESS].tolist() for predicted_TD in model.by_dimension(readable)]
            return [combine[self.of_steps](row) for row in rows]

        return _scores(trajectories, model.policy, score, "process_reward")


def _scores(
    trajectories: Sequence[Trajectory], policy: Policy, score: Callable[[Sequence[Trajectory]], list[float]], name: str
) -> list[Feedback]:
    """Score the episodes that the model can read; for the others, say why it cannot."""
    reasons = [_why_unreadable(trajectory, policy) for trajectory in trajectories]
    readable = [trajectory for trajectory, reason in zip(trajectories, reasons, strict=True) if not reason]
    values = iter(score(readable) if readable else [])
    found = list[Feedback]()
    for trajectory, reason in zip(trajectories, reasons, strict=True):
        ref = EpisodeRef.of(trajectory)
        if reason:
            found.append(NoFeedback(ref, reason, name))
        else:
            found.append(ScoreFeedback(ref, min(1.0, max(0.0, next(values))), {}, "", name))
    return found


def _why_unreadable(trajectory: Trajectory, policy: Policy) -> str:
    from agentgym_py.policy.tokens import encode, from_other_tokenizer

    if not trajectory.steps or not trajectory.is_evidence:
        return "without a step, or ended by an infrastructure error"
    if from_other_tokenizer(trajectory, policy.chat):
        return "another tokenizer than the model's wrote it"
    if encode(trajectory, policy.chat).longest > policy.max_length:
        return f"longer than the {policy.max_length} tokens that the model reads"
    return ""


def _require_folder(folder: str, what: str) -> None:
    if not folder:
        raise ConfigError(f"folder must name the folder of a {what}, which agentgym train makes")


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))
