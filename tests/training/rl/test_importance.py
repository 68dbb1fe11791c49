"""The difference between sampler and trainer: read again, measured, and corrected."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, get_args

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.errors import ConfigError, TrainingError
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import add_adapters
from agentgym_py.training.rl.batch import even_parts, sampling_stats
from agentgym_py.training.rl.learner import Learner
from agentgym_py.training.rl.losses import importance_weights
from agentgym_py.training.settings import ImportanceMode, OnPolicySettings
from agentgym_trainers.grpo import GRPO, grpo_loss
from agentgym_trainers.ppo import PPO, ppo_loss

MODES = get_args(ImportanceMode)


def slow_weights(old: list[float], sampler: list[float], mode: str, cap: float) -> list[float]:
    """The weights of one trajectory, token by token."""
    weights = []
    for o, s in zip(old, sampler, strict=True):
        ratio = math.exp(o - s)
        if mode in ("sequence_truncate", "sequence_mask"):
            ratio = math.prod(math.exp(a - b) for a, b in zip(old, sampler, strict=True))
        if mode in ("token_truncate", "sequence_truncate"):
            weights.append(min(ratio, cap))
        else:
            weights.append(0.0 if ratio > cap else ratio)
    return weights


def trl_weights(old: Any, sampler: Any, mask: Any, mode: str, cap: float) -> Any:
    """As trl 1.16 computes them on padded rows (GRPOTrainer._generate_and_score_completions)."""
    difference = (old - sampler) * mask
    if mode in ["sequence_mask", "sequence_truncate"]:
        difference = difference.sum(dim=-1, keepdim=True)
    ratio = torch.exp(difference)
    if mode in ["sequence_truncate", "token_truncate"]:
        return torch.clamp(ratio, min=None, max=cap)
    return ratio.masked_fill((ratio < -math.inf) | (ratio > cap), value=0.0)


@pytest.mark.parametrize("mode", MODES)
def test_weights_are_those_of_the_loop_and_of_trl(mode: Any) -> None:
    """For trajectories of several lengths, within the cap and beyond it."""
    generator, lengths, cap = torch.Generator().manual_seed(0), (1, 5, 12), 1.5
    rows = [[-3 * torch.rand(n, generator=generator, dtype=torch.float64) for _ in range(2)] for n in lengths]
    mask = torch.tensor([[k < n for k in range(max(lengths))] for n in lengths]).double()
    padded = [
        torch.nn.utils.rnn.pad_sequence([row[side] for row in rows], batch_first=True) for side in range(2)
    ]  # (B, T)
    theirs = trl_weights(padded[0], padded[1], mask, mode, cap).expand_as(mask)
    beyond = False
    for (old, sampler), row, n in zip(rows, theirs, lengths, strict=True):
        ours = importance_weights(old, sampler, mode, cap)
        assert ours.tolist() == pytest.approx(slow_weights(old.tolist(), sampler.tolist(), mode, cap), rel=1e-12)
        torch.testing.assert_close(ours, row[:n], rtol=1e-12, atol=0)
        beyond |= bool(((ours == cap) | (ours == 0)).any())
    assert beyond, "else it is no test"


def test_the_policys_loss_is_weighed_and_no_other() -> None:
    """The clipped surrogate of GRPO and PPO; not the KL, the critic's loss and the entropy."""
    logps, old = torch.tensor([-1.0, -2.0, -0.5]), torch.tensor([-1.2, -1.0, -0.5])
    advantages, weights, ref = torch.tensor([1.0, -1.0, 2.0]), torch.tensor([0.5, 0.0, 2.0]), torch.zeros(3)
    rows = torch.tensor([0, 0, 1])
    plain = grpo_loss(logps, old, advantages, rows)
    kl = grpo_loss(logps, old, advantages, rows, ref_logps_N=ref, kl_coef=0.1).loss_N - plain.loss_N
    weighed = grpo_loss(logps, old, advantages, rows, ref_logps_N=ref, kl_coef=0.1, importance_N=weights)
    torch.testing.assert_close(weighed.loss_N, plain.loss_N * weights + kl)
    rest = (torch.tensor([0.1, 0.2, 0.3]), torch.zeros(3), torch.ones(3), torch.tensor([1.0, 2.0, 3.0]))
    whole = ppo_loss(logps, old, advantages, *rest, entropy_coef=0.1)
    actor = whole.logged_N["policy_loss"]
    weighed = ppo_loss(logps, old, advantages, *rest, entropy_coef=0.1, importance_N=weights)
    torch.testing.assert_close(weighed.loss_N, whole.loss_N - actor + actor * weights)


@pytest.mark.parametrize(("limit", "stops"), [(0.0, False), (0.04, True), (0.06, False)])
def test_a_sampler_too_far_from_the_trainer_stops_the_training(toy_envs: Any, limit: float, stops: bool) -> None:
    """Log-probabilities that are 0.05 apart exceed a limit of 0.04; the weights stay as they are."""
    policy = toy_envs.word_policy()
    records = toy_envs.records_of(policy)
    Learner(policy, OnPolicySettings(), seed=0, remote_sampler=True).annotate(records)
    for record in records:
        record.old_logps_n = record.old_logps_n - 0.05
    before = policy.digest()
    learner = Learner(policy, OnPolicySettings(max_sampler_difference=limit), seed=0)
    if stops:
        with pytest.raises(
            TrainingError, match=r"by 0\.05 nats per token on average, more than max_sampler_difference"
        ):
            learner.annotate(records)
    else:
        learner.annotate(records)
    assert policy.digest() == before
    assert ("sampling_logp_difference/mean" in learner.logged) == (limit > 0)
    with pytest.raises(ConfigError, match="max_sampler_difference"):
        OnPolicySettings(max_sampler_difference=-1.0)


