"""Coresets beside all the data: `python benchmarks/coreset.py [ARM ...] [--seeds 0 1 2] [--out runs/coreset]`.

The arms are `all`, which trains on every selected episode, and the built-in coresets: `random`, `loss_topk`,
`diversity` and `hybrid`, each with `--ratio` of the tokens. For each seed `agentgym evolve --env shop --rounds 1` makes
the agent of round 1 of the main job. From it every arm explores the same number of tasks in two more rounds, and the
agents play the same test tasks. (The second round explores with the arm's own agent, so its episodes differ.)

The table has the tokens that an arm trained on in a round as a share of those that it selected, its test success, and
the difference to `all` on the same tasks, with its interval over seeds and tasks.

Finished runs stay in `--out` and are not run again, so the table can be made in several sessions. Further options are
those of `agentgym evolve`, for every run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from studies import Row, by_seed, evolve, gain_over, parse, parser_of, report, starting_from, tested

from agentgym_py.evolution.run_folder import RunFolder

ARMS = ("all", "random", "loss_topk", "diversity", "hybrid")


def words_of(arm: str, model: str, ratio: float, options: Sequence[str] = ()) -> list[str]:
    """Return the options of an arm that starts from a model, in whose place none of `options` can come."""
    coreset = [] if arm == "all" else ["--coreset", arm, "--coreset.ratio", str(ratio)]
    return ["--env", "shop", "--rounds", "2", *coreset, *options, *starting_from(model)]


def run_arms(arms: Sequence[str], seed: int, args: argparse.Namespace, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Run the arms from the seed's agent of round 1; yield their rows."""
    folder, common = args.out / f"s{seed}", ["--threads", "1", *more]
    first = evolve(folder / "first", ["--env", "shop", "--seed", str(seed), *common, "--rounds", "1"])
    model = str(first.round(1) / "checkpoint")
    for arm in arms:
        words = words_of(arm, model, args.ratio, ["--seed", str(seed + 1000), *common])
        yield row(arm, seed, evolve(folder / arm, words))


def row(arm: str, seed: int, run: RunFolder) -> dict[str, Any]:
    """Return the figures of a run: trained and selected tokens by round, and the last agent's outcomes."""
    trainings = [run.metrics(number)["training"] for number in run.finished_rounds()[1:]]
    tokens = [
        (t["metrics"].get("coreset/tokens", 1.0), t["metrics"].get("coreset/of_tokens", 1.0)) for t in trainings if t
    ]
    last = run.finished_rounds()[-1]
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
