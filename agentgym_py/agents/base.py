"""Agents: what replies to observations. The expert, a random agent and a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from agentgym_py.env import Task, TextEnv
from agentgym_py.rng import seed_of
from agentgym_py.trajectory import Step, Tokens
from agentgym_py.trajectory.types import Usage

EXPERT = "expert"
"""Name of the agent that follows the world's expert."""


@dataclass(slots=True)
class Episode:
    """A live episode: what an agent may look at."""

    env: TextEnv
    task: Task
    seed: int
    """Seed of everything that the agent draws in this episode."""
    rules: str
    observation: str
    steps: list[Step] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    """Token ids of the episode so far, for agents that are models."""


@dataclass(frozen=True, slots=True)
class AgentReply:
    """One reply; `tokens` where a model gave it, `usage` where an endpoint did."""

    text: str
    tokens: Tokens | None = None
    usage: Usage | None = None
    error: str | None = None
    """An infrastructure failure in place of a reply: the episode ends, and is no evidence."""


class Agent(Protocol):
    """Replies to a batch of live episodes; None gives an episode up (out of context, nothing left to do).

    An agent with an attribute `slots` plays at most that many episodes at once. So that no episode waits for another's
    reply, an agent may also be an `AsyncAgent` or a `StreamingAgent`.
    """

    name: str
    sampling: dict[str, Any]

    @property
    def policy_digest(self) -> str | None:
        """SHA-256 of the weights that act now, where there are any."""
        ...

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """One reply an episode, in order."""
        ...


@runtime_checkable
class AsyncAgent(Protocol):
    """An agent whose replies come from a server, each by a request of its own."""

    is_async: bool
    """Whether `areply` is used in place of `act`."""

    async def areply(self, episode: Episode) -> AgentReply | None:
        """Reply to one episode; awaited in the loop of `agentgym_py.http_client`."""
        ...


class ReplyStream(Protocol):
    """Replies to live episodes, a few at a time."""

    def __call__(self, live: Mapping[int, Episode]) -> Sequence[tuple[int, AgentReply | None]]:
        """Return some replies by the episodes' numbers, at least one; the others are still being generated."""
        ...


@runtime_checkable
class StreamingAgent(Protocol):
    """An agent that generates replies here and can return each as soon as it is complete."""

    def reply_stream(self) -> ReplyStream | None:
        """Start a stream for one collection; None when `act` must be used."""
        ...


def title_of(agent: Agent) -> str:
    """Its name, and of an expert which one it is: `the exact expert` or `the fair expert`."""
    return title(agent.name, agent.sampling)


def title(name: str, sampling: Mapping[str, Any]) -> str:
    """The same of an agent of which only this is known."""
    return f"the {'fair' if sampling.get('fair') else 'exact'} expert" if name == EXPERT else name


def _seed(episode: Episode) -> int:
    return seed_of(episode.seed, len(episode.steps))
