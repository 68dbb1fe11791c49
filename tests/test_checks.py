"""What a world, an agent or a trainer is given is held against its annotations."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import gymnasium
import numpy as np
import pytest

from agentgym_py import registry
from agentgym_py.agents import ExpertAgent
from agentgym_py.checks import (
    has_type,
    is_finite,
    parameters_of,
    require_arguments,
    require_at_least,
    require_positive,
)
from agentgym_py.env import EnvSpec, Outcome, Reply, Task, TextEnv
from agentgym_py.errors import ConfigError, SnapshotError

WORLDS = registry.names("agentgym.envs")
TRAINERS = registry.names("agentgym.trainers")


@pytest.mark.parametrize(
    ("hint", "good", "wrong"),
    [
        (int, [3, np.int64(3)], [True, 2.0, "3", None]),
        (float, [1, 0.5, np.float32(1)], [True, "1", None]),
        (bool, [True], [1, "true", None]),
        (str | Path | None, ["x", Path("x"), None], [3]),
        (Literal["a", "b"] | None, ["a", None], ["c", 1, ["a"]]),
        (Collection[str], [["x"], {"x"}], [3]),
        (Any, [3, None], []),
    ],
    ids=str,
)
def test_a_value_fits_its_type(hint: Any, good: list[Any], wrong: list[Any]) -> None:
    """Numbers of numpy are numbers, true is no number, and a whole number is one with a fraction, too."""
    assert all(has_type(value, hint) for value in good) and not any(has_type(value, hint) for value in wrong)


@pytest.mark.parametrize("value", ["5", 2.5, True])
@pytest.mark.parametrize("world", WORLDS)
def test_a_world_refuses_steps_that_are_no_whole_number(world: str, value: Any) -> None:
    """Each installed one, in one line."""
    with pytest.raises(ConfigError, match=r"max_steps must be a whole number( or None)?, not " + repr(value)):
        gymnasium.make(world, max_steps=value, disable_env_checker=True)


def test_what_may_be_none_is_said() -> None:
    """The shop's steps may not, its catalogue may."""
    for given in ({"max_steps": None}, {"catalogue": 3}, {"strict_compat": "nope"}):
        with pytest.raises(
            ConfigError, match=f"{next(iter(given))} must be (a whole number|text or a path or None|true or false), not"
        ):
            gymnasium.make("AgentShop-v0", disable_env_checker=True, **given)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_trainer_refuses_what_its_fields_are_not(trainer: str) -> None:
    """Every field of each installed one that is a number or a yes-or-no."""
    kind, looked = registry.load("agentgym.trainers", trainer), 0
    for each in fields(kind):
        if parameters_of(kind)[each.name].annotation in (int, float, bool):
            with pytest.raises(ConfigError, match=f"{each.name} must be"):
                kind(**{each.name: "x"})
            looked += 1
    assert looked


def test_an_agent_is_asked_what_it_takes() -> None:
    """A misspelt name, with what was meant."""
    require_arguments(ExpertAgent, {"fair": True})
    with pytest.raises(ConfigError, match="Did you mean 'fair'"):
        require_arguments(ExpertAgent, {"fare": True})


def test_what_cannot_be_read_is_not_checked() -> None:
    """A name that only type checkers import, and arguments that are passed on."""

    class Odd:
        def __init__(self, depth: OnlyForTypeCheckers = 1, **more: Any) -> None:  # type: ignore[name-defined]  # noqa: F821
            """Takes anything."""

    class Plain:
        def __init__(self, depth: int = 1) -> None:
            """Takes a number."""

    require_arguments(Odd, {"depth": "deep", "other": 3})
    with pytest.raises(ConfigError, match="depth must be"):
        require_arguments(Plain, {"depth": "deep"})


ONE: dict[str, Any] = {"max_steps": 9}
OTHERS: tuple[dict[str, Any], ...] = (
    {},
    {"max_steps": 10},
    ONE | {"observation_mode": "text"},
    ONE | {"strict_compat": True},
)


