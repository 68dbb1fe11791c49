"""ALFWorld's own games: `*.tw-pddl` files in a folder, each a PDDL problem with its grammar, read into rooms."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from agentgym_envs.household.room import NOWHERE, Goal, Receptacle, Room, Start, State, Thing
from agentgym_envs.household.sentences import Dialect
from agentgym_envs.household.sexpr import Node, read_sexpr
from agentgym_py.env import SPLITS
from agentgym_py.errors import CatalogueError, UnknownNameError, nearest
from agentgym_py.rng import Rng

SUFFIX = ".tw-pddl"
_FOLDERS = {
    "train": "train", "valid": "valid", "test": "test", "valid_train": "train", "valid_seen": "valid",
    "valid_unseen": "test",
}  # fmt: skip
_TASK = re.compile(r'"(Your task is to: (?:[^"\\]|\\.)*)"')
_ABILITIES = ("pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable")
_MARKS = {"isclean": "clean", "ishot": "hot", "iscool": "cool", "istoggled": "lit", "issliced": "sliced"}
_PAIRS = (
    "receptacletype", "objecttype", "cancontain", "inreceptacle", "receptacleatlocation", "atlocation",
    "objectatlocation", "inreceptacleobject",
)  # fmt: skip
_WITHOUT_EFFECT = frozenset(
    {"wasinreceptacle", "checked", "examined", "full", "isreceptacleobjectfull", "moveable", "ison", "="}
)
"""Predicates that no command of ALFWorld asks for."""
_KNOWN = frozenset({*_ABILITIES, *_MARKS, *_PAIRS, *_WITHOUT_EFFECT, "openable", "opened", "isreceptacleobject"})
_GOALS: Mapping[tuple[str, ...], tuple[str, State]] = {
    (): ("pick_and_place_simple", ""),
    ("cleanable", "isclean"): ("pick_clean_then_place_in_recep", "clean"),
    ("heatable", "ishot"): ("pick_heat_then_place_in_recep", "hot"),
    ("coolable", "iscool"): ("pick_cool_then_place_in_recep", "cool"),
}


@dataclass(frozen=True, slots=True)
class Game:
    """One file of a folder."""

    name: str
    path: Path
    split: str
    """The split whose folder it lies in; empty where no folder says so."""


@dataclass(frozen=True)
class Games:
    """The games of a folder, found at once and read when they are played."""

    folder: Path
    games: Mapping[str, Game] = field(init=False)

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise CatalogueError(f"{self.folder}: no such folder")
        paths = sorted(self.folder.rglob(f"*{SUFFIX}"))
        found = [_game(self.folder, path) for path in paths if not _passed_over(path.relative_to(self.folder))]
        if not found:
            but = f" but {len(paths)} that ALFWorld passes over (sliced things, movable receptacles)" if paths else ""
            raise CatalogueError(f"{self.folder}: no *{SUFFIX} in it{but}")
        games: dict[str, Game] = {}
        for game in found:
            if (other := games.setdefault(game.name, game)) is not game:
                raise CatalogueError(f"{other.path} and {game.path} are both called {game.name!r}: rename one of them")
        object.__setattr__(self, "games", games)

    def of(self, split: str) -> list[Game]:
        """The games of a split, in the order of their names; those that no folder assigns belong to each."""
        return self._by_split[split]

    @cached_property
    def _by_split(self) -> dict[str, list[Game]]:
        games = sorted(self.games.values(), key=lambda game: game.name)
        return {split: [game for game in games if game.split in ("", split)] for split in SPLITS}

    def get(self, name: str | int, split: str) -> Game:
        """A game by its name, or number `name` of a split."""
        if isinstance(name, str):
            if name not in self.games:
                raise UnknownNameError(f"No game {name!r} in {self.folder}." + self._hint(name))
            return self.games[name]
        listed = self.of(split)
        if not 0 <= name < len(listed):
            raise UnknownNameError(f"No game {name} in split {split!r} of {self.folder}: {self._shares()}.")
        return listed[name]

    def _hint(self, name: str) -> str:
        near = nearest(name, self.games)
        return f" Did you mean {near!r}?" if near else f" It has {len(self.games)}."

    def _shares(self) -> str:
        """How many games each split has."""
        return "it has " + ", ".join(f"{len(self.of(split))} in {split!r}" for split in SPLITS)

    def draw(self, rng: Rng, split: str) -> Game:
        """A random game of a split."""
        if not self.of(split):
            raise UnknownNameError(f"No game in split {split!r} of {self.folder}: {self._shares()}.")
        return rng.choice(self.of(split))


def _passed_over(inner: Path) -> bool:
    """Whether ALFWorld leaves a game out too: tasks with sliced things or vessels, by the names of their folders."""
    return any("movable" in part or "Sliced" in part for part in inner.parts)


def _game(folder: Path, path: Path) -> Game:
    inner = path.relative_to(folder)
    plain = inner.name.removesuffix(SUFFIX)
    name = inner.parent.as_posix() if plain == "game" and inner.parent.parts else inner.with_name(plain).as_posix()
    parts = (*folder.resolve().parts[-2:], *inner.parts[:-1])
    return Game(name, path, next((_FOLDERS[part] for part in reversed(parts) if part in _FOLDERS), ""))


def read_game(path: Path) -> tuple[Room, Dialect]:
    """The room of a game file, and the dialect that its grammar speaks.

    Raises:
        CatalogueError: the file cannot be read, or holds what this world does not know; the message says what.
    """
    try:
        raw = path.read_bytes()
        data = json.loads(raw)
        problem, grammar = data["pddl_problem"], data["grammar"]
        task = _TASK.search(grammar)
        if not task:
            raise ValueError("its grammar names no task ('Your task is to: ...')")
        instruction = json.loads(f'"{task[1]}"').removeprefix("Your task is to: ")
        room = read_problem(problem, instruction)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        what = f"key {error} is missing" if isinstance(error, KeyError) else error
        raise CatalogueError(f"{path}: {what}") from error
    digest = hashlib.sha256(raw).hexdigest()[:12]
    return replace(room, digest=digest), "old" if "in/on {r}" in grammar else "new"


def read_problem(problem: str, instruction: str) -> Room:
    """The room that a PDDL problem describes; ValueError names what is wrong or unknown in it."""
    sections = {part[0]: part[1:] for part in read_sexpr(problem)[1:] if isinstance(part, list) and part}
    facts = _Facts.of(sections[":init"], _declared(sections[":objects"]))
    return _room(facts, read_goal(sections[":goal"]), instruction)


def _declared(objects: Sequence[Node]) -> dict[str, str]:
    """What `:objects` lists, with the type that follows each group."""
    types: dict[str, str] = {}
    group: list[str] = []
    words = iter(objects)
    for word in words:
        if not isinstance(word, str):
            raise ValueError(f"{_shown(word)} in :objects is no name")
        if word == "-":
            types.update(dict.fromkeys(group, str(next(words, ""))))
            group = []
        else:
            group.append(word)
    return types


@dataclass(frozen=True)
class _Facts:
    """What is the case at the start, by predicate."""

    pairs: Mapping[str, list[tuple[str, str]]]
    marked: Mapping[str, set[str]]
    """Predicate of one argument to those that it holds for."""
    types: Mapping[str, str]
    """Everything that a fact names, and what it is declared to be."""

    @classmethod
    def of(cls, init: Sequence[Node], declared: Mapping[str, str]) -> _Facts:
        """The facts of an `:init`."""
        pairs: dict[str, list[tuple[str, str]]] = {name: [] for name in _PAIRS}
        marked: dict[str, set[str]] = {name: set() for name in _KNOWN}
        types: dict[str, str] = {}
        for fact in init:
            if not isinstance(fact, list) or not fact or not isinstance(fact[0], str):
                raise ValueError(f"{_shown(fact)} in :init is no fact")
            name, *rest = fact
            if name not in _KNOWN:
                raise ValueError(f"unknown predicate {name!r} in :init: {_shown(fact)}")
            if name == "=":
                continue
            given = [each for each in rest if isinstance(each, str)]
            wanted = len(given) if name in _WITHOUT_EFFECT else 2 if name in pairs else 1
            if not len(rest) == len(given) == wanted:
                raise ValueError(f"{_shown(fact)} in :init has the wrong number of arguments")
            for each in given:
                if each not in declared:
                    raise ValueError(f"{each} in :init is not in :objects: {_shown(fact)}")
                types[each] = declared[each]
            if name in pairs:
                pairs[name].append((given[0], given[1]))
            elif name not in _WITHOUT_EFFECT:
                marked[name].add(given[0])
        return cls(pairs, marked, types)

    def all(self, kind: str) -> list[str]:
        """The ids that are declared to be of a kind, in the order in which lists name them."""
        return sorted(each for each, type_ in self.types.items() if type_ == kind)

    def one(self, name: str) -> dict[str, str]:
        """The second of each first, for a predicate that says one thing of each; ValueError where it says two."""
        found: dict[str, str] = {}
        for first, second in self.pairs[name]:
            if found.setdefault(first, second) != second:
                raise ValueError(f"two of {name!r} for {first} in :init, {found[first]} and {second}")
        return found


def _numbered(ids: Iterable[str]) -> dict[str, str]:
    """ALFWorld's names: ids ascending, each with the highest number of its type that is still free."""
    kinds = {each: _kind(each) for each in sorted(ids) if "_bar_" in each}
    left = Counter(kinds.values())
    names = {}
    for each, kind in kinds.items():
        names[each] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return names


