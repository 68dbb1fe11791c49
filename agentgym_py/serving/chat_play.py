"""Play an episode by chat completions of any client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agentgym_py.serving.async_episode import LONGEST, AsyncEpisode
from agentgym_py.serving.tool_episode import ToolEpisode
from agentgym_py.trajectory import Trajectory

Message = dict[str, str]
"""A chat message: `role` and `content`."""
Reply = Callable[[list[Message]], Awaitable[str]]
"""Returns the model's text after the messages until now."""


async def play_chat(
    start: Callable[[], ToolEpisode], reply: Reply, agent: str, max_turns: int | None = None, *,
    longest: float = LONGEST,
) -> Trajectory:  # fmt: skip
    """Play an episode in text: a reply is a step, and the observation is the next user turn.

    Args:
        start: Starts the episode. The world runs in threads, so other episodes of the event loop continue.
        reply: The model.
        agent: Name of the model in the trajectory.
        max_turns: Number of replies after which the agent gives up; None: only the world ends the episode.
        longest: Seconds after which a call of the world counts as hanging.

    Raises:
        InfrastructureError: the world failed, or hangs.
        Exception: whatever `reply` raises, such as an error of the model's endpoint; the episode is then no evidence.
    """
    live = await AsyncEpisode.start(start, longest)
    episode = live.episode
    try:
        messages = [{"role": "user", "content": episode.opening}]
        while episode.stop_reason is None and (max_turns is None or len(episode.steps) < max_turns):
            text = await reply(messages)
            turn = await live.step(text)
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": turn.observation}]
        return episode.trajectory(agent)
    finally:
        await live.close()
