"""Speed, floor and ceiling of every installed world and difficulty: the table "Every world" of docs/results/worlds.md.

    python benchmarks/worlds.py [--tasks 300] [--steps 20000] [--tables] [NAME ...]

Everything runs in one process on one core. A step is a random action of `actions()`, including its listing and the
resets between episodes; a reset is to a new task; a snapshot is taken in the middle of the expert's plan. Success is on
test tasks 0 to N-1, for the expert, the fair expert (which knows only the observations) and random actions. Times are
medians of CPU time, on which other jobs have little effect; steps per second also have quartiles.

A measured difficulty replaces its line in benchmarks/worlds.jsonl. `--tables` measures nothing and prints the table.
`python docs/figures.py` and then `python docs/env_pages.py` write the figures into the docs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from agentgym_py import registry
from agentgym_py.env import EnvSpec, TextEnv, registration
from agentgym_py.evaluation.stats import wilson
from agentgym_py.evaluation.text import format_interval
from agentgym_py.files import write_atomic
from agentgym_py.rng import Rng

RESULTS = Path(__file__).parent / "worlds.jsonl"
COLUMNS = (
    "world", "difficulty", "expert", "fair expert", "random", "expert's steps", "fair expert's", "steps/s [quartiles]",
    "reset µs", "snapshot + restore µs", "snapshot bytes",
)  # fmt: skip
CHUNK = 500
"""Steps timed together."""
RESETS = 300

Line = Mapping[str, Any]


@dataclass
class Score:
    """Solved tasks and episode length."""

    solved: int
    length: float
    """Mean steps of an episode."""


def play(env: TextEnv, tasks: int, act: Callable[[TextEnv], str]) -> Score:
    """Run one episode of each test task."""
    lengths, successes = [], 0
    for number in range(tasks):
        env.reset(options={"task": number, "split": "test"})
        while not env.stop_reason:
            env.step(act(env))
        lengths.append(env.steps)
        successes += env.succeeded
    return Score(successes, fmean(lengths))


def steps_per_second(env: TextEnv, steps: int) -> list[float]:
    """Time random listed actions; return the lower quartile, the median and the upper quartile."""
    rng, speeds = Rng("benchmark"), []
    env.reset(seed=0)
    for _ in range(max(2, steps // CHUNK)):
        began = time.process_time()
        for _ in range(CHUNK):
            if env.stop_reason:
                env.reset()
            env.step(rng.choice(env.actions() or [""]))
        speeds.append(CHUNK / (time.process_time() - began))
    return quantiles(speeds, n=4, method="inclusive")


def timed(run: Callable[[int], object], times: int) -> float:
    """Return the median microseconds of a call."""
    seconds = []
    for number in range(times):
        began = time.process_time()
        run(number)
        seconds.append(time.process_time() - began)
    return 1e6 * median(seconds)


def measure(spec: EnvSpec, tasks: int, steps: int) -> dict[str, Any]:
    """Measure a world in one difficulty."""
    env, rng = spec.make(), Rng("random")
    agents: Mapping[str, Callable[[TextEnv], str]] = {
        "expert": lambda env: env.expert()[0],
        "fair expert": lambda env: env.fair_expert() or "",
        "random": lambda env: rng.choice(env.actions() or [""]),
    }
    scores = {name: play(env, tasks, act) for name, act in agents.items()}
    speeds = steps_per_second(env, steps)
    env.reset(seed=1 << 40)
    reset = timed(lambda number: env.reset(seed=number), RESETS)
    plan = env.expert()
    for action in plan[: len(plan) // 2]:
        env.step(action)
    restore = timed(lambda _: env.restore(env.snapshot()), RESETS)
    return {
        "world": env.name, "difficulty": spec.kwargs["difficulty"], "version": env.version, "tasks": tasks,
        "solved": {name: score.solved for name, score in scores.items()},
        "steps": {name: round(score.length, 2) for name, score in scores.items()},
        "steps_per_second": [round(speed) for speed in speeds], "reset_us": round(reset), "restore_us": round(restore),
        "snapshot_bytes": len(env.snapshot()),
    }  # fmt: skip


# ---- lines and tables -----------------------------------------------------------------------------------------------


def read(results: Path = RESULTS) -> list[Line]:
    """Read the lines, one per world and difficulty."""
    texts = results.read_text("utf-8").splitlines() if results.is_file() else []
    return [json.loads(text) for text in texts]


def keep(line: Line, results: Path = RESULTS) -> None:
    """Replace the line of a difficulty in its place, or append it."""
    lines = {(old["world"], old["difficulty"]): old for old in read(results)} | {
        (line["world"], line["difficulty"]): line
    }
    write_atomic(results, "".join(json.dumps(each) + "\n" for each in lines.values()))


def table(lines: Sequence[Line]) -> str:
    """Return the table "Every world"."""
    rows = [COLUMNS, ["---"] * len(COLUMNS), *map(cells, lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cells(line: Line) -> list[str]:
    """Return the row of a line."""
    rates = [format_interval(wilson(line["solved"][name], line["tasks"])) for name in ("fair expert", "random")]
    low, middle, high = line["steps_per_second"]
    return [
        line["world"], line["difficulty"], f"{100 * line['solved']['expert'] / line['tasks']:.1f} %", *rates,
        *(f"{line['steps'][name]:.1f}" for name in ("expert", "fair expert")),
        f"{middle:,} [{low:,}, {high:,}]", f"{line['reset_us']:,}", f"{line['restore_us']:,}",
        f"{line['snapshot_bytes']:,}",
    ]  # fmt: skip


def main(words: Sequence[str] | None = None) -> None:
    """Measure the worlds, keep their lines, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file with a line per difficulty")
    parser.add_argument("--tables", action="store_true", help="measure nothing, print the table")
    args = parser.parse_args(words)
    worlds = args.names or [registration.short_name(env_id) for env_id in registry.names("agentgym.envs")]
    for name in [] if args.tables else worlds:
        for difficulty in getattr(type(EnvSpec(name).make()), "limits", ("easy", "medium", "hard")):
            keep(measure(EnvSpec(name, {"difficulty": difficulty}), args.tasks, args.steps), args.results)
    print(table(read(args.results)))


if __name__ == "__main__":
    main()
