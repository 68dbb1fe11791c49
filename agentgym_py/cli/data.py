"""`agentgym data`: verify, salvage and convert trajectory files."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path

from agentgym_py.cli.parser import JSON_HELP, Parser, UsageError, Values, suggestion
from agentgym_py.cli.runtime import new_file, print_json, read_trajectories
from agentgym_py.collection.replay import with_tools
from agentgym_py.errors import DataError, setting
from agentgym_py.trajectory import Trajectory, preferences, store
from agentgym_py.trajectory.dataset import AgentTrajDataset
from agentgym_py.trajectory.formats import agenttraj, atif, openai, parquet, rows, trl
from agentgym_py.trajectory.formats.foreign import outcome_keys, unique_ids
from agentgym_py.trajectory.reading import FORMATS as READ
from agentgym_py.trajectory.reading import detect, verify_any

FILES: dict[str, Callable[[Path, Iterable[Trajectory]], int]] = {
    "store": store.write, "agenttraj": agenttraj.write, "atif": atif.write, "parquet": parquet.write_parquet,
}  # fmt: skip
ROWS: dict[str, Callable[[Iterator[Trajectory]], rows.Rows]] = {
    "trl": lambda trajectories: (trl.messages(t, with_outcome=True) for t in trajectories if t.steps),
    "trl_prompt_completion": lambda trajectories: (
        row for t in trajectories for row in trl.prompt_completion(t, with_outcome=True)
    ),
    "trl_preferences": lambda trajectories: AgentTrajDataset(trajectories).to_preferences(),
    "trl_stepwise": lambda trajectories: (trl.stepwise(t) for t in trajectories if t.steps),
    "openai": lambda trajectories: _openai_rows(trajectories),
}
"""Formats for other programs: rows of JSON."""
_HOLD_FAILURES = ("store", "atif", "parquet")
"""Formats that say whether an infrastructure failure ended an episode."""
FORMATS = (*FILES, *ROWS)
ENDINGS = {".jsonl": "store", ".json": "agenttraj", ".parquet": "parquet"}
_SOURCE = "File of trajectories in any format of docs/reference/formats.md."
_FORMAT = f"Format of the file, by default recognized by content; one of {', '.join(READ)}."
_DAMAGED = 1
_SHOWN = 10


def options(parser: Parser) -> None:
    """Add the options of `data`."""
    verify = parser.add_command("verify", "Verify a trajectory file; in a store every line and its digest.")
    verify.add_positional("file", _SOURCE)
    verify.add("format", str, None, _FORMAT, metavar="NAME")
    verify.add("json", bool, False, JSON_HELP)
    salvage = parser.add_command("salvage", "Copy the intact lines of a damaged store to a new file.")
    salvage.add_positional("source", "A store (.jsonl), each line of which is one trajectory.")
    salvage.add_positional("target", "New store.")
    convert = parser.add_command("convert", "Copy trajectories into another format, or join several files to one.")
    convert.add_positional("source", f"{_SOURCE} Several are joined in this order.", item=str)
    convert.add_positional(
        "target",
        "New file: a store (.jsonl), AgentTraj (.json) or parquet (.parquet). A name that ends in / is a folder of "
        "Hugging Face's datasets.",
    )
    about = f"Format, by default from the target's suffix; one of {', '.join(FORMATS)}."
    convert.add("to", str, None, about, metavar="FORMAT")
    convert.add("format", str, None, _FORMAT.replace("the file", "the source"), metavar="NAME")


def run(args: Values) -> int:
    """Verify, salvage or convert."""
    if args["what"] == "verify":
        return _verify(args["file"], args["format"], args["json"])
    if args["what"] == "salvage":
        _salvage(args["source"], args["target"])
        return 0
    _convert(args["source"], args["target"], args["to"], args["format"])
    return 0


def _verify(path: str, format: str | None, as_json: bool) -> int:
    report = verify_any(path, format)
    empty = not (report.episodes or report.bad or report.torn)
    if as_json:
        print_json(asdict(report) | {"path": path, "ok": report.ok and not empty})
    elif empty:
        print(f"{path}: empty, no episodes")
    else:
        unsigned = f" ({report.unsigned} without a digest)" if report.unsigned else ""
        intact = _episodes(report.episodes)
        torn = "" if report.torn is None else ", 1 torn"
        print(f"{path}: {intact}{unsigned}, {len(report.bad)} damaged{torn}")
        for number in list(report.bad)[:_SHOWN]:
            print(f"  line {number}: {report.bad[number]}")
        if len(report.bad) > _SHOWN:
            print(f"  and {len(report.bad) - _SHOWN} more")
        if report.torn is not None:
            print(f"  line {report.torn}: torn by an interrupted write; readers drop it")
        if report.episodes and report.bad and (format or detect(path)) == "store":
            print(f"to copy the intact ones: agentgym data salvage {path} NEW.jsonl")
    return _DAMAGED if empty or not report.ok else 0


def _salvage(source: str, target: str) -> None:
    if (form := detect(source)) != "store":
        raise UsageError(f"{source}: only a store can be salvaged, this is {form}")
    with new_file(target, "the target") as file:
        report = store.salvage(source, file)
    damaged = len(report.bad) + (report.torn is not None)
    lines = "1 damaged line was" if damaged == 1 else f"{damaged} damaged lines were"
    print(f"{target}: {_episodes(report.episodes)} of {source}; {lines} left out")


def _episodes(number: int) -> str:
    return f"{number} intact episode{'s' * (number != 1)}"


def _convert(sources: Sequence[str], target: str, to: str | None, format: str | None) -> None:
    form = to or ("parquet" if _is_folder(target) else ENDINGS.get(Path(target).suffix, ""))
    if form not in FORMATS:
        raise UsageError(_which_format(target, to))
    if _is_table(target) and form in FILES and form != "parquet":
        raise UsageError(f"{target}: --to {form} writes JSON; end the name in .json or .jsonl")
    with new_file(target, "the target") as file:
        _write(file, form, sources, target, format)


def _write(file: Path, form: str, sources: Sequence[str], target: str, format: str | None) -> None:
    """Write the trajectories of files in another format, and say how many."""
    source = ", ".join(sources)
    trajectories = _read(sources, format)
    if len(sources) > 1:
        trajectories = unique_ids(trajectories)
    failed = list[str]()
    if form not in _HOLD_FAILURES:
        trajectories = _evidence(source, trajectories, failed)
    if form == "trl":
        trajectories = _trained_wholly(source, trajectories)
    if _is_table(target):
        trajectories = map(parquet.without_half_pairs, trajectories)
    if form in ROWS:
        data = list(trajectories) if form == "trl_preferences" else trajectories
        make_rows = ROWS[form]
        if form == "openai" and _all_succeeded(sources, format):
            make_rows = partial(_openai_rows, with_outcome=False)
        lines = iter(make_rows(iter(data)))
        first = next(lines, None)
        if first is None:
            raise DataError(f"{source} gives no row of {form}, so {target} is not written: {_why_no_rows(form, data)}")
        write = parquet.write_table if _is_table(target) else rows.write_rows
        number = write(file, chain([first], lines))
        print(f"{target}: {number} row{'s' * (number != 1)}, {form}{_left_out(failed)}")
        if form == "trl_preferences" and (reasons := _unpaired(data)):
            print(f"  trajectories in no row: {reasons}")
        return
    note = "; keep the source, because this format cannot be replayed" if form == "agenttraj" else ""
    write_trajectories = parquet.write_dataset if _is_folder(target) else FILES[form]
    number = write_trajectories(file, trajectories)
    print(f"{target}: {number} trajector{'y' if number == 1 else 'ies'}, {form}{note}{_left_out(failed)}")


def _read(sources: Sequence[str], format: str | None) -> Iterable[Trajectory]:
    return chain.from_iterable(read_trajectories(path, format) for path in sources)


def _all_succeeded(sources: Sequence[str], format: str | None) -> bool:
    """Whether no row needs an outcome; the files are read for it alone, so that no row is held."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the second reading warns
        return not any(outcome_keys(t) for t in _read(sources, format) if t.is_evidence and t.steps)


