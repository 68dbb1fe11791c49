"""Does a comparison that is looked at after every task keep its level, and how early does it stop?

    python benchmarks/anytime.py                      # 10,000 simulated comparisons per row
    python benchmarks/anytime.py --simulations 500    # quicker
    python benchmarks/anytime.py --planned            # the third table alone

Two agents attempt the same tasks once. In a share of the tasks, the discordant ones, one of them alone succeeds. The
first table has no true difference: the share of comparisons that claim one at some look, beside that of a test that is
not made for looking often. The second has a true difference: after how many tasks a comparison is decided, beside the
number of tasks that a test at a fixed size needs (McNemar's, by Connor 1987), and the mean that no test can fall below
(Wald 1945). The last line of the second is the share of comparisons whose interval held the true difference after every
task. The third table has comparisons with a margin of 10 points and a power, which also end without a claim, beside
Wald's sequential probability ratio test with the same thresholds, which knows how many tasks are discordant.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from agentgym_py.evaluation.anytime import AnytimeTest, Bets, shares_of_wealth
from agentgym_py.evaluation.stats import wilson
from agentgym_py.evaluation.text import format_interval

TASKS = 1000
DISCORDANT = (0.1, 0.3, 0.5)
GAPS = (0.05, 0.1, 0.2)
POWERS = (0.8, 0.95, 0.99)
MARGIN = 0.1
PLANNED = (0.8, 0.95)
"""Powers of comparisons with this margin."""
SIZES = (0.0, 0.1, 0.2)
"""True differences of these."""
_BATCH = 500


def draw(rng: np.random.Generator, simulations: int, discordant: float, gap: float) -> NDArray[np.int8]:
    """Draw differences (S, T): 1 if the first alone succeeds, -1 if the second does."""
    uniform_ST = rng.random((simulations, TASKS))
    first_ST, discordant_ST = uniform_ST < (discordant + gap) / 2, uniform_ST < discordant
    return first_ST.astype(np.int8) - (discordant_ST & ~first_ST)


def first_looks(differences_ST: NDArray[np.int8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the task after which each comparison is decided, by bets and by a z of every look; inf without one."""
    wins_ST, losses_ST = np.cumsum(differences_ST == 1, 1), np.cumsum(differences_ST == -1, 1)
    shares_L = shares_of_wealth(np.zeros(1))[0]
    wealth_ST = np.zeros(differences_ST.shape)
    for share in shares_L:
        wealth_ST += np.exp(wins_ST * math.log1p(share) + losses_ST * math.log1p(-share)) / len(shares_L)
    z_ST = np.abs(wins_ST - losses_ST) / np.sqrt(np.maximum(wins_ST + losses_ST, 1))
    peeking_ST = (z_ST > NormalDist().inv_cdf(0.975)) & (wins_ST + losses_ST >= 10)
    return _first(wealth_ST >= 20), _first(peeking_ST)


