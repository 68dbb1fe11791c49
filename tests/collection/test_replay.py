"""Replaying stored trajectories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job, PlayConfig
from agentgym_py.collection.replay import replay, replay_all
from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.trajectory import Trajectory, store


@pytest.fixture
def trajectory() -> Trajectory:
    """The expert's episode in a task of the shop."""
    return Collector(ExpertAgent()).collect(Job(EnvSpec("shop"), 0))


def test_a_true_record_holds(trajectory: Trajectory) -> None:
    """Every step, the end and the success come out again."""
    result = replay(trajectory)
    assert result.holds and result.steps == len(trajectory.steps) > 1


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"final_observation": "something else"}, "last observation"),
        ({"success": False}, "success"),
        ({"stop_reason": StopReason.GAVE_UP}, "stop reason"),
        ({"instruction": "Buy me a boat."}, "instruction"),
        ({"rules": "No rules."}, "rules"),
        ({"stop_reason": StopReason.TRUNCATED}, "stop reason"),
        ({"reward": 0.25}, "return"),
        ({"kind": "boats"}, "kind"),
        ({"split": "test"}, "split"),
        ({"difficulty": "hard"}, "difficulty"),
        ({"optimal_steps": 99}, "optimal steps"),
    ],
)
def test_a_changed_episode_is_found(trajectory: Trajectory, change: dict[str, object], what: str) -> None:
    """The difference names what departs, what was stored and what came."""
    result = replay(replace(trajectory, **change))  # type: ignore[arg-type]  # one key of its fields
    assert not result.holds and result.difference is not None and result.difference.what == what


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"observation": "x"}, "observation"),
        ({"reward": 0.5}, "reward"),
        ({"valid": False}, "valid"),
        ({"thought": "Hm."}, "thought"),
        ({"action": "click[x]"}, "action"),
        ({"action_input": "x"}, "action input"),
        ({"reward_parts": {"r_type": 1.0}}, "reward parts"),
    ],
)
def test_a_changed_step_is_found(trajectory: Trajectory, change: dict[str, object], what: str) -> None:
    """The first step that departs is named, and how many agree before it."""
    steps = list(trajectory.steps)
    steps[1] = replace(steps[1], **change)  # type: ignore[arg-type]  # one key of its fields
    result = replay(replace(trajectory, steps=tuple(steps)))
    assert result.difference is not None
    assert (result.difference.step, result.difference.what, result.steps) == (2, what, 1)


def test_another_version_of_the_world_is_a_difference(trajectory: Trajectory) -> None:
    """Even where the observations still agree."""
    result = replay(replace(trajectory, provenance=replace(trajectory.provenance, env_version=99)))
    assert result.difference is not None and result.difference.what == "version of the world"


def test_a_task_that_is_gone_is_a_difference(trajectory: Trajectory) -> None:
    """It cannot be opened any more."""
    gone = replace(trajectory, provenance=replace(trajectory.provenance, task_id="shop/train/nothing"))
    assert replay(gone).difference is not None


def test_of_some_nothing_can_be_said(trajectory: Trajectory) -> None:
    """A world that is not installed, and an infrastructure failure, are neither held nor different."""
    elsewhere = replace(trajectory, provenance=replace(trajectory.provenance, env_id="AgentNowhere-v0"))
    results = list(replay_all([replace(trajectory, error="lost"), elsewhere, trajectory]))
    assert [each.holds for each in results] == [False, False, True]
    assert all(each.difference is None and each.skipped for each in results[:2])
    assert not replay(elsewhere).holds


@pytest.mark.parametrize("name", ["AgentRemote-v0", "remote"])
def test_no_stored_trajectory_speaks_to_a_server(trajectory: Trajectory, name: str) -> None:
    """Ours name the world itself; a stranger's could have the token sent wherever it likes."""
    kwargs = {"url": "http://127.0.0.1:9", "env": "shop", "retries": 0}
    theirs = replace(trajectory, provenance=replace(trajectory.provenance, env_id=name, env_kwargs=kwargs))
    skipped, held = replay_all([theirs, trajectory])
    assert "names a server" in str(skipped.skipped) and held.holds


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"max_steps": "x"}, "max_steps must be a whole number, not 'x'"),
        ({"catalogue": 5}, "catalogue must be text or a path or None, not 5"),
        ({"catalogue": "x" * 5000}, "File name too long"),
        ({"render_mode": 5}, "cannot be made with {'render_mode': 5}"),
        ({"disable_env_checker": True}, "cannot take 'disable_env_checker': gymnasium.make reserves"),
        ({"id": "x"}, "cannot take 'id': gymnasium.make reserves"),
        ({"max_episode_steps": 1}, "cannot take 'max_episode_steps': gymnasium.make reserves"),
    ],
)
def test_a_world_that_cannot_be_made_is_skipped(trajectory: Trajectory, kwargs: dict[str, Any], said: str) -> None:
    """Arguments that somebody edited are a reason, not a traceback, and the episodes after it are replayed."""
    edited = replace(trajectory, provenance=replace(trajectory.provenance, env_kwargs=kwargs))
    skipped, held = replay_all([edited, trajectory])
    assert said in str(skipped.skipped) and held.holds


def test_a_seed_that_cannot_be_is_a_difference(trajectory: Trajectory) -> None:
    """Gymnasium refuses seeds below 0."""
    edited = replace(trajectory, provenance=replace(trajectory.provenance, env_seed=-1))
    result = replay(edited)
    assert result.difference is not None and "-1" in result.difference.replayed


def test_a_prompt_template_stands_for_the_rules() -> None:
    """The episode records it, so that its replay holds; without one the record is as before."""
    play = PlayConfig(prompt_template="Shop well {x}.\n{rules}")
    trajectory = Collector(ExpertAgent(), play).collect(Job(EnvSpec("shop"), 0))
    plain = Collector(ExpertAgent()).collect(Job(EnvSpec("shop"), 0))
    assert trajectory.rules == f"Shop well {{x}}.\n{plain.rules}" and replay(trajectory).holds
    assert store.from_line(store.to_line(trajectory)) == trajectory
    changed = replace(trajectory, provenance=replace(trajectory.provenance, prompt_template="{rules}"))
    assert not replay(changed).holds and b"prompt_template" not in store.to_line(plain)
