"""BabyAI's view in words, as AgentGrid-v0 tells it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

SIDE = 7
"""Cells along a side of the view; the agent is in the middle of the nearest row."""
_MIDDLE, _LAST = SIDE // 2, SIDE - 1
_DOORS = ("open", "closed", "locked")


class Names(NamedTuple):
    """What the numbers of BabyAI's view mean."""

    kinds: Mapping[int, str]
    colors: Mapping[int, str]


def describe(image: Any, names: Names, held: str) -> str:
    """Tell the things in view, the free cells, and what is carried.

    Args:
        image: kind, colour and state of each cell, (7, 7, 3): columns, rows. The agent looks up from the last row.
        names: what the numbers mean.
        held: the thing that is carried, or `nothing`.
    """
    found, counts, things = list[tuple[int, int, str, str]](), dict[str, int](), list[str]()
    for column, row in product(range(SIDE), range(SIDE)):
        kind, color, state = map(int, image[column, row])
        name, ahead, right = names.kinds[kind], _LAST - row, column - _MIDDLE
        if name in ("door", "key", "ball", "box") and (ahead or right):
            state_text = f"{_DOORS[state]}; " if name == "door" else ""
            where = state_text + _where(ahead, right)
            found.append((ahead + abs(right), right, f"{names.colors[color]} {name}", where))
    for _, _, name, where in sorted(found):
        counts[name] = counts.get(name, 0) + 1
        things.append(f"{name} {counts[name]} ({where})")
    ahead, left, right = (
        _free(image, names, 0, -1, _LAST), _free(image, names, -1, 0, _MIDDLE), _free(image, names, 1, 0, _MIDDLE),
    )  # fmt: skip
    free = f"{ahead} ahead, {left} left, {right} right"
    return f"In view: {', '.join(things) or 'nothing'}. Free: {free}. You carry: {held}."


def _free(image: Any, names: Names, dx: int, dy: int, most: int) -> int:
    """Count the cells in a row that one can walk over."""
    for count in range(most):
        kind, _, state = map(int, image[_MIDDLE + dx * (count + 1), _LAST + dy * (count + 1)])
        if names.kinds[kind] != "empty" and (names.kinds[kind] != "door" or _DOORS[state] != "open"):
            return count
    return most


def _where(ahead: int, right: int) -> str:
    side = f"{abs(right)} {'left' if right < 0 else 'right'}" if right else ""
    return ", ".join(filter(None, (f"{ahead} ahead" if ahead else "", side)))
