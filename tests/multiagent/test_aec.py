"""The worlds in PettingZoo's form, where `pettingzoo` is installed (extra `pettingzoo`)."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from typing import Any

import pytest

from agentgym_py.errors import ActionError, ConfigError, ResetNeededError, SnapshotError

pytest.importorskip("pettingzoo")
from pettingzoo.test import api_test, seed_test

from agentgym_py.multiagent.aec import TextAECEnv

GAMES = ("twentyquestions", "errand", "householdteam")


def finish(env: Any) -> tuple[list[tuple[Any, ...]], Counter[str]]:
    """Let the fair experts play to the end; return all that was seen, and the returns."""
    turns, returns = [], Counter[str]()
    for role in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        returns[role] += reward
        turns.append((role, observation, reward, terminated, truncated, info))
        env.step(None if terminated or truncated else env.expert(fair=True))
    return turns, returns


@pytest.mark.parametrize("name", GAMES)
def test_pettingzoos_own_tests_pass(name: str) -> None:
    """Its API test and its seed test; it warns of texts, which are no arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api_test(TextAECEnv(name), num_cycles=100)
        seed_test(lambda: TextAECEnv(name), num_cycles=20)


@pytest.mark.parametrize("name", GAMES)
def test_the_experts_play_a_whole_episode(name: str) -> None:
    """All roles terminate with success, and each has its own return."""
    env = TextAECEnv(name, difficulty="hard")
    env.reset(seed=1)
    turns, returns = finish(env)
    assert all(turn[3] and turn[5]["success"] for turn in turns[-2:]) and not env.agents
    notes = Counter(turn[0] for turn in turns[:-2])
    expected = dict.fromkeys(env.possible_agents, 1.0)
    if name == "errand":
        expected = {"client": 1 - 0.02 * notes["client"], "shopper": 1 - 0.02 * (notes["shopper"] - 1)}
    assert returns == pytest.approx(expected)


def test_a_refused_reply_leaves_the_turn() -> None:
    """Its role sees why; when a role has used up its moves, all are truncated."""
    env = TextAECEnv("errand", max_steps=2, render_mode="ansi")
    env.reset(seed=0)
    env.step("buy[everything]")
    assert (
        env.agent_selection == "client" and env.observe("client") == "Not an action: write say[note]." == env.render()
    )
    assert env.infos["client"]["valid_action"] is False
    env.step("nonsense")
    assert all(env.truncations.values()) and not any(env.terminations.values())


@pytest.mark.parametrize("name", GAMES)
def test_a_fork_has_the_same_future(name: str) -> None:
    """Also from the end."""
    env, fork = TextAECEnv(name), TextAECEnv(name)
    env.reset(options={"task": 4, "split": "test"})
    for reply in ("", env.expert(fair=True)):
        env.step(reply)
    here = env.snapshot()
    fork.restore(here)
    assert fork.snapshot() == here and finish(fork) == finish(env)
    end = env.snapshot()
    fork.restore(end)
    assert fork.snapshot() == end and not fork.agents


def test_misuse_is_refused() -> None:
    """In errors of this package."""
    with pytest.raises(ConfigError, match="shop has one role"):
        TextAECEnv("shop")
    env = TextAECEnv("errand")
    with pytest.raises(ResetNeededError):
        env.snapshot()
    env.reset(seed=0)
    with pytest.raises(ActionError):
        env.step(3)  # type: ignore[arg-type]
    with pytest.raises(SnapshotError):
        env.restore(b"{}")
    with pytest.raises(SnapshotError):
        env.restore(json.dumps({"world": "x", "replies": []}).encode())
