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
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from agentgym_py.cli import main as agentgym
from agentgym_py.evaluation.stats import improvement
from agentgym_py.evaluation.text import format_mean
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.feedback.agreement import agreement
from agentgym_py.feedback.store import read_feedback
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory, store

STUDIES = ("agreement", "judges")
FIRST = "--env shop --expert_tasks 12"
OPTIONS = "--trainer grpo --rounds 1 --explore_tasks 1000 --temperature 0.8"
SOURCES: Mapping[str, str] = {
    "environment": "--source environment", "expert, fair": "--source expert",
    "expert, exact": "--source expert --source.expert exact",
}  # fmt: skip
MODEL_SOURCES: Mapping[str, str] = {"llm": "--source llm", "relative": "--source relative"}
HERE = Path(__file__).absolute()
WRONG = ("oracle", "wrong10", "wrong20", "wrong30")
JUDGES: Mapping[str, str] = {
    "return": "--reward return",
    **{name: f"--reward judge --reward_kwargs.program {HERE}:{name}" for name in WRONG},
}


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


def run_command(*words: str) -> None:
    """Run a command of agentgym, and end if it fails."""
    if agentgym([*words, "--trust", str(HERE)]):
        raise SystemExit(f"agentgym {words[0]} failed")


def evolve(path: Path, options: Sequence[str]) -> RunFolder:
    """Finish a run in this folder, resuming it if it exists."""
    exists = (path / "run.yaml").is_file()
    run_command("evolve", *(["--resume", str(path)] if exists else [*options, "--out", str(path)]))
    return RunFolder.open(path)


def first_agent(seed: int, args: argparse.Namespace, more: Sequence[str]) -> RunFolder:
    """Train the agent of a seed that all start from."""
    words = [*FIRST.split(), *common_words(seed, args), *more, "--rounds", "0"]
    return evolve(args.out / f"s{seed}" / "v0", words)


def common_words(seed: int, args: argparse.Namespace) -> list[str]:
    """Return the options of every run of a seed."""
    return ["--seed", str(seed), "--threads", "1", "--valid_tasks", "1", "--test_tasks", str(args.tasks)]


def run_agreement(seed: int, args: argparse.Namespace, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Let the agent of a seed try tasks, judge the tries by every source; yield their agreement with the world."""
    run, folder = first_agent(seed, args, more), args.out / f"s{seed}"
    tries = folder / "tries.jsonl"
    if not tries.is_file():
        part = tries.with_suffix(".part")
        part.unlink(missing_ok=True)
        words = ["--model", str(run.round(0) / "checkpoint"), "--split", "valid", "--tasks", str(args.judged)]
        words += ["--attempts", "4", "--temperature", "0.8", "--seed", str(seed), "--threads", "1"]
        run_command("collect", "--env", "shop", *words, "--out", str(part))
        part.rename(tries)
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
    first = first_agent(seed, args, more)
    before = [int(t.success) for t in store.read(first.round(0) / "test.jsonl")]
    for arm in JUDGES:
        words = [*words_of(arm, str(first.round(0) / "checkpoint")), *common_words(seed, args), *more]
        run = evolve(args.out / f"s{seed}" / arm, words)
        after = list(store.read(run.round(1) / "test.jsonl"))
        yield {
            "study": "judges", "arm": arm, "seed": seed, "before": before, "after": [int(t.success) for t in after],
            "return": fmean(t.reward for t in after),
        }  # fmt: skip


def words_of(arm: str, model: str) -> list[str]:
    """Return the options of a judge's run, which starts from a model."""
    return [*FIRST.split(), *OPTIONS.split(), *JUDGES[arm].split(), "--model", model, "--expert_tasks", "0"]


# ---- the tables ------------------------------------------------------------------------------------------------------


def tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the tables; figures are means over seeds."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for each in rows:
        groups.setdefault((each["study"], each["arm"]), []).append(each)
    if judged := {arm: group for (study, arm), group in groups.items() if study == "agreement"}:
        yield "| source | seeds | scores | corrections | pairs | ordered as by return | tau-b | calibration | Brier |"
        yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
        for arm, group in judged.items():
            mean = partial(_mean, group)
            counts = " | ".join(mean(name, "{:.0f}") for name in ("scores", "corrections", "pairs"))
            rates = [row["pairwise"]["value"] for row in group if row["pairwise"]]
            pairwise = f"{100 * fmean(rates):.1f} %" if rates else "–"
            rest = " | ".join(mean(name, "{:.2f}") for name in ("tau", "calibration_error", "brier"))
            yield f"| {arm} | {len(group)} | {counts} | {pairwise} | {rest} |"
        yield ""
    if trained := {arm: group for (study, arm), group in groups.items() if study == "judges"}:
        yield "| reward | seeds | success before | after | improvement | return |"
        yield "|---|--:|--:|--:|---|--:|"
        for arm, group in trained.items():
            gain = improvement([(row["before"], row["after"]) for row in group])
            rates = [100 * fmean(fmean(row[name]) for row in group) for name in ("before", "after")]
            texts = (
                *(f"{rate:.1f} %" for rate in rates),
                format_mean(gain),
                f"{fmean(row['return'] for row in group):.3f}",
            )
            yield f"| {arm} | {len(group)} | {' | '.join(texts)} |"


def _mean(group: Sequence[Mapping[str, Any]], name: str, form: str) -> str:
    values = [row[name] for row in group if row[name] is not None]
    return form.format(fmean(values)) if values else "–"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the studies and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"of {', '.join(STUDIES)}; by default all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tasks", type=int, default=300, help="test tasks")
    parser.add_argument("--judged", type=int, default=150, help="tasks whose tries are judged")
    parser.add_argument("--model", help="a model that judges, too")
    parser.add_argument("--base_url", default="http://localhost:8000/v1", help="its address")
    parser.add_argument("--out", type=Path, default=Path("runs/feedback"))
    args, more = parser.parse_known_args(argv)
    if unknown := set(args.studies) - set(STUDIES):
        parser.error(f"no study {', '.join(sorted(unknown))}; choose from {', '.join(STUDIES)}")
    run = {"agreement": run_agreement, "judges": run_judges}
    rows = [row for name in args.studies or STUDIES for seed in args.seeds for row in run[name](seed, args, more)]
    (args.out / "rows.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("\n".join(tables(rows)))


if __name__ == "__main__":
    main()
