"""The memory that `agentgym plan` predicts, beside the memory that the same training and playing take.

    python benchmarks/plan.py                       # SmolLM2-135M (extra `smollm`), a few minutes on a CPU
    python benchmarks/plan.py --model tiny --length 256

Each row is a process of its own. Measured is the growth of its largest resident memory after the model was loaded: an
optimizer step of `filtered_bc` on a sequence of --length tokens, after another step, or replies to --slots prompts.
Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

WAYS: dict[str, tuple[str, dict[str, Any], Literal["float32", "bfloat16"]]] = {
    "all weights, float32": ("train", {}, "float32"),
    "all weights, float32, gradient checkpointing": ("train", {"gradient_checkpointing": True}, "float32"),
    "all weights, bfloat16": ("train", {}, "bfloat16"),
    "LoRA 16, float32": ("train", {"lora_rank": 16}, "float32"),
    "LoRA 16, bfloat16": ("train", {"lora_rank": 16}, "bfloat16"),
    "playing, float32": ("play", {}, "float32"),
}
RETURNED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Settings of glibc by which freed memory goes back to the system, so that none of before is counted or reused."""
SHARE = 0.2
"""Share of the agent's tokens in a sequence."""


def main() -> None:
    """Measure each way and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), metavar="WAY")
    parser.add_argument("--worker", choices=list(WAYS))
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(measure(args.model, args.length, args.slots, args.worker)))
        return
    print(f"| {args.model}, {args.length:,} tokens | predicted, MiB | measured, MiB | difference |\n|---|--:|--:|--:|")
    for way in args.ways:
        command = [sys.executable, __file__, "--model", args.model, "--length", str(args.length)]
        command += ["--slots", str(args.slots), "--worker", way]
        worker = subprocess.run(  # noqa: S603  # this file
            command, check=True, capture_output=True, text=True, env=os.environ | RETURNED
        )
        row = json.loads(worker.stdout.splitlines()[-1])
        difference = 100 * (row["predicted"] / row["measured"] - 1)
        print(f"| {way} | {row['predicted']:,.0f} | {row['measured']:,.0f} | {difference:+.0f} % |", flush=True)


def resident(field: str) -> int:
    """Return this process's resident memory in bytes, of now (VmRSS) or the largest (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def measure(name: str, length: int, slots: int, way: str) -> dict[str, float]:
    """Load the model, run one way, and return the predicted and measured growth in MiB."""
    import torch

    from agentgym_py.policy import Policy
    from agentgym_py.training.memory_plan import Workload, open_config, plan_memory
    from agentgym_trainers.filtered_bc import FilteredBC

    kind, settings, dtype = WAYS[way]
    torch.set_num_threads(1)
    policy = Policy.load(name, dtype=dtype, device="cpu")
    trainer = FilteredBC(microbatch_tokens=length, **settings)
    workload = Workload(dtype=dtype, max_context=length, agent_share=SHARE, slots=slots)
    plan = plan_memory(open_config(name), trainer, replace(workload, kv_cache_gib=1e3))
    parts = [part for part in plan.parts if part.name != "policy"]
    predicted = sum(part.training if kind == "train" else part.playing for part in parts)
    warm_up(policy)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # forgets the largest so far
    if kind == "train":
        train(policy, trainer, length)
    else:
        play(policy, length, slots)
    return {"predicted": predicted / 2**20, "measured": (resident("VmHWM") - before) / 2**20}


def warm_up(policy: Any) -> None:
    """Load the libraries that a forward and a backward pass need."""
    import torch

    loss = policy.model(input_ids=torch.zeros(1, 8, dtype=torch.long)).logits.float().logsumexp(-1).sum()
    loss.backward()
    policy.model.zero_grad()


def train(policy: Any, trainer: Any, length: int) -> None:
    """Take a step on a short sequence, then one on a short and a long one, whose gradients add up."""
    from agentgym_py.policy.tokens import Sample
    from agentgym_py.training.fit import Fit

    agent = int(length * SHARE)
    long = Sample([1 + i % 100 for i in range(length)], [0] * (length - agent) + [1] * agent)
    short = Sample([1, 2, 3, 4], [0, 1, 1, 1])
    with Fit("plan", policy, trainer, [short, long], seed=0, output_dir=None) as fit:
        for batch in fit.steps([[0], [0, 1]]):
            for part in fit.microbatches(batch):
                fit.backward(*trainer.loss(fit, part, agent))
            fit.step()


def play(policy: Any, length: int, slots: int) -> None:
    """Reply to a long prompt in every slot."""
    from agentgym_py.engine import HFEngine, SamplingParams

    reply = 8
    engine = HFEngine(policy, slots)
    prompts = [[1 + (i * (slot + 3)) % 100 for i in range(length - reply)] for slot in range(slots)]
    engine.generate(prompts, SamplingParams(temperature=0.7, max_new_tokens=reply))


if __name__ == "__main__":
    main()
