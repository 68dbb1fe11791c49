"""Curricula beside none: `python benchmarks/curriculum.py [STUDY ...] [--seeds 0 1 2] [--out runs/curriculum]`.

| study | world, trainer | arms | question |
|---|---|---|---|
| household | household, medium; filtered_bc | none, uniform, learnable, difficulty | episodes to 60 % success |
| maze | maze, medium; filtered_bc | none, uniform, learnable, difficulty | the same |
| horizon | household, medium; grpo | none, short, growing | does a horizon of 10, 20, 30, 50 steps learn faster? |

All arms spend the same number of episodes in the same number of rounds, from the same Agent_v0. All agents play the
same valid tasks of the world's own difficulty after each round. The first table has the explored episodes after which
success on them reaches `--target`, interpolated between rounds, and the improvement of test success over Agent_v0 with
its interval over seeds. The second has valid success by round.

Further options are those of `agentgym evolve`, for every run. See `studies.py` for what is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from studies import Row, Study, by_arm, parse, parser_of, report, study_rows, tested

from agentgym_py.evaluation.stats import improvement
from agentgym_py.evaluation.text import format_mean
from agentgym_py.evolution.run_folder import RunFolder

CURRICULA = {
    "none": "", "uniform": "--curriculum uniform", "learnable": "--curriculum learnable",
    "difficulty": "--curriculum difficulty --curriculum.threshold 0.8",
}  # fmt: skip


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


def row(study: str, arm: str, seed: int, run: RunFolder) -> dict[str, Any]:
    """Return the figures of a run."""
    rounds = [run.metrics(number) for number in run.finished_rounds()]
    episodes, curve = 0, list[tuple[int, float]]()
    for metrics in rounds:
        selection = metrics["selection"]
        episodes += selection["kept"] + sum(selection["dropped"].values())
        curve.append((episodes, metrics["valid"]["success"]["value"]))
    before, after = (tested(run, number) for number in (0, len(rounds) - 1))
    return {"study": study, "arm": arm, "seed": seed, "curve": curve, "before": before, "after": after}


def episodes_to(target: float, curve: Sequence[tuple[int, float]]) -> float | None:
    """Return the episodes at which success first reaches the target, interpolated; None if it never does."""
    if curve[0][1] >= target:
        return float(curve[0][0])
    for (start, low), (end, high) in pairwise(curve):
        if high >= target:
            return start + (target - low) / (high - low) * (end - start)
    return None


def tables(rows: Sequence[Row], target: float) -> Iterator[str]:
    """Yield the lines of both tables."""
    groups = by_arm(rows)
    yield f"| study | curriculum | seeds | episodes to {100 * target:g} % by seed | mean | test success | improvement |"
    yield "|---|---|--:|---|--:|--:|---|"
    for (study, arm), group in groups.items():
        reached = [episodes_to(target, r["curve"]) for r in group]
        numbers = [number for number in reached if number is not None]
        texts = ", ".join("never" if number is None else f"{number:.0f}" for number in reached)
        mean = f"{fmean(numbers):.0f}" if len(numbers) == len(reached) else f"{len(numbers)} of {len(reached)} reach it"
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
    parser = parser_of(__doc__, STUDIES, "runs/curriculum")
    parser.add_argument("--target", type=float, default=0.6, help="success rate to reach")
    parser.add_argument("--valid", type=int, default=150, help="valid tasks")
    args, more = parse(parser, argv)
    more += ["--valid_tasks", str(args.valid)]
    report(args, study_rows(STUDIES, row, args, more), lambda rows: tables(rows, args.target))


if __name__ == "__main__":
    main()
