"""The state of a household in an episode, and the rules of its commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agentgym_envs.household.room import ABLE, NOWHERE, STATIONS, TREATMENT, Room
from agentgym_py.env.tools import RefusedError

QUIRKS: Mapping[str, str] = {
    "shared_points": "receptacles can share a place: at one of them, 'go to' the other is not admissible",
    "examine_held_only": "a thing can be examined only while it is held",
    "blind_look": "look names a thing only if it was put down here after it was taken from another receptacle here",
    "one_temperature": "heating takes the cold away and cooling the heat",
    "lamps_stay_on": "use switches a lamp on and never off",
    "marked_openings": "only receptacles that the room marks can be opened; the others of their type stand open",
}
"""ALFWorld's departures from a real household, each of which can be switched."""
KNIVES = frozenset({"knife", "butterknife"})
_MARKS = ("opened", "clean", "hot", "cool", "lit", "sliced", "seen", "handled")


class Command(NamedTuple):
    """A parsed command."""

    verb: str
    """One of `go`, `open`, `close`, `take`, `move`, `clean`, `heat`, `cool`, `use`, `slice`, `examine`, `look`, ..."""
    first: str = ""
    """The name that follows the verb."""
    second: str = ""
    """The name after `from`, `to` or `with`."""


class House:
    """The state of an episode and its rules.

    `do` changes the state and returns "", or changes nothing and returns an error message.
    """

    __slots__ = (
        "at", "clean", "contents", "cool", "handled", "held", "hot", "laid", "left", "lit", "opened", "quirks", "room",
        "seen", "sliced",
    )  # fmt: skip

    def __init__(self, room: Room, quirks: frozenset[str]) -> None:
        start = room.start
        self.room, self.quirks = room, quirks
        self.at, self.held = start.at, NOWHERE
        self.contents = [list(things) for things in start.contents]
        self.opened, self.clean, self.hot, self.cool = map(set, (start.opened, start.clean, start.hot, start.cool))
        self.lit, self.sliced, self.laid = set(start.lit), set(start.sliced), set(start.laid)
        self.left: set[tuple[int, int]] = set()
        """Thing and receptacle from which it was taken and to which it was not returned."""
        self.seen: set[int] = set()
        """Receptacles whose contents were observed."""
        self.handled: set[int] = set()
        """Things that have been held."""

    # ---- queries ---------------------------------------------------------------------------------------------------

    def here(self, receptacle: int) -> bool:
        """Tell whether the agent is at a receptacle."""
        return self.room.receptacles[receptacle].point == self.at

    def accessible(self, receptacle: int) -> bool:
        """Tell whether a receptacle is open or has no door."""
        return receptacle in self.opened or not self.room.receptacles[receptacle].openable

    def won(self) -> bool:
        """Tell whether the goal is reached."""
        room, goal = self.room, self.room.goal
        if goal.lamp:
            if self.held not in room.goal_things:
                return False
            near = (o for r in room.at_point[self.at] for o in self.contents[r])
            return any(o in self.lit and o in room.lamps for o in near)
        ready = room.goal_things & self.in_state(goal.state) if goal.state else room.goal_things
        return bool(ready) and any(
            len(ready.intersection(self.contents[r])) >= goal.count for r in room.goal_receptacles
        )

    def in_state(self, state: str) -> set[int]:
        """Return the things in a state: clean, hot or cool."""
        return self.clean if state == "clean" else self.hot if state == "hot" else self.cool

    def places(self, thing: int) -> list[int]:
        """List the receptacles that hold a thing."""
        return [r for r, things in enumerate(self.contents) if thing in things]

    def visible(self) -> list[int]:
        """List the visible things at the agent's place."""
        here = (r for r in self.room.at_point[self.at] if self.accessible(r))
        return [o for r in here for o in self.contents[r]]

    # ---- commands -------------------------------------------------------------------------------------------------

    def do(self, command: Command) -> str:
        """Do a command, or return an error message."""
        try:
            _RULES[command.verb](self, command.first, command.second)
        except RefusedError as error:
            return str(error)
        return ""

    def _reachable(self, name: str) -> int:
        place = self.room.by_name.get(name, NOWHERE)
        if place == NOWHERE or self.room.receptacles[place].point == NOWHERE:
            raise RefusedError(f"there is no {name} in this room")
        return place

    def _place_here(self, name: str) -> int:
        place = self._reachable(name)
        if not self.here(place):
            raise RefusedError(f"you are not at the {name}")
        return place

    def _open_place(self, name: str) -> int:
        place = self._place_here(name)
        if not self.accessible(place):
            raise RefusedError(f"the {name} is closed")
        return place

    def _holding(self, name: str) -> int:
        thing = self.room.thing_by_name.get(name, NOWHERE)
        if thing == NOWHERE or thing != self.held:
            raise RefusedError(f"you do not hold the {name}")
        return thing

    def _go(self, name: str, _: str) -> None:
        place = self._reachable(name)
        if self.here(place):
            raise RefusedError(f"you are at the {name} already")
        self.at = self.room.receptacles[place].point
        self._see(place)

    def _see(self, receptacle: int) -> None:
        if self.accessible(receptacle):
            self.seen.add(receptacle)

    def _open(self, name: str, _: str) -> None:
        place = self._place_here(name)
        if not self.room.receptacles[place].openable:
            raise RefusedError(f"the {name} cannot be opened")
        if place in self.opened:
            raise RefusedError(f"the {name} is open already")
        self.opened.add(place)
        self.seen.add(place)

    def _close(self, name: str, _: str) -> None:
        place = self._place_here(name)
        if place not in self.opened or not self.room.receptacles[place].openable:
            raise RefusedError(f"the {name} is not open")
        self.opened.discard(place)

    def _take(self, name: str, source: str) -> None:
        place = self._open_place(source)
        thing = self.room.thing_by_name.get(name, NOWHERE)
        if thing not in self.contents[place]:
            raise RefusedError(f"there is no {name} in the {source}")
        if self.held != NOWHERE:
            raise RefusedError(f"you hold the {self.room.things[self.held].name}: put it down first")
        if not self.room.can(thing, "pickupable"):
            raise RefusedError(f"the {name} cannot be taken")
        self.contents[place].remove(thing)
        self.held = thing
        self.handled.add(thing)
        self.laid.discard((thing, self.at))
        self.left.add((thing, place))

    def _move(self, name: str, target: str) -> None:
        thing, place = self._holding(name), self._open_place(target)
        if not self.room.takes(place, self.room.things[thing].kind):
            raise RefusedError(f"a {self.room.things[thing].kind} does not go there")
        if thing not in self.contents[place]:
            self.contents[place].append(thing)
            self.contents[place].sort()
        self.held = NOWHERE
        self.laid.add((thing, self.at))
        self.left.discard((thing, place))

    def _treat(self, verb: str, name: str, station: str) -> None:
        thing, place = self._holding(name), self._place_here(station)
        if self.room.receptacles[place].kind != STATIONS[verb] or not self.room.can(thing, ABLE[verb]):
            raise RefusedError(f"you cannot {verb} the {name} with the {station}")
        if verb == "clean":
            self.clean.add(thing)
            return
        gained, lost = (self.hot, self.cool) if verb == "heat" else (self.cool, self.hot)
        gained.add(thing)
        if "one_temperature" in self.quirks:
            lost.discard(thing)

    def _use(self, name: str, _: str) -> None:
        thing = self.room.thing_by_name.get(name, NOWHERE)
        if not any(thing in self.contents[r] for r in self.room.at_point[self.at]):
            raise RefusedError(f"there is no {name} here")
        if not self.room.can(thing, "toggleable"):
            raise RefusedError(f"the {name} cannot be used")
        if thing in self.lit and "lamps_stay_on" not in self.quirks:
            self.lit.discard(thing)
        else:
            self.lit.add(thing)

    def _slice(self, name: str, knife: str) -> None:
        tool = self._holding(knife)
        thing = self.room.thing_by_name.get(name, NOWHERE)
        if (thing, self.at) not in self.laid:
            raise RefusedError(f"you have put no {name} down here")
        if self.room.things[tool].kind not in KNIVES or not self.room.can(thing, "sliceable"):
            raise RefusedError(f"you cannot slice the {name} with the {knife}")
        self.sliced.add(thing)

    def _examine(self, name: str, _: str) -> None:
        if name in self.room.by_name:
            self._see(self._place_here(name))
            return
        thing = self.room.thing_by_name.get(name, NOWHERE)
        if thing == NOWHERE or (thing != self.held and not self._in_view(thing)):
            raise RefusedError(f"you neither hold nor see a {name} here" if name else "examine what?")

    def _in_view(self, thing: int) -> bool:
        return "examine_held_only" not in self.quirks and thing in self.visible()

    def _nothing(self, _: str, __: str) -> None:
        pass

    def _look(self, _: str, __: str) -> None:
        if "blind_look" not in self.quirks:
            for r in self.room.at_point[self.at]:
                self._see(r)

    # ---- snapshots ------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        marks = {name: sorted(getattr(self, name)) for name in _MARKS}
        pairs = {"laid": sorted(map(list, self.laid)), "left": sorted(map(list, self.left))}
        return {"at": self.at, "held": self.held, "contents": [list(c) for c in self.contents], **marks, **pairs}

    @classmethod
    def from_json(cls, room: Room, quirks: frozenset[str], state: Mapping[str, Any]) -> House:
        """Rebuild a house from `to_json`; KeyError, TypeError or ValueError if it is impossible in this room."""
        places, things, points = len(room.receptacles), len(room.things), len(room.points)
        house = cls(room, quirks)
        house.at = _index(state["at"], points)
        house.held = _index(state["held"], things, NOWHERE)
        contents = state["contents"]
        if type(contents) is not list or len(contents) != places:
            raise ValueError("'contents' must be a list for each receptacle")
        house.contents = [_indices(indices, things) for indices in contents]
        for name in _MARKS:
            setattr(house, name, set(_indices(state[name], places if name in ("opened", "seen") else things)))
        house.laid = _pairs(state["laid"], things, points)
        house.left = _pairs(state["left"], things, places)
        house._check()
        return house

    def _check(self) -> None:
        """Require every thing in one place or in the hand, and unmovable things where they were; else ValueError."""
        start = self.room.start.contents
        for o in range(len(self.room.things)):
            if self.room.can(o, "pickupable"):
                continue
            if o == self.held or any((o in now) != (o in then) for now, then in zip(self.contents, start, strict=True)):
                raise ValueError(f"the {self.room.things[o].name} cannot have been moved")
        before = sum(map(len, start))
        now = sum(map(len, self.contents)) + (self.held != NOWHERE)
        present = {o for things in self.contents for o in things} | {self.held} - {NOWHERE}
        if present != {o for things in start for o in things} or now > before:
            raise ValueError("things have appeared or disappeared")


