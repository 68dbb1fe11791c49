"""Feedback on stored episodes: scores, comparisons and corrections, and where they come from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, runtime_checkable

from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

GOOD = 0.5
"""Score from which an episode counts as good."""
BROKEN = "ended by an infrastructure error"
"""Why an episode that is no evidence about its agent has no feedback."""


@dataclass(frozen=True, slots=True)
class EpisodeRef:
    """The name of an episode, and what happened in it."""

    id: str
    """The trajectory's id."""
    digest: str
    """First 16 hex digits of the SHA-256 of its task, observations and replies; the same in every format."""

    @classmethod
    def of(cls, trajectory: Trajectory) -> EpisodeRef:
        """Return the name of a trajectory."""
        turns = [(step.observation, step.reply) for step in trajectory.steps]
        content = (*trajectory.provenance.task_key, trajectory.rules, turns, trajectory.final_observation)
        return cls(trajectory.id, hashlib.sha256(repr(content).encode()).hexdigest()[:16])


@dataclass(frozen=True, slots=True)
class ScoreFeedback:
    """How good an episode is."""

    episode: EpisodeRef
    score: float
    """From 0 to 1; at least 0.5 is good."""
    dimensions: Mapping[str, float] = field(default_factory=dict)
    """What the score is made of, by name, each from 0 to 1."""
    reason: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class ComparisonFeedback:
    """Which of two episodes with the same start is better."""

    better: EpisodeRef
    worse: EpisodeRef
    reason: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class CorrectionFeedback:
    """A better reply at a step of an episode."""

    episode: EpisodeRef
    step: int
    """Number of the step, from 0."""
    reply: str
    """The whole reply, as the agent should have written it."""
    reason: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class NoFeedback:
    """Why an episode has no feedback."""

    episode: EpisodeRef
    reason: str
    source: str = ""
    may_succeed: bool = False
    """Whether the source may have feedback if it is asked again, such as a model that gave no readable answer."""


Feedback: TypeAlias = ScoreFeedback | ComparisonFeedback | CorrectionFeedback | NoFeedback


@runtime_checkable
class FeedbackSource(Protocol):
    """A plugin of the group `agentgym.feedback`: a dataclass, instantiated with its settings."""

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        """Return the feedback on these trajectories, among which are all episodes of each of their tasks.

        Raises:
            EndpointError: the source is an endpoint that refuses, is broken or gave no answer at all.
        """
        ...


@runtime_checkable
class FileSource(FeedbackSource, Protocol):
    """A source that only reads files, such as people's verdicts: it gets all trajectories at once."""

    def input_files(self) -> list[Path]:
        """Return the files. Feedback that was begun with other content of theirs is not resumed."""
        ...


@runtime_checkable
class ComparesAttempts(Protocol):
    """A source that compares the attempts at a task, so that it has nothing to say of one alone."""

    least_attempts: ClassVar[int]
    """Attempts that it needs."""


@runtime_checkable
class ReadsTokens(Protocol):
    """A source whose model reads the tokens of a policy, so that it needs the same tokenizer."""

    def check_policy(self, policy: Policy) -> None:
        """Raise ConfigError if it cannot read what a policy writes."""
        ...


def scores_of(feedback: Iterable[Feedback]) -> dict[str, ScoreFeedback]:
    """Return the scores by their episode's digest; of several the last one."""
    return {item.episode.digest: item for item in feedback if isinstance(item, ScoreFeedback)}
