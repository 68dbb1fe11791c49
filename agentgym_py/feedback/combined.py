"""Several files of feedback as one: the weighted mean of their scores, the minimum, or a majority."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from agentgym_py.checks import is_finite, require_field_types
from agentgym_py.errors import ConfigError
from agentgym_py.feedback.store import read_feedback
from agentgym_py.feedback.types import (
    GOOD,
    ComparisonFeedback,
    CorrectionFeedback,
    EpisodeRef,
    Feedback,
    NoFeedback,
    ScoreFeedback,
    scores_of,
)
from agentgym_py.trajectory import Trajectory

Rule = Literal["mean", "minimum", "majority"]
T = TypeVar("T", bound=Hashable)
_NAME = "combined"


class Vote(NamedTuple):
    """What a source says of an episode, with the weight of the source."""

    score: ScoreFeedback
    weight: float


@dataclass(frozen=True, slots=True)
class Combined:
    """Feedback of several sources, from their files, combined."""

    files: list[str] = field(default_factory=list)
    """Files of feedback (required), each made by a source."""
    weights: list[float] = field(default_factory=list)
    """Weight of each file, for the rules mean and majority; by default all alike."""
    rule: Rule = "mean"
    """Score of an episode: the weighted `mean`, the `minimum`, or 1 if a weighted `majority` finds it good, else 0."""

    def __post_init__(self) -> None:
        require_field_types(self)
        if len(self.files) < 2:
            raise ConfigError(f"files must name at least two files of feedback, got {len(self.files)}")
        if self.weights and len(self.weights) != len(self.files):
            raise ConfigError(f"weights must be {len(self.files)} numbers, one for each file, got {len(self.weights)}")
        if not all(is_finite(weight) and weight > 0 for weight in self.weights):
            raise ConfigError(f"weights must be numbers above 0, got {self.weights}")

    def input_files(self) -> list[Path]:
        """Return the files of feedback."""
        return [Path(file) for file in self.files]

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        """Combine what the files say of these episodes.

        Raises:
            DataError: a file is missing or broken.
        """
        weights = self.weights or [1.0] * len(self.files)
        sources = [read_feedback(file) for file in self.files]
        return combine([EpisodeRef.of(t) for t in trajectories], sources, weights, self.rule)


def combine(
    episodes: Sequence[EpisodeRef], sources: Sequence[Sequence[Feedback]], weights: Sequence[float], rule: Rule
) -> list[Feedback]:
    """Combine the feedback of several sources on some episodes.

    A source without a score of an episode does not count there. A pair is kept if a weighted majority orders it one
    way (`minimum`: if all sources do), a correction if no other reply at its step has more weight (`minimum`: if no
    source has another reply there); of equal weights the first source's counts.
    """
    of_source, refs = [scores_of(source) for source in sources], {ref.digest: ref for ref in episodes}
    combined = list[Feedback]()
    for ref in episodes:
        votes = [
            Vote(scores[ref.digest], weight)
            for scores, weight in zip(of_source, weights, strict=True) if ref.digest in scores
        ]  # fmt: skip
        combined.append(_score(ref, votes, rule) if votes else NoFeedback(ref, "no source has a score", _NAME))
    return [*combined, *_comparisons(refs, sources, weights, rule), *_corrections(refs, sources, weights, rule)]


def _score(ref: EpisodeRef, votes: Sequence[Vote], rule: Rule) -> Feedback:
    if rule == "minimum":
        return ScoreFeedback(ref, min(vote.score.score for vote in votes), _dimensions(votes), "", _NAME)
    total = math.fsum(vote.weight for vote in votes)
    if rule == "mean":
        mean = math.fsum(vote.weight * vote.score.score for vote in votes) / total
        return ScoreFeedback(ref, min(1.0, max(0.0, mean)), _dimensions(votes), "", _NAME)
    good = math.fsum(vote.weight for vote in votes if vote.score.score >= GOOD)
    if math.isclose(2 * good, total):
        return NoFeedback(ref, "as many sources find it good as bad", _NAME)
    return ScoreFeedback(ref, float(2 * good > total), _dimensions(votes), "", _NAME)


def _dimensions(votes: Sequence[Vote]) -> dict[str, float]:
    """Return the score of each source; of two with one name the last one's."""
    return {vote.score.source or "unnamed": vote.score.score for vote in votes}


def _comparisons(
    refs: Mapping[str, EpisodeRef], sources: Sequence[Sequence[Feedback]], weights: Sequence[float], rule: Rule
) -> list[Feedback]:
    votes: dict[frozenset[str], dict[tuple[str, str], float]] = defaultdict(lambda: defaultdict(float))
    for source, weight in zip(sources, weights, strict=True):
        orders = {(c.better.digest, c.worse.digest) for c in source if isinstance(c, ComparisonFeedback)}
        for order in sorted(orders):
            if refs.keys() >= set(order) and order[::-1] not in orders:  # else the source contradicts itself
                votes[frozenset(order)][order] += weight
    winners = [_winner(of_pair, rule) for of_pair in votes.values()]
    return [ComparisonFeedback(refs[pair[0]], refs[pair[1]], "", _NAME) for pair in winners if pair]


def _corrections(
    refs: Mapping[str, EpisodeRef], sources: Sequence[Sequence[Feedback]], weights: Sequence[float], rule: Rule
) -> list[Feedback]:
    votes: dict[tuple[str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for source, weight in zip(sources, weights, strict=True):
        corrections = (item for item in source if isinstance(item, CorrectionFeedback) and item.episode.digest in refs)
        for digest, step, reply in dict.fromkeys((c.episode.digest, c.step, c.reply) for c in corrections):
            votes[digest, step][reply] += weight
    combined = list[Feedback]()
    for (digest, step), of_step in sorted(votes.items(), key=lambda item: item[0]):
        if rule != "minimum" or len(of_step) == 1:
            reply = max(of_step, key=lambda reply: of_step[reply])  # of equal ones the first source's
            combined.append(CorrectionFeedback(refs[digest], step, reply, "", _NAME))
    return combined


def _winner(votes: Mapping[T, float], rule: Rule) -> T | None:
    """Return what has the most weight; None for a tie, or with `minimum` unless it is the only one."""
    (best, most), *others = sorted(votes.items(), key=lambda item: -item[1])
    if not others:
        return best
    return None if rule == "minimum" or math.isclose(most, others[0][1]) else best
