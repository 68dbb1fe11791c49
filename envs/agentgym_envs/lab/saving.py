"""A laboratory's state as JSON values, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentgym_envs.lab.lab import Cell, Lab
from agentgym_envs.lab.matter import GAS, MOIST, STAGE
from agentgym_envs.lab.site import HAND, Puzzle, floor

_COLDEST, _HOTTEST = -400, 3000
_MOST_FACTS = 500


def to_json(lab: Lab) -> dict[str, Any]:
    """Return the state as JSON values."""
    return {
        "room": lab.room,
        "place": lab.place.copy(),
        "doors": sorted(lab.open_doors),
        "open": sorted(lab.opened),
        "on": sorted(lab.on),
        "cells": [cell.to_json() for cell in lab.cells],
        "wires": [list(wire) for wire in sorted(lab.wires)],
        "seen": sorted(lab.seen),
        "visited": sorted(lab.visited),
        "facts": dict(lab.facts),
        "focused": list(lab.focused),
    }


def from_json(puzzle: Puzzle, state: Mapping[str, Any]) -> Lab:
    """Rebuild a laboratory; KeyError, TypeError or ValueError if the state is impossible in this puzzle."""
    lab = Lab(puzzle)
    things, rooms = range(len(puzzle.things)), range(len(puzzle.rooms))
    lab.room = _index(state["room"], rooms)
    lab.open_doors = _indices(state["doors"], range(len(puzzle.doors)))
    lab.opened = _indices(state["open"], (i for i in things if puzzle.traits[i].door))
    lab.on = _indices(state["on"], (i for i in things if puzzle.traits[i].switch or puzzle.traits[i].gated))
    lab.seen, lab.visited = _indices(state["seen"], things), _indices(state["visited"], rooms)
    lab.place = _places(puzzle, state["place"])
    cells = state["cells"]
    if type(cells) is not list or len(cells) != len(puzzle.vessels):
        raise ValueError("'cells' must be a list for each vessel")
    lab.cells = [_cell(puzzle, i, values) for i, values in zip(puzzle.vessels, cells, strict=True)]
    lab.wires = _wires(lab, state["wires"])
    facts, focused = state["facts"], state["focused"]
    if type(facts) is not dict or len(facts) > _MOST_FACTS or any(type(value) is not int for value in facts.values()):
        raise ValueError(f"'facts' must map texts to integers: {facts!r:.100}")
    names = _names(puzzle)
    if type(focused) is not list or not all(isinstance(name, str) and name in names for name in focused):
        raise ValueError(f"'focused' must list names: {focused!r:.100}")
    if "pollen" in facts and facts["pollen"] not in {i for i in things if puzzle.things[i].kind == "parent"}:
        raise ValueError(f"pollen of {facts['pollen']!r:.60}")
    lab.facts, lab.focused = dict(facts), list(focused)
    if not {lab.room, puzzle.start} <= lab.visited:
        raise ValueError("the start or the agent's room is not among the visited ones")
    return lab


def _index(value: object, allowed: Iterable[int]) -> int:
    if type(value) is not int or value not in allowed:
        raise ValueError(f"{value!r:.60} is impossible here")
    return value


def _indices(values: object, allowed: Iterable[int]) -> set[int]:
    if type(values) is not list:
        raise TypeError(f"{values!r:.60} is not a list")
    among = frozenset(allowed)
    indices = {_index(value, among) for value in values}
    if values != sorted(indices):
        raise ValueError(f"{values!r:.60} is not ascending")
    return indices


def _places(puzzle: Puzzle, values: object) -> list[int]:
    """Return the place of each thing: only portable things have moved."""
    if type(values) is not list or len(values) != len(puzzle.things):
        raise ValueError("'place' must be a list for each thing")
    floors = [floor(room) for room in range(len(puzzle.rooms))]
    holders = {i for i, traits in enumerate(puzzle.traits) if traits.holds}
    for thing, traits, value in zip(puzzle.things, puzzle.traits, values, strict=True):
        _index(value, {HAND, *floors, *holders} if traits.portable else {thing.place})
    return list(values)


def _cell(puzzle: Puzzle, i: int, values: object) -> Cell:
    if type(values) is not list or len(values) != 6:
        raise ValueError(f"a vessel is six values, not {values!r:.60}")
    contents, temperature, phase, growth, water, pollinated = values
    substances = range(len(puzzle.substances))
    if type(contents) is not list or len({_index(value, substances) for value in contents}) != len(contents):
        raise ValueError(f"impossible contents: {contents!r:.60}")
    stages = puzzle.substances[contents[0]].stages if contents else ()
    grows = not (puzzle.traits[i].portable or puzzle.traits[i].sealed)
    if grows and contents and (len(contents) > 1 or not stages):
        raise ValueError(f"{contents!r:.60} does not grow")
    cell = Cell(list(contents), _index(temperature, range(_COLDEST, _HOTTEST)), _index(phase, range(GAS + 1)))
    last = (len(stages) - 1) * STAGE if stages and grows else 0
    cell.growth = _index(growth, range(last + 1))
    cell.water, cell.pollinated = _index(water, range(MOIST + 1)), _index(pollinated, range(2))
    return cell


def _wires(lab: Lab, values: object) -> set[tuple[int, int]]:
    """Return connections: of a wire and another part in one room, at most two a part."""
    if type(values) is not list:
        raise TypeError(f"{values!r:.60} is not a list")
    traits = lab.puzzle.traits
    wires = set[tuple[int, int]]()
    for a, b in values:
        _index(a, range(len(traits)))
        _index(b, range(a + 1, len(traits)))
        parts = (traits[a].part, traits[b].part)
        if not all(parts) or "wire" not in parts or HAND in (lab.place[a], lab.place[b]):
            raise ValueError(f"{a} and {b} cannot be connected")
        if lab.room_of(a) != lab.room_of(b):
            raise ValueError(f"{a} and {b} are in different rooms")
        wires.add((a, b))
    ends = [i for wire in wires for i in wire]
    if len(wires) != len(values) or any(ends.count(i) > 2 for i in ends):
        raise ValueError("a part has two ends")
    return wires


def _names(puzzle: Puzzle) -> set[str]:
    stages = [name for substance in puzzle.substances for name in (substance.name, *substance.stages)]
    return {*puzzle.by_name, *stages}
