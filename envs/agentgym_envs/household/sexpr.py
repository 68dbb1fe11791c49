"""Nested lists in brackets, as PDDL is written: a small reader that says in which line something is wrong."""

from __future__ import annotations

import re
from itertools import islice

Node = str | list["Node"]
_WORD = re.compile(r";[^\n]*|\(|\)|[^\s();]+")


def read_sexpr(text: str) -> list[Node]:
    """The one list that a text holds, in lower case as PDDL has no case; ValueError where it holds something else.

    Closing brackets that follow the end are passed over: ALFWorld writes one too many.
    """
    stack: list[list[Node]] = []
    whole: list[Node] | None = None
    for number, word in enumerate(_WORD.findall(text.lower())):
        if word == "(":
            if whole is not None:
                raise ValueError(f"{_where(text, number)} after the end")
            stack.append([])
        elif word == ")":
            if len(stack) > 1:
                done = stack.pop()
                stack[-1].append(done)
            elif stack:
                whole = stack.pop()
            elif whole is None:
                raise ValueError(f"{_where(text, number)} outside of brackets")
        elif word[0] != ";":
            if not stack:
                place = "outside of brackets" if whole is None else "after the end"
                raise ValueError(f"{_where(text, number)} {place}")
            stack[-1].append(word)
    if whole is None:
        raise ValueError("a bracket is never closed" if stack else "nothing in it")
    return whole


def _where(text: str, number: int) -> str:
    """The line of a word, and the word."""
    found = next(islice(_WORD.finditer(text), number, None))
    return f"line {text.count(chr(10), 0, found.start()) + 1}: {found.group()!r}"
