"""What stands fixed in a household: receptacles, things, what fits where, how it lies at the start, and the goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

State = Literal["", "clean", "hot", "cool"]
NOWHERE = -1
"""The index of no receptacle, no thing, no point."""
STATIONS: Mapping[str, str] = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""Where each treatment is done: a verb and a type of receptacle."""
ABLE: Mapping[str, str] = {"clean": "cleanable", "heat": "heatable", "cool": "coolable"}
"""What a thing must be for a treatment."""
TREATMENT: Mapping[State, str] = {"clean": "clean", "hot": "heat", "cool": "cool"}
"""The verb that brings a thing into a state."""
OPENABLE = frozenset({"fridge", "cabinet", "microwave", "drawer", "safe"})


@dataclass(frozen=True, slots=True)
class Receptacle:
    """Something that holds things."""

    name: str
    """Type and number: `drawer 2`."""
    kind: str
    """Lower-case type: `drawer`."""
    point: int
    """Index of the place from which it is reached; NOWHERE if it cannot be."""
    openable: bool = False


@dataclass(frozen=True, slots=True)
class Thing:
    """An object."""

    name: str
    """Type and number: `apple 1`."""
    kind: str
    """Lower-case type: `apple`."""
    abilities: frozenset[str] = frozenset()
    """Of pickupable, cleanable, heatable, coolable, toggleable, sliceable."""
    vessel: bool = False
    """A receptacle that is carried about: a bowl, a box."""
    inside: tuple[str, ...] = ()
    """Names of what lies in a vessel; taking it out does not change what is told."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be done: things of a type, in a state, in a receptacle of a type; or one held by a lamp that is on."""

    kind: str
    """ALFWorld's name of the task type."""
    thing: str
    place: str = ""
    """Type of receptacle; empty where a lamp is wanted."""
    lamp: str = ""
    """Type of lamp; empty where a receptacle is wanted."""
    state: State = ""
    count: int = 1
    """How many must lie in one receptacle."""


@dataclass(frozen=True, slots=True)
class Start:
    """How the things are when an episode begins."""

    at: int
    """The agent's point."""
    contents: tuple[tuple[int, ...], ...]
    """Of each receptacle the things in it, ascending."""
    opened: frozenset[int] = frozenset()
    clean: frozenset[int] = frozenset()
    hot: frozenset[int] = frozenset()
    cool: frozenset[int] = frozenset()
    lit: frozenset[int] = frozenset()
    """Lamps that were switched on."""
    sliced: frozenset[int] = frozenset()
    laid: frozenset[tuple[int, int]] = frozenset()
    """Thing and point, of things that were put down there."""


