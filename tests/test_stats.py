from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_py import stats


@pytest.mark.parametrize(
    ("wins", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (40, 100, 0.3094, 0.4980), (1, 1, 0.2065, 1.0)],
)
def test_wilson_known_values(wins: int, n: int, low: float, high: float) -> None:
    """Values of the published formula, four digits."""
    found = stats.wilson(wins, n)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)
    assert found.value == wins / n


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=30, deadline=None)
def test_wilson_equals_scipy(pair: tuple[int, int]) -> None:
    """Every count up to 500 gives scipy's interval."""
    scipy_stats = pytest.importorskip("scipy.stats")
    found = stats.wilson(*pair)
    theirs = scipy_stats.binomtest(*pair).proportion_ci(method="wilson")
    assert found.low == pytest.approx(theirs.low, abs=1e-12) and found.high == pytest.approx(theirs.high, abs=1e-12)
    assert 0 <= found.low <= found.value <= found.high <= 1


@given(st.integers(0, 400), st.integers(0, 400))
@settings(max_examples=50, deadline=None)
def test_mcnemar_equals_scipy(b: int, c: int) -> None:
    """The exact p is scipy's binomial test of the discordant pairs, and the order of the agents does not matter."""
    scipy_stats = pytest.importorskip("scipy.stats")
    theirs = scipy_stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert stats.mcnemar(b, c) == pytest.approx(theirs, rel=1e-9)
    assert stats.mcnemar(b, c) == stats.mcnemar(c, b)


def test_mcnemar_known_value() -> None:
    """The case for which lm-eval's unpaired z-test says 0.080: 7 against 0 discordant pairs is 0.016, 8 is 0.008."""
    assert stats.mcnemar(0, 0) == 1.0
    assert stats.mcnemar(7, 0) == 2 / 2**7
    assert stats.mcnemar(0, 8) == 2 / 2**8
    assert stats.mcnemar(5000, 5000) == 1.0
    assert 0 < stats.mcnemar(900, 1100) < 1e-4


def test_bootstrap_is_seeded_and_near_the_normal_interval() -> None:
    """The same seed gives the same ends; for 400 draws they are where theory says, up to noise."""
    values = np.random.default_rng(0).normal(2.0, 1.0, 400)
    first, again, other = (stats.bootstrap_mean(values, seed=s) for s in (1, 1, 2))
    assert first == again and first != other
    half = 1.96 * values.std() / 20
    assert first.low == pytest.approx(values.mean() - half, abs=0.01)
    assert first.high == pytest.approx(values.mean() + half, abs=0.01)
    assert first.value == pytest.approx(values.mean()) and first.n == 400 and not first.small


def test_bootstrap_in_blocks_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by blocks of draws, and the ends do not depend on the block's size."""
    values = list(range(50))
    whole = stats.bootstrap_mean(values)
    monkeypatch.setattr(stats, "_DRAWS_AT_ONCE", 333)
    assert stats.bootstrap_mean(values) == whole


def test_too_little_data_says_so() -> None:
    """No data has no mean, few data or equal ones no interval; under 30 an estimate calls itself small."""
    none, one, few = (stats.bootstrap_mean(values) for values in ([], [0.5], range(9)))
    assert math.isnan(none.value) and none.n == 0
    assert one.value == 0.5 and math.isnan(one.low) and one.small
    assert (few.value, few.n) == (4, 9) and math.isnan(few.low) and math.isnan(few.high)
    tasks = [f"task {i // 3}" for i in range(100)]
    equal, alike = stats.bootstrap_mean([0.1] * 40), stats.bootstrap_mean([0.1] * 100, clusters=tasks)
    for each in (equal, alike):
        assert each.value == pytest.approx(0.1) and math.isnan(each.low) and math.isnan(each.high)
    other = stats.bootstrap_mean([0.1] * 9 + [0.2])
    assert other.low < other.value < other.high
    empty = stats.wilson(0, 0)
    assert math.isnan(empty.value) and (empty.low, empty.high) == (0.0, 1.0)


