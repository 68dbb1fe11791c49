"""Memory and time of one training step's language-model head: all logits at once, and in pieces.

    python benchmarks/head_memory.py                          # SmolLM2's sizes, 8,192 agent tokens
    python benchmarks/head_memory.py --hidden 896 --words 151936 --tokens 1024 2048   # Qwen2.5-0.5B's

Each row is a process of its own: a forward and backward pass of the log-probabilities and the entropy of random hidden
states, in float32. `peak` is the process's largest resident memory less that before the pass; without a GPU only.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time


def main() -> None:
    """Measure each number of tokens in both ways, in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=576)
    parser.add_argument("--words", type=int, default=49_152)
    parser.add_argument("--tokens", type=int, nargs="+", default=[8192])
    parser.add_argument("--worker", choices=["whole", "pieces"])
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(measure(args.hidden, args.words, args.tokens[0], args.worker == "pieces")))
        return
    print("| agent tokens | words | head | peak, MiB | logits of this size | seconds |\n|--:|--:|---|--:|--:|--:|")
    for tokens in args.tokens:
        for way in ("whole", "pieces"):
            command = [sys.executable, __file__, "--hidden", str(args.hidden), "--words", str(args.words)]
            command += ["--tokens", str(tokens), "--worker", way]
            worker = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  # this file
            result = json.loads(worker.stdout)
            copies = result["mib"] / (tokens * args.words * 4 / 2**20)
            row = f"{result['mib']:,.0f} | {copies:.1f} | {result['seconds']:.1f}"
            print(f"| {tokens:,} | {args.words:,} | {way} | {row} |")


def measure(hidden: int, words: int, tokens: int, in_pieces: bool) -> dict[str, float]:
    """Run one pass; return its peak and its time."""
    import torch
    import transformers

    from agentgym_py.policy import logprobs
    from agentgym_py.training.rl.actor_critic import ActorCritic

    torch.set_num_threads(1)
    logprobs._LOGITS = 0 if in_pieces else 1 << 60
    config = transformers.LlamaConfig(
        vocab_size=words, hidden_size=hidden, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
        max_position_embeddings=tokens + 8,
    )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.model.parameters():
        parameter.requires_grad_(False)
    net = ActorCritic(model, critic=False, temperature=1.0, entropy_gradient=False)
    ids = torch.randint(words, (tokens // 512, 513))
    labels = ids.clone()
    labels[:, 0] = -100
    model.lm_head.weight.grad = torch.zeros_like(model.lm_head.weight)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    out = net(ids, labels)
    torch.autograd.backward(out.logps_N.mean())
    return {
        "seconds": time.monotonic() - began,
        "mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }


if __name__ == "__main__":
    main()
