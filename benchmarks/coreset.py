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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from studies import evolve, save_rows, tested

from agentgym_py.evaluation.stats import improvement
from agentgym_py.evaluation.text import format_mean
from agentgym_py.evolution.run_folder import RunFolder

ARMS = ("all", "random", "loss_topk", "diversity", "hybrid")


def words_of(arm: str, model: str, ratio: float) -> list[str]:
    """Return the options of an arm that starts from a model; it begins without demonstrations."""
    coreset = [] if arm == "all" else ["--coreset", arm, "--coreset.ratio", str(ratio)]
    return ["--env", "shop", "--model", model, "--expert_tasks", "0", "--rounds", "2", "--allow_empty", *coreset]


def run_arms(arms: Sequence[str], seed: int, args: argparse.Namespace, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Run the arms from the seed's agent of round 1; yield their rows."""
    folder, common = args.out / f"s{seed}", ["--threads", "1", "--test_tasks", str(args.tasks), *more]
    first = evolve(folder / "first", ["--env", "shop", "--rounds", "1", "--seed", str(seed), *common])
    model = str(first.round(1) / "checkpoint")
    for arm in arms:
        run = evolve(folder / arm, [*words_of(arm, model, args.ratio), "--seed", str(seed + 1000), *common])
        yield row(arm, seed, run)


def row(arm: str, seed: int, run: RunFolder) -> dict[str, Any]:
    """Return the figures of a run: trained and selected tokens by round, and the last agent's outcomes."""
    trainings = [run.metrics(number)["training"] for number in run.finished_rounds()[1:]]
    tokens = [
        (t["metrics"].get("coreset/tokens", 1.0), t["metrics"].get("coreset/of_tokens", 1.0)) for t in trainings if t
    ]
    last = run.finished_rounds()[-1]
    return {"arm": arm, "seed": seed, "tokens": tokens, "after": tested(run, last)}


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table."""
    by_arm: dict[str, dict[int, Mapping[str, Any]]] = {}
    for found in rows:
        by_arm.setdefault(found["arm"], {})[found["seed"]] = found
    yield "| coreset | seeds | share of the tokens | test success | beside all |"
    yield "|---|--:|--:|--:|---|"
    for arm, of_arm in by_arm.items():
        shares = [part / whole for found in of_arm.values() for part, whole in found["tokens"]]
        share = f"{100 * fmean(shares):.0f} %" if shares else "–"
        success = 100 * fmean(fmean(found["after"]) for found in of_arm.values())
        both = [seed for seed in of_arm if arm != "all" and seed in by_arm.get("all", {})]
        pairs = [(by_arm["all"][seed]["after"], of_arm[seed]["after"]) for seed in both]
        difference = format_mean(improvement(pairs)) if pairs else "–"
        yield f"| {arm} | {len(of_arm)} | {share} | {success:.1f} % | {difference} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the arms and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arms", nargs="*", metavar="ARM", help=f"of {', '.join(ARMS)}; by default all of them")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ratio", type=float, default=1 / 3, help="share of the tokens")
    parser.add_argument("--tasks", type=int, default=300, help="test tasks")
    parser.add_argument("--out", type=Path, default=Path("runs/coreset"))
    args, more = parser.parse_known_args(argv)
    if unknown := set(args.arms) - set(ARMS):
        parser.error(f"no arm {', '.join(sorted(unknown))}; choose from {', '.join(ARMS)}")
    rows = [found for seed in args.seeds for found in run_arms(args.arms or ARMS, seed, args, more)]
    save_rows(args.out, rows)
    print(*table(rows), sep="\n")


if __name__ == "__main__":
    main()
