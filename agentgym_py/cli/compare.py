"""`agentgym compare`: compare evaluations."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_py.cli.eval_output import lost_reason
from agentgym_py.cli.parser import JSON_HELP, Parser, UsageError, Values
from agentgym_py.cli.runtime import new_file_if_named, print_json
from agentgym_py.errors import setting

if TYPE_CHECKING:
    from agentgym_py.evaluation.compare import AlgorithmComparison, Comparison, Entrant


def options(parser: Parser) -> None:
    """Add the options of `compare`."""
    parser.add_positional(
        "folders", metavar="FOLDER", item=str,
        help="Folders of `agentgym eval --out`, runs of `agentgym evolve` (RUN is the test of the last agent, RUN@2 "
        "that of round 2), logs of Inspect (.eval), samples of lm-eval or results of verifiers (a .jsonl file or its "
        "folder), or JSON lines with `task` and `success`. To compare "
        "training algorithms, join the folders of one algorithm, one per training seed, with commas: ppo/1,ppo/2 "
        "dpo/1,dpo/2. NAME=FOLDER names a row: PPO=ppo/1,ppo/2.",
    )  # fmt: skip
    parser.add(
        "anytime",
        bool,
        False,
        "Look after every task: the result is valid even if you stop by what you see.",
    )
    parser.add(
        "margin", float, None, "With --anytime: two agents whose difference is smaller, such as 0.1, count as equal."
    )
    parser.add(
        "power", float, None,
        "With --margin: the chance that a difference of the margin is not taken for a smaller one; by default 0.95.",
    )  # fmt: skip
    parser.add("report", str, None, "With --anytime: HTML file for the interval after each task.", metavar="FILE")
    parser.add(
        "score", str, None,
        "Score of other programs' logs, such as exact_match,strict-match. Default: `success`, or the only score that "
        "is right or wrong in every sample.", metavar="NAME",
    )  # fmt: skip
    parser.add(
        "fail_if_worse", bool, False,
        "End with exit status 1 if the first evaluation is significantly worse than another: p (Holm) is below 0.05. "
        "With --anytime: it is decided that the second is better. Also if infrastructure failures ended an episode of "
        "an evaluation.",
    )  # fmt: skip
    parser.add("latex", bool, False, "Print LaTeX (booktabs) instead of Markdown.")
    parser.add("json", bool, False, JSON_HELP)


def run(args: Values) -> int:
    """Compare and print."""
    from agentgym_py.evaluation.compare import Algorithm, compare, compare_algorithms
    from agentgym_py.evolution.entrants import load_entrant

    if args["latex"] and args["json"]:
        raise UsageError("--latex or --json, not both")
    for name in ("margin", "power", "report"):
        if args[name] is not None and not args["anytime"]:
            raise UsageError(f"--{name} needs --anytime")
    if args["power"] is not None and args["margin"] is None:
        raise UsageError("--power needs --margin")
    entries = [_split(word) for word in args["folders"]]
    groups = [paths for _, paths in entries]
    if args["anytime"]:
        return _run_anytime(entries, args)
    if args["fail_if_worse"] and any(len(group) > 1 for group in groups):
        raise UsageError("--fail_if_worse compares evaluations, not training algorithms")
    if any(len(group) > 1 for group in groups):
        short = [os.path.commonprefix(group).rstrip("/-_") for group in groups]  # noqa: RUF071  # ppo-1, ppo-2: ppo
        if "" in short or len(set(short)) < len(short):
            short = args["folders"]
        names = [name or other for (name, _), other in zip(entries, short, strict=True)]
        runs = [[load_entrant(path, args["score"]) for path in group] for group in groups]
        _print(compare_algorithms([Algorithm(name, run) for name, run in zip(names, runs, strict=True)]), args)
        return 0
    comparison = compare(_load(entries, args))
    _print(comparison, args)
    return _gate(comparison.entrants, comparison.better_than_first) if args["fail_if_worse"] else 0


def _print(comparison: Comparison | AlgorithmComparison, args: Values) -> None:
    if args["json"]:
        print_json(comparison.as_dict())
    else:
        print(comparison.latex() if args["latex"] else comparison)


def _gate(entrants: Sequence[Entrant], better: Sequence[str]) -> int:
    """Return 1, and say why, if agents are better than the first one, or an evaluation has lost episodes."""
    reasons = [lost_reason(entrant.name, entrant.lost) for entrant in entrants if entrant.lost]
    if better:
        reasons.append(f"the first is significantly worse than {', '.join(better)}")
    for reason in reasons:
        print(reason, file=sys.stderr)
    return int(bool(reasons))


def _split(word: str) -> tuple[str, list[str]]:
    """Split `NAME=FOLDER,FOLDER` into the name, which may be empty, and the folders."""
    name, equals, rest = word.partition("=")
    if not (name and equals) or {"/", "\\"} & set(name) or _is_there(word.partition(",")[0]):
        name, rest = "", word
    paths = [path for path in rest.split(",") if path]
    if not paths:
        raise UsageError(f"{word!r} names no folder")
    return name, paths


def _is_there(path: str) -> bool:
    """Whether a folder exists, whose own name may have the sign; `@2` names a round of it."""
    try:
        return Path(re.sub(r"@\d+$", "", path)).exists()
    except OSError:  # no name of a file is so long
        return False


def _load(entries: Sequence[tuple[str, Sequence[str]]], args: Values) -> list[Entrant]:
    """Load evaluations and runs, under their names; raises UsageError if two names have one folder."""
    from agentgym_py.evolution.entrants import load_entrant

    loaded: list[Entrant] = []
    folders: set[Path] = set()
    for name, path in ((name, path) for name, paths in entries for path in paths):
        entrant = load_entrant(path, args["score"])
        if Path(path).absolute() in folders:
            raise UsageError(f"{path} is given twice")
        folders.add(Path(path).absolute())
        loaded.append(replace(entrant, name=name) if name else entrant)
    return loaded


def _run_anytime(entries: Sequence[tuple[str, Sequence[str]]], args: Values) -> int:
    from agentgym_py.evaluation.anytime import compare_in_order
    from agentgym_py.report.sheet import write_comparison

    if args["latex"] or len(entries) != 2 or any(len(paths) != 1 for _, paths in entries):
        raise UsageError("--anytime compares two evaluations, without --latex")
    first, second = _load(entries, args)
    with new_file_if_named(args["report"], setting("report")) as target:
        comparison = compare_in_order(first, second, margin=args["margin"], power=args["power"])
        if target:
            write_comparison(target, comparison)
    if args["json"]:
        print_json(comparison.as_dict())
    else:
        print(comparison)
    if args["report"]:
        print(f"written: {args['report']}", file=sys.stderr)
    is_worse = comparison.result.verdict == "second"
    return _gate([first, second], [comparison.second] if is_worse else []) if args["fail_if_worse"] else 0
