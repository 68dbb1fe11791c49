"""Rooms in a grid, and how they are furnished: the rules of BabyAI's generator."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_envs.grid.mission import LOCATIONS, Clause, Description, Mission, Verb
from agentgym_envs.grid.world import BORDER, CLOSED, FREE, LOCKED, OPEN, WALL, Layout, Thing, stride
from agentgym_py.rng import Rng

KINDS = ("box", "ball", "key", "door")
MOVABLE = KINDS[:3]
Room = tuple[int, int]
"""Column and row."""
_SIDES = ((1, 0), (0, 1), (-1, 0), (0, -1))
_TRIES = 300


class UnfitError(Exception):
    """What was drawn does not fit; everything is drawn again."""


class Rooms:
    """A layout under construction: draw things, then the agent or the other way round, then `finish` with a mission.

    Errors: methods raise UnfitError if there is no place.
    """

    def __init__(self, rng: Rng, colors: Sequence[str], rows: int, columns: int, size: int) -> None:
        self.rng, self.colors = rng, colors
        self.rows, self.columns, self.size = rows, columns, size
        self.stride = stride(columns, size)
        self.steps = (1, self.stride, -1, -self.stride)
        height = (size - 1) * rows + 1
        self.cells = [WALL] * (self.stride * (height + 2 * BORDER))
        for column in range(columns):
            for row in range(rows):
                for cell in self.inside((column, row)):
                    self.cells[cell] = FREE
        self.things: list[Thing] = []
        self.doors: list[int] = []
        self.facing = 0
        self.at = self.cell(
            columns // 2 * (size - 1) + size // 2, rows // 2 * (size - 1) + size // 2
        )  # as in BabyAI, until the agent is placed
        self.sides: dict[tuple[Room, int], int] = {}
        """The door in a side of a room, by index; -1 for a missing wall."""
        self.locked_rooms: set[Room] = set()
        self._gaps = {
            (column, row, side): 1 + rng.below(size - 2)
            for column in range(columns)
            for row in range(rows)
            for side in (0, 1)
        }
        """Where a door to the east or south would be."""

    def cell(self, x: int, y: int) -> int:
        """Return the number of a cell."""
        return (y + BORDER) * self.stride + x + BORDER

    def inside(self, room: Room) -> list[int]:
        """Return the cells of a room, without its walls."""
        x, y = room[0] * (self.size - 1), room[1] * (self.size - 1)
        return [self.cell(x + dx, y + dy) for dy in range(1, self.size - 1) for dx in range(1, self.size - 1)]

    def any_room(self, without: Room | None = None) -> Room:
        """Draw a room."""
        while (room := (self.rng.below(self.columns), self.rng.below(self.rows))) == without:
            pass
        return room

    def room_of(self, cell: int) -> Room:
        """Return the room of a cell; a shared wall belongs to the room to the east or south, as in BabyAI."""
        y, x = divmod(cell, self.stride)
        return (x - BORDER) // (self.size - 1), (y - BORDER) // (self.size - 1)

    def neighbour(self, room: Room, side: int) -> Room | None:
        """Return the room beyond a side."""
        column, row = room[0] + _SIDES[side][0], room[1] + _SIDES[side][1]
        return (column, row) if 0 <= column < self.columns and 0 <= row < self.rows else None

    # ---- furnishing -------------------------------------------------------------------------------------------------

    def add(self, room: Room, kind: str | None = None, color: str | None = None) -> int:
        """Put a thing into a room, not right beside the agent; return its index."""
        thing = Thing(kind or self.rng.choice(MOVABLE), color or self.rng.choice(self.colors))
        free = [cell for cell in self.inside(room) if self.cells[cell] == FREE and not self._is_near(cell)]
        if not free:
            raise UnfitError
        return self.put(thing, self.rng.choice(free))

    def put(self, thing: Thing, cell: int) -> int:
        """Put a thing into a cell; 0 for one in a box."""
        self.things.append(thing)
        self.doors.append(0)
        if cell:
            self.cells[cell] = len(self.things)
        return len(self.things) - 1

    def _is_near(self, cell: int) -> bool:
        return cell == self.at or abs(cell - self.at) in (1, self.stride)

    def add_many(self, count: int, room: Room | None = None, unique: bool = True) -> list[int]:
        """Add things, to random rooms unless one is named; `unique` ones look different from all others."""
        added = list[int]()
        while len(added) < count:
            kind, color = self.rng.choice(MOVABLE), self.rng.choice(self.colors)
            if not unique or not any((thing.kind, thing.color) == (kind, color) for thing in self.things):
                added.append(self.add(room or self.any_room(), kind, color))
        return added

    def add_door(
        self, room: Room, side: int | None = None, color: str | None = None, locked: bool | None = None
    ) -> int:
        """Put a door into a side of a room that has none; return its index."""
        if side is None:
            sides = [each for each in range(4) if self.neighbour(room, each) and (room, each) not in self.sides]
            side = self.rng.choice(sides)
        locked = self.rng.below(2) == 0 if locked is None else locked
        door = self.put(Thing("door", color or self.rng.choice(self.colors)), self._gap(room, side))
        self.doors[door] = LOCKED if locked else CLOSED
        if locked:
            self.locked_rooms.add(room)
        self._connect(room, side, door)
        return door

    def _gap(self, room: Room, side: int) -> int:
        if side >= 2:
            return self._gap((room[0] + _SIDES[side][0], room[1] + _SIDES[side][1]), side - 2)
        x, y = room[0] * (self.size - 1), room[1] * (self.size - 1)
        gap = self._gaps[(*room, side)]
        return self.cell(x + self.size - 1, y + gap) if side == 0 else self.cell(x + gap, y + self.size - 1)

    def before_door(self, room: Room, side: int) -> int:
        """Return the cell of a room in front of the door in one of its sides."""
        return self._gap(room, side) - self.steps[side]

    def _connect(self, room: Room, side: int, door: int) -> None:
        other = self.neighbour(room, side)
        if other is None:
            raise UnfitError
        self.sides[room, side] = self.sides[other, (side + 2) % 4] = door

    def remove_wall(self, room: Room, side: int) -> None:
        """Open a whole side of a room."""
        self._connect(room, side, -1)
        along = self.steps[1 - side % 2]
        gap = self._gap(room, side)
        while self.cells[gap - along + self.steps[side]] != WALL:
            gap -= along
        while self.cells[gap + self.steps[side]] != WALL:
            self.cells[gap] = FREE
            gap += along

    def connect_all(self, colors: Sequence[str] | None = None) -> None:
        """Add doors until every room can be reached; rooms behind a locked door get no second one."""
        for _ in range(5000):
            if len(self._reached_rooms()) == self.rows * self.columns:
                return
            room, side = self.any_room(), self.rng.below(4)
            other = self.neighbour(room, side)
            if other is None or (room, side) in self.sides or {room, other} & self.locked_rooms:
                continue
            self.add_door(room, side, self.rng.choice(colors or self.colors), locked=False)
        raise UnfitError

    def _reached_rooms(self) -> set[Room]:
        reached, rooms = set[Room](), [self.room_of(self.at)]
        while rooms:
            room = rooms.pop()
            if room not in reached:
                reached.add(room)
                sides = (side for side in range(4) if (room, side) in self.sides)
                rooms += [other for side in sides if (other := self.neighbour(room, side))]
        return reached

    def add_locked_room(self) -> Room:
        """Lock a room, and put its key into another one; return the room."""
        while True:
            room, side = self.any_room(), self.rng.below(4)
            if self.neighbour(room, side):
                break
        door = self.add_door(room, side, locked=True)
        self.add(self.any_room(without=room), "key", self.things[door].color)
        return room

    def open_doors(self) -> None:
        """Open every door."""
        self.doors = [OPEN] * len(self.doors)

    def place_agent(self, room: Room | None = None) -> None:
        """Put the agent into a free cell, not right before a thing."""
        for _ in range(_TRIES):
            cell, facing = self.rng.choice(self.inside(room or self.any_room())), self.rng.below(4)
            if self.cells[cell] == FREE and self.cells[cell + self.steps[facing]] in (FREE, WALL):
                self.at, self.facing = cell, facing
                return
        raise UnfitError

    def are_reachable(self) -> bool:
        """Return whether every thing can be reached through doors without moving another one."""
        reached, queue = {self.at}, [self.at]
        for cell in queue:
            content = self.cells[cell]
            if content == FREE or (content > 0 and self.things[content - 1].kind == "door"):
                fresh = [cell + step for step in self.steps if cell + step not in reached]
                reached.update(fresh)
                queue += fresh
        return all(content <= 0 or cell in reached for cell, content in enumerate(self.cells))

    def require_reachable(self) -> None:
        """Raise UnfitError unless `are_reachable`."""
        if not self.are_reachable():
            raise UnfitError

    # ---- clauses ----------------------------------------------------------------------------------------------------

    def described(self, description: Description) -> frozenset[int]:
        """Return the things that a description means, seen from the agent's start."""
        places = {content - 1: cell for cell, content in enumerate(self.cells) if content > 0}
        return frozenset(
            index
            for index, cell in places.items()
            if description.kind in (None, self.things[index].kind)
            and description.color in (None, self.things[index].color)
            and (description.location is None or self._is_at(cell, description.location))
        )

    def _is_at(self, cell: int, location: str) -> bool:
        (y, x), (start_y, start_x) = divmod(cell, self.stride), divmod(self.at, self.stride)
        column, row = self.room_of(self.at)
        left, top = column * (self.size - 1) + BORDER, row * (self.size - 1) + BORDER
        if not (left <= x < left + self.size and top <= y < top + self.size):
            return False
        ahead_x, ahead_y = _SIDES[self.facing]
        ahead = (x - start_x) * ahead_x + (y - start_y) * ahead_y
        right = (y - start_y) * ahead_x - (x - start_x) * ahead_y
        return {"left": right < 0, "right": right > 0, "front": ahead > 0, "behind": ahead < 0}[location]

    def clause(self, verb: Verb, thing: Description, other: Description | None = None) -> Clause:
        """Make a clause; UnfitError if nothing fits, or if it asks for what already is so."""
        things, others = self.described(thing), self.described(other) if other else frozenset[int]()
        if not things or (other and (not others or things & others or self._are_beside(things, others))):
            raise UnfitError
        return Clause(verb, thing, things, other, others)

    def _are_beside(self, things: frozenset[int], others: frozenset[int]) -> bool:
        places = {content - 1: cell for cell, content in enumerate(self.cells) if content > 0}
        return any(abs(places[a] - places[b]) in (1, self.stride) for a in things for b in others)

    def look(self, index: int) -> Description:
        """Return the description of a thing by colour and kind."""
        return Description(self.things[index].kind, self.things[index].color)

    def any_description(self, kinds: Sequence[str], locations: bool, reach: frozenset[int] | None) -> Description:
        """Draw a description that means something; with `reach`, one of these things."""
        for _ in range(_TRIES):
            color = self.rng.choice((None, *self.colors))
            location = self.rng.choice(LOCATIONS) if locations and self.rng.below(2) else None
            description = Description(self.rng.choice(kinds), color, location)
            things = self.described(description)
            if things and (reach is None or things & reach):
                return description
        raise UnfitError

    def finish(self, level: str, mission: Mission, limit: int | None) -> Layout:
        """Return the layout; `limit` None is BabyAI's usual one: walks times the number of cells."""
        usual = mission.navigations * self.size**2 * self.rows * self.columns
        return Layout(
            level, self.rows, self.columns, self.size, tuple(self.cells), tuple(self.things), tuple(self.doors),
            self.at, self.facing, mission, limit or usual,
        )  # fmt: skip
