"""`agentgym agents`: the installed agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentgym_py.cli.trainers import list_plugins

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values

KINDS = {"list": "List every installed agent; a broken one with the reason."}


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `agents` takes."""
    del argv
    parser.add_command("list", KINDS["list"]).add("json", bool, False, "Print JSON, for a program.")


def run(args: Values) -> int:
    """List the agents."""
    list_plugins("agentgym.agents", "how it acts", args["json"])
    return 0
