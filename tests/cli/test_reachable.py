"""A selection that nothing can pass is refused before anything is played."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym_py import registry
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError
from agentgym_py.evolution import EvolveConfig
from agentgym_py.evolution.config import require_reachable
from agentgym_py.testing import check_world
from agentgym_py.trajectory.selectors import SelectConfig
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.grpo import GRPO

Run = Callable[..., tuple[int, str, str]]
WORLDS = [EnvSpec(name) for name in registry.names("agentgym.envs")]


def config(threshold: float, rounds: int = 1) -> EvolveConfig:
    """A run with this threshold."""
    return EvolveConfig(rounds=rounds, select=SelectConfig(threshold=threshold))


@pytest.mark.parametrize("world", WORLDS, ids=lambda spec: spec.name)
def test_every_built_in_world_says_its_largest_return(world: EnvSpec) -> None:
    """A threshold of 1 can be reached, one above cannot."""
    require_reachable(config(1.0), FilteredBC(), [world])
    with pytest.raises(ConfigError, match=r"threshold 1\.01 keeps no trajectory: the largest return is 1 in"):
        require_reachable(config(1.01), FilteredBC(), [world])
    require_reachable(config(1.01), GRPO(), [world])  # plays itself, and selects nothing
    require_reachable(config(1.01, rounds=0), FilteredBC(), [world])


def test_a_world_that_does_not_say_may_return_anything(guess_world: str) -> None:
    """But infinity; of mixed worlds one that may do it is enough."""
    silent = EnvSpec(guess_world)
    require_reachable(config(1e9), FilteredBC(), [silent])
    require_reachable(config(1e9), FilteredBC(), [WORLDS[0], silent])
    for worlds in ([silent], [silent, *WORLDS]):
        with pytest.raises(ConfigError, match="threshold inf keeps no trajectory"):
            require_reachable(config(float("inf")), FilteredBC(), worlds)


@pytest.mark.parametrize("form", ["alone", "pipeline"])
def test_it_is_refused_before_round_0(agentgym: Run, form: str) -> None:
    """In one line; nothing is loaded, played or written."""
    words: tuple[str, ...] = ("evolve", "--env", "shop", "--select.threshold", "2", "--out", "run")
    if form == "pipeline":
        Path("p.yaml").write_text("out: run\nstages: [{stage: rl, env: shop, select: {threshold: 2}}]\n")
        words = ("pipeline", "p.yaml")
    status, out, err = agentgym(*words)
    assert status == 2 and not out and "--select.threshold 2 keeps no trajectory" in err and err.count("\n") == 1
    assert not Path("run").exists()


def test_the_kit_holds_what_a_world_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expert that gains more is a failure."""
    from agentgym_envs.maze.env import MazeEnv

    monkeypatch.setattr(MazeEnv, "max_return", 0.5)
    with pytest.raises(AssertionError, match=r"the return is 1, and max_return says 0\.5"):
        check_world("AgentMaze-v0", "expert", episodes=2)
