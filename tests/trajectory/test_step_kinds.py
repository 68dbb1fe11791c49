"""Kinds of steps by the world's declaration, and functions of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_py.env import StopReason
from agentgym_py.errors import ConfigError, UnknownNameError
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.step_kinds import by_action, load_step_kind


def test_a_kind_follows_from_the_action(episode: Callable[..., Trajectory]) -> None:
    """The end of the episode, then what only reads, then a thought; another world has other readers."""
    trajectory = episode("search[cup]", "click[b1]", "click[red]", "click[buy now]")
    steps = list(trajectory.steps)
    steps[2] = replace(steps[2], thought=" ")
    trajectory = replace(trajectory, steps=tuple(steps))
    kinds = [by_action(trajectory, number) for number in range(4)]
    assert kinds == ["retrieval", "planning", "tool_selection", "timing"]
    cut_off = replace(trajectory, stop_reason=StopReason.TRUNCATED)
    assert by_action(cut_off, 3) == "planning"
    for env_id in ("AgentMaze-v0", "NoSuchWorld-v7"):
        other = replace(trajectory, provenance=replace(trajectory.provenance, env_id=env_id))
        assert by_action(other, 0) == "planning"


def test_a_function_of_ones_own(
    episode: Callable[..., Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file; what it raises or returns wrongly is named."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "kinds_for_tests.py"
    file.write_text("def good(trajectory, number): return 'a'\ndef bad(trajectory, number): return number\n")
    trajectory = episode("search[cup]")
    assert load_step_kind(f"{file}:good")(trajectory, 0) == "a"
    with pytest.raises(ConfigError, match="must return a text, and returned 0"):
        load_step_kind(f"{file}:bad")(trajectory, 0)
    with pytest.raises(UnknownNameError, match="defines 2 kind functions: name one as"):
        load_step_kind(str(file))
