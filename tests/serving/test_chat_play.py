"""`play_chat`: episodes by chat completions."""

from __future__ import annotations

import asyncio

import pytest

from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.serving.chat_play import Message, play_chat
from agentgym_py.serving.tool_episode import EpisodeSettings, ToolEpisode

SETTINGS = EpisodeSettings(EnvSpec("maze", {"difficulty": "easy"}))


def start() -> ToolEpisode:
    """Start the first task."""
    return ToolEpisode(SETTINGS, 0)


def test_replies_are_steps() -> None:
    """The model sees the opening and each observation once, and is not asked after the end."""
    plan, asked = start().env.expert(), list[list[Message]]()

    async def reply(messages: list[Message]) -> str:
        asked.append(list(messages))
        return plan[len(messages) // 2]

    trajectory = asyncio.run(play_chat(start, reply, "scripted"))
    assert trajectory.stop_reason is StopReason.TERMINATED and trajectory.success
    assert trajectory.provenance.agent == "scripted" and [step.reply for step in trajectory.steps] == plan
    openings = [start().opening, *(step.observation for step in trajectory.steps[1:])]
    for turn, messages in enumerate(asked):
        assert [message["role"] for message in messages] == ["user", *("assistant", "user") * turn]
        assert [message["content"] for message in messages[::2]] == openings[: turn + 1]
        assert [message["content"] for message in messages[1::2]] == plan[:turn]


def test_a_limit_of_turns_gives_up() -> None:
    """What was gained until then counts; an error of the model is raised, and the world is closed."""
    closed = list[ToolEpisode]()

    class Episode(ToolEpisode):
        def close(self) -> None:
            closed.append(self)
            super().close()

    async def look(_: list[Message]) -> str:
        return "look"

    async def fails(_: list[Message]) -> str:
        raise OSError("no model")

    trajectory = asyncio.run(play_chat(lambda: Episode(SETTINGS, 0), look, "looks", max_turns=2))
    assert len(trajectory.steps) == 2 and trajectory.stop_reason is StopReason.GAVE_UP and trajectory.error is None
    with pytest.raises(OSError, match="no model"):
        asyncio.run(play_chat(lambda: Episode(SETTINGS, 0), fails, "fails"))
    assert len(closed) == 2
