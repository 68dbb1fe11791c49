"""The protocols of agents, which reply to observations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

from agentgym_py.env import Task, TextEnv
from agentgym_py.env.tracebacks import describe_failure, env_line
from agentgym_py.errors import ConfigError, InfrastructureError
from agentgym_py.rng import seed_of
from agentgym_py.trajectory import Step, Tokens
from agentgym_py.trajectory.types import Usage

EXPERT = "expert"
"""Name of `ExpertAgent`."""


@dataclass(slots=True)
class Episode:
    """A live episode, as an agent sees it."""

    env: TextEnv
    task: Task
    seed: int
    """Seed of the agent's randomness in this episode."""
    rules: str
    observation: str
    steps: list[Step] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    """Token ids of the episode so far, for agents that are models."""
    files_digest: str | None = None
    """Of the files that its world read (`TextEnv.files_digest`)."""
    version: int = 0
    """Of its world."""
    watch: Callable[[], AbstractContextManager[None]] = nullcontext
    """Count what runs within it as a call into the world: `with episode.watch(): plan = episode.env.expert()`.

    For `act`, in the thread that calls it: one call at a time, without `await` in it."""


@dataclass(frozen=True, slots=True)
class AgentReply:
    """One reply, with `tokens` from a local model or `usage` from an endpoint."""

    text: str
    tokens: Tokens | None = None
    usage: Usage | None = None
    summary: Tokens | None = None
    """Tokens of a summary that the model wrote before it replied."""
    error: str | None = None
    """An infrastructure failure in place of a reply: the episode ends and is no evidence."""


class Agent(Protocol):
    """Replies to a batch of live episodes; None gives an episode up (context full, nothing left to do).

    An attribute `slots` limits the number of concurrent episodes. With an `AsyncAgent` or a `StreamingAgent` no episode
    waits for another's reply.
    """

    name: str
    sampling: dict[str, Any]

    @property
    def policy_digest(self) -> str | None:
        """SHA-256 of the current weights, if there are any."""
        ...

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Reply to each episode, in order."""
        ...


@runtime_checkable
class AsyncAgent(Protocol):
    """An agent whose replies come from a server, one request per reply."""

    is_async: bool
    """Whether the collector uses `areply` instead of `act`."""

    async def areply(self, episode: Episode) -> AgentReply | None:
        """Reply to one episode; awaited in the event loop of `agentgym_py.http_client`."""
        ...


class ReplyStream(Protocol):
    """Replies to live episodes, a few at a time."""

    def __call__(self, live: Mapping[int, Episode]) -> Sequence[tuple[int, AgentReply | None]]:
        """Return at least one reply with its episode's number; others are still being generated."""
        ...


@runtime_checkable
class StreamingAgent(Protocol):
    """An agent that generates replies locally and returns each as soon as it is complete."""

    def reply_stream(self) -> ReplyStream | None:
        """Start a stream for one collection; None if the collector must use `act`."""
        ...


def require_agent(agent: object) -> Agent:
    """Return an agent.

    Raises:
        ConfigError: it is a class, or lacks what `Agent` has.
    """
    if isinstance(agent, type):
        raise ConfigError(f"agent is the class {agent.__name__}; pass an instance: {agent.__name__}()")
    if missing := [name for name in ("name", "sampling", "policy_digest", "act") if not hasattr(agent, name)]:
        raise ConfigError(f"{type(agent).__name__} is not an agent: it lacks {', '.join(missing)}")
    return cast(Agent, agent)


def require_replies(agent: Agent, replies: Sequence[AgentReply | None], episodes: int) -> None:
    """Raise ConfigError unless `act` returned an AgentReply or None for each episode."""
    wrong = next((reply for reply in replies if not isinstance(reply, AgentReply | None)), None)
    if wrong is not None:
        raise ConfigError(f"{agent.name}.act must return AgentReply or None for each episode, got {wrong!r:.60}")
    if len(replies) != episodes:
        raise ConfigError(f"{agent.name}.act must return {episodes} replies, one per episode, got {len(replies)}")


def env_failure(error: BaseException) -> InfrastructureError:
    """Return the failure of a server, or of an env that an agent asked; raise any other error again.

    An agent may call `expert()`, `actions()` or `tools()` of its episode's env, which may raise anything.
    """
    if isinstance(error, InfrastructureError):
        return error
    if isinstance(error, KeyboardInterrupt) or not env_line(error):
        raise error
    return InfrastructureError(describe_failure(error))


def agent_title(name: str, sampling: Mapping[str, Any]) -> str:
    """Return an agent's name for tables; an expert is `the exact expert` or `the fair expert`."""
    return f"the {'fair' if sampling.get('fair') else 'exact'} expert" if name == EXPERT else name


def reply_seed(episode: Episode) -> int:
    """Return the seed of the episode's next reply."""
    return seed_of(episode.seed, len(episode.steps))
