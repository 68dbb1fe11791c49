"""Training on stored trajectories: what a trainer learns from of them, and what it cannot be asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentgym_py.errors import ConfigError, NothingToTrainOnError, setting
from agentgym_py.feedback import Feedback
from agentgym_py.feedback.learning import LearningData, learn_from
from agentgym_py.training.settings import OfflineSettings
from agentgym_py.training.trainer import Trainer, info_of, require_several_processes, require_single_trajectories
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.scores import Scorer, apply_scores, mean_parts
from agentgym_py.trajectory.selectors import SelectConfig, Selection, build_selector


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What a trainer learns from, of stored trajectories."""

    selection: Selection
    """The trajectories that are selected, with the rewards that are learnt from."""
    corrections: Sequence[Trajectory] = ()
    """Corrected steps, which are learnt whatever is selected."""
    feedback: str = ""
    """What the feedback holds, in one line; empty without feedback."""
    reward_parts: Mapping[str, float] = field(default_factory=dict)
    """Mean of each part of the reward that replaces the world's, by trl's name; of all trajectories."""

    @property
    def trajectories(self) -> list[Trajectory]:
        """The training data."""
        return [*self.selection.kept, *self.corrections]


def require_offline(trainer: Trainer, *, has_coreset: bool) -> None:
    """Raise ConfigError if a trainer cannot run in these processes, or not with its settings or a coreset."""
    require_several_processes(trainer)
    if has_coreset:
        require_single_trajectories(trainer, "coreset")
    if isinstance(trainer, OfflineSettings) and trainer.ewc_lambda and trainer.ewc_anchor is None:
        anchor = f"{setting('trainer.ewc_anchor', 'FILE')}: anchors/NN.safetensors of a sequence"
        raise ConfigError(f"{setting('trainer.ewc_lambda')} needs {anchor}")


def require_one_reward(reward: object, feedback: object) -> None:
    """Raise ConfigError if both of them replace the world's reward."""
    if reward is not None and feedback is not None:
        raise ConfigError(f"{setting('feedback')} and {setting('reward')} cannot be combined; give one of them")


def select_training_data(
    trajectories: Sequence[Trajectory], trainer: Trainer, select: SelectConfig, *, scorer: Scorer | None = None,
    feedback: Sequence[Feedback] | None = None,
) -> TrainingData:  # fmt: skip
    """Select what a trainer learns from, by the rewards of a scorer or of feedback if there is one of them.

    Raises:
        NothingToTrainOnError: no trajectory is selected or corrected, or the feedback has nothing for this trainer.
    """
    data = LearningData(apply_scores(trajectories, scorer))
    parts = mean_parts(data.episodes) if scorer else {}
    if feedback is not None:
        data = learn_from(trajectories, feedback, info_of(trainer).feedback)
    selection = build_selector(select)(data.episodes)
    if not selection.kept and not data.corrections:
        returns = [trajectory.reward for trajectory in data.episodes if trajectory.is_evidence]
        failures = f"{setting('select.success_only', False)} {setting('select.threshold', '-inf')}"
        best = f"; the best return is {max(returns):g}. To train on failed episodes, too: {failures}" if returns else ""
        raise NothingToTrainOnError(f"{setting('select')} {selection.line}{best}")
    return TrainingData(selection, data.corrections, data.line, parts)
