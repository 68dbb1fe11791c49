"""Tables with a title and notes, in Markdown and LaTeX; their texts may come from strangers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""A header and rows."""


class Page(NamedTuple):
    """What a comparison shows."""

    title: str
    tables: Sequence[Table]
    notes: Sequence[str]
    """How to read the tables."""


def markdown(page: Page) -> str:
    """Return title, tables and notes in Markdown."""
    title, all_tables, notes = page
    parts = [_one_line(title)]
    for header, rows in all_tables:
        lines = [header, ["---"] * len(header), *rows]
        parts.append("\n".join(f"| {' | '.join(map(_markdown_cell, line))} |" for line in lines))
    return "\n\n".join([*parts, "\n".join(map(_one_line, notes))])


def _markdown_cell(text: str) -> str:
    return _one_line(text).replace("|", "\\|")


def _one_line(text: str) -> str:
    """Return a text without line breaks, which names in a stranger's manifest may hold to look like other lines."""
    return " ".join(text.split())


_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$", "–": "--",
    "<": "$<$", ">": "$>$", **{char: f"\\{char}" for char in "&%$#_{}"},
}  # fmt: skip


def latex(page: Page) -> str:
    """Return `tabular`s with the rules of booktabs; title and notes are comments."""
    title, all_tables, notes = page
    parts = [f"% {_one_line(title)}\n% \\usepackage{{booktabs}}"]
    for header, rows in all_tables:
        lines = [" & ".join("".join(_TEX.get(char, char) for char in cell) for cell in row) + r" \\"
                 for row in (header, *rows)]  # fmt: skip
        lines = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
        columns = "l" + "".join(map(_alignment, list(zip(*rows, strict=True))[1:]))
        parts.append("\n".join([rf"\begin{{tabular}}{{{columns}}}", *lines, r"\end{tabular}"]))
    return "\n\n".join([*parts, "\n".join(f"% {_one_line(note)}" for note in notes)])


def _alignment(column: Sequence[str]) -> str:
    """Return how LaTeX aligns a column: numbers to the right, texts to the left."""
    return "r" if all(re.match(r"[+−-]?\d|< \d|–$", cell) for cell in column) else "l"