def _kind(id_: str) -> str:
    return id_.split("_bar_", 1)[0] + ("basin" if "basin" in id_ else "")


def _type(name: str) -> str:
    return name.removesuffix("type")


def _room(facts: _Facts, goal: Goal, instruction: str) -> Room:
    places, things = facts.all("receptacle"), facts.all("object")
    for each in (*places, *things):
        if "_bar_" not in each:
            raise ValueError(f"{each} has no '_bar_' after its type, so it has no name")
    names, where, kinds = _numbered(facts.types), facts.one("receptacleatlocation"), facts.one("receptacletype")
    agents = {point for _, point in facts.pairs["atlocation"]}
    if len(agents) != 1:
        raise ValueError(f"the agent must stand at one location, found {len(agents)}")
    points = sorted({*where.values(), *agents, *(point for _, point in facts.pairs["objectatlocation"])})
    point_at = {point: i for i, point in enumerate(points)}
    fitting: dict[str, set[str]] = {}
    for kind, type_ in facts.pairs["cancontain"]:
        fitting.setdefault(_type(kind), set()).add(_type(type_))
    return Room(
        receptacles=tuple(
            Receptacle(
                names[each],
                _type(kinds.get(each, "")),
                point_at[where[each]] if each in where else NOWHERE,
                each in facts.marked["openable"],
            )
            for each in places
        ),
        things=_things(facts, things, names),
        fitting={kind: frozenset(types) for kind, types in fitting.items()},
        start=_start(facts, places, things, point_at),
        goal=goal,
        instruction=instruction,
        points=tuple(names.get(point, point) for point in points),
    )


