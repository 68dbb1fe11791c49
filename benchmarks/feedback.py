"""Judges beside the truth: `python benchmarks/feedback.py [STUDY ...] [--seeds 0 1 2] [--out runs/feedback]`.

| study | what it does | question |
|---|---|---|
| agreement | every source judges an agent's four tries at each task | how far is each right? |
| judges | grpo by the return, by an oracle judge, and by judges that are partly wrong | what do mistakes cost? |

The oracle judge scores a try by the share of the other tries of its group that it beats by return; equal returns count
half. A wrong judge does the same after each pair of tries is turned round with a chance of 10, 20 or 30 %. With
`--model NAME --base_url URL` the study agreement asks that model, too, as `llm` and as `relative`.

For each seed `agentgym evolve --rounds 0` trains the agent that all start from. The agents of `judges` spend the same
episodes and play the same test tasks, greedy. Finished runs and judgements stay in `--out` and are not made again, so
the tables can be made in several sessions. Further options are those of `agentgym evolve`, for every run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from studies import Row, Study, by_arm, collect, parse, parser_of, report, run_command, tested

from agentgym_py.evaluation.stats import improvement
from agentgym_py.evaluation.text import format_mean
from agentgym_py.feedback.agreement import agreement
from agentgym_py.feedback.store import read_feedback
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory, store

FIRST = "--env shop --expert_tasks 12 --valid_tasks 1"
HERE = str(Path(__file__).absolute())
WRONG = ("oracle", "wrong10", "wrong20", "wrong30")
JUDGES = Study(
    FIRST,
    "--trainer grpo --rounds 1 --explore_tasks 1000 --temperature 0.8",
    {
        "return": "--reward return",
        **{name: f"--reward judge --reward_kwargs.program {HERE}:{name}" for name in WRONG},
    },
    trusted=(HERE,),
)
SOURCES: Mapping[str, str] = {
    "environment": "--source environment", "expert, fair": "--source expert",
    "expert, exact": "--source expert --source.expert exact",
}  # fmt: skip
MODEL_SOURCES: Mapping[str, str] = {"llm": "--source llm", "relative": "--source relative"}


# ---- judges that know the truth --------------------------------------------------------------------------------------


def score_by_pairs(share_wrong: float, tries: Sequence[Trajectory]) -> list[float]:
    """Score the tries of a group by the pairs that they win by return, each turned round with a chance."""
    wins, rng = [0.0] * len(tries), Rng("judge", *(trajectory.id for trajectory in tries))
    for i, j in combinations(range(len(tries)), 2):
        gap = tries[i].reward - tries[j].reward
        first = 0.5 if abs(gap) < 1e-9 else float(gap > 0)
        if rng.uniform() < share_wrong:
            first = 1 - first
        wins[i] += first
        wins[j] += 1 - first
    return [win / (len(tries) - 1) for win in wins]


def oracle(tries: Sequence[Trajectory]) -> list[float]:
    """Judge without a mistake."""
    return score_by_pairs(0.0, tries)


def wrong10(tries: Sequence[Trajectory]) -> list[float]:
    """Turn 10 % of the pairs round."""
    return score_by_pairs(0.1, tries)


def wrong20(tries: Sequence[Trajectory]) -> list[float]:
    """Turn 20 % of the pairs round."""
    return score_by_pairs(0.2, tries)


def wrong30(tries: Sequence[Trajectory]) -> list[float]:
    """Turn 30 % of the pairs round."""
    return score_by_pairs(0.3, tries)


# ---- the studies -----------------------------------------------------------------------------------------------------


def run_agreement(seed: int, args: argparse.Namespace, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Let the agent of a seed try tasks, judge the tries by every source; yield their agreement with the world."""
    folder = args.out / "agreement" / f"s{seed}"
    agent = Study(FIRST, "", {}).start(folder, seed, more)
    words = ["--env", "shop", "--model", str(agent), "--split", "valid", "--tasks", str(args.judged)]
    words += ["--attempts", "4", "--temperature", "0.8", "--seed", str(seed)]
    tries = collect(folder / "tries.jsonl", *words)
    trajectories = list(store.read(tries))
    address = f" --source.model {args.model} --source.base_url {args.base_url}"
    sources = {**SOURCES, **({name: words + address for name, words in MODEL_SOURCES.items()} if args.model else {})}
    for name, options in sources.items():
        file = folder / f"{name.replace(', ', '-')}.jsonl"
        run_command("judge", *options.split(), "--data", str(tries), "--out", str(file))
        found = asdict(agreement(trajectories, read_feedback(file)))
        yield {"study": "agreement", "arm": name, "seed": seed, "episodes": len(trajectories), **found}


def run_judges(seed: int, args: argparse.Namespace, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Train the agent of a seed by every judge; yield its test episodes before and after."""
    for arm, run in JUDGES.runs(args.out / "judges" / f"s{seed}", seed, more):
        after = list(store.read(run.round(1) / "test.jsonl"))
        yield {
            "study": "judges", "arm": arm, "seed": seed, "before": tested(run, 0), "after": tested(run, 1),
            "return": fmean(trajectory.reward for trajectory in after),
        }  # fmt: skip


STUDIES = {"agreement": run_agreement, "judges": run_judges}


# ---- the tables ------------------------------------------------------------------------------------------------------


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the tables; figures are means over seeds."""
    groups = by_arm(rows)
    if judged := {arm: group for (study, arm), group in groups.items() if study == "agreement"}:
        yield "| source | seeds | scores | corrections | pairs | ordered as by return | tau-b | calibration | Brier |"
        yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
        for arm, group in judged.items():
            counts = [mean_of(group, name, "{:.0f}") for name in ("scores", "corrections", "pairs")]
            rates = [100 * row["pairwise"]["value"] for row in group if row["pairwise"]]
            rest = [mean_of(group, name, "{:.2f}") for name in ("tau", "calibration_error", "brier")]
            cells = [arm, str(len(group)), *counts, f"{fmean(rates):.1f} %" if rates else "–", *rest]
            yield f"| {' | '.join(cells)} |"
        yield ""
    if trained := {arm: group for (study, arm), group in groups.items() if study == "judges"}:
        yield "| reward | seeds | success before | after | improvement | return |"
        yield "|---|--:|--:|--:|---|--:|"
        for arm, group in trained.items():
            gain = improvement([(row["before"], row["after"]) for row in group])
            rates = [100 * fmean(fmean(row[name]) for row in group) for name in ("before", "after")]
            cells = [f"{rate:.1f} %" for rate in rates] + [format_mean(gain), mean_of(group, "return", "{:.3f}")]
            yield f"| {arm} | {len(group)} | {' | '.join(cells)} |"


def mean_of(group: Sequence[Row], name: str, form: str) -> str:
    """Return the mean of a figure over the rows that have it."""
    values = [row[name] for row in group if row[name] is not None]
    return form.format(fmean(values)) if values else "–"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the studies and print their tables."""
    parser = parser_of(__doc__, STUDIES, "runs/feedback")
    parser.add_argument("--judged", type=int, default=150, help="tasks whose tries are judged")
    parser.add_argument("--model", help="a model that judges, too")
    parser.add_argument("--base_url", default="http://localhost:8000/v1", help="its address")
    args, more = parse(parser, argv)
    rows = (row for name in args.names for seed in args.seeds for row in STUDIES[name](seed, args, more))
    report(args, rows, tables)


if __name__ == "__main__":
    main()
