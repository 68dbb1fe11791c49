"""Where a world raised."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.tracebacks import env_frames, env_line
from agentgym_py.errors import ResetNeededError


class Broken:
    """A method for worlds; what it calls raises elsewhere."""

    def begin(self, task: Any) -> str:
        """By way of another module."""
        return str(json.loads("{"))


def raised(env: TextEnv) -> Exception:
    """What its reset raises."""
    try:
        env.reset(seed=0)
    except Exception as error:
        return error
    raise AssertionError("it does not raise")


def test_the_line_is_the_world_s_own() -> None:
    """From its method on, and of these the last of its own file, whatever raised below."""
    maze: Any = type(EnvSpec("AgentMaze-v0").make())
    error = raised(type("BrokenMaze", (Broken, maze), {})())
    assert [each.name for each in env_frames(error)][:2] == ["begin", "loads"]
    assert env_line(error) == f"{__file__}, line {Broken.begin.__code__.co_firstlineno + 2}, in begin"


def test_what_no_world_raised_has_no_line() -> None:
    """Neither our own modules nor anybody else's count."""
    with pytest.raises(ResetNeededError) as found:
        EnvSpec("AgentMaze-v0").make().snapshot()
    assert env_line(found.value) == "" and env_frames(found.value) == []
