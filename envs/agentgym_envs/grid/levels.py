"""BabyAI's levels, from GoToObj to BossLevel: what is in the rooms, and what the mission asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from agentgym_envs.grid.mission import LOCATIONS, Clause, Description, Mission, Verb
from agentgym_envs.grid.rooms import KINDS, MOVABLE, Room, Rooms, UnfitError
from agentgym_envs.grid.world import LOCKED, Layout, Thing
from agentgym_py.rng import Rng

_GO_TO, _PICK_UP, _OPEN, _PUT = Verb.GO_TO, Verb.PICK_UP, Verb.OPEN, Verb.PUT
Furnish = Callable[[Rooms], Mission]
_MIDDLE: Room = (1, 1)


@dataclass(frozen=True, slots=True)
class Level:
    """A level of BabyAI."""

    difficulty: str
    furnish: Furnish
    rows: int = 3
    columns: int = 3
    size: int = 8
    limit: int | None = None
    """BabyAI's limit of moves, if it is not the usual one."""


def draw(rng: Rng, name: str, colors: Sequence[str]) -> Layout:
    """Draw a layout of a level."""
    level = LEVELS[name]
    while True:
        rooms = Rooms(rng, colors, level.rows, level.columns, level.size)
        try:
            return rooms.finish(name, level.furnish(rooms), level.limit)
        except UnfitError:
            continue


def names_of(difficulty: str) -> tuple[str, ...]:
    """Return the levels of a difficulty."""
    return tuple(name for name, level in LEVELS.items() if level.difficulty == difficulty)


def _one(clause: Clause) -> Mission:
    return Mission((clause,), ((0,),))


def _two(first: Clause, second: Clause, after: bool = False) -> Mission:
    return Mission((first, second), ((0,), (1,)), after)


# ---- one room -------------------------------------------------------------------------------------------------------


def _go_to_red_ball(rooms: Rooms, others: int, grey: bool = False) -> Mission:
    rooms.place_agent()
    red, *_, last = rooms.colors
    ball = rooms.add((0, 0), "ball", red)
    for _ in range(others):
        rooms.add((0, 0), color=last if grey else None)
    rooms.require_reachable()
    return _one(rooms.clause(_GO_TO, rooms.look(ball)))


def _go_to_any(rooms: Rooms, count: int, open_doors: bool = False) -> Mission:
    rooms.place_agent()
    rooms.connect_all()
    things = rooms.add_many(count, unique=False)
    rooms.require_reachable()
    if open_doors:
        rooms.open_doors()
    return _one(rooms.clause(_GO_TO, rooms.look(rooms.rng.choice(things))))


def _go_to_red_or_blue(rooms: Rooms) -> Mission:
    rooms.place_agent()
    pair = (rooms.colors[0], rooms.colors[1])
    others = rooms.add_many(7, unique=False)
    if any(rooms.things[other].kind == "ball" and rooms.things[other].color in pair for other in others):
        raise UnfitError
    ball = rooms.add((0, 0), "ball", rooms.rng.choice(pair))
    rooms.require_reachable()
    return _one(rooms.clause(_GO_TO, rooms.look(ball)))


def _pick_up_one_of_five(rooms: Rooms) -> Mission:
    things = rooms.add_many(5)
    rooms.place_agent()
    look = rooms.look(rooms.rng.choice(things))
    by = rooms.rng.choice(("kind", "color", "both"))
    kind, color = None if by == "color" else look.kind, None if by == "kind" else look.color
    return _one(rooms.clause(_PICK_UP, Description(kind, color)))


def _pick_up_ball(rooms: Rooms) -> Mission:
    rooms.add((0, 0), "ball")
    rooms.place_agent()
    return _one(rooms.clause(_PICK_UP, Description("ball")))


def _put_in_room(rooms: Rooms) -> Mission:
    rooms.place_agent()
    things = rooms.add_many(8)
    rooms.require_reachable()
    thing, other = rooms.rng.sample(things, 2)
    return _one(rooms.clause(_PUT, rooms.look(thing), rooms.look(other)))


