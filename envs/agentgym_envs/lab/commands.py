"""Commands as text: parsing, the admissible ones, and their tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentgym_envs.lab.lab import Command, Lab
from agentgym_envs.lab.site import HAND, floor
from agentgym_envs.lab.verbs import DRAIN, VERBS
from agentgym_py.env import Reply, function_tool, text_parameter

_LONGEST = 200
_ALONE = frozenset(("look around", "inventory", "wait", "wait1"))
_BETWEEN: Mapping[str, tuple[str, ...]] = {
    "move": (" to ", " into ", " onto ", " in ", " on "),
    "pour": (" into ", " to ", " in "),
    "dunk": (" into ", " in "),
    "connect": (" to ",),
    "use": (" on ",),
}
"""Words between two names."""
_SYNONYMS: Mapping[str, str] = {
    "look": "look around", "examine": "look at", "inspect": "look at", "look into": "look in", "look inside": "look in",
    "take": "pick up", "grab": "pick up", "get": "pick up", "drop": "put down",
    "put": "move", "place": "move", "stir": "mix",
    "go": "go to", "go into": "go to", "walk to": "go to", "walk into": "go to", "enter": "go to",
    "turn on": "activate", "switch on": "activate", "turn off": "deactivate", "switch off": "deactivate",
}  # fmt: skip
"""Other ways to say a verb."""
_READ_FIRST = sorted((*VERBS, *_SYNONYMS), key=len, reverse=True)
_SPLIT = re.compile(r"(pick|put|turn|switch) (.+) (up|down|on|off)")
"""A verb whose particle comes last: `turn stove on`."""
_FILL = (" from ", " with ")
"""Words between the names of `fill X from Y`, which pours Y into X."""
_WAITS: Mapping[str, str] = {"wait 10": "wait", "wait 1": "wait1"}


def parse(text: str) -> Command | None:
    """Read a command; None if it is none."""
    if len(text) > _LONGEST:
        return None
    words = [word for word in text.lower().rstrip(".").split() if word != "the"]
    line = _WAITS.get(" ".join(words), " ".join(words))
    if line in _ALONE:
        return Command(line)
    if line == "look":
        return Command("look around")
    if line.startswith("fill "):
        return _fill(line.removeprefix("fill "))
    line = _joined(line)
    for start in _READ_FIRST:
        if line.startswith(f"{start} "):
            verb = _SYNONYMS.get(start, start)
            return None if verb in _ALONE else _with_names(verb, line[len(start) + 1 :])
    return None


def _joined(line: str) -> str:
    """Bring a verb together: `turn on stove` for `turn stove on`."""
    split = _SPLIT.fullmatch(line)
    verb = f"{split[1]} {split[3]}" if split else ""
    return f"{verb} {split[2]}" if split and verb in _READ_FIRST else line


def _fill(names: str) -> Command | None:
    for word in _FILL:
        target, found, source = names.partition(word)
        if found:
            return Command("pour", source, target.partition(" with ")[0])  # `fill cup with water from sink`
    return None


def _with_names(verb: str, names: str) -> Command | None:
    for word in _BETWEEN.get(verb, ()):
        first, found, second = names.partition(word)
        if found:
            return Command(verb, first, second)
    return None if verb in _BETWEEN and verb != "use" else Command(verb, names)


def without_source(lab: Lab, command: Command) -> Command:
    """Shorten `pick up X from Y` to `pick up X` if X is in or on Y; a substance is poured from Y by Y's name."""
    name, found, source = command.first.partition(" from ")
    if command.verb not in ("pick up", "move", "pour") or not found:
        return command
    i, j = (lab.puzzle.by_name.get(name), lab.puzzle.by_name.get(source))
    if i is not None and lab.reachable(i):  # of what is not here, the answer must not tell where it is
        place = floor(lab.room) if source == "floor" else j
        return command._replace(first=name) if lab.place[i] == place else command
    if command.verb == "pick up" or j is None or not lab.reachable(j):
        return command
    holds_it = name in (lab.content_name(j, substance) for substance in lab.contents(j))
    return Command("pour", source, command.second) if holds_it else command


