"""Nothing of a training stays in memory when it is over, even if Python collects no cycles."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py import registry
from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.testing.zoo_checks import with_teacher
from agentgym_py.training import OnPolicyTrainer

ON_POLICY = [
    name for name in registry.names("agentgym.trainers") if hasattr(registry.load("agentgym.trainers", name), "improve")
]
FEW = {"tasks_per_iteration": 2, "group_size": 4, "minibatch_size": 4, "batch_size": 8, "epochs": 1}


@pytest.fixture
def no_collector(toy_envs: Any) -> Iterator[None]:
    """Python's cycle collector is off, as if a GPU were full before it runs; libraries are imported."""
    toy_envs.word_policy()  # a frame of the first import lives until it is collected
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def optimizers() -> int:
    """Number of optimizers in memory."""
    return sum(issubclass(type(thing), torch.optim.Optimizer) for thing in gc.get_objects())


def few_episodes(name: str, policy: Any, folder: Path, **settings: Any) -> Any:
    """Return a trainer for few episodes."""
    trainer = registry.load("agentgym.trainers", name)()
    names = {field.name for field in fields(trainer)}
    few = {setting: value for setting, value in FEW.items() if setting in names}
    return with_teacher(replace(trainer, **few, **settings), policy, folder / "teacher")


@pytest.mark.parametrize("name", registry.names("agentgym.trainers"))
def test_nothing_is_alive_after_a_training(name: str, toy_envs: Any, tmp_path: Path, no_collector: None) -> None:
    """Neither the model, nor the optimizer, nor the engine with its cache, once the policy is gone."""
    policy, before = toy_envs.word_policy(), optimizers()
    trainer = few_episodes(name, policy, tmp_path)
    budget = 8 if isinstance(trainer, OnPolicyTrainer) else 16
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, budget, tasks=4, tokens=2)
    alive = [weakref.ref(policy.model), weakref.ref(rollouts.engine)]
    if isinstance(trainer, OnPolicyTrainer):
        trainer.improve(policy, rollouts, seed=0, output_dir=tmp_path)
    else:
        played = [trajectory for group in rollouts.groups(4, 4) for trajectory in group]
        played += Collector(ExpertAgent()).collect_batch(jobs_for([toy_envs.CHAIN], "train", range(4)))
        trainer.train(policy, played, seed=0, output_dir=tmp_path)
    assert all(parameter.grad is None for parameter in policy.model.parameters())
    del policy, rollouts
    assert [reference() for reference in alive] == [None, None] and optimizers() == before


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {}) for name in ON_POLICY),
        ("r3", {"prm_labels": "monte_carlo", "prm_attempts": 2, "prm_states": 1, "prm_episodes": 2}),
    ],
)
def test_no_trainer_keeps_the_cache_while_it_trains(
    name: str, settings: dict[str, Any], toy_envs: Any, tmp_path: Path
) -> None:
    """No forward pass with a gradient runs beside cached keys and values, in all iterations."""
    policy = toy_envs.word_policy()
    trainer = few_episodes(name, policy, tmp_path, **settings)
    rollouts, cached = toy_envs.rollouts(policy, toy_envs.CHAIN, 24, tasks=4, tokens=2), list[bool]()

    def look(*_: Any) -> None:
        if torch.is_grad_enabled():
            cached.append(bool(rollouts.engine.runner.places.cache.keys))

    policy.model.register_forward_pre_hook(look)
    trainer.improve(policy, rollouts, seed=0, output_dir=tmp_path / "out")
    assert cached and not any(cached)


def test_the_cache_is_dropped_before_a_training(toy_envs: Any) -> None:
    """`release_cache` frees the keys and values; the next episodes are those that a new engine would play."""
    policy = toy_envs.word_policy()
    rollouts, other = (toy_envs.rollouts(policy, toy_envs.CHAIN, 32, tasks=8, tokens=2) for _ in range(2))
    first = rollouts.groups(4, 4)
    assert rollouts.engine.runner.places.cache.keys and first == other.groups(4, 4)
    rollouts.release_cache()
    assert not rollouts.engine.runner.places.cache.keys and not rollouts.engine.runner.places.cache.values
    again, kept = rollouts.groups(4, 4), other.groups(4, 4)
    assert [[[s.reply for s in t.steps] for t in group] for group in again] == [
        [[s.reply for s in t.steps] for t in group] for group in kept
    ]
