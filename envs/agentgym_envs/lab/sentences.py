"""What the laboratory shows: rooms, things and what they hold."""

from __future__ import annotations

from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.matter import state_name
from agentgym_envs.lab.site import floor


def view(lab: Lab) -> str:
    """Return the sentences on the agent's room."""
    puzzle, here = lab.puzzle, floor(lab.room)
    things = [describe(lab, i) for i, at in enumerate(lab.place) if at == here]
    doors = [
        f"{puzzle.rooms[room]}{'' if door in lab.open_doors else ' (closed)'}"
        for door, room in puzzle.next_rooms(lab.room)
    ]
    return f"You are in the {puzzle.rooms[lab.room]}. Here: {'; '.join(things)}. Doors: {', '.join(doors)}."


def describe(lab: Lab, i: int) -> str:
    """Return a thing's name, state and what it holds."""
    thing, traits = lab.puzzle.things[i], lab.puzzle.traits[i]
    marks = list[str]()
    if traits.tempers and not traits.steady:
        marks.append(f"{thing.value} degrees")
    if traits.switch:
        marks.append("on" if i in lab.on else "off")
    if traits.vessel:
        marks.append(contents_text(lab, i) or "empty")
    if thing.kind == "supply":
        marks.append(lab.state_of(i))
    if thing.kind == "pod":
        marks.append("ripe" if i in lab.on else "unripe")
    if traits.door and i not in lab.opened:
        marks.append("closed")
    text = f"{thing.name} ({', '.join(marks)})" if marks else thing.name
    held = [describe(lab, j) for j in lab.holds(i)] if traits.holds and lab.accessible(i) else []
    return f"{text} with {', '.join(held)}" if held else text


def contents_text(lab: Lab, i: int) -> str:
    """Return what a vessel holds: `liquid lead`; empty if it is empty."""
    cell = lab.cell(i)
    if cell is None or not cell.contents:
        return ""
    names = [lab.content_name(i, substance) for substance in cell.contents]
    kind = lab.puzzle.things[i].kind
    if kind == "planter":
        return f"{names[0]}, {'moist' if cell.water else 'dry'}"
    return names[0] if kind == "incubator" else f"{state_name(cell.phase)} {' and '.join(names)}"


def inside_text(lab: Lab, i: int) -> str:
    """Return the sentence on what is in or on a thing."""
    held = [describe(lab, j) for j in lab.holds(i)]
    return f"There: {', '.join(held) or 'nothing'}."
