"""Generated rooms: possible, unlike between splits and difficulties, the same forever."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from agentgym_envs.household.env import HouseholdEnv
from agentgym_envs.household.generate import LEVELS, generate, possible_requests, tables
from agentgym_envs.household.house import QUIRKS, House
from agentgym_envs.household.priors import LAMP, can_start
from agentgym_envs.household.room import NOWHERE, OPENABLE
from agentgym_py.env import SPLITS
from agentgym_py.rng import Rng


@pytest.mark.parametrize("difficulty", LEVELS)
def test_rooms_make_sense(difficulty: str) -> None:
    """Everything lies where it fits, nothing is done yet, names count from one, and no more than the level allows."""
    level = LEVELS[difficulty]
    for seed in range(150):
        room = generate(Rng("room", seed), SPLITS[seed % 3], difficulty, shared=bool(seed % 2))
        assert not House(room, frozenset(QUIRKS)).won()
        assert len(room.listed_names) <= max(level.receptacles, 4) and room.goal.kind in level.kinds
        for place, found in zip(room.receptacles, room.start.contents, strict=True):
            assert all(can_start(room.things[o].kind, place.kind, room.fitting) for o in found)
            assert place.point != NOWHERE and place.openable == (place.kind in OPENABLE)
        for names in (room.receptacles, room.things):
            kinds = Counter(each.kind for each in names)
            assert {each.name for each in names} == {f"{k} {n + 1}" for k, count in kinds.items() for n in range(count)}
        wanted = sum(o in room.goal_things for found in room.start.contents for o in found)
        assert room.goal.count <= wanted <= room.goal.count + level.spare
        assert (room.goal.lamp == LAMP) == bool(room.lamps)


def test_splits_share_no_scene_and_no_pair() -> None:
    """Scenes and pairs of thing and receptacle each belong to one split, and every kind of task has some in each."""
    assert [len(tables().scenes[split]) for split in SPLITS] == [84, 12, 24]
    for kind in tables().targets:
        pairs = [{(each.thing, each.place) for each in possible_requests(kind, split, True)[0]} for split in SPLITS]
        assert all(pairs) and not pairs[0] & pairs[1] and not pairs[0] & pairs[2] and not pairs[1] & pairs[2]


def test_whole_rooms_are_furnished_as_a_real_scene() -> None:
    """At hard: as many receptacles of each type, and no type of thing that the scene has not."""
    scenes = {split: tables().scenes[split] for split in SPLITS}
    for seed in range(150):
        split = SPLITS[seed % 3]
        room = generate(Rng("scene", seed), split, "hard", shared=False)
        counts = Counter(each.kind for each in room.receptacles)
        alike = [scene for scene in scenes[split] if dict(scene.receptacles) == counts]
        assert any({each.kind for each in room.things} <= {*scene.things, LAMP} for scene in alike), seed


def test_targets_are_asked_for_as_often_as_in_real_games() -> None:
    """Each pair of a kind within four standard deviations of its share among ALFWorld's training games."""
    kinds = ("pick_and_place_simple", "look_at_obj_in_light")
    asked = {kind: Counter[tuple[str, str]]() for kind in kinds}
    for seed in range(1500):
        goal = generate(Rng("target", seed), "train", "easy", shared=False).goal
        asked[goal.kind][goal.thing, goal.place or goal.lamp] += 1
    for kind, counts in asked.items():
        found, sums = possible_requests(kind, "train", False)
        for errand, low, high in zip(found, (0, *sums), sums, strict=False):
            share, times = (high - low) / sums[-1], counts.total()
            assert abs(counts[errand.thing, errand.place] - share * times) < 1 + 4 * (share * times) ** 0.5, errand


def test_difficulties_differ() -> None:
    """Harder tasks need more commands, in rooms with more receptacles and more things."""
    means = []
    for difficulty in LEVELS:
        env = HouseholdEnv(difficulty=difficulty)
        tasks = [env.task(number) for number in range(150)]
        rooms = [env.puzzle_of(task) for task in tasks]
        steps = sum(task.optimal_steps or 0 for task in tasks)
        means.append((steps, sum(len(r.receptacles) for r in rooms), sum(len(r.things) for r in rooms)))
    for easier, harder in pairwise(means):
        assert all(a < b for a, b in zip(easier, harder, strict=True))


def test_every_kind_of_task_comes_up() -> None:
    """Each of the six, in words of both templates."""
    env = HouseholdEnv(difficulty="medium")
    tasks = [env.task(number) for number in range(300)]
    assert len({task.kind for task in tasks}) == 6
    assert {task.instruction.split()[0] for task in tasks} == {
        "put",
        "look",
        "examine",
        "clean",
        "heat",
        "cool",
        "find",
    }


def test_the_order_of_lists_does_not_change_the_room() -> None:
    """Mode alfworld counts down where mode react counts up; what lies where is the same."""
    up = HouseholdEnv(difficulty="hard")
    down = HouseholdEnv(difficulty="hard", observation_mode="alfworld", quirks=["one_temperature"])
    for number in range(20):
        rooms = [env.puzzle_of(env.task(number)) for env in (up, down)]
        lying = [
            {
                (r.name, room.things[o].name)
                for r, found in zip(room.receptacles, room.start.contents, strict=True)
                for o in found
            }
            for room in rooms
        ]
        assert lying[0] == lying[1] and rooms[0].listed_names != rooms[1].listed_names
        assert up.task(number).optimal_steps == down.task(number).optimal_steps


def test_shared_points_come_from_the_scene() -> None:
    """With the quirk some receptacles of a whole scene are reached from one point; without it none are."""
    shared = [generate(Rng("points", seed), "train", "hard", shared=True) for seed in range(40)]
    alone = [generate(Rng("points", seed), "train", "hard", shared=False) for seed in range(40)]
    assert all(max(map(len, room.at_point)) == 1 for room in alone)
    groups = [{room.receptacles[r].kind for r in here} for room in shared for here in room.at_point if len(here) > 1]
    assert groups and [r.start.contents for r in shared] == [r.start.contents for r in alone]
