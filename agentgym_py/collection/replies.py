"""How the episode loop gets replies: from an agent that replies in batches, as a stream, or from a server."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from typing import Any, Protocol

from agentgym_py.agents import Agent, AgentReply, Episode
from agentgym_py.agents.base import AsyncAgent, ReplyStream, StreamingAgent, env_failure, require_replies
from agentgym_py.errors import InfrastructureError

Reply = AgentReply | InfrastructureError | None
Live = Mapping[int, Episode]
"""The episodes that await a reply, by the index of their job."""


class Replies(Protocol):
    """An agent's replies to the live episodes of one collection."""

    def wait(self, live: Live, envs: Collection[Future[Any]] = (), patience: float | None = None) -> bool:
        """Wait up to `patience` seconds for work; return whether the envs that have returned may be handled now."""
        ...

    def get(self, live: Live) -> Iterable[tuple[int, Reply]]:
        """Return replies to some of the live episodes."""
        ...

    def close(self) -> None:
        """Cancel pending requests."""
        ...


def replies_of(agent: Agent) -> Replies:
    """Return the replies of an agent in the way that it declares."""
    if isinstance(agent, AsyncAgent) and agent.is_async:
        return _AsyncReplies(agent)
    stream = agent.reply_stream() if isinstance(agent, StreamingAgent) else None
    return _StreamedReplies(stream) if stream else _BatchReplies(agent)


class _BatchReplies:
    """All episodes get their replies at once."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def wait(self, live: Live, envs: Collection[Future[Any]] = (), patience: float | None = None) -> bool:
        """Wait for every env, so that batches do not depend on timing."""
        return not envs or not wait(envs, patience, ALL_COMPLETED).not_done

    def get(self, live: Live) -> Iterable[tuple[int, Reply]]:
        """Return a reply to each episode."""
        return zip(live, self._act(list(live.values())), strict=True)

    def close(self) -> None:
        """Nothing is pending."""

    def _act(self, episodes: Sequence[Episode]) -> Sequence[Reply]:
        """Ask the agent; when a server or an env that it asks fails, only the episode that needed it gets the error."""
        try:
            replies = self._agent.act(episodes)
            require_replies(self._agent, replies, len(episodes))
            return replies
        except BaseException as error:
            failure = env_failure(error)
            if len(episodes) == 1:
                return [failure]
            return [reply for episode in episodes for reply in self._act([episode])]


class _StreamedReplies:
    """Each reply is returned as soon as it is complete, while others are generated."""

    def __init__(self, stream: ReplyStream) -> None:
        self._stream = stream

    def wait(self, live: Live, envs: Collection[Future[Any]] = (), patience: float | None = None) -> bool:
        """Wait for an env only when there is nothing to generate."""
        if envs and not live:
            wait(envs, patience, FIRST_COMPLETED)
        return True

    def get(self, live: Live) -> Iterable[tuple[int, Reply]]:
        """Return at least one reply."""
        return self._stream(live)

    def close(self) -> None:
        """Nothing is pending."""


class _AsyncReplies:
    """Every live episode has a request at the server."""

    def __init__(self, agent: AsyncAgent) -> None:
        self._agent = agent
        self._requests: dict[int, Future[AgentReply | None]] = {}

    def wait(self, live: Live, envs: Collection[Future[Any]] = (), patience: float | None = None) -> bool:
        """Send a request for each new episode; wait for a reply or an env."""
        for index, episode in live.items():
            if index not in self._requests:
                self._requests[index] = self._send(episode)
        wait([*self._requests.values(), *envs], patience, FIRST_COMPLETED)
        return True

    def get(self, live: Live) -> Iterable[tuple[int, Reply]]:
        """Return the replies that have arrived."""
        arrived = [index for index, future in self._requests.items() if future.done()]
        return [(index, _result(self._requests.pop(index))) for index in arrived]

    def close(self) -> None:
        """Cancel the requests."""
        for future in self._requests.values():
            future.cancel()

    def _send(self, episode: Episode) -> Future[AgentReply | None]:
        import asyncio  # here, because processes that play other agents start faster without it

        from agentgym_py.http_client import event_loop

        return asyncio.run_coroutine_threadsafe(self._agent.areply(episode), event_loop())


def _result(future: Future[AgentReply | None]) -> Reply:
    try:
        return future.result()
    except BaseException as error:
        return env_failure(error)
