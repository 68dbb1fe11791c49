"""The shortest plan from any state of a household, in closed form: over thing, treatment, receptacle and put-down.

Every walk costs one command. So a plan is a few actions (put down, take, treat, put, use), with a walk before each
action at another place and an opening before each action that needs an open receptacle. The search is over things,
stations and receptacles; `_distinct_receptacles` names the few that can differ in length. A plan never puts a goal
thing down halfway: that costs a put-down and a take, and saves at most the walk that it could replace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import product

from agentgym_envs.household.commands import put_command
from agentgym_envs.household.house import House, missing_treatment
from agentgym_envs.household.room import ABLE, NOWHERE, STATIONS, Room

Action = tuple[str, int, int]
"""A verb, a thing and a receptacle; the verb `be` only goes there."""
Actions = tuple[Action, ...]


def plan(house: House, among: Collection[int] | None = None, old: bool = False) -> list[str] | None:
    """Return a shortest list of commands that reaches the goal, using only the things `among` if given.

    Return None if there is no plan. If the goal is reached already, return one command that changes nothing, because
    an episode ends only at a command.
    """
    if house.won():
        return ["look"]
    return _shortest(house, candidates(house, among), old)


def candidates(house: House, among: Collection[int] | None = None) -> Iterator[Actions]:
    """Yield action sequences that reach the goal; a shortest one is among them."""
    if house.room.goal.lamp:
        return _plans_by_lamp(house, among)
    return _plans_for_two(house, among) if house.room.goal.count == 2 else _plans_for_one(house, among)


def delivery(house: House, among: Collection[int], old: bool = False) -> list[str] | None:
    """Return a shortest plan to deliver one of the things for a goal of two; None if there is none."""
    gets = _ways_to_hold(house, among)
    ways = (get + _deliver(r, o) for o, at, get in gets for r in _targets(house, {house.at, at}))
    return _shortest(house, ways, old)


def fetch(house: House, among: Collection[int], old: bool = False) -> list[str] | None:
    """Return a shortest plan to hold a goal thing; None if there is none."""
    return _shortest(house, (get for _, _, get in _ways_to_hold(house, among)), old)


def _shortest(house: House, ways: Iterable[Actions], old: bool) -> list[str] | None:
    best = min(ways, key=lambda actions: _length(house, actions), default=None)
    return None if best is None else list(_commands(house, best, old))


def _with_walks(house: House, actions: Actions) -> Iterator[tuple[bool, bool, Action]]:
    """Yield for each action whether a walk and an opening precede it."""
    room, at = house.room, house.at
    opened = house.opened
    for action in actions:
        verb, _, r = action
        place = room.receptacles[r]
        walks = place.point != at
        at = place.point
        opens = place.openable and verb in ("take", "move") and r not in opened
        if opens:
            opened = opened | {r}
        yield walks, opens, action


def _length(house: House, actions: Actions) -> int:
    return sum(walks + opens + (action[0] != "be") for walks, opens, action in _with_walks(house, actions))


def _commands(house: House, actions: Actions, old: bool) -> Iterator[str]:
    room = house.room
    for walks, opens, (verb, o, r) in _with_walks(house, actions):
        place, thing = room.receptacles[r].name, room.things[o].name
        if walks:
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


# ---- plans ---------------------------------------------------------------------------------------------------------


def _ways_to_hold(house: House, among: Collection[int] | None) -> Iterator[tuple[int, int, Actions]]:
    """Yield ways to hold a goal thing: the thing, the agent's point afterwards, the actions."""
    room = house.room
    takeable = room.goal_things & room.takeable
    if house.held in room.goal_things:
        yield house.held, house.at, ()
    for o in sorted(takeable if among is None else takeable & set(among)):
        if o == house.held:
            continue
        for q in house.places(o):
            if room.receptacles[q].point == NOWHERE:
                continue
            for down in _ways_to_empty_hand(house, q):
                yield o, room.receptacles[q].point, (*down, ("take", o, q))


