"""Text actions: BabyAI's six moves, and AgentGym's walks to things in view."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentgym_envs.grid.view import Sight
from agentgym_envs.grid.world import (
    CLOSED,
    DROP,
    FORWARD,
    FREE,
    LEFT,
    LOCKED,
    OPEN,
    PICKUP,
    RIGHT,
    TOGGLE,
    TURNS,
    World,
)

MOVES = {
    "turn left": LEFT, "turn right": RIGHT, "move forward": FORWARD, "pick up": PICKUP, "drop": DROP, "toggle": TOGGLE,
    "left": LEFT, "right": RIGHT, "forward": FORWARD, "go forward": FORWARD, "pickup": PICKUP,
}  # fmt: skip
MOVE_NAMES = {LEFT: "turn left", RIGHT: "turn right", FORWARD: "move forward", PICKUP: "pick up", DROP: "drop",
              TOGGLE: "toggle"}  # fmt: skip
GO_TO, PICK_UP, DROP_NEXT = "go to", "pick up", "drop next to"
GO_THROUGH, TOGGLE_AND_GO = "go through", "toggle and go through"
OPEN_IT, TOGGLE_IT = "open", "toggle"
"""Walks that are understood, but not listed."""
WALKS = (GO_TO, PICK_UP, DROP_NEXT, GO_THROUGH, TOGGLE_AND_GO, OPEN_IT, TOGGLE_IT)
_ENDS = {
    PICK_UP: [PICKUP], DROP_NEXT: [DROP], GO_THROUGH: [FORWARD], TOGGLE_AND_GO: [TOGGLE, FORWARD], OPEN_IT: [TOGGLE],
    TOGGLE_IT: [TOGGLE],
}  # fmt: skip
"""Moves at the end of a walk."""
_NAMED_DROP = re.compile(r"(?:put|drop) (?P<carried>.+?) next to (?P<name>.+)|drop (?!next to\b)(?P<only>.+)")
"""Drops that name what is carried."""
_SKIPPED = frozenset(("the", "a", "an", "open", "closed", "locked"))
"""Articles and states of doors, which do not tell things apart."""
_ANY = ("object", "thing")
"""Words for things of every kind."""


class Refusal(NamedTuple):
    """Why an action cannot be done."""

    why: str


NO_ACTION = Refusal("Not an action")


def moves_of(world: World, seen: Sequence[int], listed: Sequence[Sight], text: str) -> list[int] | Refusal:
    """Return the moves of an action in lower case; `seen` and `listed` are the view."""
    action = _without_carried(world, text.replace("pickup ", f"{PICK_UP} "))
    if isinstance(action, Refusal):
        return action
    if action in MOVES:
        return [MOVES[action]]
    verb = max((walk for walk in WALKS if f"{action} ".startswith(f"{walk} ")), key=len, default="")
    words = _words(action[len(verb) :])
    if not verb or not words:
        return NO_ACTION
    sight = _named(world, listed, words)
    return sight if isinstance(sight, Refusal) else walk(world, seen, sight, verb)


def _words(name: str) -> list[str]:
    """The words of a name without articles and states of doors."""
    return [word for word in name.split() if word not in _SKIPPED]


def _without_carried(world: World, text: str) -> str | Refusal:
    """Leave out what is carried: `drop` for `drop the ball`, `drop next to box` for `put the ball next to the box`."""
    drop = _NAMED_DROP.fullmatch(text)
    if not drop:
        return text
    if world.carried < 0:
        return Refusal("You carry nothing")
    words = [word for word in _words(drop["carried"] or drop["only"]) if not word.isdigit()]
    if words != ["it"] and not _fits(world, world.carried, words):
        return Refusal(f"You do not carry the {' '.join(words)[:60]}")
    return f"{DROP_NEXT} {drop['name']}" if drop["name"] else "drop"


def _fits(world: World, index: int, words: Sequence[str]) -> bool:
    """Tell whether words mean a thing: its kind, its colour, or both."""
    thing = world.layout.things[index]
    return bool(words) and {*words} <= {thing.color, thing.kind, *_ANY}


def _named(world: World, listed: Sequence[Sight], words: Sequence[str]) -> Sight | Refusal:
    """The thing in view with a name: the nearest one of a colour and kind, or the only one of a colour or kind."""
    name = " ".join(words)
    for sight in listed:
        if sight.name in (name, f"{name} 1"):
            return sight
    fitting = [sight for sight in listed if _fits(world, sight.thing, words)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        return Refusal(f"Say which {name}: {', '.join(sight.name for sight in fitting)}")
    return Refusal(f"Nothing in view is called {name[:60]}")


def walk(world: World, seen: Sequence[int], sight: Sight, verb: str) -> list[int] | Refusal:
    """Return the moves of a walk to a thing in view, over cells in view."""
    steps, target, is_door = world.layout.steps, sight.cell, world.layout.things[sight.thing].kind == "door"
    if verb in (GO_THROUGH, TOGGLE_AND_GO) and not is_door:
        return Refusal(f"The {sight.name} is not a door")
    if verb == GO_THROUGH and world.doors[sight.thing] != OPEN:
        return Refusal(f"The {sight.name} is not open")
    if verb in (OPEN_IT, TOGGLE_IT) and not (is_door or world.layout.things[sight.thing].kind == "box"):
        return Refusal(f"The {sight.name} cannot be opened")
    if verb in (TOGGLE_AND_GO, OPEN_IT) and is_door and world.doors[sight.thing] == OPEN:
        return Refusal(f"The {sight.name} is open")
    toggles = verb in (TOGGLE_AND_GO, OPEN_IT, TOGGLE_IT)
    if toggles and world.doors[sight.thing] == LOCKED and not world.has_key(sight.thing):
        return Refusal(f"The {sight.name} is locked, and you do not carry its key")
    if verb == PICK_UP and (is_door or world.carried >= 0):
        return Refusal("You cannot carry that" if is_door else "You carry something already")
    if verb == DROP_NEXT and world.carried < 0:
        return Refusal("You carry nothing")
    if verb == DROP_NEXT:
        beside = {target + step for step in steps if world.cells[target + step] == FREE}
        route = _route(world, seen, beside.__contains__)
    else:
        route = _route(world, seen, target.__eq__)
    if route is None:
        return Refusal(f"No way to the {sight.name} is in view")
    return route + _ENDS.get(verb, [])


def _route(world: World, seen: Sequence[int], is_ahead: Callable[[int], bool]) -> list[int] | None:
    """A shortest way over visible cells to where a wanted cell is ahead."""
    steps = world.layout.steps
    passable = {cell for cell in seen if world.is_passable(cell)}
    start = world.at * 4 + world.facing
    parents, queue = {start: (-1, -1)}, deque([start])
    while queue:
        pose = queue.popleft()
        at, facing = pose >> 2, pose & 3
        front = at + steps[facing]
        if is_ahead(front):
            route = list[int]()
            while (step := parents[pose])[0] >= 0:
                route.append(step[1])
                pose = step[0]
            return route[::-1]
        for move, by in TURNS:
            if (other := at * 4 + ((facing + by) & 3)) not in parents:
                parents[other] = pose, move
                queue.append(other)
        if front in passable and (other := front * 4 + facing) not in parents:
            parents[other] = pose, FORWARD
            queue.append(other)
    return None


def admissible(world: World, listed: Sequence[Sight]) -> list[str]:
    """List the actions that can be tried here."""
    things, content = world.layout.things, world.cells[world.front]
    actions = ["turn left", "turn right"]
    if world.is_passable(world.front):
        actions.append("move forward")
    kind = things[content - 1].kind if content > 0 else ""
    if kind in ("ball", "box", "key") and world.carried < 0:
        actions.append("pick up")
    if world.carried >= 0 and content == FREE:
        actions.append("drop")
    if kind in ("door", "box") and (kind == "box" or world.doors[content - 1] != LOCKED or world.has_key(content - 1)):
        actions.append("toggle")
    for sight in listed:
        name = sight.name
        if sight.cell != world.front:
            actions.append(f"{GO_TO} {name}")
        if things[sight.thing].kind == "door":
            state = world.doors[sight.thing]
            if state == OPEN:
                actions.append(f"{GO_THROUGH} {name}")
            elif state == CLOSED or world.has_key(sight.thing):
                actions.append(f"{TOGGLE_AND_GO} {name}")
        elif world.carried < 0:
            actions.append(f"{PICK_UP} {name}")
        if world.carried >= 0:
            actions.append(f"{DROP_NEXT} {name}")
    return actions


def first_action(world: World, seen: Sequence[int], listed: Sequence[Sight], moves: Sequence[int]) -> tuple[str, int]:
    """Return the text action that does the beginning of a plan, and how many of its moves it does.

    A walk replaces moves if it ends where they end, in as many moves.
    """
    for verb, cell, count in _walks(world, moves):
        for sight in _beside(world, listed, cell) if verb == DROP_NEXT else listed:
            if verb == DROP_NEXT or sight.cell == cell:
                route = walk(world, seen, sight, verb)
                if isinstance(route, list) and _same_end(world, route, moves[:count]):
                    return f"{verb} {sight.name}", count
    return MOVE_NAMES[moves[0]], 1


def _beside(world: World, listed: Sequence[Sight], cell: int) -> list[Sight]:
    """The things in view beside a cell, first those next to which the mission puts what is carried."""
    wanted = {thing for clause in world.pending if world.carried in clause.things for thing in clause.others}
    beside = (sight for sight in listed if world.is_beside(cell, sight.cell))
    return sorted(beside, key=lambda sight: sight.thing not in wanted)


def _walks(world: World, moves: Sequence[int]) -> list[tuple[str, int, int]]:
    """Walks that could replace the beginning of a plan, the longest first: verb, cell of the thing, number of moves."""
    at, facing, steps, found = world.at, world.facing, world.layout.steps, list[tuple[str, int, int]]()
    for index, move in enumerate(moves):
        front = at + steps[facing]
        after = moves[index + 1] if index + 1 < len(moves) else -1
        if move == PICKUP:
            found.append((PICK_UP, front, index + 1))
        elif move == DROP:
            found.append((DROP_NEXT, front, index + 1))
        elif move == TOGGLE and after == FORWARD:
            found.append((TOGGLE_AND_GO, front, index + 2))
        if move in (PICKUP, DROP, TOGGLE):
            if index:
                found.append((GO_TO, front, index))
            break
        if move == FORWARD:
            at = front
            if world.cells[at] != FREE:
                found.append((GO_THROUGH, at, index + 1))
        else:
            facing = (facing + (3 if move == LEFT else 1)) % 4
    else:
        found.append((GO_TO, at + steps[facing], len(moves)))
    useful = [each for each in found if each[2] > 1 or each[0] not in (GO_TO, GO_THROUGH)]
    return sorted(useful, key=lambda each: -each[2])


def _same_end(world: World, route: Sequence[int], moves: Sequence[int]) -> bool:
    if len(route) != len(moves):
        return False
    if list(route) == list(moves):
        return True
    one, other = world.copy(), world.copy()
    for first, second in zip(route, moves, strict=True):
        one.do(first)
        other.do(second)
    return (one.at, one.facing, one.cells, one.done) == (other.at, other.facing, other.cells, other.done)
