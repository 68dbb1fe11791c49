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


def test_the_line_is_in_the_world_s_source() -> None:
    """From its method on, and of these the last of its own file, whatever raised below."""
    maze: Any = type(EnvSpec("AgentMaze-v0").make())
    error = raised(type("BrokenMaze", (Broken, maze), {})())
    assert [each.name for each in env_frames(error)][:2] == ["begin", "loads"]
    assert env_line(error) == f"{__file__}, line {Broken.begin.__code__.co_firstlineno + 2}, in begin"


def test_an_error_outside_worlds_has_no_line() -> None:
    """Neither our modules nor third-party ones count."""
    with pytest.raises(ResetNeededError) as error:
        EnvSpec("AgentMaze-v0").make().snapshot()
    assert env_line(error.value) == "" and env_frames(error.value) == []
