from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from agentgym_py.evaluation import stats
from agentgym_py.evaluation.evaluate import pass_rate


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


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_fishers_p_is_that_of_all_ways_to_deal(of_first: int, of_second: int, data: st.DataObject) -> None:
    """Of all ways to choose who succeeds, the share in which the first has as many or more; as scipy's."""
    first, second = (data.draw(st.integers(0, n)) for n in (of_first, of_second))
    p = stats.fisher_greater(first, of_first, second, of_second)
    table = [[first, of_first - first], [second, of_second - second]]
    scipy_stats = pytest.importorskip("scipy.stats")
    assert p == pytest.approx(scipy_stats.fisher_exact(table, alternative="greater").pvalue, abs=1e-12)
    if of_first + of_second <= 10:
        ways = [sum(n < of_first for n in way) for way in combinations(range(of_first + of_second), first + second)]
        assert p == pytest.approx(np.mean([way >= first for way in ways]))


def test_fisher_needs_successes_within_the_attempts() -> None:
    """Else it is no table."""
    with pytest.raises(ValueError, match="within the attempts"):
        stats.fisher_greater(3, 2, 0, 2)


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
    monkeypatch.setattr(stats, "_BLOCK_SIZE", 333)
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
    """Counts out of range and rows of different length are the caller's mistakes."""
    for call in (
        lambda: stats.wilson(3, 2),
        lambda: stats.wilson(-1, 2),
        lambda: stats.mcnemar(-1, 2),
        lambda: stats.compare_rates([1, 0], [1]),
        lambda: stats.bootstrap_mean([1, 2], clusters=["a"]),
        lambda: stats.bootstrap_mean([[1, 2]]),
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


def test_the_bootstrap_of_a_mean_is_that_of_means() -> None:
    """The same draws, clusters and ends; figures that some draw does not have get no interval, nor do few clusters."""
    rng = np.random.default_rng(3)
    values, clusters = rng.normal(size=60), rng.integers(0, 12, 60).tolist()

    def figures(at: NDArray[np.intp]) -> list[float]:
        return [float(values[at].mean()), float(len(set(at.tolist())) == 60) or math.nan]

    mean, whole = stats.bootstrap(figures, clusters, resamples=400)
    expected = stats.bootstrap_mean(values, clusters=clusters, resamples=400)
    for name in ("value", "low", "high", "n"):
        assert getattr(mean, name) == pytest.approx(getattr(expected, name))
    assert whole.value == 1 and math.isnan(whole.low) and math.isnan(whole.high)
    few = stats.bootstrap(figures, [each % 9 for each in range(60)])[0]
    assert few.n == 9 and few.value == mean.value and math.isnan(few.low)


def test_clusters_widen_the_interval_of_a_correlation() -> None:
    """Five equal rows of each of 40 clusters say no more than one of each."""
    pairs = np.array(np.random.default_rng(2).multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 40))
    copied = pairs.repeat(5, 0)
    one = stats.bootstrap(lambda at: [float(np.corrcoef(*pairs[at].T)[0, 1])], range(40))[0]
    five = stats.bootstrap(lambda at: [float(np.corrcoef(*copied[at].T)[0, 1])], np.arange(40).repeat(5).tolist())[0]
    naive = stats.bootstrap(lambda at: [float(np.corrcoef(*copied[at].T)[0, 1])], range(200))[0]
    assert (five.low, five.high) == pytest.approx((one.low, one.high)) and five.n == 40
    assert naive.high - naive.low < 0.6 * (five.high - five.low) and naive.low < naive.value < naive.high


def test_compare_reports_the_discordant_pairs() -> None:
    """Difference, counts and p of paired outcomes; agreement of both agents adds no evidence."""
    first, second = [1] * 8 + [0] * 2 + [1] * 50, [0] * 8 + [1] * 2 + [1] * 50
    found = stats.compare_rates(first, second)
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
    nearly = stats.success_rate([True] * 39 + [False], tasks)
    assert nearly.low < nearly.value - 0.05 and nearly.high <= 1
    none = stats.success_rate([], [])
    assert math.isnan(none.value) and (none.low, none.high, none.n) == (0.0, 1.0, 0)


