"""Nested lists in brackets, as PDDL is written: a small reader that says in which line something is wrong."""

from __future__ import annotations

import re

Node = str | list["Node"]
_WORD = re.compile(r";[^\n]*|\(|\)|[^\s();]+")


def read_sexpr(text: str) -> list[Node]:
    """The one list that a text holds, in lower case as PDDL has no case; ValueError where it holds something else.

    Closing brackets that follow the end are passed over: ALFWorld writes one too many.
    """
    stack: list[list[Node]] = []
    whole: list[Node] | None = None
    for found in _WORD.finditer(text):
        word = found.group()
        if word.startswith(";"):
            continue
        if whole is not None and word != ")":
            raise ValueError(f"line {_line(text, found)}: {word!r} after the end")
        if word == "(":
            stack.append([])
        elif word == ")" and stack:
            done = stack.pop()
            if stack:
                stack[-1].append(done)
            else:
                whole = done
        elif word != ")" and stack:
            stack[-1].append(word.lower())
        elif whole is None:
            raise ValueError(f"line {_line(text, found)}: {word!r} outside of brackets")
    if whole is None:
        raise ValueError("a bracket is never closed" if stack else "nothing in it")
    return whole


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1
