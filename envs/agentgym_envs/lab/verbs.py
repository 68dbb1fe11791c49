"""The rules of the commands.

A rule takes the laboratory and the names of a command. It changes the laboratory and returns the observation, or raises
RefusedError and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentgym_envs.lab.lab import Cell, Command, Found, Lab
from agentgym_envs.lab.matter import LIQUID, MOIST, ROOM, SOLID, phase_at
from agentgym_envs.lab.sentences import contents_text, describe, inside_text, view
from agentgym_envs.lab.site import HAND, floor
from agentgym_py.env.tools import RefusedError

WAIT = 10
"""Ticks of `wait`; every other command takes one tick."""
DRAIN = "drain"
"""Where substances can be poured away, in every room."""
_MOST_PARTS = 4
"""Most substances in a vessel."""


def do(lab: Lab, command: Command) -> str:
    """Do a command, let its time pass, and return the observation; RefusedError if it cannot be done."""
    text = VERBS[command.verb](lab, command.first, command.second)
    news = lab.pass_time(WAIT if command.verb == "wait" else 1)
    return " ".join([text, *news]) if news else text


def _thing(lab: Lab, name: str) -> int:
    found = lab.find(name)
    if found.substance >= 0:
        raise RefusedError(f"Name what holds the {name}.")
    return found.thing


def _portable(lab: Lab, name: str) -> int:
    """Return a thing that can be moved now."""
    i = _thing(lab, name)
    if not lab.puzzle.traits[i].portable:
        raise RefusedError(f"The {name} cannot be moved.")
    if any(i in wire for wire in lab.wires):
        raise RefusedError(f"The {name} is connected: disconnect it first.")
    return i


def _door(lab: Lab, name: str) -> int:
    """Return the door of the agent's room that leads to a room."""
    if name == lab.puzzle.rooms[lab.room]:
        raise RefusedError(f"You are in the {name} already.")
    for door, room in lab.puzzle.next_rooms(lab.room):
        if lab.puzzle.rooms[room] == name:
            return door
    raise RefusedError(f"No door leads to {name[:40]} from here.")


def _furniture(lab: Lab, name: str, verb: str) -> int:
    """Return a thing to open or close; a door between rooms is named by its room."""
    if name == "door":
        raise RefusedError(f"Name the room: {verb} door to ROOM.")
    return _thing(lab, name)


def _go(lab: Lab, name: str, _: str) -> str:
    """Go through an open door."""
    door = _door(lab, name)
    if door not in lab.open_doors:
        raise RefusedError(f"The door to the {name} is closed.")
    lab.room = lab.puzzle.rooms.index(name)
    lab.visited.add(lab.room)
    lab.see()
    return view(lab)


def _open(lab: Lab, name: str, _: str) -> str:
    """Open a door or a thing."""
    if name.startswith("door to "):
        door = _door(lab, name.removeprefix("door to "))
        if door in lab.open_doors:
            raise RefusedError(f"The {name} is open already.")
        lab.open_doors.add(door)
        return f"The {name} is open."
    i = _furniture(lab, name, "open")
    if lab.accessible(i):
        raise RefusedError(f"The {name} cannot be opened, or is open.")
    lab.opened.add(i)
    lab.see()
    return f"The {name} is open. {inside_text(lab, i)}"


def _close(lab: Lab, name: str, _: str) -> str:
    """Close a door or a thing."""
    if name.startswith("door to "):
        door = _door(lab, name.removeprefix("door to "))
        if door not in lab.open_doors:
            raise RefusedError(f"The {name} is closed already.")
        lab.open_doors.remove(door)
        return f"The {name} is closed."
    i = _furniture(lab, name, "close")
    if i not in lab.opened:
        raise RefusedError(f"The {name} cannot be closed, or is closed.")
    lab.opened.remove(i)
    return f"The {name} is closed."


def _pick_up(lab: Lab, name: str, _: str) -> str:
    """Take a thing into the hands, which hold any number of things."""
    i = _portable(lab, name)
    if lab.place[i] == HAND:
        raise RefusedError(f"You hold the {name} already.")
    lab.place[i] = HAND
    return f"You hold the {name}."


def _put_down(lab: Lab, name: str, _: str) -> str:
    """Put a held thing on the floor."""
    i = _portable(lab, name)
    if lab.place[i] != HAND:
        raise RefusedError(f"You do not hold the {name}.")
    lab.place[i] = floor(lab.room)
    return f"The {name} is on the floor."


