"""Trainers beside each other: `python benchmarks/trainers.py [NAME ...] [--env shop] [--seeds 0 1 2 3 4]`.

For each seed `agentgym evolve --rounds 0` makes Agent_v0 of the expert's episodes; from this same agent every trainer
spends the same number of episodes on training tasks, in its rounds of `agentgym evolve --model AGENT_V0 --expert_tasks
0`, and what comes out plays the same 300 test tasks, greedy. The first table has the interquartile mean of the
improvement over the seeds with its bootstrap interval (`evaluation.stats.improvement`), what was spent, and the most
memory that the run took. Seconds are the processor's, of one thread, so that what else the machine does counts little;
a run that was gone on with has none, nor its memory. The second has the successes in each tenth of the training
episodes, the third every two trainers beside each other on the seeds that both have.

Each run, and the making of each Agent_v0, is a process of its own. A run appends a line to RESULTS (default
benchmarks/trainers.ENV.jsonl) when it is over, and is not done again while that line is current: while its settings
are those that it would be told now, and its Agent_v0 comes from the base that ships. Other lines stay in the file and
are left out of the tables, which can so be made over several sittings.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Any

from agentgym_py.agents import ModelAgent
from agentgym_py.cli import main as agentgym
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.evaluation import evaluate
from agentgym_py.evaluation.stats import Estimate, improvement
from agentgym_py.evaluation.text import format_mean
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.files import write_atomic
from agentgym_py.policy import Policy
from agentgym_py.trajectory import Trajectory, store

HERE = Path(__file__).parent
TASKS = range(300)
AGENT_V0: Mapping[str, Sequence[str]] = {
    "shop": ["--expert_tasks", "12"],
    "household": ["--expert_tasks", "50"],
    "household-weak": ["--expert_tasks", "12"],
}
"""How Agent_v0 is made in each world: one that wins some of its tasks, and once one that hardly ever does."""
EPISODES: Mapping[str, int] = {"shop": 1000, "household": 1000, "household-weak": 1000}
"""What a trainer may spend."""
_SHORT = ["--env_kwargs.max_steps", "20"]
PLAY: Mapping[str, Sequence[str]] = {"shop": [], "household": _SHORT, "household-weak": _SHORT}
"""How training tasks are played: in the household who has not done it after 20 steps seldom does so in the 30 after
them, which cost most of the time. Test tasks are played to their end."""
_PAIRS = "--rounds 2 --explore_tasks {eighth} --attempts 4"
_ON_POLICY = "--rounds 1 --explore_tasks {all} --temperature 0.8"
SETTINGS: Mapping[str, str] = {
    "filtered_bc": "--rounds 2 --explore_tasks {half}",
    "weighted_bc": "--rounds 2 --explore_tasks {half} --trainer.temperature 0.1",
    "dpo": f"{_PAIRS} --trainer.match success --trainer.beta 1 --trainer.sft_weight 5",
    "grpo": _ON_POLICY,
    "ppo": _ON_POLICY,
    "r3": _ON_POLICY,
    "r3:frozen": f"{_ON_POLICY} --trainer.prm_every 0",
    "r3:outcome": f"{_ON_POLICY} --trainer.prm_labels outcome",
    "kto": "--rounds 2 --explore_tasks {half} --trainer.learning_rate 3e-4",
    "orpo": _PAIRS,
    "ranking": f"{_PAIRS} --trainer.learning_rate 3e-4 --trainer.beta 1 --trainer.sft_weight 5",
    "reverse_curriculum": _ON_POLICY,
}
"""What each trainer is told beside its defaults; all come to the same number of episodes. Those of `TRAINERS` were
chosen by single trials on valid tasks of seed 0, not equally many for each nor in both worlds: docs/benchmarks.md.
Of R3 the process reward model learns from exact values all the time, or once, or from outcomes; without one it is PPO.
"""
TRAINERS = ("filtered_bc", "weighted_bc", "dpo", "grpo", "ppo", "r3")
TENTHS = 10
PLAYED = "successes.json"


def shipped() -> str:
    """The digest of the base that ships, as its card has it: no weights are read, which would count as memory."""
    card = resources.files("agentgym_data").joinpath("tiny", "CARD.md").read_text("utf-8")
    return str(re.findall(r"Digest\*\* of the weights: `(\w+)`", card)[0])


def settings_of(env: str, trainer: str, more: Sequence[str]) -> list[str]:
    """What a trainer is told beside its defaults."""
    spent = EPISODES[env]
    return [*SETTINGS[trainer].format(all=spent, half=spent // 2, eighth=spent // 8).split(), *more]


def current(row: Mapping[str, Any], more: Sequence[str], base: str) -> bool:
    """Whether a line is of a run as it would be made now."""
    told = settings_of(row["env"], row["trainer"], more) if row["trainer"] in SETTINGS else None
    return bool(row["settings"] == told and row.get("base") == base)


def begun_with(path: Path, told: Sequence[str]) -> None:
    """Keep beside a run's folder what it is told, or refuse one that was told something else.

    A folder with nothing beside it, as they were before, is taken for what is asked.
    """
    kept = path.with_name(f"{path.name}.settings.json")
    if not path.exists():
        write_atomic(kept, json.dumps(list(told)) + "\n")
    elif kept.is_file() and (before := json.loads(kept.read_text("utf-8"))) != list(told):
        raise SystemExit(
            f"{path} was begun with {' '.join(before)}, not with {' '.join(told)}: move it, or give another --out"
        )


def evolve(path: Path, told: Sequence[str], *where: str) -> RunFolder:
    """A finished run of `agentgym evolve` in this folder, gone on with where it was begun."""
    begun_with(path, told)
    begun = (path / "run.yaml").is_file()
    if agentgym(["evolve", *(["--resume", str(path)] if begun else [*told, *where, "--out", str(path)])]):
        raise SystemExit(f"evolve failed in {path}")
    return RunFolder.open(path)


def successes(checkpoint: Path, env: str, longest: int) -> tuple[list[int], float]:
    """Whether each of the test tasks was solved, and the mean return."""
    policy = Policy.load(checkpoint)
    agent = ModelAgent(policy, HFEngine(policy), SamplingParams(temperature=0.0, max_new_tokens=longest))
    found, played = evaluate(agent, [EnvSpec(world(env))], "test", TASKS)
    return [int(each.success) for each in played], found.reward.value


def world(env: str) -> str:
    """Its name, without how its Agent_v0 is made."""
    return env.partition("-")[0]


def sizes(env: str, seed: int) -> list[str]:
    """What Agent_v0 and all that comes of it are told."""
    return ["--env", world(env), "--seed", str(seed), "--threads", "1", "--valid_tasks", "1", "--test_tasks", "0"]


def make_v0(env: str, seed: int, out: Path) -> None:
    """A seed's Agent_v0, and what it does on the test tasks."""
    path, told = out / f"s{seed}" / "v0", [*sizes(env, seed), *AGENT_V0[env], "--rounds", "0"]
    begun_with(path, told)
    first = RunFolder.open(path) if (path / PLAYED).is_file() else evolve(path, told)
    if (base := first.read_json("provenance.json")["base_policy"]) != shipped():
        raise SystemExit(f"{path} comes from another base, {base}: move the folder above it, or give another --out")
    if not (path / PLAYED).is_file():
        won, reward = successes(first.round(0) / "checkpoint", env, first.config()["max_new_tokens"])
        first.write_json(PLAYED, {"successes": won, "reward": reward})


