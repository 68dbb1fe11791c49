"""`agentgym report`: write the report of a run again."""

from __future__ import annotations

from pathlib import Path

from agentgym_py.cli.parser import Parser, Values


def options(parser: Parser) -> None:
    """Add the arguments of `report`."""
    parser.add_positional("dir", "A run folder.")


def run(args: Values) -> int:
    """Write report.html."""
    from agentgym_py.report.page import write_report

    print(write_report(Path(args["dir"])))
    return 0
