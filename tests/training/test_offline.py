"""What is trained on of stored trajectories, for the command and for Python alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from agentgym_py.env import StopReason
from agentgym_py.errors import ConfigError, NothingToTrainOnError, naming_options
from agentgym_py.feedback import CorrectionFeedback, EpisodeRef, ScoreFeedback
from agentgym_py.rewards.functions import build_reward
from agentgym_py.training.offline import require_offline, require_one_reward, select_training_data
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.selectors import SelectConfig
from agentgym_trainers.dpo import DPO
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.weighted_bc import WeightedBC

Make = Callable[..., Trajectory]


@pytest.fixture
def tries(episode: Make) -> list[Trajectory]:
    """A success of 2 steps, one of 3, and a failure."""
    return [
        episode("a", "b", id="short", optimal_steps=2), episode("a", "b", "c", id="long", optimal_steps=2),
        episode("a", id="lost", success=False, reward=0.0),
    ]  # fmt: skip


def test_the_worlds_reward_a_reward_function_or_feedback_select(tries: list[Trajectory]) -> None:
    """Each by its own rewards; corrections are learnt beside the selected episodes."""
    by_world = select_training_data(tries, FilteredBC(), SelectConfig())
    assert [t.id for t in by_world.trajectories] == ["short", "long"] and by_world.selection.dropped
    assert by_world.feedback == "" and by_world.reward_parts == {}
    by_reward = select_training_data(tries, FilteredBC(), SelectConfig(), scorer=build_reward("efficiency"))
    assert [(t.id, t.reward) for t in by_reward.trajectories] == [("short", 1.0)]
    assert by_reward.reward_parts == {"rewards/efficiency/mean": pytest.approx((1 + 2 / 3) / 3)}
    names = [EpisodeRef.of(t) for t in tries]
    scores = [ScoreFeedback(name, score) for name, score in zip(names, (0.2, 0.7, 0.9), strict=True)]
    by_scores = select_training_data(tries, WeightedBC(), SelectConfig(threshold=0.5), feedback=scores)
    assert [(t.id, t.reward) for t in by_scores.trajectories] == [("long", 0.7), ("lost", 0.9)]
    corrections = [CorrectionFeedback(names[2], 0, "Action: b")]
    corrected = select_training_data(tries, FilteredBC(), SelectConfig(threshold=2.0), feedback=corrections)
    assert [t.id for t in corrected.trajectories] == ["lost^0"] and "1 of 1 corrections" in corrected.feedback


def test_nothing_to_train_on_says_what_to_set(tries: list[Trajectory]) -> None:
    """In the form of the command or of Python, with the best return."""
    expected = "kept 0 of 3; dropped: 3 below reward 2; the best return is 1. To train on failed episodes, too: "
    with pytest.raises(NothingToTrainOnError) as raised:
        select_training_data(tries, FilteredBC(), SelectConfig(threshold=2.0))
    assert str(raised.value) == f"select {expected}select.success_only=False select.threshold=-inf"
    with naming_options(), pytest.raises(NothingToTrainOnError) as raised:
        select_training_data(tries, FilteredBC(), SelectConfig(threshold=2.0))
    assert str(raised.value) == f"--select {expected}--select.success_only false --select.threshold -inf"
    lost = [replace(trajectory, stop_reason=StopReason.ERROR, error="gone") for trajectory in tries]
    with pytest.raises(NothingToTrainOnError, match=r"3 ended by an infrastructure error$"):
        select_training_data(lost, FilteredBC(), SelectConfig())


def test_what_a_trainer_cannot_do_is_refused_before_anything_is_loaded() -> None:
    """A coreset that would separate attempts, EWC without an anchor, two rewards."""
    for trainer, has_coreset, message in (
        (DPO(), True, "DPO compares the attempts"),
        (FilteredBC(ewc_lambda=1.0), False, "ewc_lambda needs .*ewc_anchor"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            require_offline(trainer, has_coreset=has_coreset)
    require_offline(FilteredBC(ewc_lambda=1.0, ewc_anchor=Path("00.safetensors")), has_coreset=True)
    with pytest.raises(ConfigError, match="feedback and reward cannot be combined"):
        require_one_reward("agent", "f.jsonl")
    require_one_reward("agent", None)
