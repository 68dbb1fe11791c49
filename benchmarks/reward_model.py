"""Accuracy of a reward model: `python benchmarks/reward_model.py --checkpoint RUN/rounds/00/checkpoint`.

A checkpoint plays the shop at temperature 1, with several attempts per task. A reward model is trained on the attempts
at valid tasks. Its accuracy is measured on pairs of attempts at a test task with different returns. The baseline
prefers the attempt with fewer steps, because failures are often as long as possible; accuracy on pairs of equal length
is printed, too. Ties count half. Each figure has a 95 % bootstrap interval over whole tasks.
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


def play_tries(policy: Policy, split: str, tasks: int, tries: int) -> list[Trajectory]:
    """Collect the attempts at the first tasks of a split."""
    agent = ModelAgent(policy, HFEngine(policy, slots=64), SamplingParams(temperature=1.0, max_new_tokens=64), "Agent")
    trajectories = Collector(agent, PlayConfig(seed=1)).collect_batch(jobs_for("shop", split, range(tasks), tries))
    return [trajectory for trajectory in trajectories if trajectory.is_evidence]


def pair_accuracy(trajectories: Sequence[Trajectory], scores: Sequence[float], same_length: bool = False) -> str:
    """Compute the share of a task's pairs that the scores order as their returns do."""
    hits, tasks = list[float](), list[str]()
    for (a, x), (b, y) in combinations(zip(trajectories, scores, strict=True), 2):
        if same_length and len(a.steps) != len(b.steps):
            continue
        if a.task_id == b.task_id and abs(a.reward - b.reward) > 1e-9:
            hits.append(0.5 + 0.5 * float(np.sign((x - y) * (a.reward - b.reward))))
            tasks.append(a.task_id)
    return f"{format_mean(bootstrap_mean(hits, clusters=tasks))} of {len(hits)} pairs"


def main(words: Sequence[str] | None = None) -> None:
    """Collect, train, score, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/reward_model"), help="folder of the reward model")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--test_tasks", type=int, default=150)
    parser.add_argument("--tries", type=int, default=4)
    args = parser.parse_args(words)
    policy = Policy.load(args.checkpoint)
    train, test = (
        play_tries(policy, split, tasks, args.tries)
        for split, tasks in (("valid", args.tasks), ("test", args.test_tasks))
    )
    report = RewardModelling().train(policy, train, seed=0, output_dir=args.out)
    model = RewardModel.load(args.out)
    pairs = f"{report.metrics['pairs']:.0f} pairs"
    print(f"loss {report.loss[0]:.3f} to {report.loss[-1]:.3f}, {report.seconds:.0f} s, {pairs}")
    for name, data in (("valid, learnt from", train), ("test", test)):
        scores = model.score(data).tolist()
        shorter = pair_accuracy(data, [-len(t.steps) for t in data])
        equal = pair_accuracy(data, scores, same_length=True)
        print(f"{name}: {pair_accuracy(data, scores)}; fewer steps: {shorter}; as many steps: {equal}")


if __name__ == "__main__":
    main()