def test_wrong_input_raises() -> None:
    """Counts out of range, rows of different length and outcomes that are no outcomes are the caller's mistakes."""
    for call in (
        lambda: stats.wilson(3, 2),
        lambda: stats.wilson(-1, 2),
        lambda: stats.mcnemar(-1, 2),
        lambda: stats.paired_bootstrap([1, 0], [1]),
        lambda: stats.bootstrap_mean([1, 2], clusters=["a"]),
        lambda: stats.bootstrap_mean([[1, 2]]),
        lambda: stats.compare([0.5], [1]),
    ):
        with pytest.raises(ValueError, match=r"must|needed"):
            call()


def test_clusters_widen_the_interval() -> None:
    """Ten equal rollouts of each of 40 tasks say no more than one of each."""
    tasks = np.random.default_rng(3).integers(0, 2, 40)
    names = [f"task {i}" for i in range(40)]
    alone = stats.bootstrap_mean(tasks, clusters=names)
    copied = stats.bootstrap_mean(np.repeat(tasks, 10), clusters=np.repeat(names, 10).tolist())
    naive = stats.bootstrap_mean(np.repeat(tasks, 10))
    assert (copied.low, copied.high, copied.n) == (alone.low, alone.high, 40)
    assert naive.high - naive.low < 0.5 * (copied.high - copied.low)


def test_compare_reports_the_discordant_pairs() -> None:
    """Difference, counts and p of paired outcomes; agreement of both agents adds no evidence."""
    first, second = [1] * 8 + [0] * 2 + [1] * 50, [0] * 8 + [1] * 2 + [1] * 50
    found = stats.compare(first, second)
    assert (found.only_first, found.only_second) == (8, 2)
    assert found.p == stats.mcnemar(8, 2)
    assert found.difference.value == pytest.approx(0.1) and found.difference.low < 0.1 < found.difference.high


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((0, 0, 4), -0.3267, 0.3267),
        ((0, 0, 300), -0.0065, 0.0065),
        ((8, 2, 60), -0.0053, 0.1988),
        ((4, 0, 4), 0.1677, 1.0),
    ],  # by the formula of Agresti and Min, with 1.959964 for z
)
def test_the_paired_interval_keeps_its_width(counts: tuple[int, int, int], low: float, high: float) -> None:
    """Agents that never differ on four tasks may differ all the same; the order of the agents turns the sign."""
    found, turned = stats.paired_difference(*counts), stats.paired_difference(counts[1], counts[0], counts[2])
    assert (round(found.low, 4), round(found.high, 4)) == (low, high) and found.low <= found.value <= found.high
    assert (turned.value, turned.low, turned.high) == (-found.value, -found.high, -found.low)


@pytest.mark.parametrize(("n", "both"), [(10, (0.1, 0.1)), (60, (0.3, 0.1)), (300, (0.02, 0.0))])
def test_paired_intervals_cover_the_truth(n: int, both: tuple[float, float]) -> None:
    """In 2000 simulated comparisons of `n` tasks the intervals hold the true difference at least 93 times of 100."""
    drawn = np.random.default_rng(2).multinomial(n, [*both, 1 - sum(both)], 2000)
    found = [stats.paired_difference(int(b), int(c), n) for b, c, _ in drawn]
    assert np.mean([each.low <= both[0] - both[1] <= each.high for each in found]) >= 0.93


def test_intervals_cover_the_truth() -> None:
    """In 400 simulated evaluations of 60 tasks each the intervals hold the true rate about 95 times of 100."""
    rng = np.random.default_rng(11)
    p, n, runs = 0.3, 60, 400
    wins = rng.binomial(n, p, runs)
    wilson = [stats.wilson(int(w), n) for w in wins]
    assert 0.92 <= np.mean([each.low <= p <= each.high for each in wilson]) <= 0.985
    boots = [stats.bootstrap_mean([1] * int(w) + [0] * int(n - w), resamples=500, seed=i) for i, w in enumerate(wins)]
    assert 0.90 <= np.mean([each.low <= p <= each.high for each in boots]) <= 0.985


