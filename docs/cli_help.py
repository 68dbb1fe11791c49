"""Write each command's help and examples into `docs/reference/cli.md`, and examples into `commands.md`.

    python docs/cli_help.py

The help stands below `<!-- help: COMMAND -->`, all examples of a command below `<!-- examples: COMMAND -->`, and the
first example of every command below `<!-- examples: first -->`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterable
from pathlib import Path

from agentgym_py.cli import COMMANDS, main
from agentgym_py.cli.examples import Example, examples_of
from agentgym_py.cli.help import EXAMPLES_TITLE

PAGES = [Path(__file__).parent / name for name in ("reference/cli.md", "get-started/commands.md")]
HELP = re.compile(r"<!-- help: ([\w ]+) -->\n(?:\n```text\n.*?\n```\n)?", re.DOTALL)
EXAMPLES = re.compile(r"<!-- examples: ([\w ]+) -->\n(?:\n```\n.*?\n```\n)?", re.DOTALL)


def help_of(command: str) -> str:
    """Return what `agentgym COMMAND --help-all` prints, without the examples."""
    os.environ["COLUMNS"] = "110"
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main([*command.split(), "--help-all"])
    return out.getvalue().partition(f"\n{EXAMPLES_TITLE}\n")[0].strip()


def block_of(examples: Iterable[Example]) -> str:
    """Return a block of commands, each below a comment."""
    return "```\n" + "\n\n".join(f"# {what}\n{line}" for what, line in examples) + "\n```"


def examples_named(name: str) -> list[Example]:
    """Return the examples of a command, or the first one of each."""
    return [examples_of(command)[0] for command in COMMANDS] if name == "first" else examples_of(name)


def with_help(text: str) -> str:
    """Return a page with the help and the examples of today."""
    text = HELP.sub(lambda found: f"<!-- help: {found[1]} -->\n\n```text\n{help_of(found[1])}\n```\n", text)
    return EXAMPLES.sub(lambda found: f"<!-- examples: {found[1]} -->\n\n{block_of(examples_named(found[1]))}\n", text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_help(page.read_text(encoding="utf-8")), encoding="utf-8")
