"""Memory over many batches of episodes: `python benchmarks/memory.py [--batches 1000] [--who random,expert,model]`.

Each setup collects batches of the shop and discards the trajectories; the model's weights are synced every tenth batch.
The batches repeat after ten, so that the shop's caches, which are bounded but large, are then full (`agentgym check`
measures worlds). Printed is the resident size of this process and its children in MiB, as the maximum of each tenth of
the run. The first quarter is a warm-up. A setup fails if the last quarter's maximum exceeds the second quarter's by
more than `--bound` MiB. `--leak` keeps all trajectories, which must fail.

Setups: the agents `random` and `expert`; `model`, the tiny model in this process; `beside`, the same in one worker
process, which gets the weights with every batch (`step_timeout`); `workers`, in two worker processes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from agentgym_py.agents import Agent, ExpertAgent, ModelAgent, RandomAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.collection.processes import Workers
from agentgym_py.env import EnvSpec
from agentgym_py.trajectory import Trajectory

SHOP = EnvSpec("shop", {"max_steps": 5})
PLAYERS = ("random", "expert", "model", "beside", "workers")


def resident(pid: int) -> float:
    """Return the resident size of a process in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def player(name: str) -> Collector:
    if name in ("random", "expert"):
        return Collector(RandomAgent() if name == "random" else ExpertAgent())
    import torch

    from agentgym_py.engine import HFEngine, SamplingParams
    from agentgym_py.policy import Policy

    torch.set_num_threads(1)
    policy = Policy.load("tiny-random", device="cpu")
    agent: Agent = ModelAgent(policy, HFEngine(policy), SamplingParams(max_new_tokens=8))
    if name == "model":
        return Collector(agent)
    return Collector(agent, PlayConfig(executor=Workers(1 if name == "beside" else 2), step_timeout=60.0))


def measured(name: str, batches: int, episodes: int, leak: bool) -> list[float]:
    """Measure the resident size after each batch."""
    collector, sizes, leaked = player(name), list[float](), list[Trajectory]()
    executor = collector.play.executor
    workers = executor if isinstance(executor, Workers) else None
    for number in range(batches):
        first = number % 10 * episodes
        tasks = range(first, first + episodes)
        trajectories = collector.collect_batch(jobs_for([SHOP], "train", tasks))
        assert len(trajectories) == episodes and all(t.is_evidence for t in trajectories)
        if leak:
            leaked += trajectories
        if isinstance(collector.agent, ModelAgent) and number % 10 == 9:
            engine = collector.agent._engine
            engine.sync(collector.agent._policy, number)
        pids = [each.process.pid for each in workers._running.values() if each.process.pid] if workers else []
        sizes.append(sum(map(resident, [os.getpid(), *pids])))
    if workers:
        workers.close()
    return sizes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--episodes", type=int, default=16, help="episodes of a batch")
    parser.add_argument("--who", default=",".join(PLAYERS))
    parser.add_argument("--bound", type=float, default=4.0, help="allowed growth in MiB")
    parser.add_argument("--leak", action="store_true")
    args = parser.parse_args()
    if args.batches < 40:
        parser.error("--batches must be at least 40, to compare its quarters")
    failed = []
    print(f"{args.batches} batches of {args.episodes} episodes; MiB, the largest of each tenth")
    for name in args.who.split(","):
        began = time.monotonic()
        sizes = measured(name, args.batches, args.episodes, args.leak)
        tenth, quarter = args.batches // 10, args.batches // 4
        tenths = [max(sizes[at : at + tenth]) for at in range(0, 10 * tenth, tenth)]
        grown = max(sizes[-quarter:]) - max(sizes[quarter : 2 * quarter])
        seconds = time.monotonic() - began
        row = " ".join(f"{size:7.1f}" for size in tenths)
        print(f"{name:8} {row}  grown {grown:+.1f} MiB, {seconds:.0f} s", flush=True)
        if grown > args.bound:
            failed.append(f"{name} grew by {grown:.1f} MiB, more than {args.bound:g}")
    print("\n".join(failed) or f"no player grew by more than {args.bound:g} MiB")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