def _move(lab: Lab, name: str, target: str) -> str:
    """Put a thing on or into another; a substance is poured."""
    found = lab.find(name)
    if found.substance >= 0:
        return _pour(lab, lab.puzzle.things[found.thing].name, target)
    i, j = _portable(lab, name), _thing(lab, target)
    if lab.puzzle.traits[j].vessel:
        raise RefusedError(f"The {target} takes only substances: pour them into it.")
    if not lab.puzzle.traits[j].holds or i == j:
        raise RefusedError(f"The {target} cannot hold the {name}.")
    if not lab.accessible(j):
        raise RefusedError(f"The {target} is closed.")
    if lab.place[i] == j:
        raise RefusedError(f"The {name} is there already.")
    lab.place[i] = j
    where = "in" if lab.puzzle.traits[j].door or lab.puzzle.things[j].kind == "box" else "on"
    return f"The {name} is {where} the {target}."


def _pour(lab: Lab, name: str, target: str) -> str:
    """Pour what a thing holds into a vessel or the drain; a supply never runs out."""
    i, substance = lab.find(name)
    if substance >= 0 and lab.puzzle.things[i].name == target:
        raise RefusedError(f"The {target} holds {name} already.")
    contents, cell, name = lab.contents(i), lab.cell(i), lab.puzzle.things[i].name
    if not contents or lab.puzzle.traits[i].sealed:
        raise RefusedError(f"Nothing can be poured from the {name}.")
    if target == DRAIN:
        if cell is None:
            raise RefusedError(f"The {name} cannot be poured away.")
        _clear(lab, cell)
        return f"The {name} is empty."
    j = _thing(lab, target)
    into = lab.cell(j)
    if i == j:
        raise RefusedError(f"The {target} cannot be poured into itself.")
    if into is None or lab.puzzle.traits[j].sealed:
        raise RefusedError(f"Nothing can be poured into the {target}.")
    if cell and cell.phase > LIQUID:
        raise RefusedError("A gas cannot be poured.")
    if cell and cell.growth:
        raise RefusedError(f"What grows in the {name} stays there; the drain takes it.")
    if not lab.puzzle.traits[j].portable:
        _plant(lab, j, into, contents)
    else:
        _fill(lab, target, into, contents, cell)
    if cell:
        _clear(lab, cell)
    return f"The {target} holds {contents_text(lab, j) or 'moist soil'}."


def _plant(lab: Lab, j: int, into: Cell, contents: list[int]) -> None:
    """Pour water, seeds or eggs into what makes them grow."""
    kind, target = lab.puzzle.things[j].kind, lab.puzzle.things[j].name
    if len(contents) > 1:
        raise RefusedError(f"The {target} takes one substance at a time.")
    substance = lab.puzzle.substances[contents[0]]
    if kind == "planter" and substance.name == "water":
        into.water = MOIST
        return
    if substance.grows_in != kind:
        raise RefusedError(f"The {target} does not take {substance.name}.")
    if into.contents:
        raise RefusedError(f"Something grows in the {target} already.")
    into.contents = [*contents]


def _fill(lab: Lab, target: str, into: Cell, contents: list[int], source: Cell | None) -> None:
    """Pour substances into a cup."""
    union = [*into.contents, *(substance for substance in contents if substance not in into.contents)]
    if len(union) > _MOST_PARTS:
        raise RefusedError(f"The {target} is full.")
    if not into.contents:
        into.temperature = source.temperature if source else ROOM
        first = lab.puzzle.substances[contents[0]]
        into.phase = source.phase if source else phase_at(first, ROOM)
    into.contents = union


def _clear(lab: Lab, cell: Cell) -> None:
    cell.contents, cell.phase = [], LIQUID
    cell.growth = cell.water = cell.pollinated = 0


def _dunk(lab: Lab, name: str, target: str) -> str:
    """Fill a cup by dunking it into a liquid."""
    i, j = _thing(lab, name), _thing(lab, target)
    if not lab.puzzle.traits[i].vessel or not lab.puzzle.traits[i].portable:
        raise RefusedError(f"The {name} cannot be dunked.")
    if not lab.contents(j) or lab.state_of(j) != "liquid":
        raise RefusedError(f"There is no liquid in the {target}.")
    return _pour(lab, target, name)


