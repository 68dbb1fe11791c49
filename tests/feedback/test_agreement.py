"""Agreement of feedback with the world's truth, against definitions written out as loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_py.env import StopReason
from agentgym_py.evolution.critic import critic_metrics
from agentgym_py.feedback import ComparisonFeedback, CorrectionFeedback, EpisodeRef, Feedback, NoFeedback, ScoreFeedback
from agentgym_py.feedback.agreement import agreement, calibration_error, kendall_tau
from agentgym_py.trajectory import Trajectory

Make = Callable[..., Trajectory]
numbers = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)


def slow_tau(first: list[int], second: list[int]) -> float | None:
    """(C - D) / sqrt((P - T1) (P - T2)), pair by pair."""
    concordant = discordant = untied_first = untied_second = 0
    for i, j in combinations(range(len(first)), 2):
        sign = (first[i] - first[j]) * (second[i] - second[j])
        concordant += sign > 0
        discordant += sign < 0
        untied_first += first[i] != first[j]
        untied_second += second[i] != second[j]
    return (concordant - discordant) / math.sqrt(untied_first * untied_second) if untied_first * untied_second else None


@given(pairs=numbers)
def test_kendalls_tau(pairs: list[tuple[int, int]]) -> None:
    """With ties in either row."""
    first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    expected = slow_tau(first, second)
    found = kendall_tau(first, second)
    assert found == (expected if expected is None else pytest.approx(expected))


@given(pairs=st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30))
def test_calibration_error(pairs: list[tuple[float, bool]]) -> None:
    """Bins of a tenth, the last of which has its upper end, weighed by their episodes."""
    total = 0.0
    for number in range(10):
        rows = [(s, good) for s, good in pairs if min(int(s * 10), 9) == number]
        if rows:
            mean, rate = (sum(row[i] for row in rows) / len(rows) for i in range(2))
            total += len(rows) / len(pairs) * abs(mean - rate)
    assert calibration_error([s for s, _ in pairs], [good for _, good in pairs]) == pytest.approx(total, abs=1e-9)


def test_a_known_judgement(episode: Make) -> None:
    """Two tasks: pairs only within a task, with different returns; a tie of scores is half; errors do not count."""
    one = [episode("a", str(n), id=f"a{n}", reward=r, success=r == 1, task="t1") for n, r in enumerate((0.0, 0.5, 1.0))]
    two = [episode("b", str(n), id=f"b{n}", reward=r, success=r == 1, task="t2") for n, r in enumerate((0.0, 0.0, 1.0))]
    lost = episode("c", id="c", reward=1.0, stop_reason=StopReason.ERROR, error="gone")
    names = {t.id: EpisodeRef.of(t) for t in [*one, *two, lost]}
    scores = {"a0": 0.2, "a1": 0.9, "a2": 0.6, "b0": 0.4, "b1": 0.3, "b2": 0.4, "c": 0.0}
    feedback: list[Feedback] = [
        *(ScoreFeedback(names[name], score) for name, score in scores.items()),
        ComparisonFeedback(names["a2"], names["a0"]),
        ComparisonFeedback(names["a0"], names["a1"]),
        ComparisonFeedback(names["b0"], names["b1"]),  # equal returns: neither right nor wrong
        CorrectionFeedback(names["a0"], 0, "x"),
        NoFeedback(EpisodeRef("gone", "0"), "cut"),
        NoFeedback(EpisodeRef("gone", "1"), "cut"),
    ]
    found = agreement([*one, *two, lost], feedback)
    assert found.pairwise is not None and found.compared is not None and found.brier is not None
    assert (
        found.pairs == 5 and found.pairwise.value == pytest.approx((1 + 1 + 0 + 0.5 + 1) / 5) and found.pairwise.n == 2
    )
    assert found.compared_pairs == 2 and found.compared.value == 0.5
    returns = [0.0, 0.5, 1.0, 0.0, 0.0, 1.0]
    assert found.tau == pytest.approx(kendall_tau([scores[t.id] for t in [*one, *two]], returns))
    success = [0, 0, 1, 0, 0, 1]
    brier = sum((scores[t.id] - s) ** 2 for t, s in zip([*one, *two], success, strict=True)) / 6
    assert found.brier == pytest.approx(brier)
    assert (found.scores, found.comparisons, found.corrections, found.missing) == (7, 3, 1, {"cut": 2})


def test_forks_of_a_task_are_one_cluster(episode: Make) -> None:
    """Pairs are of one start; the interval counts tasks, because starts within an episode are no other tasks."""

    def fork(before: str, last: str, reward: float) -> Trajectory:
        whole = episode(before, last, id=before + last, reward=reward)
        return replace(whole, steps=(replace(whole.steps[0], trained=False), whole.steps[1]))

    tries = [fork(before, last, float(last == "x")) for before in "ab" for last in "xy"]
    found = agreement(tries, [ScoreFeedback(EpisodeRef.of(t), t.reward) for t in tries])
    assert found.pairs == 2 and found.pairwise is not None and found.pairwise.n == 1


def test_nothing_to_compare_is_said_so(episode: Make) -> None:
    """Without scores, and with all returns alike."""
    data = [replace(episode("a", str(n)), id=str(n)) for n in range(3)]
    empty = agreement(data, [])
    assert empty.pairwise is None and empty.compared is None and empty.tau is None and empty.brier is None
    alike = agreement(data, [ScoreFeedback(EpisodeRef.of(t), n / 2) for n, t in enumerate(data)])
    assert alike.pairwise is None and alike.tau is None and alike.pairs == 0 and alike.scores == 3


def test_equal_episodes_count_as_often_as_they_were_played(episode: Make) -> None:
    """An agent at a low temperature repeats itself: means are over episodes, not over different ones."""
    good, bad = episode("a", reward=1.0, success=True), episode("b", reward=0.0, success=False)
    tries = [replace(good, id=f"t#{n}") for n in range(3)] + [replace(bad, id="t#3")]
    feedback = [ScoreFeedback(EpisodeRef.of(t), 0.75 if t.success else 0.5) for t in tries]
    found = agreement(tries, feedback)
    assert found.pairs == 3 and found.scores == 4
    assert found.brier == pytest.approx((3 * 0.25**2 + 0.5**2) / 4)
    retry = episode("c", id="t#4", success=True)
    with_retry = critic_metrics(tries, feedback, [*tries[2:], replace(retry, success=False)], [retry])
    assert with_retry["success_of_kept"]["value"] == pytest.approx(2 / 3) and with_retry["scores"] == 4
    metrics = critic_metrics(tries, feedback, tries[2:])
    assert metrics["scores"] == 4 and metrics["mean_score"] == pytest.approx((3 * 0.75 + 0.5) / 4)
    assert metrics["success_of_scored"]["value"] == 0.75 and metrics["success_of_kept"]["value"] == 0.5
