"""A reward and the truth under an attack: `python benchmarks/reward_hacking.py [--out FILE.svg] OPTIONS`.

OPTIONS are those of `agentgym attack`, such as `--env shop --reward agent --tasks 100 --generations 40`. The figure has
the attacked reward (the proxy) on the left axis, the world's return (the truth) on the right, and a dotted line where
the truth begins to fall. The same numbers are printed as a table.

    python benchmarks/reward_hacking.py --learnt shop [--tries 500] [--seed 0] OPTIONS

attacks a reward model instead, by the agent that it has learnt from. `agentgym evolve --rounds 0` makes the agent, and
its four tries at each of `--tries` tasks are what the reward model learns from. Both stay in `--runs` and are not made
again. The attack has tasks of the test split, which neither has seen.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from studies import Study, reward_model_of


def learnt_reward(world: str, seed: int, tries: int, runs: Path) -> list[str]:
    """Return the options that attack a reward model by the agent that it has learnt from; both are made if missing."""
    study, folder = Study(f"--env {world}", "", {}), runs / world / f"s{seed}"
    agent = study.start(folder, seed, ["--test_tasks", "0"])
    model = reward_model_of(agent, study.first.split(), folder, seed, tries)
    return ["--env", world, "--reward_model", str(model), "--model", str(agent), "--split", "test"]


def attacked(options: Sequence[str]) -> dict[str, Any]:
    """Run `agentgym attack` and return its result."""
    command = [sys.executable, "-m", "agentgym_py", "attack", *options, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, encoding="utf-8")  # noqa: S603  # our own command
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def table(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| generation | episodes | attacked reward | return | success |"
    yield "|--:|--:|--:|--:|--:|"
    for number, row in enumerate(result["generations"]):
        numbers = f"{row['proxy']:.3f} | {row['truth']:.3f} | {100 * row['success']:.1f} %"
        yield f"| {number}{' (peak)' * (number == result['onset'])} | {row['episodes']} | {numbers} |"


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Draw proxy and truth by generation."""
    from matplotlib.figure import Figure

    rows = result["generations"]
    figure = Figure((6, 3.6), layout="constrained")
    left = figure.add_subplot()
    right = left.twinx()
    for axes, name, style, label in ((left, "proxy", "C0-", "attacked reward"), (right, "truth", "C1--", "return")):
        axes.plot([row[name] for row in rows], style, label=label)
        axes.set_ylabel(f"{label} ({'solid' if axes is left else 'dashed'})")
    if result["onset"] is not None:
        left.axvline(result["onset"], color="grey", linestyle=":")
    left.set_xlabel("generation")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Attack, print the table and draw the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--out", type=Path, default=Path("runs/reward_hacking.svg"))
    parser.add_argument("--learnt", metavar="WORLD", help="attack a reward model of this world")
    parser.add_argument("--tries", type=int, default=500, help="tasks that it learns from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=Path, default=Path("runs/reward-hacking"))
    args, options = parser.parse_known_args(argv)
    learnt = learnt_reward(args.learnt, args.seed, args.tries, args.runs) if args.learnt else []
    result = attacked([*learnt, "--seed", str(args.seed), *options])
    print(*table(result), sep="\n")
    draw(result, args.out)
    print(f"\n{args.out}")


if __name__ == "__main__":
    main()
