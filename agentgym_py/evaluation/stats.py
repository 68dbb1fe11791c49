"""Intervals and paired comparisons: never a bare mean. numpy only; every random draw has a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_DRAWS_AT_ONCE = 1 << 20
SMALL_SAMPLE = 30
"""A table notes fewer observations than this."""
LEAST_SAMPLE = 10
"""Fewer values get no bootstrap interval, because they do not show how skewed they are."""
LEAST_SEEDS = 5
"""A table notes fewer training seeds than this."""
_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its interval; all three are nan where there is no data, both ends where it is too little for one."""

    value: float
    low: float
    high: float
    n: int
    """Independent observations: episodes, or tasks where the interval is clustered by task."""
    level: float = 0.95

    @property
    def small(self) -> bool:
        """Whether there are too few observations to trust the interval much."""
        return self.n < SMALL_SAMPLE


@dataclass(frozen=True, slots=True)
class Paired:
    """Two agents on the same tasks compared by success."""

    difference: Estimate
    """Success rate of the first minus that of the second."""
    only_first: int
    """Tasks in which only the first succeeded; with several rollouts, in which it did more often."""
    only_second: int
    """The same of the second."""
    p: float
    """Two-sided: McNemar's exact p; with several rollouts that of `sign_flips`."""
    detectable: float
    """The smallest difference detected with this many tasks, at p < 1 - level, in 80 % of comparisons."""


def wilson(successes: float, n: int, level: float = 0.95) -> Estimate:
    """Success rate with Wilson's score interval (Wilson 1927); with n = 0 the interval is [0, 1]."""
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be in [0, {n}], got {successes}")
    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0, level)
    low, high = _wilson_ends(successes / n, n, NormalDist().inv_cdf((1 + level) / 2))
    return Estimate(successes / n, low, high, n, level)


