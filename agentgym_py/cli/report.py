"""`agentgym report`: write the report of a run again."""

from __future__ import annotations

from pathlib import Path

from agentgym_py.cli.parser import Parser, Values
from agentgym_py.files import clear_read_errors


def options(parser: Parser) -> None:
    """Add the arguments of `report`."""
    parser.add_positional("dir", "A run folder.")


def run(args: Values) -> int:
    """Write report.html."""
    from agentgym_py.report.page import write_report

    with clear_read_errors(Path(args["dir"])):
        report = write_report(Path(args["dir"]))
    print(report)
    return 0
