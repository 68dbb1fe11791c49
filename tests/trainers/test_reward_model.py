from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentgym_py.errors import ConfigError, NothingToTrainOnError, PolicyError
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import pad_rows
from agentgym_py.policy.tokens import Sample, encode
from agentgym_py.rewards.process_reward_model import ProcessRewardModel, require_process_reward
from agentgym_py.rewards.reward_model import Member, RewardModel, require_reward_model
from agentgym_py.training.fit import Fit
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.process_reward import ProcessReward
from agentgym_trainers.reward_model import HeadPair, RewardModelling, _new_member, bradley_terry_loss, require_heads


@pytest.fixture(scope="module")
def played(episode: Any) -> list[Trajectory]:
    """Of each of three tasks a good and a bad trajectory, of different lengths."""
    good = [episode(*("search cup", "open it", "buy it")[: n + 1], task=f"task {n}", id="good") for n in range(3)]
    bad = [
        episode(*("search hat", "go back", "leave")[: 3 - n], task=f"task {n}", id="bad", reward=0.0, success=False)
        for n in range(3)
    ]
    return [*good, *bad]


def fit_of(
    policy: Any, played: list[Trajectory], loss_checks: Any, **settings: Any
) -> tuple[RewardModelling, Member, Fit[HeadPair]]:
    """A training of one member on all pairs in one batch, in double precision."""
    asked = RewardModelling(**{"batch_size": 6, **settings})
    _, judged, _ = asked._prepare(policy, played, 0)
    member = _new_member(policy, len(asked.heads), 0)
    loss_checks.doubled(member.policy)
    member.heads.double()
    fit = asked.fit(member, judged, 0)
    fit.optimization.net.train()
    return asked, member, fit


def slow_loss(better: Any, worse: Any) -> Any:
    """The formula, pair by pair: -log of 1 / (1 + exp(r_l - r_w))."""
    total = 0.0
    for good, bad in zip(better, worse, strict=True):
        total = total - torch.log(1 / (1 + torch.exp(bad - good)))
    return total / len(better)


def slow_rewards(member: Member, samples: Sequence[Sample], heads: Sequence[int]) -> list[Any]:
    """Each row's number, from the row alone: the head of the pair on the state of the last token."""
    found = []
    for sample, head in zip(samples, heads, strict=True):
        ids = torch.tensor([sample.input_ids])
        states = member.policy.model(input_ids=ids, output_hidden_states=True).hidden_states[-1]
        weights, bias = member.heads.weight[head], member.heads.bias[head]
        found.append(sum((a * b for a, b in zip(weights, states[0, -1], strict=True)), bias))
    return found


# --------------------------------------------------------------------------------------------------------- the formula


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_the_formula(loss_checks: Any, seed: int) -> None:
    """In double precision, in any order and in parts, finite for any margin; and its gradient is right."""
    columns = 3 * loss_checks.drawn(2, 6, seed=seed)
    loss_checks.check_formula(bradley_terry_loss, slow_loss, *columns)
    loss_checks.check_rows(lambda rows, padding: bradley_terry_loss(*columns[:, rows]), 6)
    assert bradley_terry_loss(torch.tensor([0.0]), torch.tensor([1e5])) == 1e5


def test_the_loss_of_a_batch_and_its_gradient_are_the_formula(
    tiny_policy: Any, played: list[Trajectory], loss_checks: Any
) -> None:
    """With two heads, each of which learns its own pairs; the other head has no part in them."""
    asked, member, fit = fit_of(tiny_policy, played, loss_checks, heads={"reward": 1.0, "steps": 0.5})
    heads, found = [pair.head for pair in fit.rows], []
    assert len(heads) == 5 and set(heads) == {0, 1}
    for ours in (True, False):
        fit.module.zero_grad()
        better, worse = (
            slow_rewards(member, [(pair.better, pair.worse)[i] for pair in fit.rows], heads) for i in (0, 1)
        )
        loss = loss_checks.share(asked, fit, fit.rows) if ours else slow_loss(better, worse)
        loss.backward()
        found.append((loss.detach(), loss_checks.gradients_of(fit.module)))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=1e-9)
    loss_checks.check_gradients(found[0][1], found[1][1])


