"""Rewards beside each other: `python benchmarks/rewards.py [STUDY ...] [--seeds 0 1 2] [--out runs/rewards]`.

| study | world, trainer | rewards | question |
|---|---|---|---|
| parts | shop, grpo | success, return, agent, potential | held-out success and steps |
| shaping | shop, ppo | return, potential | does a potential learn faster at equal episodes? |
| length | calculator, grpo | success, length_penalty | are replies shorter at equal success? |

For each seed `agentgym evolve --rounds 0` trains Agent_v0, from which every reward spends the same number of episodes
in one round. The agents then play the same test tasks, greedy. The first table has the improvement of success over
Agent_v0 with its interval over seeds, and the steps and agent tokens of a test episode. The second has the success of
the training episodes in each tenth of the budget. Both count the world's success, whatever an agent learnt from.

Finished runs stay in `--out` and are not run again, so the tables can be made in several sessions. Further options are
those of `agentgym evolve`, for every run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from agentgym_py.cli import main as agentgym
from agentgym_py.evaluation.stats import improvement
from agentgym_py.evaluation.text import format_mean
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.trajectory import store

TENTHS = 10


@dataclass(frozen=True)
class Study:
    """A comparison of rewards."""

    first: str
    """Options of Agent_v0."""
    options: str
    """Options of every run from it."""
    rewards: Mapping[str, str]
    """Options of each reward, by its name in the tables."""


STUDIES: Mapping[str, Study] = {
    "parts": Study(
        "--env shop --expert_tasks 12", "--trainer grpo --explore_tasks 1000 --temperature 0.8",
        {name: f"--reward {name}" for name in ("success", "return", "agent", "potential")},
    ),
    "shaping": Study(
        "--env shop --expert_tasks 12", "--trainer ppo --explore_tasks 1000 --temperature 0.8",
        {"return": "--reward return", "potential": "--reward potential"},
    ),
    "length": Study(
        "--env calculator --env_kwargs.difficulty easy --expert_tasks 100",
        "--trainer grpo --explore_tasks 1000 --temperature 0.8",
        {"success": "--reward success", "length_penalty": "--reward length_penalty --reward_kwargs.target 30"},
    ),
}  # fmt: skip


def evolve(path: Path, options: Sequence[str]) -> RunFolder:
    """Finish a run in this folder, resuming it if it exists."""
    exists = (path / "run.yaml").is_file()
    if agentgym(["evolve", *(["--resume", str(path)] if exists else [*options, "--out", str(path)])]):
        raise SystemExit(f"evolve failed in {path}")
    return RunFolder.open(path)


def run_study(name: str, seed: int, out: Path, tasks: int, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Run every reward of a study from the seed's Agent_v0; yield their rows."""
    study, folder = STUDIES[name], out / name / f"s{seed}"
    common = ["--seed", str(seed), "--threads", "1", "--valid_tasks", "1", "--test_tasks", str(tasks)]
    first = evolve(folder / "v0", [*study.first.split(), *common, *more, "--rounds", "0"])
    before = [t.success for t in store.read(first.round(0) / "test.jsonl")]
    start = ["--model", str(first.round(0) / "checkpoint"), "--expert_tasks", "0", "--rounds", "1"]
    for reward, options in study.rewards.items():
        words = [*study.first.split(), *common, *study.options.split(), *options.split(), *start, *more]
        yield row(name, reward, seed, before, evolve(folder / reward, words))


def row(study: str, reward: str, seed: int, before: Sequence[bool], run: RunFolder) -> dict[str, Any]:
    """Return the figures of a run of one round."""
    played, tested = (list(store.read(run.round(1) / f"{name}.jsonl")) for name in ("trajectories", "test"))
    records = [[record for step in t.steps for record in step.token_records] for t in tested]
    size = max(len(played) // TENTHS, 1)
    return {
        "study": study, "reward": reward, "seed": seed, "before": list(map(int, before)),
        "after": [int(t.success) for t in tested], "steps": fmean(len(t.steps) for t in tested),
        "tokens": fmean(sum(sum(record.mask) for record in episode) for episode in records),
        "return": fmean(t.reward for t in tested),
        "curve": [fmean(t.success for t in played[at : at + size]) for at in range(0, size * TENTHS, size)
                  if played[at : at + size]],
    }  # fmt: skip


def tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of both tables."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for each in rows:
        groups.setdefault((each["study"], each["reward"]), []).append(each)
    yield "| study | reward | seeds | success before | after | improvement | return | steps | agent tokens |"
    yield "|---|---|--:|--:|--:|---|--:|--:|--:|"
    for (study, reward), group in groups.items():
        gain = improvement([(r["before"], r["after"]) for r in group])
        means = [fmean(r[name] for r in group) for name in ("return", "steps", "tokens")]
        rates = [100 * fmean(fmean(r[name]) for r in group) for name in ("before", "after")]
        yield (
            f"| {study} | {reward} | {len(group)} | {rates[0]:.1f} % | {rates[1]:.1f} % | {format_mean(gain)} | "
            f"{means[0]:.3f} | {means[1]:.2f} | {means[2]:.0f} |"
        )
    yield ""
    yield f"| study | reward | success of the training episodes, in % of each of {TENTHS} parts |"
    yield "|---|---|---|"
    for (study, reward), group in groups.items():
        parts = zip(*(r["curve"] for r in group), strict=False)
        yield f"| {study} | {reward} | {' '.join(f'{100 * fmean(part):.0f}' for part in parts)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the studies and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"of {', '.join(STUDIES)}; by default all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tasks", type=int, default=300, help="test tasks")
    parser.add_argument("--out", type=Path, default=Path("runs/rewards"))
    args, more = parser.parse_known_args(argv)
    if unknown := set(args.studies) - set(STUDIES):
        parser.error(f"no study {', '.join(sorted(unknown))}; choose from {', '.join(STUDIES)}")
    rows = [
        each
        for name in args.studies or STUDIES
        for seed in args.seeds
        for each in run_study(name, seed, args.out, args.tasks, more)
    ]
    (args.out / "rows.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("\n".join(tables(rows)))


if __name__ == "__main__":
    main()
