"""Two scripted agents for the table "Serving customers" of docs/results/worlds.md.

    agentgym eval --env service --tasks 100 --attempts 4 --agent benchmarks/service.py:Slips --out evals/slips
    agentgym eval --env service --tasks 100 --attempts 4 --agent benchmarks/service.py:Obliging --out evals/obliging
    python -m agentgym_envs.service.report evals/slips/trajectories.jsonl

`Slips` shows how pass^k falls for an agent that errs now and then. `Obliging` shows what the policy is worth: it finds
out what a customer wants as the fair expert does, but then makes every change at once, and refuses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym_envs.service import experts
from agentgym_envs.service.env import ServiceEnv
from agentgym_py.agents.base import AgentReply, Episode
from agentgym_py.env.tools import format_call
from agentgym_py.rng import Rng


class Slips:
    """The fair expert, which does a random listed action with a probability."""

    name = "slips"
    policy_digest: str | None = None

    def __init__(self, *, rate: float = 0.05) -> None:
        self.rate = rate
        self.sampling: dict[str, Any] = {"rate": rate}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Return the next action in each episode."""
        return [self._reply(episode) for episode in episodes]

    def _reply(self, episode: Episode) -> AgentReply | None:
        rng = Rng(episode.seed, len(episode.steps))
        slips = rng.uniform() < self.rate
        action = rng.choice(episode.env.actions() or [""]) if slips else episode.env.fair_expert()
        return AgentReply(action) if action else None


class Obliging:
    """An agent that makes the change that a customer asks for, without a proposal and whatever the policy says."""

    name = "obliging"
    policy_digest: str | None = None

    def __init__(self) -> None:
        self.sampling: dict[str, Any] = {}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Return the next action in each episode."""
        return [AgentReply(_oblige(episode.env)) for episode in episodes]


def _oblige(env: Any) -> str:
    """Return the next action: find out, make the change, then close."""
    assert isinstance(env, ServiceEnv)
    talk = env.conversation
    number = talk.current()
    action = env.fair_expert() or "close"
    if number is None or experts.finding_out(talk, number):
        return action
    wanted, made = talk.wanted(number), [call for call, _ in talk.desk.history]
    if wanted:
        return "close" if wanted in made else format_call(*wanted)
    return action