def _ways_to_empty_hand(house: House, source: int) -> Iterator[Actions]:
    """Yield ways to empty the hand before taking a thing from `source`."""
    if house.held == NOWHERE:
        yield ()
        return
    room, kind = house.room, house.room.things[house.held].kind
    fit = [r for r in range(len(room.receptacles)) if room.receptacles[r].point != NOWHERE and room.takes(r, kind)]
    near = {house.at, room.receptacles[source].point}
    # a later action may need the same opening, so closed receptacles of the plan count, too
    again = {*room.targets, *(r for o in room.goal_things for r in house.places(o))}
    for r in _distinct_receptacles(house, fit, near, again):
        yield (("move", house.held, r),)


def _distinct_receptacles(
    house: House, receptacles: Iterable[int], points: Collection[int], also: Collection[int] = ()
) -> list[int]:
    """Return the receptacles that can differ in cost: those at the points, those of `also`, and one of the others."""
    room = house.room
    near, open_, closed = [], [], []
    for r in receptacles:
        if room.receptacles[r].point in points or r in also:
            near.append(r)
        elif house.accessible(r):
            open_.append(r)
        else:
            closed.append(r)
    return near + (open_[:1] or closed[:1])


def _targets(house: House, points: Collection[int]) -> list[int]:
    return _distinct_receptacles(house, house.room.targets, points)


def _deliver(target: int, thing: int) -> Actions:
    return (("move", thing, target),)


def _ways_to_treat(room: Room, verb: str, thing: int) -> Iterator[tuple[Actions, int]]:
    """Yield ways to treat the held thing, with the agent's point afterwards."""
    for s in room.of_kind.get(STATIONS[verb], ()):
        yield ((verb, thing, s),), room.receptacles[s].point


def _plans_for_one(house: House, among: Collection[int] | None) -> Iterator[Actions]:
    """Yield plans that take a thing, treat it if needed and deliver it, unless a copy of it lies there already."""
    room = house.room
    for o, at, get in _ways_to_hold(house, among):
        verb = missing_treatment(house, o)
        if not verb:
            ways: Iterable[tuple[Actions, int]] = [((), at)]
        elif room.can(o, ABLE[verb]):
            ways = _ways_to_treat(room, verb, o)
        else:
            continue
        visible = (r for r in room.goal_receptacles if among is None or r in house.seen)
        delivered = any(o in house.contents[r] and ("take", o, r) not in get for r in visible)
        for treat, then in ways:
            if delivered:
                yield (*get, *treat)
            for r in _targets(house, {house.at, at, then}):
                yield (*get, *treat, *_deliver(r, o))


def _plans_for_two(house: House, among: Collection[int] | None) -> Iterator[Actions]:
    """Yield plans that deliver one thing beside another, or two things."""
    room = house.room
    usable = room.goal_things if among is None else room.goal_things & set(among)
    gets = list(_ways_to_hold(house, among))
    for r in room.targets:
        delivered = usable.intersection(house.contents[r])
        yield from ((*get, *_deliver(r, o)) for o, _, get in gets if delivered - {o})
    for first, second in product(gets, sorted(usable & room.takeable)):
        if second != first[0]:
            yield from _deliver_both(house, first, second)


def _deliver_both(house: House, first: tuple[int, int, Actions], second: int) -> Iterator[Actions]:
    room = house.room
    o1, at1, get1 = first
    for q in _places_after(house, second, get1):
        point = room.receptacles[q].point
        if point == NOWHERE:
            continue
        for r in _targets(house, {house.at, at1, point}):
            if r != q:
                yield (*get1, *_deliver(r, o1), ("take", second, q), *_deliver(r, second))


def _places_after(house: House, thing: int, get: Actions) -> list[int]:
    """Return where a thing lies after another one was taken, for which it may have been put down."""
    return sorted({*house.places(thing), *(r for verb, o, r in get if verb == "move" and o == thing)})


def _plans_by_lamp(house: House, among: Collection[int] | None) -> Iterator[Actions]:
    """Yield plans that take a thing and go to a lamp that is on."""
    room = house.room
    lamps = room.lamps if among is None else room.lamps & set(among)
    for _, _, get in _ways_to_hold(house, among):
        for lamp in sorted(lamps):
            for r in _places_after(house, lamp, get):
                if room.receptacles[r].point != NOWHERE:
                    yield (*get, ("be" if lamp in house.lit else "use", lamp, r))