@dataclass(frozen=True, eq=False)
class Room:
    """A household at the start of an episode; it never changes. Two are equal only when they are the same object."""

    receptacles: tuple[Receptacle, ...]
    """In the order in which lists name them."""
    things: tuple[Thing, ...]
    """In the order in which lists name them."""
    fitting: Mapping[str, frozenset[str]]
    """Type of receptacle to the types of things that it can contain."""
    start: Start
    goal: Goal
    instruction: str
    points: tuple[str, ...]
    """Names of the places to stand at."""
    digest: str = ""
    """Of the file that it was read from."""
    by_name: Mapping[str, int] = field(init=False)
    """Receptacles by name."""
    thing_by_name: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {each.name: i for i, each in enumerate(self.receptacles)})
        object.__setattr__(self, "thing_by_name", {each.name: i for i, each in enumerate(self.things)})

    def __deepcopy__(self, memo: object) -> Room:
        return self

    @cached_property
    def at_point(self) -> tuple[tuple[int, ...], ...]:
        """The receptacles that are reached from each point."""
        found: list[list[int]] = [[] for _ in self.points]
        for i, each in enumerate(self.receptacles):
            if each.point != NOWHERE:
                found[each.point].append(i)
        return tuple(map(tuple, found))

    @cached_property
    def of_kind(self) -> Mapping[str, tuple[int, ...]]:
        """The receptacles of each type that can be reached."""
        found: dict[str, tuple[int, ...]] = {}
        for i, each in enumerate(self.receptacles):
            if each.point != NOWHERE:
                found[each.kind] = (*found.get(each.kind, ()), i)
        return found

    @cached_property
    def wanted(self) -> frozenset[int]:
        """The things that may serve: of the goal's type, and able to come into its state."""
        able = ABLE[TREATMENT[self.goal.state]] if self.goal.state else ""
        return frozenset(
            i
            for i, each in enumerate(self.things)
            if each.kind == self.goal.thing and (not able or able in each.abilities)
        )

    @cached_property
    def lamps(self) -> frozenset[int]:
        """The lamps of the goal's type."""
        able = (i for i, each in enumerate(self.things) if each.kind == self.goal.lamp)
        return frozenset(i for i in able if "toggleable" in self.things[i].abilities)

    @cached_property
    def goals(self) -> tuple[int, ...]:
        """The receptacles of the goal's type; what lies in one counts, though nobody may get there."""
        return tuple(r for r, each in enumerate(self.receptacles) if each.kind == self.goal.place)

    @cached_property
    def targets(self) -> tuple[int, ...]:
        """The receptacles of the goal's type that can be reached and take what is wanted."""
        return tuple(r for r in self.of_kind.get(self.goal.place, ()) if self.takes(r, self.goal.thing))

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """The names of the receptacles that can be reached, as the first observation tells them."""
        return tuple(each.name for each in self.receptacles if each.point != NOWHERE)

    @cached_property
    def takeable(self) -> frozenset[int]:
        """The things that can be picked up."""
        return frozenset(i for i, each in enumerate(self.things) if "pickupable" in each.abilities)

    @cached_property
    def usable(self) -> frozenset[int]:
        """The things that can be switched on."""
        return frozenset(i for i, each in enumerate(self.things) if "toggleable" in each.abilities)

    @cached_property
    def goings(self) -> tuple[tuple[str, int], ...]:
        """The commands that lead to receptacles and the points to which they lead, sorted."""
        return tuple(sorted((f"go to {each.name}", each.point) for each in self.receptacles if each.point != NOWHERE))

    def takes(self, receptacle: int, kind: str) -> bool:
        """Whether a receptacle can contain things of a type."""
        return kind in self.fitting.get(self.receptacles[receptacle].kind, ())

    def can(self, thing: int, ability: str) -> bool:
        """Whether a thing has an ability, `pickupable` for example."""
        return ability in self.things[thing].abilities

    def apart(self) -> Room:
        """The same room with a point of its own for each receptacle that can be reached, and one for the start."""
        reached = [i for i, each in enumerate(self.receptacles) if each.point != NOWHERE]
        moved = {r: n for n, r in enumerate(reached)}
        first = self.at_point[self.start.at]
        at = moved[first[0]] if first else len(reached)
        laid = frozenset((o, moved[r]) for o, p in self.start.laid for r in self.at_point[p])
        receptacles = tuple(replace(each, point=moved.get(i, NOWHERE)) for i, each in enumerate(self.receptacles))
        points = tuple(f"loc {n + 1}" for n in range(len(reached) + 1))
        return replace(self, receptacles=receptacles, points=points, start=replace(self.start, at=at, laid=laid))

    def all_openable(self) -> Room:
        """The same room where whatever has a door has one that opens."""
        opening = tuple(replace(each, openable=each.openable or each.kind in OPENABLE) for each in self.receptacles)
        return replace(self, receptacles=opening)

    def ordered(self, *, ascending: bool) -> Room:
        """The same room with its lists in the order of types, and within a type of numbers, up or (ALFWorld's) down."""
        sign = 1 if ascending else -1
        places = sorted(range(len(self.receptacles)), key=lambda i: _key(self.receptacles[i].name, sign))
        order = sorted(range(len(self.things)), key=lambda i: _key(self.things[i].name, sign))
        now = {old: new for new, old in enumerate(order)}
        place_now = {old: new for new, old in enumerate(places)}
        start = self.start

        def renamed(marked: frozenset[int]) -> frozenset[int]:
            return frozenset(now[o] for o in marked)

        return replace(
            self,
            receptacles=tuple(self.receptacles[i] for i in places),
            things=tuple(self.things[i] for i in order),
            start=Start(
                at=start.at,
                contents=tuple(tuple(sorted(now[o] for o in start.contents[i])) for i in places),
                opened=frozenset(place_now[r] for r in start.opened),
                clean=renamed(start.clean),
                hot=renamed(start.hot),
                cool=renamed(start.cool),
                lit=renamed(start.lit),
                sliced=renamed(start.sliced),
                laid=frozenset((now[o], p) for o, p in start.laid),
            ),
        )


def _key(name: str, sign: int) -> tuple[str, int]:
    kind, _, number = name.rpartition(" ")
    return kind, sign * int(number)
