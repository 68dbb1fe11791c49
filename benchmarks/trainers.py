"""Comparison of trainers: `python benchmarks/trainers.py [NAME ...] [--env shop] [--seeds 0 1 2 3 4]`.

For each seed `agentgym evolve --rounds 0` trains Agent_v0 on the expert's episodes. From this agent every trainer
spends the same number of episodes on training tasks, in rounds of `agentgym evolve --model AGENT_V0 --expert_tasks 0`.
The result plays the same 300 test tasks, greedy. The first table has the interquartile mean of the improvement over
seeds with its bootstrap interval (`evaluation.stats.improvement`), the cost and the peak memory. Seconds are CPU
seconds of one thread, on which other jobs have little effect; resumed runs have neither seconds nor memory. The second
table has the success rate in each tenth of the training episodes, the third compares pairs of trainers on their common
seeds.

Each run, and each training of an Agent_v0, is a process of its own. A finished run appends a line to RESULTS (default
benchmarks/trainers.ENV.jsonl). It is not run again while that line is current: its settings are today's, and its
Agent_v0 comes from the shipped base. The tables skip other lines. So the tables can be made in several sessions.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Any

from studies import evolve, require_same_options, shipped_base

from agentgym_py.agents import ModelAgent
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.evaluation import evaluate
from agentgym_py.evaluation.stats import Estimate, improvement
from agentgym_py.evaluation.text import format_mean
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.policy import Policy
from agentgym_py.trajectory import Trajectory, store

HERE = Path(__file__).parent
TASKS = range(300)
AGENT_V0: Mapping[str, Sequence[str]] = {
    "shop": ["--expert_tasks", "12", "--expert_epochs", "2"],
    "household": ["--expert_tasks", "50", "--expert_epochs", "2"],
    "household-weak": ["--expert_tasks", "12", "--expert_epochs", "2"],
}
"""Options of Agent_v0 in each env: it solves some tasks, or hardly any in `household-weak`."""
EPISODES: Mapping[str, int] = {"shop": 1000, "household": 1000, "household-weak": 1000}
"""The episodes of a trainer."""
_SHORT = ["--env_kwargs.max_steps", "20"]
PLAY: Mapping[str, Sequence[str]] = {"shop": [], "household": _SHORT, "household-weak": _SHORT}
"""Options of training episodes: a household task that is not solved after 20 steps is seldom solved in the next 30,
which take most of the time. Test episodes are not cut."""
_PAIRS = "--rounds 2 --explore_tasks {eighth} --attempts 4"
_ON_POLICY = "--rounds 1 --explore_tasks {all} --temperature 0.8"
SETTINGS: Mapping[str, str] = {
    "filtered_bc": "--rounds 2 --explore_tasks {half}",
    "weighted_bc": "--rounds 2 --explore_tasks {half} --trainer.temperature 0.1",
    "dpo": f"{_PAIRS} --trainer.match success --trainer.beta 1 --trainer.sft_weight 5",
    "grpo": _ON_POLICY,
    "grpo:success": f"{_ON_POLICY} --reward success --trainer.mask_truncated_completions false",
    "ppo": _ON_POLICY,
    "r3": _ON_POLICY,
    "r3:frozen": f"{_ON_POLICY} --trainer.prm_every 0",
    "r3:outcome": f"{_ON_POLICY} --trainer.prm_labels outcome",
    "kto": "--rounds 2 --explore_tasks {half} --trainer.learning_rate 3e-4",
    "orpo": _PAIRS,
    "ranking": f"{_PAIRS} --trainer.learning_rate 3e-4 --trainer.beta 1 --trainer.sft_weight 5",
    "reverse_curriculum": _ON_POLICY,
}
"""Options of each trainer beside its defaults, with the same number of episodes. Those of `TRAINERS` were chosen by
single trials on valid tasks of seed 0, with different numbers of trials per trainer and env. docs/results/trainers.md
has these numbers, and prints the options.
`grpo:success` rewards success alone, and trains on cut replies, too.
R3's process reward model learns from exact values all the time, once, or from outcomes; without it R3 is PPO.
"""
TRAINERS = ("filtered_bc", "weighted_bc", "dpo", "grpo", "ppo", "r3")
TENTHS = 10
PLAYED = "successes.json"


def settings_of(env: str, trainer: str, more: Sequence[str]) -> list[str]:
    """Return a trainer's options beside its defaults."""
    budget = EPISODES[env]
    return [*SETTINGS[trainer].format(all=budget, half=budget // 2, eighth=budget // 8).split(), *more]


def is_current(row: Mapping[str, Any], more: Sequence[str], base: str) -> bool:
    """Tell whether a line's run has today's settings and base."""
    options = settings_of(row["env"], row["trainer"], more) if row["trainer"] in SETTINGS else None
    return bool(row["settings"] == options and row.get("base") == base)


def successes(checkpoint: Path, env: str, longest: int) -> tuple[list[int], float]:
    """Return the success of each test task, and the mean return."""
    policy = Policy.load(checkpoint)
    agent = ModelAgent(policy, HFEngine(policy), SamplingParams(temperature=0.0, max_new_tokens=longest))
    evaluation, trajectories = evaluate(agent, [EnvSpec(world(env))], "test", TASKS)
    return [int(trajectory.success) for trajectory in trajectories], evaluation.reward.value


def world(env: str) -> str:
    """Return the env's name without the variant of Agent_v0."""
    return env.partition("-")[0]


def common_options(env: str, seed: int) -> list[str]:
    """Return the options of Agent_v0 and of all runs from it."""
    return ["--env", world(env), "--seed", str(seed), "--threads", "1", "--valid_tasks", "1", "--test_tasks", "0"]


def make_v0(env: str, seed: int, out: Path) -> None:
    """Train a seed's Agent_v0 and evaluate it on the test tasks."""
    path, options = out / f"s{seed}" / "v0", [*common_options(env, seed), *AGENT_V0[env], "--rounds", "0"]
    require_same_options(path, options)
    first = RunFolder.open(path) if (path / PLAYED).is_file() else evolve(path, options)
    if (base := first.read_json("provenance.json")["base_policy"]) != shipped_base():
        raise SystemExit(f"{path} comes from another base, {base}: move the folder above it, or use another --out")
    if not (path / PLAYED).is_file():
        won, reward = successes(first.round(0) / "checkpoint", env, first.config()["max_new_tokens"])
        first.write_json(PLAYED, {"successes": won, "reward": reward})


def run_trainer(env: str, trainer: str, seed: int, out: Path, more: Sequence[str]) -> dict[str, Any]:
    """Run a trainer from a seed's Agent_v0; return its line of the results."""
    run_alone("v0", env, seed, out)  # its memory is not this run's
    first = RunFolder.open(out / f"s{seed}" / "v0")
    longest, before = first.config()["max_new_tokens"], first.read_json(PLAYED)
    settings = settings_of(env, trainer, more)
    begin = [*common_options(env, seed), *PLAY[env], "--expert_tasks", "0", "--max_new_tokens", str(longest)]
    begin += ["--merge", "last", "--restart", "previous", "--trainer", trainer.partition(":")[0]]  # alike in all
    path = out / f"s{seed}" / trainer.replace(":", "-")
    is_new, began = not path.exists(), time.process_time()
    folder = evolve(path, [*begin, *settings], "--model", str(first.round(0) / "checkpoint"))
    seconds, mib = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rounds = range(1, folder.config()["rounds"] + 1)
    trajectories = [t for number in rounds for t in store.read(folder.round(number) / "trajectories.jsonl")]
    metrics = [folder.metrics(number) for number in rounds]
    won, reward = successes(folder.round(rounds[-1]) / "checkpoint", env, longest)
    return {
        "env": env, "trainer": trainer, "seed": seed, "settings": settings,
        "base": first.read_json("provenance.json")["base_policy"], "episodes": len(trajectories),
        "steps": sum(step.trained for t in trajectories for step in t.steps), "seconds": seconds if is_new else None,
        "training_share": sum(m["training"]["seconds"] for m in metrics if m["training"])
        / sum(m["seconds"] for m in metrics) if is_new else None,
        "run_mib": mib if is_new else None,
        "reward": [before["reward"], reward], "before": before["successes"], "after": won, "curve": curve(trajectories),
    }  # fmt: skip


def curve(trajectories: Sequence[Trajectory]) -> list[float]:
    """Compute the success rate in each tenth of the training episodes, in order."""
    tenths = [
        trajectories[len(trajectories) * i // TENTHS : len(trajectories) * (i + 1) // TENTHS] for i in range(TENTHS)
    ]
    return [fmean(t.success for t in tenth) for tenth in tenths]


def by_trainer(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Group lines by trainer."""
    return {name: [row for row in rows if row["trainer"] == name] for name in dict.fromkeys(r["trainer"] for r in rows)}


def gain_points(row: Mapping[str, Any]) -> float:
    """Return the gain in points of success."""
    return 100 * (fmean(row["after"]) - fmean(row["before"]))


def median_of(values: Iterable[float], places: int = 0) -> str:
    """Format a median as a cell; nan for no values."""
    return f"{median(list(values) or [math.nan]):,.{places}f}"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format a row per trainer."""
    lines = ["| trainer | seeds | Agent_v0 | after | improvement (IQM) [95 %] | return | episodes | steps | CPU "
             "seconds | points a CPU minute | ms a step | share of the trainer | MiB |", "|" + "---|" * 13]  # fmt: skip
    for trainer, group in by_trainer(rows).items():
        timed = [row for row in group if row["seconds"]]
        gain = improvement([(row["before"], row["after"]) for row in group])
        rates = [[100 * fmean(row[key]) for row in group] for key in ("before", "after")]
        old = any("run_mib" not in row for row in timed)  # older lines have the whole process's, with its evaluation
        cells = [
            trainer, " ".join(str(row["seed"]) for row in group),
            *(" ".join(f"{rate:.1f}" for rate in column) for column in rates), interval_of(gain),
            " ".join(f"{row['reward'][0]:.2f}→{row['reward'][1]:.2f}" for row in group),
            *(median_of(row[key] for row in group) for key in ("episodes", "steps")),
            median_of(row["seconds"] for row in timed),
            median_of((60 * gain_points(row) / row["seconds"] for row in timed), 1),
            median_of(1000 * row["seconds"] / row["steps"] for row in timed),
            median_of((row["training_share"] for row in timed), 2),
            ("≤ " if old else "") + median_of(row.get("run_mib", row.get("memory_mib")) for row in timed),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def interval_of(gain: Estimate) -> str:
    """Format a gain, with its interval if there are several runs."""
    return format_mean(gain) if gain.n > 1 else f"{gain.value:.3f}"


def tenths(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format the success rate in each tenth of a trainer's training episodes, as the mean of its seeds in percent."""
    lines = [f"| trainer | {' | '.join(str(i + 1) for i in range(TENTHS))} |", "|---|" + "--:|" * TENTHS]
    for trainer, group in by_trainer(rows).items():
        means = (fmean(shares) for shares in zip(*(row["curve"] for row in group), strict=True))
        lines.append(f"| {trainer} | {' | '.join(f'{100 * mean:.0f}' for mean in means)} |")
    return "\n".join(lines)


def beside(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format the differences between every two trainers on the same seeds and tasks."""
    lines = ["| trainer | beside | seeds | success, first less second (IQM) [95 %] |", "|---|---|---|---|"]
    after = {name: {row["seed"]: row["after"] for row in group} for name, group in by_trainer(rows).items()}
    for first, second in combinations(after, 2):
        if seeds := sorted(after[first].keys() & after[second].keys()):
            gain = improvement([(after[second][seed], after[first][seed]) for seed in seeds])
            lines.append(f"| {first} | {second} | {' '.join(map(str, seeds))} | {interval_of(gain)} |")
    return "\n".join(lines)


def run_alone(name: str, env: str, seed: int, out: Path, *more: str) -> None:
    """Run a trainer, or `v0`, in a new process."""
    arguments = ["--env", env, "--seeds", str(seed), "--out", str(out), *more]
    subprocess.run([sys.executable, __file__, *arguments, "--one", name], check=True)  # noqa: S603  # this file


def main(words: Sequence[str] | None = None) -> None:
    """Run what is missing, each run in a new process, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=TRAINERS, metavar="NAME")
    parser.add_argument("--env", choices=list(AGENT_V0), default="shop")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, help="folder of the runs (default: runs/trainers/ENV)")
    parser.add_argument("--results", type=Path, help="the file with a line per run")
    parser.add_argument(
        "--settings", default="", help="more options of `agentgym evolve`, for a trial; needs --results"
    )
    parser.add_argument("--tables", action="store_true", help="run nothing, print the tables")
    parser.add_argument("--one", action="store_true", help="run one trainer, or train Agent_v0 (`v0`), in this process")
    args = parser.parse_args(words)
    if args.settings and not args.results:
        parser.error("--settings needs --results FILE for its lines")
    out = args.out or Path("runs/trainers") / args.env
    results, more = args.results or HERE / f"trainers.{args.env}.jsonl", args.settings.split()
    if args.one and args.names == ["v0"]:
        return make_v0(args.env, args.seeds[0], out)
    if args.one:
        line = run_trainer(args.env, args.names[0], args.seeds[0], out, more)
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return None
    base = shipped_base()
    for seed in () if args.tables else args.seeds:
        for trainer in args.names:
            done = [row for row in read(results) if (row["trainer"], row["seed"]) == (trainer, seed)]
            if not any(is_current(row, more, base) for row in done):
                options = ("--results", str(results), f"--settings={args.settings}")
                run_alone(trainer, args.env, seed, out, *options)
    selected = [row for row in read(results) if row["seed"] in args.seeds and row["trainer"] in args.names]
    order = {name: number for number, name in enumerate(SETTINGS)}
    rows = sorted(
        (r for r in selected if is_current(r, more, base)), key=lambda row: (order[row["trainer"]], row["seed"])
    )
    if stale := len(selected) - len(rows):
        print(f"{stale} lines left out: made with other settings, or from another base", file=sys.stderr)
    print(table(rows), tenths(rows), beside(rows), sep="\n\n")
    return None


def read(results: Path) -> list[dict[str, Any]]:
    """Read the lines so far."""
    return [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.is_file() else []


if __name__ == "__main__":
    main()
