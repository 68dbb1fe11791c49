"""Speeds of AgentTools-v0: `pytest benchmarks/tools.py`, one core."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym_envs.tools.env import ToolsEnv
from agentgym_envs.tools.world import WORLDS, world_of
from agentgym_py.rng import Rng

STEPS = 1000
DIFFICULTIES = list(ToolsEnv.limits)


def _made(difficulty: str) -> ToolsEnv:
    """An environment whose databases exist already: a process makes each of them once."""
    for number in range(WORLDS["train"]):
        world_of("train", number, difficulty == "retrieval")
    return ToolsEnv(difficulty=difficulty)


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_random_calls(benchmark: Any, difficulty: str) -> None:
    """A step with a random listed action and the listing itself; random episodes are short, their resets count too."""
    env, rng = _made(difficulty), Rng("benchmark")
    env.reset(seed=0)

    def run() -> None:
        for _ in range(STEPS):
            if env.ended:
                env.reset()
            env.step(rng.choice(env.actions()))

    benchmark.pedantic(run, rounds=15, warmup_rounds=2)
    benchmark.extra_info["steps_per_second"] = round(STEPS / float(benchmark.stats.stats.median))


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_expert_steps(benchmark: Any, difficulty: str) -> None:
    """The expert's plan of one task, again and again from a snapshot of its start."""
    env = _made(difficulty)
    env.reset(seed=0)
    start, plan = env.snapshot(), env.expert()

    def run() -> None:
        env.restore(start)
        for action in plan:
            env.step(action)

    benchmark.pedantic(run, rounds=300, warmup_rounds=30)
    benchmark.extra_info["steps_per_second"] = round(len(plan) / float(benchmark.stats.stats.median))


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_reset(benchmark: Any, difficulty: str) -> None:
    """A reset to a task that was never seen before, its database made already."""
    env, seeds = _made(difficulty), iter(range(10**9))
    benchmark.pedantic(lambda: env.reset(seed=next(seeds)), rounds=2000, warmup_rounds=300)


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_snapshot_and_restore(benchmark: Any, difficulty: str) -> None:
    """Saving an episode after the expert's calls and taking it up again."""
    env = _made(difficulty)
    env.reset(seed=0)
    for action in env.expert()[:-1]:
        env.step(action)
    benchmark.extra_info["bytes"] = len(env.snapshot())
    benchmark(lambda: env.restore(env.snapshot()))
