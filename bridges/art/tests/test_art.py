"""agentgym_art against the real ART."""

from __future__ import annotations

from typing import Any

import art
import pytest
from agentgym_art import world_groups
from chat_server import reply_of
from checks import FAILURE, fail, note_starts
from openai.types.chat.chat_completion import Choice
from scripted import SHOP, WORLDS, World, only_return, plays_as_directly, scripts
from through import play, read, run

from agentgym_py.errors import ConfigError, InfrastructureError, UnknownNameError


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_art_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks, by ART's gathering of groups."""
    plays_as_directly(world, play, visible=only_return)


def test_a_group_starts_in_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that of a direct episode, to the byte; a reply is a `Choice`, which ART trains, and nothing else is."""
    played, starts = scripts(SHOP, 3), note_starts(monkeypatch)
    groups = run(SHOP, reply_of(played), range(3), attempts=4)
    assert starts == {script.episode.task: [script.start] * 4 for script in played}
    for group, script in zip(groups, played, strict=True):
        assert [read(trajectory) for trajectory in group] == [only_return(script.episode)] * 4
        trained = [item for item in group.trajectories[0].messages_and_choices if isinstance(item, Choice)]
        assert [choice.message.content for choice in trained] == list(script.actions)


def test_an_infrastructure_failure_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the world at its start or in a step, and of the model's endpoint: an exception, and no trajectory."""
    played = scripts(SHOP, 3)
    first, second = (script.episode.task for script in played[:2])
    fail(monkeypatch, start=first, step=second)
    reply, lost = reply_of(played), played[2].episode.observations[1]

    def reply_or_fail(messages: list[dict[str, Any]]) -> Any:
        return None if messages[-1]["content"] == lost else reply(messages)

    groups = run(SHOP, reply_or_fail, range(3), attempts=2, max_exceptions=6)
    assert [len(group) for group in groups] == [0, 0, 0]
    assert [len(group.exceptions) for group in groups] == [2, 2, 2]
    assert all(FAILURE in error.message for group in groups[:2] for error in group.exceptions)
    with pytest.raises(InfrastructureError, match=FAILURE):  # without an allowance for exceptions
        run(SHOP, reply, range(1))


def test_a_wrong_argument_is_an_error() -> None:
    """Before anything is played."""
    model = art.Model(name="scripted", project="test", inference_api_key="none", inference_base_url="http://none")
    with pytest.raises(ConfigError, match="group_size"):
        world_groups("shop", range(1), model, group_size=0)
    with pytest.raises(UnknownNameError, match="train"):
        world_groups("shop", range(1), model, group_size=1, split="trian")
    with pytest.raises(UnknownNameError, match="shop"):
        world_groups("shopp", range(1), model, group_size=1)