def command_text(reply: Reply) -> str:
    """Return the command of a reply: its text, or that of its tool call."""
    if reply.arguments is None:
        return reply.action if reply.action_input is None else f"{reply.action} {reply.action_input}"
    form = _TOOLS.get(reply.action)
    if form is None:
        return reply.action
    names = [str(reply.arguments[name]) for name in form[1] if reply.arguments.get(name)]
    between = _BETWEEN.get(form[0], (" ",))[0]
    return f"{form[0]} {between.join(names)}".strip()


# ---- admissible commands --------------------------------------------------------------------------------------------


def admissible(lab: Lab) -> list[str]:
    """List commands that can be done here."""
    puzzle = lab.puzzle
    commands = ["look around", "inventory", "wait", "wait1"]
    for door, room in puzzle.next_rooms(lab.room):
        name = puzzle.rooms[room]
        commands.append(f"go to {name}" if door in lab.open_doors else f"open door to {name}")
    reachable = lab.all_reachable()
    holders = [i for i in reachable if puzzle.traits[i].holds and lab.accessible(i)]
    vessels = [i for i in reachable if puzzle.traits[i].vessel and not puzzle.traits[i].sealed]
    for i in reachable:
        commands += _with_thing(lab, i, holders, vessels)
    commands += _with_parts(lab, reachable)
    return commands


def _with_thing(lab: Lab, i: int, holders: list[int], vessels: list[int]) -> Iterator[str]:
    """Yield commands with one thing."""
    puzzle, traits = lab.puzzle, lab.puzzle.traits[i]
    thing = puzzle.things[i]
    name = thing.name
    if traits.door:
        yield f"{'close' if i in lab.opened else 'open'} {name}"
    if traits.switch and not traits.steady:
        yield f"{'deactivate' if i in lab.on else 'activate'} {name}"
    if traits.portable:
        yield f"look at {name}"
        yield f"focus on {name}"
        yield from _carry(lab, i, holders)
        if lab.place[i] == HAND:
            yield from _instrument(lab, i)
        if thing.page:
            yield f"read {name}"
        if thing.kind == "food":
            yield f"eat {name}"
    elif thing.kind in ("box", "plane"):
        yield f"focus on {name}"
    contents = lab.contents(i)
    if contents:
        yield from _contents(lab, i, contents, vessels)


def _carry(lab: Lab, i: int, holders: list[int]) -> Iterator[str]:
    """Yield commands that move a thing."""
    name = lab.puzzle.things[i].name
    if lab.wires and any(i in wire for wire in lab.wires):
        yield f"disconnect {name}"
    elif lab.place[i] == HAND:
        yield f"put down {name}"
        for j in holders:
            yield f"move {name} to {lab.puzzle.things[j].name}"
    else:
        yield f"pick up {name}"


def _instrument(lab: Lab, i: int) -> Iterator[str]:
    """Yield uses of a held instrument."""
    puzzle = lab.puzzle
    thing = puzzle.things[i]
    if thing.kind not in ("thermometer", "stopwatch", "brush"):
        return
    for j in lab.all_reachable():
        other = puzzle.things[j]
        if thing.kind == "thermometer" and lab.contents(j):
            yield f"use {thing.name} on {other.name}"
        elif thing.kind == "stopwatch" and other.kind == "plane":
            if any(puzzle.things[k].kind == "block" for k in lab.holds(j)):
                yield f"use {thing.name} on {other.name}"
        elif thing.kind == "brush" and (
            other.kind == "parent" or (other.kind == "planter" and lab.stage(lab.cells[puzzle.cell_of[j]]) == 3)
        ):
            yield f"use {thing.name} on {other.name}"


