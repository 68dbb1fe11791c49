"""`TextEnv` itself: what a class must define, and how often a reply is parsed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from agentgym_envs.maze.env import MazeEnv
from agentgym_envs.todo.env import TodoEnv
from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job
from agentgym_py.collection.replay import replay
from agentgym_py.env import EnvSpec, GeneratedEnv, Outcome, Reply, StopReason, Task, TextEnv
from agentgym_py.errors import ConfigError

NO_LIMIT = (
    "sets no max_steps: define __init__ and call "
    "super().__init__(max_steps=..., split=split, render_mode=render_mode) in it"
)


class NumberGame(TextEnv):
    """A world whose author forgot half of it."""

    name = "number"

    def task(self, name: str | int, split: str | None = None) -> Task:
        """Any task."""
        return Task(f"number/train/{name}", "train", "number", "easy", "Say 3.")

    def begin(self, task: Task) -> str:
        """The instruction."""
        return task.instruction

    def act(self, reply: Reply) -> Outcome:
        """Right or wrong."""
        right = reply.action == "3"
        return Outcome("", float(right), terminated=right, success=right)


class Whole(NumberGame):
    """With the methods that it lacks, but no `__init__`."""

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Nothing."""

    def expert(self) -> list[str]:
        """The number."""
        return [] if self.stop_reason else ["3"]


class Nameless(GeneratedEnv[int]):
    """Nothing at all."""


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (NumberGame, f"NumberGame lacks state, load_state, expert: define them (see TextEnv); it {NO_LIMIT}"),
        (Nameless, "Nameless lacks name, begin, act, state, load_state, expert, draft: define them (see TextEnv)"),
        (Whole, f"Whole {NO_LIMIT}"),
    ],
)
def test_a_class_that_lacks_something_is_refused_in_one_line(world: Any, message: str) -> None:
    """The message names every missing method, not only the first one called."""
    with pytest.raises(ConfigError) as caught:
        world()
    assert str(caught.value) == message
    assert Whole(max_steps=3).max_steps == 3, "the argument alone is enough"


def test_the_stop_reason_follows_the_episode() -> None:
    """None while it runs, then terminated or truncated; `restore` brings it back."""
    env = Whole(max_steps=2)
    for actions, reason in ((["3"], StopReason.TERMINATED), (["1", "2"], StopReason.TRUNCATED), (["1"], None)):
        env.reset(options={"task": 0})
        assert env.stop_reason is None
        for action in actions:
            env.step(action)
        assert env.stop_reason is reason
        other = Whole(max_steps=2)
        other.restore(env.snapshot())
        assert other.stop_reason is reason


def test_the_last_reply_is_kept() -> None:
    """As `read` returns it; None before a step, after a reset or restore, and for a step after the end."""
    env = Whole(max_steps=2)
    env.reset(options={"task": 0})
    start = env.snapshot()
    for forget in (lambda: env.restore(start), lambda: env.reset(options={"task": 0})):
        assert env.last_reply is None
        env.step("Thought: low\nAction: 1")
        assert env.last_reply == Reply("1", "low", form="react")
        forget()
    env.step("3")
    assert env.last_reply == Reply("3")
    env.step("3")
    assert env.last_reply is None


@pytest.mark.parametrize("world", [MazeEnv, TodoEnv])
def test_a_reply_is_parsed_once(world: type[TextEnv], monkeypatch: pytest.MonkeyPatch) -> None:
    """Agent, world, collector and replay share one parse of a text, also if the world overrides `read`."""
    parsed, read = Counter[str](), world.read

    def count(self: TextEnv, text: str) -> Reply:
        parsed[text] += 1
        return read(self, text)

    monkeypatch.setattr(world, "read", count)
    trajectory = Collector(ExpertAgent()).collect(Job(EnvSpec(world.name), 0))
    replies = Counter(step.reply for step in trajectory.steps)
    assert trajectory.success and {text: parsed[text] for text in replies} == replies
    parsed.clear()
    assert replay(trajectory).holds and parsed == replies


def test_a_parse_is_cached_until_the_next_step() -> None:
    """A world may parse the same text differently after a step."""

    class Alternates(Whole):
        """Reads the number of steps into the action."""

        def read(self, text: str) -> Reply:
            return Reply(f"{text}{self.steps}")

    env = Alternates(max_steps=9)
    env.reset(options={"task": 0})
    for number in range(3):
        assert env.parse("x") is env.parse("x")
        env.step("x")
        assert env.last_reply == Reply(f"x{number}")
