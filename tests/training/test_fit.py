"""The loop of offline trainers: its schedule, what it draws, and what an interrupted training leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.errors import RunError
from agentgym_py.policy.adapters import base_parameters
from agentgym_py.policy.logprobs import agent_logprobs
from agentgym_py.policy.tokens import Sample
from agentgym_py.training import fit
from agentgym_py.training.data import sequential_batches
from agentgym_py.training.fit import Fit
from agentgym_py.training.settings import OfflineSettings
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.dpo import DPO
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.kto import KTO
from agentgym_trainers.orpo import ORPO
from agentgym_trainers.ranking import Ranking
from agentgym_trainers.reward_model import RewardModelling

ROWS = [Sample([1, 2 + k, 3, 4][: 3 + k % 2], [0, 1, 1, 1][: 3 + k % 2]) for k in range(6)]


class Cut(KeyboardInterrupt):
    """A training is interrupted."""


def trained(policy: Any, settings: OfflineSettings, output: Path | None = None, cut: int = 0, seed: int = 0) -> Any:
    """Clone `ROWS` and return the history; `cut` is the step after which the training is interrupted."""

    def progress(step: int, steps: int) -> None:
        if step == cut:
            raise Cut

    with Fit("test", policy, settings, ROWS, seed=seed, output_dir=output, progress=progress) as fit:
        for batch in fit.steps(sequential_batches(len(ROWS), settings)):
            for part in fit.microbatches(batch):
                fit.backward(-agent_logprobs(fit.agent_logits(part)).sum() / len(batch))
            fit.step()
    return fit.history


@pytest.mark.parametrize(("warmup_ratio", "warm"), [(0.0, 0), (0.34, 4), (0.99, 11)])
def test_the_learning_rate_rises_and_then_falls_as_a_cosine(toy_envs: Any, warmup_ratio: float, warm: int) -> None:
    """Every step has a rate above 0, the first one too; the first step after the rise has `learning_rate`, the peak."""
    settings = OfflineSettings(batch_size=1, learning_rate=0.5, warmup_ratio=warmup_ratio, max_grad_norm=1e-6)
    rates = [row["learning_rate"] for row in trained(toy_envs.word_policy(), settings)]
    assert len(rates) == 12 and min(rates) > 0 and rates[warm] == max(rates) == 0.5
    assert rates[: warm + 1] == pytest.approx([0.5 * (k + 1) / (warm + 1) for k in range(warm + 1)])
    assert rates[warm:] == sorted(rates[warm:], reverse=True)
    if not warm:
        assert rates[6] == pytest.approx(0.25), "half of a cosine is over"


def with_dropout(policy: Any) -> Any:
    """The policy with dropout in its attention."""
    for module in policy.model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.5
    return policy


def test_dropout_is_drawn_by_the_seed_alone(toy_envs: Any) -> None:
    """Another seed draws another dropout; torch's own generator neither decides it nor is moved by it."""
    digests = list[str]()
    for seed, before in ((0, 1), (0, 2), (1, 1)):
        torch.manual_seed(before)
        state = torch.get_rng_state()
        policy = with_dropout(toy_envs.word_policy())
        trained(policy, OfflineSettings(learning_rate=1e-2), seed=seed)
        assert torch.equal(torch.get_rng_state(), state) and not policy.model.training
        digests.append(policy.digest())
    plain = toy_envs.word_policy()
    trained(plain, OfflineSettings(learning_rate=1e-2))
    assert digests[0] == digests[1] and len({*digests, plain.digest()}) == 3


