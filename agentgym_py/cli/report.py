"""`agentgym report`: the page of a run, again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace


def options(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """Add what `report` takes."""
    del argv
    parser.usage = "agentgym report DIR"
    parser.add_argument("dir", metavar="DIR", help="A run folder.")


def run(given: Namespace) -> int:
    """Write report.html."""
    from agentgym_py.report.page import write_report

    print(write_report(Path(given["dir"])))
    return 0