# ---- a room and its doors -------------------------------------------------------------------------------------------


def _go_to_door(rooms: Rooms) -> Mission:
    doors = [rooms.add_door(_MIDDLE) for _ in range(4)]
    rooms.place_agent(_MIDDLE)
    return _one(rooms.clause(_GO_TO, rooms.look(rooms.rng.choice(doors))))


def _go_to_thing_or_door(rooms: Rooms) -> Mission:
    rooms.place_agent(_MIDDLE)
    things = rooms.add_many(8, _MIDDLE, unique=False)
    things += [rooms.add_door(_MIDDLE) for _ in range(4)]
    rooms.require_reachable()
    return _one(rooms.clause(_GO_TO, rooms.look(rooms.rng.choice(things))))


def _open_red_door(rooms: Rooms) -> Mission:
    door = rooms.add_door((0, 0), 0, rooms.colors[0], locked=False)
    rooms.place_agent((0, 0))
    return _one(rooms.clause(_OPEN, rooms.look(door)))


def _open_door(rooms: Rooms) -> Mission:
    colors = rooms.rng.sample(rooms.colors, 4)
    doors = [rooms.add_door(_MIDDLE, side, color, locked=False) for side, color in enumerate(colors)]
    rooms.place_agent(_MIDDLE)
    by_color, location = rooms.rng.below(2), rooms.rng.choice(LOCATIONS)
    description = rooms.look(doors[0]) if by_color else Description("door", None, location)
    return _one(rooms.clause(_OPEN, description))


def _act_on_thing_or_door(rooms: Rooms) -> Mission:
    things = rooms.add_many(5, _MIDDLE)
    things += [rooms.add_door(_MIDDLE, locked=False) for _ in range(4)]
    rooms.place_agent(_MIDDLE)
    thing = rooms.rng.choice(things)
    act = _OPEN if rooms.things[thing].kind == "door" else _PICK_UP
    return _one(rooms.clause(rooms.rng.choice((_GO_TO, act)), rooms.look(thing)))


def _open_two_doors(rooms: Rooms) -> Mission:
    colors = rooms.rng.sample(rooms.colors, 2)
    first, second = (
        rooms.add_door(_MIDDLE, side, color, locked=False) for side, color in zip((2, 0), colors, strict=True)
    )
    rooms.place_agent(_MIDDLE)
    return _two(rooms.clause(_OPEN, rooms.look(first)), rooms.clause(_OPEN, rooms.look(second)))


def _open_in_order(rooms: Rooms, count: int) -> Mission:
    doors = [rooms.add_door(_MIDDLE, color=color, locked=False) for color in rooms.rng.sample(rooms.colors, count)]
    rooms.place_agent(_MIDDLE)
    first, second = (rooms.clause(_OPEN, rooms.look(door)) for door in rooms.rng.sample(doors, 2))
    form = rooms.rng.below(3)
    return _one(first) if form == 0 else _two(first, second, after=form == 2)


def _unlock_here(rooms: Rooms, others: int) -> Mission:
    door = rooms.add_door(_MIDDLE, locked=True)
    rooms.add(_MIDDLE, "key", rooms.things[door].color)
    rooms.add_many(others, _MIDDLE)
    rooms.place_agent(_MIDDLE)
    return _one(rooms.clause(_OPEN, Description("door")))


def _key_in_box(rooms: Rooms) -> Mission:
    door = rooms.add_door(_MIDDLE, locked=True)
    box = rooms.add(_MIDDLE, "box")
    rooms.put(Thing("key", rooms.things[door].color, inside=box), 0)
    rooms.place_agent(_MIDDLE)
    return _one(rooms.clause(_OPEN, Description("door")))


# ---- several rooms --------------------------------------------------------------------------------------------------


