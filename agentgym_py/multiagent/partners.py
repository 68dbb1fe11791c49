"""Partners: the agents that play the other roles of a game."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from agentgym_py.agents.base import Agent
from agentgym_py.agents.expert import ExpertAgent
from agentgym_py.agents.random import RandomAgent
from agentgym_py.errors import ConfigError

_LOADED = 4
"""Checkpoints that a process keeps."""


class Partner(NamedTuple):
    """An agent and what tells it from others."""

    agent: Agent
    identity: str
    """Its kind, or the digest of its weights."""


def partner_agent(kind: Literal["fair", "expert", "random"]) -> Partner:
    """Return a partner by its kind."""
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
    from agentgym_py.agents.model import ModelAgent
    from agentgym_py.engine import HFEngine, SamplingParams
    from agentgym_py.policy import Policy

    policy = Policy.load(folder)
    agent = ModelAgent(policy, HFEngine(policy), SamplingParams(temperature=0.0, max_new_tokens=64))
    return Partner(agent, agent.policy_digest)
