"""Coresets beside all the data: `python benchmarks/coreset.py [ARM ...] [--seeds 0 1 2] [--out runs/coreset]`.

The arm `all` is the main job, `agentgym evolve --env shop`, in which every round trains on all that was selected. The
other arms are its forks after round 1: their later rounds train on a coreset, `random`, `loss_topk`, `diversity` or
`hybrid`, with `--ratio` of the tokens. All arms of a seed share Agent_v0, round 1 and the random numbers of the rounds
after it. (Round 3 explores with the arm's own agent, so its episodes differ.)

The table has the tokens that an arm trained on in rounds 2 and 3 as a share of those that were selected, its test
success, and the difference to `all` on the same tasks, with its interval over seeds and tasks.

Finished runs stay in `--out` and are not run again, so the table can be made in several sessions. Further options are
those of `agentgym evolve`, for every run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from studies import Row, by_seed, evolve, fork, gain_over, parse, parser_of, report, tested

from agentgym_py.evolution.run_folder import RunFolder

ARMS = ("all", "random", "loss_topk", "diversity", "hybrid")
SHARED = 1
"""The last round that all arms share."""


def changes_of(arm: str, ratio: float) -> list[str]:
    """Return what the fork of an arm changes in the main job."""
    return [f"coreset.name={arm}", f"coreset.ratio={ratio}"]


def run_arms(arms: Sequence[str], seed: int, args: argparse.Namespace, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Finish the main job of a seed and its forks; yield their rows."""
    folder = args.out / f"s{seed}"
    run = evolve(folder / "all", ["--env", "shop", "--seed", str(seed), "--threads", "1", *more])
    for arm in arms:
        yield row(arm, seed, run if arm == "all" else fork(run, SHARED, folder / arm, changes_of(arm, args.ratio)))


def row(arm: str, seed: int, run: RunFolder) -> dict[str, Any]:
    """Return the figures of a run: trained and selected tokens of the later rounds, and the last agent's outcomes."""
    last = run.finished_rounds()[-1]
    trainings = [run.metrics(number)["training"] for number in range(SHARED + 1, last + 1)]
    tokens = [
        (t["metrics"].get("coreset/tokens", 1.0), t["metrics"].get("coreset/of_tokens", 1.0)) for t in trainings if t
    ]
    return {"arm": arm, "seed": seed, "tokens": tokens, "after": tested(run, last)}


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table."""
    groups = by_seed(rows)
    yield "| coreset | seeds | share of the tokens | test success | beside all |"
    yield "|---|--:|--:|--:|---|"
    for arm, of_arm in groups.items():
        shares = [part / whole for figures in of_arm.values() for part, whole in figures["tokens"]]
        share = f"{100 * fmean(shares):.0f} %" if shares else "–"
        success = 100 * fmean(fmean(figures["after"]) for figures in of_arm.values())
        yield f"| {arm} | {len(of_arm)} | {share} | {success:.1f} % | {gain_over('all', arm, groups)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the arms and print the table."""
    parser = parser_of(__doc__, ARMS, "runs/coreset", "arm")
    parser.add_argument("--ratio", type=float, default=1 / 3, help="share of the tokens")
    args, more = parse(parser, argv)
    report(args, (figures for seed in args.seeds for figures in run_arms(args.names, seed, args, more)), table)


if __name__ == "__main__":
    main()
