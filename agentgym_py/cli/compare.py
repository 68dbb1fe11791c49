"""`agentgym compare`: compare evaluations."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from agentgym_py.cli.parser import JSON_HELP, Parser, UsageError, Values
from agentgym_py.cli.runtime import print_json

if TYPE_CHECKING:
    from agentgym_py.evaluation.compare import AlgorithmComparison, Comparison


def options(parser: Parser) -> None:
    """Add the options of `compare`."""
    parser.add_positional(
        "folders", metavar="FOLDER", item=str,
        help="Folders of `agentgym eval --out`, logs of Inspect (.eval), or samples of lm-eval (a .jsonl file or its "
        "folder). To compare training algorithms, join the folders of one algorithm, one per training seed, with "
        "commas: ppo/1,ppo/2 dpo/1,dpo/2.",
    )  # fmt: skip
    parser.add("score", str, None, "Score of other programs' logs, such as exact_match,strict-match.", metavar="NAME")
    parser.add("latex", bool, False, "Print LaTeX (booktabs) instead of Markdown.")
    parser.add("json", bool, False, JSON_HELP)


def run(args: Values) -> int:
    """Compare and print."""
    from agentgym_py.evaluation.compare import Algorithm, Entrant, compare, compare_algorithms, latex, markdown

    if args["latex"] and args["json"]:
        raise UsageError("--latex or --json, not both")
    groups = [[path for path in paths.split(",") if path] for paths in args["folders"]]
    comparison: Comparison | AlgorithmComparison
    if any(len(group) > 1 for group in groups):
        names = [os.path.commonprefix(group).rstrip("/-_") for group in groups]  # noqa: RUF071  # ppo-1, ppo-2: ppo
        if "" in names or len(set(names)) < len(names):
            names = args["folders"]
        runs = [[Entrant.load(path, args["score"]) for path in group] for group in groups]
        comparison = compare_algorithms([Algorithm(name, run) for name, run in zip(names, runs, strict=True)])
    else:
        comparison = compare([Entrant.load(path, args["score"]) for group in groups for path in group])
    if args["json"]:
        print_json(comparison.as_dict())
    else:
        print(latex(comparison) if args["latex"] else markdown(comparison))
    return 0
