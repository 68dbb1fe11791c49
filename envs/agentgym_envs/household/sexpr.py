"""A small reader of s-expressions, as PDDL uses them, whose errors name the line."""

from __future__ import annotations

import re
from itertools import islice

Node = str | list["Node"]
_WORD = re.compile(r";[^\n]*|\(|\)|[^\s();]+")


def read_sexpr(text: str) -> list[Node]:
    """Read the one list of a text, in lower case because PDDL ignores case; ValueError for any other text.

    Extra closing brackets at the end are ignored: ALFWorld writes one too many.
    """
    stack: list[list[Node]] = []
    root: list[Node] | None = None
    for number, word in enumerate(_WORD.findall(text.lower())):
        if word == "(":
            if root is not None:
                raise ValueError(f"{_where(text, number)} after the end")
            stack.append([])
        elif word == ")":
            if len(stack) > 1:
                done = stack.pop()
                stack[-1].append(done)
            elif stack:
                root = stack.pop()
            elif root is None:
                raise ValueError(f"{_where(text, number)} outside of brackets")
        elif word[0] != ";":
            if not stack:
                place = "outside of brackets" if root is None else "after the end"
                raise ValueError(f"{_where(text, number)} {place}")
            stack[-1].append(word)
    if root is None:
        raise ValueError("a bracket is never closed" if stack else "the text is empty")
    return root


def _where(text: str, number: int) -> str:
    """Format the line of a word, and the word."""
    match = next(islice(_WORD.finditer(text), number, None))
    return f"line {text.count(chr(10), 0, match.start()) + 1}: {match.group()!r}"
