"""Forked runs: is an unchanged fork the run, and how much noise do forks save? `python benchmarks/fork.py`.

For each seed a run of `agentgym evolve`, a fork of it with the change of `--set`, and for the first seeds one without
a change, which must end with the run's weights and episodes. The table compares two ways to measure the effect of the
change on the valid tasks of the last round, each with its standard deviation over seeds: the fork minus its own run,
and the fork minus the run of another seed, which is what two independent trainings give. A part of each comes from the
tasks, because others would have had other outcomes; it is what a single task contributes, divided by their number. The
last column is the share of the tasks at which the two agents differ. Intervals of ratios are bootstraps over seeds.
Further options are those of `agentgym evolve`.

    python benchmarks/fork.py --seeds 0 1 2 3 4 5 6 7 --out runs/fork-benchmark
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from studies import evolve, fork

from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.trajectory import store

Floats: TypeAlias = NDArray[np.float64]
Pair: TypeAlias = Callable[[Floats, Floats], tuple[float, float]]

SETTINGS = (
    "--env calculator --rounds 2 --expert_tasks 12 --explore_tasks 40 --valid_tasks 40 --test_tasks 0 --threads 1"
)
SAMPLES = 10_000


def is_same(first: RunFolder, second: RunFolder) -> bool:
    """Tell whether two runs have the same weights and episodes in every round."""
    if first.finished_rounds() != second.finished_rounds():
        return False
    files = ("trajectories.jsonl", "valid.jsonl", "test.jsonl")
    for number in first.finished_rounds():
        if first.metrics(number)["policy_digest"] != second.metrics(number)["policy_digest"]:
            return False
        pairs = [(first.round(number) / name, second.round(number) / name) for name in files]
        if any(one.is_file() != other.is_file() for one, other in pairs):
            return False
        if any(one.is_file() and one.read_bytes() != other.read_bytes() for one, other in pairs):
            return False
    return True


def outcomes(run: RunFolder) -> list[float]:
    """Return the successes of the last agent on the valid tasks, in the order of their ids."""
    played = {t.task_id: float(t.success) for t in store.read(run.round(run.finished_rounds()[-1]) / "valid.jsonl")}
    return [played[task] for task in sorted(played)]


def variances(runs_ST: Floats, forks_ST: Floats) -> tuple[float, float]:
    """Return the variances of fork minus its own run, and of fork minus the run of another seed, over S seeds.

    The latter is the sum of both variances, because runs of different seeds are independent.
    """
    runs_S, forks_S = runs_ST.mean(1), forks_ST.mean(1)
    return float(np.var(forks_S - runs_S, ddof=1)), float(np.var(forks_S, ddof=1) + np.var(runs_S, ddof=1))


def shares(runs_ST: Floats, forks_ST: Floats) -> tuple[float, float]:
    """Return the share of tasks at which a fork differs from its own run, and from the run of another seed."""
    values_SS = np.array([[np.mean(fork != run) for run in runs_ST] for fork in forks_ST])
    return _own_and_other(values_SS, runs_ST, forks_ST)


def by_tasks(runs_ST: Floats, forks_ST: Floats) -> tuple[float, float]:
    """Return the parts of both variances that the choice of the T tasks makes."""
    tasks = runs_ST.shape[1]
    values_SS = np.array([[np.var(fork - run, ddof=1) / tasks for run in runs_ST] for fork in forks_ST])
    return _own_and_other(values_SS, runs_ST, forks_ST)


def _own_and_other(values_SS: Floats, runs_ST: Floats, forks_ST: Floats) -> tuple[float, float]:
    """Return the mean of the diagonal, and that of the rest; a seed that is drawn twice is no other one."""
    own_S = np.diag(values_SS)
    same_SS = (runs_ST[:, None] == runs_ST).all(-1) & (forks_ST[:, None] == forks_ST).all(-1)
    others = values_SS[~same_SS]
    return float(own_S.mean()), float(others.mean()) if len(others) else 0.0


def ratio_interval(pair: Pair, runs_ST: Floats, forks_ST: Floats) -> tuple[float, float]:
    """Return the 95 % bootstrap interval, over seeds, of the ratio of two numbers such as `variances`."""
    rng, seeds, ratios = np.random.default_rng(0), len(runs_ST), list[float]()
    for _ in range(SAMPLES):
        drawn = rng.integers(seeds, size=seeds)
        own, other = pair(runs_ST[drawn], forks_ST[drawn])
        if other > 0:
            ratios.append(own / other)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(low), float(high)


def table(runs_ST: Floats, forks_ST: Floats) -> Iterator[str]:
    """Yield the table of the variances; the values are the successes by seed and task."""
    yield "| difference | mean, points | sd over seeds, points | of it by the tasks | tasks that differ |"
    yield "|---|--:|--:|--:|--:|"
    mean = 100 * float(np.mean(forks_ST - runs_ST))
    pairs = [pair(runs_ST, forks_ST) for pair in (variances, by_tasks, shares)]
    for name, variance, chance, share in zip(("its own run", "the run of another seed"), *pairs, strict=True):
        points = f"{100 * variance**0.5:.1f} | {100 * chance**0.5:.1f} | {100 * share:.1f} %"
        yield f"| fork − {name} | {mean:+.1f} | {points} |"
    size = f"{len(runs_ST)} seeds, {runs_ST.shape[1]} tasks"
    for what, pair, (own, other) in (("variance", variances, pairs[0]), ("tasks that differ", shares, pairs[2])):
        low, high = ratio_interval(pair, runs_ST, forks_ST)
        ratio = f"{own / other:.2f} [{low:.2f}, {high:.2f}]" if other > 0 else "not defined"
        yield f"\n{what} of the first / of the second: {ratio}, {size}"


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(8)))
    parser.add_argument("--same", type=int, default=2, help="seeds whose run is also forked without a change")
    parser.add_argument("--after", type=int, default=1, help="last round that a fork shares")
    parser.add_argument("--set", nargs="+", default=["trainer.epochs=4"], help="what the fork changes")
    parser.add_argument("--out", type=Path, default=Path("runs/fork-benchmark"))
    args, more = parser.parse_known_args(argv)
    same, runs, forks = list[bool](), list[list[float]](), list[list[float]]()
    for place, seed in enumerate(args.seeds):
        folder = args.out / f"seed-{seed}"
        run = evolve(folder / "run", [*SETTINGS.split(), *more, "--seed", str(seed)])
        if place < args.same:
            same.append(is_same(run, fork(run, args.after, folder / "same", [])))
        changed = fork(run, args.after, folder / ",".join(args.set), args.set)
        runs.append(outcomes(run))
        forks.append(outcomes(changed))
        print(
            f"seed {seed}: {fmean(runs[-1]):.3f} without, {fmean(forks[-1]):.3f} with {' '.join(args.set)}", flush=True
        )
    print(f"\nunchanged forks that end with the run's weights and episodes: {sum(same)} of {len(same)}\n")
    for line in table(np.array(runs), np.array(forks)) if len(runs) > 1 else ():
        print(line)


if __name__ == "__main__":
    main()
