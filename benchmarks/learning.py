"""What `agentgym evolve` learns in each world: `python benchmarks/learning.py [--env shop maze] [--seeds 0 1 2]`.

For each world and seed: `agentgym evolve --env WORLD --seed S` with default settings, and the same compute spent on
more epochs of the first round's demonstrations, from the same base. Random actions, the base and both experts play the
same tasks. Every agent plays test tasks 0 to 299, greedily. With `--other_difficulties` the first and last agents also
play the world's other difficulties. The command is resumable: it reuses existing results.

A finished run is a line of RESULTS (default benchmarks/learning.jsonl). `--tables` prints the tables of these lines and
runs nothing. Lines from another base, version of the world, or order of or passes over the demonstrations than today's
are left out, or marked † if the world has no others.
`python docs/figures.py` puts the figures into the README and the documentation.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from studies import evolve, shipped_base

from agentgym_py.agents import Agent, ExpertAgent, ModelAgent, RandomAgent
from agentgym_py.collection import PlayConfig
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.env.registration import env_class
from agentgym_py.evaluation import Evaluation, evaluate
from agentgym_py.evaluation.stats import Estimate, compare_rates
from agentgym_py.evaluation.text import format_interval, format_rate
from agentgym_py.evolution.run_folder import RunFolder, read_estimate
from agentgym_py.policy import Policy
from agentgym_py.trajectory import store
from agentgym_py.trajectory.selectors import SelectConfig, build_selector

RESULTS = Path(__file__).parent / "learning.jsonl"
WORLDS = (
    "shop",
    "household",
    "calculator",
    "lab",
    "maze",
    "sql",
    "textcraft",
    "todo",
    "service",
    "tools",
    "wordle",
    "grid",
    "twentyquestions",
    "householdteam",
    "errand",
    "sheet",
)
DIFFICULTIES = ("easy", "medium", "hard")
TASKS = range(300)
COLUMNS = (
    "world", "difficulty", "seed", "Agent_v0", "last round", "gain on the same tasks, points",
    "same compute on demonstrations", "steps", "invalid", "seconds",
)  # fmt: skip
OTHERS = ("world", "difficulty", "seed", "Agent_v0", "last round")
ROUNDS = ("world", "seed", "round", "explored, success", "kept", "success on valid tasks")


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

    @property
    def version(self) -> int:
        """Version of the world."""
        return next(store.read(self.folder.round(0) / "test.jsonl")).provenance.env_version

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
        from agentgym_trainers.filtered_bc import FilteredBC  # imports torch

        first, config = self.folder.metrics(0)["training"], self.folder.config()
        settings = {k: v for k, v in config["trainer"].items() if k in FilteredBC.__dataclass_fields__}
        trainer = FilteredBC(**settings)
        epochs = config["expert_epochs"] or trainer.epochs
        trainer = replace(trainer, epochs=epochs * spent / first["tokens"])
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


def evolved(world: str, seed: int, out: Path, threads: int | None = None) -> Run:
    """Finish a run, on this many threads."""
    path = out / world / f"seed{seed}"
    if not (path / "test.json").is_file():
        evolve(path, ["--env", world, "--seed", str(seed)], *(("--threads", str(threads)) if threads else ()))
    return Run(RunFolder.open(path), world, seed)


def line_of(run: Run, others: bool) -> dict[str, Any]:
    """Measure a run and return its line of the results; `others` adds the world's other difficulties."""
    played = run.folder.read_json("test.json")["rounds"]
    numbers = range(run.last + 1)
    metrics = [run.folder.metrics(number) for number in numbers]
    line: dict[str, Any] = {
        "env": run.world, "difficulty": run.difficulty, "seed": run.seed,
        "base": run.folder.read_json("provenance.json")["base_policy"], "version": run.version,
        "expert_order": run.folder.config()["expert_order"], "expert_epochs": run.folder.config()["expert_epochs"],
        "rounds": [round_of(row) for row in metrics],
        "first": tested(played["0"]), "last": tested(played[str(run.last)]),
        "gain": asdict(run.gain()), "more_epochs": tested(run.measured("more_epochs", run.more_epochs)),
        "seconds": sum(row["seconds"] for row in metrics), "others": {}, "references": references(run),
    }  # fmt: skip
    for difficulty in DIFFICULTIES if others else ():
        if difficulty != run.difficulty:
            first, last = (tested(run.played(number, difficulty)) for number in (0, run.last))
            line["others"][difficulty] = {"first": first, "last": last}
    return line