def test_attempts_are_never_more_than_they_are() -> None:
    """Each of 19 tasks was solved once of two times: the interval is not narrower than that of 40 episodes."""
    found, alone = stats.success_rate([1, 0] * 19 + [1, 1], [i // 2 for i in range(40)]), stats.wilson(21, 40)
    assert found.value == alone.value and found.low <= alone.low and found.high >= alone.high


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
    assert alike.value == pytest.approx(0.28, abs=0.02) and 0.03 < alike.high - alike.low < 0.15
    assert apart.high - apart.low > 2 * (alike.high - alike.low) and apart.low < apart.value < apart.high
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


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 29, 300, 9999])
def test_quantiles_of_t_are_scipys(freedom: int) -> None:
    """From the middle far out, for even and odd degrees of freedom."""
    scipy_stats = pytest.importorskip("scipy.stats")
    for p in (0.5, 0.6, 0.95, 0.975, 0.995, 0.99995):
        assert stats.t_quantile(p, freedom) == pytest.approx(scipy_stats.t.ppf(p, freedom), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("freedom", "wanted"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042)]
)
def test_quantiles_of_t_are_those_of_the_tables(freedom: int, wanted: float) -> None:
    """Two-sided 95 %, as every textbook prints them."""
    assert stats.t_quantile(0.975, freedom) == pytest.approx(wanted, abs=5e-4)


def test_the_bootstrap_holds_the_mean_of_ten_normal_values() -> None:
    """In 95 of 100 samples, where plain percentiles do in 90; 1,500 samples tell these apart."""
    rng, held, runs = np.random.default_rng(8), 0, 1500
    for run in range(runs):
        found = stats.bootstrap_mean(rng.normal(0, 1, 10), resamples=800, seed=run)
        held += found.low <= 0 <= found.high
    assert held / runs == pytest.approx(0.95, abs=0.018)  # three standard errors, and 800 draws for 10,000


@pytest.mark.parametrize(("tasks", "a", "b"), [(30, 0.5, 0.5), (60, 0.2, 1.8), (300, 0.25, 4.75)])
def test_clustered_rates_hold_the_truth_in_95_of_100(tasks: int, a: float, b: float) -> None:
    """Four tries at tasks of rates from Beta(a, b), such as almost always 0 or 1, and 5 % on average."""
    rng, runs, names = np.random.default_rng(tasks), 1500, np.repeat(np.arange(tasks), 4).tolist()
    held = 0
    for rates in rng.beta(a, b, (runs, tasks)):
        found = stats.success_rate((rng.random((tasks, 4)) < rates[:, None]).ravel(), names)
        held += found.low <= a / (a + b) <= found.high
    assert held / runs == pytest.approx(0.955, abs=0.02)


def test_sign_flips_count_what_all_signs_would() -> None:
    """Against every one of the 2^10 signs in a slow loop; against McNemar's p where there is one rollout a task."""
    differences = [0.25, 0.5, -0.25, 0.75, 0, 0.5, -0.5, 0.25, 1, 0.25]
    far = abs(sum(differences)) - 1e-9
    every = np.array(np.meshgrid(*[[-1, 1]] * 10)).reshape(10, -1).T @ np.array(differences)
    assert stats.sign_flips(differences, resamples=40_000) == pytest.approx(np.mean(abs(every) >= far), abs=0.01)
    assert stats.sign_flips([1] * 12 + [-1] * 3 + [0] * 50, resamples=40_000) == pytest.approx(
        stats.mcnemar(12, 3), abs=0.005
    )
    assert stats.sign_flips([0] * 20) == 1.0 and stats.sign_flips([]) == 1.0
    assert stats.sign_flips([1.0] * 40, resamples=500) == 1 / 501


