"""agentgym_skyrl against the real SkyRL-Gym."""

from __future__ import annotations

import json

import pytest
from agentgym_skyrl import NAME, rows
from checks import FAILURE, fail, note_starts
from scripted import SHOP, WORLDS, World, plays_as_directly, scripts
from skyrl_gym.metrics import aggregate_for_environment
from through import follow, make, play, rows_of

from agentgym_py.errors import ConfigError, InfrastructureError, ResetNeededError, UnknownNameError


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_skyrl_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks, in text."""
    plays_as_directly(world, play)


def test_a_group_starts_in_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that of a direct episode, to the byte, also from a row that was stored."""
    (script,), starts = scripts(SHOP, 1), note_starts(monkeypatch)
    (row,) = rows_of(SHOP, [script])
    for _ in range(3):
        assert follow(json.loads(json.dumps(row)), script) == script.episode
    assert starts == {script.episode.task: [script.start] * 3}


def test_an_infrastructure_failure_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error at the start and in a step, no metrics, and another start is whole."""
    first, second = scripts(SHOP, 2)
    one, other = rows_of(SHOP, [first, second])
    with monkeypatch.context() as patch:
        fail(patch, start=first.episode.task, step=second.episode.task)
        with pytest.raises(InfrastructureError, match=FAILURE):
            make(one).init(one["prompt"])
        env = make(other)
        env.init(other["prompt"])
        env.step(second.actions[0])
        with pytest.raises(InfrastructureError, match=FAILURE):
            env.step(second.actions[1])
        assert env.get_metrics() == {}
        with pytest.raises(ResetNeededError, match="init"):
            env.step(second.actions[1])
    env.init(other["prompt"])
    assert env.step(second.actions[0])["metadata"]["observation"] == second.episode.observations[1]
    env.close()


def test_a_prompt_of_another_task_is_an_error() -> None:
    """The model would read one task and play another; the world is closed."""
    one, other = rows_of(SHOP, scripts(SHOP, 2))
    env = make(one)
    with pytest.raises(ConfigError, match=f"{one['task']} has another prompt"):
        env.init(other["prompt"])
    with pytest.raises(ResetNeededError, match="init"):
        env.step("search[cup]")


def test_metrics_are_averaged_by_skyrl() -> None:
    """Success and steps, by the registered name; a wrong argument of rows is an error."""
    played = scripts(SHOP, 5)
    metrics = [{"success": float(s.episode.success), "steps": len(s.actions)} for s in played]
    rows_of(SHOP, played)
    found = aggregate_for_environment(NAME, metrics)
    assert found["success"] == sum(s.episode.success for s in played) / 5
    with pytest.raises(UnknownNameError, match="train"):
        rows("shop", range(1), split="trian")
    with pytest.raises(UnknownNameError, match="shop"):
        rows("shopp", range(1))
