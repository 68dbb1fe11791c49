"""Commands as text: parsing, the admissible ones, and their tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym_envs.household.house import KNIVES, Command, House
from agentgym_envs.household.room import ABLE, NOWHERE, STATIONS, Receptacle, Thing
from agentgym_py.env import Reply, function_tool, text_parameter

_TWO: Mapping[tuple[str, str], str] = {
    **{(verb, word): verb for verb, word in (("take", "from"), ("slice", "with"))},
    **{(verb, "with"): verb for verb in ("clean", "heat", "cool")},
}
NEW = {("move", "to"): "move"}
OLD = {("put", "in/on"): "move"}
ANY = {**NEW, **{("put", word): "move" for word in ("in/on", "in", "on", "into", "onto", "to")}}
_ONE = frozenset({"open", "close", "use", "examine"})
_NONE = frozenset({"look", "inventory", "help"})
_VERB_AT = {kind: verb for verb, kind in STATIONS.items()}


def read_command(text: str, put: Mapping[tuple[str, str], str], help_: bool = True) -> Command | None:
    """Parse a text literally as a command; None if it is none."""
    words = text.split(" ")
    verb = words[0]
    if len(words) == 6:
        name = _TWO.get((verb, words[3])) or put.get((verb, words[3]))
        return Command(name, f"{words[1]} {words[2]}", f"{words[4]} {words[5]}") if name else None
    if len(words) == 4 and verb == "go" and words[1] == "to":
        return Command("go", f"{words[2]} {words[3]}")
    if len(words) == 3 and verb in _ONE:
        return Command(verb, f"{words[1]} {words[2]}")
    return Command(verb) if len(words) == 1 and verb in _NONE and (help_ or verb != "help") else None


def put_command(thing: str, place: str, old: bool = False) -> str:
    """Write the command that puts a thing into a receptacle."""
    return f"put {thing} in/on {place}" if old else f"move {thing} to {place}"


def admissible(house: House, old: bool = False) -> list[str]:
    """List the admissible commands, sorted."""
    room, at = house.room, house.at
    here = room.at_point[at]
    thing = None if house.held == NOWHERE else room.things[house.held]
    commands = [going for going, point in room.go_commands if point != at]
    commands += ("inventory", "look")
    if not old:
        commands.append("help")
    visible: list[int] = []
    for r in here:
        place = room.receptacles[r]
        commands.append(f"examine {place.name}")
        if thing:
            commands += _treatments(thing, place)
        if place.openable:
            if r not in house.opened:
                commands.append(f"open {place.name}")
                continue
            commands.append(f"close {place.name}")
        lying = house.contents[r]
        visible += lying
        if not thing:
            commands += [f"take {room.things[o].name} from {place.name}" for o in lying if o in room.takeable]
        elif room.takes(r, thing.kind):
            commands.append(put_command(thing.name, place.name, old))
    if "examine_held_only" not in house.quirks:
        commands += [f"examine {room.things[o].name}" for o in dict.fromkeys(visible) if o != house.held]
    if room.usable:
        commands += [f"use {room.things[o].name}" for o in room.usable if any(o in house.contents[r] for r in here)]
    if thing:
        commands.append(f"examine {thing.name}")
        commands += _slices(house, thing)
    commands.sort()
    return commands


def _treatments(thing: Thing, place: Receptacle) -> list[str]:
    """List the commands that treat the held thing with a receptacle."""
    verb = _VERB_AT.get(place.kind)
    return [f"{verb} {thing.name} with {place.name}"] if verb and ABLE[verb] in thing.abilities else []


def _slices(house: House, knife: Thing) -> list[str]:
    """List the commands that slice with the held thing here."""
    if knife.kind not in KNIVES:
        return []
    laid = (house.room.things[o] for o, point in house.laid if point == house.at)
    return [f"slice {thing.name} with {knife.name}" for thing in laid if "sliceable" in thing.abilities]


def command_text(reply: Reply, old: bool = False) -> str:
    """Return the command of a reply: its text or that of its tool call."""
    if reply.arguments is None:
        return reply.action if reply.action_input is None else f"{reply.action} {reply.action_input}"
    form = _tools(old).get(reply.action)
    if not form:
        return reply.action
    return form[0].format(*(str(reply.arguments.get(name, "")) for name in form[1]))


def tools(old: bool = False) -> list[dict[str, Any]]:
    """Return the JSON schemas of the commands, one tool per verb."""
    return [_schema(name, *parts) for name, parts in _tools(old).items()]


def call_forms(old: bool = False) -> dict[str, str]:
    """Return the text of each tool's call, for `TextEnv.call_forms`."""
    forms = _tools(old).items()
    return {
        name: form.format(*(f"{{{parameter}}}" for parameter in parameters)) for name, (form, parameters, _) in forms
    }


def _tools(old: bool) -> Mapping[str, tuple[str, tuple[str, ...], str]]:
    """Map tool names to the command's form, its parameters and its description."""
    put = ("put_in", "put {} in/on {}") if old else ("move", "move {} to {}")
    both = ("object", "receptacle")
    forms = {
        "go_to": ("go to {}", ("receptacle",), "Walk to a receptacle."),
        "open": ("open {}", ("receptacle",), "Open the receptacle where you are."),
        "close": ("close {}", ("receptacle",), "Close the receptacle where you are."),
        "take": ("take {} from {}", both, "Take a thing from the receptacle where you are."),
        put[0]: (put[1], both, "Put the thing in your hand into the receptacle where you are."),
        "clean": ("clean {} with {}", both, "Clean the thing in your hand with a sinkbasin."),
        "heat": ("heat {} with {}", both, "Heat the thing in your hand with a microwave."),
        "cool": ("cool {} with {}", both, "Cool the thing in your hand with a fridge."),
        "use": ("use {}", ("object",), "Switch a lamp that stands where you are."),
        "slice": ("slice {} with {}", ("object", "knife"), "Slice what you put down here with the knife in your hand."),
        "examine": ("examine {}", ("name",), "Look closely at a thing or a receptacle."),
        "look": ("look", (), "Look around."),
        "inventory": ("inventory", (), "Say what you hold."),
    }
    return forms if old else {**forms, "help": ("help", (), "List the commands.")}


_MEANING = {
    "receptacle": "A receptacle, type and number: fridge 1",
    "object": "A thing, type and number: apple 1",
    "knife": "The knife that you hold: knife 1",
    "name": "A thing or a receptacle: apple 1",
}


def _schema(name: str, form: str, parameters: tuple[str, ...], meaning: str) -> dict[str, Any]:
    del form
    return function_tool(name, meaning, {parameter: text_parameter(_MEANING[parameter]) for parameter in parameters})
