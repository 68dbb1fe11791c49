r"""Few retrieved tools in the prompt, or many: `python benchmarks/tools_in_prompt.py [NUMBER ...] [--seeds 0 1 2]`.

An agent learns the tools world, difficulty `retrieval`, whose 997 tools it can search. Beside the search its first
observation offers the NUMBER best tools for the request: 0, 5, 20 or 100. An index of `benchmarks/retrieval.py` finds
both, and is trained for each seed if it is missing in `--index`. All 997 tools are about 32,000 tokens; the base of
this world has a context of 4,096, so 100 tools is the most that it can read.

A run is `agentgym evolve --rounds 0`: every arm imitates demonstrations of the same training tasks. The table has the
tokens of the opening prompt, success and steps on the same test tasks, and the difference in success to the first arm
with its interval over seeds and tasks.

A model with a long context can have all tools in its prompt:

    agentgym eval --env tools --env_kwargs.difficulty retrieval --env_kwargs.index runs/retrieval/s0 \
        --env_kwargs.retrieved 997 --agent openai --model NAME --base_url URL

Further options are those of `agentgym evolve`, for every run. See `studies.py` for what is kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from retrieval import indices
from studies import Row, by_seed, evolve, gain_over, parse, parser_of, report

from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.trajectory import store

NUMBERS = ("0", "5", "20", "100")


def words_of(number: str, index: Path) -> list[str]:
    """Return the options of an arm."""
    world = {"difficulty": "retrieval", "index": str(index.absolute()), "retrieved": number}
    arguments = [word for name, value in world.items() for word in (f"--env_kwargs.{name}", value)]
    return ["--env", "tools", *arguments, "--expert_tasks", "300", "--rounds", "0"]


def row(number: str, seed: int, run: RunFolder) -> dict[str, Any]:
    """Return the figures of the last agent on the test tasks."""
    episodes = list(store.read(run.round(run.finished_rounds()[-1]) / "test.jsonl"))
    prompts = [len(t.steps[0].tokens.context) for t in episodes if t.steps and t.steps[0].tokens]
    return {
        "arm": number, "seed": seed, "after": [int(t.success) for t in episodes], "prompt": fmean(prompts),
        "steps": fmean(len(t.steps) for t in episodes),
    }  # fmt: skip


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table."""
    groups = by_seed(rows)
    first = next(iter(groups))
    yield f"| tools in the prompt | seeds | tokens of the prompt | test success | steps | beside {first} tools |"
    yield "|--:|--:|--:|--:|--:|---|"
    for number, of_arm in groups.items():
        prompt, steps = (fmean(figures[name] for figures in of_arm.values()) for name in ("prompt", "steps"))
        success = 100 * fmean(fmean(figures["after"]) for figures in of_arm.values())
        gain = gain_over(first, number, groups)
        yield f"| {number} | {len(of_arm)} | {prompt:,.0f} | {success:.1f} % | {steps:.1f} | {gain} |"


def run_arms(args: argparse.Namespace, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Train the indexes that are missing and finish the runs; yield their rows."""
    indices(args.index, args.seeds, args.train_tasks)
    for seed in args.seeds:
        for number in args.names:
            words = [*words_of(number, args.index / f"s{seed}"), "--seed", str(seed), "--threads", "1", *more]
            yield row(number, seed, evolve(args.out / f"s{seed}" / number, words))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the arms and print the table."""
    parser = parser_of(__doc__, NUMBERS, "runs/tools-in-prompt", "number")
    parser.add_argument("--index", type=Path, default=Path("runs/retrieval"), help="folder of the indexes")
    parser.add_argument("--train_tasks", type=int, default=4000, help="training tasks of an index")
    args, more = parse(parser, argv)
    report(args, run_arms(args, more), table)


if __name__ == "__main__":
    main()