def round_of(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a line keeps of a round."""
    explored, kept = metrics["explored"]["success"], metrics["selection"]["kept"]
    return {"explored": explored, "kept": kept, "valid": metrics["valid"]["success"]}


def tested(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a line keeps of an evaluation."""
    return {name: row[name] for name in ("success", "reward", "steps", "invalid")}


def references(run: Run) -> dict[str, Any]:
    """Evaluate random actions, the untrained base and both experts on the run's test tasks; for the first seed only."""
    if run.seed:
        return {}
    agents: dict[str, Callable[[], Agent]] = {
        "random": RandomAgent,
        "base": lambda: run.agent(Policy.load(run.folder.config()["model"])),
        "fair expert": lambda: ExpertAgent(fair=True),
        "exact expert": ExpertAgent,
    }
    return {name: tested(run.measured(name, partial(evaluated, run, make))) for name, make in agents.items()}


def evaluated(run: Run, make: Callable[[], Agent]) -> Evaluation:
    """Make an agent and evaluate it."""
    return run.evaluated(make())


def read(results: Path = RESULTS) -> list[dict[str, Any]]:
    """Read the lines, the last of each world, difficulty and seed, in the order of `WORLDS`.

    They are of today's base and defaults. Those of a world without such lines are of others, and have `former`.
    """
    texts = results.read_text("utf-8").splitlines() if results.is_file() else []
    every = [json.loads(text) for text in texts]
    current = [line for line in every if is_current(line)]
    measured = {line["env"] for line in current}
    former = [{**line, "former": True} for line in every if line["env"] not in measured]
    if others := len(every) - len(current) - len(former):
        print(f"{others} lines left out: of an earlier base, world or order of demonstrations", file=sys.stderr)
    last = {(line["env"], line["difficulty"], line["seed"]): line for line in (*former, *current)}
    return sorted(last.values(), key=lambda line: (WORLDS.index(line["env"]), line["seed"]))


def is_current(line: Mapping[str, Any]) -> bool:
    """Return whether a line is of the world's version, its default base and how it learns from demonstrations."""
    world: Any = env_class(line["env"])
    defaults = world.evolve_defaults
    today = (
        shipped_base(defaults.get("model", "tiny")), world.version, defaults.get("expert_order", "uniform"),
        defaults.get("expert_epochs"),
    )  # fmt: skip
    return (line["base"], line["version"], line["expert_order"], line.get("expert_epochs")) == today


def world_of(line: Mapping[str, Any]) -> str:
    """Return the name of a line's world, marked if it is not of today's base and defaults."""
    return f"{line['env']} †" if line.get("former") else str(line["env"])


def gain_text(gain: Estimate) -> str:
    """Format a gain in points, with its interval."""
    return f"{100 * gain.value:+.1f} [{100 * gain.low:+.0f}, {100 * gain.high:+.0f}]"


def rate_of(row: Mapping[str, Any]) -> str:
    """Format an evaluation's success."""
    return format_rate(read_estimate(row["success"]))


def optional(row: Mapping[str, Any], name: str, factor: float = 1, unit: str = "") -> str:
    """Format a mean of an evaluation; empty if it was not measured."""
    return "" if row.get(name) is None else f"{factor * row[name]:.1f}{unit}"


def run_row(line: Mapping[str, Any]) -> Sequence[str]:
    """Return the cells of a run."""
    last, seconds = line["last"], line.get("seconds")
    return (
        world_of(line), line["difficulty"], str(line["seed"]), rate_of(line["first"]), rate_of(last),
        gain_text(read_estimate(line["gain"])), rate_of(line["more_epochs"]), optional(last, "steps"),
        optional(last, "invalid", 100, " %"), f"{seconds:.0f}" if seconds else "",
    )  # fmt: skip


def other_rows(line: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield the cells of a run's agents in each other difficulty."""
    for difficulty, agents in line["others"].items():
        yield world_of(line), difficulty, str(line["seed"]), rate_of(agents["first"]), rate_of(agents["last"])


def round_rows(line: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield the cells of each round of a run."""
    for number, row in enumerate(line["rounds"]):
        explored, valid = (read_estimate(row[name]) for name in ("explored", "valid"))
        success = f"{100 * explored.value:.1f} % of {explored.n:,}"
        yield world_of(line), str(line["seed"]), str(number), success, str(row["kept"]), format_interval(valid)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table without its empty columns."""
    filled = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    columns, rows = [columns[i] for i in filled], [[row[i] for i in filled] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows))


def tables(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Format the tables of runs, of their agents in other difficulties, of rounds, and of the agents beside them."""
    beside = [(world_of(line), who, rate_of(row)) for line in lines for who, row in line["references"].items()]
    return [
        table(COLUMNS, [run_row(line) for line in lines]),
        table(OTHERS, [row for line in lines for row in other_rows(line)]),
        table(ROUNDS, [row for line in lines for row in round_rows(line)]),
        table(("world", "agent", "success"), beside),
    ]


def main(words: Sequence[str] | None = None) -> None:
    """Run what is missing, append its lines, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, help="CPU threads; 1 where several of these commands run side by side")
    parser.add_argument("--other_difficulties", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/learning"))
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file with a line per run")
    parser.add_argument("--tables", action="store_true", help="run nothing, print the tables")
    args = parser.parse_args(words)
    for seed in () if args.tables else args.seeds:
        for world in args.env:
            line = line_of(evolved(world, seed, args.out, args.threads), args.other_difficulties)
            if line not in read(args.results):
                with args.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
    lines = [line for line in read(args.results) if line["env"] in args.env and line["seed"] in args.seeds]
    print(*tables(lines), sep="\n\n")


if __name__ == "__main__":
    main()
