"""Which try a reward model prefers: `python benchmarks/reward_model.py --checkpoint RUN/rounds/00/checkpoint`.

A checkpoint plays the shop at temperature 1, several tries at a task. A reward model learns from the tries at valid
tasks, and then says of every two tries at a test task whose returns differ which is the better one; nothing was trained
on those. Beside it: to prefer the one with fewer steps, for a try that fails is often as long as it may be; and how
often the model is right where both have as many. What is the same counts half. Each figure has a 95 % bootstrap
interval that draws whole tasks.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from agentgym_py.agents import ModelAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.evaluation.stats import bootstrap_mean
from agentgym_py.evaluation.text import format_mean
from agentgym_py.policy import Policy
from agentgym_py.rewards.reward_model import RewardModel
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.reward_model import RewardModelling


def played(policy: Policy, split: str, tasks: int, tries: int) -> list[Trajectory]:
    """The tries at the first tasks of a split."""
    agent = ModelAgent(policy, HFEngine(policy, slots=64), SamplingParams(temperature=1.0, max_new_tokens=64), "Agent")
    found = Collector(agent, PlayConfig(seed=1)).collect_batch(jobs_for("shop", split, range(tasks), tries))
    return [each for each in found if each.is_evidence]


def right(found: Sequence[Trajectory], said: Sequence[float], alike: bool = False) -> str:
    """Share of the pairs of one task in the order of their returns; of those `alike` that have as many steps."""
    hits, tasks = list[float](), list[str]()
    for (a, x), (b, y) in combinations(zip(found, said, strict=True), 2):
        if alike and len(a.steps) != len(b.steps):
            continue
        if a.task_id == b.task_id and abs(a.reward - b.reward) > 1e-9:
            hits.append(0.5 + 0.5 * float(np.sign((x - y) * (a.reward - b.reward))))
            tasks.append(a.task_id)
    return f"{format_mean(bootstrap_mean(hits, clusters=tasks))} of {len(hits)} pairs"


def main(words: Sequence[str] | None = None) -> None:
    """Play, train, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/reward_model"), help="where the reward model is written")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--test_tasks", type=int, default=150)
    parser.add_argument("--tries", type=int, default=4)
    asked = parser.parse_args(words)
    policy = Policy.load(asked.checkpoint)
    train, test = (
        played(policy, split, tasks, asked.tries)
        for split, tasks in (("valid", asked.tasks), ("test", asked.test_tasks))
    )
    report = RewardModelling().train(policy, train, seed=0, output_dir=asked.out)
    model = RewardModel.load(asked.out)
    pairs = f"{report.metrics['pairs']:.0f} pairs"
    print(f"loss {report.loss[0]:.3f} to {report.loss[-1]:.3f}, {report.seconds:.0f} s, {pairs}")
    for name, some in (("valid, learnt from", train), ("test", test)):
        said, shorter = model.score(some).tolist(), right(some, [-len(each.steps) for each in some])
        print(f"{name}: {right(some, said)}; fewer steps: {shorter}; as many steps: {right(some, said, alike=True)}")


if __name__ == "__main__":
    main()
