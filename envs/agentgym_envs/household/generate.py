"""Rooms from a seed: receptacles of an ALFRED scene, things by their priors, and a task by its frequency."""

from __future__ import annotations

import gzip
import json
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any

from agentgym_envs.household.priors import LAMP, LAMP_STANDS, can_start, frequency
from agentgym_envs.household.room import (
    NOWHERE,
    OPENABLE,
    STATIONS,
    TREATMENT,
    Goal,
    Receptacle,
    Room,
    Start,
    State,
    Thing,
)
from agentgym_py.rng import Rng

_STATES: Mapping[str, State] = {
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "hot",
    "pick_cool_then_place_in_recep": "cool",
}
_VALID_SCENE, _PAIR_SPLITS = 8, ("train", "train", "valid", "train", "train", "test")
"""Every eighth of the scenes that ALFRED does not hold out is for valid; pairs are assigned in turn."""


@dataclass(frozen=True, slots=True)
class Level:
    """The parameters of a difficulty."""

    kinds: tuple[str, ...]
    receptacles: int
    """Maximum number of receptacles."""
    classes: int
    """Maximum number of types of things, beside the goal's."""
    copies: int
    """Maximum number of things of a type."""
    spare: int
    """Maximum number of spare goal things."""
    hidden: bool
    """Whether goal things may lie behind a door."""
    anywhere: bool
    """Whether goal things lie in every receptacle with equal probability, not by their priors."""


