"""Reward functions of an outcome, against hand-computed episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job
from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.errors import ConfigError, DataError
from agentgym_py.rewards.functions import build_reward
from agentgym_py.rewards.outcomes import Accuracy, LengthPenalty, StepBonus, efficiency, final_answer, is_equal
from agentgym_py.trajectory import Tokens, Trajectory
from agentgym_py.trajectory.scores import apply_scores
from agentgym_py.trajectory.types import Usage

Make = Callable[..., Trajectory]


def rewards_of(text: str, trajectory: Trajectory, **settings: Any) -> list[float]:
    """Return the rewards of an episode's steps by a reward function of this name."""
    (scored,) = apply_scores([trajectory], build_reward(text, settings))
    assert scored.reward == sum(step.reward for step in scored.steps)
    return [step.reward for step in scored.steps]


def with_rewards(trajectory: Trajectory, *rewards: float) -> Trajectory:
    """Return the episode with these rewards."""
    steps = tuple(replace(step, reward=reward) for step, reward in zip(trajectory.steps, rewards, strict=True))
    return replace(trajectory, steps=steps, reward=sum(rewards))


def test_success_and_the_worlds_return(episode: Make) -> None:
    """`success` is paid at the end, `return` as the world paid it, which by itself is no scorer at all."""
    trajectory = with_rewards(episode("a", "b", "c"), 0.25, 0.0, 0.5)
    assert rewards_of("success", trajectory) == [0.0, 0.0, 1.0]
    assert rewards_of("success", replace(trajectory, success=False)) == [0.0, 0.0, 0.0]
    assert rewards_of("2*return", trajectory) == [0.5, 0.0, 1.0]
    assert build_reward(None) is build_reward("return") is build_reward("1.0*return") is None


@pytest.mark.parametrize(
    ("steps", "optimal", "success", "expected"),
    [(4, 3, True, 0.75), (3, 3, True, 1.0), (2, 3, True, 1.0), (4, 3, False, 0.0), (4, None, False, 0.0)],
)
def test_efficiency(episode: Make, steps: int, optimal: int | None, success: bool, expected: float) -> None:
    """The optimal number of steps by the actual one, at most 1, and 0 for a failure."""
    assert efficiency(episode(*["a"] * steps, optimal_steps=optimal, success=success)) == expected


def test_the_exact_experts_steps_are_optimal_if_the_task_does_not_say() -> None:
    """They are counted in the episode's world, from its start."""
    trajectory = Collector(ExpertAgent()).collect(Job(EnvSpec("maze", {"difficulty": "easy"}), 1))
    assert efficiency(replace(trajectory, optimal_steps=None)) == 1.0
    twice = replace(trajectory, optimal_steps=None, steps=trajectory.steps * 2)
    assert efficiency(twice) == 0.5


@pytest.mark.parametrize(
    ("answer", "truth", "equal"),
    [
        ("42", "42.0", True), ("1,234.50", "$1234.5", True), ("-3e2", "-300", True), ("0.3333333", "0.33333333", True),
        ("42", "43", False), ("0.33", "0.3333", False), ("12 %", "12", True), ("-", "3", False),
        ("The  Red cup.", "red cup", True), ("red cup", "blue cup", False), ("42 cups", "42", False), ("", "0", False),
        ("well-known cup!", "Well known cup", True), ("red - cup", "red cup", True), ("**12**", "12", True),
        ("-1/2", "1/2", False), ("-1/2", "\N{MINUS SIGN}1 / 2.", True), ("x-1", "x+1", False), ("X + 1", "x+1", True),
        ("-$5", "5", False), ("<5", ">5", False), ("3:2", "3/2", False), ("C++", "C", False), ("-", "+", False),
        ("2*(x+1)", "2*x+1", False), ("2 * (x + 1)", "2*(x+1)", True), ("1-2", "1 2", False),
        ("?", "A", False), ("", "A", False), ("the", "a", False), ("A.", "a", True), ("\N{MINUS SIGN}5", "-5", True),
    ],
)  # fmt: skip
def test_answers_are_compared_as_numbers_or_as_normalised_text(answer: str, truth: str, equal: bool) -> None:
    """Within a tolerance, or without case, punctuation, articles and spaces; the signs of a formula count."""
    assert is_equal(answer, truth) is is_equal(truth, answer) is equal


def test_accuracy_compares_the_final_answer_with_the_truth(episode: Make, tmp_path: Path) -> None:
    """The truth is that of a function; without one the world judges, and a missing function is refused at once."""
    right, wrong = episode("look", "finish[ 12.0000001 ]", success=False), episode("finish[13]")
    assert final_answer(right) == " 12.0000001 " and final_answer(episode("done")) == "done"
    (tmp_path / "outcome_truth.py").write_text("def truth(trajectory):\n    return 12\n")
    source = f"{tmp_path / 'outcome_truth.py'}:truth"
    assert [Accuracy(source)(t) for t in (right, wrong)] == [1.0, 0.0]
    assert [Accuracy(source, tolerance=0.1)(t) for t in (right, wrong)] == [1.0, 1.0]
    assert [Accuracy()(t) for t in (right, wrong)] == [0.0, 1.0]
    unfinished = [replace(right, stop_reason=reason) for reason in (StopReason.TRUNCATED, StopReason.GAVE_UP, None)]
    assert [Accuracy(source)(t) for t in unfinished] == [0.0, 0.0, 1.0], "an action before the end is no final answer"
    for settings, message in ({"tolerance": -1.0}, "tolerance must be"), ({"truth": 3}, "truth must be text or None"):
        with pytest.raises(ConfigError, match=f"reward accuracy: {message}"):
            build_reward("accuracy", settings)
    with pytest.raises(LookupError, match="no such file"):
        build_reward("accuracy", {"truth": "no_truth.py:truth"})


def test_length_penalty(episode: Make) -> None:
    """Accuracy less alpha for each token that the agent wrote, or each step, beyond the target."""
    trajectory = episode("a", "b", "c")
    tokens = Tokens((1,), (2, 3, 4, 5), (0.0,) * 4, (1, 1, 1, 0))  # 3 that the agent wrote
    replies = [
        replace(trajectory.steps[0], tokens=tokens),
        replace(trajectory.steps[1], tokens=tokens, trained=False),
        replace(trajectory.steps[2], usage=Usage(9, 4)),
    ]
    written = replace(trajectory, steps=tuple(replies))
    assert LengthPenalty(alpha=0.1, target=5)(written) == {"accuracy": 1.0, "length": pytest.approx(-0.2)}
    assert LengthPenalty(alpha=0.1, target=7)(replace(written, success=False)) == {"accuracy": 0.0, "length": 0.0}
    assert rewards_of("length_penalty", trajectory, alpha=0.25, target=1, unit="steps") == [0.0, 0.0, 0.5]
    with pytest.raises(DataError, match="tokens of step 1 are unknown; unit steps counts steps"):
        LengthPenalty()(trajectory)


def test_step_bonus(episode: Make) -> None:
    """Accuracy and beta for each valid step, up to a cap."""
    trajectory = episode("a", "b", "c", "d")
    steps = (replace(trajectory.steps[0], valid=False), *trajectory.steps[1:])
    assert StepBonus(beta=0.1)(replace(trajectory, steps=steps)) == {"accuracy": 1.0, "steps": pytest.approx(0.3)}
    assert StepBonus(beta=0.1, cap=2)(replace(trajectory, success=False)) == {"accuracy": 0.0, "steps": 0.2}
