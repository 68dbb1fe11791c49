"""The learning figures of docs/benchmarks.md: `python benchmarks/learning.py [--seeds 0 1 2] [--out runs/learning]`.

For each seed: `agentgym evolve --env shop --seed S` with default settings; the same compute spent on more epochs of the
first round's expert data, from the same base; and the first and last agent on the other two difficulties. Floor and
ceiling are the random and the expert agent on the same test tasks. All evaluations are greedy, on test tasks 0 to 299.
The command is resumable: it reuses existing results.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from agentgym_py.agents import Agent, ExpertAgent, ModelAgent, RandomAgent
from agentgym_py.cli import main as agentgym
from agentgym_py.collection import PlayConfig
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.evaluation import Evaluation, evaluate
from agentgym_py.evaluation.stats import Estimate
from agentgym_py.evaluation.text import format_rate
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.files import write_atomic
from agentgym_py.policy import Policy
from agentgym_py.trajectory import store
from agentgym_py.trajectory.selectors import SelectConfig, build_selector
from agentgym_trainers.filtered_bc import FilteredBC

TASKS = range(300)


def evaluated(agent: Agent, difficulty: str = "medium", prompt: Any = "brief") -> Evaluation:
    """Evaluate an agent on the 300 test tasks of a difficulty."""
    spec = EnvSpec("shop", {"difficulty": difficulty})
    return evaluate(agent, [spec], "test", TASKS, play=PlayConfig(slots=128, prompt=prompt))[0]


def model_agent(policy: Policy) -> ModelAgent:
    """Make a greedy agent."""
    return ModelAgent(policy, HFEngine(policy, slots=128), SamplingParams(temperature=0.0))


def compute(folder: RunFolder, number: int) -> float:
    """Return a round's compute in training tokens; a token that is only read or sampled counts a third."""
    training = folder.metrics(number)["training"]
    spent = float(training["tokens"]) if training else 0.0
    explored = store.read(folder.round(number) / "trajectories.jsonl")
    records = [step.tokens for trajectory in explored for step in trajectory.steps if step.tokens]
    return spent + sum(len(tokens.context) + len(tokens.ids) for tokens in records) / 3


def more_epochs(folder: RunFolder, seed: int) -> Evaluation:
    """Evaluate the base after the compute of all rounds, spent on round 0's data alone."""
    rounds = sorted((folder.path / "rounds").iterdir())
    spent = sum(compute(folder, number) for number in range(len(rounds)))
    first = folder.metrics(0)["training"]
    config = folder.config()
    settings = {k: v for k, v in config["trainer"].items() if k in FilteredBC.__dataclass_fields__}
    trainer = FilteredBC(**settings)
    trainer = replace(trainer, epochs=trainer.epochs * spent / first["tokens"])
    demos = build_selector(SelectConfig(**config["select"]))(list(store.read(rounds[0] / "trajectories.jsonl"))).kept
    policy = Policy.load(config["model"])
    trainer.train(policy, demos, seed=seed, output_dir=folder.path / "more_epochs")
    return evaluated(model_agent(policy), prompt=config["prompt"])


def one_seed(seed: int, out: Path) -> dict[str, Any]:
    """Run and measure one seed."""
    path = out / f"seed{seed}"
    if not (path / "test.json").is_file():
        exists = (path / "run.yaml").is_file()
        arguments = ["--resume", str(path)] if exists else ["--env", "shop", "--seed", str(seed), "--out", str(path)]
        if agentgym(["evolve", *arguments]):
            raise SystemExit(f"evolve --seed {seed} failed")
    folder = RunFolder.open(path)
    result = folder.read_json("test.json")
    last = result["last"]
    if not (path / "extra.json").is_file():
        policy = Policy.load(folder.round(last) / "checkpoint")
        prompt = folder.config()["prompt"]
        extra = {"more_epochs": more_epochs(folder, seed)}
        extra |= {f"last, {d}": evaluated(model_agent(policy), d, prompt) for d in ("easy", "hard")}
        first = Policy.load(folder.round(0) / "checkpoint")
        extra |= {f"Agent_v0, {d}": evaluated(model_agent(first), d, prompt) for d in ("easy", "hard")}
        folder.write_json("extra.json", {name: asdict(value) for name, value in extra.items()})
    seconds = sum(folder.metrics(i)["seconds"] for i in range(last + 1))
    rows = {"Agent_v0": result["rounds"]["0"], f"round {last}": result["rounds"][str(last)]}
    return {"seed": seed, "seconds": seconds, "rows": rows | folder.read_json("extra.json")}


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/learning"))
    args = parser.parse_args()
    results = [one_seed(seed, args.out) for seed in args.seeds]
    floor = {d: (evaluated(RandomAgent(), d), evaluated(ExpertAgent(), d)) for d in ("easy", "medium", "hard")}
    print("\n| seed | agent | success | return | steps | invalid |\n|---|---|---|---|---|---|")
    for result in results:
        for name, row in result["rows"].items():
            success = Estimate(**row["success"])
            tail = f"{row['reward']['value']:.3f} | {row['steps']:.1f} | {100 * row['invalid']:.1f} % |"
            print(f"| {result['seed']} | {name} | {format_rate(success)} | {tail}")
        print(f"| {result['seed']} | (rounds, seconds) | {result['seconds']:.0f} | | | |")
    for difficulty, (random, expert) in floor.items():
        print(f"| - | random, {difficulty} | {format_rate(random.success)} | {random.reward.value:.3f} | | |")
        print(f"| - | expert, {difficulty} | {format_rate(expert.success)} | {expert.reward.value:.3f} | | |")
    write_atomic(args.out / "results.json", json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
