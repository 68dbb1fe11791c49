"""Where do our own agents lose? `python benchmarks/fault_profile.py [--worlds shop household] [--rounds 3]`.

For each world: `agentgym evolve --env WORLD` with default settings, and the first faults of Agent_v0 and of the last
round's agent in 300 test tasks, played greedily. Faults are located by the exact expert and by the fair one, for which
looking at what nobody could know is no fault. The first table has the kinds of faults and the tools that they call, the
second the steps: at which step most episodes are lost. The command is resumable: a run that has the round already is
not trained further, and episodes are kept beside it.

    python benchmarks/fault_profile.py --worlds shop --rounds 1 --out runs/profile
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from learning import Run
from studies import evolve

from agentgym_py.collection import PlayConfig
from agentgym_py.env import EnvSpec
from agentgym_py.evaluation import evaluate
from agentgym_py.evaluation.first_fault import FaultGroup, FirstFaults, first_faults
from agentgym_py.evaluation.stats import wilson
from agentgym_py.evaluation.text import format_interval, format_rate
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.policy import Policy
from agentgym_py.trajectory import Trajectory, store

TOOLS = 3
"""Tools that a table names, those with the most faults."""
STEPS = 5
"""Steps that a table names, those with the most faults."""


def trained(world: str, seed: int, rounds: int, out: Path) -> Run:
    """Return a run that has the agent of this round, trained if it is missing."""
    path = out / world / f"seed{seed}"
    if rounds not in (RunFolder.open(path).finished_rounds() if (path / "run.yaml").is_file() else ()):
        words = ["--env", world, "--seed", str(seed), "--threads", "1", "--rounds", str(rounds), "--test_tasks", "0"]
        evolve(path, words)
    return Run(RunFolder.open(path), world, seed)


def episodes(run: Run, number: int, tasks: int) -> list[Trajectory]:
    """Return a round's agent's greedy episodes of the first test tasks, played if they are missing."""
    path = run.folder.path.with_name(f"{run.folder.path.name}.round{number}.{tasks}.jsonl")
    if not path.is_file():
        config = run.folder.config()
        agent = run.agent(Policy.load(run.folder.round(number) / "checkpoint"))
        play = PlayConfig(slots=128, prompt=config["prompt"])
        store.write(
            path, evaluate(agent, [EnvSpec(run.world, config["env_kwargs"])], "test", range(tasks), play=play)[1]
        )
    return list(store.read(path))


def rows(world: str, agent: str, played: Sequence[Trajectory], faults: FirstFaults) -> Iterator[str]:
    """Yield the rows of the first table: the kinds of faults, then the tools."""
    success = format_interval(wilson(sum(t.success for t in played), len(played)))
    named = [("kind", name, group) for name, group in faults.by_kind.items()]
    named += [("tool", f"`{name}`", group) for name, group in list(faults.by_tool.items())[:TOOLS]]
    first = f"{world}, {faults.by} | {agent} | {success} | {faults.failures}"
    for place, (what, name, group) in enumerate(named):
        yield f"| {'| | |' if place else first} | {what} {name} | {cells(group)} |"


def cells(group: FaultGroup) -> str:
    """Return the share of a group of faults, and its median step."""
    return f"{format_rate(group.share)} | {group.step:g}"


def steps(where: str, agent: str, faults: FirstFaults) -> str:
    """Return the row of the second table: the steps with the most faults."""
    found = Counter(fault.step for _, fault in faults.located)
    total = len(faults.located)
    shares = [f"{step}: {format_interval(wilson(number, total))}" for step, number in found.most_common(STEPS)]
    return f"| {where} | {agent} | {total} | {'; '.join(shares)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=["shop", "household"], metavar="WORLD")
    parser.add_argument("--rounds", type=int, default=3, help="number of the last round")
    parser.add_argument("--tasks", type=int, default=300, help="test tasks of each agent")
    parser.add_argument("--by", nargs="+", choices=("exact", "fair"), default=["exact", "fair"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/fault-profile"))
    args = parser.parse_args(argv)
    by_step = list[str]()
    print("| world, located by | agent | success on test tasks | failures | first fault | share [95 %] | median step |")
    print("|---|---|--:|--:|---|--:|--:|")
    for world in args.worlds:
        run = trained(world, args.seed, args.rounds, args.out)
        for number in dict.fromkeys((0, args.rounds)):
            played, agent = episodes(run, number, args.tasks), "Agent_v0" if not number else f"round {number}"
            for expert in args.by:
                faults = first_faults(played, by=expert)
                print(*rows(world, agent, played, faults), sep="\n", flush=True)
                by_step.append(steps(f"{world}, {faults.by}", agent, faults))
    print(
        "\n| world, located by | agent | located faults | steps with the most faults, share [95 %] |\n|---|---|--:|---|"
    )
    print(*by_step, sep="\n")


if __name__ == "__main__":
    main()
