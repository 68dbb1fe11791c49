"""The constant part of a household: receptacles, things, the initial state and the goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

State = Literal["", "clean", "hot", "cool"]
NOWHERE = -1
"""The index of no receptacle, no thing, no point."""
STATIONS: Mapping[str, str] = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""Treatment to the type of receptacle where it is done."""
ABLE: Mapping[str, str] = {"clean": "cleanable", "heat": "heatable", "cool": "coolable"}
"""Treatment to the ability that a thing needs for it."""
TREATMENT: Mapping[State, str] = {"clean": "clean", "hot": "heat", "cool": "cool"}
"""State to the treatment that produces it."""
OPENABLE = frozenset({"fridge", "cabinet", "microwave", "drawer", "safe"})


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A receptacle of things."""

    name: str
    """Type and number: `drawer 2`."""
    kind: str
    """Lower-case type: `drawer`."""
    point: int
    """Index of the point from which it is reached; NOWHERE if it is out of reach."""
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
    """Whether it is a movable receptacle: a bowl, a box."""
    inside: tuple[str, ...] = ()
    """Names of the things in a vessel; taking one out does not change what is observed."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal: things of a type, in a state, in a receptacle of a type; or one held by a lamp that is on."""

    kind: str
    """ALFWorld's name of the task type."""
    thing: str
    place: str = ""
    """Type of receptacle; empty for a goal with a lamp."""
    lamp: str = ""
    """Type of lamp; empty for a goal with a receptacle."""
    state: State = ""
    count: int = 1
    """The number of things that must lie in one receptacle."""


@dataclass(frozen=True, slots=True)
class Start:
    """The state at the start of an episode."""

    at: int
    """The agent's point."""
    contents: tuple[tuple[int, ...], ...]
    """The things in each receptacle, ascending."""
    opened: frozenset[int] = frozenset()
    clean: frozenset[int] = frozenset()
    hot: frozenset[int] = frozenset()
    cool: frozenset[int] = frozenset()
    lit: frozenset[int] = frozenset()
    """Lamps that are on."""
    sliced: frozenset[int] = frozenset()
    laid: frozenset[tuple[int, int]] = frozenset()
    """Pairs of a thing and the point where it was put down."""