_ALL = (
    "pick_and_place_simple", "look_at_obj_in_light", "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep", "pick_cool_then_place_in_recep", "pick_two_obj_and_place",
)  # fmt: skip
LEVELS = {
    "easy": Level(_ALL[:2], 6, 8, 1, 0, False, False),
    "medium": Level(_ALL, 12, 12, 2, 1, True, False),
    "hard": Level(_ALL[1:], 60, 60, 3, 0, True, True),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """The receptacles and types of things of one of ALFRED's scenes."""

    receptacles: tuple[tuple[str, int], ...]
    shared: tuple[tuple[str, ...], ...]
    """Types of receptacles that are reached from one place."""
    things: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A thing and a receptacle (or lamp) for a task, and the scenes in which it is possible."""

    thing: str
    place: str
    scenes: tuple[Scene, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    """The data file: things, receptacles and scenes."""

    fitting: Mapping[str, frozenset[str]]
    abilities: Mapping[str, frozenset[str]]
    """Type of thing to its abilities."""
    vessels: frozenset[str]
    templates: Mapping[str, Sequence[str]]
    targets: Mapping[str, Mapping[str, int]]
    """Kind of task to `thing>place` and its frequency in ALFWorld's games."""
    scenes: Mapping[str, Sequence[Scene]]
    """Split to its scenes."""


@cache
def tables() -> Tables:
    """Read the data file, once per process."""
    raw = (files("agentgym_data") / "household" / "tables.json.gz").read_bytes()
    data: dict[str, Any] = json.loads(gzip.decompress(raw))
    fitting = {kind: frozenset(things) for kind, things in data["fitting"].items()}
    able: dict[str, set[str]] = {thing: {"pickupable"} for things in fitting.values() for thing in things}
    for ability, things in data["abilities"].items():
        for thing in things:
            able.setdefault(thing, set()).add(ability)
    scenes: dict[str, list[Scene]] = {"train": [], "valid": [], "test": []}
    not_held_out = 0
    for values in data["scenes"].values():
        split = "test" if values["held_out"] else "train"
        if split == "train":
            not_held_out += 1
            split = "valid" if not_held_out % _VALID_SCENE == 0 else "train"
        shared = tuple(map(tuple, values["shared"]))
        scenes[split].append(Scene(tuple(values["receptacles"].items()), shared, tuple(values["things"])))
    return Tables(
        fitting,
        {thing: frozenset(abilities) for thing, abilities in able.items()},
        frozenset(data["vessels"]),
        data["templates"],
        data["targets"],
        scenes,
    )


@cache
def possible_requests(kind: str, split: str, hidden: bool) -> tuple[list[Request], list[int]]:
    """Return the requests of a kind of task in a split, with cumulative sums of their frequencies."""
    requests, weights = [], []
    for i, (pair, weight) in enumerate(tables().targets[kind].items()):
        if _PAIR_SPLITS[i % len(_PAIR_SPLITS)] != split:
            continue
        thing, _, place = pair.partition(">")
        goal = _goal(kind, thing, place)
        scenes = tuple(scene for scene in tables().scenes[split] if _possible(scene, goal, hidden))
        if scenes:
            requests.append(Request(thing, place, scenes))
            weights.append(weight)
    return requests, list(accumulate(weights))


def _goal(kind: str, thing: str, place: str) -> Goal:
    if kind == "look_at_obj_in_light":
        return Goal(kind, thing, lamp=place)
    return Goal(kind, thing, place, state=_STATES.get(kind, ""), count=2 if kind == "pick_two_obj_and_place" else 1)


def _possible(scene: Scene, goal: Goal, hidden: bool) -> bool:
    """Tell whether a scene has what a goal needs, and a start for the goal thing other than its target."""
    kinds = {kind for kind, _ in scene.receptacles}
    needed = {goal.place} if goal.place else set()
    if goal.state:
        needed.add(STATIONS[TREATMENT[goal.state]])
    lamp = not goal.lamp or (goal.lamp == LAMP and LAMP in scene.things and bool(kinds & LAMP_STANDS))
    able = not goal.place or goal.thing in tables().fitting.get(goal.place, ())
    return needed <= kinds and goal.thing in scene.things and lamp and able and bool(_sources(kinds, goal, hidden))


def _sources(kinds: set[str], goal: Goal, hidden: bool) -> list[str]:
    """List the types of receptacles where a goal thing can start."""
    fitting = tables().fitting
    fit = (kind for kind in kinds if goal.thing in fitting.get(kind, ()) and kind != goal.place)
    return sorted(kind for kind in fit if hidden or kind not in OPENABLE)


def generate(rng: Rng, split: str, difficulty: str, *, shared: bool) -> Room:
    """Draw a room with a task, its lists ascending; with `shared`, receptacles share points as in the scene."""
    level = LEVELS[difficulty]
    kind = rng.choice(level.kinds)
    requests, sums = possible_requests(kind, split, level.hidden)
    request = requests[_draw_index(rng, sums)]
    goal = _goal(kind, request.thing, request.place)
    template = rng.choice(tables().templates[kind])
    scene = rng.choice(request.scenes)
    counts = _draw_receptacles(rng, scene, goal, level)
    lying = _draw_things(rng, scene, goal, level, counts)
    instruction = template.format(thing=request.thing, place=request.place) + "."
    return _build_room(counts, lying, scene if shared else None, goal, instruction)


def _draw_index(rng: Rng, sums: Sequence[int]) -> int:
    return bisect(sums, rng.below(sums[-1]))


def _draw_receptacles(rng: Rng, scene: Scene, goal: Goal, level: Level) -> dict[str, int]:
    """Draw the number of receptacles of each type: those that the task needs, and others of the scene."""
    kinds = {kind for kind, _ in scene.receptacles}
    musts = [rng.choice(_sources(kinds, goal, level.hidden))]
    if goal.place:
        musts.append(goal.place)
    if goal.lamp:
        musts.append(rng.choice(sorted(kinds & LAMP_STANDS)))
    if goal.state:
        musts.append(STATIONS[TREATMENT[goal.state]])
    counts = dict.fromkeys(musts, 1)
    rest = [kind for kind, count in scene.receptacles for _ in range(count - (kind in counts))]
    more = level.receptacles - len(counts)
    for kind in rest if more >= len(rest) else rng.sample(rest, max(more, 0)):
        counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items()))


