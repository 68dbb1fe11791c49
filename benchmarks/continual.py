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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from studies import evolve, save_rows, tested

from agentgym_py.evaluation.stats import improvement
from agentgym_py.evaluation.text import format_mean
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


def tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of both tables."""
    by_arm: dict[str, dict[int, Mapping[str, Any]]] = {}
    for found in rows:
        by_arm.setdefault(found["arm"], {})[found["seed"]] = found
    yield "| arm | seeds | success in all worlds | forgetting | gain over nothing |"
    yield "|---|--:|--:|--:|---|"
    for arm, of_arm in by_arm.items():
        average = 100 * fmean(found["average"] for found in of_arm.values())
        lost = 100 * fmean(found["forgetting"]["mean"] for found in of_arm.values())
        both = [seed for seed in of_arm if arm != "nothing" and seed in by_arm.get("nothing", {})]
        pairs = [(by_arm["nothing"][seed]["after"], of_arm[seed]["after"]) for seed in both]
        gain = format_mean(improvement(pairs)) if pairs else "–"
        yield f"| {arm} | {len(of_arm)} | {average:.1f} % | {lost:.1f} points | {gain} |"
    worlds = rows[0]["worlds"]
    yield ""
    yield f"| arm | after | {' | '.join(worlds)} |"
    yield f"|---|---|{'--:|' * len(worlds)}"
    for arm, of_arm in by_arm.items():
        matrices = [found["success"] for found in of_arm.values()]
        for stage, world in enumerate(worlds):
            cells = [f"{100 * fmean(m[stage][j] for m in matrices):.1f} %" for j in range(len(worlds))]
            yield f"| {arm} | {world} | {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the arms and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arms", nargs="*", metavar="ARM", help=f"of {', '.join(ARMS)}; by default all of them")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--worlds", nargs="+", default=["shop", "todo", "household"])
    parser.add_argument("--replay", type=float, default=0.3, help="share of a training that is replayed")
    parser.add_argument("--ewc", type=float, default=100.0, help="lambda")
    parser.add_argument("--tasks", type=int, default=300, help="test tasks of each world")
    parser.add_argument("--out", type=Path, default=Path("runs/continual"))
    args, more = parser.parse_known_args(argv)
    if unknown := set(args.arms) - set(ARMS):
        parser.error(f"no arm {', '.join(sorted(unknown))}; choose from {', '.join(ARMS)}")
    common = ["--threads", "1", "--test_tasks", str(args.tasks), *more]
    rows = []
    for seed in args.seeds:
        for arm in args.arms or ARMS:
            words = [*words_of(arm, args.worlds, args.replay, args.ewc), "--seed", str(seed), *common]
            rows.append(row(arm, seed, evolve(args.out / f"s{seed}" / arm, words)))
    save_rows(args.out, rows)
    print(*tables(rows), sep="\n")


if __name__ == "__main__":
    main()
