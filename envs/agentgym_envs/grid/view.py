"""What the agent sees: BabyAI's 7 x 7 cells ahead of it, as far as walls and closed doors let it."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from agentgym_envs.grid.world import FREE, OPEN, WALL, World

SIDE = 7
"""Cells along a side of the view; the agent is in the middle of the nearest row."""
_HALF = SIDE // 2


class Sight(NamedTuple):
    """A thing in view."""

    name: str
    """Such as `red ball 1`: things of the same name are numbered, the nearest first."""
    thing: int
    cell: int
    ahead: int
    """Cells ahead of the agent."""
    right: int
    """Cells to the right; negative to the left."""


def seen_cells(world: World) -> list[int]:
    """Return the visible cells, nearest rows first and from left to right, the agent's own cell included."""
    cells, doors, things = world.cells, world.doors, world.layout.things
    mask, seen = 1 << _HALF, list[int]()
    for row in _rows(world.layout.stride, world.facing):
        clear = 0
        for bit, offset in row:
            content = cells[world.at + offset]
            if content == FREE or (content > 0 and (things[content - 1].kind != "door" or doors[content - 1] == OPEN)):
                clear |= bit
        mask, ahead = _spread(mask, clear)
        seen += [world.at + offset for bit, offset in row if mask & bit]
        if not ahead:
            break
        mask = ahead
    return seen


@cache
def _rows(stride: int, facing: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The bit and the offset of each cell of the view, row by row."""
    steps = (1, stride, -1, -stride)
    ahead, right = steps[facing], steps[(facing + 1) % 4]
    return tuple(
        tuple((1 << side, ahead * row + right * (side - _HALF)) for side in range(SIDE)) for row in range(SIDE)
    )


@cache
def _spread(mask: int, clear: int) -> tuple[int, int]:
    """Spread sight along a row, first to the right and then to the left: its visible cells, and those of the next."""
    ahead = 0
    for side in range(SIDE - 1):
        if mask & clear & 1 << side:
            mask |= 2 << side
            ahead |= 3 << side
    for side in range(SIDE - 1, 0, -1):
        if mask & clear & 1 << side:
            mask |= 1 << side - 1
            ahead |= 3 << side - 1
    return mask, ahead


def sights(world: World, seen: list[int]) -> list[Sight]:
    """Return the things in view, the nearest first; things of the same distance from left to right."""
    layout, found = world.layout, list[tuple[int, int, int, int, int]]()
    ahead, right = layout.steps[world.facing], layout.steps[(world.facing + 1) % 4]
    ahead_x, ahead_y, right_x, right_y = _axis(ahead, layout.stride) + _axis(right, layout.stride)
    row, column = divmod(world.at, layout.stride)
    for cell in seen:
        content = world.cells[cell]
        if content > 0 and cell != world.at:
            y, x = divmod(cell, layout.stride)
            dx, dy = x - column, y - row
            forward, side = dx * ahead_x + dy * ahead_y, dx * right_x + dy * right_y
            found.append((forward + abs(side), side, forward, content - 1, cell))
    found.sort()
    counts, listed = dict[str, int](), list[Sight]()
    for _, side, forward, thing, cell in found:
        name = layout.things[thing].name
        counts[name] = counts.get(name, 0) + 1
        listed.append(Sight(f"{name} {counts[name]}", thing, cell, forward, side))
    return listed


def _axis(step: int, stride: int) -> tuple[int, int]:
    """The direction of a step as x and y."""
    return (step, 0) if abs(step) == 1 else (0, step // stride)


def describe(world: World, listed: list[Sight]) -> str:
    """Write the view: things, free cells ahead, to the left and to the right, and what the agent carries."""
    things = ", ".join(entry_of(world, sight) for sight in listed)
    steps = world.layout.steps
    ahead = _free(world, steps[world.facing], SIDE - 1)
    left, right = (_free(world, steps[(world.facing + turn) % 4], _HALF) for turn in (3, 1))
    carried = world.layout.things[world.carried].name if world.carried >= 0 else "nothing"
    return f"In view: {things or 'nothing'}. Free: {ahead} ahead, {left} left, {right} right. You carry: {carried}."


def entry_of(world: World, sight: Sight) -> str:
    """Write a thing in view, such as `red ball 1 (2 ahead, 1 left)`."""
    return f"{sight.name} ({_state(world, sight.thing)}{_where(sight)})"


def _state(world: World, thing: int) -> str:
    if world.layout.things[thing].kind != "door":
        return ""
    return ("open; ", "closed; ", "locked; ")[world.doors[thing]]


def _where(sight: Sight) -> str:
    side = f"{abs(sight.right)} {'left' if sight.right < 0 else 'right'}" if sight.right else ""
    ahead = f"{sight.ahead} ahead" if sight.ahead else ""
    return f"{ahead}, {side}" if ahead and side else ahead or side


def _free(world: World, step: int, most: int) -> int:
    count, cell = 0, world.at + step
    while count < most and world.cells[cell] != WALL and world.is_passable(cell):
        count, cell = count + 1, cell + step
    return count
