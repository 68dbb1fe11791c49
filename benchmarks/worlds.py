"""Speed, floor and ceiling of every installed world and difficulty: the table "Every world" of docs/results/worlds.md.

    python benchmarks/worlds.py [--tasks 300] [--steps 20000] [--counts] [--tables] [NAME ...]
    python benchmarks/worlds.py --proof [--tasks 1000] [--splits train test] [NAME ...]

Everything runs in one process on one core. A step is a random action of `actions()`, including its listing and the
resets between episodes; a reset is to a new task; a snapshot is taken in the middle of the expert's plan. Success is on
test tasks 0 to N-1, for the expert, the fair expert (which knows only the observations) and random actions. Times are
medians of CPU time, on which other jobs have little effect; steps per second also have quartiles.

A measured difficulty replaces its line in benchmarks/worlds.jsonl. `--tables` measures nothing and prints the table.
`--counts` is for a machine that is too slow for times: it keeps those of the line before, and the table marks them if
they are of another version of the world.
`--proof` counts instead, for each split and difficulty, the tasks that the expert and the fair expert solve, and the
episodes of the fair expert whose replay in another instance returns equal turns and equal snapshots, byte by byte. It
writes no line, and its exit status is 1 if the expert fails at a task or a replay differs.
`python docs/figures.py` and then `python docs/env_pages.py` write the figures into the docs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from agentgym_py import registry
from agentgym_py.env import SPLITS, EnvSpec, TextEnv, registration
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


def counts(spec: EnvSpec, tasks: int) -> dict[str, Any]:
    """Count solved tasks and steps of a world in one difficulty."""
    env, rng = spec.make(), Rng("random")
    agents: Mapping[str, Callable[[TextEnv], str]] = {
        "expert": lambda env: env.expert()[0],
        "fair expert": lambda env: env.fair_expert() or "",
        "random": lambda env: rng.choice(env.actions() or [""]),
    }
    scores = {name: play(env, tasks, act) for name, act in agents.items()}
    env.reset(seed=1 << 40)
    advance(env)
    return {
        "world": env.name, "difficulty": spec.kwargs["difficulty"], "version": env.version, "tasks": tasks,
        "solved": {name: score.solved for name, score in scores.items()},
        "steps": {name: round(score.length, 2) for name, score in scores.items()},
        "snapshot_bytes": len(env.snapshot()),
    }  # fmt: skip


def times(spec: EnvSpec, steps: int) -> dict[str, Any]:
    """Time steps, resets and snapshots of a world in one difficulty."""
    env = spec.make()
    speeds = steps_per_second(env, steps)
    env.reset(seed=1 << 40)
    reset = timed(lambda number: env.reset(seed=number), RESETS)
    advance(env)
    restore = timed(lambda _: env.restore(env.snapshot()), RESETS)
    return {
        "timed_version": env.version, "steps_per_second": [round(speed) for speed in speeds],
        "reset_us": round(reset), "restore_us": round(restore),
    }  # fmt: skip


def advance(env: TextEnv) -> None:
    """Do the first half of the expert's plan."""
    plan = env.expert()
    for action in plan[: len(plan) // 2]:
        env.step(action)


def times_before(spec: EnvSpec, results: Path) -> dict[str, Any]:
    """Return the times of the line before."""
    name, level = registration.short_name(spec.name), spec.kwargs["difficulty"]
    line = next(line for line in read(results) if (line["world"], line["difficulty"]) == (name, level))
    return {key: line[key] for key in ("timed_version", "steps_per_second", "reset_us", "restore_us")}


# ---- proofs ---------------------------------------------------------------------------------------------------------

PROOF_COLUMNS = ("world", "difficulty", "split", "tasks", "expert", "fair expert", "equal replays")


@dataclass
class Proof:
    """Counts of one difficulty and split."""

    tasks: int
    expert: int = 0
    """Tasks that the expert solves."""
    fair: int = 0
    """Tasks that the fair expert solves."""
    replays: int = 0
    """Episodes of the fair expert that a replay repeats."""

    @property
    def holds(self) -> bool:
        """Whether the expert solves every task and every replay is equal."""
        return self.expert == self.replays == self.tasks


def prove(spec: EnvSpec, tasks: int, split: str) -> Proof:
    """Play tasks of a split with both experts, and replay the fair one's episodes in another instance."""
    env, other, proof = spec.make(), spec.make(), Proof(tasks)
    for number in range(tasks):
        env.reset(options={"task": number, "split": split})
        for action in env.expert():
            env.step(action)
        proof.expert += env.succeeded
        actions, record = fair_episode(env, number, split)
        proof.fair += env.succeeded
        proof.replays += record == replay(other, number, split, actions)
    return proof


def fair_episode(env: TextEnv, number: int, split: str) -> tuple[list[str], list[object]]:
    """Play a task with the fair expert; return its actions, and what the world returned with the last snapshot."""
    record: list[object] = [env.reset(seed=0, options={"task": number, "split": split})]
    actions = list[str]()
    while not env.stop_reason and (action := env.fair_expert()) is not None:
        actions.append(action)
        record.append(env.step(action))
    return actions, [*record, env.snapshot()]


def replay(env: TextEnv, number: int, split: str, actions: Sequence[str]) -> list[object]:
    """Do the same actions; return the same record if the world is deterministic."""
    record: list[object] = [env.reset(seed=0, options={"task": number, "split": split})]
    return [*record, *map(env.step, actions), env.snapshot()]


def print_proofs(specs: Sequence[EnvSpec], tasks: int, splits: Sequence[str]) -> bool:
    """Print a row for each difficulty and split; return whether all of them hold."""
    print(f"| {' | '.join(PROOF_COLUMNS)} |\n|{'---|' * len(PROOF_COLUMNS)}", flush=True)
    holds = True
    for spec in specs:
        for split in splits:
            proof = prove(spec, tasks, split)
            holds = holds and proof.holds
            counts = (f"{count:,}" for count in (tasks, proof.expert, proof.fair, proof.replays))
            row = (registration.short_name(spec.name), str(spec.kwargs["difficulty"]), split, *counts)
            print(f"| {' | '.join(row)} |", flush=True)
    return holds


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
        f"{middle:,} [{low:,}, {high:,}]{'' if line['timed_version'] == line['version'] else ' †'}",
        f"{line['reset_us']:,}", f"{line['restore_us']:,}",
        f"{line['snapshot_bytes']:,}",
    ]  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Measure the worlds, keep their lines, and print the table; or print proofs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tasks", type=int, help="test tasks of each row: by default 300, and 1,000 with --proof")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file with a line per difficulty")
    parser.add_argument("--counts", action="store_true", help="measure no times, keep those of the line before")
    parser.add_argument("--tables", action="store_true", help="measure nothing, print the table")
    parser.add_argument("--proof", action="store_true", help="count solved tasks and equal replays, keep no line")
    parser.add_argument("--splits", nargs="+", default=("train", "test"), choices=SPLITS, help="splits of --proof")
    args = parser.parse_args(words)
    worlds = args.names or [registration.short_name(env_id) for env_id in registry.names("agentgym.envs")]
    specs = [EnvSpec(name, {"difficulty": level}) for name in worlds for level in difficulties(name)]
    if args.proof:
        return 0 if print_proofs(specs, args.tasks or 1_000, args.splits) else 1
    for spec in [] if args.tables else specs:
        clock = times_before(spec, args.results) if args.counts else times(spec, args.steps)
        keep({**counts(spec, args.tasks or 300), **clock}, args.results)
    print(table(read(args.results)))
    return 0


def difficulties(name: str) -> Sequence[str]:
    """Return the difficulties of a world."""
    return tuple(getattr(type(EnvSpec(name).make()), "limits", ("easy", "medium", "hard")))


if __name__ == "__main__":
    sys.exit(main())