def begun(world: str = "shop", **given: Any) -> TextEnv:
    """A world in which an episode has begun."""
    env = EnvSpec(world, given).make()
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_a_snapshot_goes_to_a_world_of_the_same_arguments(other: dict[str, Any]) -> None:
    """Any other is refused, and has not changed; which way round makes no difference."""
    begun(**ONE).restore(begun(**ONE).snapshot())
    for here, there in ((begun(**ONE), begun(**other)), (begun(**other), begun(**ONE))):
        before = there.snapshot()
        with pytest.raises(SnapshotError, match="its world was made with"):
            there.restore(here.snapshot())
        assert there.snapshot() == before


def test_what_makes_no_difference_is_not_compared() -> None:
    """Defaults that are written out, where tasks are drawn from, and what is rendered: the bytes are the same, too."""
    plain = begun()
    for same in ({"max_steps": 15, "difficulty": "medium"}, {"split": "train", "render_mode": "ansi"}):
        other = begun(**same)
        assert other.snapshot() == plain.snapshot()
        other.restore(plain.snapshot())
    maze, limit = begun("AgentMaze-v0"), begun("AgentMaze-v0").max_steps
    begun("AgentMaze-v0", max_steps=limit).restore(maze.snapshot())
    easy = begun("AgentMaze-v0", difficulty="easy")
    begun("AgentMaze-v0", difficulty="easy", max_steps=easy.max_steps).restore(easy.snapshot())
    with pytest.raises(SnapshotError, match="its world was made with no arguments"):
        begun("AgentMaze-v0", difficulty="easy", max_steps=limit).restore(easy.snapshot())


class Count(TextEnv):
    """Say `x` as often as the difficulty has it; the ids of tasks do not say the difficulty."""

    name = "count"

    def __init__(self, *, difficulty: str = "medium") -> None:
        super().__init__(max_steps=9)
        self.left = self.wanted = {"easy": 1, "medium": 3}[difficulty]

    def task(self, name: str | int, split: str | None = None) -> Task:
        """One a split."""
        return Task(f"count/{split or self.split}", split or self.split, "count", "any", "Say x.")

    def begin(self, task: Task) -> str:
        """Again."""
        self.left = self.wanted
        return task.instruction

    def act(self, reply: Reply) -> Outcome:
        """Once."""
        self.left -= 1
        return Outcome("", terminated=not self.left)

    def state(self) -> dict[str, Any]:
        """How often it was said."""
        return {"said": self.wanted - self.left}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Take it up."""
        self.left = self.wanted - int(state["said"])

    def expert(self) -> list[str]:
        """All that is left."""
        return ["x"] * self.left


def test_a_difficulty_that_no_id_says_is_compared() -> None:
    """The same state would be another moment; where ids say the difficulty, a snapshot does not."""
    here, there = Count(), Count(difficulty="easy")
    for env in (here, there):
        env.reset(seed=0)
    here.step("x")
    for one, other in ((here, there), (there, here)):
        with pytest.raises(SnapshotError, match="its world was made with"):
            other.restore(one.snapshot())
    Count(difficulty="easy").restore(there.snapshot())
    assert b"arguments" in there.snapshot() and b"arguments" not in begun("shop", difficulty="easy").snapshot()


@pytest.mark.parametrize("value", [10**400, -(10**400), math.nan, math.inf, True, "1", None])
def test_an_integer_beyond_all_floats_is_no_number(value: Any) -> None:
    """A setting of it is an error, as a text is."""
    assert not is_finite(value)
    settings = SimpleNamespace(rate=value)
    with pytest.raises(ConfigError, match="rate must be a number"):
        require_at_least(settings, {"rate": -math.inf})
    with pytest.raises(ConfigError, match="rate must be a number above 0"):
        require_positive(settings, "rate")
    assert is_finite(2**70) and is_finite(np.float32(0.5)) and is_finite(np.int64(-3))
