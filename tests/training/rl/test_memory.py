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


@pytest.mark.parametrize("name", registry.names("agentgym.trainers"))
def test_nothing_is_alive_after_a_training(name: str, toy_envs: Any, tmp_path: Path, no_collector: None) -> None:
    """Neither the model, nor the optimizer, nor the engine with its cache, once the policy is gone."""
    trainer = registry.load("agentgym.trainers", name)()
    names = {field.name for field in fields(trainer)}
    trainer = replace(trainer, **{setting: value for setting, value in FEW.items() if setting in names})
    policy, before = toy_envs.word_policy(), optimizers()
    trainer = with_teacher(trainer, policy, tmp_path / "teacher")
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
