"""Intervals and paired comparisons: never a bare mean. numpy only; every random draw has a seed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_DRAWS_AT_ONCE = 1 << 20
SMALL_SAMPLE = 30
"""Under so many observations a table says how few they are."""
LEAST_SAMPLE = 10
"""Under so many the bootstrap has no interval: its percentiles are too narrow in small samples (Hesterberg 2015, The
American Statistician 69:371). Of normal values they would hold the mean P(|t| < 1.96 sqrt((n - 1) / n)) of the time,
t with n - 1 degrees of freedom: 81 % with n = 4, 90 % with n = 10, instead of 95 %."""


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
    """Two agents on the same tasks, one rollout a task, compared by success."""

    difference: Estimate
    """Success rate of the first minus that of the second."""
    only_first: int
    """Tasks in which only the first succeeded."""
    only_second: int
    """Tasks in which only the second succeeded."""
    p: float
    """Exact two-sided McNemar p."""


def wilson(successes: float, n: int, level: float = 0.95) -> Estimate:
    """Success rate with Wilson's score interval (Wilson 1927); with n = 0 the interval is [0, 1]."""
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be in [0, {n}], got {successes}")
    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0, level)
    z, rate = NormalDist().inv_cdf((1 + level) / 2), successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Estimate(rate, low, high, n, level)


def bootstrap_mean(
    values: ArrayLike,
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Estimate:
    """Mean of `values` (N,) with the percentile bootstrap interval (Efron 1979).

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
    means_R = _resampled_means(sums_C, counts_C, resamples, seed)
    low, high = np.quantile(means_R, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(mean, float(low), float(high), len(sums_C), level)


def success_rate(outcomes: Sequence[bool], clusters: Sequence[Hashable], *, level: float = 0.95) -> Estimate:
    """Rate of `outcomes` (N,), of which those with the same label in `clusters` (N) are not independent.

    Wilson's interval where each label stands once, else the clustered bootstrap. Where that one has no interval (few
    clusters, or all alike) Wilson's, each cluster counted as one observation.
    """
    number = len(set(clusters))
    if number == len(outcomes):
        return wilson(sum(outcomes), number, level)
    found = bootstrap_mean(outcomes, clusters=clusters, level=level)
    return wilson(found.value * number, number, level) if math.isnan(found.low) else found


def paired_bootstrap(
    first: ArrayLike,
    second: ArrayLike,
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Estimate:
    """Mean of `first - second` (N,), pair by pair, with its percentile bootstrap interval; `clusters` as above."""
    first_N, second_N = _pair(first, second)
    return bootstrap_mean(first_N - second_N, clusters=clusters, level=level, resamples=resamples, seed=seed)


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


def paired_difference(only_first: int, only_second: int, n: int, level: float = 0.95) -> Estimate:
    """Difference of two success rates on the same `n` tasks, from the two discordant counts.

    The interval is Wald's after 1/2 is added to each of the four counts, cut at -1 and 1 (Agresti and Min 2005,
    Statistics in Medicine 24:729): unlike a bootstrap's it keeps a width where the agents never differ.
    """
    if n == 0:
        return Estimate(math.nan, -1.0, 1.0, 0, level)
    centre = (only_first - only_second) / (n + 2)
    spread = math.sqrt(only_first + only_second + 1 - (only_first - only_second) ** 2 / (n + 2)) / (n + 2)
    half = NormalDist().inv_cdf((1 + level) / 2) * spread
    return Estimate((only_first - only_second) / n, max(-1.0, centre - half), min(1.0, centre + half), n, level)


def compare(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> Paired:
    """Two agents' outcomes (N,), 0 or 1, on the same tasks in the same order.

    Raises:
        ValueError: rows of different length, or values other than 0 and 1.
    """
    first_N, second_N = _pair(first, second)
    if not np.isin(np.concatenate([first_N, second_N]), (0.0, 1.0)).all():
        raise ValueError("outcomes must be 0 or 1")
    only_first = int(((first_N == 1) & (second_N == 0)).sum())
    only_second = int(((first_N == 0) & (second_N == 1)).sum())
    difference = paired_difference(only_first, only_second, len(first_N), level)
    return Paired(difference, only_first, only_second, mcnemar(only_first, only_second))


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

    The interval is a percentile bootstrap in two stages: runs are drawn with replacement, and of each drawn run its
    tasks, so that neither the luck of a seed nor that of the tasks is left out (Davison and Hinkley 1997, 3.8). Its
    ends are nan where there are fewer than two runs; with three to five runs it is still too narrow.
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
    low, high = np.quantile(kept_RD.mean(1), [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high), runs, level)


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
