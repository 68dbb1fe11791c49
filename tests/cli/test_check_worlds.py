"""`agentgym check NAME` finds nothing in any built-in world."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentgym_py import registry
from agentgym_py.env.registration import short_name

Run = Callable[..., tuple[int, str, str]]
WORLDS = [short_name(name) for name in registry.names("agentgym.envs")]
QUICK = "tasks,card,actions,random_baseline,leaks,globals"
"""Checks that are quick at their defaults. `tests/test_conformance.py` has the others, with fewer episodes."""


@pytest.mark.parametrize("world", WORLDS)
def test_a_built_in_world_passes_at_the_defaults(agentgym: Run, world: str) -> None:
    """As the README has it."""
    status, out, err = agentgym("check", world, "--only", QUICK)
    assert status == 0 and not err, out


@pytest.mark.parametrize("world", WORLDS)
def test_a_built_in_world_passes_in_a_small_form(agentgym: Run, world: str) -> None:
    """What takes long, with few episodes."""
    few = ("--episodes", "3", "--memory_episodes", "40", "--only", "forks,wanderer,memory")
    status, out, err = agentgym("check", world, *few)
    assert status == 0 and not err, out