def _index(value: object, size: int, least: int = 0) -> int:
    if type(value) is not int or not least <= value < size:
        raise ValueError(f"{value!r} is no integer from {least} to {size - 1}")
    return value


def _indices(values: object, size: int) -> list[int]:
    if type(values) is not list:
        raise TypeError(f"{values!r} is not a list")
    indices = [_index(value, size) for value in values]
    if indices != sorted(set(indices)):
        raise ValueError(f"{values!r} is not ascending")
    return indices


def _pairs(values: object, first: int, second: int) -> set[tuple[int, int]]:
    if type(values) is not list:
        raise TypeError(f"{values!r} is not a list")
    pairs = [(_index(a, first), _index(b, second)) for a, b in values]
    if pairs != sorted(set(pairs)):
        raise ValueError(f"{values!r} is not ascending")
    return set(pairs)


_RULES: Mapping[str, Callable[[House, str, str], None]] = {
    "go": House._go,
    "open": House._open,
    "close": House._close,
    "take": House._take,
    "move": House._move,
    "clean": lambda house, name, station: house._treat("clean", name, station),
    "heat": lambda house, name, station: house._treat("heat", name, station),
    "cool": lambda house, name, station: house._treat("cool", name, station),
    "use": House._use,
    "slice": House._slice,
    "examine": House._examine,
    "look": House._look,
    "inventory": House._nothing,
    "help": House._nothing,
}
VERBS = tuple(_RULES)


def missing_treatment(house: House, thing: int) -> str:
    """Return the treatment that a thing still needs for the goal, or ""."""
    state = house.room.goal.state
    if not state or thing in house.in_state(state):
        return ""
    return TREATMENT[state]
