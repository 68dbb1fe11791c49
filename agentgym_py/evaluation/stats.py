"""Confidence intervals and paired comparisons. numpy only; every random draw has a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_BLOCK_SIZE = 1 << 18  # numbers, which stay in a processor's cache
SMALL_SAMPLE = 30
"""Tables carry a note if there are fewer observations."""
MIN_BOOTSTRAP = 10
"""Fewer values get no bootstrap interval, because they do not show their skewness."""
MIN_SEEDS = 5
"""Tables carry a note if there are fewer training seeds."""
_LEVEL, _POWER = 0.95, 0.8
_MOST_EXACT = 200
"""Discordant tasks up to which a power is computed exactly."""
_UPPER = (1 + _LEVEL) / 2
_Z = NormalDist().inv_cdf(_UPPER)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its interval; all three are nan without data, both ends if there is too little for an interval."""

    value: float
    low: float
    high: float
    n: int
    """Independent observations: episodes, or tasks if the interval is clustered by task."""
    level: float = _LEVEL

    @property
    def small(self) -> bool:
        """Whether there are too few observations to trust the interval much."""
        return self.n < SMALL_SAMPLE


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Two agents compared by success on the same tasks."""

    difference: Estimate
    """Success rate of the first minus that of the second."""
    only_first: int
    """Tasks in which only the first succeeded; with several rollouts, in which it succeeded more often."""
    only_second: int
    """The same for the second."""
    p: float
    """Two-sided: McNemar's exact p, or with several rollouts that of `sign_flips`."""
    detectable: float
    """The smallest difference that this many tasks detect, at p < 0.05, in 80 % of comparisons."""


def wilson(successes: float, n: int) -> Estimate:
    """Estimate a success rate with Wilson's score interval (Wilson 1927); with n = 0 the interval is [0, 1]."""
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be in [0, {n}], got {successes}")
    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0)
    low, high = _wilson_ends(successes / n, n, _Z)
    return Estimate(successes / n, low, high, n)


