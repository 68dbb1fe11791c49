"""`agentgym data`: verify trajectory files, save what is whole of a damaged one, convert them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_py.cli.parser import UsageError, suggestion
from agentgym_py.cli.runtime import new_file, print_json, read_trajectories
from agentgym_py.errors import DataError
from agentgym_py.trajectory import Trajectory, preferences, store
from agentgym_py.trajectory.dataset import AgentTrajDataset, detect, verify_any
from agentgym_py.trajectory.formats import agenttraj, openai, parquet, rows, trl

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values

KINDS = {
    "verify": "Check that a trajectory file is whole; of a store every line and its digest.",
    "salvage": "Copy the whole lines of a damaged store to a new file.",
    "convert": "Copy trajectories into another format.",
}
FILES: dict[str, Callable[[Path, Iterable[Trajectory]], int]] = {
    "store": store.write, "agenttraj": agenttraj.write, "parquet": parquet.write_parquet,
}  # fmt: skip
ROWS: dict[str, Callable[[Iterator[Trajectory]], rows.Rows]] = {
    "trl": lambda played: (trl.messages(each) for each in played if each.steps),
    "trl_prompt_completion": lambda played: (row for each in played for row in trl.prompt_completion(each)),
    "trl_preferences": lambda played: AgentTrajDataset(played).to_preferences(),
    "trl_stepwise": lambda played: (trl.stepwise(each) for each in played if each.steps and each.is_evidence),
    "openai": lambda played: (openai.openai_chat(each) for each in played if each.steps),
}
"""Formats for other programs, which are written as rows of JSON and not read again."""
FORMATS = (*FILES, *ROWS)
ENDINGS = {".jsonl": "store", ".json": "agenttraj", ".parquet": "parquet"}
_DAMAGED = 1
_SHOWN = 10


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `data` takes."""
    del argv
    verify = parser.add_command("verify", KINDS["verify"])
    verify.usage = "agentgym data verify FILE [options]"
    verify.add_positional("file", "Our store, AgentTraj or parquet, told apart by content.")
    verify.add("json", bool, False, "Print JSON, for a program.")
    salvage = parser.add_command("salvage", KINDS["salvage"])
    salvage.usage = "agentgym data salvage SOURCE TARGET [options]"
    salvage.add_positional("source", "Our store, in which each line stands for itself.")
    salvage.add_positional("target", "New file, a store too.")
    convert = parser.add_command("convert", KINDS["convert"])
    convert.usage = "agentgym data convert SOURCE TARGET [options]"
    convert.add_positional("source", "Our store, AgentTraj or parquet, told apart by content.")
    convert.add_positional("target", "New file; .jsonl is our store, .json AgentTraj, .parquet parquet.")
    about = f"By default as the target ends; one of {', '.join(FORMATS)}."
    convert.add("to", str, None, about, metavar="FORMAT")


def run(args: Values) -> int:
    """Verify, salvage or convert."""
    if args["what"] == "verify":
        return _verify(args["file"], args["json"])
    if args["what"] == "salvage":
        _salvage(args["source"], args["target"])
        return 0
    _convert(args["source"], args["target"], args["to"])
    return 0


def _verify(path: str, as_json: bool) -> int:
    report = verify_any(path)
    empty = not (report.episodes or report.bad or report.torn)
    if as_json:
        print_json(asdict(report) | {"path": path, "ok": report.ok and not empty})
    elif empty:
        print(f"{path}: empty, it holds no episode")
    else:
        unsigned = f" ({report.unsigned} without a digest)" if report.unsigned else ""
        torn = "" if report.torn is None else ", 1 torn"
        print(f"{path}: {report.episodes} whole episodes{unsigned}, {len(report.bad)} damaged{torn}")
        for number in list(report.bad)[:_SHOWN]:
            print(f"  line {number}: {report.bad[number]}")
        if len(report.bad) > _SHOWN:
            print(f"  and {len(report.bad) - _SHOWN} more")
        if report.torn is not None:
            print(f"  line {report.torn}: torn, the writing was interrupted; readers drop it")
        if report.episodes and report.bad and detect(path) == "store":
            print(f"the whole ones to a new file: agentgym data salvage {path} NEW.jsonl")
    return _DAMAGED if empty or not report.ok else 0


def _salvage(source: str, target: str) -> None:
    if (form := detect(source)) != "store":
        raise UsageError(f"{source}: only a store's lines stand for themselves, this is {form}")
    report = store.salvage(source, new_file(target, "the target"))
    lost = len(report.bad) + (report.torn is not None)
    print(f"{target}: {report.episodes} whole episodes of {source}; damaged and left out: {lost} of its lines")


def _convert(source: str, target: str, to: str | None) -> None:
    form = to or ENDINGS.get(Path(target).suffix, "")
    if form not in FORMATS:
        raise UsageError(_which_format(target, to))
    file, played = new_file(target, "the target"), read_trajectories(source)
    if form in ROWS:
        data = list(played) if form == "trl_preferences" else played
        lines = iter(ROWS[form](iter(data)))
        first = next(lines, None)
        if first is None:
            raise DataError(f"{source} gives no row of {form}, {target} is not written: {_why_none(form, data)}")
        print(f"{target}: {rows.write_rows(file, chain([first], lines))} rows, {form}")
        return
    note = "; it does not hold what a replay needs, keep the source for that" if form == "agenttraj" else ""
    print(f"{target}: {FILES[form](file, played)} trajectories, {form}{note}")


def _why_none(form: str, played: Iterable[Trajectory]) -> str:
    if form != "trl_preferences":
        return "no trajectory has a turn" + " and ended by itself" * (form == "trl_stepwise")
    found = preferences.build_pairs(list(played))
    reasons = [f"{number} {reason}" for reason, number in found.dropped.items()]
    return (
        "a pair is two trajectories of one task that open alike and differ in reward; of the trajectories here "
        f"{', '.join(reasons)} (collect --attempts 4 plays each task four times, an expert always alike)"
    )


def _which_format(target: str, to: str | None) -> str:
    known = ", ".join(FORMATS)
    if to:
        return f"--to: no format {to!r}; there are {known}{suggestion(ENDINGS.get(f'.{to}', to), FORMATS)}"
    return f"{target}: which format? End its name in {', '.join(ENDINGS)}, or say --to one of {known}"
