"""Source and pages are written in plain English: short sentences, and no phrase that a reader has to decode."""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BANNED = re.compile(
    r"\b(anew|to the bit|so many|goes on|in the midst|for ever|found again|what it says of|who plays)\b", re.IGNORECASE
)
BETWEEN = r"""(?:\W|\\n|[bfru]+(?=["']))+"""
SUSPECT = re.compile(BANNED.pattern.replace(r"\b", "").replace(" ", BETWEEN), re.IGNORECASE)
"""Finds a banned phrase in source, also across lines and strings; most modules have none and need no parsing."""
UNCLEAR = re.compile(
    r"\b(nobody|somebody|plays? (?:it|them)sel(?:f|ves)|what was played|is told|to the letter|where none)\b",
    re.IGNORECASE,
)
"""Banned on pages in addition."""
PACKAGES = ("agentgym_py", "envs", "trainers")
SCRIPTS = ("agentgym_start", "benchmarks", "bridges", "datasets", "docs", "examples", "tests", ".ci")
SOURCES = sorted(path for folder in (*PACKAGES, *SCRIPTS) for path in (ROOT / folder).rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"),
                *(ROOT / "bridges").rglob("*.md")])  # fmt: skip

LONGEST, MEDIAN = 35, 15
"""Most words of a sentence, and of the middle one of a page."""
SENTENCE_END = re.compile(r"(?<=[.!?])(?<!et al\.)[)\"*]*\s+|(?<=[。！？])")


def prose(source: str, messages: bool = True) -> list[tuple[int, str]]:
    """Return the docstrings, comments and, with `messages`, all other strings of a module, with their lines."""
    nodes = list(ast.walk(ast.parse(source)))
    docs = [node.value for node in nodes if isinstance(node, ast.Expr)]
    constants = [node for node in (nodes if messages else docs) if isinstance(node, ast.Constant)]
    texts = [(node.lineno, node.value) for node in constants if isinstance(node.value, str)]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return texts + [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def require_plain(texts: Iterable[tuple[int, str]], path: Path, banned: re.Pattern[str] = BANNED) -> None:
    """Fail at the first banned phrase, with its place."""
    for line, text in texts:
        phrase = banned.search(" ".join(text.split()))
        assert phrase is None, f"{path.relative_to(ROOT)}:{line}: {phrase[0]!r}"


def test_the_list_bites() -> None:
    """In a docstring, a message and a comment, across line ends, in any case; not in code."""
    source = '"""So\nmany."""\n\nX = "it goes on"  # made anew\nanew = 1\n'
    assert [line for line, text in prose(source) if BANNED.search(" ".join(text.split()))] == [1, 4, 4]
    for source in (
        'x = "it goes"\n# on',
        'x = "so "  "many"',
        'x = ("so"\n     f" many")',
        r'x = "\nso\nmany"',
        "# Anew",
    ):
        assert SUSPECT.search(source), source
    assert not SUSPECT.search("# how many; it goes; a bit")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_banned_phrase_in_a_module(path: Path) -> None:
    """Each phrase has a plain one in its place."""
    has_data = path.relative_to(ROOT).parts[0] in ("envs", "tests")  # texts that a world shows, and texts to compare
    source = path.read_text(encoding="utf-8")
    if SUSPECT.search(source):
        require_plain(prose(source, messages=not has_data), path)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_banned_phrase_on_a_page(path: Path) -> None:
    """A phrase is found across the end of a line; a paragraph is one text."""
    paragraphs = path.read_text(encoding="utf-8").split("\n\n")
    require_plain(enumerate(paragraphs), path)
    require_plain(enumerate(paragraphs), path, UNCLEAR)


def blocks_of(page: str) -> tuple[list[str], list[str]]:
    """Return the paragraphs and list items of a page, and the cells of its tables; code and headings are neither."""
    text = re.sub(r"^ *```.*?^ *```$|<!--.*?-->", "", page, flags=re.MULTILINE | re.DOTALL)
    blocks, cells = [""], list[str]()
    for line in text.splitlines():
        item = re.match(r" *([-*+]|\d+\.) +", line)
        if not line.strip() or line.startswith("#") or (line.startswith("    ") and not blocks[-1]):
            blocks.append("")
        elif line.startswith("|"):
            cells += re.split(r"(?<!\\)\|", line.strip("|"))
        elif item:
            blocks.append(line[item.end() :])
        else:
            blocks[-1] += f" {line.strip()}"
    return blocks, cells


def lengths(blocks: Iterable[str]) -> list[tuple[int, str]]:
    """Return the sentences of texts with their numbers of words; a piece of code is one word."""
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "Code", block)) for block in blocks)
    sentences = [each.strip() for block in plain for each in SENTENCE_END.split(block)]
    return [(len(re.findall(r"[^\W_][\w'’%.,/-]*", each)), each) for each in sentences if re.search("[a-z]", each)]


def test_sentences_are_counted() -> None:
    """Across line ends, in items and cells, with code and links as words; blocks of code do not count."""
    page = "# A heading\n\nOne two\n`a b`. [Three](x.md) four?\n\n- Five.\n\n```\nno words\n```\n\n| six seven | |\n"
    blocks, cells = blocks_of(page)
    assert [count for count, _ in lengths(blocks)] == [3, 2, 1]
    assert [count for count, _ in lengths(cells)] == [2]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_sentences_on_a_page_are_short(path: Path) -> None:
    """None has more than 35 words, in cells neither, and the median of a page is at most 15."""
    blocks, cells = blocks_of(path.read_text(encoding="utf-8"))
    assert max(lengths([*blocks, *cells]))[0] <= LONGEST, max(lengths([*blocks, *cells]))
    assert statistics.median(count for count, _ in lengths(blocks)) <= MEDIAN
