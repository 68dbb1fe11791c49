"""Trainers beside each other: `python benchmarks/trainers.py [--env shop] [--seeds 0 1 2 3 4] [NAME ...]`.

For each seed `agentgym evolve --rounds 0` makes Agent_v0 of the expert's episodes; from this same agent every trainer
spends the same number of episodes on training tasks, in its rounds of `agentgym evolve --model AGENT_V0 --expert_tasks
0`, and what comes out plays the same 300 test tasks, greedy. The table has the interquartile mean of the improvement
over the seeds with its bootstrap interval (`agentgym_py.stats.improvement`), what was spent, and the most memory that
the process took. Each run is a process of its own, appends a line to RESULTS (default benchmarks/trainers.ENV.jsonl)
when it is over, and is not done again while that line stands: the table can be made over several sittings.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
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

HERE = Path(__file__).parent
TASKS = range(300)
AGENT_V0: Mapping[str, Sequence[str]] = {
    "shop": ["--expert_tasks", "12"],
    "household": ["--expert_tasks", "500", "--max_new_tokens", "48"],
}
"""How Agent_v0 is made in each world."""
EPISODES = 1000
SETTINGS: Mapping[str, Sequence[str]] = {
    "filtered_bc": ["--rounds", "2", "--explore_tasks", "500"],
    "weighted_bc": ["--rounds", "2", "--explore_tasks", "500"],
    "dpo": ["--rounds", "2", "--explore_tasks", "125", "--tries", "4"],
    "ppo": ["--rounds", "1", "--explore_tasks", "1000"],
    "grpo": ["--rounds", "1", "--explore_tasks", "1000"],
}
"""What each trainer is told beside its defaults; all come to `EPISODES`."""


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
    settings = [*SETTINGS[trainer], *more]
    begin = [
        *sizes,
        "--model",
        str(agent),
        "--expert_tasks",
        "0",
        "--max_new_tokens",
        str(longest),
        "--trainer",
        trainer,
    ]
    folder = evolve(out / f"s{seed}" / trainer, [*begin, *settings])
    rounds = range(1, folder.config()["rounds"] + 1)
    played = [t for number in rounds for t in store.read(folder.round(number) / "trajectories.jsonl")]
    metrics = [folder.metrics(number) for number in rounds]
    won, reward = successes(folder.round(rounds[-1]) / "checkpoint", env, longest)
    return {
        "env": env, "trainer": trainer, "seed": seed, "settings": settings, "episodes": len(played),
        "steps": sum(len(t.steps) for t in played), "seconds": sum(each["seconds"] for each in metrics),
        "training_seconds": sum(each["training"]["seconds"] for each in metrics if each["training"]),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "reward": [before["reward"], reward], "before": before["successes"], "after": won,
    }  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line a trainer."""
    lines = ["| trainer | seeds | Agent_v0 | after | improvement (IQM) [95 %] | return | episodes | steps | seconds "
             "(median) | of them in the trainer | MiB |", "|" + "---|" * 11]  # fmt: skip
    for trainer in dict.fromkeys(row["trainer"] for row in rows):
        mine = [row for row in rows if row["trainer"] == trainer]
        gain = improvement([(row["before"], row["after"]) for row in mine])
        rates = [[100 * sum(row[key]) / len(row[key]) for row in mine] for key in ("before", "after")]
        cells = [
            trainer, " ".join(str(row["seed"]) for row in mine),
            *(" ".join(f"{rate:.1f}" for rate in each) for each in rates),
            decimal(gain) if len(mine) > 1 else f"{gain.value:.3f}",
            " ".join(f"{row['reward'][0]:.2f}→{row['reward'][1]:.2f}" for row in mine),
            *(f"{median(row[key] for row in mine):,.0f}"
              for key in ("episodes", "steps", "seconds", "training_seconds", "memory_mib")),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, each in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(SETTINGS), metavar="NAME")
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