@dataclass(frozen=True, eq=False)
class Room:
    """A household at the start of an episode; immutable and compared by identity."""

    receptacles: tuple[Receptacle, ...]
    """In the order of listings."""
    things: tuple[Thing, ...]
    """In the order of listings."""
    fitting: Mapping[str, frozenset[str]]
    """Type of receptacle to the types of things that fit."""
    start: Start
    goal: Goal
    instruction: str
    points: tuple[str, ...]
    """Names of the points where the agent can be."""
    digest: str = ""
    """A digest of its file."""
    by_name: Mapping[str, int] = field(init=False)
    """Receptacles by name."""
    thing_by_name: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {r.name: i for i, r in enumerate(self.receptacles)})
        object.__setattr__(self, "thing_by_name", {thing.name: i for i, thing in enumerate(self.things)})

    def __deepcopy__(self, memo: object) -> Room:
        return self

    @cached_property
    def at_point(self) -> tuple[tuple[int, ...], ...]:
        """The receptacles that are reached from each point."""
        at_point: list[list[int]] = [[] for _ in self.points]
        for i in self.reachable:
            at_point[self.receptacles[i].point].append(i)
        return tuple(map(tuple, at_point))

    @cached_property
    def reachable(self) -> tuple[int, ...]:
        """The receptacles that can be reached."""
        return tuple(i for i, receptacle in enumerate(self.receptacles) if receptacle.point != NOWHERE)

    @cached_property
    def of_kind(self) -> Mapping[str, tuple[int, ...]]:
        """The reachable receptacles of each type."""
        of_kind: dict[str, tuple[int, ...]] = {}
        for i in self.reachable:
            kind = self.receptacles[i].kind
            of_kind[kind] = (*of_kind.get(kind, ()), i)
        return of_kind

    @cached_property
    def goal_things(self) -> frozenset[int]:
        """The things of the goal's type that can reach its state."""
        able = ABLE[TREATMENT[self.goal.state]] if self.goal.state else ""
        return frozenset(
            i
            for i, thing in enumerate(self.things)
            if thing.kind == self.goal.thing and (not able or able in thing.abilities)
        )

    @cached_property
    def lamps(self) -> frozenset[int]:
        """The lamps of the goal's type."""
        return frozenset(i for i in self.usable if self.things[i].kind == self.goal.lamp)

    @cached_property
    def goal_receptacles(self) -> tuple[int, ...]:
        """The receptacles of the goal's type, including those out of reach: their contents count, too."""
        return tuple(i for i, receptacle in enumerate(self.receptacles) if receptacle.kind == self.goal.place)

    @cached_property
    def targets(self) -> tuple[int, ...]:
        """The reachable receptacles of the goal's type that the goal's things fit."""
        return tuple(r for r in self.of_kind.get(self.goal.place, ()) if self.takes(r, self.goal.thing))

    @cached_property
    def listed_names(self) -> tuple[str, ...]:
        """The names of the reachable receptacles, as listed in the first observation."""
        return tuple(self.receptacles[i].name for i in self.reachable)

    @cached_property
    def takeable(self) -> frozenset[int]:
        """The things that can be picked up."""
        return frozenset(i for i in range(len(self.things)) if self.can(i, "pickupable"))

    @cached_property
    def usable(self) -> frozenset[int]:
        """The things that can be switched on."""
        return frozenset(i for i in range(len(self.things)) if self.can(i, "toggleable"))

    @cached_property
    def go_commands(self) -> tuple[tuple[str, int], ...]:
        """The commands that lead to receptacles, with their points, sorted."""
        reachable = (self.receptacles[i] for i in self.reachable)
        return tuple(sorted((f"go to {receptacle.name}", receptacle.point) for receptacle in reachable))

    def takes(self, receptacle: int, kind: str) -> bool:
        """Tell whether things of a type fit into a receptacle."""
        return kind in self.fitting.get(self.receptacles[receptacle].kind, ())

    def can(self, thing: int, ability: str) -> bool:
        """Tell whether a thing has an ability, such as `pickupable`."""
        return ability in self.things[thing].abilities

    def without_shared_points(self) -> Room:
        """Return the room with a separate point for each reachable receptacle and one for the start."""
        new_point = {r: n for n, r in enumerate(self.reachable)}
        first = self.at_point[self.start.at]
        at = new_point[first[0]] if first else len(self.reachable)
        laid = frozenset((o, new_point[r]) for o, p in self.start.laid for r in self.at_point[p])
        receptacles = tuple(replace(r, point=new_point.get(i, NOWHERE)) for i, r in enumerate(self.receptacles))
        points = tuple(f"loc {n + 1}" for n in range(len(self.reachable) + 1))
        return replace(self, receptacles=receptacles, points=points, start=replace(self.start, at=at, laid=laid))

    def with_all_doors(self) -> Room:
        """Return the room with a door that opens on every receptacle of an openable type."""
        receptacles = tuple(replace(r, openable=r.openable or r.kind in OPENABLE) for r in self.receptacles)
        return replace(self, receptacles=receptacles)

    def ordered(self, *, ascending: bool) -> Room:
        """Return the room with its lists ordered by type and number, ascending or (ALFWorld's) descending."""
        sign = 1 if ascending else -1
        places = sorted(range(len(self.receptacles)), key=lambda i: _key(self.receptacles[i].name, sign))
        order = sorted(range(len(self.things)), key=lambda i: _key(self.things[i].name, sign))
        new_thing = {old: new for new, old in enumerate(order)}
        new_place = {old: new for new, old in enumerate(places)}
        start = self.start

        def renumbered(things: frozenset[int]) -> frozenset[int]:
            return frozenset(new_thing[o] for o in things)

        return replace(
            self,
            receptacles=tuple(self.receptacles[i] for i in places),
            things=tuple(self.things[i] for i in order),
            start=Start(
                at=start.at,
                contents=tuple(tuple(sorted(new_thing[o] for o in start.contents[i])) for i in places),
                opened=frozenset(new_place[r] for r in start.opened),
                clean=renumbered(start.clean),
                hot=renumbered(start.hot),
                cool=renumbered(start.cool),
                lit=renumbered(start.lit),
                sliced=renumbered(start.sliced),
                laid=frozenset((new_thing[o], p) for o, p in start.laid),
            ),
        )


def _key(name: str, sign: int) -> tuple[str, int]:
    kind, _, number = name.rpartition(" ")
    return kind, sign * int(number)