def _open_any(rooms: Rooms) -> Mission:
    rooms.place_agent()
    rooms.connect_all()
    rooms.add_many(18, unique=False)
    rooms.require_reachable()
    doors = [index for index, thing in enumerate(rooms.things) if thing.kind == "door"]
    return _one(rooms.clause(_OPEN, rooms.look(rooms.rng.choice(doors))))


def _pick_up_any(rooms: Rooms, count: int, blocked: bool = False) -> Mission:
    rooms.place_agent()
    rooms.connect_all()
    things = rooms.add_many(count, unique=False)
    if rooms.are_reachable() is blocked:
        raise UnfitError
    return _one(rooms.clause(_PICK_UP, rooms.look(rooms.rng.choice(things))))


def _pick_up_above(rooms: Rooms) -> Mission:
    thing = rooms.add((1, 0))
    rooms.add_door(_MIDDLE, 3, locked=False)
    rooms.place_agent(_MIDDLE)
    rooms.connect_all()
    return _one(rooms.clause(_PICK_UP, rooms.look(thing)))


def _find(rooms: Rooms) -> Mission:
    thing = rooms.add(rooms.any_room())
    rooms.place_agent(_MIDDLE)
    rooms.connect_all()
    return _one(rooms.clause(_PICK_UP, Description(rooms.things[thing].kind)))


def _halves(rooms: Rooms, count: int) -> tuple[list[int], list[int]]:
    """Things in two rooms without a wall between them."""
    rooms.place_agent((0, 0))
    left, right = rooms.add_many(count, (0, 0)), rooms.add_many(count, (1, 0))
    rooms.remove_wall((0, 0), 0)
    return left, right


def _put_across(rooms: Rooms, count: int) -> Mission:
    left, right = _halves(rooms, count)
    pair = [rooms.look(rooms.rng.choice(left)), rooms.look(rooms.rng.choice(right))]
    thing, other = pair[::-1] if rooms.rng.below(2) else pair
    return _one(rooms.clause(_PUT, thing, other))


def _move_two_across(rooms: Rooms, count: int) -> Mission:
    left, right = _halves(rooms, count)
    (a, d), (b, c) = rooms.rng.sample(left, 2), rooms.rng.sample(right, 2)
    first, second = (rooms.clause(_PUT, rooms.look(one), rooms.look(other)) for one, other in ((a, b), (c, d)))
    return _two(first, second)


def _unlock_pick_up(rooms: Rooms, others: int = 0, blocked: bool = False) -> Mission:
    box = rooms.add((1, 0), "box")
    door = rooms.add_door((0, 0), 0, locked=True)
    if blocked:
        rooms.put(Thing("ball", rooms.rng.choice(rooms.colors)), rooms.before_door((0, 0), 0))
    rooms.add((0, 0), "key", rooms.things[door].color)
    rooms.add_many(others)
    rooms.place_agent((0, 0))
    return _one(rooms.clause(_PICK_UP, Description("box") if blocked else rooms.look(box)))


def _unlock_to_unlock(rooms: Rooms) -> Mission:
    first, second = rooms.rng.sample(rooms.colors, 2)
    rooms.add_door((0, 0), 0, first, locked=True)
    rooms.add((2, 0), "key", first)
    rooms.add_door((1, 0), 0, second, locked=True)
    rooms.add((1, 0), "key", second)
    rooms.add((0, 0), "ball")
    rooms.place_agent((1, 0))
    return _one(rooms.clause(_PICK_UP, Description("ball")))


