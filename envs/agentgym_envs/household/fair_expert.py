"""An expert who must look for things: it knows only the receptacles and what they have shown so far."""

from __future__ import annotations

from collections.abc import Collection

from agentgym_envs.household.expert import delivery, fetch, plan
from agentgym_envs.household.house import House
from agentgym_envs.household.priors import likely, stands
from agentgym_envs.household.room import NOWHERE


def known_things(house: House) -> set[int]:
    """The things whose place follows from what was told: those in receptacles that were seen, and those handled."""
    return house.handled.union(*(house.contents[r] for r in house.seen))


def untold(house: House) -> list[str]:
    """The names of things that nothing has told of: neither what was seen nor what ALFWorld's list of commands names.

    That list names what stands open where one is, looked at or not, and lamps even behind a door.
    """
    room = house.room
    here = {o for r in room.at_point[house.at] for o in house.contents[r]}
    told = known_things(house).union(house.visible(), here & room.usable)
    vessels = {name for o in told for name in room.things[o].inside}
    return [each.name for o, each in enumerate(room.things) if o not in told and each.name not in vessels]


def next_command(house: House, old: bool = False) -> str | None:
    """The next command of somebody who remembers everything and searches where such things are likely.

    Enough is known: the shortest way. Two are wanted and one is known: that one is brought first. Else the receptacle
    is next that promises most for a command.
    """
    known = known_things(house)
    way = _way(house, known, old)
    return way[0] if way else _explore(house, known)


def reason(house: House, action: str, old: bool = False) -> str:
    """Why somebody who knows only what was told would do an action: what they will do with it, or what they look for.

    Before anything was seen they also say what they are after, in the same words however the task is worded.
    """
    after = "" if house.seen else f"I am after {_aim(house)}."
    return " ".join(filter(None, (after, _purpose(house, action, old))))


def _aim(house: House) -> str:
    goal = house.room.goal
    number = "two" if goal.count == 2 else "a"
    where = f"by a {goal.lamp}" if goal.lamp else f"in a {goal.place}"
    return " ".join(filter(None, (number, goal.state, goal.thing, where)))


def _purpose(house: House, action: str, old: bool) -> str:
    known = known_things(house)
    way = _way(house, known, old)
    if way and way[0] == action:
        deed = next((text for text in way if not text.startswith(("go to ", "open "))), "be where the lamp is on")
        return "" if deed == action else f"I want to {deed}."
    place = action.removeprefix("go to ").removeprefix("open ").removeprefix("examine ")
    if house.room.by_name.get(place, NOWHERE) in house.seen or place not in house.room.by_name:
        return ""
    return f"I have not found a {_missing(house, known)} yet. {place} may hold one."


def _way(house: House, known: set[int], old: bool) -> list[str] | None:
    return plan(house, known, old) or _on_the_way(house, known, old)


def _on_the_way(house: House, known: Collection[int], old: bool) -> list[str] | None:
    """What can be done before everything is known: bring the first of two, take what shall be seen by a lamp."""
    room, goal = house.room, house.room.goal
    brought = any(o in known and o in room.wanted for r in room.targets for o in house.contents[r])
    if goal.count == 2 and not brought:
        return delivery(house, known, old)
    return fetch(house, known, old) if goal.lamp and house.held not in room.wanted else None


def _missing(house: House, known: set[int]) -> str:
    """The type of thing that is looked for: what is wanted, and then the lamp."""
    goal = house.room.goal
    return goal.lamp if goal.lamp and not known.isdisjoint(house.room.wanted) else goal.thing


def _explore(house: House, known: set[int]) -> str | None:
    """Look into the unseen receptacle that promises most of what is missing; None when all were seen."""
    room, missing = house.room, _missing(house, known)
    unseen = [r for places in room.of_kind.values() for r in places if r not in house.seen]
    fit = [r for r in unseen if stands(missing, room.receptacles[r].kind, room.fitting)] or unseen
    best = max(fit, key=lambda r: likely(missing, room.receptacles[r].kind) / _cost(house, r), default=NOWHERE)
    if best == NOWHERE:
        return None
    name = room.receptacles[best].name
    if not house.here(best):
        return f"go to {name}"
    return f"examine {name}" if house.accessible(best) else f"open {name}"


def _cost(house: House, receptacle: int) -> int:
    """The commands until one sees what is in a receptacle."""
    walk = not house.here(receptacle)
    return max(1, walk + (not house.accessible(receptacle)))
