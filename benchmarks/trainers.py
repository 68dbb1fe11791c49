"""Trainers beside each other: `python benchmarks/trainers.py [NAME ...] [--env shop] [--seeds 0 1 2 3 4]`.

For each seed `agentgym evolve --rounds 0` makes Agent_v0 of the expert's episodes; from this same agent every trainer
spends the same number of episodes on training tasks, in its rounds of `agentgym evolve --model AGENT_V0 --expert_tasks
0`, and what comes out plays the same 300 test tasks, greedy. The table has the interquartile mean of the improvement
over the seeds with its bootstrap interval (`agentgym_py.stats.improvement`), what was spent, and the most memory that
the process took. Seconds are the processor's, of one thread, so that what else the machine does counts little; a run
that was gone on with has none, nor its memory. Each run is a process of its own, appends a line to RESULTS (default
benchmarks/trainers.ENV.jsonl) when it is over, and is not done again while that line stands: the table can be made over
several sittings.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from agentgym_py import store
from agentgym_py.agents import ModelAgent
from agentgym_py.cli import main as agentgym
from agentgym_py.collect import EnvSpec
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.evaluate import decimal, evaluate
from agentgym_py.policy import Policy
from agentgym_py.runs import RunFolder
from agentgym_py.stats import improvement
from agentgym_py.trajectory import Trajectory

HERE = Path(__file__).parent
TASKS = range(300)
AGENT_V0: Mapping[str, Sequence[str]] = {
    "shop": ["--expert_tasks", "12"],
    "household": ["--expert_tasks", "50"],
}
"""How Agent_v0 is made in each world: one that wins some of its tasks."""
EPISODES: Mapping[str, int] = {"shop": 1000, "household": 1000}
"""What a trainer may spend."""
PLAY: Mapping[str, Sequence[str]] = {"shop": [], "household": ["--env_kwargs.max_steps", "20"]}
"""How training tasks are played: in the household who has not done it after 20 steps seldom does so in the 30 after
them, which cost most of the time. Test tasks are played to their end."""
_PAIRS = "--rounds 2 --explore_tasks {eighth} --tries 4"
_ON_POLICY = "--rounds 1 --explore_tasks {all} --temperature 0.8"
SETTINGS: Mapping[str, str] = {
    "filtered_bc": "--rounds 2 --explore_tasks {half}",
    "weighted_bc": "--rounds 2 --explore_tasks {half} --trainer.temperature 0.1",
    "dpo": f"{_PAIRS} --trainer.match success --trainer.beta 1 --trainer.sft_weight 5",
    "ppo": _ON_POLICY,
    "grpo": _ON_POLICY,
    "r3": _ON_POLICY,
    "r3:frozen": f"{_ON_POLICY} --trainer.prm_every 0",
    "r3:outcome": f"{_ON_POLICY} --trainer.prm_labels outcome",
    "kto": "--rounds 2 --explore_tasks {half} --trainer.learning_rate 3e-4",
    "orpo": _PAIRS,
    "ranking": f"{_PAIRS} --trainer.learning_rate 3e-4",
    "reverse_curriculum": _ON_POLICY,
}
"""What each trainer is told beside its defaults; all come to the same number of episodes. Those of `TRAINERS` are
tuned on valid tasks of seed 0, in both worlds alike: at temperature 0.8 `ppo` and `grpo` win more of them than at 0.5.
Of R3 the process reward model learns from exact values all the time, or once, or from outcomes; without one it is PPO.
"""
TRAINERS = ("filtered_bc", "weighted_bc", "dpo", "ppo", "grpo", "r3")
TENTHS = 10


def evolve(path: Path, arguments: Sequence[str]) -> RunFolder:
    """A finished run of `agentgym evolve` in this folder, gone on with where it was begun."""
    begun = (path / "run.yaml").is_file()
    if agentgym(["evolve", *(["--resume", str(path)] if begun else [*arguments, "--out", str(path)])]):
        raise SystemExit(f"evolve failed in {path}")
    return RunFolder.open(path)


def successes(checkpoint: Path, env: str, longest: int) -> tuple[list[int], float]:
    """Whether each of the test tasks was solved, and the mean return."""
    policy = Policy.load(checkpoint)
    agent = ModelAgent(policy, HFEngine(policy), SamplingParams(temperature=0.0, max_new_tokens=longest))
    found, played = evaluate(agent, [EnvSpec(env)], "test", TASKS)
    return [int(each.success) for each in played], found.reward.value


def one(env: str, trainer: str, seed: int, out: Path, more: Sequence[str]) -> dict[str, Any]:
    """A run of one trainer from one seed's Agent_v0, as a line of the results."""
    sizes = ["--env", env, "--seed", str(seed), "--threads", "1", "--valid_tasks", "1", "--test_tasks", "0"]
    first = evolve(out / f"s{seed}" / "v0", [*sizes, *AGENT_V0[env], "--rounds", "0"])
    longest = first.config()["max_new_tokens"]
    agent = first.round(0) / "checkpoint"
    base = out / f"s{seed}" / "v0" / "successes.json"
    if not base.is_file():
        won, reward = successes(agent, env, longest)
        first.write_json(base.name, {"successes": won, "reward": reward})
    before = json.loads(base.read_text())
    spent = EPISODES[env]
    settings = [*SETTINGS[trainer].format(all=spent, half=spent // 2, eighth=spent // 8).split(), *more]
    begin = [*sizes, *PLAY[env], "--model", str(agent), "--expert_tasks", "0", "--max_new_tokens", str(longest)]
    begin += ["--trainer", trainer.partition(":")[0]]
    path = out / f"s{seed}" / trainer.replace(":", "-")
    anew, began = not path.exists(), time.process_time()
    folder = evolve(path, [*begin, *settings])
    seconds = time.process_time() - began if anew else None
    rounds = range(1, folder.config()["rounds"] + 1)
    played = [t for number in rounds for t in store.read(folder.round(number) / "trajectories.jsonl")]
    metrics = [folder.metrics(number) for number in rounds]
    won, reward = successes(folder.round(rounds[-1]) / "checkpoint", env, longest)
    return {
        "env": env, "trainer": trainer, "seed": seed, "settings": settings, "episodes": len(played),
        "steps": sum(len(t.steps) for t in played), "seconds": seconds,
        "training_share": sum(each["training"]["seconds"] for each in metrics if each["training"])
        / sum(each["seconds"] for each in metrics) if anew else None,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if anew else None,
        "reward": [before["reward"], reward], "before": before["successes"], "after": won, "curve": curve(played),
    }  # fmt: skip


def curve(played: Sequence[Trajectory]) -> list[float]:
    """Share of successes in each tenth of the training episodes, in the order in which they were played."""
    tenths = [played[len(played) * i // TENTHS : len(played) * (i + 1) // TENTHS] for i in range(TENTHS)]
    return [fmean(t.success for t in tenth) for tenth in tenths]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line a trainer."""
    lines = ["| trainer | seeds | Agent_v0 | after | improvement (IQM) [95 %] | return | episodes | steps | CPU "
             "seconds | ms a step | share of the trainer | MiB |", "|" + "---|" * 12]  # fmt: skip
    for trainer in dict.fromkeys(row["trainer"] for row in rows):
        mine = [row for row in rows if row["trainer"] == trainer]
        timed = [{**row, "ms": 1000 * row["seconds"] / row["steps"]} for row in mine if row["seconds"]]
        gain = improvement([(row["before"], row["after"]) for row in mine])
        rates = [[100 * sum(row[key]) / len(row[key]) for row in mine] for key in ("before", "after")]
        cells = [
            trainer, " ".join(str(row["seed"]) for row in mine),
            *(" ".join(f"{rate:.1f}" for rate in each) for each in rates),
            decimal(gain) if len(mine) > 1 else f"{gain.value:.3f}",
            " ".join(f"{row['reward'][0]:.2f}→{row['reward'][1]:.2f}" for row in mine),
            *(f"{median(row[key] for row in mine):,.0f}" for key in ("episodes", "steps")),
            *(
                f"{median([row[key] for row in timed] or [math.nan]):,.{places}f}"
                for key, places in (("seconds", 0), ("ms", 0), ("training_share", 2), ("memory_mib", 0))
            ),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, each in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=TRAINERS, metavar="NAME")
    parser.add_argument("--env", choices=list(AGENT_V0), default="shop")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, help="folder of the runs (default: runs/trainers/ENV)")
    parser.add_argument("--results", type=Path, help="the file with a line a run")
    parser.add_argument("--settings", default="", help="further options of `agentgym evolve`, to try something out")
    parser.add_argument("--one", action="store_true", help="do one run in this process")
    args = parser.parse_args()
    out = args.out or Path("runs/trainers") / args.env
    results = args.results or HERE / f"trainers.{args.env}.jsonl"
    if args.one:
        line = one(args.env, args.names[0], args.seeds[0], out, args.settings.split())
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return
    for seed in args.seeds:
        for trainer in args.names:
            if not any((row["trainer"], row["seed"]) == (trainer, seed) for row in read(results)):
                own = ["--env", args.env, "--seeds", str(seed), "--out", str(out), "--results", str(results)]
                command = [sys.executable, __file__, *own, f"--settings={args.settings}", "--one", trainer]
                subprocess.run(command, check=True)  # noqa: S603  # this file
    print(table([row for row in read(results) if row["seed"] in args.seeds and row["trainer"] in args.names]))


def read(results: Path) -> list[dict[str, Any]]:
    """The lines so far."""
    return [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.is_file() else []


if __name__ == "__main__":
    main()