def test_sign_flips_in_blocks_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by blocks of draws; p does not depend on their size."""
    differences = np.linspace(-1, 1.3, 37)
    whole = stats.sign_flips(differences, resamples=2000)
    monkeypatch.setattr(stats, "_BLOCK_SIZE", 37 * 11)
    assert stats.sign_flips(differences, resamples=2000) == whole


def twins(seed: int, runs: int, gain: float = 0.0, tries: int = 4) -> list[stats.PairedComparison]:
    """Comparisons on 60 tasks with some tries each of two agents, of which the first is better by `gain`."""
    rng, found = np.random.default_rng(seed), list[stats.PairedComparison]()
    for rates in rng.beta(0.8, 0.8, (runs, 60)):
        both = [rng.binomial(tries, np.clip(rates + more, 0, 1)) / tries for more in (gain, 0)]
        found.append(stats.compare_rates(*both, resamples=800, seed=len(found)))
    return found


def test_p_is_uniform_for_agents_that_do_not_differ() -> None:
    """By Kolmogorov's test with 64 tries a task; with four p has steps, and is small no more often than it may be.

    The interval misses 0 as often.
    """
    scipy_stats = pytest.importorskip("scipy.stats")
    assert scipy_stats.kstest([each.p for each in twins(4, 1000, tries=64)], "uniform").pvalue > 0.01
    found = twins(4, 1000)
    for level in (0.01, 0.05, 0.1, 0.2, 0.5):
        share, error = np.mean([each.p <= level for each in found]), math.sqrt(level * (1 - level) / 1000)
        assert level - 5 * error <= share <= level + 3 * error
    missed = np.mean([not each.difference.low <= 0 <= each.difference.high for each in found])
    assert 0.03 <= missed <= 0.072


@pytest.mark.parametrize(("first", "second", "tasks"), [(0.03, 0.0, 30), (0.97, 0.99, 50), (0.05, 0.01, 30)])
def test_differences_of_few_tasks_hold_the_truth(first: float, second: float, tasks: int) -> None:
    """Four attempts that nearly all fail or succeed; the interval hardly ever contradicts p."""
    rng, runs, held, contradicts = np.random.default_rng(4), 400, 0, 0
    for run in range(runs):
        both = (rng.binomial(4, rate, tasks) / 4 for rate in (first, second))
        found = stats.compare_rates(*both, resamples=600, seed=run)
        held += found.difference.low <= first - second <= found.difference.high
        contradicts += not found.difference.low <= 0 <= found.difference.high and found.p > 0.05
    assert held / runs >= 0.95 and contradicts / runs <= 0.05


def test_mcnemar_never_claims_too_often() -> None:
    """Exact, so of 4,000 null comparisons at most 5 % are below 0.05 (with few discordant pairs far fewer)."""
    counts = np.random.default_rng(6).multinomial(80, [0.15, 0.15, 0.7], 4000)
    assert np.mean([stats.mcnemar(int(b), int(c)) <= 0.05 for b, c, _ in counts]) <= 0.055


def test_the_detectable_difference_is_shown_in_four_of_five_comparisons() -> None:
    """Of agents that differ by what `compare_rates` says 60 tasks of four tries, or 300 of one, can show."""
    size = float(np.mean([each.detectable for each in twins(5, 50)]))
    real = size / 0.88  # a rate cannot be more than 1, so the gain that is drawn is not reached by all
    found = twins(6, 300, real)
    gained = np.mean([each.difference.value for each in found])
    assert gained == pytest.approx(size, rel=0.08)
    assert np.mean([each.p <= 0.05 for each in found]) == pytest.approx(0.8, abs=0.1)
    one = stats.compare_rates([1.0] * 20 + [0.0] * 280, [0.0] * 20 + [1.0] * 20 + [0.0] * 260)
    counts = np.random.default_rng(7).multinomial(300, [(40 / 300 + one.detectable) / 2,
                                                        (40 / 300 - one.detectable) / 2, 260 / 300], 1000)  # fmt: skip
    assert np.mean([stats.mcnemar(int(b), int(c)) <= 0.05 for b, c, _ in counts]) == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize(("discordant", "n"), [(0, 60), (0, 100), (60, 60), (21, 100), (6, 6), (40, 300), (250, 900)])
def test_the_power_of_mcnemar_is_that_of_simulations(discordant: int, n: int) -> None:
    """Four of five comparisons show the detectable difference, also where no task differs or all do."""
    size = stats.detectable_difference(discordant, n)
    rate = max((discordant + 1) / (n + 2), size)
    counts = np.random.default_rng(8).multinomial(n, [(rate + size) / 2, (rate - size) / 2, 1 - rate], 2000)
    shown = np.mean([stats.mcnemar(int(b), int(c)) < 0.05 for b, c, _ in counts])
    assert shown == pytest.approx(0.8, abs=0.03)


def test_five_tasks_detect_nothing() -> None:
    """McNemar's exact test needs six tasks that differ in one direction: p = 2 / 64."""
    assert math.isnan(stats.detectable_difference(0, 5)) and math.isnan(stats.detectable_difference(5, 5))
    assert stats.mcnemar(5, 0) > 0.05 > stats.mcnemar(6, 0) and stats.mcnemar_power(1.0, 1.0, 6) == 1.0


def test_means_of_several_tries_are_compared() -> None:
    """The bootstrap's interval and the signs' p; Agresti and Min's interval where the bootstrap has none."""
    first, second = [0.75, 0.5, 1.0, 0.25] * 10, [0.5, 0.5, 0.25, 0.5] * 10
    found = stats.compare_rates(first, second)
    assert found.difference == stats.bootstrap_mean(np.subtract(first, second))
    assert (found.only_first, found.only_second) == (20, 10) and found.p == stats.sign_flips(np.subtract(first, second))
    same = stats.compare_rates(first, first)
    assert same.p == 1 and same.difference == stats.paired_difference(0, 0, 40) and same.detectable > 0
    shifted = stats.compare_rates([0.75] * 20, [0.5] * 20)
    assert 0 < shifted.difference.low < 0.25 < shifted.difference.high
    ones = stats.compare_rates([1, 1, 0], [0, 1, 0])
    assert (ones.difference, ones.p) == (stats.paired_difference(1, 0, 3), 1.0)
    assert math.isnan(stats.compare_rates([], []).difference.value)


