"""Docstrings and comments are written in plain English: a list of phrases that a reader has to decode is banned."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BANNED = re.compile(
    r"\b(anew|to the bit|so many|goes on|in the midst|for ever|found again|what it says of|who plays)\b", re.IGNORECASE
)
"""Messages, the README and the pages in docs/ are not held to it yet."""
SOURCES = sorted(path for folder in ("agentgym_py", "envs", "trainers") for path in (ROOT / folder).rglob("*.py"))


def prose(source: str) -> list[tuple[int, str]]:
    """The docstrings and comments of a module, with their lines."""
    found = [
        (node.lineno, node.value.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return found + [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def test_the_list_bites() -> None:
    """In a docstring and a comment, over a line's end, in any case; not in a string of the program."""
    source = '"""So\nmany."""\n\nX = "goes on"  # made anew\n'
    assert [line for line, text in prose(source) if BANNED.search(" ".join(text.split()))] == [1, 4]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_banned_phrase(path: Path) -> None:
    """Each phrase has a plain one in its place."""
    for line, text in prose(path.read_text(encoding="utf-8")):
        found = BANNED.search(" ".join(text.split()))
        assert found is None, f"{path.relative_to(ROOT)}:{line}: {found[0]!r}"
