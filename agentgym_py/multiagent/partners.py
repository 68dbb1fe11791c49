"""Partners: the agents that play the other roles of a game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

from agentgym_py.agents.base import Agent, AgentReply, Episode, ReplyStream
from agentgym_py.agents.expert import ExpertAgent
from agentgym_py.agents.model import ModelAgent
from agentgym_py.agents.random import RandomAgent
from agentgym_py.engine.base import CachingEngine
from agentgym_py.errors import ConfigError

PartnerKind = Literal["fair", "expert", "random", "recorded"]
_LOADED = 2
"""Checkpoints that a process keeps in memory; self-play has another one in each round."""
_MAX_NEW_TOKENS = 96
"""Longest reply of a checkpoint, in tokens: that of the worlds' own defaults."""


class Partner(NamedTuple):
    """An agent and what tells it from others."""

    agent: Agent
    identity: str
    """Its kind, or the digest of its weights."""


class FrozenModel(ModelAgent):
    """A model that plays in many worlds, also on several threads: it samples for one caller at a time."""

    _sampling = Lock()  # one for all models: collections on two threads would only take turns on the cores
    _streams = 0

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Sample a reply for each episode."""
        with self._sampling:
            return super().act(episodes)

    def reply_stream(self) -> ReplyStream | None:
        """Stream replies; see `ModelAgent`. Call `release` afterwards."""
        stream = super().reply_stream()
        with self._sampling:
            self._streams += 1

        def next_replies(live: Mapping[int, Episode]) -> Sequence[tuple[int, AgentReply | None]]:
            with self._sampling:
                return stream(live) if stream else []

        return next_replies if stream else None

    def release(self) -> None:
        """End a stream; the last one drops the cached keys and values, so that a training has their memory."""
        with self._sampling:
            self._streams -= 1
            if not self._streams and isinstance(self._engine, CachingEngine):
                self._engine.release()


def partner_agent(kind: PartnerKind) -> Partner:
    """Return a partner by its kind; after its record, or without one, a `recorded` one is the exact expert."""
    return Partner(RandomAgent() if kind == "random" else ExpertAgent(fair=kind == "fair", thoughts=False), kind)


def load_partner(folder: Path) -> Partner:
    """Load a checkpoint as a greedy partner; a process loads each once.

    Raises:
        ConfigError: there is no such folder.
    """
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise ConfigError(f"partner_model must be the folder of a checkpoint, and {folder} is none")
    return _load(folder, max((path.stat().st_mtime_ns for path in folder.iterdir()), default=0))


@lru_cache(maxsize=_LOADED)
def _load(folder: Path, changed: int) -> Partner:
    """Load a folder; `changed` makes the cache forget a folder that was written again."""
    del changed
    from agentgym_py.engine import HFEngine, SamplingParams
    from agentgym_py.policy import Policy

    policy = Policy.load(folder)
    agent = FrozenModel(policy, HFEngine(policy), SamplingParams(temperature=0.0, max_new_tokens=_MAX_NEW_TOKENS))
    return Partner(agent, agent.policy_digest)