def one(env: str, trainer: str, seed: int, out: Path, more: Sequence[str]) -> dict[str, Any]:
    """A run of one trainer from one seed's Agent_v0, as a line of the results."""
    run_alone("v0", env, seed, out)  # its memory is not this run's
    first = RunFolder.open(out / f"s{seed}" / "v0")
    longest, before = first.config()["max_new_tokens"], first.read_json(PLAYED)
    settings = settings_of(env, trainer, more)
    begin = [*sizes(env, seed), *PLAY[env], "--expert_tasks", "0", "--max_new_tokens", str(longest)]
    begin += ["--trainer", trainer.partition(":")[0]]
    path = out / f"s{seed}" / trainer.replace(":", "-")
    anew, began = not path.exists(), time.process_time()
    folder = evolve(path, [*begin, *settings], "--model", str(first.round(0) / "checkpoint"))
    seconds, mib = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rounds = range(1, folder.config()["rounds"] + 1)
    played = [t for number in rounds for t in store.read(folder.round(number) / "trajectories.jsonl")]
    metrics = [folder.metrics(number) for number in rounds]
    won, reward = successes(folder.round(rounds[-1]) / "checkpoint", env, longest)
    return {
        "env": env, "trainer": trainer, "seed": seed, "settings": settings,
        "base": first.read_json("provenance.json")["base_policy"], "episodes": len(played),
        "steps": sum(step.trained for t in played for step in t.steps), "seconds": seconds if anew else None,
        "training_share": sum(each["training"]["seconds"] for each in metrics if each["training"])
        / sum(each["seconds"] for each in metrics) if anew else None,
        "run_mib": mib if anew else None,
        "reward": [before["reward"], reward], "before": before["successes"], "after": won, "curve": curve(played),
    }  # fmt: skip


