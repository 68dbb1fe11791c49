"""Self-consistency: a try scores by how many other tries at its task end with the same answer.

    score of a try = (other tries of its group with an equal answer) / (tries of its group - 1)

This is the vote share of Wang et al. 2022 (arXiv:2203.11171) without the try's own vote. As a reward it needs neither a
world nor a judge (TTRL, arXiv:2504.16084). It rewards agreement, also on a wrong answer. An episode that its world did
not end has no answer: it scores 0, and counts among the other tries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agentgym_py import registry
from agentgym_py.feedback.types import EpisodeRef, Feedback, NoFeedback, ScoreFeedback
from agentgym_py.rewards.outcomes import final_answer, is_equal
from agentgym_py.rewards.relative_judge import group_by_start
from agentgym_py.trajectory import Trajectory

_NAME = "self_consistency"
ALONE = "it is the only try at its task, so nothing can agree with it"


@dataclass(frozen=True, slots=True)
class SelfConsistency:
    """Scores by agreement: the share of the other tries at a task that end with the same answer."""

    least_attempts: ClassVar[int] = 2

    answer: str | None = None
    """`FILE.py:name`, a function from a trajectory to its answer, a text; None: the argument of the last action, or the
    whole action if it has none. Equal numbers are equal; of texts, case, punctuation and articles do not count."""

    def __post_init__(self) -> None:
        if self.answer is not None:
            self._load(self.answer)

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        """Score the episodes among the others with the same task and start."""
        found: list[Feedback] = [
            NoFeedback(EpisodeRef.of(t), "without a step, or ended by an infrastructure error", _NAME)
            for t in trajectories
        ]
        tries = [number for number, t in enumerate(trajectories) if t.steps and t.is_evidence]
        for group in group_by_start([trajectories[number] for number in tries]):
            places = [tries[position] for position in group]
            for place, item in zip(places, self._score([trajectories[place] for place in places]), strict=True):
                found[place] = item
        return found

    def _score(self, group: Sequence[Trajectory]) -> list[Feedback]:
        """Score the tries of one group."""
        refs = [EpisodeRef.of(trajectory) for trajectory in group]
        if len(group) == 1:
            return [NoFeedback(refs[0], ALONE, _NAME)]
        try:
            answers = [self._answer(trajectory) if trajectory.terminated else None for trajectory in group]
        except Exception as error:  # a user's function may raise anything
            return [NoFeedback(ref, registry.describe_error(error), _NAME) for ref in refs]
        others = [[*answers[:number], *answers[number + 1 :]] for number in range(len(answers))]
        votes = [sum(_agrees(answer, other) for other in rest) for answer, rest in zip(answers, others, strict=True)]
        scores = [number / (len(group) - 1) for number in votes]
        return [ScoreFeedback(ref, score, {}, "", _NAME) for ref, score in zip(refs, scores, strict=True)]

    def _answer(self, trajectory: Trajectory) -> str:
        return str(self._load(self.answer)(trajectory)) if self.answer else final_answer(trajectory)

    def _load(self, source: str) -> Callable[[Trajectory], object]:
        function: Callable[[Trajectory], object] = registry.load("agentgym.rewards", source)
        return function


def _agrees(answer: str | None, other: str | None) -> bool:
    return answer is not None and other is not None and is_equal(answer, other)
