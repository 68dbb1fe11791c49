"""The shortest plan from any state of a household, in closed form: over thing, treatment, receptacle and put-down.

Every walk costs one command, so a plan is a few deeds (put down, take, treat, put, use), and its length is theirs plus
a walk before each deed that is done elsewhere and an opening before each that wants an open receptacle. What is left is
to choose which thing, which station, which receptacle; `_choose` names the few that can differ in length. A plan never
puts a wanted thing down halfway: that costs a put-down and a take, and saves no more than the walk it could replace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import product

from agentgym_envs.household.commands import put_command
from agentgym_envs.household.house import House, needs
from agentgym_envs.household.room import ABLE, NOWHERE, STATIONS, Room

Deed = tuple[str, int, int]
"""A verb, a thing and the receptacle where it is done; `be` only stands there."""
Deeds = tuple[Deed, ...]


def plan(house: House, known: Collection[int] | None = None, old: bool = False) -> list[str] | None:
    """A shortest list of commands that reaches the goal, with only the things of `known` where it is given.

    None where there is no way. Where the goal is reached already, one command that changes nothing: an episode ends
    only at a command.
    """
    if house.won():
        return ["look"]
    return _shortest(house, candidates(house, known), old)


def candidates(house: House, known: Collection[int] | None = None) -> Iterator[Deeds]:
    """Deeds that reach the goal; a shortest way is among them."""
    if house.room.goal.lamp:
        return _by_lamp(house, known)
    return _pairs(house, known) if house.room.goal.count == 2 else _singles(house, known)


def delivery(house: House, known: Collection[int], old: bool = False) -> list[str] | None:
    """The shortest way to bring one known thing to where two are wanted; None where none is known."""
    gets = _gets(house, known)
    return _shortest(house, (get + _brought(r, o) for o, at, get in gets for r in _choices(house, {house.at, at})), old)


def fetch(house: House, known: Collection[int], old: bool = False) -> list[str] | None:
    """The shortest way to have a known wanted thing in the hand; None where none is known."""
    return _shortest(house, (get for _, _, get in _gets(house, known)), old)


def _shortest(house: House, ways: Iterable[Deeds], old: bool) -> list[str] | None:
    best = min(ways, key=lambda deeds: _length(house, deeds), default=None)
    return None if best is None else list(_commands(house, best, old))


def _walk(house: House, deeds: Deeds) -> Iterator[tuple[bool, bool, Deed]]:
    """Of each deed whether one must walk first and open first."""
    room, at = house.room, house.at
    opened = house.opened
    for deed in deeds:
        verb, _, r = deed
        place = room.receptacles[r]
        goes = place.point != at
        at = place.point
        opens = place.openable and verb in ("take", "move") and r not in opened
        if opens:
            opened = opened | {r}
        yield goes, opens, deed


def _length(house: House, deeds: Deeds) -> int:
    return sum(goes + opens + (deed[0] != "be") for goes, opens, deed in _walk(house, deeds))


def _commands(house: House, deeds: Deeds, old: bool) -> Iterator[str]:
    room = house.room
    for goes, opens, (verb, o, r) in _walk(house, deeds):
        place, thing = room.receptacles[r].name, room.things[o].name
        if goes:
            yield f"go to {place}"
        if opens:
            yield f"open {place}"
        if verb == "take":
            yield f"take {thing} from {place}"
        elif verb == "move":
            yield put_command(thing, place, old)
        elif verb == "use":
            yield f"use {thing}"
        elif verb != "be":
            yield f"{verb} {thing} with {place}"


# ---- ways ------------------------------------------------------------------------------------------------------------


def _gets(house: House, known: Collection[int] | None) -> Iterator[tuple[int, int, Deeds]]:
    """Ways to have a wanted thing in the hand: the thing, the point where one stands then, the deeds."""
    room = house.room
    if house.held in room.wanted:
        yield house.held, house.at, ()
    for o in sorted(room.wanted & room.takeable if known is None else room.wanted & room.takeable & set(known)):
        if o == house.held:
            continue
        for q in house.places(o):
            if room.receptacles[q].point == NOWHERE:
                continue
            for down in _put_downs(house, q):
                yield o, room.receptacles[q].point, (*down, ("take", o, q))


def _put_downs(house: House, source: int) -> Iterator[Deeds]:
    """Ways to have the hand empty before something is taken from `source`."""
    if house.held == NOWHERE:
        yield ()
        return
    room, kind = house.room, house.room.things[house.held].kind
    fit = [r for r in range(len(room.receptacles)) if room.receptacles[r].point != NOWHERE and room.takes(r, kind)]
    near = {house.at, room.receptacles[source].point}
    # an opening may serve again later, so the closed ones that a way may lead to count too
    again = {*room.targets, *(r for o in room.wanted for r in house.places(o))}
    for r in _choose(house, fit, near, again):
        yield (("move", house.held, r),)


def _choose(house: House, among: Iterable[int], points: Collection[int], also: Collection[int] = ()) -> list[int]:
    """The receptacles that can differ in what a visit costs: those near, those named, and one of all others."""
    room = house.room
    near, open_, closed = [], [], []
    for r in among:
        if room.receptacles[r].point in points or r in also:
            near.append(r)
        elif house.accessible(r):
            open_.append(r)
        else:
            closed.append(r)
    return near + (open_[:1] or closed[:1])


def _choices(house: House, points: Collection[int]) -> list[int]:
    return _choose(house, house.room.targets, points)


def _brought(target: int, thing: int) -> Deeds:
    return (("move", thing, target),)


def _treated(room: Room, verb: str, thing: int) -> Iterator[tuple[Deeds, int]]:
    """Ways to treat a thing that is held, and where one stands then."""
    for s in room.of_kind.get(STATIONS[verb], ()):
        yield ((verb, thing, s),), room.receptacles[s].point


def _singles(house: House, known: Collection[int] | None) -> Iterator[Deeds]:
    """Get a thing, treat it if that is wanted, put it where it is wanted, unless it lies in such a place as well."""
    room = house.room
    for o, at, get in _gets(house, known):
        verb = needs(house, o)
        if not verb:
            ways: Iterable[tuple[Deeds, int]] = [((), at)]
        elif room.can(o, ABLE[verb]):
            ways = _treated(room, verb, o)
        else:
            continue
        seen = (r for r in room.goals if known is None or r in house.seen)
        there = any(o in house.contents[r] and ("take", o, r) not in get for r in seen)
        for treat, then in ways:
            if there:
                yield (*get, *treat)
            for r in _choices(house, {house.at, at, then}):
                yield (*get, *treat, *_brought(r, o))


def _pairs(house: House, known: Collection[int] | None) -> Iterator[Deeds]:
    """Bring one to where another lies, or two to where none lies."""
    room = house.room
    usable = room.wanted if known is None else room.wanted & set(known)
    gets = list(_gets(house, known))
    for r in room.targets:
        there = usable.intersection(house.contents[r])
        yield from ((*get, *_brought(r, o)) for o, _, get in gets if there - {o})
    for first, second in product(gets, sorted(usable & room.takeable)):
        if second != first[0]:
            yield from _two(house, first, second)


def _two(house: House, first: tuple[int, int, Deeds], second: int) -> Iterator[Deeds]:
    room = house.room
    o1, at1, get1 = first
    for q in _lying(house, second, get1):
        point = room.receptacles[q].point
        if point == NOWHERE:
            continue
        for r in _choices(house, {house.at, at1, point}):
            if r != q:
                yield (*get1, *_brought(r, o1), ("take", second, q), *_brought(r, second))


def _lying(house: House, thing: int, get: Deeds) -> list[int]:
    """Where a thing lies once another one was got, for which it may have been put down."""
    return sorted({*house.places(thing), *(r for verb, o, r in get if verb == "move" and o == thing)})


def _by_lamp(house: House, known: Collection[int] | None) -> Iterator[Deeds]:
    """Get a thing, then stand by a lamp that is on."""
    room = house.room
    lamps = room.lamps if known is None else room.lamps & set(known)
    for _, _, get in _gets(house, known):
        for lamp in sorted(lamps):
            for r in _lying(house, lamp, get):
                if room.receptacles[r].point != NOWHERE:
                    yield (*get, ("be" if lamp in house.lit else "use", lamp, r))
