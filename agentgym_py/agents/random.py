"""The agent that acts by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym_py.agents.base import AgentReply, Episode
from agentgym_py.env import TextEnv
from agentgym_py.errors import ConfigError
from agentgym_py.rng import Rng


def _listed(env: TextEnv) -> list[str]:
    actions = env.actions()
    if actions is None:
        raise ConfigError(f"{type(env).__name__} does not list its actions: no random agent there")
    return actions


class RandomAgent:
    """Draws from the admissible actions, uniformly."""

    name = "random"
    policy_digest: str | None = None

    def __init__(self) -> None:
        self.sampling: dict[str, Any] = {}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """A random admissible action an episode."""
        return [self._reply(episode) for episode in episodes]

    def _reply(self, episode: Episode) -> AgentReply | None:
        actions = _listed(episode.env)
        return AgentReply(Rng(episode.seed, len(episode.steps)).choice(actions)) if actions else None