def test_the_loss_is_trls(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, loss_checks: Any, trl_reference: Any
) -> None:
    """With one head it is that of trl's RewardTrainer, of transformers' model with the same weights."""
    from transformers import AutoModelForSequenceClassification
    from trl import RewardConfig, RewardTrainer

    asked, member, fit = fit_of(tiny_policy, played, loss_checks)
    config = copy.deepcopy(tiny_policy.model.config)
    config.num_labels = 1
    other = loss_checks.doubled(AutoModelForSequenceClassification.from_config(config)).train()
    other.model.load_state_dict(member.policy.model.model.state_dict())
    other.score.load_state_dict({"weight": member.heads.weight})
    samples = [pair.better for pair in fit.rows] + [pair.worse for pair in fit.rows]
    ids = [sample.input_ids for sample in samples]
    batch = {"input_ids": pad_rows(ids), "attention_mask": pad_rows([[1] * len(row) for row in ids])}
    rows = [{"chosen_ids": pair.better.input_ids, "rejected_ids": pair.worse.input_ids} for pair in fit.rows]
    args = trl_reference.arguments(RewardConfig, tmp_path)
    trainer = trl_reference.trainer_of(
        RewardTrainer, args, tiny_policy, rows, lambda some: batch, model=other
    )  # fmt: skip
    trainer.model.config.pad_token_id = 0  # the last token is found by it, and the tokenizer's own ends a turn
    theirs = trl_reference.loss_of(trainer, batch)

    loss, logged = asked.loss(fit, fit.rows, 3)
    torch.autograd.backward(loss)
    torch.testing.assert_close(loss.detach(), theirs.loss, rtol=0, atol=1e-9)
    gradients = dict(loss_checks.gradients_of(fit.module))
    assert gradients.pop("heads.bias").abs().max() < 1e-12
    of_head = [("weight", gradients.pop("heads.weight"))]
    loss_checks.check_gradients(of_head, [("weight", theirs.gradients["score.weight"])])
    of_body = [(name, each) for name, each in theirs.gradients.items() if name.startswith("model.")]
    loss_checks.check_gradients(sorted(gradients.items()), sorted(of_body))
    assert float(logged["accuracy"].float().mean()) == pytest.approx(theirs.logged["accuracy"])
    assert float(logged["margin"].mean()) == pytest.approx(theirs.logged["margin"], rel=1e-4)


def test_only_the_last_state_of_a_row_gets_a_gradient(
    tiny_policy: Any, played: list[Trajectory], loss_checks: Any
) -> None:
    """Neither padding nor another token's state; more padding, another order or parts change nothing."""
    asked, member, fit = fit_of(tiny_policy, played, loss_checks)
    (gradient,) = loss_checks.state_gradients(member.policy.model, lambda: loss_checks.share(asked, fit, fit.rows))
    samples = [pair.better for pair in fit.rows] + [pair.worse for pair in fit.rows]
    last = torch.tensor([len(sample.input_ids) - 1 for sample in samples])
    expected = torch.zeros_like(gradient, dtype=torch.bool).scatter(1, last[:, None], True)
    assert torch.equal(gradient > 0, expected)

    def share(rows: list[int], padding: int) -> Any:
        with loss_checks.wider(padding):
            return loss_checks.share(asked, fit, [fit.rows[i] for i in rows], 3).detach()

    loss_checks.check_rows(share, 3, summed=True)


# ------------------------------------------------------------------------------------------------------------ training


