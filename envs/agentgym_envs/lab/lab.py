"""The state of a laboratory in an episode, and the passing of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from agentgym_envs.lab.circuit import rings
from agentgym_envs.lab.matter import LIQUID, ROOM, STAGE, Substance, phase_at, state_name, warm
from agentgym_envs.lab.site import HAND, Puzzle, floor
from agentgym_envs.lab.words import with_article
from agentgym_py.env.tools import RefusedError


class Command(NamedTuple):
    """A parsed command."""

    verb: str
    """A key of `VERBS`, such as `pick up`."""
    first: str = ""
    second: str = ""
    """The name after `to`, `into` or `on`."""


class Found(NamedTuple):
    """What a name means here: a thing, or a substance in a thing."""

    thing: int
    substance: int = -1


class Cell:
    """What a vessel holds, and how warm and how grown it is."""

    __slots__ = ("contents", "growth", "phase", "pollinated", "temperature", "water")

    def __init__(self, contents: list[int], temperature: int, phase: int) -> None:
        self.contents, self.temperature, self.phase = contents, temperature, phase
        self.growth = self.water = self.pollinated = 0

    def copy(self) -> Cell:
        """Return an independent copy."""
        cell = Cell(self.contents.copy(), self.temperature, self.phase)
        cell.growth, cell.water, cell.pollinated = self.growth, self.water, self.pollinated
        return cell

    def to_json(self) -> list[Any]:
        """Return the cell as JSON values."""
        return [self.contents.copy(), self.temperature, self.phase, self.growth, self.water, self.pollinated]


class Lab:
    """A laboratory in an episode.

    Commands change it (`verbs`). Time passes with every command: bodies warm and cool, seeds and eggs grow.
    """

    __slots__ = (
        "cells",
        "facts",
        "focused",
        "on",
        "open_doors",
        "opened",
        "place",
        "puzzle",
        "room",
        "seen",
        "visited",
        "wires",
    )  # fmt: skip

    def __init__(self, puzzle: Puzzle) -> None:
        self.puzzle = puzzle
        self.room = puzzle.start
        self.place = [thing.place for thing in puzzle.things]
        self.open_doors: set[int] = set()
        """Doors between rooms that are open."""
        self.opened: set[int] = set()
        """Things that are open."""
        self.on = {i for i, thing in enumerate(puzzle.things) if thing.on}
        self.cells = [self._new_cell(i) for i in puzzle.vessels]
        self.wires: set[tuple[int, int]] = set()
        """Connected parts, the smaller index first."""
        self.seen: set[int] = set()
        """Things that an observation has shown."""
        self.visited = {self.room}
        self.facts: dict[str, int] = {}
        """What was found out, such as `melts 3`: 80."""
        self.focused: list[str] = []
        if not puzzle.locked:
            self.open_doors.update(range(len(puzzle.doors)))
        self.see()

    def _new_cell(self, i: int) -> Cell:
        thing = self.puzzle.things[i]
        phase = phase_at(self.puzzle.substances[thing.contents[0]], thing.temperature) if thing.contents else LIQUID
        return Cell(list(thing.contents), thing.temperature, phase)

    def copy(self) -> Lab:
        """Return an independent copy."""
        lab: Lab = object.__new__(Lab)
        lab.puzzle, lab.room, lab.place = self.puzzle, self.room, self.place.copy()
        lab.open_doors, lab.opened, lab.on = self.open_doors.copy(), self.opened.copy(), self.on.copy()
        lab.cells, lab.wires = [cell.copy() for cell in self.cells], self.wires.copy()
        lab.seen, lab.visited, lab.facts = self.seen.copy(), self.visited.copy(), self.facts.copy()
        lab.focused = self.focused.copy()
        return lab

    # ---- queries ----------------------------------------------------------------------------------------------------

    def accessible(self, i: int) -> bool:
        """Tell whether a thing is open or has no door."""
        return not self.puzzle.traits[i].door or i in self.opened

    def room_of(self, i: int) -> int:
        """Return the room in which a thing is; the agent's for what it holds."""
        place = self.place[i]
        if place == HAND:
            return self.room
        return -2 - (place if place < HAND else self.place[place])

    def reachable(self, i: int) -> bool:
        """Tell whether a thing is in the hand or lies open in the agent's room."""
        place = self.place[i]
        if place < 0:
            return place == HAND or place == floor(self.room)
        return self.place[place] == floor(self.room) and self.accessible(place)

    def all_reachable(self) -> list[int]:
        """List the things in the agent's hand and open in its room."""
        here, place, accessible = floor(self.room), self.place, self.accessible
        return [
            i for i, at in enumerate(place)
            if at in (HAND, here) or (at >= 0 and place[at] == here and accessible(at))
        ]  # fmt: skip

    def cell(self, i: int) -> Cell | None:
        """Return the cell of a vessel; None for other things."""
        number = self.puzzle.cell_of.get(i)
        return None if number is None else self.cells[number]

    def contents(self, i: int) -> list[int]:
        """Return the substances in a vessel or a supply; a sink gives water while it is on."""
        number = self.puzzle.cell_of.get(i)
        if number is not None:
            return self.cells[number].contents
        thing = self.puzzle.things[i]
        gives = thing.stock >= 0 and (i in self.on or not self.puzzle.traits[i].gated)
        return [thing.stock] if gives else []

    def stage(self, cell: Cell) -> int:
        """Return the stage of what grows in a cell."""
        return cell.growth // STAGE

    def content_name(self, i: int, substance: int) -> str:
        """Return the name of a substance in a thing: `bean seedling` for a seed that has grown."""
        number = self.puzzle.cell_of.get(i)
        stages = self.puzzle.substances[substance].stages
        if number is None or not stages:
            return self.puzzle.substances[substance].name
        return stages[self.stage(self.cells[number])]

    def state_of(self, i: int) -> str:
        """Return the state of matter of what a vessel or supply holds."""
        number = self.puzzle.cell_of.get(i)
        if number is not None:
            return state_name(self.cells[number].phase)
        return state_name(phase_at(self.puzzle.substances[self.puzzle.things[i].stock], ROOM))

    def find(self, name: str) -> Found:
        """Return what a name means here; RefusedError if it means nothing.

        A substance is rather the one in a vessel than its supply.
        """
        i = self.puzzle.by_name.get(name)
        if i is not None and self.reachable(i):
            return Found(i)
        if i is None:
            for holder in sorted(self.all_reachable(), key=lambda j: j not in self.puzzle.cell_of):
                for substance in self.contents(holder):
                    if self.content_name(holder, substance) == name:
                        return Found(holder, substance)
        raise RefusedError(f"There is no {name[:40]} here.")

    def holds(self, i: int) -> list[int]:
        """List the things on or in a thing."""
        return [j for j, at in enumerate(self.place) if at == i]

    def powered(self) -> Iterator[tuple[list[int], bool]]:
        """Yield each closed circuit with a source, and whether current flows in it."""
        puzzle = self.puzzle
        for ring in rings(self.wires):
            sources = [i for i in ring if puzzle.traits[i].part == "source"]
            if sources:
                live = any(self.gives_power(i) for i in sources)
                yield ring, live and all(puzzle.things[i].value for i in ring if puzzle.traits[i].part == "sample")

    def gives_power(self, i: int) -> bool:
        """Tell whether a source gives power: a solar panel does so outdoors, a battery always."""
        return self.puzzle.things[i].kind == "battery" or self.room_of(i) == self.puzzle.outdoors

    # ---- time -------------------------------------------------------------------------------------------------------

    def surroundings(self, i: int) -> int:
        """Return the temperature to which a vessel tends."""
        place = self.place[i]
        if place >= 0 and place in self.on and self.puzzle.traits[place].tempers:
            device = self.puzzle.things[place]
            return device.value if device.works else ROOM
        return ROOM

    def pass_time(self, ticks: int) -> list[str]:
        """Let time pass; return sentences on what changes within reach."""
        puzzle, news = self.puzzle, list[str]()
        for i, cell in zip(puzzle.vessels, self.cells, strict=True):
            substance = puzzle.substances[cell.contents[0]] if cell.contents else None
            if puzzle.traits[i].portable:
                level = self.surroundings(i)
                if level == cell.temperature and not cell.phase % 4:
                    continue
                before = cell.phase
                for _ in range(ticks):
                    cell.temperature, cell.phase = warm(substance, cell.temperature, cell.phase, level)
                if substance and state_name(before) != state_name(cell.phase) and self.reachable(i):
                    news.append(f"The {substance.name} is {state_name(cell.phase)}.")
            elif substance and substance.stages:
                name = self.content_name(i, cell.contents[0])
                for _ in range(ticks):
                    self._grow(i, cell, substance)
                if self.reachable(i) and name != (now := self.content_name(i, cell.contents[0])):
                    news.append(f"In the {puzzle.things[i].name} there is {with_article(now)} now.")
        return news

    def _grow(self, i: int, cell: Cell, substance: Substance) -> None:
        """Grow by a tick: a plant if its soil is moist, an egg if its incubator is on."""
        if substance.grows_in == "planter" and not cell.water:
            return
        if substance.grows_in == "incubator" and i not in self.on:
            return
        cell.water = max(0, cell.water - 1)
        last = len(substance.stages) - 1
        if substance.grows_in == "planter" and last == 4 and not cell.pollinated:
            last -= 1  # no fruit without pollen
        cell.growth = min(cell.growth + 1, last * STAGE)

    # ---- knowledge ---------------------------------------------------------------------------------------------------

    def see(self) -> None:
        """Note that the observation shows all things within reach."""
        self.seen.update(self.all_reachable())
