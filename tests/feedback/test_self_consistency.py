"""Self-consistency: the share of the other tries that end with the same answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_py import trust
from agentgym_py.env import StopReason
from agentgym_py.feedback import EpisodeRef, NoFeedback, ScoreFeedback
from agentgym_py.feedback.self_consistency import ALONE, SelfConsistency
from agentgym_py.rewards.outcomes import final_answer, is_equal
from agentgym_py.trajectory import Trajectory

Make = Callable[..., Trajectory]


def scores(tries: list[Trajectory], answer: str | None = None) -> list[float | str]:
    """The score of each, or why it has none."""
    found = SelfConsistency(answer).feedback(tries)
    assert all(isinstance(item, ScoreFeedback | NoFeedback) for item in found)
    return [item.score if isinstance(item, ScoreFeedback) else getattr(item, "reason", "") for item in found]


def test_tries_that_end_alike_agree(episode: Make) -> None:
    """Case and articles do not count, the way there does not; an episode that did not end scores 0 and counts."""
    tries = [
        episode("a", "buy[the red cup]"), episode("buy[Red Cup]"), episode("b", "buy[mug]"),
        episode("c", "buy[red cup]", stop_reason=StopReason.TRUNCATED),
    ]  # fmt: skip
    assert scores(tries) == [pytest.approx(1 / 3), pytest.approx(1 / 3), 0.0, 0.0]
    other = episode("buy[mug]", id="o", rules="Other rules.")
    broken = episode("buy[mug]", stop_reason=StopReason.ERROR, error="gone")
    assert scores([*tries, other, broken])[4:] == [ALONE, "without a step, or ended by an infrastructure error"]
    assert [getattr(item, "episode", None) for item in SelfConsistency().feedback([*tries, other])] == [
        EpisodeRef.of(t) for t in [*tries, other]
    ]


EQUAL = ["5", "5.", "the 5", "5.0", "-5", "\N{MINUS SIGN}5", "0.3333333", "0.33333333", "?", "A", "a", "", "1/2", "0.5"]


@given(answers=st.lists(st.sampled_from(EQUAL) | st.text("aA5.-? ", max_size=4), min_size=2, max_size=4))
def test_equal_answers_agree(answers: list[str], episode: Make) -> None:
    """Whatever `is_equal` finds equal counts as the same answer."""
    tries = [episode(f"step {n}", id=str(n)) for n in range(len(answers))]
    tries = [
        replace(t, steps=(*t.steps[:-1], replace(t.steps[-1], action=a))) for t, a in zip(tries, answers, strict=True)
    ]
    finals = [final_answer(t) for t in tries]
    expected = [
        sum(is_equal(first, other) for m, other in enumerate(finals) if m != n) / (len(finals) - 1)
        for n, first in enumerate(finals)
    ]
    assert scores(tries) == pytest.approx(expected)


@given(answers=st.lists(st.sampled_from("abc"), min_size=2, max_size=7))
def test_a_score_is_the_share_of_pairs_that_agree(answers: list[str], episode: Make) -> None:
    """Beside a slow count over all pairs of the group."""
    tries = [episode(f"step {n}", f"say[{answer}]", id=str(n)) for n, answer in enumerate(answers)]
    agree = [0] * len(tries)
    for first, second in combinations(range(len(tries)), 2):
        if answers[first] == answers[second]:
            agree[first] += 1
            agree[second] += 1
    assert scores(tries) == pytest.approx([number / (len(tries) - 1) for number in agree])


def test_an_answer_of_ones_own(episode: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function from a trajectory to a text; its error is the reason that the group has no score."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_answer.py").write_text(
        "def first(trajectory):\n    return trajectory.steps[0].action\n\n\n"
        "def broken(trajectory):\n    raise ValueError('no answer')\n"
    )
    tries = [episode("a", "x"), episode("a", "y")]
    with trust.naming(["judge", "--source.answer", "own_answer.py:first", "--source.answer", "own_answer.py:broken"]):
        assert scores(tries) == [0.0, 0.0] and scores(tries, "own_answer.py:first") == [1.0, 1.0]
        (reason, _) = SelfConsistency("own_answer.py:broken").feedback(tries)
    assert isinstance(reason, NoFeedback) and "no answer" in reason.reason
