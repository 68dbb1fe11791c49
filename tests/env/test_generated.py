"""Worlds whose tasks are made from a seed."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np
import pytest

from agentgym_py.env import EnvSpec, GeneratedEnv, Outcome, Reply, Task
from agentgym_py.env.generated import Draft
from agentgym_py.errors import ConfigError, SnapshotError, UnknownNameError
from agentgym_py.rng import Rng


class Count(GeneratedEnv[int]):
    """Say a number."""

    name = "count"
    limits: ClassVar[dict[str, int]] = {"easy": 2, "medium": 4}
    drawn: ClassVar[list[str]] = []

    def draft(self, rng: Rng, split: str) -> Draft[int]:
        """A number."""
        self.drawn.append(split)
        number = rng.below(1 << 30)
        return Draft(f"Say {number}.", number, "count", 1)

    def begin(self, task: Task) -> str:
        """The instruction."""
        return task.instruction

    def act(self, reply: Reply) -> Outcome:
        """Right or wrong."""
        right = reply.action == str(self.puzzle)
        return Outcome("", float(right), terminated=right, success=right)

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Nothing."""

    def expert(self) -> list[str]:
        """The number."""
        return [str(self.puzzle)]


def test_an_id_always_names_the_same_task() -> None:
    """By number or by id, in this instance or another; split, difficulty and number all count."""
    env, other = Count(difficulty="easy"), Count(difficulty="easy", split="test")
    task = env.task(7, "test")
    assert task.id == "count/test/easy/7" and task == env.task(task.id) == other.task(7)
    names = {env.task(7, "train").instruction, task.instruction, env.task(8, "test").instruction}
    assert len(names | {Count().task(7, "test").instruction}) == 4
    assert task.instruction == "Say 252247053."


def test_the_step_limit_depends_on_the_difficulty() -> None:
    """Unless `max_steps` is set."""
    assert (Count(difficulty="easy").max_steps, Count().max_steps, Count(max_steps=9).max_steps) == (2, 4, 9)


def test_the_puzzle_is_that_of_the_current_task() -> None:
    """Also after a restore into another instance, and it is drawn once."""
    env, other = Count(), Count()
    env.reset(options={"task": 3})
    Count.drawn.clear()
    assert env.step(str(env.puzzle))[4]["success"] and not Count.drawn
    env.reset(options={"task": 4})
    other.restore(env.snapshot())
    assert other.puzzle == env.puzzle == other.puzzle_of(env.task(4))


@pytest.mark.parametrize(
    "name",
    ["count/test/easy/07", "count/test/easy/-1", "count/tst/easy/1", "count/test/hard/1", "count/test/easy/1/2", "x",
     "count/test/easy/٣", f"count/test/easy/{10**18}", -1, True, 1.5, None, "count/test/easy/" + "9" * 5000],
)  # fmt: skip
def test_a_name_without_a_task_is_refused(name: Any) -> None:
    """With an example of an id."""
    with pytest.raises(UnknownNameError, match=r"count/test/easy/17|named by its id"):
        Count(difficulty="easy").task(name)


def test_an_unknown_difficulty_is_refused() -> None:
    """With the list of difficulties."""
    with pytest.raises(ConfigError, match="easy"):
        Count(difficulty="esay")


def test_the_cache_of_tasks_is_bounded() -> None:
    """Memory stays flat, and the current task stays right."""
    env = Count()
    env.reset(options={"task": 0})
    first = env.puzzle
    for number in range(1000):
        env.task(number)
    assert len(env._drafts) <= 256 and env.puzzle == first