def _wilson_ends(rate: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's interval, `z` standard errors wide to each side."""
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return (0.0 if rate == 0 else centre - half), (1.0 if rate == 1 else centre + half)


def bootstrap_mean(
    values: ArrayLike,
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Estimate:
    """Mean of `values` (N,) with the expanded percentile bootstrap interval (Efron 1979; Hesterberg 2015, 3.3).

    Plain percentiles are too narrow in small samples: of n normal values they hold the mean
    P(|t| < 1.96 sqrt((n - 1) / n)) of the time, 90 % with n = 10, instead of 95 %. The expanded ones are those further
    out that make up for it (The American Statistician 69:371).

    With `clusters` (N labels, such as task ids) whole clusters are drawn: rollouts of one task are not independent.
    The ends are nan where the interval would claim what the data cannot say: fewer observations than `LEAST_SAMPLE`, or
    all of them equal, which gives every draw the same mean.
    """
    values_N = np.asarray(values, dtype=np.float64)
    if values_N.ndim != 1 or (clusters is not None and len(clusters) != len(values_N)):
        raise ValueError("values must be one row, and clusters as long")
    sums_C, counts_C = _by_cluster(values_N, clusters)
    if len(sums_C) == 0:
        return Estimate(math.nan, math.nan, math.nan, 0, level)
    mean = float(sums_C.sum() / counts_C.sum())
    if len(sums_C) < LEAST_SAMPLE or np.allclose(sums_C / counts_C, mean, rtol=1e-12, atol=0):
        return Estimate(mean, math.nan, math.nan, len(sums_C), level)
    low, high = _ends(_resampled_means(sums_C, counts_C, resamples, seed), len(sums_C), level)
    return Estimate(mean, low, high, len(sums_C), level)


def bootstrap(
    statistic: Callable[[NDArray[np.intp]], Sequence[float]],
    clusters: Sequence[Hashable],
    *,
    level: float = 0.95,
    resamples: int = 1_000,
    seed: int = 0,
) -> list[Estimate]:
    """Some figures of N rows, `statistic` of their positions, with intervals as `bootstrap_mean` has them.

    Rows with the same label in `clusters` (N) are drawn together. For what is no mean, such as a correlation. The ends
    are nan where there are fewer clusters than `LEAST_SAMPLE`, or some draw has no such figure.
    """
    rows: dict[Hashable, list[int]] = {}
    for row, label in enumerate(clusters):
        rows.setdefault(label, []).append(row)
    parts = [np.array(each, dtype=np.intp) for each in rows.values()]
    whole, many = [float(value) for value in statistic(np.arange(len(clusters)))], len(parts)
    if many < LEAST_SAMPLE:
        return [Estimate(value, math.nan, math.nan, many, level) for value in whole]
    drawn_RC = np.random.default_rng(seed).integers(0, many, (resamples, many))
    draws_RK = np.array([statistic(np.concatenate([parts[c] for c in drawn_C])) for drawn_C in drawn_RC])
    return [
        Estimate(value, *(_ends(draws_R, many, level) if np.isfinite(draws_R).all() else (math.nan,) * 2), many, level)
        for value, draws_R in zip(whole, draws_RK.T, strict=True)
    ]


def success_rate(outcomes: ArrayLike, clusters: Sequence[Hashable], *, level: float = 0.95) -> Estimate:
    """Rate of `outcomes` (N,), each from 0 to 1; those with the same label in `clusters` (N) are not independent.

    Wilson's interval where each label stands once. Else Wilson's for as many independent episodes as would have the
    rate's clustered variance, with Student's t for the number of clusters (Korn and Graubard 1998, Survey Methodology
    24:193; with Wilson's formula Dean and Pagano 2015, J. Survey Statistics and Methodology 3:484): a bootstrap is too
    narrow where almost all fail. Where all clusters are alike each counts as one observation.
    """
    values_N = np.asarray(outcomes, dtype=np.float64)
    sums_C, counts_C = _by_cluster(values_N, clusters)
    number, total = len(sums_C), len(values_N)
    if number == total and np.isin(values_N, (0, 1)).all():
        return wilson(float(sums_C.sum()), number, level)
    rate = float(sums_C.sum() / total)
    variance = float(((sums_C - rate * counts_C) ** 2).sum()) / total**2 * number / max(1, number - 1)
    if number < 2 or variance < 1e-12:
        return wilson(rate * number, number, level)
    low, high = _wilson_ends(rate, rate * (1 - rate) / variance, t_quantile((1 + level) / 2, number - 1))
    return Estimate(rate, low, high, number, level)


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p of McNemar's test from the two discordant counts; 1.0 where there are none."""
    if min(only_first, only_second) < 0:
        raise ValueError("counts must not be negative")
    discordant = only_first + only_second
    term = tail = 1
    for k in range(1, min(only_first, only_second) + 1):
        term = term * (discordant - k + 1) // k
        tail += term
    return min(1.0, 2 * tail / (1 << discordant))


def sign_flips(differences: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> float:
    """Two-sided p of the mean of `differences` (T,) between two agents, one a task, being 0.

    If the agents are alike, each difference may as well have the other sign (Fisher's randomisation test): the share of
    drawn signs with a mean as far from 0, never less than 1 in `resamples` + 1. With one rollout a task this is what
    McNemar's exact test counts out.
    """
    found_T = np.asarray(differences, dtype=np.float64)
    found_T = found_T[found_T != 0]
    signs = np.random.default_rng(seed)
    far = abs(found_T.sum()) * (1 - 1e-9)  # sums in another order round otherwise
    rows, as_far = max(1, _DRAWS_AT_ONCE // max(1, len(found_T))), 1
    for start in range(0, resamples, rows):
        drawn_BT = 2.0 * signs.integers(0, 2, (min(rows, resamples - start), len(found_T))) - 1
        as_far += int((abs(drawn_BT @ found_T) >= far).sum())
    return as_far / (resamples + 1)


def holm(ps: Sequence[float]) -> list[float]:
    """`ps` adjusted for that many looks: who claims those of at most 0.05 errs anywhere in 5 % of cases (Holm 1979)."""
    adjusted, reached = [1.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        reached = max(reached, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = reached
    return adjusted


def paired_difference(
    only_first: float, only_second: float, n: int, level: float = 0.95, squares: float | None = None
) -> Estimate:
    """Difference of two success rates on the same `n` tasks, from the two discordant counts.

    The interval is Wald's after 1/2 is added to each of the four counts, cut at -1 and 1 (Agresti and Min 2005,
    Statistics in Medicine 24:729): unlike a bootstrap's it keeps a width where the agents never differ. For several
    rollouts a task the counts are the sums of the differences either way, and `squares` that of their squares.
    """
    if n == 0:
        return Estimate(math.nan, -1.0, 1.0, 0, level)
    centre = (only_first - only_second) / (n + 2)
    half = NormalDist().inv_cdf((1 + level) / 2) * _paired_error(only_first, only_second, n, squares)
    return Estimate((only_first - only_second) / n, max(-1.0, centre - half), min(1.0, centre + half), n, level)


def _paired_error(only_first: float, only_second: float, n: int, squares: float | None = None) -> float:
    """Standard error of the difference after Agresti and Min's four halves."""
    found = only_first + only_second if squares is None else squares
    return math.sqrt(found + 1 - (only_first - only_second) ** 2 / (n + 2)) / (n + 2)


def compare(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> Paired:
    """Two agents' outcomes (N,), 0 or 1, on the same tasks in the same order.

    Raises:
        ValueError: rows of different length, or values other than 0 and 1.
    """
    first_N, second_N = _pair(first, second)
    if not np.isin(np.concatenate([first_N, second_N]), (0.0, 1.0)).all():
        raise ValueError("outcomes must be 0 or 1")
    return compare_means(first_N, second_N, level=level)


def compare_means(
    first: ArrayLike, second: ArrayLike, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Paired:
    """Two agents' success rates (T,) in the same tasks in the same order.

    With one rollout a task McNemar's test and Agresti and Min's interval; with several the paired bootstrap and
    `sign_flips`. Where the bootstrap has no interval (few tasks, or all differ alike) it is Agresti and Min's too.
    """
    differences_T = np.subtract(*_pair(first, second))
    better, worse = differences_T > 0, differences_T < 0
    counts, squares = (int(better.sum()), int(worse.sum())), float((differences_T**2).sum())
    sums, n = (float(differences_T[better].sum()), float(-differences_T[worse].sum())), len(differences_T)
    if np.isin(np.concatenate([np.ravel(first), np.ravel(second)]), (0.0, 1.0)).all():
        difference, p = paired_difference(*counts, n, level), mcnemar(*counts)
    else:
        difference = bootstrap_mean(differences_T, level=level, resamples=resamples, seed=seed)
        p = sign_flips(differences_T, resamples=resamples, seed=seed)
        if math.isnan(difference.low):
            difference = paired_difference(*sums, n, level, squares)
    shown = NormalDist().inv_cdf((1 + level) / 2) + NormalDist().inv_cdf(_POWER)
    detectable = shown * _paired_error(*sums, n, squares) if n else math.nan
    return Paired(difference, *counts, p, detectable)


def pass_at(k: int, successes: int, n: int) -> float:
    """Chance that one of `k` tries succeeds, without bias from `successes` of `n` (Chen et al. 2021, arXiv:2107.03374).

    NaN where n < k.
    """
    return math.nan if n < k else 1 - math.comb(n - successes, k) / math.comb(n, k)


def pass_all(k: int, successes: int, n: int) -> float:
    """pass^k, the chance that all of `k` tries succeed, without bias (Yao et al. 2024, arXiv:2406.12045).

    NaN where n < k.
    """
    return math.nan if n < k else math.comb(successes, k) / math.comb(n, k)


def t_quantile(p: float, freedom: int) -> float:
    """Quantile of Student's t at `p` from 0.5 to 1, for a whole number of degrees of freedom.

    Halves the interval of t's angle, atan(t / sqrt(freedom)), in which the distribution (Abramowitz and Stegun 26.7.3
    and 26.7.4) reaches `p`.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_within(middle, freedom) < 2 * p - 1 else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _t_within(angle: float, freedom: int) -> float:
    """How often |t| is below sqrt(freedom) * tan(angle)."""
    sine, cosine, odd = math.sin(angle), math.cos(angle), freedom % 2
    k_T = np.arange(1 + odd, freedom - 2, 2)
    total = 1 + float(np.cumprod(k_T / (k_T + 1) * cosine**2).sum())
    return 2 / math.pi * (angle + sine * cosine * total * (freedom > 1)) if odd else sine * total


# ---- training runs as the unit --------------------------------------------------------------------------------------


def runs_mean(scores: ArrayLike, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """Interquartile mean of `scores` (S, W), of S training seeds in W worlds, with the stratified bootstrap's interval.

    Seeds are drawn with replacement in each world on its own (Agarwal et al. 2021, arXiv:2108.13264, and rliable). The
    percentiles are expanded as in `bootstrap_mean`: plain ones hold the truth 91 % of the time with five seeds.
    """
    scores_SW = _runs(scores)
    value = interquartile_mean(scores_SW.ravel())
    if len(scores_SW) < 2:
        return Estimate(value, math.nan, math.nan, len(scores_SW), level)
    drawn_RSW = _resampled_runs(scores_SW, resamples, np.random.default_rng(seed))
    sorted_RN = np.sort(drawn_RSW.reshape(resamples, -1), 1)
    cut = sorted_RN.shape[1] // 4
    low, high = _ends(sorted_RN[:, cut : sorted_RN.shape[1] - cut].mean(1), len(scores_SW), level)
    return Estimate(value, low, high, len(scores_SW), level)


def improvement_probability(
    first: ArrayLike, second: ArrayLike, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Estimate:
    """Chance that a run of the first algorithm beats one of the second: scores (S, W) and (Z, W), ties count half.

    The mean over worlds of Mann and Whitney's statistic, with the stratified bootstrap's interval (rliable).
    """
    first_SW, second_ZW = _runs(first), _runs(second)
    if first_SW.shape[1] != second_ZW.shape[1]:
        raise ValueError(f"both must have the same worlds, got {first_SW.shape} and {second_ZW.shape}")
    value = float(_wins(first_SW[None], second_ZW[None])[0])
    fewest = min(len(first_SW), len(second_ZW))
    if fewest < 2:
        return Estimate(value, math.nan, math.nan, fewest, level)
    rng = np.random.default_rng(seed)
    drawn = (_resampled_runs(each, resamples, rng) for each in (first_SW, second_ZW))
    low, high = _ends(_wins(*drawn), fewest, level)
    return Estimate(value, low, high, fewest, level)


def _runs(scores: ArrayLike) -> NDArray[np.float64]:
    scores_SW = np.asarray(scores, dtype=np.float64)
    if scores_SW.ndim != 2 or not scores_SW.size:
        raise ValueError(f"scores must be seeds by worlds, got {scores_SW.shape}")
    return scores_SW


def _resampled_runs(scores_SW: NDArray[np.float64], resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    drawn_RSW = rng.integers(0, len(scores_SW), (resamples, *scores_SW.shape))
    drawn: NDArray[np.float64] = np.take_along_axis(scores_SW[None], drawn_RSW, 1)
    return drawn


def _wins(first_RSW: NDArray[np.float64], second_RZW: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each draw how often the first is ahead, over pairs of runs and worlds."""
    wins_R: NDArray[np.float64] = np.zeros(len(first_RSW))
    for row_RW in np.moveaxis(first_RSW, 1, 0):
        wins_R += (np.sign(row_RW[:, None] - second_RZW).mean((1, 2)) + 1) / 2 / first_RSW.shape[1]
    return wins_R


def interquartile_mean(values: ArrayLike) -> float:
    """Mean of `values` (N,) without the lowest and the highest quarter (each rounded down), as `scipy.stats.trim_mean`.

    The aggregate that Agarwal et al. (2021, arXiv:2108.13264) advise for few runs; nan where there are none.
    """
    sorted_N = np.sort(np.asarray(values, dtype=np.float64))
    cut = len(sorted_N) // 4
    return float(sorted_N[cut : len(sorted_N) - cut].mean()) if len(sorted_N) else math.nan


def improvement(
    pairs: Sequence[tuple[ArrayLike, ArrayLike]], *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Estimate:
    """Interquartile mean over runs of how much success rose: `pairs` has each run's outcomes (N,) before and after.

    The interval is a bootstrap in two stages: runs are drawn with replacement, and of each drawn run its tasks, so that
    neither the luck of a seed nor that of the tasks is left out (Davison and Hinkley 1997, 3.8), widened as for so few
    runs. Its ends are nan where there are fewer than two runs.
    """
    gains = [np.subtract(*_pair(after, before)) for before, after in pairs]
    value = interquartile_mean([float(gain.mean()) for gain in gains])
    if len(gains) < 2:
        return Estimate(value, math.nan, math.nan, len(gains), level)
    rng, runs = np.random.default_rng(seed), len(gains)
    drawn = [_resampled_means(gain, np.ones_like(gain), resamples * runs, int(rng.integers(1 << 31))) for gain in gains]
    means_RDS = np.stack([each.reshape(resamples, runs) for each in drawn], 2)
    chosen_RD1 = rng.integers(0, runs, (resamples, runs, 1))
    sorted_RD = np.sort(np.take_along_axis(means_RDS, chosen_RD1, 2)[:, :, 0], 1)
    kept_RD = sorted_RD[:, runs // 4 : runs - runs // 4]
    return Estimate(value, *_ends(kept_RD.mean(1), runs, level), runs, level)


def _ends(draws_R: NDArray[np.float64], n: int, level: float) -> tuple[float, float]:
    """Percentiles of a bootstrap's draws, so far out that of `n` normal values their interval would be Student's."""
    outer = NormalDist().cdf(-math.sqrt(n / (n - 1)) * t_quantile((1 + level) / 2, n - 1))
    low, high = np.quantile(draws_R, [outer, 1 - outer])
    return float(low), float(high)


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first_N, second_N = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if first_N.shape != second_N.shape:
        raise ValueError(f"pairs needed, got {first_N.shape} and {second_N.shape}")
    return first_N, second_N


def _by_cluster(
    values_N: NDArray[np.float64], clusters: Sequence[Hashable] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum and number of the values of each cluster; each value is its own cluster where none are given."""
    if clusters is None:
        return values_N, np.ones_like(values_N)
    position: dict[Hashable, int] = {}
    index_N = np.array([position.setdefault(each, len(position)) for each in clusters], dtype=np.intp)
    counts_C = np.bincount(index_N, minlength=len(position)).astype(np.float64)
    sums_C: NDArray[np.float64] = np.bincount(index_N, weights=values_N, minlength=len(position)).astype(np.float64)
    return sums_C, counts_C


def _resampled_means(sums_C: NDArray[Any], counts_C: NDArray[Any], resamples: int, seed: int) -> NDArray[np.float64]:
    """Means of `resamples` draws of whole clusters with replacement, a block of draws at a time to bound memory."""
    rng = np.random.default_rng(seed)
    clusters = len(sums_C)
    means_R = np.empty(resamples)
    rows = max(1, _DRAWS_AT_ONCE // clusters)
    for start in range(0, resamples, rows):
        drawn_BC = rng.integers(0, clusters, (min(rows, resamples - start), clusters))
        means_R[start : start + len(drawn_BC)] = sums_C[drawn_BC].sum(1) / counts_C[drawn_BC].sum(1)
    return means_R
