"""Tokens per second of training and generation: `python benchmarks/throughput.py [--models tiny] [--threads 2]`.

Training is filtered BC on expert trajectories of the shop. Generation is sampling the same tasks at temperature 1;
computed prompt tokens and sampled tokens are counted together and separately.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from agentgym_py.agents import ExpertAgent, ModelAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.policy import Policy
from agentgym_trainers.filtered_bc import FilteredBC

SHOP = EnvSpec("shop")


def training(name: str, tasks: int, batch: int) -> str:
    """Measure training tokens per second of one epoch, with one sequence per trajectory."""
    demos = Collector(ExpertAgent()).collect_batch(jobs_for([SHOP], "train", range(tasks)))
    policy = Policy.load(name)
    with tempfile.TemporaryDirectory() as folder:
        report = FilteredBC(epochs=1, batch_size=batch).train(policy, demos, seed=0, output_dir=Path(folder))
    return f"{report.tokens / report.seconds:.0f} tokens/s ({report.tokens} tokens, {report.seconds:.1f} s)"


def generation(name: str, tasks: int, slots: int) -> str:
    """Measure tokens per second of whole episodes, including the env."""
    policy = Policy.load(name)
    engine = HFEngine(policy, slots=slots)
    agent = ModelAgent(policy, engine, SamplingParams(temperature=1.0, max_new_tokens=32))
    began = time.perf_counter()
    trajectories = Collector(agent, PlayConfig(slots=slots)).collect_batch(jobs_for([SHOP], "train", range(tasks)))
    seconds = time.perf_counter() - began
    sampled = sum(len(step.tokens.ids) for t in trajectories for step in t.steps if step.tokens)
    return (
        f"{(sampled + engine.prefilled) / seconds:.0f} tokens/s "
        f"({sampled} sampled, {engine.prefilled} prefilled, {tasks} episodes in {seconds:.1f} s)"
    )


def main() -> None:
    """Print a row per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["tiny", "smollm2"])
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print("| model | training | generation |\n|---|---|---|")
    for name in args.models:
        small = name != "smollm2"
        training_cell = training(name, 200 if small else 4, 16 if small else 2)
        generation_cell = generation(name, 256 if small else 4, 128 if small else 4)
        print(f"| {name} | {training_cell} | {generation_cell} |", flush=True)


if __name__ == "__main__":
    main()
