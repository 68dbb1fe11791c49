"""The tiny policy in each world: `python benchmarks/agents.py [--expert_tasks 2000] [--out runs/agents] [NAME ...]`.

For each world: `agentgym evolve --env NAME --rounds 0`, which is filtered BC on the fair expert's trajectories of many
training tasks, from the shipped base (whose training text covers all five worlds), at default settings and difficulty;
then 300 test tasks, greedy, compared with the fair expert and the random agent. The command is resumable: it reuses
existing results.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from agentgym_py.agents import Agent, ExpertAgent, ModelAgent, RandomAgent
from agentgym_py.cli import main as agentgym
from agentgym_py.collection import PlayConfig
from agentgym_py.collection.processes import Workers
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.evaluation import evaluate
from agentgym_py.evaluation.stats import Estimate
from agentgym_py.evaluation.text import format_rate
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.policy import Policy

WORLDS = ["shop", "household", "tools", "todo", "calculator"]
TASKS = range(300)
UNMET = range(1_000_000, 1_000_300)
"""Training tasks outside the range that `evolve` draws from."""
LONGEST = 128
"""Maximum tokens of a reply."""


def unmet(name: str, checkpoint: Path, threads: int) -> Estimate:
    """Evaluate success on training tasks that were not used for training."""
    policy = Policy.load(checkpoint)
    agent = ModelAgent(policy, HFEngine(policy), SamplingParams(temperature=0.0, max_new_tokens=LONGEST))
    with Workers(threads) as workers:
        return evaluate(agent, [EnvSpec(name)], "train", UNMET, play=PlayConfig(executor=workers))[0].success


def run(name: str, out: Path, expert_tasks: int, threads: int) -> str:
    """Run and format a row of the table."""
    path = out / name
    if not (path / "test.json").is_file():
        sizes = ["--expert_tasks", str(expert_tasks), "--max_new_tokens", str(LONGEST), "--threads", str(threads)]
        begin = ["--env", name, "--rounds", "0", "--out", str(path), *sizes]
        if agentgym(["evolve", *(["--resume", str(path)] if (path / "run.yaml").is_file() else begin)]):
            raise SystemExit(f"evolve --env {name} failed")
    folder = RunFolder.open(path)
    metrics, test = folder.metrics(0), folder.read_json("test.json")["rounds"]["0"]
    if not (path / "unmet.json").is_file():
        folder.write_json("unmet.json", {"success": asdict(unmet(name, path / "rounds/00/checkpoint", threads))})

    def beside(agent: Agent) -> str:
        return format_rate(evaluate(agent, [EnvSpec(name)], "test", TASKS, play=PlayConfig(slots=64))[0].success)

    training, fresh = metrics["training"], Estimate(**folder.read_json("unmet.json")["success"])
    cells = [
        name, str(metrics["selection"]["kept"]), f"{training['tokens']:,}", f"{metrics['seconds']:.0f}",
        format_rate(fresh), f"**{format_rate(Estimate(**test['success']))}**", f"{test['reward']['value']:.3f}",
        f"{test['steps']:.1f}",
        f"{100 * test['invalid']:.1f} %", beside(ExpertAgent(fair=True)), beside(RandomAgent()),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=WORLDS, metavar="NAME")
    parser.add_argument("--expert_tasks", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("runs/agents"))
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    rows = [run(name, args.out, args.expert_tasks, args.threads) for name in args.names]
    print("\n| world | episodes | tokens | seconds | unmet train", end=" ")
    print("| test | return | steps | invalid | fair expert | random |")
    print("|" + "---|" * 11, *rows, sep="\n")


if __name__ == "__main__":
    main()
