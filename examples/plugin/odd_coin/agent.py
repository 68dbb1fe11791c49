"""`clumsy`: the fair expert of any world, whose hand slips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym_py.agents import AgentReply, Episode
from agentgym_py.errors import ConfigError
from agentgym_py.rng import Rng


class Clumsy:
    """Does what the fair expert would, and now and then a random admissible action instead.

    Args:
        slips: how often.
    """

    name = "clumsy"
    policy_digest: str | None = None

    def __init__(self, slips: float = 0.1) -> None:
        if not 0 <= slips <= 1:
            raise ConfigError(f"slips must be a share, from 0 to 1, got {slips}")
        self.slips = slips
        self.sampling: dict[str, Any] = {"slips": slips}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """One action an episode; drawn from its seed, so that it is the same again."""
        return [self._reply(episode) for episode in episodes]

    def _reply(self, episode: Episode) -> AgentReply | None:
        rng = Rng("clumsy", episode.seed, len(episode.steps))
        listed = episode.env.actions()
        if listed and rng.uniform() < self.slips:
            return AgentReply(rng.choice(listed))
        action = episode.env.fair_expert()
        return None if action is None else AgentReply(action)
