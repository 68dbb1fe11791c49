"""The optimizer of a training: its learning rate by the model's size, its kind, and the heads beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.errors import ConfigError
from agentgym_py.training.optimization import Optimization, make_optimizer
from agentgym_py.training.rl.actor_critic import ActorCritic
from agentgym_py.training.rl.learner import Learner
from agentgym_py.training.settings import OnPolicySettings, OptimizerSettings
from agentgym_trainers.dagger import Dagger
from agentgym_trainers.distill import Distill
from agentgym_trainers.dpo import DPO
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.grpo import GRPO
from agentgym_trainers.kto import KTO
from agentgym_trainers.orpo import ORPO
from agentgym_trainers.ppo import PPO
from agentgym_trainers.process_reward import ProcessReward
from agentgym_trainers.r3 import R3
from agentgym_trainers.ranking import Ranking
from agentgym_trainers.reverse_curriculum import ReverseCurriculum
from agentgym_trainers.reward_model import RewardModelling
from agentgym_trainers.weighted_bc import WeightedBC

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "trainers" / "README.md"
TRAINERS: dict[str, Any] = {
    "filtered_bc": FilteredBC, "weighted_bc": WeightedBC, "orpo": ORPO, "dpo": DPO, "kto": KTO, "ranking": Ranking,
    "grpo": GRPO, "ppo": PPO, "r3": R3, "reverse_curriculum": ReverseCurriculum, "reward_model": RewardModelling,
    "process_reward": ProcessReward, "distill": Distill, "dagger": Dagger,
}  # fmt: skip


def table() -> dict[str, list[float]]:
    """The documented rates of each trainer: small models, larger ones, larger ones with adapters."""
    rows = PAGE.read_text(encoding="utf-8").split("## Learning rates")[1].split("## ")[0].splitlines()
    rates = dict[str, list[float]]()
    for line in rows:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[1][:1].isdigit():
            rates |= {name: list(map(float, cells[1:])) for name in TRAINERS if f"`{name}`" in cells[0]}
    return rates


@pytest.mark.parametrize("name", TRAINERS)
def test_the_default_rate_is_the_tables(name: str) -> None:
    """By the number of weights and by adapters; a rate that is set is taken as it is."""
    trainer, adapted = TRAINERS[name](), TRAINERS[name](lora_rank=8)
    small, whole, lora = table()[name]
    assert [trainer.rate_for(1_000_000), trainer.rate_for(30_000_000), adapted.rate_for(1_000_000)] == [small] * 3
    assert [trainer.rate_for(134_000_000), trainer.rate_for(7_000_000_000)] == [whole] * 2
    assert adapted.rate_for(134_000_000) == pytest.approx(lora)
    assert TRAINERS[name](learning_rate=0.5).rate_for(134_000_000) == 0.5
    assert trainer.rate_for(1_000_000, 0.25) == 0.25 * small
    assert adapted.rate_for(134_000_000, 0.25) == pytest.approx(0.25 * lora)
    assert TRAINERS[name](learning_rate=0.5).rate_for(1_000_000, 0.25) == 0.5


def test_a_training_uses_the_rate_of_its_models_size(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the optimizer, and in what it reports."""
    assert Optimization(toy_envs.word_policy(), OnPolicySettings(), seed=0).backend.param_groups[0]["lr"] == 3e-4
    monkeypatch.setattr("agentgym_py.training.settings.SMALL_MODEL", 100)
    large = Optimization(toy_envs.word_policy(), OnPolicySettings(), seed=0)
    assert large.backend.param_groups[0]["lr"] == large.require_change()["learning_rate"] == 1e-6
    adapted = Optimization(toy_envs.word_policy(), OnPolicySettings(lora_rank=2), seed=0)
    assert adapted.learning_rate == pytest.approx(1e-5)
    policy = toy_envs.word_policy()
    policy.model.config.learning_rate_scale = 0.5
    assert Optimization(policy, OnPolicySettings(), seed=0).learning_rate == pytest.approx(5e-7)


def test_8_bit_states_need_a_gpu_and_bitsandbytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is one line; another name is refused by the settings."""
    groups = [{"params": [torch.nn.Parameter(torch.zeros(2))]}]
    settings = OptimizerSettings(optim="adamw_8bit")
    monkeypatch.setattr("agentgym_py.training.optimization.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="optim adamw_8bit needs bitsandbytes"):
        make_optimizer(groups, settings, 1e-3)
    monkeypatch.setattr("agentgym_py.training.optimization.find_spec", lambda name: name)
    with pytest.raises(ConfigError, match="runs on a CUDA GPU only"):
        make_optimizer(groups, settings, 1e-3)
    with pytest.raises(ConfigError, match="optim"):
        OptimizerSettings(optim="sgd")  # type: ignore[arg-type]  # it is wrong


@pytest.mark.parametrize("width", [16, 512])
def test_a_step_of_the_critic_moves_values_alike_in_wide_models(toy_envs: Any, width: int) -> None:
    """At most as far as a model of width 128 would be moved by the same rate."""
    net = ActorCritic(toy_envs.word_policy(hidden_size=width).model, True, 1.0)
    assert net.value is not None
    with torch.no_grad():
        net.value.weight += 1e-3  # a step of Adam
        values = net._values(torch.ones(1, width))
    assert float(values) == pytest.approx(1e-3 * min(width, 128), rel=1e-5)


def test_the_critics_error_does_not_shrink_the_policys_gradient(toy_envs: Any) -> None:
    """Each is clipped to max_grad_norm by itself; both norms are logged."""
    from agentgym_py.training.rl.losses import Loss

    steps = []
    for error in (0.0, 1e4):
        policy = toy_envs.word_policy()
        records = toy_envs.records_of(policy)
        settings = OnPolicySettings(learning_rate=0.01, max_grad_norm=1e-3, max_ratio=0.0)
        learner = Learner(policy, settings, seed=0, critic_rate=0.01, critic_gradient=0.0)
        logged = toy_envs.step(
            learner, records,
            lambda out, batch, by=error: Loss(-out.logps_N * batch.advantages_N + by * out.values_N, {}), "token",
        )  # fmt: skip
        assert learner.net.value is not None
        norms = [
            torch.stack([p.grad.norm() for p in part if p.grad is not None]).norm().item()
            for part in ([p for n, p in learner.net.named_parameters() if not n.startswith("value")],
                         learner.net.value.parameters())
        ]  # fmt: skip
        steps.append((logged["grad_norm"], logged["critic_grad_norm"], *norms))
    assert steps[0][0] == pytest.approx(steps[1][0]) and steps[0][0] > 1e-3
    assert steps[0][2] == pytest.approx(steps[1][2], rel=1e-4) == pytest.approx(1e-3, rel=1e-2)
    assert steps[1][1] > 1 and steps[1][3] == pytest.approx(1e-3, rel=1e-2)
