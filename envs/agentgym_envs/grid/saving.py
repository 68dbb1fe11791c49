"""The state of an episode as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym_envs.grid.world import FREE, LOCKED, Layout, World

_KEYS = {"at", "facing", "carried", "places", "marks", "doors", "gone", "done", "moves", "seen"}


def save(world: World, seen: int) -> dict[str, Any]:
    """Return the state; `seen` has a bit for each seen cell."""
    return {
        "at": world.at, "facing": world.facing, "carried": world.carried, "places": world.places.copy(),
        "marks": world.marks.copy(), "doors": "".join(map(str, world.doors)), "gone": world.gone, "done": world.done,
        "moves": world.moves, "seen": f"{seen:x}",
    }  # fmt: skip


def load(layout: Layout, state: Mapping[str, Any]) -> tuple[World, int]:
    """Return the world of a saved state, and its seen cells; ValueError or TypeError if there is no such state."""
    if set(state) != _KEYS:
        raise ValueError(f"a state has {', '.join(sorted(_KEYS))}")
    world, count = World(layout), len(layout.things)
    world.at, world.facing = _integer(state, "at", len(layout.cells)), _integer(state, "facing", 4)
    world.carried = _integer(state, "carried", count, least=-1)
    world.gone, world.done = (
        _integer(state, "gone", 1 << count),
        _integer(state, "done", 1 << len(layout.mission.clauses)),
    )
    world.moves = _integer(state, "moves", 1 << 53)
    world.places, world.marks = (_cells(layout, state[key], key) for key in ("places", "marks"))
    world.doors = _doors(layout, state["doors"])
    _settle(world)
    seen = state["seen"]
    if not isinstance(seen, str) or len(seen) > len(layout.cells) or seen != f"{int(seen, 16):x}":
        raise ValueError("seen must be bits of cells in hexadecimal")
    bits = int(seen, 16)
    if bits >> len(layout.cells):
        raise ValueError("seen has cells beyond the grid")
    return world, bits


def _integer(state: Mapping[str, Any], key: str, end: int, least: int = 0) -> int:
    value = state[key]
    if type(value) is not int or not least <= value < end:
        raise ValueError(f"{key} must be an integer from {least} to {end - 1}")
    return value


def _cells(layout: Layout, value: Any, key: str) -> list[int]:
    if type(value) is not list or len(value) != len(layout.things):
        raise ValueError(f"{key} must have a cell for each thing")
    for cell, start in zip(value, layout.places, strict=True):
        is_inside = type(cell) is int and 0 <= cell < len(layout.cells)
        if not is_inside or (cell and cell != start and not _is_floor(layout, cell)):
            raise ValueError(f"{key} has {cell!r}, which is no cell for a thing")
    return list(value)


def _is_floor(layout: Layout, cell: int) -> bool:
    content = layout.cells[cell]
    return content == FREE or (content > 0 and layout.things[content - 1].kind != "door")


def _doors(layout: Layout, value: Any) -> list[int]:
    if type(value) is not str or len(value) != len(layout.things) or set(value) - set("012"):
        raise ValueError("doors must have 0, 1 or 2 for each thing")
    doors = [int(digit) for digit in value]
    for thing, state, start in zip(layout.things, doors, layout.doors, strict=True):
        if (thing.kind != "door" and state) or (state == LOCKED != start):
            raise ValueError("doors has a state that cannot be")
    return doors


def _settle(world: World) -> None:
    """Put the things into their cells; ValueError if they cannot all be where they are said to be."""
    layout, cells = world.layout, [content if content < 0 else FREE for content in world.layout.cells]
    for index, thing in enumerate(layout.things):
        cell, is_gone = world.places[index], bool(world.gone >> index & 1)
        is_hidden = thing.inside >= 0 and not world.gone >> thing.inside & 1
        if thing.kind == "door":
            is_right = cell == layout.places[index] and not is_gone
        elif is_gone or is_hidden:
            is_right = not cell and world.carried != index and not (is_gone and thing.kind != "box")
        else:
            is_right = bool(cell) is (world.carried != index)
        if not is_right or (cell and cells[cell] != FREE):
            raise ValueError(f"the {thing.name} cannot be there")
        if cell:
            cells[cell] = index + 1
    if world.carried >= 0 and layout.things[world.carried].kind == "door":
        raise ValueError("a door is carried")
    world.cells = cells
    if not world.is_passable(world.at):
        raise ValueError("the agent cannot stand there")
