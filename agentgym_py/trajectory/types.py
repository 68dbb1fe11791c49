"""Trajectories: what happened in an episode, token-exact where a model acted, with its provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.env.registration import REMOTE, short_name
from agentgym_py.errors import ConfigError
from agentgym_py.files import canonical_json


@dataclass(frozen=True, slots=True)
class Tokens:
    """One turn in token ids, as the engine saw and sampled them; text is never encoded again for training."""

    context: tuple[int, ...]
    """Ids that the turn added before the reply: the opening prompt, or the end of the last turn and the observation."""
    ids: tuple[int, ...]
    """Ids of the reply, the end of turn included."""
    logprobs: tuple[float, ...]
    """Log-probability of each reply id under the sampling distribution; 0.0 where `mask` is 0."""
    mask: tuple[int, ...]
    """1 for an id that the model sampled, 0 for one put into its reply.

    `ModelAgent` puts in none: the end of turn after a reply that was cut stands first in the next `context`.
    """


@dataclass(frozen=True, slots=True)
class Usage:
    """What an endpoint counted for one reply."""

    prompt_tokens: int | None
    """None where it did not say, as below."""
    completion_tokens: int | None
    cost: float | None = None
    """By the prices that its user gave; None without them."""
    model: str = ""
    """What the endpoint calls the model that answered."""


@dataclass(frozen=True, slots=True)
class Step:
    """One turn: what the agent saw, said and got."""

    observation: str
    """What the agent saw before it acted."""
    reply: str
    """The agent's whole text."""
    thought: str
    action: str
    action_input: str | None
    reward: float
    valid: bool
    """Whether the world could do the action."""
    reward_parts: Mapping[str, float] = field(default_factory=dict)
    tokens: Tokens | None = None
    """The token record of a model's reply; None for an expert, a random agent or a person."""
    trained: bool = True
    """False where the reply must not be learned from (AgentTraj's `"loss": false`)."""
    usage: Usage | None = None
    """What an endpoint counted for the reply; None where none gave it."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """All that is needed to make a trajectory again."""

    env_id: str
    env_version: int
    env_kwargs: Mapping[str, Any]
    """Arguments of `gymnasium.make`."""
    task_id: str
    seed: int
    """Seed of the reply sampling of this episode."""
    agent: str
    """`expert`, `random`, ... or the policy's name."""
    policy_digest: str | None = None
    """SHA-256 of the weights that acted."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters of the engine."""
    prompt: str = "full"
    """Which rules text opened the episode."""
    package_version: str = ""
    env_seed: int = 0
    """Seed of the world's generator at the reset; the same for all tries at a task, so that they start alike."""

    @property
    def task_key(self) -> tuple[str, str, str]:
        """What makes a task the same: its id in the same world, made with the same arguments."""
        return self.env_id, canonical_json(self.env_kwargs), self.task_id


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode."""

    id: str
    """Unique within its store."""
    provenance: Provenance
    split: str
    kind: str
    difficulty: str
    instruction: str
    rules: str
    """The rules text that opened the episode, before the first observation; may be empty."""
    steps: tuple[Step, ...]
    final_observation: str
    reward: float
    """The episode's return."""
    success: bool
    stop_reason: StopReason | None
    """How the episode ended; None if the foreign file that it is from does not say."""
    optimal_steps: int | None = None
    error: str | None = None
    """What failed, if `stop_reason` is `ERROR`; a trajectory with an error always has that reason."""

    def __post_init__(self) -> None:
        if self.error is not None:
            object.__setattr__(self, "stop_reason", StopReason.ERROR)

    @property
    def terminated(self) -> bool:
        """Whether the world ended the episode."""
        return self.stop_reason is StopReason.TERMINATED

    @property
    def truncated(self) -> bool:
        """Whether the world's step limit cut the episode; False if the agent gave up or infrastructure failed."""
        return self.stop_reason is StopReason.TRUNCATED

    @property
    def given_up(self) -> bool:
        """Whether the agent ended the episode."""
        return self.stop_reason is StopReason.GAVE_UP

    @property
    def is_evidence(self) -> bool:
        """Whether the episode says anything about its agent: not if an infrastructure failure ended it."""
        return self.stop_reason is not StopReason.ERROR

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self.provenance.task_id

    @property
    def has_tokens(self) -> bool:
        """Whether every reply has its token record."""
        return bool(self.steps) and all(step.tokens is not None for step in self.steps)

    def env_spec(self) -> EnvSpec:
        """Return how the environment of this episode is made.

        Raises:
            ConfigError: the trajectory names a server. Stored trajectories of this package never do, and a foreign
                file must not send the user's token to its author.
        """
        made = self.provenance
        if made.env_id in (REMOTE, short_name(REMOTE)):
            raise ConfigError(f"{self.id} names a server ({REMOTE}): stored trajectories name the world itself")
        return EnvSpec(made.env_id, made.env_kwargs)


@dataclass(frozen=True, slots=True)
class Preference:
    """Two episodes that open with the same rules and observation; the first is the better one."""

    id: str
    chosen: Trajectory
    rejected: Trajectory


def opening_text(rules: str, observation: str) -> str:
    """The first user turn: the rules, if any, and the first observation."""
    return f"{rules}\n\n{observation}" if rules else observation
