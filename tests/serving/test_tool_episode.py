"""`ToolEpisode`: calls and replies, an environment that is used again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from agentgym_py.collection.replay import replay
from agentgym_py.env import EnvSpec, Prompt, StopReason
from agentgym_py.errors import AgentGymError, UnknownNameError
from agentgym_py.serving.tool_episode import HAS_ENDED, EpisodeSettings, ToolEpisode
from agentgym_py.trajectory.formats.openai import ACT_TOOL
from agentgym_py.trajectory.types import BY_TOOLS, opening_text, tool_rules

SPEC = EnvSpec("maze", {"difficulty": "easy"})


def test_a_call_and_a_reply_are_the_same_step() -> None:
    """Of a tool, of `act` where the world's tools are not offered, and as text."""
    episodes = [ToolEpisode(EpisodeSettings(SPEC, tools=tools), 0) for tools in (True, False, True)]
    assert episodes[1].tools == [ACT_TOOL] != episodes[0].tools
    turns = [
        episodes[0].call("go", {"direction": "north"}), episodes[1].call("act", {"action": "go north"}),
        episodes[2].step("go north"),
    ]  # fmt: skip
    assert turns[0] == turns[1] == turns[2] and episodes[1].tools == [ACT_TOOL]


def test_an_environment_is_used_again() -> None:
    """Its next episode starts like that of a new one; after the end neither calls nor replies do anything."""
    first = ToolEpisode(EpisodeSettings(SPEC), 0)
    for action in first.env.expert():
        first.step(action)
    assert first.stop_reason is StopReason.TERMINATED and first.env.succeeded
    assert first.call("look", {}).observation == first.step("look").observation == HAS_ENDED
    again, new = ToolEpisode(first.settings, 1, first.env), ToolEpisode(first.settings, 1)
    assert again.env is first.env and again.opening == new.opening
    assert again.env.snapshot() == new.env.snapshot()


def test_settings_of_a_world_that_cannot_be_made_are_refused() -> None:
    """By name, before a server starts."""
    assert EpisodeSettings.of_world("maze", {"difficulty": "easy"}) == EpisodeSettings.of_world(SPEC)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"env": "mase"}, "maze"), ({"env": "maze", "split": "trian"}, "train"),
        ({"env": "maze", "env_kwargs": {"max_steps": 0}}, "max_steps"),
    ]  # fmt: skip
    for arguments, message in wrong:
        with pytest.raises(AgentGymError, match=message):
            EpisodeSettings.of_world(**arguments)


def test_settings_tell_tasks_and_openings() -> None:
    """Ids by number, and what an episode of a task opens with."""
    settings = EpisodeSettings(EnvSpec("shop"), "valid", seed=5, prompt="brief")
    ids = settings.task_ids([3, 0])
    assert ids == ["shop/valid/medium/3", "shop/valid/medium/0"]
    with closing(EnvSpec("shop").make()) as world:
        assert [settings.opening(world, task) for task in ids] == [ToolEpisode(settings, task).opening for task in ids]
    with pytest.raises(UnknownNameError, match="No task"):
        settings.task_ids([-1])


@pytest.mark.parametrize("prompt", ["full", "brief", "none"])
def test_an_agent_with_tools_reads_that_calls_replace_the_text(prompt: Prompt) -> None:
    """In the opening alone: the record, which says that tools played it, has the world's rules."""
    settings = EpisodeSettings(SPEC, prompt=prompt, calls=True)
    episode = ToolEpisode(settings, 0)
    with closing(SPEC.make()) as world:
        rules = world.rules[prompt]
        assert settings.opening(world, episode.task.id) == episode.opening
    assert episode.opening == opening_text(tool_rules(rules), episode.observation)
    assert episode.opening.count(BY_TOOLS) == (prompt != "none")
    episode.call("go", {"direction": "north"})
    trajectory = episode.trajectory("a client")
    assert trajectory.rules == rules and trajectory.provenance.sampling == {"tools": True}
    assert replay(trajectory).holds
    text = ToolEpisode(replace(settings, calls=False), 0)
    assert BY_TOOLS not in text.opening and not text.trajectory("a client").provenance.sampling
