"""Speeds of the built-in worlds: `pytest benchmarks/envs.py`, with the limits of docs/results/worlds.md.

The times are CPU times, on which other jobs have little effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from agentgym_envs.household.env import HouseholdEnv
from agentgym_envs.shop.env import ShopEnv
from agentgym_py.env import TextEnv
from agentgym_py.rng import Rng

STEPS = 1000
pytestmark = pytest.mark.benchmark(timer=time.process_time)


def _seconds(benchmark: Any) -> float:
    return float(benchmark.stats.stats.median)


def _random_steps(env: TextEnv, rng: Rng) -> Callable[[], None]:
    def run() -> None:
        for _ in range(STEPS):
            if env.stop_reason:
                env.reset()
            env.step(rng.choice(env.actions() or [""]))

    return run


@pytest.mark.parametrize("mode", ["react", "text", "text_rich", "html", "url"])
def test_random_valid_steps(benchmark: Any, mode: Any) -> None:
    """Random admissible actions in the shop, including their listing and the resets between episodes."""
    env = ShopEnv(observation_mode=mode)
    env.reset(seed=0)
    benchmark.pedantic(_random_steps(env, Rng("benchmark")), rounds=15, warmup_rounds=2)
    benchmark.extra_info["steps_per_second"] = round(STEPS / _seconds(benchmark))
    assert mode != "react" or STEPS / _seconds(benchmark) >= 10_000


@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
def test_random_valid_steps_in_the_household(benchmark: Any, difficulty: Any) -> None:
    """The same in the household, whose tasks are long, so that resets matter little."""
    env = HouseholdEnv(difficulty=difficulty)
    env.reset(seed=0)
    benchmark.pedantic(_random_steps(env, Rng("benchmark")), rounds=15, warmup_rounds=2)
    benchmark.extra_info["steps_per_second"] = round(STEPS / _seconds(benchmark))
    assert STEPS / _seconds(benchmark) >= 20_000


def test_reset(benchmark: Any) -> None:
    """A reset to a new task, with a loaded catalogue."""
    env, seeds = ShopEnv(), iter(range(10**9))
    benchmark.pedantic(lambda: env.reset(seed=next(seeds)), rounds=5000, warmup_rounds=500)
    assert _seconds(benchmark) <= 100e-6


def test_snapshot_and_restore(benchmark: Any) -> None:
    """A snapshot and its restore on a page of results."""
    env = ShopEnv()
    env.reset(seed=0)
    env.step(env.expert()[0])
    benchmark(lambda: env.restore(env.snapshot()))
    assert _seconds(benchmark) <= 50e-6


def test_search(benchmark: Any) -> None:
    """A search of the embedded catalogue for the words of a request, without the cache."""
    env = ShopEnv()
    queries = [env.task(number, "train").instruction for number in range(500)]
    index, query = env.catalogue.index, iter(queries * 1000)
    benchmark.pedantic(lambda: index.search(next(query)), rounds=2000, warmup_rounds=200)
    assert len(env.catalogue.products) >= 1000 and _seconds(benchmark) <= 100e-6


def test_expert(benchmark: Any) -> None:
    """A plan for a new task."""
    env, seeds = ShopEnv(), iter(range(10**9))

    def plan() -> None:
        env.reset(seed=next(seeds))
        env.expert()

    benchmark.pedantic(plan, rounds=500, warmup_rounds=50)
    assert _seconds(benchmark) <= 5e-3