def test_it_learns_who_is_better_and_leaves_the_policy(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path
) -> None:
    """A model that was written and read again scores every good trajectory above the bad one of its task, mean 0."""
    before, mode = tiny_policy.digest(), tiny_policy.model.training
    report = RewardModelling(epochs=15, batch_size=3, learning_rate=3e-3).train(
        tiny_policy, played, seed=0, output_dir=tmp_path / "made"
    )
    assert (tiny_policy.digest(), tiny_policy.model.training) == (before, mode)
    model = RewardModel.load(tmp_path / "made")
    scores = model.score(played)
    assert scores.shape == (6,) and min(scores[:3] - scores[3:]) > 1 and abs(scores.mean()) < 1e-4
    assert report.loss[-1] < 0.3 < report.loss[0] and report.metrics["accuracy"] == 1
    assert report.trajectories == 6 and report.metrics["pairs"] == 3 and report.agent_tokens == 15 * 6
    assert report.tokens == 15 * sum(len(encode(each, tiny_policy.chat).input_ids) for each in played)


def test_members_differ_and_are_told_apart_from_one(tiny_policy: Any, played: list[Trajectory], tmp_path: Path) -> None:
    """An ensemble is trained member by member, reproducibly; its steps are told as one row of steps."""
    told: list[tuple[int, int]] = []
    asked = RewardModelling(epochs=1, batch_size=2, members=2, aggregate="min", heads={"success": 1.0, "steps": 0.1})
    for name in ("one", "two"):
        report = asked.train(
            tiny_policy, played, seed=4, output_dir=tmp_path / name, progress=lambda *step: told.append(step)
        )
    one, two = (RewardModel.load(tmp_path / name) for name in ("one", "two"))
    values = one.by_head(played)
    assert values.shape == (2, 6, 2) and np.abs(values[0] - values[1]).min() > 1e-4
    np.testing.assert_array_equal(values, two.by_head(played))
    np.testing.assert_allclose(one.score(played), (values @ [1.0, 0.1]).min(0))
    assert one.members[0].policy.digest() != one.members[1].policy.digest()
    steps = len(told) // 2
    assert (
        told[:steps] == [(i + 1, steps) for i in range(steps)]
        and report.agent_tokens == 2 * 2 * report.metrics["pairs"]
    )


def test_a_head_learns_its_own_outcome(tiny_policy: Any, episode: Any, tmp_path: Path) -> None:
    """Of two successes of equal return the head `steps` prefers the shorter one, which the return cannot."""
    short, long = episode("buy it", id="short"), episode("search cup", "open it", "buy it", id="long")
    with pytest.raises(NothingToTrainOnError, match=r"no pair for the head 'reward', 1 of them ties"):
        RewardModelling().train(tiny_policy, [short, long], seed=0, output_dir=tmp_path)
    assert not any(tmp_path.iterdir())
    RewardModelling(heads={"steps": 2.0}, epochs=10, learning_rate=3e-3).train(
        tiny_policy, [long, short], seed=0, output_dir=tmp_path
    )
    scores = RewardModel.load(tmp_path).score([short, long])
    assert scores[0] > scores[1] + 1


def test_lora_trains_adapters_and_the_heads(tiny_policy: Any, played: list[Trajectory], tmp_path: Path) -> None:
    """The member is an ordinary checkpoint with changed weights afterwards."""
    RewardModelling(epochs=2, lora_rank=2).train(tiny_policy, played, seed=0, output_dir=tmp_path)
    member = Policy.load(tmp_path / "member_0")
    assert member.digest() != tiny_policy.digest()
    assert {name for name, _ in member.model.named_parameters()} == {
        name for name, _ in tiny_policy.model.named_parameters()
    }


def test_what_is_in_no_pair_is_counted(tiny_policy: Any, played: list[Trajectory], tmp_path: Path) -> None:
    """Whoever a head can compare is trained on; the others are dropped with a reason."""
    broken = replace(played[3], error="timeout")
    report = RewardModelling(epochs=1).train(
        tiny_policy, [played[0], broken, *played[1:3], *played[4:]], seed=0, output_dir=tmp_path
    )
    assert report.trajectories == 4 and report.dropped == {
        "ended by an infrastructure error": 1,
        "in no pair of a better and a worse one of their task": 1,
    }
    assert json.loads((tmp_path / "reward_model.json").read_text())["heads"] == {"reward": 1.0}


