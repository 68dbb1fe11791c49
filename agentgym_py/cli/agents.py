"""`agentgym agents`: the installed agents."""

from __future__ import annotations

from agentgym_py.cli.parser import JSON_HELP, Parser, Values
from agentgym_py.cli.trainers import list_by_module


def options(parser: Parser) -> None:
    """Add the options of `agents`."""
    about = "List every installed agent; a broken one with the reason."
    parser.add_command("list", about).add("json", bool, False, JSON_HELP)


def run(args: Values) -> int:
    """List the agents."""
    list_by_module("agentgym.agents", "how it acts", args["json"])
    return 0