def _mix(lab: Lab, name: str, _: str) -> str:
    """Mix what a vessel holds; it reacts if these substances react."""
    i = _thing(lab, name)
    cell = lab.cell(i)
    if cell is None or len(cell.contents) < 2:
        raise RefusedError(f"There is nothing to mix in the {name}.")
    product = lab.puzzle.reactions.get(frozenset(cell.contents))
    if product is None:
        return "You stir, but nothing happens."
    cell.contents = [product]
    cell.phase = phase_at(lab.puzzle.substances[product], cell.temperature)
    return f"You stir. The {name} holds {contents_text(lab, i)}."


def _activate(lab: Lab, name: str, _: str) -> str:
    """Switch a device on."""
    i = _thing(lab, name)
    if not lab.puzzle.traits[i].switch or i in lab.on:
        raise RefusedError(f"The {name} cannot be activated, or is on.")
    if not lab.puzzle.things[i].works:
        lab.facts[f"broken {i}"] = 1
        return f"Nothing happens: the {name} is broken."
    lab.on.add(i)
    return f"The {name} is on."


def _deactivate(lab: Lab, name: str, _: str) -> str:
    """Switch a device off."""
    i = _thing(lab, name)
    if i not in lab.on:
        raise RefusedError(f"The {name} is not on.")
    if lab.puzzle.traits[i].steady:
        raise RefusedError(f"The {name} must stay on.")
    lab.on.remove(i)
    return f"The {name} is off."


def _use(lab: Lab, name: str, target: str) -> str:
    """Use an instrument on something."""
    i = _thing(lab, name)
    kind = lab.puzzle.things[i].kind
    if lab.puzzle.traits[i].switch and not target:
        return _activate(lab, name, "")
    rule = _INSTRUMENTS.get(kind)
    if rule is None or not target:
        raise RefusedError(f"The {name} is of no use here." if target else f"Use the {name} on what?")
    if lab.place[i] != HAND:
        raise RefusedError(f"You do not hold the {name}.")
    return rule(lab, lab.find(target))


def _measure(lab: Lab, found: Found) -> str:
    i, cell = found.thing, lab.cell(found.thing)
    degrees = cell.temperature if cell else ROOM
    text = f"The thermometer reads {degrees} degrees."
    if not lab.contents(i):
        return text
    substance = lab.contents(i)[0]
    lab.facts[f"degrees {substance}"] = degrees
    if cell and SOLID < cell.phase < LIQUID:
        lab.facts[f"melts {substance}"] = degrees
    return f"{text} The {lab.content_name(i, substance)} is {lab.state_of(i)}."


def _time(lab: Lab, found: Found) -> str:
    i = found.thing
    thing = lab.puzzle.things[i]
    if thing.kind != "plane" or not any(lab.puzzle.things[j].kind == "block" for j in lab.holds(i)):
        raise RefusedError("Only a block on a plane can be timed.")
    lab.facts[f"seconds {i}"] = thing.value
    return f"The block slides down the {thing.name} in {thing.value / 100:.2f} seconds."


def _brush(lab: Lab, found: Found) -> str:
    if lab.puzzle.things[found.thing].kind == "parent":
        return _cross(lab, found.thing)
    cell = lab.cell(found.thing)
    if cell is None or lab.puzzle.things[found.thing].kind != "planter" or lab.stage(cell) != 3:
        raise RefusedError("There is no flower to pollinate.")
    cell.pollinated = 1
    return "The flower is pollinated."


def _cross(lab: Lab, i: int) -> str:
    """Take pollen of a parent plant, or bring another parent's pollen to it, so that the pod ripens."""
    things, pollen = lab.puzzle.things, lab.facts.get("pollen", i)
    if pollen == i:
        lab.facts["pollen"] = i
        return f"The brush is full of pollen of the {things[i].name}."
    lab.on.update(j for j, thing in enumerate(things) if thing.kind == "pod")
    return f"The {things[i].name} is crossed with the {things[pollen].name}, and the pod is ripe."


def _connect(lab: Lab, name: str, target: str) -> str:
    """Connect a wire to another part; a part has two ends."""
    i, j = _thing(lab, name), _thing(lab, target)
    parts = (lab.puzzle.traits[i].part, lab.puzzle.traits[j].part)
    wire = (min(i, j), max(i, j))
    if not all(parts) or i == j or "wire" not in parts:
        raise RefusedError("Only a wire can be connected, to another part.")
    if HAND in (lab.place[i], lab.place[j]):
        raise RefusedError("Put both parts down first.")
    if wire in lab.wires:
        raise RefusedError("They are connected already.")
    for part, label in ((i, name), (j, target)):
        if sum(part in other for other in lab.wires) > 1:
            raise RefusedError(f"Both ends of the {label} are connected.")
    lab.wires.add(wire)
    return f"The {name} is connected to the {target}.{_current(lab)}"


