"""Episodes that coroutines play: worlds that fail or hang, and callers that are cancelled."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from agentgym_py.env import EnvSpec
from agentgym_py.errors import InfrastructureError
from agentgym_py.serving.async_episode import AsyncEpisode
from agentgym_py.serving.chat_play import Message, play_chat
from agentgym_py.serving.tool_episode import EpisodeSettings, ToolEpisode

ODD = EpisodeSettings(EnvSpec("OddForTests-v0"))


def start() -> ToolEpisode:
    """Start an episode of the world of `conftest`."""
    return ToolEpisode(ODD, 0)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The number of worlds that were closed, each with the name of its thread."""
    names = list[str]()
    monkeypatch.setattr(type(ODD.spec.make()), "close", lambda self: names.append(threading.current_thread().name))
    return names


async def until(holds: Callable[[], Any]) -> None:
    """Wait until something holds."""
    ends = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < ends
        await asyncio.sleep(0.01)


def test_a_world_that_hangs_is_a_failure_and_is_closed_when_it_returns(
    woken: threading.Event, closed: list[str]
) -> None:
    """No other thread is in the world until then."""

    async def play() -> None:
        live = await AsyncEpisode.start(start, longest=0.3)
        assert (await live.step("Action: x")).observation == "1" and not live.is_in_world
        with pytest.raises(InfrastructureError, match=r"did not answer in 0\.3 s"):
            await live.step("Action: hang")
        assert live.is_in_world
        with pytest.raises(InfrastructureError, match="still in its last call"):
            await live.step("Action: x")
        await live.close()
        assert not closed
        woken.set()
        await until(lambda: closed)

    asyncio.run(play())


def test_a_cancelled_step_ends_before_the_world_is_closed(woken: threading.Event, closed: list[str]) -> None:
    """A thread cannot be cancelled."""

    async def play() -> None:
        live = await AsyncEpisode.start(start)
        step = asyncio.ensure_future(live.step("Action: hang"))
        await asyncio.sleep(0.1)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        await live.close()
        assert live.is_in_world and not closed
        woken.set()
        await until(lambda: closed)
        assert len(live.episode.steps) == 1

    asyncio.run(play())


def test_a_world_that_hangs_as_it_starts_is_closed_when_it_returns(
    monkeypatch: pytest.MonkeyPatch, woken: threading.Event, closed: list[str]
) -> None:
    """Whether its caller lost patience or was cancelled."""
    begin = type(ODD.spec.make()).begin
    monkeypatch.setattr(type(ODD.spec.make()), "begin", lambda *args: (woken.wait(60), begin(*args))[1])

    async def play() -> None:
        with pytest.raises(InfrastructureError, match="the world did not answer"):
            await AsyncEpisode.start(start, longest=0.2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(AsyncEpisode.start(start), 0.2)
        woken.set()
        await until(lambda: len(closed) == 2)

    asyncio.run(play())


def test_worlds_that_hang_block_nobody(woken: threading.Event) -> None:
    """Forty of them, more than an event loop has threads of its own."""

    async def hang() -> None:
        with pytest.raises(InfrastructureError):
            await play_chat(start, lambda _: said("Action: hang"), "model", longest=1)

    async def play() -> None:
        await asyncio.gather(*(hang() for _ in range(40)))
        episode = await play_chat(start, lambda _: said("Action: x"), "model", max_turns=3)
        assert [step.action for step in episode.steps] == ["x"] * 3
        woken.set()

    asyncio.run(play())


async def said(text: str) -> str:
    """Return what a model says."""
    return text


def test_a_failure_of_the_world_or_the_model_closes_the_world(closed: list[str]) -> None:
    """Neither is evidence about the agent, so there is no trajectory."""

    async def fail(messages: list[Message]) -> str:
        raise ConnectionError("the endpoint is gone")

    async def play() -> None:
        with pytest.raises(ConnectionError):
            await play_chat(start, fail, "model")
        with pytest.raises(InfrastructureError, match="RuntimeError"):
            await play_chat(start, lambda _: said("Action: fail"), "model")

    asyncio.run(play())
    assert closed == ["world", "world"]