def _key_corridor(rooms: Rooms) -> Mission:
    for row in range(1, rooms.rows):
        rooms.remove_wall((1, row), 3)
    row = rooms.rng.below(rooms.rows)
    door = rooms.add_door((2, row), 2, locked=True)
    rooms.add((2, row), "ball")
    rooms.add((0, rooms.rng.below(rooms.rows)), "key", rooms.things[door].color)
    rooms.place_agent((1, rooms.rows // 2))
    rooms.connect_all()
    return _one(rooms.clause(_PICK_UP, Description("ball")))


def _locked_room(rooms: Rooms, others: int, own_color: bool) -> tuple[Room, int]:
    """A locked room, its key elsewhere, other things in the other rooms, and the agent outside; the room and door."""
    room = rooms.any_room()
    door = rooms.add_door(room, locked=True)
    color = rooms.things[door].color
    rooms.add(rooms.any_room(without=room), "key", color)
    rooms.connect_all([each for each in rooms.colors if each != color] if own_color else None)
    for column in range(rooms.columns):
        for row in range(rooms.rows):
            if (column, row) != room:
                rooms.add_many(others, (column, row), unique=False)
    rooms.place_agent(rooms.any_room(without=room))
    rooms.require_reachable()
    return room, door


def _unlock(rooms: Rooms) -> Mission:
    _, door = _locked_room(rooms, 3, own_color=rooms.rng.below(2) == 0)
    return _one(rooms.clause(_OPEN, rooms.look(door)))


def _go_to_locked(rooms: Rooms) -> Mission:
    room, _ = _locked_room(rooms, 2, own_color=False)
    return _one(rooms.clause(_GO_TO, rooms.look(rooms.add(room))))


# ---- every sentence of the grammar ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grammar:
    """BabyAI's generator of missions and of rooms for them; see its LevelGen."""

    things: int = 18
    locked: float = 0.5
    """Probability of a locked room."""
    locations: bool = True
    unblocking: bool = True
    """Whether things may lie in the way."""
    implicit_unlock: bool = True
    """Whether what is meant may lie in the locked room only."""
    verbs: tuple[Verb, ...] = (_GO_TO, _PICK_UP, _OPEN, _PUT)
    forms: tuple[str, ...] = ("one", "and", "sequence")

    def __call__(self, rooms: Rooms) -> Mission:
        """Furnish rooms and draw a mission."""
        locked = rooms.add_locked_room() if rooms.rng.uniform() < self.locked else None
        rooms.connect_all()
        rooms.add_many(self.things, unique=False)
        rooms.place_agent(rooms.any_room(without=locked))
        if not self.unblocking:
            rooms.require_reachable()
        reach = None
        if locked and not self.implicit_unlock:
            behind = set(rooms.inside(locked))
            reach = frozenset(
                content - 1 for cell, content in enumerate(rooms.cells) if content > 0 and cell not in behind
            )
        form = rooms.rng.choice(self.forms)
        if form != "sequence":
            return _mission([self._part(rooms, form, reach)])
        parts = [self._part(rooms, rooms.rng.choice(("one", "and")), reach) for _ in range(2)]
        return _mission(parts, after=rooms.rng.below(2) == 0)

    def _part(self, rooms: Rooms, form: str, reach: frozenset[int] | None) -> list[Clause]:
        return [self._clause(rooms, reach) for _ in range(1 + (form == "and"))]

    def _clause(self, rooms: Rooms, reach: frozenset[int] | None) -> Clause:
        verb = rooms.rng.choice(self.verbs)
        kinds = {_GO_TO: KINDS, _OPEN: ("door",)}.get(verb, MOVABLE)
        thing = rooms.any_description(kinds, self.locations, reach)
        other = rooms.any_description(KINDS, self.locations, reach) if verb is _PUT else None
        if self.unblocking and any(_is_needed_key(rooms, each) for each in (thing, other) if each):
            raise UnfitError
        return rooms.clause(verb, thing, other)


def _is_needed_key(rooms: Rooms, description: Description) -> bool:
    locked = {rooms.things[door].color for door, state in enumerate(rooms.doors) if state == LOCKED}
    return description.kind == "key" and description.color in locked


def _mission(parts: Sequence[list[Clause]], after: bool = False) -> Mission:
    clauses = tuple(clause for part in parts for clause in part)
    first = len(parts[0])
    indices = (tuple(range(first)), tuple(range(first, len(clauses))))
    return Mission(clauses, indices[: len(parts)], after)


_SYNTH = partial(Grammar, implicit_unlock=False)

LEVELS: dict[str, Level] = {
    "GoToObj": Level("easy", partial(_go_to_any, count=1), 1, 1),
    "GoToRedBallGrey": Level("easy", partial(_go_to_red_ball, others=7, grey=True), 1, 1),
    "GoToRedBall": Level("easy", partial(_go_to_red_ball, others=7), 1, 1),
    "GoToRedBlueBall": Level("easy", _go_to_red_or_blue, 1, 1),
    "GoToLocal": Level("easy", partial(_go_to_any, count=8), 1, 1),
    "GoToDoor": Level("easy", _go_to_door, size=7),
    "GoToObjDoor": Level("easy", _go_to_thing_or_door),
    "OpenRedDoor": Level("easy", _open_red_door, 1, 2, 5),
    "OpenDoor": Level("easy", _open_door),
    "ActionObjDoor": Level("easy", _act_on_thing_or_door, size=7),
    "OneRoomS8": Level("easy", _pick_up_ball, 1, 1),
    "PickupDist": Level("easy", _pick_up_one_of_five, 1, 1, 7),
    "PickupLoc": Level("easy", Grammar(8, 0, unblocking=False, verbs=(_PICK_UP,), forms=("one",)), 1, 1),
    "PutNextLocal": Level("easy", _put_in_room, 1, 1),
    "GoToObjMaze": Level("medium", partial(_go_to_any, count=1)),
    "GoToObjMazeOpen": Level("medium", partial(_go_to_any, count=1, open_doors=True)),
    "GoTo": Level("medium", partial(_go_to_any, count=18)),
    "GoToOpen": Level("medium", partial(_go_to_any, count=18, open_doors=True)),
    "Open": Level("medium", _open_any),
    "OpenTwoDoors": Level("medium", _open_two_doors, size=6, limit=720),
    "OpenDoorsOrderN4": Level("medium", partial(_open_in_order, count=4), size=6, limit=720),
    "Pickup": Level("medium", partial(_pick_up_any, count=18)),
    "PickupAbove": Level("medium", _pick_up_above, size=6, limit=288),
    "FindObjS6": Level("medium", _find, size=6, limit=720),
    "PutNextS6N3": Level("medium", partial(_put_across, count=3), 1, 2, 6, 288),
    "MoveTwoAcrossS5N2": Level("medium", partial(_move_two_across, count=2), 1, 2, 5, 400),
    "UnlockLocal": Level("medium", partial(_unlock_here, others=0)),
    "UnlockLocalDist": Level("medium", partial(_unlock_here, others=3)),
    "KeyInBox": Level("medium", _key_in_box),
    "UnlockPickup": Level("medium", _unlock_pick_up, 1, 2, 6),
    "UnlockPickupDist": Level("medium", partial(_unlock_pick_up, others=4), 1, 2, 6),
    "GoToImpUnlock": Level("hard", _go_to_locked),
    "GoToSeq": Level("hard", Grammar(18, 0, locations=False, unblocking=False, verbs=(_GO_TO,))),
    "Unlock": Level("hard", _unlock),
    "UnblockPickup": Level("hard", partial(_pick_up_any, count=20, blocked=True)),
    "BlockedUnlockPickup": Level("hard", partial(_unlock_pick_up, blocked=True), 1, 2, 6, 576),
    "UnlockToUnlock": Level("hard", _unlock_to_unlock, 1, 3, 6, 1080),
    "KeyCorridor": Level("hard", _key_corridor, size=6, limit=1080),
    "Synth": Level("hard", _SYNTH(locations=False, forms=("one",))),
    "SynthLoc": Level("hard", _SYNTH(forms=("one",))),
    "SynthSeq": Level("hard", _SYNTH()),
    "MiniBossLevel": Level("hard", Grammar(7, 0.25), 2, 2, 5),
    "BossLevelNoUnlock": Level("hard", Grammar(locked=0, implicit_unlock=False)),
    "BossLevel": Level("hard", Grammar()),
}
"""By BabyAI's names."""
