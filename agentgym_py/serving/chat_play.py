"""Play an episode by chat completions of any client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from agentgym_py.errors import InfrastructureError
from agentgym_py.serving.tool_episode import ToolEpisode
from agentgym_py.trajectory import Trajectory

Message = dict[str, str]
"""A chat message: `role` and `content`."""
Reply = Callable[[list[Message]], Awaitable[str]]
"""Returns the model's text after the messages until now."""


async def play_chat(
    start: Callable[[], ToolEpisode], reply: Reply, agent: str, max_turns: int | None = None
) -> Trajectory:
    """Play an episode in text: a reply is a step, and the observation is the next user turn.

    Args:
        start: Starts the episode. The world runs in threads, so other episodes of the event loop go on.
        reply: The model.
        agent: Name of the model in the trajectory.
        max_turns: Number of replies after which the agent gives up; None: only the world ends the episode.

    Raises:
        InfrastructureError: the world failed.
        Exception: whatever `reply` raises, such as an error of the model's endpoint; the episode is then no evidence.
    """
    episode = await asyncio.to_thread(start)
    try:
        messages = [{"role": "user", "content": episode.opening}]
        while episode.stop_reason is None and (max_turns is None or len(episode.steps) < max_turns):
            text = await reply(messages)
            turn = await asyncio.to_thread(episode.step, text)
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": turn.observation}]
        return episode.trajectory(agent)
    finally:
        with suppress(InfrastructureError):  # what was played counts
            await asyncio.to_thread(episode.close)
