"""`agentgym report`: the page of a run, again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `report` takes."""
    del argv
    parser.usage = "agentgym report DIR"
    parser.add_positional("dir", "A run folder.")


def run(args: Values) -> int:
    """Write report.html."""
    from agentgym_py.report.page import write_report

    print(write_report(Path(args["dir"])))
    return 0
