"""Comparisons that may be looked at after every task, and stop when they are decided.

Two agents attempt the same tasks, one task after another. d_i is the success rate of the first at task i minus that of
the second, between -1 and 1. To test whether its mean is m, a gambler bets the share λ of its wealth that d_i is above
m. Its wealth after t tasks is

    K_t(m) = mean over λ of Π_{i <= t} (1 + λ (d_i - m)).

If m is the mean, the wealth is a nonnegative martingale that begins at 1, so that it ever reaches 1 / α with
probability α at most (Ville 1939). Hence, however often one looks and whenever one stops:

- K(0) is an e-value against "no difference", and 1 / max K(0) a p;
- the m whose wealth has never reached 1 / α are a confidence sequence for the difference.

This is the method of Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables by betting, Journal
of the Royal Statistical Society B 86:1. As there, no bet risks more than half of the wealth. The shares are Chebyshev
nodes of equal weight, a mixture that is chosen before the first task. With one attempt per task only tasks at which one
agent alone succeeds change K(0): it is a sequential form of McNemar's test.

A margin δ says which difference matters. Half of the wealth then bets λ_t = δ / v_t, with v_t the mean of (d_i - m)^2
over the tasks before: the approximate growth-rate adaptive bet (their section 5.3) against a difference of δ, which is
Wald's sequential probability ratio test if d is -1, 0 or 1 and v_t is known. The comparison also ends if m = δ and
m = -δ are both rejected at 1 - power: with a probability of power at least, a difference of δ does not end so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentgym_py.errors import ConfigError, setting
from agentgym_py.evaluation.compare import Entrant
from agentgym_py.evaluation.folder import SAME_QUESTION, differences
from agentgym_py.evaluation.stats import Estimate
from agentgym_py.evaluation.text import p_value
from agentgym_py.trajectory import Trajectory

Verdict: TypeAlias = Literal["first", "second", "equal", "undecided"]
"""Which agent is better; `equal`: the difference is smaller than the margin; `undecided`: more tasks are needed."""
LEVEL = 0.95
_NODES = 16
"""Number of shares that are bet."""
_RISK = 0.5
"""Largest share of the wealth that a task can lose."""
_AIMED = 0.5
"""Part of the wealth that bets on the margin, if there is one."""
_BEFORE = 4
"""Tasks of the largest difference, 1, that v_t begins with, so that first bets are small."""
_LARGEST = 700.0
"""Largest logarithm whose exponential is a number."""
_ROUNDING = 1e-9
_GRID = 400
"""Number of differences between -1 and 1 that are tested, plus one; the interval is rounded outward to them."""
_LEAST_MARGIN = 4 / _GRID
"""A smaller margin is hardly ever above the interval's ends, so that no comparison ends as equal."""


@dataclass(frozen=True, slots=True)
class AnytimeComparison:
    """The state of a comparison after some tasks."""

    difference: Estimate
    """Mean difference so far, with the confidence sequence; `n` counts tasks."""
    e_value: float
    """Wealth of the bets against "no difference"."""
    p: float
    """Anytime-valid p: one divided by the largest e-value so far."""
    verdict: Verdict
    decided_at: int | None = None
    """Number of tasks at the first decision."""
    fits: bool = True
    """Whether a difference is left that fits all tasks; the true one is, with the probability of the interval, if the
    order of the tasks does not depend on their outcomes."""