@pytest.mark.parametrize("kind", [RewardModelling, ProcessReward])
def test_a_model_keeps_the_rotary_factors_of_its_policy(
    kind: Any, played: list[Trajectory], zoo: Any, tmp_path: Path
) -> None:
    """With `max_context` longrope has its short factors; a file without it, or with none, opens with the long ones."""

    def frequencies(policy: Policy) -> list[float]:
        (rotary,) = (m for m in policy.model.modules() if getattr(m, "rope_type", None) == "longrope_fixed")
        return list(rotary.inv_freq.tolist())

    def load() -> Policy:
        if kind is RewardModelling:
            return RewardModel.load(tmp_path).members[0].policy
        return ProcessRewardModel.load(tmp_path).policy

    policy = zoo.miniature("phi3.5", max_context=256)
    kind(epochs=1).train(policy, played, seed=0, output_dir=tmp_path)
    assert load().max_length == 256 and frequencies(load()) == frequencies(policy)
    wide = zoo.miniature("phi3.5")
    require = require_reward_model if kind is RewardModelling else require_process_reward
    with pytest.raises(ConfigError, match="reads 256 tokens at most, the policy 4096"):
        require(str(tmp_path), wide)
    (file,) = tmp_path.glob("*.json")
    about = json.loads(file.read_text())
    wrong_lengths: list[Any] = ["x", 2.5, True, [], 0, {}]
    for wrong in wrong_lengths:
        file.write_text(json.dumps(about | {"max_context": wrong}))
        with pytest.raises(PolicyError, match=r"its max_context is .*, not a whole number of at least 1"):
            require(str(tmp_path), wide)
        with pytest.raises(PolicyError, match=r"its max_context is .*, not a whole number of at least 1"):
            load()
    assert about.pop("max_context") == 256
    file.write_text(json.dumps(about))
    assert frequencies(load()) == frequencies(wide) != frequencies(policy)


def test_a_head_that_is_no_outcome_is_named(tiny_policy: Any, played: list[Trajectory], tmp_path: Path) -> None:
    """By what was probably meant, not by the pairs that it would not find; a world's reward parts are outcomes."""
    with pytest.raises(ConfigError, match=r"heads: no outcome 'rewrd'\. Did you mean 'reward'\?"):
        RewardModelling(heads={"rewrd": 1.0}).train(tiny_policy, played, seed=0, output_dir=tmp_path)
    paid = replace(played[0], steps=(replace(played[0].steps[0], reward_parts={"price": 0.5}),))
    require_heads(["reward", "success", "steps", "valid", "price"], [*played, paid])
    require_heads(["whatever"], [])


def test_where_a_reward_model_is_meant_to_be_is_said(tmp_path: Path) -> None:
    """A folder that is not there, and the one below in which it is."""
    with pytest.raises(ConfigError, match=r"reward_model .*nowhere is not a reward model: there is no such folder"):
        require_reward_model(str(tmp_path / "nowhere"))
    (tmp_path / "reward_model").mkdir()
    (tmp_path / "reward_model" / "reward_model.json").touch()
    with pytest.raises(ConfigError, match=r"reward_model.json is not there; did you mean .*reward_model\?"):
        require_reward_model(str(tmp_path))
    require_reward_model(str(tmp_path / "reward_model"))


def test_wrong_settings_are_refused() -> None:
    """Settings that cannot be meant raise at once and are named."""
    wrong: list[dict[str, Any]] = [{"match": "success"}, {"heads": {}}, {"heads": {"reward": 0.0}}, {"members": 0}]
    wrong += [{"heads": {"reward": math.inf}}, {"aggregate": "max"}, {"std_weight": math.nan}, {"epochs": 0}]
    for each in wrong:
        with pytest.raises(ConfigError, match=next(iter(each))):
            RewardModelling(**each)