def policies(toy_envs: Any) -> dict[str, tuple[Policy, dict[str, Any]]]:
    """Policies that the trainer computes otherwise than the sampler, and the learner's arguments."""
    half, adapted = toy_envs.word_policy(spread=0.2), toy_envs.word_policy(spread=0.2)
    half.model.to(torch.bfloat16)
    adapted.model = add_adapters(adapted.model, 2, 0)
    plain = toy_envs.word_policy
    return {
        "bfloat16": (half, {}),
        "adapters": (adapted, {"lora_rank": 2}),
        "autocast": (plain(), {"bf16": True}),
        "server": (plain(), {"remote_sampler": True}),
        "correction": (plain(), {"importance_sampling_correction": True}),
    }


@pytest.mark.parametrize("kind", ["bfloat16", "adapters", "autocast", "server", "correction"])
def test_the_trainer_reads_again_what_it_may_compute_otherwise(toy_envs: Any, kind: str) -> None:
    """Ratios begin at 1 exactly, the sampler's log-probabilities are kept beside, and their difference is measured."""
    policy, changes = policies(toy_envs)[kind]
    remote = changes.pop("remote_sampler", False)
    records = toy_envs.records_of(policy)
    sampled = [record.old_logps_n.clone() for record in records]
    learner = Learner(policy, OnPolicySettings(**changes), seed=0, remote_sampler=remote)
    learner.annotate(records)
    assert all(torch.equal(r.sampler_logps_n, logps) for r, logps in zip(records, sampled, strict=True))
    difference = torch.cat([r.old_logps_n - logps for r, logps in zip(records, sampled, strict=True)]).abs()
    logged = learner.logged
    assert logged["sampling_logp_difference/mean"] == pytest.approx(float(difference.mean()))
    assert logged["sampling_logp_difference/max"] == pytest.approx(float(difference.max()))
    assert ("importance_sampling_ratio/mean" in logged) == (kind == "correction")
    learner.begin_step(records, "token")
    for batch in learner.microbatches(records):
        torch.testing.assert_close(learner.forward(batch).logps_N.detach(), batch.old_logps_N, rtol=0, atol=2e-2)


def test_in_float32_the_samplers_log_probabilities_stay(toy_envs: Any) -> None:
    """The trainer computes the same there: no second forward pass."""
    policy = toy_envs.word_policy()
    records = toy_envs.records_of(policy)
    sampled = [record.old_logps_n.clone() for record in records]
    learner = Learner(policy, OnPolicySettings(), seed=0)
    learner.annotate(records)
    assert all(torch.equal(r.old_logps_n, logps) for r, logps in zip(records, sampled, strict=True))
    assert not sampling_stats(records) and not learner.logged


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("trainer", [GRPO, PPO])
def test_the_correction_runs_in_a_training(toy_envs: Any, tmp_path: Path, trainer: Any, mode: Any) -> None:
    """In bfloat16, with its metrics in each iteration."""
    policy = toy_envs.word_policy(spread=0.2)
    policy.model.to(torch.bfloat16)
    rollouts = toy_envs.rollouts(policy, toy_envs.BANDIT, 64)
    settings = {"importance_sampling_correction": True, "importance_sampling_mode": mode, "tasks_per_iteration": 4}
    if trainer is PPO:
        settings["tasks_per_iteration"] = 32
    report = trainer(**settings).improve(policy, rollouts, seed=0, output_dir=tmp_path)
    assert len(report.history) == 2
    assert all(0.9 < row["importance_sampling_ratio/mean"] < 1.1 for row in report.history)
    assert all(0 <= row["sampling_logp_difference/mean"] < 0.1 for row in report.history)


def test_wrong_settings_are_one_line() -> None:
    """Unknown modes and caps that are no positive number."""
    with pytest.raises(ConfigError, match="importance_sampling_mode"):
        OnPolicySettings(importance_sampling_mode="cut")  # type: ignore[arg-type]  # it is wrong
    with pytest.raises(ConfigError, match="importance_sampling_cap"):
        OnPolicySettings(importance_sampling_cap=0.0)


@pytest.mark.parametrize(("number", "sizes"), [(33, [11, 11, 11]), (32, [16, 16]), (17, [8, 9]), (3, [3]), (0, [])])
def test_minibatches_are_even(number: int, sizes: list[int]) -> None:
    """No step is taken on what is left over."""
    records: list[Any] = list(range(number))
    parts = even_parts(records, 16)
    assert [len(part) for part in parts] == sizes and [record for part in parts for record in part] == records


def test_ppos_iterations_are_even(toy_envs: Any, tmp_path: Path) -> None:
    """A budget of one episode more than an iteration is two iterations of half of it."""
    rollouts = toy_envs.rollouts(policy := toy_envs.word_policy(), toy_envs.BANDIT, 33)
    report = PPO(tasks_per_iteration=32, critic_warmup=1).improve(policy, rollouts, seed=0, output_dir=tmp_path)
    assert [row["episodes"] for row in report.history] == [17, 16]
