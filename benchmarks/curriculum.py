"""Curricula beside none: `python benchmarks/curriculum.py [STUDY ...] [--seeds 0 1 2] [--out runs/curriculum]`.

| study | world, trainer | arms | question |
|---|---|---|---|
| household | household, medium; filtered_bc | none, uniform, learnable, difficulty | episodes to 60 % success |
| maze | maze, medium; filtered_bc | none, uniform, learnable, difficulty | the same |
| horizon | household, medium; grpo | none, short, growing | does a horizon of 10, 20, 30, 50 steps learn faster? |

For each seed `agentgym evolve --rounds 0` trains Agent_v0, from which every arm spends the same number of episodes in
the same number of rounds. All agents play the same valid tasks of the world's own difficulty after each round. The
first table has the explored episodes after which success on them reaches `--target`, interpolated between rounds, and
the improvement of test success over Agent_v0 with its interval over seeds. The second has valid success by round.

Finished runs stay in `--out` and are not run again, so the tables can be made in several sessions. Further options are
those of `agentgym evolve`, for every run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from agentgym_py.cli import main as agentgym
from agentgym_py.evaluation.stats import improvement
from agentgym_py.evaluation.text import format_mean
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.trajectory import store

CURRICULA = {
    "none": "", "uniform": "--curriculum uniform", "learnable": "--curriculum learnable",
    "difficulty": "--curriculum difficulty --curriculum.threshold 0.8",
}  # fmt: skip


@dataclass(frozen=True)
class Study:
    """A comparison of curricula."""

    first: str
    """Options of Agent_v0."""
    options: str
    """Options of every run from it."""
    arms: Mapping[str, str]
    """Options of each arm, by its name in the tables."""


STUDIES: Mapping[str, Study] = {
    "household": Study("--env household --expert_tasks 50", "--rounds 8 --explore_tasks 250", CURRICULA),
    "maze": Study(
        "--env maze --env_kwargs.difficulty medium --expert_tasks 50", "--rounds 8 --explore_tasks 250", CURRICULA
    ),
    "horizon": Study(
        "--env household --expert_tasks 50",
        "--trainer grpo --temperature 0.8 --rounds 4 --explore_tasks 500",
        {"none": "", "short": "--horizon 20", "growing": "--horizon 10,20,30,50"},
    ),
}


def evolve(path: Path, options: Sequence[str]) -> RunFolder:
    """Finish a run in this folder, resuming it if it exists."""
    exists = (path / "run.yaml").is_file()
    if agentgym(["evolve", *(["--resume", str(path)] if exists else [*options, "--out", str(path)])]):
        raise SystemExit(f"evolve failed in {path}")
    return RunFolder.open(path)


def words_of(study: Study, arm: str, model: str) -> list[str]:
    """Return the options of an arm that starts from a model; it begins without demonstrations."""
    words = [*study.first.split(), *study.options.split(), *study.arms[arm].split()]
    return [*words, "--model", model, "--expert_tasks", "0", "--allow_empty"]


def run_study(name: str, seed: int, args: argparse.Namespace, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Run every arm of a study from the seed's Agent_v0; yield their rows."""
    study, folder = STUDIES[name], args.out / name / f"s{seed}"
    common = ["--seed", str(seed), "--threads", "1", "--valid_tasks", str(args.valid), "--test_tasks", str(args.tasks)]
    first = evolve(folder / "v0", [*study.first.split(), *common, *more, "--rounds", "0"])
    for arm in study.arms:
        words = [*words_of(study, arm, str(first.round(0) / "checkpoint")), *common, *more]
        yield row(name, arm, seed, evolve(folder / arm, words))


def row(study: str, arm: str, seed: int, run: RunFolder) -> dict[str, Any]:
    """Return the figures of a run."""
    rounds = [run.metrics(number) for number in run.finished_rounds()]
    episodes, curve = 0, list[tuple[int, float]]()
    for metrics in rounds:
        selection = metrics["selection"]
        episodes += selection["kept"] + sum(selection["dropped"].values())
        curve.append((episodes, metrics["valid"]["success"]["value"]))
    before, after = (
        [int(t.success) for t in store.read(run.round(number) / "test.jsonl")] for number in (0, len(rounds) - 1)
    )
    return {"study": study, "arm": arm, "seed": seed, "curve": curve, "before": before, "after": after}


def episodes_to(target: float, curve: Sequence[tuple[int, float]]) -> float | None:
    """Return the episodes at which success first reaches the target, interpolated; None if it never does."""
    if curve[0][1] >= target:
        return float(curve[0][0])
    for (start, low), (end, high) in pairwise(curve):
        if high >= target:
            return start + (target - low) / (high - low) * (end - start)
    return None


def tables(rows: Sequence[Mapping[str, Any]], target: float) -> Iterator[str]:
    """Yield the lines of both tables."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for each in rows:
        groups.setdefault((each["study"], each["arm"]), []).append(each)
    yield f"| study | curriculum | seeds | episodes to {100 * target:g} % by seed | mean | test success | improvement |"
    yield "|---|---|--:|---|--:|--:|---|"
    for (study, arm), group in groups.items():
        reached = [episodes_to(target, r["curve"]) for r in group]
        found = [number for number in reached if number is not None]
        texts = ", ".join("never" if number is None else f"{number:.0f}" for number in reached)
        mean = f"{fmean(found):.0f}" if len(found) == len(reached) else f"{len(found)} of {len(reached)} reach it"
        gain = improvement([(r["before"], r["after"]) for r in group])
        success = 100 * fmean(fmean(r["after"]) for r in group)
        yield f"| {study} | {arm} | {len(group)} | {texts} | {mean} | {success:.1f} % | {format_mean(gain)} |"
    yield ""
    yield "| study | curriculum | episodes: mean success on valid tasks, in % |"
    yield "|---|---|---|"
    for (study, arm), group in groups.items():
        points = zip(*(r["curve"] for r in group), strict=False)
        texts = ", ".join(f"{p[0][0]}: {100 * fmean(success for _, success in p):.0f}" for p in points)
        yield f"| {study} | {arm} | {texts} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the studies and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"of {', '.join(STUDIES)}; by default all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--target", type=float, default=0.6, help="success rate to reach")
    parser.add_argument("--valid", type=int, default=150, help="valid tasks")
    parser.add_argument("--tasks", type=int, default=300, help="test tasks")
    parser.add_argument("--out", type=Path, default=Path("runs/curriculum"))
    args, more = parser.parse_known_args(argv)
    if unknown := set(args.studies) - set(STUDIES):
        parser.error(f"no study {', '.join(sorted(unknown))}; choose from {', '.join(STUDIES)}")
    rows = [
        each for name in args.studies or STUDIES for seed in args.seeds for each in run_study(name, seed, args, more)
    ]
    (args.out / "rows.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(*tables(rows, args.target), sep="\n")


if __name__ == "__main__":
    main()
