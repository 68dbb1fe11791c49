"""`agentgym data`: verify trajectory files, convert them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_py.cli.common import new_file, print_json
from agentgym_py.cli.parser import UsageError, add_command, meant

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

KINDS = {"verify": "Check every line of a store and its digest.", "convert": "Copy trajectories into another format."}
FORMATS = {".jsonl": "store", ".parquet": "parquet", ".json": "agenttraj"}
_DAMAGED = 1


def options(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """Add what `data` takes."""
    del argv
    commands = parser.add_subcommands(dest="what", title="commands", metavar="verify|convert")
    verify = add_command(commands, "agentgym data", "verify", KINDS["verify"])
    verify.usage = "agentgym data verify FILE [options]"
    verify.add_argument("file", metavar="FILE", help="A store: JSON lines.")
    verify.add_argument("--json", action="store_true", help="Print JSON, for a program.")
    convert = add_command(commands, "agentgym data", "convert", KINDS["convert"])
    convert.usage = "agentgym data convert SOURCE TARGET [options]"
    convert.add_argument("source", metavar="SOURCE", help="Our store, AgentTraj or parquet, told apart by content.")
    convert.add_argument(
        "target", metavar="TARGET", help="New file; .jsonl is our store, .json AgentTraj, .parquet parquet."
    )
    convert.add_argument("--to", metavar="FORMAT", help="store, agenttraj or parquet, whatever the target's ending.")


def run(given: Namespace) -> int:
    """Verify or convert."""
    if given["what"] == "verify":
        return _verify(given["verify.file"], given["verify.json"])
    _convert(given["convert.source"], given["convert.target"], given["convert.to"])
    return 0


def _verify(path: str, as_json: bool) -> int:
    from agentgym_py import store

    report = store.verify(path)
    if as_json:
        print_json(asdict(report) | {"path": path, "ok": report.ok})
    else:
        unsigned = f" ({report.unsigned} without a digest)" if report.unsigned else ""
        print(f"{path}: {report.episodes} whole episodes{unsigned}, {len(report.bad)} damaged")
        for number, problem in report.bad.items():
            print(f"  line {number}: {problem}")
        if report.torn is not None:
            print(f"  line {report.torn}: torn, the writing was interrupted; readers drop it")
    return 0 if report.ok else _DAMAGED


def _convert(source: str, target: str, to: str | None) -> None:
    from agentgym_py import agenttraj, export, store
    from agentgym_py.dataset import read_any

    form = to or FORMATS.get(Path(target).suffix)
    writers = {"store": store.write, "agenttraj": agenttraj.write, "parquet": export.write_parquet}
    if form not in writers:
        known = f"--to store, agenttraj or parquet, or an ending of {', '.join(FORMATS)}"
        raise UsageError(f"{to or target}: which format? Use {known}{meant(to, writers) if to else ''}")
    written = writers[form](new_file(target, "the target"), read_any(source))
    print(f"{target}: {written} trajectories, {form}")
