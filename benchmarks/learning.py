"""What `agentgym evolve` learns in each world: `python benchmarks/learning.py [--env shop maze] [--seeds 0 1 2]`.

For each world and seed: `agentgym evolve --env WORLD --seed S` with default settings, and the same compute spent on
more epochs of the first round's demonstrations, from the same base. Random actions, the base and both experts play the
same tasks. Every agent plays test tasks 0 to 299, greedily. With `--other_difficulties` the first and last agents also
play the world's other difficulties. The command is resumable: it reuses existing results.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from agentgym_py.agents import Agent, ExpertAgent, ModelAgent, RandomAgent
from agentgym_py.cli import main as agentgym
from agentgym_py.collection import PlayConfig
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.evaluation import Evaluation, evaluate
from agentgym_py.evaluation.stats import Estimate, compare_rates
from agentgym_py.evaluation.text import format_rate
from agentgym_py.evolution.run_folder import RunFolder, read_estimate
from agentgym_py.files import write_atomic
from agentgym_py.policy import Policy
from agentgym_py.trajectory import store
from agentgym_py.trajectory.selectors import SelectConfig, build_selector
from agentgym_trainers.filtered_bc import FilteredBC

WORLDS = ("shop", "household", "calculator", "maze", "sql", "textcraft", "todo", "tools", "wordle")
DIFFICULTIES = ("easy", "medium", "hard")
TASKS = range(300)
COLUMNS = (
    "world", "difficulty", "seed", "Agent_v0", "last round", "gain on the same tasks, points",
    "same compute on demonstrations", "steps", "invalid", "seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A finished run of `agentgym evolve` in one world."""

    folder: RunFolder
    world: str
    seed: int

    @property
    def last(self) -> int:
        """Number of the last round."""
        return int(self.folder.read_json("test.json")["last"])

    @property
    def difficulty(self) -> str:
        """Difficulty of the run's tasks."""
        return str(self._kwargs().get("difficulty", "medium"))

    def _kwargs(self) -> Mapping[str, Any]:
        kwargs: Mapping[str, Any] = self.folder.config()["env_kwargs"]
        own: Mapping[str, Any] = kwargs.get(self.world, kwargs)
        return own

    def evaluated(self, agent: Agent, difficulty: str = "") -> Evaluation:
        """Evaluate an agent on the test tasks of a difficulty, by default the run's own."""
        spec = EnvSpec(self.world, {**self._kwargs(), **({"difficulty": difficulty} if difficulty else {})})
        play = PlayConfig(slots=128, prompt=self.folder.config()["prompt"])
        return evaluate(agent, [spec], "test", TASKS, play=play)[0]

    def agent(self, policy: Policy) -> ModelAgent:
        """Make the greedy agent of a policy."""
        longest = self.folder.config()["max_new_tokens"]
        return ModelAgent(policy, HFEngine(policy, slots=128), SamplingParams(temperature=0.0, max_new_tokens=longest))

    def played(self, number: int, difficulty: str) -> dict[str, Any]:
        """Evaluate the agent of a round in another difficulty."""

        def measure() -> Evaluation:
            return self.evaluated(self.agent(Policy.load(self.folder.round(number) / "checkpoint")), difficulty)

        return self.measured(f"round {number}, {difficulty}", measure)

    def compute(self, number: int) -> float:
        """Return a round's compute in training tokens; a token that is only read or sampled counts a third."""
        training = self.folder.metrics(number)["training"]
        spent = float(training["tokens"]) if training else 0.0
        explored = store.read(self.folder.round(number) / "trajectories.jsonl")
        records = [step.tokens for trajectory in explored for step in trajectory.steps if step.tokens]
        return spent + sum(len(tokens.context) + len(tokens.ids) for tokens in records) / 3

    def more_epochs(self) -> Evaluation:
        """Evaluate the base after the compute of all rounds, spent on round 0's data alone."""
        spent = sum(self.compute(number) for number in range(self.last + 1))
        first, config = self.folder.metrics(0)["training"], self.folder.config()
        settings = {k: v for k, v in config["trainer"].items() if k in FilteredBC.__dataclass_fields__}
        trainer = FilteredBC(**settings)
        trainer = replace(trainer, epochs=trainer.epochs * spent / first["tokens"])
        explored = list(store.read(self.folder.round(0) / "trajectories.jsonl"))
        demonstrations = build_selector(SelectConfig(**config["select"]))(explored).kept
        policy = Policy.load(config["model"])
        trainer.train(policy, demonstrations, seed=self.seed, output_dir=self.folder.path / "more_epochs")
        return self.evaluated(self.agent(policy))

    def gain(self) -> Estimate:
        """Compare the last round with Agent_v0, task by task."""
        first, last = (self._successes(number) for number in (0, self.last))
        tasks = sorted(first.keys() & last.keys())
        return compare_rates([last[task] for task in tasks], [first[task] for task in tasks]).difference

    def _successes(self, number: int) -> dict[str, list[int]]:
        played = store.read(self.folder.round(number) / "test.jsonl")
        return {trajectory.task_id: [int(trajectory.success)] for trajectory in played}

    def measured(self, name: str, measure: Callable[[], Evaluation]) -> dict[str, Any]:
        """Return a measurement that is kept in the run's folder."""
        path = self.folder.path / "extra.json"
        kept: dict[str, Any] = self.folder.read_json("extra.json") if path.is_file() else {}
        if name not in kept:
            kept[name] = measure().as_dict()
            self.folder.write_json("extra.json", kept)
        row: dict[str, Any] = self.folder.read_json("extra.json")[name]
        return row


