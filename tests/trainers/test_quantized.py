"""Trainings of adapters on weights in 4 bits (QLoRA): slow, for bitsandbytes is an extra that only that stage has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("bitsandbytes")

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.errors import ConfigError, PolicyError
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import add_adapters, has_adapters, is_quantized, quantization_of, weight_sums
from agentgym_py.rewards.process_reward_model import ProcessRewardModel, init_process_reward_model
from agentgym_py.rewards.reward_model import RewardModel
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.grpo import GRPO
from agentgym_trainers.process_reward import ProcessReward
from agentgym_trainers.reward_model import RewardModelling

pytestmark = pytest.mark.slow


@pytest.fixture
def policy(toy_envs: Any, tmp_path: Path) -> Policy:
    """The toy envs' policy in 4 bits; bitsandbytes packs rows by 32."""
    toy_envs.word_policy(hidden_size=64).save(tmp_path / "whole")
    return Policy.load(tmp_path / "whole", quantize="4bit", device="cpu")


@pytest.fixture
def played(toy_envs: Any) -> list[Trajectory]:
    """Successes and failures at six tasks."""
    short = toy_envs.rollouts(toy_envs.word_policy(), toy_envs.CHAIN, 6)
    short.groups(6, 1)
    return [*Collector(ExpertAgent()).collect_batch(jobs_for([toy_envs.CHAIN], "train", range(6))), *short.episodes]


def test_4_bits_stay_as_they_were_loaded(policy: Policy) -> None:
    """However often they compute: an engine and a digest tell by them whether the weights were trained."""
    before, digest = weight_sums(policy.model.parameters()), policy.digest()
    with torch.no_grad():
        policy.model(input_ids=torch.arange(5)[None])
    assert is_quantized(policy.model) and weight_sums(policy.model.parameters()) == before and policy.digest() == digest


def test_layers_that_cannot_be_packed_are_one_line(
    toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said as the policy is loaded, by its name."""

    def fails(*given: Any) -> Any:
        raise AssertionError("N must be divisible by block_n")

    monkeypatch.setattr("bitsandbytes.nn.Linear4bit.forward", fails)
    toy_envs.word_policy().save(tmp_path / "whole")
    with pytest.raises(PolicyError, match="does not compute in 4bit on cpu: N must be divisible"):
        Policy.load(tmp_path / "whole", quantize="4bit", device="cpu")


def test_grpo_plays_and_learns_with_4_bits(toy_envs: Any, policy: Policy) -> None:
    """Two iterations; the base stays in 4 bits, and the adapters beside it."""
    rollouts = toy_envs.rollouts(policy, toy_envs.BANDIT, 64)
    report = GRPO(tasks_per_iteration=4, lora_rank=2).improve(policy, rollouts, seed=0, output_dir=Path("unused"))
    assert len(report.history) == 2 and report.loss and is_quantized(policy.model)


@pytest.mark.parametrize("kind", ["process_reward", "reward_model"])
def test_a_judge_keeps_what_its_adapters_learnt(
    policy: Policy, played: list[Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Merged into weights that are dequantized first, not rounded to 4 bits; it is stored as an ordinary model."""
    import peft

    merge, seen = peft.LoraModel.merge_and_unload, list[bool]()

    def noted(self: Any, *given: Any, **more: Any) -> Any:
        seen.append(is_quantized(self))
        return merge(self, *given, **more)

    monkeypatch.setattr(peft.LoraModel, "merge_and_unload", noted)
    same: dict[str, Any] = {"lora_rank": 2, "epochs": 1.0}
    trainer = ProcessReward(**same) if kind == "process_reward" else RewardModelling(match="all", **same)
    trainer.train(policy, played, seed=0, output_dir=tmp_path / "judge")
    loaded: Any = ProcessRewardModel if kind == "process_reward" else RewardModel
    judge = loaded.load(tmp_path / "judge")
    model = judge.policy.model if kind == "process_reward" else judge.members[0].policy.model
    assert not is_quantized(model) and is_quantized(policy.model) and len(judge.score(played)) == len(played)
    assert seen == [False]


def test_judges_follow_the_policys_bits(policy: Policy, played: list[Trajectory], tmp_path: Path) -> None:
    """They open in 4 bits, and one that is made of a policy in 4 bits keeps its base and its adapters."""
    assert quantization_of(policy.model) == "4bit"
    RewardModelling(match="all", lora_rank=2, epochs=1).train(policy, played, seed=0, output_dir=tmp_path / "rewards")
    ProcessReward(lora_rank=2, epochs=1).train(policy, played, seed=0, output_dir=tmp_path / "steps")
    rewards = RewardModel.load(tmp_path / "rewards", device="cpu", quantize="4bit")
    steps = ProcessRewardModel.load(tmp_path / "steps", device="cpu", quantize="4bit")
    assert quantization_of(rewards.members[0].policy.model) == quantization_of(steps.policy.model) == "4bit"
    assert np.isfinite(rewards.score(played)).all() and all(np.isfinite(row).all() for row in steps.score(played))
    policy.model = add_adapters(policy.model, 2, 0)
    labels = [np.zeros((len(trajectory.steps), 3)) for trajectory in played]
    made = init_process_reward_model(policy, labels, 8, {"progress": 1.0}, 0)
    assert quantization_of(made.policy.model) == "4bit" and has_adapters(made.policy.model)


def test_a_process_reward_model_without_adapters_says_what_it_lacks(
    policy: Policy, played: list[Trajectory], tmp_path: Path
) -> None:
    """Weights in 4 bits are not trained; heads alone are, on what the backbone says."""
    with pytest.raises(ConfigError, match="trains only through adapters: set lora_rank above 0"):
        ProcessReward(epochs=1).train(policy, played, seed=0, output_dir=tmp_path / "judge")
    assert (
        ProcessReward(epochs=1, train_backbone=False).train(policy, played, seed=0, output_dir=tmp_path / "heads").loss
    )