def curve(played: Sequence[Trajectory]) -> list[float]:
    """Share of successes in each tenth of the training episodes, in the order in which they were played."""
    tenths = [played[len(played) * i // TENTHS : len(played) * (i + 1) // TENTHS] for i in range(TENTHS)]
    return [fmean(t.success for t in tenth) for tenth in tenths]


def by_trainer(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The lines of each trainer."""
    return {name: [row for row in rows if row["trainer"] == name] for name in dict.fromkeys(r["trainer"] for r in rows)}


def gained(row: Mapping[str, Any]) -> float:
    """Points of success."""
    return 100 * (fmean(row["after"]) - fmean(row["before"]))


def median_of(values: Iterable[float], places: int = 0) -> str:
    """As a cell; nan of none."""
    return f"{median(list(values) or [math.nan]):,.{places}f}"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line a trainer."""
    lines = ["| trainer | seeds | Agent_v0 | after | improvement (IQM) [95 %] | return | episodes | steps | CPU "
             "seconds | points a CPU minute | ms a step | share of the trainer | MiB |", "|" + "---|" * 13]  # fmt: skip
    for trainer, mine in by_trainer(rows).items():
        timed = [row for row in mine if row["seconds"]]
        gain = improvement([(row["before"], row["after"]) for row in mine])
        rates = [[100 * fmean(row[key]) for row in mine] for key in ("before", "after")]
        whole = any("run_mib" not in row for row in timed)  # lines of before: the whole process's, tests included
        cells = [
            trainer, " ".join(str(row["seed"]) for row in mine),
            *(" ".join(f"{rate:.1f}" for rate in each) for each in rates), interval_of(gain),
            " ".join(f"{row['reward'][0]:.2f}→{row['reward'][1]:.2f}" for row in mine),
            *(median_of(row[key] for row in mine) for key in ("episodes", "steps")),
            median_of(row["seconds"] for row in timed),
            median_of((60 * gained(row) / row["seconds"] for row in timed), 1),
            median_of(1000 * row["seconds"] / row["steps"] for row in timed),
            median_of((row["training_share"] for row in timed), 2),
            "≤ " * whole + median_of(row["run_mib"] if "run_mib" in row else row["memory_mib"] for row in timed),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def interval_of(gain: Estimate) -> str:
    """A gain, with its interval where there are several runs."""
    return format_mean(gain) if gain.n > 1 else f"{gain.value:.3f}"


def tenths(rows: Sequence[Mapping[str, Any]]) -> str:
    """Successes in each tenth of a trainer's training episodes, the mean of its seeds, in percent."""
    lines = [f"| trainer | {' | '.join(str(i + 1) for i in range(TENTHS))} |", "|---|" + "--:|" * TENTHS]
    for trainer, mine in by_trainer(rows).items():
        means = (fmean(shares) for shares in zip(*(row["curve"] for row in mine), strict=True))
        lines.append(f"| {trainer} | {' | '.join(f'{100 * mean:.0f}' for mean in means)} |")
    return "\n".join(lines)


def beside(rows: Sequence[Mapping[str, Any]]) -> str:
    """How far each trainer is above each that comes after it, on the same seeds and tasks."""
    lines = ["| trainer | beside | seeds | success, first less second (IQM) [95 %] |", "|---|---|---|---|"]
    after = {name: {row["seed"]: row["after"] for row in mine} for name, mine in by_trainer(rows).items()}
    for first, second in combinations(after, 2):
        if seeds := sorted(after[first].keys() & after[second].keys()):
            gain = improvement([(after[second][seed], after[first][seed]) for seed in seeds])
            lines.append(f"| {first} | {second} | {' '.join(map(str, seeds))} | {interval_of(gain)} |")
    return "\n".join(lines)


def run_alone(name: str, env: str, seed: int, out: Path, *more: str) -> None:
    """One run, or `v0`, in a process of its own."""
    own = ["--env", env, "--seeds", str(seed), "--out", str(out), *more]
    subprocess.run([sys.executable, __file__, *own, "--one", name], check=True)  # noqa: S603  # this file


def main(words: Sequence[str] | None = None) -> None:
    """Run what is missing, each in a process of its own, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=TRAINERS, metavar="NAME")
    parser.add_argument("--env", choices=list(AGENT_V0), default="shop")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, help="folder of the runs (default: runs/trainers/ENV)")
    parser.add_argument("--results", type=Path, help="the file with a line a run")
    parser.add_argument(
        "--settings", default="", help="further options of `agentgym evolve`, to try something out; with --results"
    )
    parser.add_argument("--tables", action="store_true", help="run nothing, print what is there")
    parser.add_argument("--one", action="store_true", help="do one run, or make Agent_v0 (`v0`), in this process")
    args = parser.parse_args(words)
    if args.settings and not args.results:
        parser.error("--settings is a try of its own: --results must say which file takes its lines")
    out = args.out or Path("runs/trainers") / args.env
    results, more = args.results or HERE / f"trainers.{args.env}.jsonl", args.settings.split()
    if args.one and args.names == ["v0"]:
        return make_v0(args.env, args.seeds[0], out)
    if args.one:
        line = one(args.env, args.names[0], args.seeds[0], out, more)
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return None
    base = shipped()
    for seed in () if args.tables else args.seeds:
        for trainer in args.names:
            done = [row for row in read(results) if (row["trainer"], row["seed"]) == (trainer, seed)]
            if not any(current(row, more, base) for row in done):
                told = ("--results", str(results), f"--settings={args.settings}")
                run_alone(trainer, args.env, seed, out, *told)
    asked = [row for row in read(results) if row["seed"] in args.seeds and row["trainer"] in args.names]
    order = {name: number for number, name in enumerate(SETTINGS)}
    rows = sorted((r for r in asked if current(r, more, base)), key=lambda row: (order[row["trainer"]], row["seed"]))
    if stale := len(asked) - len(rows):
        print(f"{stale} lines left out: made with other settings, or from another base", file=sys.stderr)
    print(table(rows), tenths(rows), beside(rows), sep="\n\n")
    return None


def read(results: Path) -> list[dict[str, Any]]:
    """The lines so far."""
    return [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.is_file() else []


if __name__ == "__main__":
    main()
