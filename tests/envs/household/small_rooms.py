"""Small rooms drawn at random, and the length of a shortest way by trying everything; for the expert's tests."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym_envs.household.commands import admissible
from agentgym_envs.household.house import House
from agentgym_envs.household.room import OPENABLE, Goal, Receptacle, Room, Start, Thing
from agentgym_envs.household.words import Alfworld
from agentgym_py.rng import Rng

PLACES = ("sinkbasin", "microwave", "fridge", "cabinet", "shelf", "drawer")
ALL = frozenset({"pickupable", "cleanable", "heatable", "coolable"})
GOALS = (
    Goal("pick_and_place_simple", "mug", "cabinet"),
    Goal("pick_clean_then_place_in_recep", "mug", "cabinet", state="clean"),
    Goal("pick_heat_then_place_in_recep", "mug", "shelf", state="hot"),
    Goal("pick_cool_then_place_in_recep", "mug", "microwave", state="cool"),
    Goal("pick_two_obj_and_place", "mug", "drawer", count=2),
    Goal("look_at_obj_in_light", "mug", lamp="desklamp"),
)


def small_room(rng: Rng, goal: Goal) -> Room:
    """Three to five receptacles, some at one point, with two mugs, a lamp and a cloth in them."""
    station = {"clean": "sinkbasin", "hot": "microwave", "cool": "fridge"}.get(goal.state)
    kinds = [kind for kind in (goal.place, station) if kind]
    kinds += [rng.choice(PLACES) for _ in range(rng.below(3) + 4 - len(kinds))]
    kinds = sorted(kinds[:5])
    points = rng.below(len(kinds)) + 1
    receptacles = tuple(
        Receptacle(f"{kind} {i + 1}", kind, rng.below(points), kind in OPENABLE and rng.below(3) > 0)
        for i, kind in enumerate(kinds)
    )
    things = [Thing("cloth 1", "cloth", ALL), *(Thing(f"mug {i}", "mug", ALL) for i in range(1, 3))]
    lamp = Thing("desklamp 1", "desklamp", frozenset({"toggleable", *(["pickupable"] if rng.below(3) == 0 else [])}))
    if goal.lamp:
        things.append(lamp)
    rest = {kind for kind in PLACES if rng.below(3) > 0}
    fitting = {k: frozenset({"mug", "desklamp"} | ({"cloth"} if k in rest else set())) for k in PLACES}
    contents: list[list[int]] = [[] for _ in receptacles]
    cloth_fits = [i for i, r in enumerate(receptacles) if r.kind in rest] or list(range(len(receptacles)))
    for i in range(len(things)):
        contents[rng.choice(cloth_fits) if i == 0 else rng.below(len(receptacles))].append(i)
    start = Start(rng.below(points + 1), tuple(map(tuple, contents)))
    names = tuple(f"loc {i}" for i in range(points + 1))
    return Room(receptacles, tuple(things), fitting, start, goal, "", names)


def wander(house: House, rng: Rng, steps: int) -> Iterator[House]:
    """The states of a random walk that has not won yet."""
    voice = Alfworld()
    for _ in range(steps):
        yield house
        command = voice.read(rng.choice(admissible(house)))
        assert command and not house.do(command)
        if house.won():
            return


def shortest(house: House, limit: int = 14) -> int | None:
    """The fewest commands that win, found breadth first; None beyond `limit`."""
    voice, room, quirks = Alfworld(), house.room, house.quirks
    useless = ("examine", "look", "inventory", "help", "close", "slice")
    first = house.to_json()
    layer, seen = [first], {_key(first)}
    for depth in range(1, limit + 1):
        following = []
        for state in layer:
            here = House.from_json(room, quirks, state)
            for text in admissible(here):
                if text.startswith(useless):
                    continue
                after = House.from_json(room, quirks, state)
                command = voice.read(text)
                assert command
                after.do(command)
                if after.won():
                    return depth
                json = after.to_json()
                if _key(json) not in seen:
                    seen.add(_key(json))
                    following.append(json)
        layer = following
    return None


def _key(state: dict[str, object]) -> str:
    return repr([state[name] for name in ("at", "held", "contents", "opened", "clean", "hot", "cool", "lit")])