def test_holm_adjusts_as_statsmodels_does() -> None:
    """Known values of its `multipletests(method="holm")`, ties and a p above 1 after the factor; the order is kept."""
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([0.5, 0.9, 0.5]) == [1.0, 1.0, 1.0]
    assert stats.holm([0.04]) == [0.04] and stats.holm([]) == []


def test_holm_errs_anywhere_in_5_of_100() -> None:
    """Of 4,000 families of six null comparisons; without it 26 of 100 make a false claim."""
    families = np.random.default_rng(3).random((4000, 6))
    assert np.mean([min(stats.holm(each.tolist())) <= 0.05 for each in families]) == pytest.approx(0.05, abs=0.011)


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, 9))))
@settings(max_examples=60, deadline=None)
def test_pass_at_k_counts_the_draws(case: tuple[int, int, int]) -> None:
    """Of all choices of k among n tries how many hold a success, and how many nothing else."""
    n, c, k = case
    tries = [True] * c + [False] * (n - c)
    drawn = list(combinations(tries, k))
    if not drawn:
        assert math.isnan(stats.pass_at(k, c, n)) and math.isnan(stats.pass_all(k, c, n))
        return
    assert stats.pass_at(k, c, n) == pytest.approx(np.mean([any(each) for each in drawn]))
    assert stats.pass_all(k, c, n) == pytest.approx(np.mean([all(each) for each in drawn]))


def test_pass_at_k_has_no_bias() -> None:
    """The mean over many agents of rate 0.3 is 1 - 0.7^k, and 0.3^k for all; 1 - (1 - c/n)^k would not be."""
    wins = np.random.default_rng(9).binomial(6, 0.3, 20_000)
    assert np.mean([stats.pass_at(3, int(c), 6) for c in wins]) == pytest.approx(1 - 0.7**3, abs=0.008)
    assert np.mean([stats.pass_all(3, int(c), 6) for c in wins]) == pytest.approx(0.3**3, abs=0.004)


@pytest.mark.parametrize(("a", "b", "tasks"), [(8, 2, 30), (18, 2, 100), (1, 9, 100), (0.5, 0.5, 60)])
def test_pass_rates_hold_the_truth(a: float, b: float, tasks: int) -> None:
    """Both of eight attempts, of which nearly all succeed or fail: without a limit 68 to 81 % of the intervals do."""
    rng, runs, held = np.random.default_rng(3), 400, np.zeros(2)
    all_succeed, all_fail = (math.prod((c + i) / (a + b + i) for i in range(4)) for c in (a, b))
    for rates in rng.beta(a, b, (runs, tasks)):
        outcomes = (rng.random((tasks, 8)) < rates[:, None]).tolist()
        for i, (formula, truth) in enumerate(((stats.pass_at, 1 - all_fail), (stats.pass_all, all_succeed))):
            found = pass_rate(formula, 4, outcomes)
            held[i] += found.low <= truth <= found.high
    assert (held / runs >= 0.93).all()


def test_pass_at_1_is_the_success_rate() -> None:
    """With its interval, whatever the attempts; tasks with fewer than k attempts are left out."""
    outcomes = (np.random.default_rng(0).random((40, 4)) < 0.4).tolist()
    flat, tasks = [won for task in outcomes for won in task], np.arange(40).repeat(4).tolist()
    found, success = pass_rate(stats.pass_at, 1, outcomes), stats.success_rate(flat, tasks)
    assert (found.value, found.low, found.high) == pytest.approx((success.value, success.low, success.high))
    assert pass_rate(stats.pass_all, 2, [[True], [True, False], [True, True]]).n == 2


def slow_probability(first: list[list[float]], second: list[list[float]]) -> float:
    """Close to the notation: the mean over worlds, runs and runs of 1 where x > y and 1/2 where they are equal."""
    scores = [
        1.0 if x[w] > y[w] else 0.5 if x[w] == y[w] else 0.0
        for w in range(len(first[0]))
        for x in first
        for y in second
    ]
    return sum(scores) / len(scores)


