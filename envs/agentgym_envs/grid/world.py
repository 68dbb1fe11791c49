"""The state of an episode and BabyAI's six moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from agentgym_envs.grid.mission import Clause, Mission, Verb

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)
TURNS = ((LEFT, 3), (RIGHT, 1))
"""Turns, and by how many quarters to the right each changes the facing."""
FREE, WALL, UNKNOWN = 0, -1, -2
"""Content of a cell; a positive number is 1 + the index of a thing."""
OPEN, CLOSED, LOCKED = range(3)
"""States of doors."""
BORDER = 6
"""Cells of wall around the grid, so that a view never leaves it."""
_GO_TO, _PICK_UP, _OPEN = Verb.GO_TO, Verb.PICK_UP, Verb.OPEN


@dataclass(frozen=True, slots=True)
class Thing:
    """A ball, a box, a key or a door."""

    kind: str
    color: str
    inside: int = -1
    """Index of the box that hides it at the start."""

    @property
    def name(self) -> str:
        """Return its colour and kind."""
        return f"{self.color} {self.kind}"


@dataclass(frozen=True)
class Layout:
    """A drawn task. Cells are numbered row by row, with a border of walls around."""

    level: str
    rows: int
    columns: int
    """Rooms."""
    size: int
    """Cells along a room's side, its walls included."""
    cells: tuple[int, ...]
    things: tuple[Thing, ...]
    doors: tuple[int, ...]
    """States of doors at the start, by thing; 0 for other things."""
    at: int
    facing: int
    """0 east, 1 south, 2 west, 3 north."""
    mission: Mission
    limit: int
    """BabyAI's limit T of moves."""

    @cached_property
    def stride(self) -> int:
        """Return the number of cells in a row."""
        return stride(self.columns, self.size)

    @cached_property
    def steps(self) -> tuple[int, int, int, int]:
        """Return how the cell's number changes by a step to the east, south, west and north."""
        return (1, self.stride, -1, -self.stride)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Return the cell of each thing at the start; 0 for one inside a box."""
        cells = {content - 1: cell for cell, content in enumerate(self.cells) if content > 0}
        return tuple(cells.get(index, 0) for index in range(len(self.things)))

    @cached_property
    def hidden(self) -> dict[int, int]:
        """Return the thing inside each box that has one."""
        return {thing.inside: index for index, thing in enumerate(self.things) if thing.inside >= 0}


def stride(columns: int, size: int) -> int:
    """Return the number of cells in a row, border included."""
    return (size - 1) * columns + 1 + 2 * BORDER


class World:
    """The changing state; `do` is one move of BabyAI, and counts towards the mission as there."""

    __slots__ = ("at", "carried", "cells", "done", "doors", "facing", "gone", "layout", "marks", "moves", "places")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.cells = list(layout.cells)
        self.places = list(layout.places)
        """The cell of each thing; 0 if it is carried, hidden in a box, or gone."""
        self.marks = list(layout.places)
        """The same at the last drop, or at the start: BabyAI looks for things there."""
        self.doors = list(layout.doors)
        self.at, self.facing = layout.at, layout.facing
        self.carried = -1
        self.gone = 0
        """Bits of the boxes that were opened, and so are no more."""
        self.done = 0
        """Bits of the clauses that are done."""
        self.moves = 0

    def copy(self) -> World:
        """Return an independent copy."""
        other = World.__new__(World)
        other.layout, other.at, other.facing, other.carried = self.layout, self.at, self.facing, self.carried
        other.gone, other.done, other.moves = self.gone, self.done, self.moves
        other.cells, other.places = self.cells.copy(), self.places.copy()
        other.marks, other.doors = self.marks.copy(), self.doors.copy()
        return other

    @property
    def front(self) -> int:
        """Return the cell ahead."""
        return self.at + self.layout.steps[self.facing]

    @property
    def is_done(self) -> bool:
        """Return whether every clause is done."""
        return self.done == (1 << len(self.layout.mission.clauses)) - 1

    def is_passable(self, cell: int) -> bool:
        """Return whether one can walk there: it is free, or an open door."""
        content = self.cells[cell]
        if content <= 0:
            return content == FREE
        return self.layout.things[content - 1].kind == "door" and self.doors[content - 1] == OPEN

    def do(self, move: int) -> bool:
        """Do a move; return whether it changed anything."""
        self.moves += 1
        changed, touched = True, -1
        if move == LEFT:
            self.facing = (self.facing + 3) % 4
        elif move == RIGHT:
            self.facing = (self.facing + 1) % 4
        elif move == FORWARD:
            front = self.front
            changed = self.is_passable(front)
            if changed:
                self.at = front
        elif move == PICKUP:
            touched = self._pick_up()
            changed = touched >= 0
        elif move == DROP:
            touched = self._drop()
            changed = touched >= 0
        else:
            changed = self._toggle()
        self._judge(move, touched)
        return changed

    def _pick_up(self) -> int:
        front = self.front
        thing = self.cells[front] - 1
        if thing < 0 or self.carried >= 0 or self.layout.things[thing].kind == "door":
            return -1
        self.cells[front], self.places[thing], self.carried = FREE, 0, thing
        return thing

    def _drop(self) -> int:
        front, thing = self.front, self.carried
        if thing >= 0 and self.cells[front] == FREE:
            self.cells[front], self.places[thing], self.carried = thing + 1, front, -1
        else:
            thing = -1
        self.marks = self.places.copy()
        return thing

    def _toggle(self) -> bool:
        front = self.front
        thing = self.cells[front] - 1
        if thing < 0:
            return False
        kind = self.layout.things[thing].kind
        if kind == "door":
            return self._toggle_door(thing)
        if kind != "box":
            return False
        content = self.layout.hidden.get(thing, -1)
        self.places[thing], self.gone = 0, self.gone | 1 << thing
        self.cells[front] = content + 1
        if content >= 0:
            self.places[content] = front
        return True

    def _toggle_door(self, door: int) -> bool:
        if self.doors[door] == LOCKED and not self.has_key(door):
            return False
        self.doors[door] = CLOSED if self.doors[door] == OPEN else OPEN
        return True

    def has_key(self, door: int) -> bool:
        """Return whether the carried thing is a key of the door's colour."""
        if self.carried < 0:
            return False
        carried = self.layout.things[self.carried]
        return carried.kind == "key" and carried.color == self.layout.things[door].color

    # ---- the mission ------------------------------------------------------------------------------------------------

    def _judge(self, move: int, touched: int) -> None:
        mission, begins = self.layout.mission, False
        for part in mission.parts:
            bits = [1 << index for index in part]
            if all(self.done & bit for bit in bits):
                continue
            for index, bit in zip(part, bits, strict=True):
                if not self.done & bit and self._holds(mission.clauses[index], move, touched, begins):
                    self.done |= bit
            if not all(self.done & bit for bit in bits):
                return
            begins = True

    def _holds(self, clause: Clause, move: int, touched: int, begins: bool) -> bool:
        """Return whether a move fulfils a clause; `begins` if the clause counts only since this move.

        As in BabyAI, a drop that completes the first part never counts for the second one.
        """
        if clause.verb is _GO_TO:
            front, marks = self.front, self.marks
            return any(marks[thing] == front for thing in clause.things)
        if clause.verb is _PICK_UP:
            return move == PICKUP and touched in clause.things
        if clause.verb is _OPEN:
            door = self.cells[self.front] - 1
            return move == TOGGLE and door in clause.things and self.doors[door] == OPEN
        if move != DROP or begins or touched not in clause.things:
            return False
        return any(self.is_beside(self.places[touched], self.marks[other]) for other in clause.others)

    def is_beside(self, cell: int, other: int) -> bool:
        """Return whether two cells have a side in common."""
        return bool(other) and abs(cell - other) in (1, self.layout.stride)

    @property
    def pending(self) -> list[Clause]:
        """Return the clauses that are not done and count now."""
        mission = self.layout.mission
        for part in mission.parts:
            if rest := [mission.clauses[index] for index in part if not self.done >> index & 1]:
                return rest
        return []

    @property
    def open_clauses(self) -> list[Clause]:
        """Return all clauses that are not done."""
        return [clause for index, clause in enumerate(self.layout.mission.clauses) if not self.done >> index & 1]

    @property
    def is_lost(self) -> bool:
        """Return whether a clause can never be done, because every box that it means is gone."""
        return bool(self.gone) and any(
            all(self.gone >> thing & 1 for thing in things)
            for clause in self.open_clauses
            for things in (clause.things, clause.others)
            if things
        )
