"""What the tests of several trainers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scripts import load_script

from agentgym_py.policy import Policy
from agentgym_py.policy.tokens import encode
from agentgym_py.trajectory import Trajectory


@pytest.fixture(scope="session")
def choices(episode: Callable[..., Trajectory]) -> Callable[..., list[float]]:
    """A function: a policy's log-probabilities of whole episodes that begin alike and end with one of the actions."""
    from agentgym_py.policy.logprobs import sample_logprobs

    def say(policy: Policy, before: list[str], *actions: str) -> list[float]:
        return sample_logprobs(policy.model, [encode(episode(*before, each), policy.chat) for each in actions], 2)

    return say


@pytest.fixture(scope="session")
def played(episode: Callable[..., Trajectory]) -> list[Trajectory]:
    """Of each of three tasks a good and a bad trajectory, of different lengths; only read them."""
    good = [episode(*("search cup", "open it", "buy it")[: n + 1], task=f"task {n}") for n in range(3)]
    bad = [
        episode(*("search hat", "go back", "leave")[: 3 - n], task=f"task {n}", reward=0.0, success=False)
        for n in range(3)
    ]
    return [*good, *bad]


@pytest.fixture(scope="session")
def trl_reference() -> Any:
    """The module `trl_reference.py` beside this file: trl's own trainers, to compare losses and gradients with."""
    pytest.importorskip("trl")
    return load_script("tests/trainers/trl_reference.py")
