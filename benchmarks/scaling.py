"""One process and two: `python benchmarks/scaling.py [--repeats 3] [--episodes 128] [--train 64]`, on an idle machine.

Prints wall-clock seconds, as medians of alternating runs in new single-threaded processes, without their start:

* `collect`: the tiny model samples episodes of training tasks of the shop;
* `filtered_bc`: one epoch on the fair expert's episodes;
* `grpo`: one iteration with groups of 8 and an optimizer step. Episodes are scored by their number of tokens, because
  an untrained model fails them all, and there would be no step to measure.

The work, and up to rounding the result, is the same for any number of processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from agentgym_py import distributed
from agentgym_py.agents import ExpertAgent, ModelAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for, torchrun
from agentgym_py.collection.rollouts import Rollouts
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.policy import Policy
from agentgym_py.registry import load
from agentgym_py.trajectory import Trajectory

SAMPLED = SamplingParams(temperature=1.0, max_new_tokens=32)
MARK = "seconds: "


def token_counts(trajectories: Sequence[Trajectory]) -> list[float]:
    """Count the model's tokens of each trajectory."""
    return [float(sum(len(step.tokens.ids) for step in t.steps if step.tokens)) for t in trajectories]


def measure(episodes: int, train: int) -> dict[str, float]:
    """Measure the seconds of each phase in this process, which may be one of several."""
    import torch

    torch.set_num_threads(1)
    distributed.init_process_group("cpu")
    policy, workers, shop = Policy.load("tiny", device="cpu"), torchrun.Ranks(), EnvSpec("shop")
    engine, jobs = HFEngine(policy), jobs_for([shop], "train", range(episodes))
    experts = Collector(ExpertAgent(fair=True)).collect_batch(jobs_for([shop], "train", range(train)))
    seconds: dict[str, float] = {}

    def timed(name: str, call: Callable[[], object]) -> None:
        distributed.gather(None)
        began = time.monotonic()
        call()
        distributed.gather(None)
        seconds[name] = time.monotonic() - began

    agent = ModelAgent(policy, engine, SAMPLED)
    timed("collect", lambda: Collector(agent, PlayConfig(executor=workers)).collect_batch(jobs))
    with TemporaryDirectory() as scratch:
        cloning = load("agentgym.trainers", "filtered_bc")(epochs=1)
        timed("filtered_bc", lambda: cloning.train(policy, experts, seed=0, output_dir=Path(scratch)))
        tries = 8 * (episodes // 8)
        rollouts = Rollouts(
            policy, engine, SAMPLED, jobs, tries, scorer=token_counts, play_config=PlayConfig(executor=workers)
        )
        grpo = load("agentgym.trainers", "grpo")(tasks_per_iteration=episodes // 8, minibatch_size=episodes)
        timed("grpo", lambda: grpo.improve(policy, rollouts, seed=0, output_dir=Path(scratch)))
    return seconds


def run(processes: int, episodes: int, train: int) -> dict[str, float]:
    """Run a number of processes; return the seconds that they print."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)] * (processes > 1)
    command = [sys.executable, *launch, __file__, "--one", "--episodes", str(episodes), "--train", str(train)]
    done = subprocess.run(  # noqa: S603  # this file
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    seconds: dict[str, float] = json.loads(line.removeprefix(MARK))
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=128)
    parser.add_argument("--train", type=int, default=64)
    parser.add_argument("--one", action="store_true", help="measure in this process and print it")
    args = parser.parse_args()
    if args.one:
        with distributed.rank_zero_output():
            print(MARK + json.dumps(measure(args.episodes, args.train)))
        return
    runs = {number: list[dict[str, float]]() for number in (1, 2)}
    for _ in range(args.repeats):
        for number, results in runs.items():
            results.append(run(number, args.episodes, args.train))
    print("| phase | 1 process | 2 processes | times as fast |\n|---|---|---|---|")
    for phase in runs[1][0]:
        one, two = (median(result[phase] for result in runs[number]) for number in (1, 2))
        print(f"| {phase} | {one:.1f} s | {two:.1f} s | {one / two:.2f} |")


if __name__ == "__main__":
    main()