def evolved(world: str, seed: int, out: Path) -> Run:
    """Finish a run."""
    path = out / world / f"seed{seed}"
    if not (path / "test.json").is_file():
        exists = (path / "run.yaml").is_file()
        arguments = ["--resume", str(path)] if exists else ["--env", world, "--seed", str(seed), "--out", str(path)]
        if agentgym(["evolve", *arguments]):
            raise SystemExit(f"evolve --env {world} --seed {seed} failed")
    return Run(RunFolder.open(path), world, seed)


def rows_of(run: Run, others: bool) -> list[list[str]]:
    """Return the cells of a run: one row, and one for each other difficulty."""
    rounds = run.folder.read_json("test.json")["rounds"]
    first, last = rounds["0"], rounds[str(run.last)]
    gain, more = run.gain(), run.measured("more_epochs", run.more_epochs)
    seconds = sum(run.folder.metrics(number)["seconds"] for number in range(run.last + 1))
    rows = [[
        run.world, run.difficulty, str(run.seed), rate_of(first), rate_of(last),
        gain_text(gain), rate_of(more),
        f"{last['steps']:.1f}", f"{100 * last['invalid']:.1f} %", f"{seconds:.0f}",
    ]]  # fmt: skip
    for difficulty in DIFFICULTIES if others else ():
        if difficulty != run.difficulty:
            agents = [run.played(number, difficulty) for number in (0, run.last)]
            rows.append([run.world, difficulty, str(run.seed), *map(rate_of, agents), *[""] * 5])
    return rows


def reference_rows(run: Run) -> list[list[str]]:
    """Return the success of random actions, of the untrained base and of both experts on the run's test tasks."""
    agents: dict[str, Callable[[], Agent]] = {
        "random": RandomAgent,
        "base": lambda: run.agent(Policy.load(run.folder.config()["model"])),
        "fair expert": lambda: ExpertAgent(fair=True),
        "exact expert": ExpertAgent,
    }
    rows = {name: run.measured(name, partial(evaluated, run, make)) for name, make in agents.items()}
    return [[run.world, name, rate_of(row)] for name, row in rows.items()]


def evaluated(run: Run, make: Callable[[], Agent]) -> Evaluation:
    """Make an agent and evaluate it."""
    return run.evaluated(make())


def gain_text(gain: Estimate) -> str:
    """Format a gain in points, with its interval."""
    return f"{100 * gain.value:+.1f} [{100 * gain.low:+.0f}, {100 * gain.high:+.0f}]"


def rate_of(row: Mapping[str, Any]) -> str:
    """Format an evaluation's success."""
    return format_rate(read_estimate(row["success"]))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows))


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--other_difficulties", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/learning"))
    args = parser.parse_args()
    runs = [evolved(world, seed, args.out) for seed in args.seeds for world in args.env]
    rows = [row for run in sorted(runs, key=lambda run: run.world) for row in rows_of(run, args.other_difficulties)]
    references = [row for run in runs if run.seed == args.seeds[0] for row in reference_rows(run)]
    print(table(COLUMNS, rows), table(("world", "who", "success"), references), sep="\n\n")
    write_atomic(args.out / "results.json", json.dumps({"runs": rows, "references": references}, indent=1))


if __name__ == "__main__":
    main()