def _wilson_ends(rate: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval, `z` standard errors to each side."""
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return (0.0 if rate == 0 else centre - half), (1.0 if rate == 1 else centre + half)


def bootstrap_mean(
    values: ArrayLike,
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> Estimate:
    """Estimate the mean of `values` (N,) with the expanded percentile bootstrap (Efron 1979; Hesterberg 2015, 3.3).

    Plain percentiles are too narrow in small samples: of n normal values they contain the mean with probability
    P(|t| < 1.96 sqrt((n - 1) / n)), 90 % for n = 10, instead of 95 %. Expanded percentiles lie further out to correct
    for it (The American Statistician 69:371).

    With `clusters` (N labels, such as task ids) whole clusters are drawn, because rollouts of one task are dependent.
    The ends are nan if there are fewer observations than `MIN_BOOTSTRAP`, or if all are equal, because every draw would
    have the same mean.
    """
    values_N = np.asarray(values, dtype=np.float64)
    if values_N.ndim != 1 or (clusters is not None and len(clusters) != len(values_N)):
        raise ValueError("values must have one dimension, and clusters the same length")
    sums_C, counts_C = _by_cluster(values_N, clusters)
    if len(sums_C) == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = float(sums_C.sum() / counts_C.sum())
    if len(sums_C) < MIN_BOOTSTRAP or np.allclose(sums_C / counts_C, mean, rtol=1e-12, atol=0):
        return Estimate(mean, math.nan, math.nan, len(sums_C))
    low, high = _ends(_resampled_means(sums_C, counts_C, resamples, seed), len(sums_C))
    return Estimate(mean, low, high, len(sums_C))


def bootstrap(
    statistic: Callable[[NDArray[np.intp]], Sequence[float]],
    clusters: Sequence[Hashable],
    *,
    resamples: int = 1_000,
    seed: int = 0,
) -> list[Estimate]:
    """Estimate statistics that are not means, such as a correlation, with intervals as in `bootstrap_mean`.

    `statistic` computes K values from row indices. Rows with the same label in `clusters` (N,) are drawn together. The
    ends are nan if there are fewer clusters than `MIN_BOOTSTRAP`, or if a draw gives a value that is not finite.
    """
    rows: dict[Hashable, list[int]] = {}
    for row, label in enumerate(clusters):
        rows.setdefault(label, []).append(row)
    groups = [np.array(indices, dtype=np.intp) for indices in rows.values()]
    values, n = [float(value) for value in statistic(np.arange(len(clusters)))], len(groups)
    if n < MIN_BOOTSTRAP:
        return [Estimate(value, math.nan, math.nan, n) for value in values]
    chosen_RC = np.random.default_rng(seed).integers(0, n, (resamples, n))
    draws_RK = np.array([statistic(np.concatenate([groups[c] for c in chosen_C])) for chosen_C in chosen_RC])
    return [
        Estimate(value, *(_ends(draws_R, n) if np.isfinite(draws_R).all() else (math.nan,) * 2), n)
        for value, draws_R in zip(values, draws_RK.T, strict=True)
    ]


def success_rate(outcomes: ArrayLike, clusters: Sequence[Hashable], *, independent: int | None = None) -> Estimate:
    """Estimate the rate of `outcomes` (N,) from 0 to 1; those with the same label in `clusters` (N,) are dependent.

    If all labels differ, the interval is Wilson's. Otherwise it is Wilson's for the number of independent episodes that
    has the rate's clustered variance, with Student's t for the number of clusters (Korn and Graubard 1998, Survey
    Methodology 24:193; with Wilson's formula Dean and Pagano 2015, J. Survey Statistics and Methodology 3:484), because
    a bootstrap is too narrow if almost all fail. Because a skewed sample's variance is often too small, this number is
    at most `independent`, by default N. If all clusters are alike, each counts as one observation.
    """
    values_N = np.asarray(outcomes, dtype=np.float64)
    sums_C, counts_C = _by_cluster(values_N, clusters)
    number, total = len(sums_C), len(values_N)
    if number == total and np.isin(values_N, (0, 1)).all():
        return wilson(float(sums_C.sum()), number)
    rate = float(sums_C.sum() / total)
    variance = float(((sums_C - rate * counts_C) ** 2).sum()) / total**2 * number / max(1, number - 1)
    if number < 2 or variance < 1e-12:
        return wilson(rate * number, number)
    effective = min(total if independent is None else independent, rate * (1 - rate) / variance)
    low, high = _wilson_ends(rate, effective, t_quantile(_UPPER, number - 1))
    return Estimate(rate, low, high, number)


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the exact two-sided p of McNemar's test from the two discordant counts; 1.0 if both are 0."""
    if min(only_first, only_second) < 0:
        raise ValueError("counts must not be negative")
    discordant = only_first + only_second
    term = tail = 1
    for k in range(1, min(only_first, only_second) + 1):
        term = term * (discordant - k + 1) // k
        tail += term
    return min(1.0, 2 * tail / (1 << discordant))


@lru_cache(maxsize=4096)
def _least_wins(discordant: int) -> int:
    """Return the fewest discordant pairs of one direction with which McNemar's test shows a difference; m + 1: none."""
    return next((k for k in range(discordant // 2 + 1, discordant + 1)
                 if mcnemar(k, discordant - k) < 1 - _LEVEL), discordant + 1)  # fmt: skip


def mcnemar_power(difference: float, discordance: float, n: int) -> float:
    """Return the chance that McNemar's exact test of `n` tasks shows a true difference of two success rates.

    `discordance` is the chance that the agents differ in a task, at least the `difference`. The number of discordant
    tasks is summed over (Duffy 1984, Biometrics 40:1005).
    """
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])

    def binomial(size: int, chance: float) -> NDArray[np.float64]:
        k = np.arange(size + 1)
        if chance in (0.0, 1.0):
            return np.asarray(k == chance * size, dtype=np.float64)
        logs = log_factorials[size] - log_factorials[k] - log_factorials[size - k]
        return np.asarray(np.exp(logs + k * math.log(chance) + (size - k) * math.log1p(-chance)))

    power, first_wins = 0.0, (1 + difference / discordance) / 2
    for discordant, chance in enumerate(binomial(n, discordance).tolist()):
        least = _least_wins(discordant) if chance > 1e-9 else discordant + 1
        if least <= discordant:
            wins = binomial(discordant, min(first_wins, 1.0))
            power += chance * float(wins[least:].sum() + wins[: discordant - least + 1].sum())
    return power


@lru_cache(maxsize=4096)
def detectable_difference(discordant: int, n: int) -> float:
    """Return the smallest difference that McNemar's exact test of `n` tasks shows in 80 % of comparisons; NaN if none.

    As many tasks differ as in this comparison, or as the difference needs. Above 200 of them the normal approximation
    takes the place of the exact power (Connor 1987, Biometrics 43:207).
    """
    observed = (discordant + 1) / (n + 2)
    if discordant > _MOST_EXACT:
        alpha, beta = _Z, NormalDist().inv_cdf(_POWER)

        def shown(size: float) -> bool:
            rate = max(observed, size)
            return size * math.sqrt(n) >= alpha * math.sqrt(rate) + beta * math.sqrt(rate - size**2)
    else:

        def shown(size: float) -> bool:
            return mcnemar_power(size, max(observed, size), n) >= _POWER

    low, high = 0.0, 1.0
    if not shown(high):
        return math.nan
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return high


def fisher_greater(first: int, of_first: int, second: int, of_second: int) -> float:
    """Return the one-sided p of Fisher's exact test (1935): is the rate of `first` of `of_first` above the second's?"""
    if not (0 <= first <= of_first and 0 <= second <= of_second):
        raise ValueError(f"successes must be within the attempts, got {first} of {of_first}, {second} of {of_second}")
    total = first + second
    ways = (math.comb(of_first, k) * math.comb(of_second, total - k) for k in range(first, min(total, of_first) + 1))
    return sum(ways) / math.comb(of_first + of_second, total)


def sign_flips(differences: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> float:
    """Test whether the mean of `differences` (T,) between two agents, one per task, is 0; return the two-sided p.

    If the agents are alike, each difference is as likely to have the other sign (Fisher's randomisation test): p is the
    share of random signs whose mean is as far from 0, at least 1 / (`resamples` + 1). With one rollout per task
    McNemar's exact test computes the same without sampling.
    """
    differences_T = np.asarray(differences, dtype=np.float64)
    differences_T = differences_T[differences_T != 0]
    rng = np.random.default_rng(seed)
    threshold = abs(differences_T.sum()) * (1 - 1e-9)  # sums in another order round differently
    rows, extreme = max(1, _BLOCK_SIZE // max(1, len(differences_T))), 1
    for start in range(0, resamples, rows):
        signs_BT = 2.0 * rng.integers(0, 2, (min(rows, resamples - start), len(differences_T))) - 1
        extreme += int((abs(signs_BT @ differences_T) >= threshold).sum())
    return extreme / (resamples + 1)


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust p values for multiple comparisons, controlling the family-wise error rate (Holm 1979)."""
    adjusted, highest = [1.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = highest
    return adjusted


def paired_difference(only_first: float, only_second: float, n: int, squares: float | None = None) -> Estimate:
    """Estimate the difference of two success rates on the same `n` tasks from the two discordant counts.

    The interval is Wald's after 1/2 is added to each of the four counts, clipped to [-1, 1] (Agresti and Min 2005,
    Statistics in Medicine 24:729): unlike a bootstrap's it keeps a width if the agents never differ. With several
    rollouts per task the counts are the sums of the differences in each direction, `squares` that of their squares.
    """
    if n == 0:
        return Estimate(math.nan, -1.0, 1.0, 0)
    centre = (only_first - only_second) / (n + 2)
    half = _Z * _paired_error(only_first, only_second, n, squares)
    return Estimate((only_first - only_second) / n, max(-1.0, centre - half), min(1.0, centre + half), n)


def _paired_error(only_first: float, only_second: float, n: int, squares: float | None = None) -> float:
    """Return the standard error of the difference with Agresti and Min's four halves added."""
    squares = only_first + only_second if squares is None else squares
    return math.sqrt(squares + 1 - (only_first - only_second) ** 2 / (n + 2)) / (n + 2)


def compare_rates(first: ArrayLike, second: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> PairedComparison:
    """Compare two agents' success rates (T,) on the same tasks in the same order.

    With one rollout per task this is McNemar's test and Agresti and Min's interval; with several, `sign_flips` and the
    paired bootstrap, or Agresti and Min's interval if the bootstrap has none (equal differences) or fewer tasks than
    `MIN_BOOTSTRAP` differ, because draws of almost only zeros are too alike.
    """
    differences_T = np.subtract(*_pair(first, second))
    better, worse = differences_T > 0, differences_T < 0
    counts, squares = (int(better.sum()), int(worse.sum())), float((differences_T**2).sum())
    sums, n = (float(differences_T[better].sum()), float(-differences_T[worse].sum())), len(differences_T)
    if np.isin(np.concatenate([np.ravel(first), np.ravel(second)]), (0.0, 1.0)).all():
        difference, p = paired_difference(*counts, n), mcnemar(*counts)
        detectable = detectable_difference(sum(counts), n)
    else:
        difference = bootstrap_mean(differences_T, resamples=resamples, seed=seed)
        p = sign_flips(differences_T, resamples=resamples, seed=seed)
        if sum(counts) < MIN_BOOTSTRAP or math.isnan(difference.low):
            difference = paired_difference(*sums, n, squares)
        errors = _Z + NormalDist().inv_cdf(_POWER)
        detectable = errors * _paired_error(*sums, n, squares) if n else math.nan
    return PairedComparison(difference, *counts, p, detectable)


def pass_at(k: int, successes: int, n: int) -> float:
    """Estimate without bias the chance that one of `k` attempts succeeds (Chen et al. 2021, arXiv:2107.03374).

    NaN if n < k.
    """
    return math.nan if n < k else 1 - math.comb(n - successes, k) / math.comb(n, k)


def pass_all(k: int, successes: int, n: int) -> float:
    """Estimate without bias pass^k, the chance that all of `k` attempts succeed (Yao et al. 2024, arXiv:2406.12045).

    NaN if n < k.
    """
    return math.nan if n < k else math.comb(successes, k) / math.comb(n, k)


@lru_cache(maxsize=256)
def t_quantile(p: float, freedom: int) -> float:
    """Return the quantile of Student's t at `p` from 0.5 to 1, for an integer number of degrees of freedom.

    Bisects t's angle, atan(t / sqrt(freedom)), until the distribution (Abramowitz and Stegun 26.7.3 and 26.7.4)
    reaches `p`.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_within(middle, freedom) < 2 * p - 1 else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _t_within(angle: float, freedom: int) -> float:
    """Return the probability that |t| is below sqrt(freedom) * tan(angle)."""
    sine, cosine, odd = math.sin(angle), math.cos(angle), freedom % 2
    k_T = np.arange(1 + odd, freedom - 2, 2)
    total = 1 + float(np.cumprod(k_T / (k_T + 1) * cosine**2).sum())
    return 2 / math.pi * (angle + sine * cosine * total * (freedom > 1)) if odd else sine * total


# ---- training runs as the unit --------------------------------------------------------------------------------------


def runs_mean(scores: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """Estimate the interquartile mean of `scores` (S, W), S training seeds in W envs, with a stratified bootstrap.

    Seeds are drawn with replacement in each env independently (Agarwal et al. 2021, arXiv:2108.13264, and rliable).
    With fewer than `MIN_BOOTSTRAP` seeds the interval is Student's, with the bootstrap's standard error: percentiles of
    three values cover 76 %. Otherwise they are expanded as in `bootstrap_mean`. The ends are nan for one seed, or if
    all seeds are equal.
    """
    scores_SW = _runs(scores)
    value = interquartile_mean(scores_SW.ravel())
    if np.allclose(scores_SW, scores_SW[0], rtol=1e-12, atol=0):
        return Estimate(value, math.nan, math.nan, len(scores_SW))
    drawn_RSW = _resampled_runs(scores_SW, resamples, np.random.default_rng(seed))
    sorted_RN = np.sort(drawn_RSW.reshape(resamples, -1), 1)
    cut = sorted_RN.shape[1] // 4
    draws_R = sorted_RN[:, cut : sorted_RN.shape[1] - cut].mean(1)
    number = len(scores_SW)
    low, high = _student_ends(value, draws_R, number) if number < MIN_BOOTSTRAP else _ends(draws_R, number)
    return Estimate(value, low, high, number)


def improvement_probability(first: ArrayLike, second: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """Estimate the chance that a run of the first algorithm beats one of the second, from scores (S, W) and (Z, W).

    This is the mean over envs of Mann and Whitney's statistic, in which ties count half, with the interval of the
    stratified bootstrap (rliable). If all draws are alike, as when each run of the one beats each of the other, it is
    Wilson's of as many pairs as the fewer runs make. It has no interval with fewer than three seeds.
    """
    first_SW, second_ZW = _runs(first), _runs(second)
    if first_SW.shape[1] != second_ZW.shape[1]:
        raise ValueError(f"both must have the same envs, got {first_SW.shape} and {second_ZW.shape}")
    value = float(_wins(first_SW[None], second_ZW[None])[0])
    fewest = min(len(first_SW), len(second_ZW))
    if fewest < 3:
        return Estimate(value, math.nan, math.nan, fewest)
    rng = np.random.default_rng(seed)
    draws = (_resampled_runs(scores, resamples, rng) for scores in (first_SW, second_ZW))
    draws_R = _wins(*draws)
    if np.allclose(draws_R, value):
        return wilson(value * fewest, fewest)
    return Estimate(value, *_ends(draws_R, fewest), fewest)


def _runs(scores: ArrayLike) -> NDArray[np.float64]:
    scores_SW = np.asarray(scores, dtype=np.float64)
    if scores_SW.ndim != 2 or not scores_SW.size:
        raise ValueError(f"scores must be seeds by envs, got {scores_SW.shape}")
    return scores_SW


def _resampled_runs(scores_SW: NDArray[np.float64], resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    drawn_RSW = rng.integers(0, len(scores_SW), (resamples, *scores_SW.shape))
    drawn: NDArray[np.float64] = np.take_along_axis(scores_SW[None], drawn_RSW, 1)
    return drawn


def _wins(first_RSW: NDArray[np.float64], second_RZW: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each draw the share of pairs of runs, over envs, in which the first is ahead."""
    wins_R: NDArray[np.float64] = np.zeros(len(first_RSW))
    for row_RW in np.moveaxis(first_RSW, 1, 0):
        wins_R += (np.sign(row_RW[:, None] - second_RZW).mean((1, 2)) + 1) / 2
    wins_R /= first_RSW.shape[1]
    return wins_R


def interquartile_mean(values: ArrayLike) -> float:
    """Return the mean of `values` (N,) without the lowest and the highest quarter, as `scipy.stats.trim_mean`.

    The quarters are rounded down. Recommended for few runs by Agarwal et al. (2021, arXiv:2108.13264). NaN if N = 0.
    """
    sorted_N = np.sort(np.asarray(values, dtype=np.float64))
    cut = len(sorted_N) // 4
    return float(sorted_N[cut : len(sorted_N) - cut].mean()) if len(sorted_N) else math.nan


def improvement(pairs: Sequence[tuple[ArrayLike, ArrayLike]], *, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """Estimate the interquartile mean over runs of the gain in success; `pairs` has outcomes (N,) before and after.

    The interval is a two-stage bootstrap: runs are drawn with replacement, and then the tasks of each drawn run, so it
    covers both the seeds and the tasks (Davison and Hinkley 1997, 3.8), expanded for the number of runs. The ends are
    nan for fewer than two runs, or if nothing changed in any.
    """
    gains = [np.subtract(*_pair(after, before)) for before, after in pairs]
    value = interquartile_mean([float(gain.mean()) for gain in gains])
    if len(gains) < 2 or not any(gain.any() for gain in gains):
        return Estimate(value, math.nan, math.nan, len(gains))
    rng, runs = np.random.default_rng(seed), len(gains)
    draws = [_resampled_means(gain, np.ones_like(gain), resamples * runs, int(rng.integers(1 << 31))) for gain in gains]
    means_RDS = np.stack([means.reshape(resamples, runs) for means in draws], 2)
    chosen_RD1 = rng.integers(0, runs, (resamples, runs, 1))
    sorted_RD = np.sort(np.take_along_axis(means_RDS, chosen_RD1, 2)[:, :, 0], 1)
    middle_RD = sorted_RD[:, runs // 4 : runs - runs // 4]
    return Estimate(value, *_ends(middle_RD.mean(1), runs), runs)


def _ends(draws_R: NDArray[np.float64], n: int) -> tuple[float, float]:
    """Return percentiles of bootstrap draws, expanded so that for `n` normal values the interval is Student's."""
    outer = NormalDist().cdf(-math.sqrt(n / (n - 1)) * t_quantile(_UPPER, n - 1))
    low, high = np.quantile(draws_R, [outer, 1 - outer])
    return float(low), float(high)


def _student_ends(value: float, draws_R: NDArray[np.float64], n: int) -> tuple[float, float]:
    """Return Student's interval with the standard error of bootstrap draws of `n` values."""
    half = t_quantile(_UPPER, n - 1) * math.sqrt(n / (n - 1)) * float(draws_R.std())
    return value - half, value + half


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first_N, second_N = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if first_N.shape != second_N.shape:
        raise ValueError(f"pairs needed, got {first_N.shape} and {second_N.shape}")
    return first_N, second_N


def _by_cluster(
    values_N: NDArray[np.float64], clusters: Sequence[Hashable] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return sum and size of each cluster; without labels each value is its own cluster."""
    if clusters is None:
        return values_N, np.ones_like(values_N)
    position: dict[Hashable, int] = {}
    index_N = np.array([position.setdefault(label, len(position)) for label in clusters], dtype=np.intp)
    counts_C = np.bincount(index_N, minlength=len(position)).astype(np.float64)
    sums_C: NDArray[np.float64] = np.bincount(index_N, weights=values_N, minlength=len(position)).astype(np.float64)
    return sums_C, counts_C


def _resampled_means(sums_C: NDArray[Any], counts_C: NDArray[Any], resamples: int, seed: int) -> NDArray[np.float64]:
    """Return means of `resamples` draws of whole clusters with replacement, in blocks that bound memory."""
    rng = np.random.default_rng(seed)
    clusters = len(sums_C)
    means_R = np.empty(resamples)
    rows, all_alike = max(1, _BLOCK_SIZE // clusters), bool((counts_C == counts_C[0]).all())
    for start in range(0, resamples, rows):
        chosen_BC = rng.integers(0, clusters, (min(rows, resamples - start), clusters))
        sizes = counts_C.sum() if all_alike else counts_C.take(chosen_BC).sum(1)
        means_R[start : start + len(chosen_BC)] = sums_C.take(chosen_BC).sum(1) / sizes
    return means_R