@pytest.fixture
def played(episode: Any) -> list[Trajectory]:
    """A good and a bad trajectory of each of four tasks."""
    return [
        episode("search cup", *(["buy it"] * good), task=f"t{n}", id=f"{n} {good}", reward=float(good), success=good)
        for n in range(4) for good in (True, False)
    ]  # fmt: skip


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("kind", [DPO, KTO, ORPO, Ranking, RewardModelling])
def test_a_model_that_is_compared_trains_without_its_own_dropout(
    kind: Any, checkpointing: bool, tiny_policy: Any, fresh: Any, played: list[Trajectory], tmp_path: Path
) -> None:
    """To a reference, which has none, or to other trajectories; as trl's `disable_dropout` does by default."""
    trainer = kind(epochs=1, gradient_checkpointing=checkpointing)
    outcomes = []
    for name, policy in ("dropout", with_dropout(fresh(tiny_policy))), ("plain", fresh(tiny_policy)):
        report = trainer.train(policy, played, seed=3, output_dir=tmp_path / name)
        outcomes.append((report.history, policy.digest()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(("kind", "lora_rank"), [(kind, rank) for kind in (FilteredBC, DPO, KTO) for rank in (0, 2)])
def test_a_resumed_training_draws_the_dropout_that_it_would_have_drawn(
    kind: Any, lora_rank: int, tiny_policy: Any, fresh: Any, played: list[Trajectory], tmp_path: Path
) -> None:
    """Interrupted in each epoch and resumed, it ends bit-identical: weights, history, and learning rates within it."""
    settings = {"epochs": 3, "batch_size": 2, "checkpoint_minutes": 0.0, "lora_rank": lora_rank, "warmup_ratio": 0.3}
    without = kind(**settings, gradient_accumulation=1 + (kind is KTO))
    trainer = replace(without, lora_dropout=0.5) if kind is not FilteredBC and lora_rank else without

    def run(output: Path, cut: int = 0) -> tuple[str, Any]:
        def progress(step: int, steps: int) -> None:
            if step == cut:
                raise Cut

        policy = with_dropout(fresh(tiny_policy))
        report = trainer.train(policy, played, seed=3, output_dir=output, progress=progress)
        return policy.digest(), report.history

    for cut in (2, 4, 5):
        with pytest.raises(Cut):
            run(tmp_path / "cut", cut)
        assert list((tmp_path / "cut" / "states").glob("state-*"))
    assert run(tmp_path / "cut") == run(tmp_path / "whole")
    policy = fresh(tiny_policy)
    without.train(policy, played, seed=3, output_dir=tmp_path / "plain")
    has_dropout = kind is FilteredBC or lora_rank > 0  # those that compare with a reference have that of adapters only
    assert (policy.digest() != run(tmp_path / "again")[0]) == has_dropout


def test_the_time_of_a_training_counts_every_sitting(
    toy_envs: Any, episode: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the state from which it resumes: eight steps are as long as without an interruption."""
    clock = [0.0]
    monkeypatch.setattr(fit, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def run(cut: int = 0) -> float:
        def progress(step: int, steps: int) -> None:
            clock[0] += 100
            if step == cut:
                raise Cut

        played = [episode("a", task=f"t{n}") for n in range(4)]
        trainer = FilteredBC(batch_size=1, checkpoint_minutes=0.0, threshold=-9.0)
        report = trainer.train(toy_envs.word_policy(), played, seed=0, output_dir=tmp_path, progress=progress)
        return report.seconds

    with pytest.raises(Cut):
        run(cut=3)
    assert run() == 800


def test_an_interrupted_training_leaves_an_ordinary_model(toy_envs: Any, tmp_path: Path) -> None:
    """Only its adapters are left: recomputation is off, and no hook or mode of the training stays on the model."""
    policy = toy_envs.word_policy()
    names = [name for name, _ in policy.model.named_parameters()]
    hooks = dict(policy.model.get_input_embeddings()._forward_hooks)
    settings = OfflineSettings(lora_rank=2, gradient_checkpointing=True, batch_size=2)
    with pytest.raises(Cut):
        trained(policy, settings, tmp_path, cut=3)
    assert [name for name, _ in base_parameters(policy.model)] == names and not policy.model.training
    assert policy.model.get_input_embeddings()._forward_hooks == hooks and "forward" not in vars(policy.model)
    assert not any(getattr(each, "gradient_checkpointing", False) for each in policy.model.modules())


def test_a_state_of_another_training_is_refused_before_the_model_is_touched(toy_envs: Any, tmp_path: Path) -> None:
    """With other settings the command says so, and the policy has no adapters yet."""
    settings = OfflineSettings(lora_rank=2, batch_size=2, checkpoint_minutes=0.0)
    with pytest.raises(Cut):
        trained(toy_envs.word_policy(), settings, tmp_path, cut=3)
    policy = toy_envs.word_policy()
    before = policy.digest()
    with pytest.raises(RunError, match="the state of another training"):
        trained(policy, OfflineSettings(lora_rank=2, batch_size=3, checkpoint_minutes=0.0), tmp_path)
    assert policy.digest() == before and not hasattr(policy.model, "peft_config")
