"""Partners: the agents that play the other roles of a game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

from agentgym_py.agents.base import Agent, AgentReply, Episode, ReplyStream
from agentgym_py.agents.expert import ExpertAgent
from agentgym_py.agents.model import ModelAgent
from agentgym_py.agents.random import RandomAgent
from agentgym_py.checks import require_field_types
from agentgym_py.engine.base import CachingEngine
from agentgym_py.errors import ConfigError

PartnerKind = Literal["fair", "expert", "random", "recorded"]
_LOADED = 2
"""Checkpoints that a process keeps in memory until `release_partners`."""
_loading = Lock()
"""Held while a checkpoint is loaded, so that envs on several threads share one."""


@dataclass(frozen=True, slots=True)
class PartnerSettings:
    """How a checkpoint plays as a partner.

    Raises:
        ConfigError: a value is of another type.
    """

    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Data type of the weights."""
    quantize: Literal["8bit", "4bit"] | None = None
    """Quantize the linear layers to 8 or 4 bits."""
    device: str | None = None
    """Device; None: the GPU if there is one."""
    max_new_tokens: int = 96
    """Longest reply in tokens; the default is that of the worlds of several roles."""
    slots: int = 64
    """Episodes whose keys and values are cached."""
    kv_cache_gib: float | None = None
    """Memory for keys and values; see `HFEngine`."""

    def __post_init__(self) -> None:
        require_field_types(self)


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


def require_checkpoint(folder: Path) -> Path:
    """Return the absolute path of a partner's checkpoint, without loading it.

    Raises:
        ConfigError: there is no such folder.
        PolicyError: the folder is not a model.
    """
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise ConfigError(f"partner_model must be the folder of a checkpoint, and {folder} is none")
    from agentgym_py.policy.loading import require_model

    require_model(str(folder))
    return folder


def load_partner(folder: Path, settings: PartnerSettings = PartnerSettings()) -> Partner:
    """Load a checkpoint as a greedy partner; a process loads each once until `release_partners`.

    Raises:
        ConfigError, PolicyError: the folder is not a checkpoint, or the settings do not fit it.
    """
    folder = require_checkpoint(folder)
    changed = max((path.stat().st_mtime_ns for path in folder.iterdir()), default=0)
    with _loading:
        return _load(folder, settings, changed)


def release_partners() -> None:
    """Forget the loaded checkpoints, so that a training has their memory; envs that still use one keep it."""
    with _loading:
        _load.cache_clear()


@lru_cache(maxsize=_LOADED)
def _load(folder: Path, settings: PartnerSettings, changed: int) -> Partner:
    """Load a folder; `changed` makes the cache forget a folder that was written again."""
    del changed
    from agentgym_py.engine import HFEngine, SamplingParams
    from agentgym_py.policy import Policy

    policy = Policy.load(folder, dtype=settings.dtype, device=settings.device, quantize=settings.quantize)
    engine = HFEngine(policy, settings.slots, kv_cache_gib=settings.kv_cache_gib)
    agent = FrozenModel(policy, engine, SamplingParams(temperature=0.0, max_new_tokens=settings.max_new_tokens))
    return Partner(agent, agent.policy_digest)
