"""Houses: rooms in a grid with doors between them, keys and gates, drawn from a seed; and ways through them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentgym_py.rng import Rng

STEPS = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
SIZES = {"easy": 3, "medium": 4, "hard": 5}
KEYS = {"easy": 3, "medium": 4, "hard": 4}
_MORE_DOORS = {"easy": 2, "medium": 3, "hard": 4}
_ROOMS: Mapping[str, str] = {
    "train": "attic bakery bathroom bedroom cabin cellar chapel closet corridor den dining_room dressing_room gallery "
    "garage hall kitchen larder laundry library lobby lounge music_room nursery office pantry parlour",
    "valid": "armoury ballroom cloakroom conservatory crypt dairy darkroom dormitory engine_room forge foyer "
    "greenhouse guardroom herb_room infirmary landing map_room mill observatory playroom porch refectory robing_room "
    "salon scullery",
    "test": "apse archive atrium boiler_room brewery canteen cloister coal_store drawing_room field_office "
    "game_room grotto harness_room ice_house keep loft mews muniment_room oratory oven_room rotunda sacristy smithy "
    "solar vault",
}
_METALS: Mapping[str, str] = {
    "train": "brass copper iron silver tin gold",
    "valid": "bronze steel lead nickel",
    "test": "zinc pewter chrome platinum",
}


@dataclass(frozen=True, slots=True)
class House:
    """Rooms by number; gates and keys of the same metal belong together."""

    rooms: tuple[str, ...]
    """Their names."""
    doors: tuple[Mapping[str, int], ...]
    """By room: direction to room."""
    start: int
    keys: Mapping[str, int]
    """Where each key lies at first, by metal."""
    gates: Mapping[int, str]
    """The gates by room, at most one a room."""
    wanted: str
    """The metal of the gate to open."""

    @property
    def gate(self) -> int:
        """The room of the gate to open."""
        return next(room for room, metal in self.gates.items() if metal == self.wanted)


def build(rng: Rng, split: str, difficulty: str) -> House:
    """Draw one in which start, the key that is wanted and its gate lie apart."""
    size, count = SIZES[difficulty], KEYS[difficulty]
    names = tuple(name.replace("_", " ") for name in rng.sample(_ROOMS[split].split(), size * size))
    doors = _doors(rng, size, _MORE_DOORS[difficulty])
    while True:
        places = rng.sample(range(size * size), 1 + 2 * count)
        metals = rng.sample(_METALS[split].split(), count)
        start, wanted = places[0], metals[0]
        keys, gates = dict(zip(metals, places[1:], strict=False)), dict(zip(places[1 + count :], metals, strict=True))
        house = House(names, doors, start, keys, gates, wanted)
        if min(len(way(house, start, keys[wanted])), len(way(house, keys[wanted], house.gate))) >= size - 1:
            return house


def _doors(rng: Rng, size: int, more: int) -> tuple[Mapping[str, int], ...]:
    """A tree over the grid by a random walk that goes back where it is stuck, and some doors more."""
    doors: list[dict[str, int]] = [{} for _ in range(size * size)]
    trail, seen = [0], {0}
    while trail:
        fresh = [(where, room) for where, room in _around(trail[-1], size) if room not in seen]
        if not fresh:
            trail.pop()
            continue
        where, room = rng.choice(fresh)
        _join(doors, trail[-1], where, room)
        trail.append(room)
        seen.add(room)
    pairs = [(a, where, b) for a in range(size * size) for where, b in _around(a, size) if a < b]
    walls = [(a, where, b) for a, where, b in pairs if where not in doors[a]]
    for a, where, b in rng.sample(walls, min(more, len(walls))):
        _join(doors, a, where, b)
    return tuple({where: door[where] for where in STEPS if where in door} for door in doors)


def _around(room: int, size: int) -> list[tuple[str, int]]:
    x, y = room % size, room // size
    near = ((where, x + dx, y + dy) for where, (dx, dy) in STEPS.items())
    return [(where, b * size + a) for where, a, b in near if 0 <= a < size and 0 <= b < size]


def _join(doors: list[dict[str, int]], a: int, where: str, b: int) -> None:
    doors[a][where] = b
    dx, dy = STEPS[where]
    doors[b][next(back for back, step in STEPS.items() if step == (-dx, -dy))] = a


def way(house: House, start: int, goal: int) -> list[str]:
    """The directions of a shortest way."""
    return nearest(house.doors, start, lambda room: room == goal) or []


def nearest(
    doors: Sequence[Mapping[str, int]],
    start: int,
    is_goal: Callable[[int], bool],
    through: Callable[[int], bool] | None = None,
) -> list[str] | None:
    """The directions of a shortest way to a goal, through rooms that are allowed; None if there is none."""
    came: dict[int, tuple[int, str]] = {start: (-1, "")}
    queue = deque([start])
    while queue:
        room = queue.popleft()
        if is_goal(room):
            return _trail(came, room)
        if through is not None and not through(room):
            continue
        for where, other in doors[room].items():
            if other not in came:
                came[other] = room, where
                queue.append(other)
    return None


def _trail(came: Mapping[int, tuple[int, str]], room: int) -> list[str]:
    steps: list[str] = []
    while came[room][0] >= 0:
        room, where = came[room]
        steps.append(where)
    return steps[::-1]
