"""`agentgym compare`: which of several evaluated agents is better."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentgym_py.cli.parser import UsageError
from agentgym_py.cli.runtime import print_json

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values
    from agentgym_py.evaluation.compare import AlgorithmComparison, Comparison


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `compare` takes."""
    del argv
    parser.usage = "agentgym compare FOLDER FOLDER ... [options]"
    parser.add_positional(
        "folders", metavar="FOLDER", item=str,
        help="Folders that `agentgym eval --out` wrote. Several with commas, as ppo/1,ppo/2, are the runs of one "
        "training algorithm, a folder a training seed; then algorithms are compared.",
    )  # fmt: skip
    parser.add("latex", bool, False, "Print LaTeX; without it Markdown.")
    parser.add("json", bool, False, "Print JSON, for a program.")


def run(args: Values) -> int:
    """Compare and print."""
    from agentgym_py.evaluation.compare import Algorithm, Entrant, compare, compare_algorithms, latex, markdown

    if args["latex"] and args["json"]:
        raise UsageError("--latex or --json, not both")
    groups = [[path for path in each.split(",") if path] for each in args["folders"]]
    found: Comparison | AlgorithmComparison
    if any(len(group) > 1 for group in groups):
        names = [os.path.commonprefix(group).rstrip("/-_") for group in groups]  # noqa: RUF071  # ppo-1, ppo-2: ppo
        if "" in names or len(set(names)) < len(names):
            names = args["folders"]
        runs = [[Entrant.load(path) for path in group] for group in groups]
        found = compare_algorithms([Algorithm(*each) for each in zip(names, runs, strict=True)])
    else:
        found = compare([Entrant.load(path) for group in groups for path in group])
    if args["json"]:
        print_json(found.as_dict())
    else:
        print(latex(found) if args["latex"] else markdown(found))
    return 0