def _start(facts: _Facts, places: Sequence[str], things: Sequence[str], point_at: Mapping[str, int]) -> Start:
    place_at, thing_at = {each: i for i, each in enumerate(places)}, {each: i for i, each in enumerate(things)}
    contents: list[set[int]] = [set() for _ in places]
    for thing, place in facts.pairs["inreceptacle"]:
        if thing in thing_at and place in place_at:
            contents[place_at[place]].add(thing_at[thing])
    laid = facts.pairs["objectatlocation"]
    return Start(
        at=point_at[facts.pairs["atlocation"][0][1]],
        contents=tuple(tuple(sorted(each)) for each in contents),
        opened=frozenset(place_at[each] for each in facts.marked["opened"] if each in place_at),
        laid=frozenset((thing_at[thing], point_at[point]) for thing, point in laid if thing in thing_at),
        **{
            mark: frozenset(thing_at[each] for each in facts.marked[name] if each in thing_at)
            for name, mark in _MARKS.items()
        },
    )


def _things(facts: _Facts, ids: Sequence[str], names: Mapping[str, str]) -> tuple[Thing, ...]:
    types = facts.one("objecttype")
    inside: dict[str, list[str]] = {}
    for inner, outer in sorted(facts.pairs["inreceptacleobject"]):
        if facts.types[inner] == "object":
            inside.setdefault(outer, []).append(names[inner])
    return tuple(
        Thing(
            names[each],
            _type(types.get(each, "")),
            frozenset(ability for ability in _ABILITIES if each in facts.marked[ability]),
            each in facts.marked["isreceptacleobject"],
            tuple(inside.get(each, ())),
        )
        for each in ids
    )