def _contents(lab: Lab, i: int, contents: list[int], vessels: list[int]) -> Iterator[str]:
    """Yield commands with what a thing holds."""
    puzzle = lab.puzzle
    name = puzzle.things[i].name
    for substance in contents:
        yield f"focus on {lab.content_name(i, substance)}"
    if puzzle.traits[i].sealed:
        return
    for j in vessels:
        if j != i:
            yield f"pour {name} into {puzzle.things[j].name}"
    if i in puzzle.cell_of:
        yield f"pour {name} into {DRAIN}"
        if len(contents) > 1:
            yield f"mix {name}"


def _with_parts(lab: Lab, reachable: list[int]) -> Iterator[str]:
    """Yield connections of wires."""
    puzzle = lab.puzzle
    parts = [i for i in reachable if puzzle.traits[i].part and lab.place[i] != HAND]
    if len(parts) < 2:
        return
    ends = {i: sum(i in wire for wire in lab.wires) for i in parts}
    free = [i for i in parts if ends[i] < 2]
    for i in free:
        if puzzle.traits[i].part == "wire":
            for j in free:
                if (min(i, j), max(i, j)) not in lab.wires and (i < j or puzzle.traits[j].part != "wire") and i != j:
                    yield f"connect {puzzle.things[i].name} to {puzzle.things[j].name}"


# ---- tools ----------------------------------------------------------------------------------------------------------

_ONE, _TWO = ("name",), ("name", "target")
_TOOLS: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "look_around": ("look around", (), "See the room again."),
    "look_at": ("look at", _ONE, "Look closely at something."),
    "look_in": ("look in", _ONE, "List what is in or on a thing."),
    "read": ("read", _ONE, "Read a page."),
    "inventory": ("inventory", (), "List what you hold."),
    "open": ("open", _ONE, "Open a thing, or a door: door to kitchen."),
    "close": ("close", _ONE, "Close a thing, or a door: door to kitchen."),
    "go_to": ("go to", _ONE, "Go to a neighbouring room."),
    "pick_up": ("pick up", _ONE, "Take a thing."),
    "put_down": ("put down", _ONE, "Put a held thing on the floor."),
    "move": ("move", _TWO, "Put a thing on or into another."),
    "pour": ("pour", _TWO, "Pour what a thing holds into a vessel, or into the drain."),
    "dunk": ("dunk", _TWO, "Fill a cup by dunking it into a liquid."),
    "mix": ("mix", _ONE, "Stir what a vessel holds."),
    "use": ("use", _TWO, "Use a held instrument on something."),
    "activate": ("activate", _ONE, "Switch a device on."),
    "deactivate": ("deactivate", _ONE, "Switch a device off."),
    "connect": ("connect", _TWO, "Connect a wire to another part."),
    "disconnect": ("disconnect", _ONE, "Remove all connections of a part."),
    "focus_on": ("focus on", _ONE, "Declare what the task is about, or the answer. A wrong one ends the task."),
    "eat": ("eat", _ONE, "Take a bite."),
    "wait": ("wait", (), "Let ten moments pass."),
    "wait1": ("wait1", (), "Let one moment pass."),
}
"""Tool to its command, parameters and description."""
_MEANING = {"name": "A thing, substance or room, as observed: tin cup", "target": "The other thing: stove"}


def tools() -> list[dict[str, Any]]:
    """Return the JSON schemas of the commands, one tool per verb."""
    return [
        function_tool(name, about, {parameter: text_parameter(_MEANING[parameter]) for parameter in parameters})
        for name, (_, parameters, about) in _TOOLS.items()
    ]


def call_forms() -> dict[str, str]:
    """Return the text of each tool's call, for `TextEnv.call_forms`."""
    forms = dict[str, str]()
    for name, (verb, parameters, _) in _TOOLS.items():
        between = _BETWEEN.get(verb, (" ",))[0]
        forms[name] = " ".join(filter(None, (verb, between.join(f"{{{parameter}}}" for parameter in parameters))))
    return forms
