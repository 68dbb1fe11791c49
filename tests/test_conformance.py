"""Every registered environment keeps the contract of `TextEnv`; a new plugin is tested without being listed here."""

from __future__ import annotations

import warnings
from contextlib import suppress
from datetime import date
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import agentgym_py
from agentgym_py import registry
from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ResetNeededError
from agentgym_py.testing import CHECKS, check_world

ENVS = registry.names("agentgym.envs")
UNUSUAL = [
    (env_id, difficulty)
    for env_id in ENVS
    for difficulty in getattr(type(EnvSpec(env_id).make()), "limits", ())
    if difficulty not in ("easy", "medium", "hard")
]
"""Difficulties that change more than sizes, such as the one of tools that must be searched."""
FEW, MANY = ({"episodes": 8, "memory_episodes": 100}, {"episodes": 25, "memory_episodes": 400})
NUMBERS = [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.slow)]
"""Episodes of each check, and of the check of memory."""
QUICK = ("tasks", "card", "actions", "random_baseline", "leaks", "globals")
"""Checks that are quick with as many episodes as `agentgym check` plays by default, which is more."""


@pytest.fixture(autouse=True)
def short_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of speed, which cannot fail by its figures, measures for a moment."""
    monkeypatch.setattr("agentgym_py.testing.resources._SPEED_SECONDS", 0.01)


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.parametrize("check", [check for check in CHECKS if check not in QUICK])
def test_it_keeps_the_contract(env_id: str, check: str, numbers: dict[str, Any]) -> None:
    """The conformance kit finds nothing; `benchmarks/conformance.py` asks for more episodes."""
    check_world(env_id, check, **numbers)


@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.parametrize("check", QUICK)
def test_it_keeps_the_contract_at_the_defaults(env_id: str, check: str) -> None:
    """As `agentgym check NAME` has them."""
    check_world(env_id, check)


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize(("env_id", "difficulty"), UNUSUAL)
@pytest.mark.parametrize("check", CHECKS)
def test_an_unusual_difficulty_keeps_it_too(env_id: str, difficulty: str, check: str, numbers: dict[str, Any]) -> None:
    """Where a difficulty is another game, the kit plays that as well."""
    check_world(env_id, check, env_kwargs={"difficulty": difficulty}, **numbers)


DIFFICULTIES = [
    (env_id, difficulty)
    for env_id in ENVS
    for difficulty in getattr(type(EnvSpec(env_id).make()), "limits", ("easy", "medium", "hard"))
]
TODAY = date.today().toordinal() % len(DIFFICULTIES)  # any day will do


@pytest.mark.parametrize(
    ("env_id", "difficulty"),
    [pytest.param(*each, marks=() if n == TODAY else pytest.mark.slow) for n, each in enumerate(DIFFICULTIES)],
)
def test_no_difficulty_raises_a_false_alarm(env_id: str, difficulty: str) -> None:
    """The checks of worlds that misbehave, in every difficulty; by default in another one each day."""
    kwargs = {"difficulty": difficulty}
    check_world(env_id, "isolation", "interface", "memory", env_kwargs=kwargs, episodes=10, memory_episodes=80)


@pytest.mark.parametrize("env_id", ENVS)
def test_gymnasium_finds_it_by_this_package(env_id: str) -> None:
    """`module:id` makes it without an import beforehand."""
    assert gymnasium.make(f"agentgym_py:{env_id}").spec is not None


@pytest.mark.parametrize("env_id", ENVS)
def test_gymnasiums_own_checker_warns_of_nothing(env_id: str) -> None:
    """Rendering included, which the conformance kit leaves out: `metadata` names the frame rate."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(env_id).unwrapped)


@pytest.mark.parametrize("env_id", ENVS)
def test_an_expert_agent_solves_it(env_id: str) -> None:
    """`ExpertAgent`, with its thoughts and frames, needs no more steps than a plan from the start."""
    for trajectory in Collector(ExpertAgent()).collect_batch(jobs_for([EnvSpec(env_id)], "test", range(10))):
        assert trajectory.success and trajectory.optimal_steps in (None, len(trajectory.steps)), trajectory.task_id


@pytest.mark.parametrize("env_id", ENVS)
def test_a_call_with_broken_arguments_is_no_valid_action(env_id: str) -> None:
    """As a tool call and as ReAct: it changes nothing, and the observation says what to mend."""
    env = EnvSpec(env_id).make()
    env.reset(seed=0)
    names = [tool["function"]["name"] for tool in env.tools() or []]
    for name in names:
        for text in (f'{{"name": "{name}", "arguments": "{{"}}', f"Action: {name}\nAction Input: {{"):
            env.reset(seed=0)
            before = env.state()
            observation, reward, *_, info = env.step(text)
            assert f"The input of {name!r} must be one JSON object" in observation
            assert (reward, info["valid_action"], env.state()) == (0, False, before)


@pytest.mark.parametrize("env_id", ENVS)
def test_before_a_reset_the_experts_say_that_one_is_needed(env_id: str) -> None:
    """As `step` does; secrets and actions say so too, where they do not answer all the same."""
    env = EnvSpec(env_id).make()
    for ask in (env.expert, env.fair_expert):
        with pytest.raises(ResetNeededError):
            ask()
    for ask_too in (env.secrets, env.actions):
        with suppress(ResetNeededError):
            ask_too()


def test_there_is_something_to_test() -> None:
    """At least the shop is registered."""
    assert "AgentShop-v0" in ENVS and agentgym_py.__version__