# ---- goals -----------------------------------------------------------------------------------------------------------


def read_goal(goal: Sequence[Node]) -> Goal:
    """The goal of a problem, where it is one of ALFWorld's six; ValueError names the part that is not."""
    atoms = [atom for node in goal for atom in _atoms(node)]
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for name, *rest in atoms:
        by_name.setdefault(name, []).append(tuple(rest))
    kinds = {variable: _type(kind) for variable, kind in by_name.pop("objecttype", [])}
    places = {_type(kind) for _, kind in by_name.pop("receptacletype", [])}
    made = _by_lamp(by_name, kinds) if "istoggled" in by_name else _by_place(by_name, kinds, places)
    if made is None:
        raise ValueError(f"a goal that is none of ALFWorld's six tasks: {_shown(list(goal))}")
    return made


def _by_lamp(by_name: Mapping[str, list[tuple[str, ...]]], kinds: Mapping[str, str]) -> Goal | None:
    wanted = {"toggleable", "istoggled", "receptacleatlocation", "atlocation", "inreceptacle", "holds"}
    if set(by_name) != wanted or any(len(found) != 1 for found in by_name.values()) or len(kinds) != 2:
        return None
    lamp, held = by_name["istoggled"][0][0], by_name["holds"][0][1]
    lit = by_name["inreceptacle"][0][0] == by_name["toggleable"][0][0] == lamp
    fits = lit and {lamp, held} == set(kinds)
    return Goal("look_at_obj_in_light", kinds[held], lamp=kinds[lamp]) if fits else None


def _by_place(by_name: Mapping[str, list[tuple[str, ...]]], kinds: Mapping[str, str], places: set[str]) -> Goal | None:
    rest = tuple(sorted(set(by_name) - {"inreceptacle", "not ="}))
    lying = by_name.get("inreceptacle", [])
    same = len(set(kinds.values())) == 1 == len(places) == len({place for _, place in lying})
    if not same or {thing for thing, _ in lying} != set(kinds) or len(lying) != len(kinds):
        return None
    thing, place = next(iter(kinds.values())), next(iter(places))
    if len(lying) == 2 and "not =" in by_name and not rest:
        return Goal("pick_two_obj_and_place", thing, place, count=2)
    if len(lying) != 1 or "not =" in by_name or rest not in _GOALS:
        return None
    kind, state = _GOALS[rest]
    return Goal(kind, thing, place, state=state)


def _atoms(node: Node) -> list[list[str]]:
    """The atoms of a conjunction, whose variables are all bound by `exists`; `not =` is the one negation."""
    if isinstance(node, list) and node:
        name, *rest = node
        if name == "and":
            return [atom for part in rest for atom in _atoms(part)]
        if name == "exists" and len(rest) == 2:
            return _atoms(rest[1])
        if name == "not" and len(rest) == 1 and isinstance(rest[0], list) and rest[0][:1] == ["="]:
            return [["not =", *map(str, rest[0][1:])]]
        given = [each for each in node if isinstance(each, str)]
        if isinstance(name, str) and len(given) == len(node):
            if name not in _KNOWN and name != "holds":
                raise ValueError(f"unknown predicate {name!r} in :goal: {_shown(node)}")
            return [given]
    raise ValueError(f"a goal may hold 'and', 'exists' and facts, found {_shown(node)}")


def _shown(node: Any) -> str:
    text = f"({' '.join(map(_shown, node))})" if isinstance(node, list) else str(node)
    return text if len(text) <= 200 else f"{text[:200]}…"
