"""An agent whose probabilities are known: the exact expert, which now and then acts at random.

The credit lab enumerates the exact advantages of such an agent: docs/guides/credit.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym_py.agents import AgentReply, Episode, RandomAgent
from agentgym_py.env import TextEnv
from agentgym_py.rng import Rng


class NoisyExpert:
    """With probability `noise` a random admissible action, otherwise the expert's next one."""

    name = "noisy expert"
    policy_digest: str | None = None

    def __init__(self, noise: float = 0.5) -> None:
        self.noise = noise
        self.sampling: dict[str, Any] = {"noise": noise}

    def action_probabilities(self, env: TextEnv) -> dict[str, float]:
        """Return the probability of each reply in a live environment's state."""
        plan = env.expert()
        random = RandomAgent().action_probabilities(env)
        if not plan:
            return random
        probabilities = {action: self.noise * p for action, p in random.items()}
        probabilities[plan[0]] = probabilities.get(plan[0], 0.0) + 1 - self.noise * bool(random)
        return probabilities

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Draw a reply for each episode."""
        return [self._draw(episode) for episode in episodes]

    def _draw(self, episode: Episode) -> AgentReply | None:
        at = Rng(episode.seed, len(episode.steps)).uniform()
        for reply, probability in self.action_probabilities(episode.env).items():
            at -= probability
            if at < 0:
                return AgentReply(reply)
        return None
