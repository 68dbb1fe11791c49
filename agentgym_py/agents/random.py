"""A random agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym_py.agents.base import AgentReply, Episode
from agentgym_py.env import TextEnv
from agentgym_py.errors import ConfigError, InfrastructureError
from agentgym_py.rng import Rng


class RandomAgent:
    """Draws uniformly from the admissible actions."""

    name = "random"
    policy_digest: str | None = None

    def __init__(self) -> None:
        self.sampling: dict[str, Any] = {}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Draw an admissible action for each episode."""
        return [self._reply(episode) for episode in episodes]

    def action_probabilities(self, env: TextEnv) -> dict[str, float]:
        """Return the probability of each admissible action in a live environment's state."""
        actions = _actions(env)
        probabilities = dict.fromkeys(actions, 0.0)
        for action in actions:
            probabilities[action] += 1 / len(actions)
        return probabilities

    def _reply(self, episode: Episode) -> AgentReply | None:
        with episode.watch():
            actions = _actions(episode.env)
        return AgentReply(Rng(episode.seed, len(episode.steps)).choice(actions)) if actions else None


def _actions(env: TextEnv) -> Sequence[str]:
    actions = env.actions()
    if actions is None:
        raise ConfigError(f"a random agent needs a list of actions, which {type(env).__name__} does not give")
    if not isinstance(actions, list | tuple) or not all(isinstance(action, str) for action in actions):
        raise InfrastructureError(f"actions() is {actions!r:.60}, not a list of strings")
    return actions