def _openai_rows(trajectories: Iterable[Trajectory], *, with_outcome: bool = True) -> Iterator[rows.Row]:
    """Yield rows with the tools that the worlds offered; say at the end how many worlds could not be asked."""
    failures = list[str]()
    for trajectory, tools in with_tools((t for t in trajectories if t.steps), failures):
        yield openai.openai_chat(trajectory, tools=tools, with_outcome=with_outcome)
    if failures:
        many = f"{len(failures)} episode{'s' * (len(failures) > 1)}"
        why = f"the world could not be asked ({failures[0]})"
        print(f"{many} without the schemas of the tools, because {why}", file=sys.stderr)


def _evidence(source: str, trajectories: Iterable[Trajectory], failed: list[str]) -> Iterator[Trajectory]:
    """The trajectories that no infrastructure failure ended; the ids of the others are added to `failed`."""
    is_empty = True
    for trajectory in trajectories:
        if trajectory.is_evidence:
            is_empty = False
            yield trajectory
        else:
            failed.append(trajectory.id)
    if is_empty:
        raise DataError(f"{source}: an infrastructure failure ended every trajectory, so there is nothing to convert")


def _trained_wholly(source: str, trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
    """The trajectories; raises DataError for one that rows of `trl` cannot hold, because they train on every reply."""
    for trajectory in trajectories:
        if not all(step.trained for step in trajectory.steps):
            raise DataError(
                f"{source}: trajectory {trajectory.id!r} has a reply that must not be trained on, which rows of trl "
                f"cannot say; use {setting('to', 'trl_prompt_completion')}"
            )
        yield trajectory


def _left_out(failed: list[str]) -> str:
    return f"; {len(failed)} left out, because an infrastructure failure ended them" if failed else ""


def _is_folder(target: str) -> bool:
    return target.endswith(("/", os.sep))


def _is_table(target: str) -> bool:
    return _is_folder(target) or Path(target).suffix == ".parquet"


def _why_no_rows(form: str, trajectories: Iterable[Trajectory]) -> str:
    if form != "trl_preferences":
        return "no trajectory that ended without an error has a turn"
    return (
        "a pair needs two trajectories of one task with the same start and different rewards; here "
        f"{_unpaired(trajectories)} (collect several episodes per task with a sampling agent: --attempts 4)"
    )


def _unpaired(trajectories: Iterable[Trajectory]) -> str:
    """Return why trajectories are in no row of preferences, with their numbers; empty if each is in one."""
    dropped = preferences.build_pairs(list(trajectories), max_pairs=1).dropped  # as `to_preferences`
    return ", ".join(f"{number} {reason}" for reason, number in dropped.items())


def _which_format(target: str, to: str | None) -> str:
    formats = ", ".join(FORMATS)
    if to:
        return f"--to: no format {to!r}; choose from {formats}{suggestion(ENDINGS.get(f'.{to}', to), FORMATS)}"
    return f"{target}: unknown format; end the name in {', '.join(ENDINGS)}, or give --to one of {formats}"
