"""Steps that the experts of all task families are made of: go, find, hold, put, fill.

A step returns the next command towards something, or None if that is reached. So a family writes its plan as a chain:
`planner.hold(cup) or planner.reach(supply) or "pour ..."`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.site import HAND, Goal, Puzzle
from agentgym_envs.lab.verbs import DRAIN


class LostError(Exception):
    """The fair expert has searched everywhere."""


class Planner:
    """Plans in a laboratory, knowing everything or only what the episode has shown."""

    def __init__(self, lab: Lab, fair: bool) -> None:
        self.lab, self.fair = lab, fair
        self.puzzle: Puzzle = lab.puzzle
        self.goal: Goal = lab.puzzle.goal
        self.why = ""
        """The thought before the command."""

    # ---- knowledge --------------------------------------------------------------------------------------------------

    def name(self, i: int) -> str:
        """Return a thing's name."""
        return self.puzzle.things[i].name

    def knows(self, i: int) -> bool:
        """Tell whether the planner knows where a thing is."""
        return not self.fair or i in self.lab.seen

    def known(self, *kinds: str) -> list[int]:
        """List the known things of some kinds."""
        return [i for i, thing in enumerate(self.puzzle.things) if thing.kind in kinds and self.knows(i)]

    def fact(self, what: str, i: int) -> int | None:
        """Return a fact that was found out."""
        return self.lab.facts.get(f"{what} {i}")

    def supply(self, substance: int) -> int | None:
        """Return a known thing that never runs out of a substance."""
        return next((i for i, t in enumerate(self.puzzle.things) if t.stock == substance and self.knows(i)), None)

    def distance(self, i: int) -> int:
        """Return how many rooms away a thing is; -1 for one in the hand."""
        lab = self.lab
        if lab.place[i] == HAND:
            return -1
        goal, rooms, distance = lab.room_of(i), {lab.room}, 0
        while goal not in rooms:
            rooms |= {other for room in rooms for _, other in self.puzzle.next_rooms(room)}
            distance += 1
        return distance

    # ---- places -----------------------------------------------------------------------------------------------------

    def go(self, room: int) -> str | None:
        """Go to a room; explore if no known way leads there."""
        if room == self.lab.room:
            return None
        try:
            return self._way(lambda other: other == room)[0]
        except LostError:
            return self.explore(f"the {self.puzzle.rooms[room]}")

    def _way(self, is_end: Callable[[int], bool]) -> tuple[str, int]:
        """Return the first command on the way to the nearest other room that is an end, and that room.

        A fair planner knows only the rooms that were visited and their neighbours.
        """
        lab, puzzle = self.lab, self.puzzle
        paths = [(other, door, other) for door, other in puzzle.next_rooms(lab.room)]
        reached = {lab.room, *(other for other, _, _ in paths)}
        for room, first_door, first_room in paths:
            if is_end(room):
                name = puzzle.rooms[first_room]
                return (f"go to {name}" if first_door in lab.open_doors else f"open door to {name}"), room
            if self.fair and room not in lab.visited:
                continue
            for _, other in puzzle.next_rooms(room):
                if other not in reached:
                    reached.add(other)
                    paths.append((other, first_door, first_room))
        raise LostError

    def explore(self, what: str) -> str:
        """Look for something unknown: in this room's closed furniture, in the nearest new room, in other furniture."""
        lab, traits = self.lab, self.puzzle.traits
        for i in lab.all_reachable():
            if traits[i].door and i not in lab.opened:
                self.why = f"I have not found {what} yet. I try the {self.name(i)}."
                return f"open {self.name(i)}"
        try:
            step, room = self._way(lambda other: other not in lab.visited)
        except LostError:
            step, room = self._way(self._has_closed)
        self.why = f"I have not found {what} yet. I try the {self.puzzle.rooms[room]}."
        return step

    def _has_closed(self, room: int) -> bool:
        """Tell whether a known closed thing that was never opened stands in a room."""
        traits, lab = self.puzzle.traits, self.lab
        return any(traits[i].door and i not in lab.opened and lab.room_of(i) == room for i in lab.seen)

    def reach(self, i: int | None, what: str = "") -> str | None:
        """Come to a thing and open what it is in; explore if it is unknown."""
        if i is None or not self.knows(i):
            return self.explore(what or f"the {self.name(i)}" if i is not None else what)
        lab = self.lab
        if lab.reachable(i):
            return None
        room = lab.room_of(i)
        if step := self.go(room):
            self.why = f"The {self.name(i)} is in the {self.puzzle.rooms[room]}."
            return step
        self.why = f"The {self.name(i)} is in the {self.name(lab.place[i])}."
        return f"open {self.name(lab.place[i])}"

    # ---- things -----------------------------------------------------------------------------------------------------

    def hold(self, i: int | None, what: str = "") -> str | None:
        """Take a thing into the hands."""
        if i is not None and self.lab.place[i] == HAND:
            return None
        if step := self.reach(i, what):
            return step
        assert i is not None
        self.why = f"I need the {self.name(i)}."
        return self.loose(i) or f"pick up {self.name(i)}"

    def loose(self, i: int) -> str | None:
        """Disconnect a thing."""
        return f"disconnect {self.name(i)}" if any(i in wire for wire in self.lab.wires) else None

    def put(self, i: int, target: int) -> str | None:
        """Bring a thing into or onto another; take it along if the other must be found."""
        if self.lab.place[i] == target:
            return None
        if step := self.hold(i) or self.reach(target):
            return step
        self.why = f"The {self.name(i)} belongs there."
        return self.open(target) or f"move {self.name(i)} to {self.name(target)}"

    def open(self, i: int) -> str | None:
        """Open a reachable thing."""
        return None if self.lab.accessible(i) else f"open {self.name(i)}"

    def switch_on(self, i: int) -> str | None:
        """Activate a device."""
        if i in self.lab.on:
            return None
        if step := self.reach(i):
            return step
        self.why = f"The {self.name(i)} must be on."
        return f"activate {self.name(i)}"

    # ---- substances -------------------------------------------------------------------------------------------------

    def cup_for(self, substances: Collection[int]) -> int | None:
        """Return a known cup: one with some of the substances and no others, else the nearest empty one, else any."""
        cups = self.known("cup")
        cells = {i: self.lab.contents(i) for i in cups}
        filled = [i for i in cups if cells[i] and set(cells[i]) <= set(substances)]
        empty = sorted((i for i in cups if not cells[i]), key=self.distance)
        return next(iter([*sorted(filled, key=lambda i: -len(cells[i])), *empty, *cups]), None)

    def fill(self, cup: int | None, substances: Sequence[int]) -> str | None:
        """Bring substances, and no others, into a held cup."""
        if step := self.hold(cup, "a cup"):
            return step
        assert cup is not None
        contents = self.lab.contents(cup)
        if not set(contents) <= set(substances):
            self.why = f"The {self.name(cup)} holds something else."
            return f"pour {self.name(cup)} into {DRAIN}"
        missing = [substance for substance in substances if substance not in contents]
        return self.pour_stock(min(missing, key=self._distance), cup) if missing else None

    def _distance(self, substance: int) -> int:
        """Return 0 for a substance within reach, 1 for one whose supply is known, else 2."""
        supply = self.supply(substance)
        return 2 if supply is None else 0 if self.lab.reachable(supply) else 1

    def pour_stock(self, substance: int, target: int) -> str:
        """Pour a substance from its supply into a vessel within reach of the supply."""
        name, supply = self.puzzle.substances[substance].name, self.supply(substance)
        if step := self.reach(supply, f"the {name}"):
            return step
        assert supply is not None
        if self.puzzle.things[supply].kind == "tap":
            if step := self.switch_on(supply):
                return step
            self.why = f"Here is {name}."
            return f"dunk {self.name(target)} into {self.name(supply)}"
        self.why = f"I need {name}."
        return f"pour {self.name(supply)} into {self.name(target)}"

    def wait(self, why: str, short: bool = False) -> str:
        """Let time pass."""
        self.why = why
        return "wait1" if short else "wait"

    def say(self, why: str, command: str) -> str:
        """Do a command for a reason."""
        self.why = why
        return command
