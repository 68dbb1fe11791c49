"""Forked runs: is an unchanged fork the run, and how much noise do forks save? `python benchmarks/fork.py`.

For each seed a run of `agentgym evolve`, a fork of it with the change of `--set`, and for the first seeds one without
a change, which must end with the run's weights and episodes. The table compares two ways to measure the effect of the
change on the valid tasks of the last round, each with its standard deviation over seeds: the fork minus its own run,
and the fork minus the run of another seed, which is what two independent trainings give. The interval of the ratio of
their variances is a bootstrap over seeds.

    python benchmarks/fork.py --seeds 0 1 2 3 4 5 6 7 --out runs/fork-benchmark
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from studies import evolve

from agentgym_py.cli import main as agentgym
from agentgym_py.evolution.run_folder import RunFolder

SETTINGS = (
    "--env calculator --rounds 2 --expert_tasks 12 --explore_tasks 40 --valid_tasks 40 --test_tasks 0 --threads 1"
)
SAMPLES = 10_000


def fork(run: RunFolder, after: int, path: Path, changes: Sequence[str]) -> RunFolder:
    """Finish a fork of a run in this folder, resuming it if it exists."""
    exists = (path / "run.yaml").is_file()
    words = [word for change in changes for word in ("--set", change)]
    command = (
        ["evolve", "--resume", str(path)] if exists else ["fork", f"{run.path}@{after}", *words, "--out", str(path)]
    )
    if agentgym(command):
        raise SystemExit(f"the fork in {path} failed")
    return RunFolder.open(path)


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


def success(run: RunFolder) -> float:
    """Return the success rate of the last agent on the valid tasks."""
    return float(run.metrics(run.finished_rounds()[-1])["valid"]["success"]["value"])


def variances(runs_S: NDArray[np.float64], forks_S: NDArray[np.float64]) -> tuple[float, float]:
    """Return the variances of fork minus its own run, and of fork minus the run of another seed, over S seeds.

    The latter is the sum of both variances, because runs of different seeds are independent.
    """
    return float(np.var(forks_S - runs_S, ddof=1)), float(np.var(forks_S, ddof=1) + np.var(runs_S, ddof=1))


def ratio_interval(runs_S: NDArray[np.float64], forks_S: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval, over seeds, of the ratio of the two variances."""
    rng, seeds, ratios = np.random.default_rng(0), len(runs_S), list[float]()
    for _ in range(SAMPLES):
        drawn = rng.integers(seeds, size=seeds)
        own, other = variances(runs_S[drawn], forks_S[drawn])
        if other > 0:
            ratios.append(own / other)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(low), float(high)


def table(runs: Sequence[float], forks: Sequence[float]) -> Iterator[str]:
    """Yield the table of the variances; the values are success rates by seed."""
    runs_S, forks_S = np.array(runs), np.array(forks)
    own, other = variances(runs_S, forks_S)
    low, high = ratio_interval(runs_S, forks_S)
    yield "| difference | mean, points | standard deviation over seeds, points |\n|---|--:|--:|"
    mean = 100 * fmean(forks_S - runs_S)
    yield f"| fork − its own run | {mean:+.1f} | {100 * own**0.5:.1f} |"
    yield f"| fork − the run of another seed | {mean:+.1f} | {100 * other**0.5:.1f} |"
    ratio = f"{own / other:.2f} [{low:.2f}, {high:.2f}]"
    yield f"\nvariance of the first / variance of the second: {ratio}, {len(runs)} seeds"


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(8)))
    parser.add_argument("--same", type=int, default=2, help="seeds whose run is also forked without a change")
    parser.add_argument("--after", type=int, default=1, help="last round that a fork shares")
    parser.add_argument("--set", nargs="+", default=["trainer.epochs=4"], help="what the fork changes")
    parser.add_argument("--out", type=Path, default=Path("runs/fork-benchmark"))
    args, more = parser.parse_known_args(argv)
    same, runs, forks = list[bool](), list[float](), list[float]()
    for place, seed in enumerate(args.seeds):
        folder = args.out / f"seed-{seed}"
        run = evolve(folder / "run", [*SETTINGS.split(), *more, "--seed", str(seed)])
        if place < args.same:
            same.append(is_same(run, fork(run, args.after, folder / "same", [])))
        changed = fork(run, args.after, folder / ",".join(args.set), args.set)
        runs.append(success(run))
        forks.append(success(changed))
        print(f"seed {seed}: {runs[-1]:.3f} without, {forks[-1]:.3f} with {' '.join(args.set)}", flush=True)
    print(f"\nunchanged forks that end with the run's weights and episodes: {sum(same)} of {len(same)}\n")
    for line in table(runs, forks) if len(runs) > 1 else ():
        print(line)


if __name__ == "__main__":
    main()
