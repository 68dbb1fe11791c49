"""What a training in bfloat16 learns is kept: in the optimizer, in the policy, in its checkpoint, by the next round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job
from agentgym_py.errors import ConfigError, TrainingError
from agentgym_py.policy import Policy
from agentgym_py.training.masters import MasterWeights
from agentgym_py.training.optimization import Optimization
from agentgym_py.training.rl.learner import Learner
from agentgym_py.training.rl.losses import Loss
from agentgym_py.training.settings import OnPolicySettings
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.grpo import GRPO


@pytest.fixture
def demos(toy_envs: Any) -> list[Any]:
    """Four episodes of the expert."""
    return Collector(ExpertAgent()).collect_batch([Job(toy_envs.CHAIN, task) for task in range(4)])


@pytest.fixture
def base(toy_envs: Any, tmp_path: Path) -> Path:
    """A stored policy whose weights are numbers of bfloat16."""
    policy = toy_envs.word_policy(spread=0.2)
    policy.model.to(torch.bfloat16).to(torch.float32)
    policy.save(tmp_path / "base")
    return tmp_path / "base"


def merged_weights(policy: Policy) -> Any:
    """A policy's weights in one row, with its adapters merged."""
    return torch.cat([p.detach().flatten() for _, p in sorted(policy.merged().model.named_parameters())])


def trained(policy: Policy, demos: list[Any], folder: Path, rank: int, rate: float, rounds: int = 1) -> list[Any]:
    """Train for some rounds, each from the checkpoint of the one before; returns the reports."""
    reports = []
    for number in range(rounds):
        trainer = FilteredBC(
            lora_rank=rank, learning_rate=rate, epochs=4, batch_size=1, warmup_ratio=0.0, threshold=-9.0
        )
        reports.append(trainer.train(policy, demos, seed=number, output_dir=folder / f"training{number}"))
        policy.save(folder / str(number))
        policy = Policy.load(folder / str(number), dtype="bfloat16", device="cpu")
    return reports


@pytest.mark.parametrize("rate", [1e-6, 1e-5, 1e-4])
@pytest.mark.parametrize("rank", [0, 2])
def test_all_of_a_change_survives_the_rounds(
    base: Path, tmp_path: Path, demos: list[Any], rank: int, rate: float
) -> None:
    """Two rounds in bfloat16 move the saved weights as far as two rounds in float32, and in the same direction."""
    changes, start = {}, merged_weights(Policy.load(base, device="cpu"))
    for dtype in ("float32", "bfloat16"):
        policy = Policy.load(base, dtype=dtype, device="cpu")
        if rank:
            FilteredBC(lora_rank=rank, learning_rate=1e-3, epochs=1, threshold=-9.0).train(
                policy, demos, seed=5, output_dir=tmp_path / "warm"
            )
        reports = trained(policy, demos, tmp_path / dtype, rank, rate, rounds=2)
        assert all(report.metrics["weights_changed"] > 0.3 for report in reports)
        changes[dtype] = merged_weights(Policy.load(tmp_path / dtype / "1", device="cpu")) - start
    whole, half = changes["float32"], changes["bfloat16"]
    steps = 2 * 4 * len(demos)
    assert whole.norm() > 0.1 * steps * rate, "else it is no test"
    assert float(half.norm() / whole.norm()) == pytest.approx(1, abs=0.1)
    assert float(half @ whole / (half.norm() * whole.norm())) > 0.9


def test_a_checkpoint_holds_the_masters_and_plays_their_rounding(base: Path, tmp_path: Path, demos: list[Any]) -> None:
    """Loaded again it is the same policy in bfloat16, and its next training begins at the float32 weights."""
    policy = Policy.load(base, dtype="bfloat16", device="cpu")
    trained(policy, demos, tmp_path / "run", 0, 1e-5)
    assert policy.model.dtype == torch.bfloat16
    loaded = Policy.load(tmp_path / "run" / "0", dtype="bfloat16", device="cpu")
    whole = dict(Policy.load(tmp_path / "run" / "0", device="cpu").model.named_parameters())
    assert loaded.digest() == policy.digest()
    assert any(not torch.equal(p, p.bfloat16().float()) for p in whole.values())
    for which in (policy, loaded):
        masters = MasterWeights(which.model, which.load_masters())
        assert all(torch.equal(master, whole[name]) for name, master in masters.trained())
    with torch.no_grad():
        next(loaded.model.parameters()).mul_(2)
    stale = MasterWeights(loaded.model, loaded.load_masters())
    assert all(torch.equal(master, dict(loaded.model.named_parameters())[n].float()) for n, master in stale.trained())


