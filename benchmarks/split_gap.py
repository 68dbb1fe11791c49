"""How far what is learnt carries: success on training tasks never met, beside valid tasks, in each world.

    python benchmarks/split_gap.py [--worlds maze sql] [--demonstrations 600] [--model tiny] [--out FILE]

From the same base, filtered BC clones the fair expert's episodes at easy training tasks; the agent then plays 150 other
training tasks and 150 valid tasks, greedily. A gap says that the training split has too few words to learn to read. A
line a world is kept in `--out`, and the same command measures the missing ones.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from agentgym_py.agents import ExpertAgent, ModelAgent
from agentgym_py.collection import Collector, Job, PlayConfig
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.evaluation import evaluate
from agentgym_py.evaluation.stats import Estimate
from agentgym_py.evaluation.text import format_rate
from agentgym_py.policy import Policy
from agentgym_trainers.filtered_bc import FilteredBC

WORLDS = (
    "calculator",
    "householdteam",
    "errand",
    "grid",
    "household",
    "lab",
    "maze",
    "service",
    "sheet",
    "shop",
    "sql",
    "textcraft",
    "todo",
    "tools",
    "twentyquestions",
    "wordle",
)
_TASKS, _UNMET = 150, 1_000_000
_PLAY = PlayConfig(slots=64)


def measure(world: str, args: argparse.Namespace) -> dict[str, Any]:
    """Train in a world, and evaluate on both kinds of tasks."""
    spec = EnvSpec(world, {"difficulty": "easy"})
    jobs = [Job(spec, task) for task in range(args.demonstrations)]
    episodes = Collector(ExpertAgent(fair=True), _PLAY).collect_batch(jobs)
    policy = Policy.load(args.model)
    with tempfile.TemporaryDirectory() as folder:
        trainer = FilteredBC(epochs=args.epochs)
        report = trainer.train(policy, episodes, seed=args.seed, output_dir=Path(folder))
    agent = ModelAgent(policy, HFEngine(policy, slots=64), SamplingParams(temperature=0.0, max_new_tokens=160))
    row: dict[str, Any] = {"world": world, "seed": args.seed, "loss": report.loss[-1]}
    for name, split, first in (("unmet", "train", _UNMET), ("valid", "valid", 0)):
        success = evaluate(agent, [spec], split, range(first, first + _TASKS), play=_PLAY)[0].success
        row[name] = [success.value, success.low, success.high, success.n]
    return row


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--demonstrations", type=int, default=600)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/split_gap.jsonl"))
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    lines = args.out.read_text("utf-8").splitlines() if args.out.is_file() else []
    rows = {row["world"]: row for row in map(json.loads, lines)}
    for world in args.worlds:
        if world not in rows:
            rows[world] = measure(world, args)
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[world]) + "\n")
    print("| world | training tasks never met | valid tasks | gap, points |\n|---|---|---|---|")
    for world in args.worlds:
        unmet, valid = (Estimate(*rows[world][name]) for name in ("unmet", "valid"))
        gap = 100 * (unmet.value - valid.value)
        print(f"| {world} | {format_rate(unmet)} | {format_rate(valid)} | {gap:+.0f} |")


if __name__ == "__main__":
    main()
