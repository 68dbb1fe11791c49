"""Reward models and process reward models as sources of feedback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym_py.errors import ConfigError
from agentgym_py.feedback import NoFeedback, ScoreFeedback
from agentgym_py.feedback.model_scores import ProcessRewardScores, RewardModelScores
from agentgym_py.feedback.types import ReadsTokens
from agentgym_py.trajectory import Tokens, Trajectory

torch = pytest.importorskip("torch")

from agentgym_py.rewards.process_reward_model import CORRECTNESS, DIMENSIONS, ProcessRewardModel, new_heads
from agentgym_py.rewards.reward_model import Member, RewardModel

Make = Callable[..., Trajectory]


@pytest.fixture
def tries(episode: Make) -> list[Trajectory]:
    """Two that can be read, one without a step, and one with ids of another vocabulary."""
    strange = episode("a", id="strange")
    step = replace(strange.steps[0], tokens=Tokens((1,), (10**6,), (0.0,), (1,)))
    return [episode("search[cup]"), episode("a", "b", id="1"), episode(id="2"), replace(strange, steps=(step,))]


def require_scores(found: list[Any], expected: list[float]) -> None:
    """The first ones are scores, the others say why there is none."""
    assert [item.score for item in found if isinstance(item, ScoreFeedback)] == pytest.approx(expected)
    reasons = [item.reason for item in found if isinstance(item, NoFeedback)]
    assert reasons[0].startswith("without a step") and reasons[1] == "another tokenizer than the model's wrote it"


def test_a_reward_model_scores_by_the_chance_to_be_preferred(
    tiny_policy: Any, tries: list[Trajectory], tmp_path: Path
) -> None:
    """The logistic function of its score."""
    torch.manual_seed(0)
    member = Member(tiny_policy, torch.nn.Linear(32, 1))
    model = RewardModel([member], {"reward": 3.0})
    model.save(tmp_path)
    source = RewardModelScores(str(tmp_path))
    require_scores(source.feedback(tries), (1 / (1 + np.exp(-model.score(tries[:2])))).tolist())
    assert isinstance(source, ReadsTokens)
    source.check_policy(tiny_policy)
    for folder, message in (("", "folder must name the folder of a reward model"), ("none", "is not a reward model")):
        with pytest.raises(ConfigError, match=message):
            RewardModelScores(folder)


def test_a_process_reward_model_scores_by_the_value_of_states(
    tiny_policy: Any, tries: list[Trajectory], tmp_path: Path
) -> None:
    """The last one, the mean or the smallest, clipped to [0, 1]."""
    torch.manual_seed(0)
    heads = new_heads(32, 8)
    heads[-1].bias.data += 0.5
    model = ProcessRewardModel(tiny_policy, heads, dict.fromkeys(DIMENSIONS, 1.0))
    model.save(tmp_path)
    rows = [row[:, CORRECTNESS] for row in model.by_dimension(tries[:2])]
    for name, combine in (("last", lambda row: row[-1]), ("mean", np.mean), ("min", np.min)):
        found = ProcessRewardScores(str(tmp_path), name).feedback(tries)  # type: ignore[arg-type]  # one of three
        require_scores(found, np.clip([combine(row) for row in rows], 0, 1).tolist())
    with pytest.raises(ConfigError, match="of_steps must be one of last, mean, min"):
        ProcessRewardScores(str(tmp_path), "max")  # type: ignore[arg-type]  # wrong on purpose