def test_the_probability_of_improvement_is_mann_and_whitneys() -> None:
    """Equal to a slow loop, with ties and other numbers of seeds; scipy's U over the number of pairs in one world."""
    scipy_stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5, (6, 3)) / 4, rng.integers(0, 5, (4, 3)) / 4
    found = stats.improvement_probability(first, second)
    assert found.value == pytest.approx(slow_probability(first.tolist(), second.tolist())) and found.n == 4
    one = stats.improvement_probability(first[:, :1], second[:, :1])
    assert one.value == pytest.approx(scipy_stats.mannwhitneyu(first[:, 0], second[:, 0]).statistic / 24)
    assert found.low <= found.value <= found.high
    assert math.isnan(stats.improvement_probability(first[:1], second).low)
    for wrong in ((first, second[:, :2]), (first[0], second)):
        with pytest.raises(ValueError, match="envs"):
            stats.improvement_probability(*wrong)


@pytest.mark.parametrize("seeds", [5, 10])
def test_intervals_over_seeds_hold_the_truth(seeds: int) -> None:
    """The interquartile mean of five or ten normal runs, and the probability that one beats another."""
    rng, runs, held, beaten = np.random.default_rng(seeds), 600, 0, 0
    truth = 0.5 * (1 + math.erf(0.5 / 2))  # of two normal runs half a standard deviation apart
    for run in range(runs):
        first, second = rng.normal(0.5, 1, (seeds, 1)), rng.normal(0, 1, (seeds, 1))
        mean = stats.runs_mean(second, resamples=500, seed=run)
        chance = stats.improvement_probability(first, second, resamples=500, seed=run)
        held += mean.low <= 0 <= mean.high
        beaten += chance.low <= truth <= chance.high
    assert 0.925 <= held / runs <= 0.98 and 0.93 <= beaten / runs <= 0.995


@pytest.mark.parametrize("seeds", [2, 3, 4, 5])
@pytest.mark.parametrize("worlds", [1, 3])
def test_intervals_over_few_seeds_hold_the_truth(seeds: int, worlds: int) -> None:
    """At least 93 % of the intervals of two to five normal runs hold the mean; two have no rank interval."""
    rng, runs = np.random.default_rng(seeds), 600
    means = [stats.runs_mean(rng.normal(0.5, 0.1, (seeds, worlds)), resamples=200, seed=run) for run in range(runs)]
    held = sum(mean.low <= 0.5 <= mean.high for mean in means) / runs
    assert held >= 0.93 and (worlds > 1 or held <= 0.99)
    chance = stats.improvement_probability(np.ones((seeds, worlds)), np.zeros((seeds, worlds)), resamples=100)
    assert math.isnan(chance.low) == (seeds < 3)


def test_a_clear_win_of_few_seeds_is_not_certain() -> None:
    """Each run beats each, or all are equal: Wilson's interval of as many pairs as the fewer runs make."""
    ones, zeros = np.ones((7, 2)), np.zeros((5, 2))
    found, turned = stats.improvement_probability(ones, zeros), stats.improvement_probability(zeros, ones)
    assert found == stats.wilson(5, 5) and turned == stats.wilson(0, 5) and 0.5 < found.low < 0.6
    assert stats.improvement_probability(zeros, zeros) == stats.wilson(2.5, 5)


def test_equal_seeds_have_no_interval() -> None:
    """Five or twelve seeds of one rate, in one world or two, and runs that nothing changed: no width of 0."""
    for scores in ([[1.0]] * 5, [[0.1]] * 12, [[0.1, 0.7]] * 5):
        found = stats.runs_mean(scores)
        assert math.isnan(found.low) and math.isnan(found.high) and found.n == len(scores)
    assert math.isnan(stats.improvement([([0, 1], [0, 1])] * 3).low)


def test_two_seeds_have_students_interval() -> None:
    """12.706 standard errors around the mean of two runs, one of which is 0.1."""
    found = stats.runs_mean([[0.4], [0.6]])
    ends = (0.5 - 1.2706, 0.5 + 1.2706)
    assert (found.low, found.high) == pytest.approx(ends, rel=0.02)  # the standard error is a bootstrap's


def test_seeds_are_drawn_in_each_world() -> None:
    """The interquartile mean of all scores; one seed has no interval, and worlds that differ do not widen it."""
    scores = np.array([[0.1, 0.9], [0.2, 0.8], [0.15, 0.85], [0.12, 0.88], [0.18, 0.82]])
    found = stats.runs_mean(scores)
    assert found.value == stats.interquartile_mean(scores.ravel()) == pytest.approx(0.5, abs=0.02)
    assert found.n == 5 and found.high - found.low < 0.3
    assert math.isnan(stats.runs_mean(scores[:1]).low)
    assert stats.runs_mean(scores) == found != stats.runs_mean(scores, seed=1)
