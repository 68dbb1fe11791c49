"""Source and pages are written in plain English: a list of phrases that a reader has to decode is banned."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BANNED = re.compile(
    r"\b(anew|to the bit|so many|goes on|in the midst|for ever|found again|what it says of|who plays)\b", re.IGNORECASE
)
SOURCES = sorted(path for folder in ("agentgym_py", "envs", "trainers") for path in (ROOT / folder).rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


def prose(source: str, messages: bool = True) -> list[tuple[int, str]]:
    """Return the docstrings, comments and, with `messages`, all other strings of a module, with their lines."""
    nodes = list(ast.walk(ast.parse(source)))
    docs = [node.value for node in nodes if isinstance(node, ast.Expr)]
    constants = [node for node in (nodes if messages else docs) if isinstance(node, ast.Constant)]
    texts = [(node.lineno, node.value) for node in constants if isinstance(node.value, str)]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return texts + [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def require_plain(texts: Iterable[tuple[int, str]], path: Path) -> None:
    """Fail at the first banned phrase, with its place."""
    for line, text in texts:
        phrase = BANNED.search(" ".join(text.split()))
        assert phrase is None, f"{path.relative_to(ROOT)}:{line}: {phrase[0]!r}"


def test_the_list_bites() -> None:
    """In a docstring, a message and a comment, across line ends, in any case; not in code."""
    source = '"""So\nmany."""\n\nX = "it goes on"  # made anew\nanew = 1\n'
    assert [line for line, text in prose(source) if BANNED.search(" ".join(text.split()))] == [1, 4, 4]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_banned_phrase_in_a_module(path: Path) -> None:
    """Each phrase has a plain one in its place."""
    is_world = "envs" in path.relative_to(ROOT).parts[:1]  # what a world shows to an agent is data
    require_plain(prose(path.read_text(encoding="utf-8"), messages=not is_world), path)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_banned_phrase_on_a_page(path: Path) -> None:
    """A phrase is found across the end of a line; a paragraph is one text."""
    paragraphs = path.read_text(encoding="utf-8").split("\n\n")
    require_plain(enumerate(paragraphs), path)
