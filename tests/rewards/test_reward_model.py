from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentgym_py.errors import ConfigError, PolicyError
from agentgym_py.rewards.reward_model import Member, RewardModel, aggregate_scores, outcome
from agentgym_py.trajectory import Trajectory


def model_of(policy: Any, *, members: int = 1, **settings: Any) -> RewardModel:
    """An ensemble over one backbone, with random heads."""
    made = []
    for number in range(members):
        torch.manual_seed(number)
        made.append(Member(policy, torch.nn.Linear(policy.model.config.hidden_size, 2)))
    return RewardModel(made, {"reward": 1.0, "steps": -0.5}, **settings)


@pytest.fixture
def played(episode: Any) -> list[Trajectory]:
    """Trajectories of different lengths."""
    return [episode(*["look", "take the cup", "leave"][:n]) for n in (2, 3, 1)]


def test_an_outcome_is_more_where_it_is_better(episode: Any) -> None:
    """Return, success, fewer steps, valid actions, and any part of the reward by its name."""
    made = episode("a", "b", reward=0.3, success=False)
    steps = tuple(replace(step, valid=bool(i), reward_parts={"colour": 0.25}) for i, step in enumerate(made.steps))
    made = replace(made, steps=steps)
    found = {head: outcome(made, head) for head in ("reward", "success", "steps", "valid", "colour", "size")}
    assert found == {"reward": 0.3, "success": 0.0, "steps": -2.0, "valid": 0.5, "colour": 0.5, "size": 0.0}


def test_a_score_is_the_heads_weighted_sum_at_the_last_token(tiny_policy: Any, played: list[Trajectory]) -> None:
    """As the whole model says it of each trajectory alone; batches, padding and order change nothing."""
    from agentgym_py.policy.tokens import encode

    model = model_of(tiny_policy)
    values = model.by_head(played, batch_size=2)
    for number, trajectory in enumerate(played):
        ids = torch.tensor([encode(trajectory, tiny_policy.chat).input_ids])
        with torch.no_grad():
            state = tiny_policy.model(input_ids=ids, output_hidden_states=True).hidden_states[-1][0, -1]
            expected = model.members[0].heads(state).numpy()
        np.testing.assert_allclose(values[0, number], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.score(played), values[0] @ [1.0, -0.5], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model.score(played[::-1], batch_size=3), model.score(played)[::-1], rtol=1e-4, atol=1e-5)
    assert model.score([]).shape == (0,)


def test_an_ensemble_is_its_mean_its_least_or_cautious() -> None:
    """With the population's deviation; of one member they are all the same."""
    scores_KN = np.array([[1.0, 5.0], [3.0, 5.0]])
    assert aggregate_scores(scores_KN, "mean", 9.0).tolist() == [2.0, 5.0]
    assert aggregate_scores(scores_KN, "min", 9.0).tolist() == [1.0, 5.0]
    assert aggregate_scores(scores_KN, "mean-std", 2.0).tolist() == [0.0, 5.0]
    assert {tuple(aggregate_scores(scores_KN[:1], how, 2.0)) for how in ("mean", "min", "mean-std")} == {(1.0, 5.0)}
    with pytest.raises(ConfigError, match="aggregate"):
        RewardModel([], {"reward": 1.0}, "max")  # type: ignore[arg-type]  # what a file may say


def test_it_is_saved_and_loaded(tiny_policy: Any, played: list[Trajectory], tmp_path: Path) -> None:
    """Heads, weights and how the ensemble is aggregated; each member's folder is a policy's checkpoint."""
    from agentgym_py.policy import Policy

    model = model_of(tiny_policy, members=2, aggregate="mean-std", std_weight=0.5)
    model.save(tmp_path / "made")
    again = RewardModel.load(tmp_path / "made")
    np.testing.assert_array_equal(again.score(played), model.score(played))
    assert (again.heads, again.aggregate, again.std_weight) == (model.heads, "mean-std", 0.5)
    assert Policy.load(tmp_path / "made" / "member_1").digest() == tiny_policy.digest()
    assert sorted(each.name for each in (tmp_path / "made").iterdir()) == ["member_0", "member_1", "reward_model.json"]


def test_a_broken_folder_is_refused(tiny_policy: Any, tmp_path: Path) -> None:
    """None at all, another model's, or one that lacks a part."""
    with pytest.raises(PolicyError, match="no reward model"):
        RewardModel.load(tmp_path)
    model_of(tiny_policy).save(tmp_path)
    about = json.loads((tmp_path / "reward_model.json").read_text())
    for wrong in ({"heads": {"reward": 1.0}}, {"members": ["member_7"]}, {"heads": None}, {"aggregate": "max"}):
        (tmp_path / "reward_model.json").write_text(json.dumps(about | wrong))
        with pytest.raises(PolicyError, match="no reward model"):
            RewardModel.load(tmp_path)
    (tmp_path / "reward_model.json").write_text(json.dumps(about))
    (tmp_path / "member_0" / "heads.safetensors").write_bytes(b"not weights")
    with pytest.raises(PolicyError, match="no reward model"):
        RewardModel.load(tmp_path)


@pytest.mark.parametrize("name", ["../outside", "..", "", "member_0/../../outside", 5])
def test_members_lie_within_the_folder(tiny_policy: Any, tmp_path: Path, name: Any) -> None:
    """A reward_model.json of a stranger's opens nothing elsewhere."""
    model_of(tiny_policy).save(tmp_path / "made")
    (tmp_path / "made" / "member_0").rename(tmp_path / "outside")
    about = json.loads((tmp_path / "made" / "reward_model.json").read_text())
    (tmp_path / "made" / "member_0").mkdir()
    (tmp_path / "made" / "reward_model.json").write_text(json.dumps(about | {"members": [name]}))
    with pytest.raises(PolicyError, match=r"not a folder within|no reward model that opens: .*int"):
        RewardModel.load(tmp_path / "made")


def test_what_cannot_be_scored_is_an_error(tiny_policy: Any, played: list[Trajectory], episode: Any) -> None:
    """A trajectory without a turn has no last token; one beyond the model's context is not cut."""
    with pytest.raises(PolicyError, match="has 0 tokens"):
        model_of(tiny_policy).score([*played, episode(id="empty")])
    long = replace(played[0], steps=played[0].steps * 3000)
    with pytest.raises(PolicyError, match=r"'t0' has \d+ tokens"):
        model_of(tiny_policy).score([long])
