"""Speed, floor and ceiling of every installed world and difficulty: the tables of docs/results/worlds.md.

    python benchmarks/worlds.py [--tasks 300] [--steps 20000] [NAME ...]

Everything runs in one process on one core. A step is a random action of `actions()`, including its listing and the
resets between episodes; a reset is to a new task; a snapshot is taken in the middle of the expert's plan. Success is on
test tasks 0 to N-1, for the expert, the fair expert (which knows only the observations) and random actions. Times are
medians of CPU time, on which other jobs have little effect.
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
class Score:
    """Success and episode length."""

    success: float
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
    return Score(successes / tasks, fmean(lengths))


def steps_per_second(env: TextEnv, steps: int) -> float:
    """Time random listed actions."""
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
    """Return the median microseconds of a call."""
    seconds = []
    for number in range(times):
        began = time.process_time()
        run(number)
        seconds.append(time.process_time() - began)
    return 1e6 * median(seconds)


def row(spec: EnvSpec, tasks: int, steps: int) -> Iterator[str]:
    """Yield the cells of a world and difficulty."""
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
    for name in args.names or [registration.short_name(env_id) for env_id in registry.names("agentgym.envs")]:
        for difficulty in getattr(type(EnvSpec(name).make()), "limits", ("easy", "medium", "hard")):
            cells = row(EnvSpec(name, {"difficulty": difficulty}), args.tasks, args.steps)
            print(f"| {name} | {difficulty} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
