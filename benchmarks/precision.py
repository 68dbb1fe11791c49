"""How much of what a training in bfloat16 learns is left in its weights, its checkpoint and its log-probabilities.

    python benchmarks/precision.py                      # tiny, all weights and LoRA, about a minute
    python benchmarks/precision.py --model smollm2      # LoRA alone, a few minutes on a CPU

Each row is two rounds of `filtered_bc` on the shop's expert, the second from the first one's checkpoint. `if merged`
says how much of the change would be left if the weights were rounded to bfloat16 after each round instead.
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


def row(model: str, rank: int, rate: float, steps: int, folder: Path) -> str:
    """Train two rounds and return their row of the table."""
    demos = Collector(ExpertAgent()).collect_batch(jobs_for([EnvSpec("shop")], "train", range(steps)))
    policy = Policy.load(model, dtype="bfloat16", device="cpu")
    start, samples = weights_of(policy), [encode(trajectory, policy.chat) for trajectory in demos[:2]]
    before, rounded = logp(policy, samples), start
    for number in range(2):
        was = weights_of(Policy.load(folder / "0", device="cpu")) if number else start
        trainer = FilteredBC(lora_rank=rank, learning_rate=rate, epochs=1, batch_size=1, warmup_ratio=0.0)
        report = trainer.train(policy, demos, seed=number, output_dir=folder / "training")
        policy.save(folder / str(number))
        loaded = Policy.load(folder / str(number), dtype="bfloat16", device="cpu")
        after, again = logp(policy, samples), logp(loaded, samples)
        now = weights_of(Policy.load(folder / str(number), device="cpu"))
        rounded = {name: (rounded[name] + now[name] - was[name]).bfloat16().float() for name in now}
        trained = weights_of(policy) if rank else {
            name: master.float() for name, master in policy._masters.items()
        }  # fmt: skip
        policy = loaded
    whole = {name: trained[name] - start[name] for name in trained}
    saved = kept({name: now[name] - start[name] for name in now}, whole)
    merged = kept({name: rounded[name] - start[name] for name in now}, whole)
    return (
        f"| {model} | {f'LoRA {rank}' if rank else 'all weights'} | {rate:.0e} | {2 * steps} | "
        f"{100 * report.metrics['weights_changed']:.0f} % | {100 * saved:.1f} % | {100 * merged:.0f} % | "
        f"{before:.4f} | {after:.4f} | {again:.4f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--steps", type=int, default=0, help="optimizer steps of a round (tiny: 16, others: 3)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    steps = options.steps or (16 if options.model == "tiny" else 3)
    print(
        "| model | training | rate | steps | weights changed | kept | if merged | logp before | after | loaded again |"
    )
    print("|" + "---|" * 10)
    for rank in (0, 16) if options.model == "tiny" else (16,):
        for rate in (1e-6, 1e-5, 1e-4):
            with tempfile.TemporaryDirectory() as folder:
                print(row(options.model, rank, rate, steps, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
