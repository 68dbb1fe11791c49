"""Reward functions of an episode's outcome: success, return, accuracy, and accuracy with a price or a bonus."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from agentgym_py import registry
from agentgym_py.checks import require_at_least
from agentgym_py.collection.expert_plans import play_expert
from agentgym_py.env.actions import Reply
from agentgym_py.errors import DataError
from agentgym_py.trajectory import Trajectory

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:e[-+]?\d+)?", re.ASCII)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_SPACED_SIGN = re.compile(r"\s*([-+*/^=<>])\s*")
_SIGN = re.compile(r"[+^=<>]|(?<=[\w)])[*/]+(?=[\w(])|(?<![^\W\d_])-|-(?![^\W\d_])")
_SIGN_OR_BRACKET = re.compile(rf"[()]|{_SIGN.pattern}")


def success(trajectory: Trajectory) -> float:
    """Return 1 for success, else 0."""
    return float(trajectory.success)


def step_rewards(trajectory: Trajectory) -> list[float]:
    """Return the world's own rewards, step by step."""
    return [step.reward for step in trajectory.steps]


def efficiency(trajectory: Trajectory) -> float:
    """Return optimal / actual steps, at most 1; 0 without success, because otherwise an early end would pay.

    If the task's optimal number of steps is unknown, it is that of the exact expert.
    """
    if not trajectory.success:
        return 0.0
    optimal = trajectory.optimal_steps
    if optimal is None:
        with closing(trajectory.replay_spec().make()) as env:
            optimal = len(play_expert(env, trajectory, fair=False).tools)
    return min(1.0, optimal / max(len(trajectory.steps), 1))


# ---- accuracy --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AccuracySettings:
    """Where the right answer comes from, and when two answers are equal.

    Without `truth` the world judges: its success. With it the final answer, which is the argument of the last action,
    must equal the truth as a number or as text. An episode that reached its step limit, or that the agent gave up, has
    no final answer.
    """

    truth: str | None = None
    """Source of the right answers: `FILE.py:name`, a function from a trajectory to a text or a number."""
    tolerance: float = 1e-6
    """Largest difference of equal numbers, relative to the truth or absolute."""

    def __post_init__(self) -> None:
        require_at_least(self, {"tolerance": 0.0})
        if self.truth is not None:
            self._load(self.truth)

    def accuracy(self, trajectory: Trajectory) -> float:
        """Return 1 if the final answer equals the truth, else 0."""
        if self.truth is None:
            return float(trajectory.success)
        if trajectory.truncated or trajectory.given_up:
            return 0.0
        truth = str(self._load(self.truth)(trajectory))
        return float(is_equal(final_answer(trajectory), truth, self.tolerance))

    def _load(self, source: str) -> Callable[[Trajectory], object]:
        function: Callable[[Trajectory], object] = registry.load("agentgym.rewards", source)
        return function


@dataclass(frozen=True, slots=True)
class Accuracy(AccuracySettings):
    """1 if the final answer equals the truth, else 0."""

    def __call__(self, trajectory: Trajectory) -> float:
        """Return the accuracy of an episode."""
        return self.accuracy(trajectory)


def final_answer(trajectory: Trajectory) -> str:
    """Return the argument of the last action, or the whole action if it has none."""
    last = trajectory.steps[-1]
    arguments = Reply(last.action, "", last.action_input)
    return arguments.argument or last.action


def is_equal(answer: str, truth: str, tolerance: float = 1e-6) -> bool:
    """Return whether two answers are equal: as numbers if both are numbers, else as text.

    Texts are compared without case, punctuation, articles and repeated spaces (SQuAD, arXiv:1606.05250). Signs of a
    formula are no punctuation: -1/2 differs from 1/2, and x-1 from x+1. A hyphen between letters is no sign.
    """
    first, second = _number(answer), _number(truth)
    if first is not None and second is not None:
        return math.isclose(first, second, rel_tol=tolerance, abs_tol=tolerance)
    return _normalised(answer) == _normalised(truth) and _signs(answer) == _signs(truth)


def _number(text: str) -> float | None:
    text = text.strip().lstrip("$€£").rstrip("%").strip().lower()
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return float(text.replace(",", ""))
    except ValueError:  # a sign or an exponent alone
        return None


def _normalised(text: str) -> str:
    """Return a text as `is_equal` compares it; one of articles alone keeps them."""
    words = _PUNCTUATION.sub(" ", text.casefold())
    return " ".join(_ARTICLES.sub(" ", words).split()) or " ".join(words.split())


def _signs(text: str) -> list[str]:
    """Return the signs of a formula in their order, with its brackets; empty for other texts."""
    dense = _SPACED_SIGN.sub(r"\1", text.replace("\N{MINUS SIGN}", "-"))
    return _SIGN_OR_BRACKET.findall(dense) if _SIGN.search(dense) else []


# ---- accuracy with a price or a bonus --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LengthPenalty(AccuracySettings):
    """Accuracy - alpha * max(0, length - target)."""

    alpha: float = 0.001
    """Price of each token or step beyond the target."""
    target: float = 100.0
    """Length that costs nothing."""
    unit: Literal["tokens", "steps"] = "tokens"
    """What the length counts: tokens that the agent wrote, or steps."""

    def __post_init__(self) -> None:
        AccuracySettings.__post_init__(self)
        require_at_least(self, {"alpha": 0.0, "target": 0.0})

    def __call__(self, trajectory: Trajectory) -> dict[str, float]:
        """Return accuracy and penalty of an episode."""
        length = len(trajectory.steps) if self.unit == "steps" else agent_tokens(trajectory)
        penalty = self.alpha * max(0.0, length - self.target)
        return {"accuracy": self.accuracy(trajectory), "length": -penalty}


def agent_tokens(trajectory: Trajectory) -> int:
    """Return the number of tokens that the agent wrote in the turns that are trained on.

    Raises:
        DataError: the tokens of a reply are unknown.
    """
    number = 0
    for turn, step in enumerate(trajectory.steps):
        if not step.trained:
            continue
        if step.tokens is not None:
            number += sum(sum(record.mask) for record in step.token_records)
        elif step.usage is not None and step.usage.completion_tokens is not None:
            number += step.usage.completion_tokens
        else:
            raise DataError(f"{trajectory.id}: the tokens of step {turn + 1} are unknown; unit steps counts steps")
    return number


@dataclass(frozen=True, slots=True)
class StepBonus(AccuracySettings):
    """Accuracy + beta * the number of valid steps, capped."""

    beta: float = 0.01
    """Bonus of each valid step."""
    cap: int = 10
    """Largest number of steps with a bonus: without a cap, dawdling would pay."""

    def __post_init__(self) -> None:
        AccuracySettings.__post_init__(self)
        require_at_least(self, {"beta": 0.0, "cap": 0.0})

    def __call__(self, trajectory: Trajectory) -> dict[str, float]:
        """Return accuracy and bonus of an episode."""
        valid = sum(step.valid for step in trajectory.steps)
        return {"accuracy": self.accuracy(trajectory), "steps": self.beta * min(valid, self.cap)}
