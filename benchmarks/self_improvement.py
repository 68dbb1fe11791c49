"""Who selects, and retries of failures: `python benchmarks/self_improvement.py [STUDY ...] [--seeds 0 1 2]`.

| study | world, trainer | arms | question |
|---|---|---|---|
| critic | calculator; filtered_bc | world, all, self_consistency, chance | what is lost by it? |
| reward_model | shop; filtered_bc | world, all, reward_model | and if a reward model selects? |
| reflection | shop; filtered_bc | none, plain, agent, expert | how many failures turn, and what does it add? |

`all` learns from every explored episode. `chance` keeps each with its score as the probability. `plain` retries without
a text, so the difference to it is what a text adds. The reward model learns from `--tries` tasks of Agent_v0 with 4
attempts each; it is trained once for a seed.

All arms start from the same Agent_v0 and explore the same number of episodes; retries come on top of them. The table
has success on test tasks, its improvement over Agent_v0 with the interval over seeds, the success in the world of what
was kept, the critic's mean score in the first and the last round, and the share of retries that succeed.

Further options are those of `agentgym evolve`, for every run. See `studies.py` for what is kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from studies import Row, Study, by_arm, parse, parser_of, report, reward_model_of, tested

from agentgym_py.evaluation.stats import improvement
from agentgym_py.evaluation.text import format_mean
from agentgym_py.evolution.run_folder import RunFolder

_ALL = "--select.threshold -inf --select.success_only false"
_PLAIN = str(Path(__file__).with_name("plain_retry.py"))
STUDIES: Mapping[str, Study] = {
    "critic": Study(
        "--env calculator",
        "--rounds 3 --explore_tasks 150 --attempts 4 --explore_temperatures 0.5,1.0",
        {
            "world": "", "all": _ALL, "self_consistency": "--critic self_consistency",
            "chance": "--critic self_consistency --select.by_chance true --select.threshold 0",
        },
    ),
    "reward_model": Study(
        "--env shop",
        "--rounds 3 --explore_tasks 500",
        {"world": "", "all": _ALL, "reward_model": "--critic reward_model --select.top_ratio 0.3"},
    ),
    "reflection": Study(
        "--env shop",
        "--rounds 3 --explore_tasks 500",
        {
            "none": "", "plain": f"--reflection {_PLAIN}", "agent": "--reflection agent",
            "expert": "--reflection expert",
        },
        trusted=(_PLAIN,),
    ),
}  # fmt: skip


def with_reward_model(study: Study, folder: Path, seed: int, tasks: int, more: Sequence[str]) -> Study:
    """Train the reward model of a seed on tries at tasks, if it is missing, and name it in the arm that needs it."""
    if "reward_model" not in study.arms:
        return study
    agent = study.start(folder, seed, more)
    model = reward_model_of(agent, study.first.split(), folder, seed, tasks)
    return replace(study, arms={**study.arms, "reward_model": f"{study.arms['reward_model']} --critic.folder {model}"})


def row(study: str, arm: str, seed: int, run: RunFolder) -> dict[str, Any]:
    """Return the figures of a run."""
    rounds = [run.metrics(number) for number in run.finished_rounds()][1:]
    critics = [metrics["critic"] for metrics in rounds if "critic" in metrics]
    retries = [metrics["reflection"] for metrics in rounds if "reflection" in metrics]
    before, after = (tested(run, number) for number in (0, len(rounds)))
    return {
        "study": study, "arm": arm, "seed": seed, "before": before, "after": after,
        "kept": [critic["success_of_kept"]["value"] for critic in critics],
        "scores": [critic["mean_score"] for critic in critics],
        "retries": sum(found["retries"] for found in retries),
        "turned": sum(round((found["success"]["value"] or 0) * found["success"]["n"]) for found in retries),
    }  # fmt: skip


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table."""
    header = (
        "study | arm | seeds | test success | improvement | kept that succeed | score, first → last | retries turned"
    )
    yield f"| {header} |"
    yield "|---|---|--:|--:|---|--:|---|--:|"
    for (study, arm), group in by_arm(rows).items():
        gain = improvement([(r["before"], r["after"]) for r in group])
        success = 100 * fmean(fmean(r["after"]) for r in group)
        kept = [value for r in group for value in r["kept"] if value is not None]
        by_round = zip(*(r["scores"] for r in group), strict=False)
        scores = [[value for value in values if value is not None] for values in by_round]
        retries, turned = (sum(r[name] for r in group) for name in ("retries", "turned"))
        yield (
            f"| {study} | {arm} | {len(group)} | {success:.1f} % | {format_mean(gain)} | "
            f"{f'{100 * fmean(kept):.1f} %' if kept else '–'} | "
            f"{f'{fmean(scores[0]):.2f} → {fmean(scores[-1]):.2f}' if scores and all(scores) else '–'} | "
            f"{f'{100 * turned / retries:.1f} % of {retries}' if retries else '–'} |"
        )


def run_studies(args: argparse.Namespace, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Finish the runs of the chosen studies; yield their rows."""
    for name in args.names:
        for seed in args.seeds:
            folder = args.out / name / f"s{seed}"
            study = with_reward_model(STUDIES[name], folder, seed, args.tries, more)
            for arm, run in study.runs(folder, seed, more):
                yield row(name, arm, seed, run)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the studies and print their table."""
    parser = parser_of(__doc__, STUDIES, "runs/self-improvement")
    parser.add_argument("--tries", type=int, default=500, help="tasks that a reward model learns from")
    args, more = parse(parser, argv)
    report(args, run_studies(args, more), table)


if __name__ == "__main__":
    main()