@pytest.mark.parametrize(
    ("task", "wrong"),
    [
        ("count/test/easy/7/8", "neither a number nor an id of four parts"),
        ("count", "neither a number nor an id of four parts"),
        ("cuont/test/easy/7", "its world is 'cuont', here it is 'count'"),
        ("count/tset/easy/7", "split must be one of train, valid, test, not 'tset'"),
        ("count/test/esy/7", "difficulty must be one of easy, medium, not 'esy'"),
        ("count/test/medium/7", "its difficulty is 'medium', here it is 'easy'"),
        ("count/test/easy/x", "'x' is not a number such as 0 or 17"),
        ("count/test/easy/07", "'07' is not a number such as 0 or 17"),
    ],
)
def test_a_wrong_id_says_which_part_is_wrong(task: str, wrong: str) -> None:
    """World, split, difficulty or number; and what an id looks like."""
    with pytest.raises(UnknownNameError) as error:
        Count(difficulty="easy").task(task)
    assert wrong in str(error.value) and "ids here look like 'count/test/easy/17'" in str(error.value)


@pytest.mark.parametrize("world", ["maze", "shop"])
def test_a_wrong_difficulty_has_one_wording(world: str) -> None:
    """To the constructor and in an id, of a world that generates its tasks and of one that also lists them."""
    expected = "difficulty must be one of easy, medium, hard, not 'hrd'"
    with pytest.raises(ConfigError, match=expected):
        EnvSpec(world, {"difficulty": "hrd"}).make()
    with pytest.raises(UnknownNameError, match=expected):
        EnvSpec(world).make().task(f"{world}/test/hrd/1")


def test_a_snapshot_that_does_not_fit_says_what_differs() -> None:
    """Format, world, version, difficulty, or the keys that it lacks; the episode stays as it is."""
    env, other = Count(difficulty="easy"), Count()
    env.reset(seed=1)
    other.reset(seed=1)
    before, whole = env.snapshot(), json.loads(env.snapshot())
    for wrong, message in (
        (b"{}", "they lack format, env, version, task, "),
        (b"[]", "not a snapshot: [] is not a JSON object"),
        (b"so", "no JSON"),
        (other.snapshot(), "its difficulty is 'medium', here it is 'easy'"),
        (json.dumps(whole | {"env": "maze"}).encode(), "its env is 'maze', not 'count'"),
        (json.dumps(whole | {"version": 7}).encode(), "Its version is 7, not 0"),
    ):
        with pytest.raises(SnapshotError) as error:
            env.restore(wrong)
        assert message in str(error.value) and env.snapshot() == before


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 10**9}, "of 1000000000 steps that is not ended; max_steps is 2"),
        ({"steps": 2}, "of 2 steps that is not ended; max_steps is 2"),
        ({"ended": "truncated"}, "of 0 steps that is truncated; max_steps is 2"),
        ({"ended": "terminated"}, "terminated before the first step"),
        ({"success": True}, "success whose episode has not ended"),
    ],
)
def test_an_impossible_snapshot_is_refused(wrong: dict[str, Any], message: str) -> None:
    """Steps beyond the limit, an end before the first step, success before the end; the episode stays as it is."""
    env = Count(difficulty="easy")
    env.reset(seed=1)
    before = env.snapshot()
    with pytest.raises(SnapshotError, match=message):
        env.restore(json.dumps(json.loads(before) | wrong).encode())
    assert env.snapshot() == before
    for action in ("no", "no", "no"):
        env.step(action)
        env.restore(env.snapshot())
    assert env.stop_reason == "truncated"


def test_wrong_arguments_of_reset_are_refused() -> None:
    """A seed that is not an integer, options that are not a mapping; the episode stays as it is."""
    env = Count()
    env.reset(seed=1)
    before = env.snapshot()
    wrong: tuple[dict[str, Any], ...] = (
        {"seed": -1}, {"seed": 1.5}, {"seed": True}, {"seed": "1"}, {"options": 3}, {"options": [("task", 1)]},
        {"options": []},
    )  # fmt: skip
    for each in wrong:
        with pytest.raises(ConfigError, match=r"seed must be an integer|options must be a dict"):
            env.reset(**each)
        assert env.snapshot() == before
    three: Any = np.int64(3)
    assert env.reset(seed=three) == Count().reset(seed=3)
