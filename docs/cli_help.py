"""Writes each command's help into `docs/reference/cli.md`, below its marker: `python docs/cli_help.py`."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

from agentgym_py.cli import main
from agentgym_py.cli.help import EXAMPLES_TITLE

PAGE = Path(__file__).parent / "reference" / "cli.md"
MARKER = re.compile(r"<!-- help: ([\w ]+) -->\n(?:\n```text\n.*?\n```\n)?", re.DOTALL)


def help_of(command: str) -> str:
    """What `agentgym COMMAND --help-all` prints, without the examples; the page has its own."""
    os.environ["COLUMNS"] = "110"
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main([*command.split(), "--help-all"])
    return out.getvalue().partition(f"\n{EXAMPLES_TITLE}\n")[0].strip()


def with_help(text: str) -> str:
    """The page with the help of today."""
    return MARKER.sub(lambda found: f"<!-- help: {found[1]} -->\n\n```text\n{help_of(found[1])}\n```\n", text)


if __name__ == "__main__":
    PAGE.write_text(with_help(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
