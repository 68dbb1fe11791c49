"""The fair expert: it searches for things and knows only the receptacles and what the episode has shown."""

from __future__ import annotations

from collections.abc import Collection

from agentgym_envs.household.expert import delivery, fetch, plan
from agentgym_envs.household.house import House
from agentgym_envs.household.priors import can_start, frequency
from agentgym_envs.household.room import NOWHERE, Goal


def find_known_things(house: House) -> set[int]:
    """Return the things whose place the observations imply: those in seen receptacles and those handled."""
    return house.handled.union(*(house.contents[r] for r in house.seen))


def undisclosed_names(house: House) -> list[str]:
    """List the names of things that neither the observations nor ALFWorld's admissible commands have disclosed.

    The commands name what lies open at the agent's place, looked at or not, and lamps even behind a door.
    """
    room = house.room
    here = {o for r in room.at_point[house.at] for o in house.contents[r]}
    disclosed = find_known_things(house).union(house.visible(), here & room.usable)
    vessels = {name for o in disclosed for name in room.things[o].inside}
    return [thing.name for o, thing in enumerate(room.things) if o not in disclosed and thing.name not in vessels]


def next_command(house: House, old: bool = False) -> str | None:
    """Return the next command of an agent that remembers all observations and searches likely places first.

    If it knows enough, it follows a shortest plan. If the task needs two things and it knows one, it delivers that one
    first. Otherwise it looks into the receptacle with the most expected gain per command.
    """
    known_things = find_known_things(house)
    plan_ = _known_plan(house, known_things, old)
    return plan_[0] if plan_ else explore(house, _missing(house, known_things))


def thought(house: House, action: str, old: bool = False) -> str:
    """Return the fair expert's thought before an action: what it will do next, or what it is looking for.

    Before it has seen anything it also states its aim, in the same words for every wording of the task.
    """
    after = "" if house.seen else f"I am after {aim(house.room.goal)}."
    return " ".join(filter(None, (after, _purpose(house, action, old))))


def aim(goal: Goal) -> str:
    """Say a goal in the same words for every wording of the task: `a clean mug in a shelf`."""
    number = "two" if goal.count == 2 else "a"
    where = f"by a {goal.lamp}" if goal.lamp else f"in a {goal.place}"
    return " ".join(filter(None, (number, goal.state, goal.thing, where)))


def _purpose(house: House, action: str, old: bool) -> str:
    known_things = find_known_things(house)
    plan_ = _known_plan(house, known_things, old)
    if plan_ and plan_[0] == action:
        command = next((text for text in plan_ if not text.startswith(("go to ", "open "))), "be where the lamp is on")
        return "" if command == action else f"I want to {command}."
    place = action.removeprefix("go to ").removeprefix("open ").removeprefix("examine ")
    if house.room.by_name.get(place, NOWHERE) in house.seen or place not in house.room.by_name:
        return ""
    return searching(_missing(house, known_things), place)


def searching(missing: str, place: str) -> str:
    """Return the thought before a place is searched."""
    return f"I have not found a {missing} yet. {place} may hold one."


def _known_plan(house: House, known_things: set[int], old: bool) -> list[str] | None:
    return plan(house, known_things, old) or _partial_plan(house, known_things, old)


def _partial_plan(house: House, known_things: Collection[int], old: bool) -> list[str] | None:
    """Plan before everything is known: deliver the first of two things, or take the thing to look at."""
    room, goal = house.room, house.room.goal
    delivered = any(o in known_things and o in room.goal_things for r in room.targets for o in house.contents[r])
    if goal.count == 2 and not delivered:
        return delivery(house, known_things, old)
    return fetch(house, known_things, old) if goal.lamp and house.held not in room.goal_things else None


def _missing(house: House, known_things: set[int]) -> str:
    """Return the type of thing to search for: the goal's, then the lamp."""
    goal = house.room.goal
    return goal.lamp if goal.lamp and not known_things.isdisjoint(house.room.goal_things) else goal.thing


def explore(house: House, missing: str) -> str | None:
    """Return the command that leads to the most promising unseen receptacle for a type; None if all are seen."""
    room = house.room
    unseen = [r for places in room.of_kind.values() for r in places if r not in house.seen]
    fit = [r for r in unseen if can_start(missing, room.receptacles[r].kind, room.fitting)] or unseen
    best = max(fit, key=lambda r: frequency(missing, room.receptacles[r].kind) / _cost(house, r), default=NOWHERE)
    if best == NOWHERE:
        return None
    name = room.receptacles[best].name
    if not house.here(best):
        return f"go to {name}"
    return f"examine {name}" if house.accessible(best) else f"open {name}"


def _cost(house: House, receptacle: int) -> int:
    """Count the commands until the contents of a receptacle are seen."""
    walk = not house.here(receptacle)
    return max(1, walk + (not house.accessible(receptacle)))
