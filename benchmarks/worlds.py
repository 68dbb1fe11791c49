"""Speeds, floors and ceilings of every installed world, a row for each difficulty: the tables of docs/benchmarks.md.

    python benchmarks/worlds.py [--tasks 300] [--steps 20000] [NAME ...]

One process, one core. A step is a random action out of `actions()`, its listing and the resets between episodes
included; a reset is one to a task that was never seen before; a snapshot is taken in the middle of the expert's plan.
Success is on test tasks 0 to N-1: the expert's, that of the fair expert, who knows only what was shown, and that of
random actions. Times are medians of CPU time, in which other jobs on the machine count for little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean, median

from agentgym_py import registry
from agentgym_py.env import EnvSpec, TextEnv, registration
from agentgym_py.rng import Rng

COLUMNS = (
    "world", "difficulty", "expert", "fair expert", "random", "expert's steps", "steps/s", "reset µs",
    "snapshot + restore µs", "snapshot bytes",
)  # fmt: skip
CHUNK = 500
"""Steps timed together."""
RESETS = 300


@dataclass
class Played:
    """How a player did."""

    success: float
    length: float
    """Mean steps of an episode."""


def play(env: TextEnv, tasks: int, act: Callable[[TextEnv], str]) -> Played:
    """One episode of each test task."""
    lengths, successes = [], 0
    for number in range(tasks):
        env.reset(options={"task": number, "split": "test"})
        while not env.stop_reason:
            env.step(act(env))
        lengths.append(env.steps)
        successes += env.succeeded
    return Played(successes / tasks, fmean(lengths))


def steps_per_second(env: TextEnv, steps: int) -> float:
    """Random listed actions."""
    rng, times = Rng("benchmark"), []
    env.reset(seed=0)
    for _ in range(steps // CHUNK):
        began = time.process_time()
        for _ in range(CHUNK):
            if env.stop_reason:
                env.reset()
            env.step(rng.choice(env.actions() or [""]))
        times.append(time.process_time() - began)
    return CHUNK / median(times)


def timed(run: Callable[[int], object], times: int) -> float:
    """Median microseconds of a call."""
    taken = []
    for number in range(times):
        began = time.process_time()
        run(number)
        taken.append(time.process_time() - began)
    return 1e6 * median(taken)


def row(spec: EnvSpec, tasks: int, steps: int) -> Iterator[str]:
    """The cells of one world in one difficulty."""
    env, rng = spec.make(), Rng("random")
    expert = play(env, tasks, lambda env: env.expert()[0])
    yield f"{100 * expert.success:.1f} %"
    yield f"{100 * play(env, tasks, lambda env: env.fair_expert() or '').success:.1f} %"
    yield f"{100 * play(env, tasks, lambda env: rng.choice(env.actions() or [''])).success:.1f} %"
    yield f"{expert.length:.1f}"
    yield f"{steps_per_second(env, steps):,.0f}"
    env.reset(seed=1 << 40)
    yield f"{timed(lambda number: env.reset(seed=number), RESETS):.0f}"
    plan = env.expert()
    for action in plan[: len(plan) // 2]:
        env.step(action)
    yield f"{timed(lambda _: env.restore(env.snapshot()), RESETS):.0f}"
    yield f"{len(env.snapshot())}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--steps", type=int, default=20_000)
    args = parser.parse_args()
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for name in args.names or [registration.short_name(each) for each in registry.names("agentgym.envs")]:
        for difficulty in getattr(type(EnvSpec(name).make()), "limits", ("easy", "medium", "hard")):
            cells = row(EnvSpec(name, {"difficulty": difficulty}), args.tasks, args.steps)
            print(f"| {name} | {difficulty} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
