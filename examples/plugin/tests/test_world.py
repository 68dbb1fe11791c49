from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_py.env import EnvSpec
from agentgym_py.testing import CHECKS, check_world

DIFFICULTIES = ("easy", "medium", "hard")


@pytest.mark.parametrize("check", CHECKS)
def test_it_keeps_the_contract(check: str) -> None:
    """The whole conformance kit."""
    check_world("OddCoin-v0", check, episodes=25, memory_episodes=400)


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_fair_expert_finds_it_by_weighing(difficulty: str) -> None:
    """Every time, with no more weighings than halving would take."""
    env = EnvSpec("oddcoin", {"difficulty": difficulty}).make()
    for number in range(100):
        env.reset(options={"task": number, "split": "test"})
        while (action := env.fair_expert()) is not None:
            env.step(action)
        assert env.succeeded and env.steps <= 8


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("weigh[1 2 | 3]", "as many on the one"),
        ("weigh[1 | 1]", "once"),
        ("weigh[1 | 9999]", "numbered from 1"),
        ("name[1 2]", "Name one number"),
        ("name[0]", "Name one number"),
        ("look", "weigh[1 2 | 3 4] compares"),
    ],
)
def test_a_wrong_action_says_what_would_be_right(action: str, said: str) -> None:
    """And costs a step, no more."""
    env = EnvSpec("oddcoin").make()
    env.reset(seed=0)
    observation, reward, terminated, _, info = env.step(action)
    assert said in observation and (reward, terminated, info["valid_action"]) == (0.0, False, False)


@given(st.lists(st.lists(st.integers(-5, 200), max_size=6), max_size=4), st.sampled_from(["weigh", "name"]))
def test_any_numbers_are_weighed_or_refused(pans: list[list[int]], verb: str) -> None:
    """What is weighed is on the balance as it was said; what is refused leaves no trace."""
    env = EnvSpec("oddcoin").make()
    env.reset(options={"task": 0})
    before = env.state()
    info = env.step(f"{verb}[{' | '.join(' '.join(map(str, pan)) for pan in pans)}]")[-1]
    if not info["valid_action"]:
        assert env.state() == before
    elif verb == "weigh":
        assert env.state()["weighings"] == [pans]
    else:
        assert env.state()["named"] == pans[0][0]
