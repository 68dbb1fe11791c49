"""How much of what a training in bfloat16 learns is left in its weights, its checkpoint and its log-probabilities.

    python benchmarks/precision.py                      # tiny, all weights and LoRA, 90 seconds of one core
    python benchmarks/precision.py --model smollm2      # LoRA alone, slow on a CPU without bfloat16

Each row is two rounds of `filtered_bc` on short episodes of the shop's expert, the second from the first one's
checkpoint. `if rounded` says how much of the change would be left if the merged weights were rounded to bfloat16 after
each round instead.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import sample_logprobs
from agentgym_py.policy.tokens import encode
from agentgym_trainers.filtered_bc import FilteredBC

Weights = dict[str, torch.Tensor]


def weights_of(policy: Policy) -> Weights:
    """Return the weights of a policy with its adapters merged, in float32."""
    return {name: p.detach().float().clone() for name, p in policy.merged().model.named_parameters()}


def kept(change: Weights, whole: Weights) -> float:
    """Return the projection of a change on the whole of it."""
    product = sum(float((change[name] * whole[name]).sum()) for name in whole)
    return product / sum(float(value.square().sum()) for value in whole.values())


def logp(policy: Policy, samples: list[Any]) -> float:
    """Return the log-probability of the samples' agent tokens, in nats per token."""
    return sum(sample_logprobs(policy.model, samples, 1)) / sum(sum(sample.mask) for sample in samples)


def stored(source: str | Path, rank: int) -> Weights:
    """Return the weights of a checkpoint as a training continues from them.

    Adapters continue on a base in bfloat16; a training of all weights continues from float32 weights.
    """
    return weights_of(Policy.load(source, dtype="bfloat16" if rank else "float32", device="cpu"))


def trained(policy: Policy, rank: int) -> Weights:
    """Return the weights that a training has left in memory."""
    return weights_of(policy) if rank else {name: master.float() for name, master in policy._masters.items()}


def change(after: Weights, before: Weights) -> Weights:
    """Return the difference of two sets of weights."""
    return {name: after[name] - before[name] for name in after}


def row(model: str, rank: int, rate: float, steps: int, folder: Path) -> str:
    """Train two rounds and return their row of the table."""
    played = Collector(ExpertAgent()).collect_batch(jobs_for([EnvSpec("shop")], "train", range(40)))
    demos = sorted(played, key=lambda trajectory: len(trajectory.steps))[:steps]
    policy, start = Policy.load(model, dtype="bfloat16", device="cpu"), stored(model, rank)
    samples = [encode(trajectory, policy.chat) for trajectory in demos]
    before, now = logp(policy, samples), start
    rounded_start = rounded = {name: weight.bfloat16().float() for name, weight in start.items()}
    for number in range(2):
        trainer = FilteredBC(lora_rank=rank, learning_rate=rate, epochs=1, batch_size=1, warmup_ratio=0.0)
        report = trainer.train(policy, demos, seed=number, output_dir=folder / "training")
        policy.save(folder / str(number))
        was, now = now, stored(folder / str(number), rank)
        rounded = {name: (rounded[name] + now[name] - was[name]).bfloat16().float() for name in now}
        learnt, after = trained(policy, rank), logp(policy, samples)
        policy = Policy.load(folder / str(number), dtype="bfloat16", device="cpu")
    whole = change(learnt, {name: start[name] for name in learnt})
    saved, merged = kept(change(now, start), whole), kept(change(rounded, rounded_start), whole)
    return (
        f"| {model} | {f'LoRA {rank}' if rank else 'all weights'} | {rate:.0e} | {2 * steps} | "
        f"{100 * report.metrics['weights_changed']:.0f} % | {100 * saved:.1f} % | {100 * merged:.0f} % | "
        f"{before:.4f} | {after:.4f} | {logp(policy, samples):.4f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--steps", type=int, default=0, help="optimizer steps of a round (tiny: 4, others: 1)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    steps = options.steps or (4 if options.model == "tiny" else 1)
    print(
        "| model | training | rate | steps | weights changed | kept | if rounded | logp before | after | loaded again |"
    )
    print("|" + "---|" * 10)
    for rank in (0, 16) if options.model == "tiny" else (16,):
        for rate in (1e-6, 1e-5, 1e-4):
            with tempfile.TemporaryDirectory() as folder:
                print(row(options.model, rank, rate, steps, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