def _first(hits_ST: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.where(hits_ST.any(1), hits_ST.argmax(1) + 1.0, math.inf)


def simulate(simulations: int, discordant: float, gap: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return `first_looks` of many comparisons."""
    rng = np.random.default_rng(0)
    sizes = [min(_BATCH, simulations - begun) for begun in range(0, simulations, _BATCH)]
    looks = [first_looks(draw(rng, size, discordant, gap)) for size in sizes]
    return np.concatenate([bets for bets, _ in looks]), np.concatenate([peeking for _, peeking in looks])


def planned_looks(differences_ST: NDArray[np.int8], discordant: float | None = None) -> list[NDArray[np.float64]]:
    """Return when a comparison claims a difference, and when it rejects the margin at each of `PLANNED`; inf if never.

    With the share of discordant tasks it is Wald's test, which bets on a known ratio of likelihoods.
    """
    simulations = len(differences_ST)
    bets = Bets(np.array([-MARGIN, 0.0, MARGIN]), MARGIN, simulations)
    ratio_S2, least_S2 = np.zeros((simulations, 2)), np.zeros((simulations, 2))
    looks = [np.full(simulations, math.inf) for _ in (0.0, *PLANNED)]
    for task, differences_S in enumerate(differences_ST.T, 1):
        if discordant is None:
            bets.add(differences_S.astype(np.float64))
            zero_S, margin_S = bets.largest_CM[:, 1], bets.largest_CM[:, ::2].min(-1)
        else:
            ratio_S2 += np.log1p(MARGIN / discordant * np.stack([differences_S, -differences_S], -1))
            least_S2 = np.minimum(least_S2, ratio_S2)
            zero_S, margin_S = np.exp(ratio_S2).mean(-1), np.exp(-least_S2).min(-1)
        rejected = [zero_S >= 20, *(margin_S >= 1 / (1 - power) - 1e-9 for power in PLANNED)]
        for first_S, now_S in zip(looks, rejected, strict=True):
            first_S[now_S & np.isinf(first_S)] = task
        if np.isfinite(np.minimum(looks[0], looks[-1])).all():
            break
    return looks


def planned(simulations: int) -> Iterator[str]:
    """Yield the table of comparisons with a margin and a power."""
    columns = ["power", "gap, points", "discordant tasks", "claims", "ends as equal", "median tasks", "mean"]
    columns += ["fixed, this power", "Wald, known share: claims", "median"]
    yield f"| {' | '.join(columns)} |\n|{'--:|' * len(columns)}"
    found = {(discordant, gap): _planned(simulations, discordant, gap) for discordant in (0.3, 0.5) for gap in SIZES}
    for place, power in enumerate(PLANNED, 1):
        for (discordant, gap), tests in found.items():
            fixed, cells = fixed_size(discordant, MARGIN, power), list[str]()
            for looks in tests:
                ends_S, claims_S = np.minimum(looks[0], looks[place]), looks[0] <= np.minimum(looks[place], TASKS)
                equal, median = int((np.isfinite(ends_S) & ~claims_S).sum()), float(np.median(ends_S))
                cells += [format_interval(wilson(int(claims_S.sum()), simulations))]
                cells += [] if len(cells) > 1 else [format_interval(wilson(equal, simulations))]
                cells += [_beside(median, fixed, round(median)) if math.isfinite(median) else f"> {TASKS}"]
                cells += [] if len(cells) > 3 else [f"{np.minimum(ends_S, TASKS).mean():.0f}", str(fixed)]
            yield f"| {100 * power:.0f} % | {100 * gap:.0f} | {100 * discordant:.0f} % | {' | '.join(cells)} |"


def _planned(simulations: int, discordant: float, gap: float) -> list[list[NDArray[np.float64]]]:
    """Return `planned_looks` of many comparisons, and of Wald's test on the same ones."""
    rng, parts = np.random.default_rng(2), list[list[list[NDArray[np.float64]]]]()
    for begun in range(0, simulations, _BATCH):
        differences_ST = draw(rng, min(_BATCH, simulations - begun), discordant, gap)
        parts.append([planned_looks(differences_ST), planned_looks(differences_ST, discordant)])
    return [[np.concatenate(column) for column in zip(*looks, strict=True)] for looks in zip(*parts, strict=True)]


def fixed_size(discordant: float, gap: float, power: float) -> int:
    """Return the tasks that McNemar's test needs to find a gap with this power, at 5 %, two-sided (Connor 1987)."""
    upper, z = NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(power)
    return math.ceil(((upper * math.sqrt(discordant) + z * math.sqrt(discordant - gap * gap)) / gap) ** 2)


def least_mean(discordant: float, gap: float, power: float, level: float = 0.025) -> float:
    """Return the mean number of tasks that any test needs which may stop at any time (Wald 1945).

    It claims a direction with a probability of `level` at most where there is no difference, and finds the gap with
    this power. Then the mean is at least kl(power, level) / (information on the gap in a task, in nats).
    """
    shares = (discordant + gap) / 2, (discordant - gap) / 2
    information = math.fsum(share * math.log(2 * share / discordant) for share in shares)
    needed = power * math.log(power / level) + (1 - power) * math.log((1 - power) / (1 - level))
    return needed / information


def covered(simulations: int, discordant: float, gap: float, tasks: int = 200) -> int:
    """Count the comparisons whose interval held the gap after every task."""
    held, rng = 0, np.random.default_rng(1)
    for differences_T in draw(rng, simulations, discordant, gap)[:, :tasks]:
        test = AnytimeTest()
        for difference in differences_T:
            test.add(float(difference))
        interval = test.result.difference  # it only shrinks, so that the last one tells of all
        held += interval.low <= gap <= interval.high
    return held


def lines(simulations: int) -> Iterator[str]:
    """Yield the tables."""
    yield "| no difference, discordant tasks | bets, a look after each task | McNemar's z at each look |\n|--:|--:|--:|"
    for discordant in DISCORDANT:
        shares = [np.isfinite(looks).sum() for looks in simulate(simulations, discordant, 0.0)]
        yield f"| {100 * discordant:.0f} % | {' | '.join(format_interval(wilson(n, simulations)) for n in shares)} |"
    columns = ["gap, points", "discordant tasks", f"decided within {TASKS}", "median tasks"]
    columns += [f"{name}, {100 * power:.0f} % power" for name in ("fixed", "least mean") for power in POWERS]
    yield f"\n| {' | '.join(columns)} |\n|{'--:|' * len(columns)}"
    for gap in GAPS:
        for discordant in DISCORDANT:
            if discordant <= gap:
                continue
            looks, _ = simulate(simulations, discordant, gap)
            median = float(np.median(looks))
            fixed = [fixed_size(discordant, gap, power) for power in POWERS]
            least = [least_mean(discordant, gap, power) for power in POWERS]
            cells = [_beside(median, size) for size in fixed]
            cells += [_beside(mean, size, round(mean)) for mean, size in zip(least, fixed, strict=True)]
            yield (
                f"| {100 * gap:.0f} | {100 * discordant:.0f} % | {100 * np.isfinite(looks).mean():.1f} % | "
                f"{f'{median:.0f}' if math.isfinite(median) else f'> {TASKS}'} | {' | '.join(cells)} |"
            )
    few = max(1, simulations // 20)
    yield f"\nheld the true 10 points after each of 200 tasks: {format_interval(wilson(covered(few, 0.3, 0.1), few))}"


def _beside(tasks: float, fixed: int, shown: int | None = None) -> str:
    """Return the fixed size, or the number to show, and how many more or fewer tasks these are than it."""
    number = fixed if shown is None else shown
    return f"{number} ({100 * (tasks / fixed - 1):+.0f} %)" if math.isfinite(tasks) else str(number)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--planned", action="store_true", help="the table of comparisons with a margin alone")
    args = parser.parse_args(argv)
    for line in () if args.planned else lines(args.simulations):
        print(line, flush=True)
    print()
    for line in planned(args.simulations):
        print(line, flush=True)


if __name__ == "__main__":
    main()
