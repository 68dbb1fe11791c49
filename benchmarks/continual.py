"""Forgetting with replay and EWC: `python benchmarks/continual.py [ARM ...] [--seeds 0 1 2] [--out runs/continual]`.

`agentgym evolve --sequence true` learns three worlds one after another (`--worlds shop todo household`), with
`nothing`, `replay`, `ewc` or `both`. All arms of a seed learn the first world alike. After each world the agent plays
the same test tasks of all worlds, greedy.

The first table has the mean success in all worlds after the last one, the mean forgetting over the worlds before (their
best success after an earlier stage less that at the end), and the gain in success over `nothing` on the same tasks with
its interval over seeds and tasks. The second has the success in each world after each stage, the mean over seeds.

Finished runs stay in `--out` and are not run again, so the tables can be made in several sessions. Further options are
those of `agentgym evolve`, for every run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from studies import Row, by_seed, evolve, gain_over, parse, parser_of, report, tested

from agentgym_py.evolution.run_folder import RunFolder

ARMS = ("nothing", "replay", "ewc", "both")


def words_of(arm: str, worlds: Sequence[str], replay: float, ewc: float) -> list[str]:
    """Return the options of an arm."""
    words = ["--sequence", "true", *(word for world in worlds for word in ("--env", world))]
    words += ["--replay_ratio", str(replay)] if arm in ("replay", "both") else []
    return words + (["--trainer.ewc_lambda", str(ewc)] if arm in ("ewc", "both") else [])


def row(arm: str, seed: int, run: RunFolder) -> dict[str, Any]:
    """Return the figures of a finished run: its matrix and forgetting, and the last agent's outcomes by task."""
    result = run.read_json("test.json")
    last = max(map(int, result["rounds"]))
    return {"arm": arm, "seed": seed, "after": tested(run, last), **result["sequence"]}


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of both tables."""
    groups = by_seed(rows)
    yield "| arm | seeds | success in all worlds | forgetting | gain over nothing |"
    yield "|---|--:|--:|--:|---|"
    for arm, of_arm in groups.items():
        average = 100 * fmean(figures["average"] for figures in of_arm.values())
        lost = 100 * fmean(figures["forgetting"]["mean"] for figures in of_arm.values())
        gain = gain_over("nothing", arm, groups)
        yield f"| {arm} | {len(of_arm)} | {average:.1f} % | {lost:.1f} points | {gain} |"
    worlds = rows[0]["worlds"]
    yield ""
    yield f"| arm | after | {' | '.join(worlds)} |"
    yield f"|---|---|{'--:|' * len(worlds)}"
    for arm, of_arm in groups.items():
        matrices = [figures["success"] for figures in of_arm.values()]
        for stage, world in enumerate(worlds):
            cells = [f"{100 * fmean(m[stage][j] for m in matrices):.1f} %" for j in range(len(worlds))]
            yield f"| {arm} | {world} | {' | '.join(cells)} |"


def run_arms(args: argparse.Namespace, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Finish the runs of all seeds; yield their rows."""
    for seed in args.seeds:
        for arm in args.names:
            words = [*words_of(arm, args.worlds, args.replay, args.ewc), "--seed", str(seed), "--threads", "1", *more]
            yield row(arm, seed, evolve(args.out / f"s{seed}" / arm, words))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the arms and print the tables."""
    parser = parser_of(__doc__, ARMS, "runs/continual", "arm")
    parser.add_argument("--worlds", nargs="+", default=["shop", "todo", "household"])
    parser.add_argument("--replay", type=float, default=0.3, help="share of a training that is replayed")
    parser.add_argument("--ewc", type=float, default=100.0, help="lambda")
    args, more = parse(parser, argv)
    report(args, run_arms(args, more), tables)


if __name__ == "__main__":
    main()
