"""The state of a laboratory in an episode, and the rules of its commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from agentgym_envs.lab.circuit import rings
from agentgym_envs.lab.matter import LIQUID, MOIST, ROOM, SOLID, STAGE, Substance, phase_at, state_name, warm
from agentgym_envs.lab.site import HAND, Puzzle, floor

WAIT = 10
"""Ticks of `wait`; every other command takes one tick."""
DRAIN = "drain"
"""Where substances can be poured away, in every room."""
_MOST_PARTS = 4
"""Most substances in a vessel."""


class Command(NamedTuple):
    """A parsed command."""

    verb: str
    """A key of `VERBS`, such as `pick up`."""
    first: str = ""
    second: str = ""
    """The name after `to`, `into` or `on`."""


class RefusedError(Exception):
    """A command cannot be done; the message is the observation, and nothing has changed."""


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

    `do` obeys a command and returns the observation, or raises RefusedError and changes nothing. Time passes with every
    command: bodies warm and cool, seeds and eggs grow.
    """

    __slots__ = (
        "cells", "facts", "focused", "inside", "on", "opened", "place", "puzzle", "room", "seen", "visited", "wires",
    )  # fmt: skip

    def __init__(self, puzzle: Puzzle) -> None:
        self.puzzle = puzzle
        self.room = puzzle.start
        self.place = [thing.place for thing in puzzle.things]
        self.inside: set[int] = set()
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
            self.inside.update(range(len(puzzle.doors)))
        self._see()

    def _new_cell(self, i: int) -> Cell:
        thing = self.puzzle.things[i]
        phase = phase_at(self.puzzle.substances[thing.contents[0]], thing.temperature) if thing.contents else LIQUID
        return Cell(list(thing.contents), thing.temperature, phase)

    def copy(self) -> Lab:
        """Return an independent copy."""
        lab: Lab = object.__new__(Lab)
        lab.puzzle, lab.room, lab.place = self.puzzle, self.room, self.place.copy()
        lab.inside, lab.opened, lab.on = self.inside.copy(), self.opened.copy(), self.on.copy()
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

    def _thing(self, name: str) -> int:
        found = self.find(name)
        if found.substance >= 0:
            raise RefusedError(f"Name what holds the {name}.")
        return found.thing

    def portable(self, name: str) -> int:
        """Return a thing that can be moved now."""
        i = self._thing(name)
        if not self.puzzle.traits[i].portable:
            raise RefusedError(f"The {name} cannot be moved.")
        if any(i in wire for wire in self.wires):
            raise RefusedError(f"The {name} is connected: disconnect it first.")
        return i

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
                    news.append(f"In the {puzzle.things[i].name} there is a {now} now.")
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

    # ---- commands ---------------------------------------------------------------------------------------------------

    def do(self, command: Command) -> str:
        """Do a command and return its observation."""
        text = VERBS[command.verb](self, command.first, command.second)
        news = self.pass_time(WAIT if command.verb == "wait" else 1)
        return " ".join([text, *news]) if news else text

    def _see(self) -> None:
        self.seen.update(self.all_reachable())

    def _door(self, name: str) -> int:
        """Return the door of the agent's room that leads to a room."""
        for door, room in self.puzzle.next_rooms(self.room):
            if self.puzzle.rooms[room] == name:
                return door
        raise RefusedError(f"No door leads to {name[:40]} from here.")

    def go(self, name: str, _: str) -> str:
        """Go through an open door."""
        door = self._door(name)
        if door not in self.inside:
            raise RefusedError(f"The door to the {name} is closed.")
        self.room = self.puzzle.rooms.index(name)
        self.visited.add(self.room)
        self._see()
        return self.view()

    def open(self, name: str, _: str) -> str:
        """Open a door or a thing."""
        if name.startswith("door to "):
            door = self._door(name.removeprefix("door to "))
            if door in self.inside:
                raise RefusedError(f"The {name} is open already.")
            self.inside.add(door)
            return f"The {name} is open."
        i = self._thing(name)
        if self.accessible(i):
            raise RefusedError(f"The {name} cannot be opened, or is open.")
        self.opened.add(i)
        self._see()
        return f"The {name} is open. {self._inside_text(i)}"

    def close(self, name: str, _: str) -> str:
        """Close a door or a thing."""
        if name.startswith("door to "):
            door = self._door(name.removeprefix("door to "))
            if door not in self.inside:
                raise RefusedError(f"The {name} is closed already.")
            self.inside.remove(door)
            return f"The {name} is closed."
        i = self._thing(name)
        if i not in self.opened:
            raise RefusedError(f"The {name} cannot be closed, or is closed.")
        self.opened.remove(i)
        return f"The {name} is closed."

    def pick_up(self, name: str, _: str) -> str:
        """Take a thing into the hands, which hold any number of things."""
        i = self.portable(name)
        if self.place[i] == HAND:
            raise RefusedError(f"You hold the {name} already.")
        self.place[i] = HAND
        return f"You hold the {name}."

    def put_down(self, name: str, _: str) -> str:
        """Put a held thing on the floor."""
        i = self.portable(name)
        if self.place[i] != HAND:
            raise RefusedError(f"You do not hold the {name}.")
        self.place[i] = floor(self.room)
        return f"The {name} is on the floor."

    def move(self, name: str, target: str) -> str:
        """Put a thing on or into another; a substance is poured."""
        found = self.find(name)
        if found.substance >= 0:
            return self.pour(self.puzzle.things[found.thing].name, target)
        i, j = self.portable(name), self._thing(target)
        if self.puzzle.traits[j].vessel:
            raise RefusedError(f"The {target} takes only substances: pour them into it.")
        if not self.puzzle.traits[j].holds or i == j:
            raise RefusedError(f"The {target} cannot hold the {name}.")
        if not self.accessible(j):
            raise RefusedError(f"The {target} is closed.")
        if self.place[i] == j:
            raise RefusedError(f"The {name} is there already.")
        self.place[i] = j
        where = "in" if self.puzzle.traits[j].door or self.puzzle.things[j].kind == "box" else "on"
        return f"The {name} is {where} the {target}."

    def pour(self, name: str, target: str) -> str:
        """Pour what a thing holds into a vessel or the drain; a supply never runs out."""
        i = self.find(name).thing
        contents, cell, name = self.contents(i), self.cell(i), self.puzzle.things[i].name
        if not contents or self.puzzle.traits[i].sealed:
            raise RefusedError(f"Nothing can be poured from the {name}.")
        if target == DRAIN:
            if cell is None:
                raise RefusedError(f"The {name} cannot be poured away.")
            self._clear(cell)
            return f"The {name} is empty."
        j = self._thing(target)
        into = self.cell(j)
        if into is None or i == j or self.puzzle.traits[j].sealed:
            raise RefusedError(f"Nothing can be poured into the {target}.")
        if cell and cell.phase > LIQUID:
            raise RefusedError("A gas cannot be poured.")
        if cell and cell.growth:
            raise RefusedError(f"What grows in the {name} stays there; the drain takes it.")
        if not self.puzzle.traits[j].portable:
            self._plant(j, into, contents)
        else:
            self._fill(target, into, contents, cell)
        if cell:
            self._clear(cell)
        return f"The {target} holds {self.contents_text(j) or 'moist soil'}."

    def _plant(self, j: int, into: Cell, contents: list[int]) -> None:
        """Pour water, seeds or eggs into what makes them grow."""
        kind, target = self.puzzle.things[j].kind, self.puzzle.things[j].name
        if len(contents) > 1:
            raise RefusedError(f"The {target} takes one substance at a time.")
        substance = self.puzzle.substances[contents[0]]
        if kind == "planter" and substance.name == "water":
            into.water = MOIST
            return
        if substance.grows_in != kind:
            raise RefusedError(f"The {target} does not take {substance.name}.")
        if into.contents:
            raise RefusedError(f"Something grows in the {target} already.")
        into.contents = [*contents]

    def _fill(self, target: str, into: Cell, contents: list[int], source: Cell | None) -> None:
        """Pour substances into a cup."""
        union = [*into.contents, *(substance for substance in contents if substance not in into.contents)]
        if len(union) > _MOST_PARTS:
            raise RefusedError(f"The {target} is full.")
        if not into.contents:
            into.temperature = source.temperature if source else ROOM
            first = self.puzzle.substances[contents[0]]
            into.phase = source.phase if source else phase_at(first, ROOM)
        into.contents = union

    def _clear(self, cell: Cell) -> None:
        cell.contents, cell.phase = [], LIQUID
        cell.growth = cell.water = cell.pollinated = 0

    def dunk(self, name: str, target: str) -> str:
        """Fill a cup by dunking it into a liquid."""
        i, j = self._thing(name), self._thing(target)
        if not self.puzzle.traits[i].vessel or not self.puzzle.traits[i].portable:
            raise RefusedError(f"The {name} cannot be dunked.")
        if not self.contents(j) or self.state_of(j) != "liquid":
            raise RefusedError(f"There is no liquid in the {target}.")
        return self.pour(target, name)

    def mix(self, name: str, _: str) -> str:
        """Mix what a vessel holds; it reacts if these substances react."""
        i = self._thing(name)
        cell = self.cell(i)
        if cell is None or len(cell.contents) < 2:
            raise RefusedError(f"There is nothing to mix in the {name}.")
        product = self.puzzle.reactions.get(frozenset(cell.contents))
        if product is None:
            return "You stir, but nothing happens."
        cell.contents = [product]
        cell.phase = phase_at(self.puzzle.substances[product], cell.temperature)
        return f"You stir. The {name} holds {self.contents_text(i)}."

    def activate(self, name: str, _: str) -> str:
        """Switch a device on."""
        i = self._thing(name)
        if not self.puzzle.traits[i].switch or i in self.on:
            raise RefusedError(f"The {name} cannot be activated, or is on.")
        if not self.puzzle.things[i].works:
            self.facts[f"broken {i}"] = 1
            return f"Nothing happens: the {name} is broken."
        self.on.add(i)
        return f"The {name} is on."

    def deactivate(self, name: str, _: str) -> str:
        """Switch a device off."""
        i = self._thing(name)
        if i not in self.on:
            raise RefusedError(f"The {name} is not on.")
        self.on.remove(i)
        return f"The {name} is off."

    def use(self, name: str, target: str) -> str:
        """Use an instrument on something."""
        i = self._thing(name)
        kind = self.puzzle.things[i].kind
        if self.puzzle.traits[i].switch and not target:
            return self.activate(name, "")
        rule = _INSTRUMENTS.get(kind)
        if rule is None or not target:
            raise RefusedError(f"The {name} is of no use here." if target else f"Use the {name} on what?")
        if self.place[i] != HAND:
            raise RefusedError(f"You do not hold the {name}.")
        return rule(self, self.find(target))

    def _measure(self, found: Found) -> str:
        i, cell = found.thing, self.cell(found.thing)
        degrees = cell.temperature if cell else ROOM
        text = f"The thermometer reads {degrees} degrees."
        if not self.contents(i):
            return text
        substance = self.contents(i)[0]
        self.facts[f"degrees {substance}"] = degrees
        if cell and SOLID < cell.phase < LIQUID:
            self.facts[f"melts {substance}"] = degrees
        return f"{text} The {self.content_name(i, substance)} is {self.state_of(i)}."

    def _time(self, found: Found) -> str:
        i = found.thing
        thing = self.puzzle.things[i]
        if thing.kind != "plane" or not any(self.puzzle.things[j].kind == "block" for j in self.holds(i)):
            raise RefusedError("Only a block on a plane can be timed.")
        self.facts[f"seconds {i}"] = thing.value
        return f"The block slides down the {thing.name} in {thing.value / 100:.2f} seconds."

    def _brush(self, found: Found) -> str:
        if self.puzzle.things[found.thing].kind == "parent":
            return self._cross(found.thing)
        cell = self.cell(found.thing)
        if cell is None or self.puzzle.things[found.thing].kind != "planter" or self.stage(cell) != 3:
            raise RefusedError("There is no flower to pollinate.")
        cell.pollinated = 1
        return "The flower is pollinated."

    def _cross(self, i: int) -> str:
        """Take pollen of a parent plant, or bring another parent's pollen to it, so that the pod ripens."""
        things, pollen = self.puzzle.things, self.facts.get("pollen", i)
        if pollen == i:
            self.facts["pollen"] = i
            return f"The brush is full of pollen of the {things[i].name}."
        self.on.update(j for j, thing in enumerate(things) if thing.kind == "pod")
        return f"The {things[i].name} is crossed with the {things[pollen].name}, and the pod is ripe."

    def connect(self, name: str, target: str) -> str:
        """Connect a wire to another part; a part has two ends."""
        i, j = self._thing(name), self._thing(target)
        parts = (self.puzzle.traits[i].part, self.puzzle.traits[j].part)
        wire = (min(i, j), max(i, j))
        if not all(parts) or i == j or "wire" not in parts:
            raise RefusedError("Only a wire can be connected, to another part.")
        if HAND in (self.place[i], self.place[j]):
            raise RefusedError("Put both parts down first.")
        if wire in self.wires:
            raise RefusedError("They are connected already.")
        for part, label in ((i, name), (j, target)):
            if sum(part in other for other in self.wires) > 1:
                raise RefusedError(f"Both ends of the {label} are connected.")
        self.wires.add(wire)
        return f"The {name} is connected to the {target}.{self._current()}"

    def disconnect(self, name: str, _: str) -> str:
        """Remove all connections of a part."""
        i = self._thing(name)
        cut = {wire for wire in self.wires if i in wire}
        if not cut:
            raise RefusedError(f"The {name} is not connected.")
        self.wires -= cut
        return f"The {name} is disconnected."

    def _current(self) -> str:
        """Note and tell what closed circuits do."""
        puzzle, text = self.puzzle, ""
        for ring, flows in self.powered():
            lamps = [i for i in ring if puzzle.traits[i].part == "lamp"]
            for lamp in lamps:
                text += f" The {puzzle.things[lamp].name} is {'on' if flows else 'off'}."
            live = any(self.gives_power(i) for i in ring if puzzle.traits[i].part == "source")
            for sample in ring:
                if lamps and live and puzzle.traits[sample].part == "sample":
                    self.facts[f"conducts {sample}"] = puzzle.things[sample].value
        return text

    def focus(self, name: str, _: str) -> str:
        """Focus on something; the goal judges it."""
        self.find(name)
        self.focused.append(name)
        return f"You focus on the {name}."

    def eat(self, name: str, _: str) -> str:
        """Take a bite."""
        i = self._thing(name)
        if self.puzzle.things[i].kind != "food":
            raise RefusedError(f"The {name} is no food.")
        return f"You take a bite of the {name}."

    def wait(self, _: str, __: str) -> str:
        """Let time pass."""
        return "Time passes."

    # ---- views ------------------------------------------------------------------------------------------------------

    def look_around(self, _: str, __: str) -> str:
        """Look around."""
        return self.view()

    def view(self) -> str:
        """Return the sentences on the agent's room."""
        puzzle, here = self.puzzle, floor(self.room)
        things = [self.describe(i) for i, at in enumerate(self.place) if at == here]
        doors = [
            f"{puzzle.rooms[room]}{'' if door in self.inside else ' (closed)'}"
            for door, room in puzzle.next_rooms(self.room)
        ]
        return f"You are in the {puzzle.rooms[self.room]}. Here: {'; '.join(things)}. Doors: {', '.join(doors)}."

    def describe(self, i: int) -> str:
        """Return a thing's name, state and what it holds."""
        thing, traits = self.puzzle.things[i], self.puzzle.traits[i]
        marks = list[str]()
        if traits.tempers:
            marks.append(f"{thing.value} degrees")
        if traits.switch:
            marks.append("on" if i in self.on else "off")
        if traits.vessel:
            marks.append(self.contents_text(i) or "empty")
        if thing.kind == "supply":
            marks.append(self.state_of(i))
        if thing.kind == "pod":
            marks.append("ripe" if i in self.on else "unripe")
        if traits.door and i not in self.opened:
            marks.append("closed")
        text = f"{thing.name} ({', '.join(marks)})" if marks else thing.name
        held = [self.describe(j) for j in self.holds(i)] if traits.holds and self.accessible(i) else []
        return f"{text} with {', '.join(held)}" if held else text

    def contents_text(self, i: int) -> str:
        """Return what a vessel holds: `liquid lead`; empty if it is empty."""
        cell = self.cell(i)
        if cell is None or not cell.contents:
            return ""
        names = [self.content_name(i, substance) for substance in cell.contents]
        if self.puzzle.substances[cell.contents[0]].stages and not self.puzzle.traits[i].portable:
            dry = self.puzzle.things[i].kind == "planter" and not cell.water
            return f"{names[0]}, {'dry' if dry else 'moist'}" if self.puzzle.things[i].kind == "planter" else names[0]
        return f"{state_name(cell.phase)} {' and '.join(names)}"

    def look_at(self, name: str, _: str) -> str:
        """Look closely at something."""
        found = self.find(name)
        i = found.thing
        thing = self.puzzle.things[i]
        if found.substance >= 0:
            return f"It is {self.state_of(i)}, in the {thing.name}."
        self.facts[f"looked {i}"] = 1
        return f"{_capital(self.describe(i))}. {thing.sign}".rstrip()

    def look_in(self, name: str, _: str) -> str:
        """List what is in or on a thing."""
        i = self._thing(name)
        if not self.accessible(i):
            raise RefusedError(f"The {name} is closed.")
        if self.puzzle.traits[i].vessel:
            return f"The {name} holds {self.contents_text(i) or 'nothing'}."
        if not self.puzzle.traits[i].holds:
            raise RefusedError(f"One cannot look into the {name}.")
        return self._inside_text(i)

    def _inside_text(self, i: int) -> str:
        held = [self.describe(j) for j in self.holds(i)]
        return f"There: {', '.join(held) or 'nothing'}."

    def read(self, name: str, _: str) -> str:
        """Read a page."""
        i = self._thing(name)
        if not self.puzzle.things[i].page:
            raise RefusedError(f"There is nothing to read on the {name}.")
        self.facts[f"read {i}"] = 1
        return self.puzzle.things[i].page

    def inventory(self, _: str, __: str) -> str:
        """List what the agent holds."""
        return f"You hold: {', '.join(self.describe(i) for i in self.holds(HAND)) or 'nothing'}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_INSTRUMENTS: Mapping[str, Callable[[Lab, Found], str]] = {
    "thermometer": Lab._measure,
    "stopwatch": Lab._time,
    "brush": Lab._brush,
}
VERBS: Mapping[str, Callable[[Lab, str, str], str]] = {
    "look around": Lab.look_around,
    "look at": Lab.look_at,
    "look in": Lab.look_in,
    "read": Lab.read,
    "inventory": Lab.inventory,
    "open": Lab.open,
    "close": Lab.close,
    "go to": Lab.go,
    "pick up": Lab.pick_up,
    "put down": Lab.put_down,
    "move": Lab.move,
    "pour": Lab.pour,
    "dunk": Lab.dunk,
    "mix": Lab.mix,
    "use": Lab.use,
    "activate": Lab.activate,
    "deactivate": Lab.deactivate,
    "connect": Lab.connect,
    "disconnect": Lab.disconnect,
    "focus on": Lab.focus,
    "eat": Lab.eat,
    "wait1": Lab.wait,
    "wait": Lab.wait,
}
"""Every verb and its rule."""
