"""ALFWorld's recordings, and small rooms in which everything can be tried."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym_envs.household.commands import admissible
from agentgym_envs.household.house import House
from agentgym_envs.household.room import OPENABLE, Goal, Receptacle, Room, Start, Thing
from agentgym_envs.household.sentences import AlfworldSentences
from agentgym_py.rng import Rng

_RECORDED = Path(__file__).parent / "recorded"


def _read(name: str) -> dict[str, Any]:
    with gzip.open(_RECORDED / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


@pytest.fixture(scope="session")
def recorded() -> dict[str, Any]:
    """What ALFWorld's engine said: `transcripts`; and `react`, published episodes of its older dialect."""
    return _read("transcripts")


@pytest.fixture(scope="session")
def variants() -> list[dict[str, Any]]:
    """What ALFWorld's engine said to changed games: its older grammar, crowded places, odd facts."""
    found: list[dict[str, Any]] = _read("variants")["episodes"]
    return found


@pytest.fixture(scope="session")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with twelve games as ALFWorld writes them."""
    folder = tmp_path_factory.mktemp("games")
    for name, text in _read("games").items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def small() -> SimpleNamespace:
    """Small rooms: `draw` one, `wander` in it, find the `shortest` way by trying everything."""
    return SimpleNamespace(draw=small_room, wander=wander, shortest=shortest, goals=GOALS)


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
    """Three to five receptacles, some at one point, with two mugs, a lamp and a cloth in them.

    Seldom a receptacle does not take a mug or a lamp, and a thing lies in two places at once, as a game's file may say.
    """
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
    fitting = {
        k: frozenset(
            thing for thing in ("mug", "desklamp", "cloth") if (k in rest if thing == "cloth" else rng.below(8))
        )
        for k in PLACES
    }
    contents: list[list[int]] = [[] for _ in receptacles]
    cloth_fits = [i for i, r in enumerate(receptacles) if r.kind in rest] or list(range(len(receptacles)))
    for i in range(len(things)):
        contents[rng.choice(cloth_fits) if i == 0 else rng.below(len(receptacles))].append(i)
    if rng.below(3) == 0:
        twice = rng.below(len(things))
        contents[rng.below(len(receptacles))].append(twice)
    start = Start(rng.below(points + 1), tuple(tuple(sorted(set(found))) for found in contents))
    names = tuple(f"loc {i}" for i in range(points + 1))
    return Room(receptacles, tuple(things), fitting, start, goal, "", names)


def wander(house: House, rng: Rng, steps: int) -> Iterator[House]:
    """The states of a random walk that has not won yet."""
    voice = AlfworldSentences()
    for _ in range(steps):
        yield house
        command = voice.read(rng.choice(admissible(house)))
        assert command and not house.do(command)
        if house.won():
            return


def clone(house: House) -> House:
    """A copy that can be lived in."""
    copy = House(house.room, house.quirks)
    copy.at, copy.held, copy.contents = house.at, house.held, [list(found) for found in house.contents]
    copy.opened, copy.lit, copy.laid = set(house.opened), set(house.lit), set(house.laid)
    copy.clean, copy.hot, copy.cool = set(house.clean), set(house.hot), set(house.cool)
    return copy


def shortest(house: House, limit: int = 14) -> int | None:
    """The fewest commands that win, found breadth first; None beyond `limit` or where nothing leads there."""
    voice, useless = AlfworldSentences(), ("examine", "look", "inventory", "help", "close", "slice")
    layer, seen = [house], {_key(house)}
    for depth in range(1, limit + 1):
        following = []
        for here in layer:
            for text in admissible(here):
                command = voice.read(text)
                if text.startswith(useless) or command is None:
                    continue
                after = clone(here)
                after.do(command)
                if after.won():
                    return depth
                key = _key(after)
                if key not in seen:
                    seen.add(key)
                    following.append(after)
        layer = following
    return None


def _key(house: House) -> tuple[object, ...]:
    marks = (house.opened, house.clean, house.hot, house.cool, house.lit)
    return house.at, house.held, tuple(map(tuple, house.contents)), *map(frozenset, marks)
