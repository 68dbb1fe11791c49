"""Training on whole trajectories or on single turns: `python benchmarks/sequence_packing.py`.

Filtered BC, one epoch over the same expert trajectories of the shop: as one masked sequence per trajectory, or as one
sample per turn (the prompt so far and one reply, the only one with a loss). Both have the same agent tokens with the
same log-probability (printed), the same samples per pass, and about the same number of optimizer steps (turns are
accumulated). The two alternate; figures are medians after a warm-up.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import sample_logprobs
from agentgym_py.policy.tokens import encode
from agentgym_py.training import TrainReport
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.filtered_bc import FilteredBC

ROWS = 4
"""Samples per pass."""


def by_turn(trajectory: Trajectory) -> list[Trajectory]:
    """Cut a trajectory after each of its turns, of which only the last is trained."""
    steps = trajectory.steps
    before = [replace(step, trained=False) for step in steps]
    return [replace(trajectory, steps=(*before[:at], step)) for at, step in enumerate(steps) if step.trained]


def train_epoch(name: str, data: Sequence[Trajectory], accumulation: int) -> TrainReport:
    """Train one epoch from the same weights."""
    trainer = FilteredBC(epochs=1, batch_size=ROWS, gradient_accumulation=accumulation, threshold=0.0)
    with TemporaryDirectory() as folder:
        return trainer.train(Policy.load(name), data, seed=0, output_dir=Path(folder))


def rows(name: str, tasks: int, repeats: int) -> list[str]:
    """Measure the rows of a model."""
    trajectories = Collector(ExpertAgent(fair=True)).collect_batch(jobs_for([EnvSpec("shop")], "train", range(tasks)))
    kinds = {"one sequence": trajectories, "one sample a turn": [part for t in trajectories for part in by_turn(t)]}
    policy, reports = Policy.load(name), dict[str, list[TrainReport]]()
    for repeat in range(1 + repeats):
        for kind, data in kinds.items():
            report = train_epoch(name, data, round(len(data) / len(trajectories)))
            if repeat:
                reports.setdefault(kind, []).append(report)
    base, table = [report.seconds for report in reports["one sequence"]], list[str]()
    for kind, data in kinds.items():
        first, seconds = reports[kind][0], [report.seconds for report in reports[kind]]
        ratio = statistics.median(ours / other for ours, other in zip(seconds, base, strict=True))
        logprob = sum(sample_logprobs(policy.model, [encode(t, policy.chat) for t in data], ROWS))
        median = statistics.median(seconds)
        table.append(
            f"| {name} | {kind} | {len(data)} | {first.tokens} | {first.agent_tokens} | {logprob:.3f} "
            f"| {median:.1f} | {first.agent_tokens / median:.0f} | {ratio:.2f} |"
        )
    return table


def main() -> None:
    """Print two rows per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["tiny"])
    parser.add_argument("--tasks", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print("| model | a sample is | samples | tokens | the agent's | their log-probability", end=" ")
    print("| s an epoch | agent tokens/s | time |\n|---|---|" + "--:|" * 7)
    for name in args.models:
        print("\n".join(rows(name, args.tasks, args.repeats)), flush=True)


if __name__ == "__main__":
    main()