def test_clustered_intervals_cover_the_truth() -> None:
    """With tasks of different difficulty and 8 tries each, clustering covers and pretending independence does not."""
    rng, runs, tasks, tries = np.random.default_rng(5), 200, 40, 8
    covered = np.zeros(2)
    for run in range(runs):
        rates = rng.beta(0.5, 0.5, tasks)
        wins = (rng.random((tasks, tries)) < rates[:, None]).astype(float).ravel()
        for i, clusters in enumerate((np.repeat(np.arange(tasks), tries).tolist(), None)):
            found = stats.bootstrap_mean(wins, clusters=clusters, resamples=300, seed=run)
            covered[i] += found.low <= 0.5 <= found.high
    assert covered[0] / runs >= 0.89 and covered[1] / runs < 0.75


def test_success_rates_never_lose_their_width() -> None:
    """Where whole clusters cannot differ when drawn again, Wilson over their number: all won, all lost, one cluster."""
    tasks = [f"task {i // 4}" for i in range(40)]
    won, lost = stats.success_rate([True] * 40, tasks), stats.success_rate([False] * 40, tasks)
    assert (won, lost) == (stats.wilson(10, 10), stats.wilson(0, 10)) and won.low < 0.8
    one = stats.success_rate([True, False, False, False], ["a"] * 4)
    assert (one.value, one.n) == (0.25, 1) and one.low < 0.1 and one.high > 0.8
    even = stats.success_rate([True, False] * 20, tasks)
    assert even == stats.wilson(5, 10)
    assert stats.success_rate([True, False], ["a", "b"]) == stats.wilson(1, 2)
    mixed = [i < 10 for i in range(40)]
    assert stats.success_rate(mixed, tasks) == stats.bootstrap_mean(mixed, clusters=tasks)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30))
@settings(max_examples=50, deadline=None)
def test_the_interquartile_mean_is_scipys_trimmed_mean(values: list[float]) -> None:
    """A quarter is cut at each end, rounded down."""
    scipy_stats = pytest.importorskip("scipy.stats")
    assert stats.interquartile_mean(values) == pytest.approx(scipy_stats.trim_mean(values, 0.25), abs=1e-12)


def test_the_interquartile_mean_ignores_an_outlier() -> None:
    """One of five, at either end; of three none is cut."""
    assert stats.interquartile_mean([3, 100, 1, 2, -50]) == 2
    assert stats.interquartile_mean([1, 2, 6]) == 3
    assert math.isnan(stats.interquartile_mean([]))


def test_an_improvement_has_the_luck_of_runs_and_of_tasks_in_its_interval() -> None:
    """Runs that rise alike: as wide as the tasks make it; runs that differ: wider; one run has no interval."""
    rng = np.random.default_rng(0)
    before = [rng.random(300) < 0.3 for _ in range(5)]
    alike = stats.improvement([(b, b | (rng.random(300) < 0.4)) for b in before])
    apart = stats.improvement(
        [(b, b | (rng.random(300) < r)) for b, r in zip(before, (0, 0.1, 0.4, 0.7, 1), strict=True)]
    )
    assert alike.value == pytest.approx(0.28, abs=0.02) and 0.03 < alike.high - alike.low < 0.12
    assert apart.high - apart.low > 3 * (alike.high - alike.low) and apart.low < apart.value < apart.high
    one = stats.improvement([(before[0], before[1])])
    assert one.value == pytest.approx(np.mean(before[1]) - np.mean(before[0])) and math.isnan(one.low)
    assert stats.improvement([(b, b) for b in before]).value == 0
    with pytest.raises(ValueError, match="pairs needed"):
        stats.improvement([(before[0], before[0][:5])])


def test_the_interval_of_an_improvement_holds_the_truth() -> None:
    """Of 200 experiments with five runs, whose true gain varies from run to run, at least 85 % of intervals do."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(200):
        pairs = []
        for gain in rng.normal(0.2, 0.05, 5):
            start = rng.random(100)
            pairs.append((start < 0.3, start < 0.3 + gain))
        found = stats.improvement(pairs, resamples=400)
        held += found.low <= 0.2 <= found.high
    assert 170 <= held <= 200