def _disconnect(lab: Lab, name: str, _: str) -> str:
    """Remove all connections of a part."""
    i = _thing(lab, name)
    cut = {wire for wire in lab.wires if i in wire}
    if not cut:
        raise RefusedError(f"The {name} is not connected.")
    lab.wires -= cut
    return f"The {name} is disconnected."


def _current(lab: Lab) -> str:
    """Note and tell what closed circuits do."""
    puzzle, text = lab.puzzle, ""
    for ring, flows in lab.powered():
        lamps = [i for i in ring if puzzle.traits[i].part == "lamp"]
        for lamp in lamps:
            text += f" The {puzzle.things[lamp].name} is {'on' if flows else 'off'}."
        live = any(lab.gives_power(i) for i in ring if puzzle.traits[i].part == "source")
        for sample in ring:
            if lamps and live and puzzle.traits[sample].part == "sample":
                lab.facts[f"conducts {sample}"] = puzzle.things[sample].value
    return text


def _focus(lab: Lab, name: str, _: str) -> str:
    """Focus on something; the goal judges it. A supply, or a vessel of one substance, stands for the substance.

    A focus that was right stays right: to repeat it changes nothing.
    """
    i, substance = lab.find(name)
    if substance < 0 and len(contents := lab.contents(i)) == 1:
        name = lab.content_name(i, contents[0])
    if name not in lab.focused:
        lab.focused.append(name)
    return f"You focus on the {name}."


def _eat(lab: Lab, name: str, _: str) -> str:
    """Take a bite."""
    i = _thing(lab, name)
    if lab.puzzle.things[i].kind != "food":
        raise RefusedError(f"The {name} is no food.")
    return f"You take a bite of the {name}."


def _wait(lab: Lab, _: str, __: str) -> str:
    """Let time pass."""
    return "Time passes."


def _look_around(lab: Lab, _: str, __: str) -> str:
    """Look around."""
    return view(lab)


def _look_at(lab: Lab, name: str, _: str) -> str:
    """Look closely at something."""
    found = lab.find(name)
    i = found.thing
    thing = lab.puzzle.things[i]
    if found.substance >= 0:
        return f"It is {lab.state_of(i)}, in the {thing.name}."
    lab.facts[f"looked {i}"] = 1
    return f"{_capital(describe(lab, i))}. {thing.sign}".rstrip()


def _look_in(lab: Lab, name: str, _: str) -> str:
    """List what is in or on a thing."""
    i = _thing(lab, name)
    if not lab.accessible(i):
        raise RefusedError(f"The {name} is closed.")
    if lab.puzzle.traits[i].vessel:
        return f"The {name} holds {contents_text(lab, i) or 'nothing'}."
    if not lab.puzzle.traits[i].holds:
        raise RefusedError(f"One cannot look into the {name}.")
    return inside_text(lab, i)


def _read(lab: Lab, name: str, _: str) -> str:
    """Read a page."""
    i = _thing(lab, name)
    if not lab.puzzle.things[i].page:
        raise RefusedError(f"There is nothing to read on the {name}.")
    lab.facts[f"read {i}"] = 1
    return lab.puzzle.things[i].page


def _inventory(lab: Lab, _: str, __: str) -> str:
    """List what the agent holds."""
    return f"You hold: {', '.join(describe(lab, i) for i in lab.holds(HAND)) or 'nothing'}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_INSTRUMENTS: Mapping[str, Callable[[Lab, Found], str]] = {
    "thermometer": _measure,
    "stopwatch": _time,
    "brush": _brush,
}
VERBS: Mapping[str, Callable[[Lab, str, str], str]] = {
    "look around": _look_around,
    "look at": _look_at,
    "look in": _look_in,
    "read": _read,
    "inventory": _inventory,
    "open": _open,
    "close": _close,
    "go to": _go,
    "pick up": _pick_up,
    "put down": _put_down,
    "move": _move,
    "pour": _pour,
    "dunk": _dunk,
    "mix": _mix,
    "use": _use,
    "activate": _activate,
    "deactivate": _deactivate,
    "connect": _connect,
    "disconnect": _disconnect,
    "focus on": _focus,
    "eat": _eat,
    "wait1": _wait,
    "wait": _wait,
}
"""Every verb and its rule."""