def _draw_things(
    rng: Rng, scene: Scene, goal: Goal, level: Level, counts: Mapping[str, int]
) -> dict[str, list[tuple[str, int]]]:
    """Draw the things: type to the receptacle (type and number) of each thing of the type."""
    types = [thing for thing in scene.things if thing not in (goal.thing, LAMP)]
    if len(types) > level.classes:
        types = rng.sample(types, level.classes)
    lying = {}
    for thing in sorted(types):
        weights = _frequencies(thing)
        spots = {kind: weights[kind] * n for kind, n in counts.items() if kind in weights}
        if spots:
            lying[thing] = _draw_spots(rng, spots, counts, 1 + rng.below(level.copies))
    fit = _sources(set(counts), goal, level.hidden)
    sources = {kind: counts[kind] * (1 if level.anywhere else frequency(goal.thing, kind)) for kind in fit}
    lying[goal.thing] = _draw_spots(rng, sources, counts, goal.count + rng.below(level.spare + 1))
    if goal.count == 2 and level.spare and rng.below(4) == 0:  # one is delivered already
        lying[goal.thing][0] = (goal.place, rng.below(counts[goal.place]))
    if goal.lamp:
        lamp = {kind: _frequencies(LAMP)[kind] * n for kind, n in counts.items() if kind in LAMP_STANDS}
        lying[LAMP] = _draw_spots(rng, lamp, counts, 1)
    return lying


@cache
def _frequencies(thing: str) -> Mapping[str, int]:
    """Return the frequency of a thing by type of receptacle."""
    fitting = tables().fitting
    kinds = LAMP_STANDS if thing == LAMP else fitting
    return {kind: frequency(thing, kind) for kind in kinds if can_start(thing, kind, fitting)}


def _draw_spots(rng: Rng, weights: Mapping[str, int], counts: Mapping[str, int], times: int) -> list[tuple[str, int]]:
    """Draw receptacles by weight: their type and number."""
    kinds, sums = list(weights), list(accumulate(weights.values()))
    spots = []
    for _ in range(times):
        kind = kinds[_draw_index(rng, sums)]
        spots.append((kind, rng.below(counts[kind])))
    return spots


@cache
def _thing(kind: str, number: int) -> Thing:
    return Thing(f"{kind} {number}", kind, tables().abilities[kind], kind in tables().vessels)


@cache
def _receptacle(kind: str, number: int, point: int) -> Receptacle:
    return Receptacle(f"{kind} {number}", kind, point, kind in OPENABLE)


def _build_room(
    counts: Mapping[str, int],
    lying: Mapping[str, list[tuple[str, int]]],
    scene: Scene | None,
    goal: Goal,
    instruction: str,
) -> Room:
    """Build the room from its parts."""
    spots = [(kind, n) for kind in counts for n in range(counts[kind])]
    first = dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))
    points = list(_points(spots, scene.shared) if scene else range(len(spots)))
    things: list[Thing] = []
    contents: list[list[int]] = [[] for _ in spots]
    for kind in sorted(lying):
        for n, (place, i) in enumerate(lying[kind]):
            contents[first[place] + i].append(len(things))
            things.append(_thing(kind, n + 1))
    receptacles = (_receptacle(kind, n + 1, point) for (kind, n), point in zip(spots, points, strict=True))
    middle = max(points) + 1
    return Room(
        receptacles=tuple(receptacles),
        things=tuple(things),
        fitting=tables().fitting,
        start=Start(middle, tuple(map(tuple, contents))),
        goal=goal,
        instruction=instruction,
        points=tuple(f"loc {i + 1}" for i in range(middle + 1)),
    )


def _points(spots: Sequence[tuple[str, int]], shared: Sequence[tuple[str, ...]]) -> Iterator[int]:
    """Yield the point of each receptacle: its own, or that of its group of types."""
    groups = [list(group) for group in shared]
    used: dict[int, int] = {}
    points = 0
    for kind, _ in spots:
        group = next((i for i, kinds in enumerate(groups) if kind in kinds), NOWHERE)
        if group != NOWHERE:
            groups[group].remove(kind)
        if group in used and group != NOWHERE:
            yield used[group]
            continue
        if group != NOWHERE:
            used[group] = points
        yield points
        points += 1
