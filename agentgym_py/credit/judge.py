"""A judge as an estimator of advantages: how much a step raises the judge's score of the episode so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from statistics import fmean

from agentgym_py.credit.estimators import CreditSample
from agentgym_py.errors import ConfigError
from agentgym_py.feedback.types import EpisodeRef, FeedbackSource, NoFeedback, ScoreFeedback
from agentgym_py.trajectory import Trajectory


@dataclass
class Judge:
    """The gain in the score of a feedback source, such as an LLM or a reward model, which reads the episode so far.

    A(s_t, a_t) = S(o_0, a_0, …, a_t, o_t+1) - S(o_0, a_0, …, o_t), with scores S from 0 to 1. This is a potential of
    the state as in Ng et al. (1999). Before the first step there is nothing to judge. All episodes of a group begin in
    the same state, so the mean score after their first steps stands for its value.
    """

    source: FeedbackSource
    _scores: dict[str, float] = field(default_factory=dict, init=False, repr=False)

    def prepare(self, samples: Sequence[CreditSample]) -> None:
        """Ask the source for all scores that these samples need, each once.

        Raises:
            ConfigError: the source has no score of an episode.
        """
        self._judge(before for sample in samples for before in self._compared(sample))

    def __call__(self, sample: CreditSample) -> float:
        """Return the advantage of a step.

        Raises:
            ConfigError: the source has no score of an episode.
        """
        after, *before = self._judge(self._compared(sample))
        return after - fmean(before)

    def _compared(self, sample: CreditSample) -> list[Trajectory]:
        """Return the episode after the step, then what stands for the state before it."""
        after = so_far(sample.episode, sample.step + 1)
        if sample.step:
            return [after, so_far(sample.episode, sample.step)]
        return [after, *(so_far(episode, 1) for episode in sample.group if episode.steps)]

    def _judge(self, episodes: Iterable[Trajectory]) -> list[float]:
        named = [(EpisodeRef.of(episode).digest, episode) for episode in episodes]
        if unknown := {digest: episode for digest, episode in named if digest not in self._scores}:
            for item in self.source.feedback([*unknown.values()]):
                if isinstance(item, NoFeedback):
                    raise ConfigError(f"the judge has no score of {item.episode.id}: {item.reason}")
                if isinstance(item, ScoreFeedback):
                    self._scores[item.episode.digest] = item.score
            if unscored := next((episode.id for digest, episode in unknown.items() if digest not in self._scores), ""):
                raise ConfigError(f"the judge must score episodes, and gave no score of {unscored}")
        return [self._scores[digest] for digest, _ in named]


def so_far(episode: Trajectory, steps: int) -> Trajectory:
    """Return the beginning of an episode, with the observation that followed; the episode itself if it has no more.

    Steps before a fork count as all others, because the score is one of the state and not of who acted.
    """
    kept = tuple(replace(step, trained=True) for step in episode.steps[:steps])
    if steps >= len(episode.steps):
        return replace(episode, steps=kept)
    return replace(
        episode, id=f"{episode.id}, step {steps}", steps=kept, final_observation=episode.steps[steps].observation,
        reward=fsum(step.reward for step in kept), success=False, stop_reason=None,
    )  # fmt: skip