def test_the_first_batch_is_as_likely_after_saving_as_after_training(
    base: Path, tmp_path: Path, demos: list[Any]
) -> None:
    """The policy learnt it, and its checkpoint gives the same log-probabilities."""
    from agentgym_py.policy.logprobs import sample_logprobs
    from agentgym_py.policy.tokens import encode

    for rank in (0, 2):
        policy = Policy.load(base, dtype="bfloat16", device="cpu")
        samples = [encode(trajectory, policy.chat) for trajectory in demos]
        before = sample_logprobs(policy.model, samples, 1)
        trained(policy, demos, tmp_path / str(rank), rank, 1e-2)
        loaded = Policy.load(tmp_path / str(rank) / "0", dtype="bfloat16", device="cpu")
        after, again = (sample_logprobs(each.model, samples, 1) for each in (policy, loaded))
        assert after == again and sum(after) > sum(before)


def test_gradients_are_added_in_float32(toy_envs: Any, base: Path) -> None:
    """Two microbatches give the sum of their gradients, not its rounding to bfloat16."""
    policy = Policy.load(base, dtype="bfloat16", device="cpu")
    weight = policy.model.model.norm.weight
    masters = MasterWeights(policy.model, {})
    for scale in (1.0, 1 / 512):
        (weight.sum() * scale).backward()
    assert weight.grad is None and masters.of(weight).grad is not None
    assert torch.equal(masters.of(weight).grad, torch.full_like(masters.of(weight), 1 + 1 / 512))
    masters.close()
    weight.sum().backward()
    assert weight.grad is not None


def test_on_policy_training_keeps_masters_too(toy_envs: Any, base: Path, tmp_path: Path) -> None:
    """GRPO in bfloat16 at a rate that bfloat16 cannot see; a failed step restores masters and weights."""
    policy = Policy.load(base, dtype="bfloat16", device="cpu")
    rollouts = toy_envs.rollouts(policy, toy_envs.BANDIT, 64)
    report = GRPO(tasks_per_iteration=4, learning_rate=1e-5).improve(policy, rollouts, seed=0, output_dir=tmp_path)
    assert report.metrics["weights_changed"] > 0.5 and policy.model.dtype == torch.bfloat16
    policy.save(tmp_path / "saved")
    moved = merged_weights(Policy.load(tmp_path / "saved", device="cpu")) - merged_weights(Policy.load(base))
    assert (moved != 0).float().mean() > 0.5 and moved.abs().max() < 1e-3
    records = toy_envs.records_of(policy)
    learner = Learner(policy, OnPolicySettings(learning_rate=0.1), seed=0)
    learner.annotate(records)
    before, masters = policy.digest(), [p.clone() for _, p in learner.optimization.trained()]
    toy_envs.step(learner, records, lambda out, batch: Loss(-out.logps_N * batch.advantages_N, {}), "token")
    assert policy.digest() != before
    learner._backup.restore()
    assert policy.digest() == before
    assert all(torch.equal(p, kept) for (_, p), kept in zip(learner.optimization.trained(), masters, strict=True))


@pytest.mark.parametrize("rank", [0, 2])
def test_float16_is_not_trained(base: Path, tmp_path: Path, demos: list[Any], rank: int) -> None:
    """It is refused in one line, with adapters too."""
    policy = Policy.load(base, dtype="float16", device="cpu")
    with pytest.raises(ConfigError, match="float16 does not train, because gradients underflow"):
        trained(policy, demos, tmp_path, rank, 1e-3)


def test_a_training_that_changes_nothing_is_an_error(base: Path, tmp_path: Path, demos: list[Any]) -> None:
    """At a rate below what a float32 weight can hold."""
    policy = Policy.load(base, device="cpu")
    with pytest.raises(TrainingError, match=r"the training was lost: .* less than float32 can add to a weight"):
        trained(policy, demos, tmp_path, 0, 1e-14)


def test_after_a_failed_start_the_next_training_trains(base: Path, tmp_path: Path, demos: list[Any]) -> None:
    """An error between the making of the masters and the first step leaves no hook that takes their gradients away."""
    policy, fresh = (Policy.load(base, dtype="bfloat16", device="cpu") for _ in range(2))
    with pytest.raises(ConfigError, match="adamw_8bit"):
        Optimization(policy, FilteredBC(optim="adamw_8bit"), seed=0)
    trained(policy, demos, tmp_path / "again", 0, 1e-3)
    trained(fresh, demos, tmp_path / "fresh", 0, 1e-3)
    assert policy.digest() == fresh.digest()


def test_a_loss_without_a_gradient_is_an_error(base: Path) -> None:
    """A step without any gradient would pass for one that changed nothing."""
    optimization = Optimization(Policy.load(base, device="cpu"), FilteredBC(learning_rate=1e-3), seed=0)
    with pytest.raises(TrainingError, match="no trained weight has a gradient"):
        optimization.backend.step(lambda norm: None)
