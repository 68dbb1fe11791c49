"""Time steps and resets of every world, and an epoch of filtered BC, to compare two checkouts.

`python benchmarks/versions.py worlds` and `python benchmarks/versions.py filtered_bc DEMOS.jsonl` print one JSON line
of the installed version; run them in turns in the environments of both checkouts. The demonstrations are
`agentgym collect --env shop --agent expert --expert fair --tasks 120 --out DEMOS.jsonl` of the older version. It uses
only names that versions since 58a3e36 share, or falls back to the older ones.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

import gymnasium

import agentgym_py  # registers the worlds

WORLDS = ("Calculator", "Household", "Maze", "SQL", "Shop", "TextCraft", "Todo", "Tools", "Wordle")
TASKS, SECONDS = 12, 1.0


def world_times(world: str) -> dict[str, float]:
    """Return microseconds of CPU per step and per reset, over the expert's plans of twelve tasks."""
    env = gymnasium.make(f"Agent{world}-v0").unwrapped
    plans: list[list[str]] = []
    for seed in range(TASKS):
        env.reset(seed=seed)
        plans.append(env.expert())  # type: ignore[attr-defined]
    steps, resets, in_steps, in_resets = 0, 0, 0.0, 0.0
    while in_steps + in_resets < SECONDS:
        for seed, plan in enumerate(plans):
            began = time.process_time()
            env.reset(seed=seed)
            middle = time.process_time()
            for action in plan:
                env.step(f"Thought: so.\nAction: {action}")
            in_resets, in_steps = in_resets + middle - began, in_steps + time.process_time() - middle
            resets, steps = resets + 1, steps + len(plan)
    return {"step": 1e6 * in_steps / steps, "reset": 1e6 * in_resets / resets}


def filtered_bc(path: str) -> dict[str, float]:
    """Return seconds and tokens per second of an epoch, on one thread."""
    import torch

    from agentgym_py.policy import Policy
    from agentgym_trainers.filtered_bc import FilteredBC

    torch.set_num_threads(1)
    try:
        store = import_module("agentgym_py.trajectory.store")
    except ModuleNotFoundError:  # 58a3e36
        store = import_module("agentgym_py.store")
    demos, policy = list(store.read(path)), Policy.load("tiny", device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        report = FilteredBC(epochs=1.0).train(policy, demos, seed=0, output_dir=Path(folder))
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "tokens": report.tokens, "tokens_per_second": report.tokens / seconds}


if __name__ == "__main__":
    version = str(Path(agentgym_py.__file__).parent)
    figures = (
        filtered_bc(sys.argv[2]) if sys.argv[1] == "filtered_bc" else {world: world_times(world) for world in WORLDS}
    )
    print(json.dumps({"version": version, **figures}))
