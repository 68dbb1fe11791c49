"""An episode that the coroutines of an event loop play."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self, TypeVar

from agentgym_py.collection.env_turn import EnvTurn
from agentgym_py.errors import InfrastructureError
from agentgym_py.serving.tool_episode import ToolEpisode
from agentgym_py.serving.world_threads import in_daemon

LONGEST = 120.0
"""Seconds after which a call of a world counts as hanging, unless a caller says otherwise."""
T = TypeVar("T")


class AsyncEpisode:
    """A `ToolEpisode` whose world runs in threads: others go on meanwhile, and a call that hangs is a failure.

    Make one by `start`. Its calls come one at a time.

    Args:
        episode: The episode.
        longest: Seconds after which a call counts as hanging.
    """

    def __init__(self, episode: ToolEpisode, longest: float = LONGEST) -> None:
        self.episode, self._longest = episode, longest
        self._call: asyncio.Future[Any] | None = None

    @classmethod
    async def start(cls, make: Callable[[], ToolEpisode], longest: float = LONGEST) -> Self:
        """Start an episode by `make`.

        Raises:
            InfrastructureError: the world failed, or hangs.
        """
        call = in_daemon(make)
        try:
            return cls(await _answer(call, "the world", longest), longest)
        finally:
            if not call.done():
                call.add_done_callback(close_late)

    @property
    def is_in_world(self) -> bool:
        """Whether a call still runs: it hangs, or its caller was cancelled."""
        return self._call is not None and not self._call.done()

    async def step(self, text: str) -> EnvTurn:
        """Do one step, given as a whole reply; InfrastructureError if the world fails or hangs."""
        return await self.run(lambda: self.episode.step(text))

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> EnvTurn:
        """Do one call of a tool; otherwise as `step`."""
        return await self.run(lambda: self.episode.call(tool, arguments))

    async def close(self) -> None:
        """Close the world; one that is in a call, as soon as that returns. Failures do not matter any more."""
        if self._call is not None and not self._call.done():
            self._call.add_done_callback(lambda _: in_daemon(self.episode.close))
            return
        with suppress(InfrastructureError):
            await self.run(self.episode.close)

    async def run(self, work: Callable[[], T]) -> T:
        """Run what asks the world something; otherwise as `step`."""
        if self.is_in_world:
            raise InfrastructureError(f"{self.episode.settings.spec.name} is still in its last call")
        call = self._call = in_daemon(work)
        return await _answer(call, self.episode.settings.spec.name, self._longest)


async def _answer(call: asyncio.Future[T], name: str, longest: float) -> T:
    await asyncio.wait({call}, timeout=longest)  # whoever is cancelled here leaves the call running
    if not call.done():
        raise InfrastructureError(f"{name} did not answer in {longest:g} s")
    return call.result()


def close_late(call: asyncio.Future[ToolEpisode]) -> None:
    """Close the world of an episode that was started too late."""
    if not call.cancelled() and call.exception() is None:
        in_daemon(call.result().close)