def shares_of_wealth(means_M: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shares (M, L) that are bet at each mean between -1 and 1."""
    nodes_L = np.cos((2 * np.arange(_NODES) + 1) * np.pi / (2 * _NODES))
    # a task can lose 1 + m of a bet above m, and 1 - m of one below it
    loss_ML = np.where(nodes_L > 0, 1 + means_M[:, None], 1 - means_M[:, None])
    shares_ML: NDArray[np.float64] = _RISK * nodes_L / loss_ML
    return shares_ML


class Bets:
    """The wealth of bets at M means, of one comparison or of several (C) side by side."""

    def __init__(self, means_M: NDArray[np.float64], margin: float | None = None, comparisons: int = 1) -> None:
        """Begin with a wealth of 1; with a margin a part of it bets on a difference of that size."""
        self._means_M, self._margin = means_M, margin
        self._shares_ML = shares_of_wealth(means_M)
        self._log_fixed_CML = np.zeros((comparisons, *self._shares_ML.shape))
        self._log_aimed_CM2 = np.zeros((comparisons, len(means_M), 2))
        self._squares_CM, self._n = np.full((comparisons, len(means_M)), float(_BEFORE)), _BEFORE
        self.largest_CM: NDArray[np.float64] = np.zeros((comparisons, len(means_M)))
        """The largest wealth so far."""

    def add(self, differences_C: NDArray[np.float64]) -> None:
        """Pay the bets on a task of each comparison."""
        excess_CM = differences_C[:, None] - self._means_M
        self._log_fixed_CML += np.log1p(self._shares_ML * excess_CM[..., None])
        if self._margin is not None:
            share_CM = self._margin * self._n / self._squares_CM
            above_CM = np.minimum(share_CM, _RISK / (1 + self._means_M))
            below_CM = np.minimum(share_CM, _RISK / (1 - self._means_M))
            self._log_aimed_CM2 += np.log1p(np.stack([above_CM * excess_CM, -below_CM * excess_CM], -1))
            self._squares_CM += excess_CM**2
            self._n += 1
        self.largest_CM = np.maximum(self.largest_CM, self.wealth())

    def wealth(self) -> NDArray[np.float64]:
        """Return the wealth now, (C, M)."""
        fixed_CM: NDArray[np.float64] = np.exp(np.minimum(self._log_fixed_CML, _LARGEST)).mean(-1)
        if self._margin is None:
            return fixed_CM
        aimed_CM: NDArray[np.float64] = np.exp(np.minimum(self._log_aimed_CM2, _LARGEST)).mean(-1)
        return (1 - _AIMED) * fixed_CM + _AIMED * aimed_CM


class AnytimeTest:
    """Watches the differences of two agents, task by task."""

    def __init__(self, *, level: float = LEVEL, margin: float | None = None, power: float | None = None) -> None:
        """Begin a comparison at a level of confidence.

        Args:
            level: The chance that the interval holds the true difference after every task.
            margin: Two agents whose difference is smaller count as equal; None: they never do.
            power: The chance that a difference of the margin is not taken for equality, by default `level`. Less of it
                ends the comparison of equal agents earlier.

        Raises:
            ConfigError: one of them is not between 0 and 1, or a power has no margin.
        """
        require_plan(margin, power)
        if not 0 < level < 1:
            raise ConfigError(f"level must be above 0 and below 1, got {level}")
        self._level, self._margin, self._power = level, margin, level if power is None else power
        self._means_M = np.linspace(-1, 1, _GRID + 1)[1:-1]
        self._bets = Bets(self._means_M, margin)
        self._interval, self._fits = (-1.0, 1.0), True
        self._sum, self._n = 0.0, 0
        self._decided: tuple[Verdict, int] | None = None

    def add(self, difference: float) -> AnytimeComparison:
        """Add a task's difference, and return the comparison so far.

        Raises:
            ConfigError: the difference is not between -1 and 1.
        """
        if not -1 <= difference <= 1:
            raise ConfigError(f"a difference of success rates is between -1 and 1, got {difference}")
        self._sum, self._n = self._sum + difference, self._n + 1
        self._bets.add(np.array([difference]))
        ends = self._ends(self._level)
        self._interval, self._fits = ends or self._interval, ends is not None
        if self._decided is None and (verdict := self._verdict()) != "undecided":
            self._decided = verdict, self._n
        return self.result

    @property
    def result(self) -> AnytimeComparison:
        """The comparison so far; a decision stands, whatever the tasks after it show, as long as a difference fits."""
        mean = self._sum / self._n if self._n else float("nan")
        zero = _GRID // 2 - 1
        verdict, decided_at = (self._decided if self._fits else None) or ("undecided", None)
        return AnytimeComparison(
            Estimate(mean, *self._interval, self._n, self._level), float(self._bets.wealth()[0, zero]),
            min(1.0, 1 / max(1.0, float(self._bets.largest_CM[0, zero]))), verdict, decided_at, self._fits,
        )  # fmt: skip

    def _ends(self, level: float) -> tuple[float, float] | None:
        """Return the interval of the means that were never rejected, rounded outward; None if all were."""
        kept = np.flatnonzero(self._bets.largest_CM[0] < 1 / (1 - level))
        if not len(kept):
            return None
        step = 2 / _GRID
        return float(self._means_M[kept[0]]) - step, float(self._means_M[kept[-1]]) + step

    def _verdict(self) -> Verdict:
        if self._bets.largest_CM[0, _GRID // 2 - 1] >= 1 / (1 - self._level):
            return "first" if self._sum > 0 else "second"
        if self._margin is not None and (ends := self._ends(self._power)):
            largest = max(-ends[0], ends[1])  # a mean that is rejected, and so is every larger one
            return "equal" if largest < self._margin + _ROUNDING else "undecided"
        return "undecided"


@dataclass(frozen=True, slots=True)
class SequentialComparison:
    """Two evaluations of the same tasks, compared in the order of the tasks."""

    first: str
    second: str
    margin: float | None
    result: AnytimeComparison
    trace: Sequence[Estimate] = ()
    """The difference with its interval after each task."""
    power: float | None = None
    """The chance that a difference of the margin is not taken for equality; None: the level of the interval."""
    score: str | None = None
    """The score that is compared, of other programs' logs."""

    def __str__(self) -> str:
        """Return the difference with its confidence sequence, and the decision."""
        found, points = self.result, self.result.difference
        if not points.n:
            return f"{self.first} − {self.second}: no task that both have attempted"
        scored = f", scored by {self.score}" if self.score else ""
        return (
            f"{self.first} − {self.second}{scored}, looked at after each of {points.n} tasks: "
            f"{100 * points.value:+.1f} points [{100 * points.low:+.1f}, {100 * points.high:+.1f}], "
            f"e-value {found.e_value:.3g}, p {p_value(found.p)}\n"
            f"{self._decision()}"
        )

    def _decision(self) -> str:
        found = self.result
        if not found.fits:
            return "undecided: no difference fits all tasks, so their order depends on the outcomes"
        after = f"decided after {found.decided_at} task{'s' * (found.decided_at != 1)}"
        if found.verdict == "undecided":
            return "undecided: more tasks may decide it"
        if found.verdict == "equal":
            sure = f", with {100 * self.power:g} % confidence" if self.power else ""
            return f"{after}: they differ by less than {100 * (self.margin or 0):g} points{sure}"
        return f"{after}: {self.first if found.verdict == 'first' else self.second} is better"

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values, without the trace."""
        return {name: value for name, value in asdict(self).items() if name != "trace"}


def compare_in_order(
    first: Entrant, second: Entrant, *, level: float = LEVEL, margin: float | None = None, power: float | None = None
) -> SequentialComparison:
    """Compare two evaluations task by task, in the order of the first one; see `AnytimeTest`.

    One may have more tasks than the other. Tasks in which infrastructure failures ended every attempt are left out.

    Raises:
        ConfigError: they have different settings, or tasks in another order, or are the same.
    """
    _require_same_tasks(first, second)
    test = AnytimeTest(level=level, margin=margin, power=power)
    tasks = [task for task in first.outcomes if task in second.outcomes]
    trace = [test.add(fmean(first.outcomes[task]) - fmean(second.outcomes[task])).difference for task in tasks]
    score = first.manifest.get("score")
    return SequentialComparison(first.name, second.name, margin, test.result, trace, power, score)


@dataclass(frozen=True, slots=True)
class Opponent:
    """The evaluation with which another one is compared until it is decided which agent is better."""

    evaluation: Entrant
    manifest: Mapping[str, Any]
    """Of the other evaluation."""
    name: str
    """Of the other evaluation."""
    margin: float | None = None
    power: float | None = None

    def require_comparable(self, tasks: int) -> None:
        """Raise ConfigError if the evaluation has other settings, or fewer than this number of tasks."""
        require_plan(self.margin, self.power)
        self.compare([])
        if (most := self.evaluation.tasks_played) < tasks:
            few = f"{self.evaluation.name} has played {most} tasks, fewer than {setting('tasks', tasks)}"
            raise ConfigError(f"{few}: give at most {setting('tasks', most)}")

    def compare(self, trajectories: Sequence[Trajectory]) -> SequentialComparison:
        """Compare after these episodes of the other evaluation."""
        entrant = Entrant.from_trajectories(self.name, self.manifest, trajectories)
        return compare_in_order(entrant, self.evaluation, margin=self.margin, power=self.power)

    def is_decided(self, trajectories: Sequence[Trajectory]) -> bool:
        """Return whether these episodes decide it."""
        return self.compare(trajectories).result.verdict != "undecided"


def require_plan(margin: float | None, power: float | None) -> None:
    """Raise ConfigError for a margin or power that is not between 0 and 1, or a power without a margin."""
    for name, value in (("margin", margin), ("power", power)):
        if value is not None and not 0 < value < 1:
            raise ConfigError(f"{setting(name)} must be above 0 and below 1, got {value}")
    if margin is not None and margin < _LEAST_MARGIN:
        raise ConfigError(
            f"{setting('margin')} must be at least {_LEAST_MARGIN}, twice the step of the interval, got {margin}"
        )
    if power is not None and margin is None:
        raise ConfigError("power needs a margin: the difference that is to be found")


def _require_same_tasks(first: Entrant, second: Entrant) -> None:
    if Path(first.name).absolute() == Path(second.name).absolute():
        raise ConfigError(f"{first.name} is given twice")
    one, other = (dict(entrant.manifest) for entrant in (first, second))
    if len(one["worlds"]) == len(other["worlds"]):
        pairs = list(zip(one["worlds"], other["worlds"], strict=True))
        shared = _in_both if "score" in one and "score" in other else _as_many
        one["worlds"] = [{**world, "tasks": shared(world["tasks"], beside["tasks"])} for world, beside in pairs]
        other["worlds"] = [{**world, "tasks": shared(world["tasks"], beside["tasks"])} for beside, world in pairs]
    if different := differences(one, other, (*SAME_QUESTION, "score")):
        raise ConfigError(f"{first.name} and {second.name} cannot be compared: {'; '.join(different)}")


def _as_many(tasks: Sequence[str], beside: Sequence[str]) -> Sequence[str]:
    """Return as many of the first tasks as the other evaluation has."""
    return tasks[: len(beside)]


def _in_both(tasks: Sequence[str], beside: Sequence[str]) -> Sequence[str]:
    """Return the tasks that another program's log shares with the other one, or all of them if it shares none."""
    others = set(beside)
    return [task for task in tasks if task in others] or tasks
