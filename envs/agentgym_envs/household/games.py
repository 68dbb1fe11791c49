"""ALFWorld's own games: `*.tw-pddl` files, each a PDDL problem with its grammar, read into rooms."""

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
from agentgym_py.files import files_below, parse_json, read_bytes
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
"""Predicates without effect on ALFWorld's commands."""
_PREDICATES = frozenset({*_ABILITIES, *_MARKS, *_PAIRS, *_WITHOUT_EFFECT, "openable", "opened", "isreceptacleobject"})
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
    """The split of its folder; empty for any other folder."""


@dataclass(frozen=True)
class Games:
    """The games of a folder, listed at once and read on demand."""

    folder: Path
    games: Mapping[str, Game] = field(init=False)

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise CatalogueError(f"{self.folder}: no such folder")
        paths = files_below(self.folder, SUFFIX)
        usable = [path for path in paths if not _is_skipped(path.relative_to(self.folder))]
        if not usable:
            but = f" but {len(paths)} that ALFWorld skips (sliced things, movable receptacles)" if paths else ""
            raise CatalogueError(f"{self.folder}: no *{SUFFIX} in it{but}")
        games: dict[str, Game] = {}
        for path in usable:
            game = _game(self.folder, path)
            if (other := games.setdefault(game.name, game)) is not game:
                raise CatalogueError(f"{other.path} and {game.path} are both called {game.name!r}: rename one of them")
        object.__setattr__(self, "games", games)

    def of(self, split: str) -> list[Game]:
        """Return the games of a split by name; games without a split's folder belong to every split."""
        return self._by_split[split]

    @cached_property
    def _by_split(self) -> dict[str, list[Game]]:
        games = sorted(self.games.values(), key=lambda game: game.name)
        return {split: [game for game in games if game.split in ("", split)] for split in SPLITS}

    def get(self, name: str | int, split: str) -> Game:
        """Return a game by its name, or number `name` of a split."""
        if isinstance(name, str):
            if name not in self.games:
                raise UnknownNameError(f"No game {name!r} in {self.folder}." + self._hint(name))
            return self.games[name]
        listed = self.of(split)
        if not 0 <= name < len(listed):
            raise UnknownNameError(f"No game {name} in split {split!r} of {self.folder}: {self._split_sizes()}.")
        return listed[name]

    def _hint(self, name: str) -> str:
        near = nearest(name, self.games)
        return f" Did you mean {near!r}?" if near else f" It has {len(self.games)}."

    def _split_sizes(self) -> str:
        """Write how many games each split has."""
        return "it has " + ", ".join(f"{len(self.of(split))} in {split!r}" for split in SPLITS)

    def draw(self, rng: Rng, split: str) -> Game:
        """Draw a random game of a split."""
        if not self.of(split):
            raise UnknownNameError(f"No game in split {split!r} of {self.folder}: {self._split_sizes()}.")
        return rng.choice(self.of(split))


def _is_skipped(inner: Path) -> bool:
    """Tell whether ALFWorld skips a game, too: sliced things or movable receptacles, by the names of its folders."""
    return any("movable" in part or "Sliced" in part for part in inner.parts)


def _game(folder: Path, path: Path) -> Game:
    inner = path.relative_to(folder)
    plain = inner.name.removesuffix(SUFFIX)
    name = inner.parent.as_posix() if plain == "game" and inner.parent.parts else inner.with_name(plain).as_posix()
    parts = (*folder.resolve().parts[-2:], *inner.parts[:-1])
    return Game(name, path, next((_FOLDERS[part] for part in reversed(parts) if part in _FOLDERS), ""))


def read_game(path: Path) -> tuple[Room, Dialect]:
    """Read the room of a game file and the dialect of its grammar.

    Raises:
        CatalogueError: the file cannot be read or holds something unknown; the message says what.
    """
    try:
        raw = read_bytes(path)
        data = parse_json(raw)
        problem, grammar = data["pddl_problem"], data["grammar"]
        task = _TASK.search(grammar)
        if not task:
            raise ValueError("its grammar names no task ('Your task is to: ...')")
        instruction = json.loads(f'"{task[1]}"').removeprefix("Your task is to: ")
        room = read_problem(problem, instruction)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        what = f"key {error} is missing" if isinstance(error, KeyError) else error
        raise CatalogueError(f"{path}: {what}") from error
    digest = hashlib.sha256(raw).hexdigest()[:12]
    return replace(room, digest=digest), "old" if "in/on {r}" in grammar else "new"


def read_problem(problem: str, instruction: str) -> Room:
    """Read the room of a PDDL problem; ValueError names what is wrong or unknown."""
    sections = {part[0]: part[1:] for part in read_sexpr(problem)[1:] if isinstance(part, list) and part}
    facts = _Facts.of(sections[":init"], _declared(sections[":objects"]))
    return _room(facts, read_goal(sections[":goal"]), instruction)


def _declared(objects: Sequence[Node]) -> dict[str, str]:
    """Map the names in `:objects` to the type that follows their group."""
    types: dict[str, str] = {}
    group: list[str] = []
    words = iter(objects)
    for word in words:
        if not isinstance(word, str):
            raise ValueError(f"{_format(word)} in :objects must be a name")
        if word == "-":
            types.update(dict.fromkeys(group, str(next(words, ""))))
            group = []
        else:
            group.append(word)
    return types


@dataclass(frozen=True)
class _Facts:
    """The initial facts, by predicate."""

    pairs: Mapping[str, list[tuple[str, str]]]
    marked: Mapping[str, set[str]]
    """Predicate of one argument to the ids for which it holds."""
    types: Mapping[str, str]
    """Every id in a fact to its declared type."""

    @classmethod
    def of(cls, init: Sequence[Node], declared: Mapping[str, str]) -> _Facts:
        """Read the facts of an `:init`."""
        pairs: dict[str, list[tuple[str, str]]] = {name: [] for name in _PAIRS}
        marked: dict[str, set[str]] = {name: set() for name in _PREDICATES}
        types: dict[str, str] = {}
        for fact in init:
            if not isinstance(fact, list) or not fact or not isinstance(fact[0], str):
                raise ValueError(f"{_format(fact)} in :init must be a fact")
            name, *rest = fact
            if name not in _PREDICATES:
                raise ValueError(f"unknown predicate {name!r} in :init: {_format(fact)}")
            if name == "=":
                continue
            ids = [arg for arg in rest if isinstance(arg, str)]
            arity = len(ids) if name in _WITHOUT_EFFECT else 2 if name in pairs else 1
            if not len(rest) == len(ids) == arity:
                raise ValueError(f"{_format(fact)} in :init has the wrong number of arguments")
            for id_ in ids:
                if id_ not in declared:
                    raise ValueError(f"{id_} in :init is not in :objects: {_format(fact)}")
                types[id_] = declared[id_]
            if name in pairs:
                pairs[name].append((ids[0], ids[1]))
            elif name not in _WITHOUT_EFFECT:
                marked[name].add(ids[0])
        return cls(pairs, marked, types)

    def all(self, kind: str) -> list[str]:
        """List the ids of a declared type, in the order of listings."""
        return sorted(id_ for id_, type_ in self.types.items() if type_ == kind)

    def mapping(self, name: str) -> dict[str, str]:
        """Map first to second arguments of a functional predicate; ValueError if a first one has two values."""
        values: dict[str, str] = {}
        for first, second in self.pairs[name]:
            if values.setdefault(first, second) != second:
                raise ValueError(f"two of {name!r} for {first} in :init, {values[first]} and {second}")
        return values


def _number_names(ids: Iterable[str]) -> dict[str, str]:
    """Give ids ALFWorld's names: in ascending order, with the highest free number of their type."""
    kinds = {id_: _kind(id_) for id_ in sorted(ids) if "_bar_" in id_}
    number = Counter(kinds.values())
    names = {}
    for id_, kind in kinds.items():
        names[id_] = f"{kind} {number[kind]}"
        number[kind] -= 1
    return names


def _kind(id_: str) -> str:
    return id_.split("_bar_", 1)[0] + ("basin" if "basin" in id_ else "")


def _type(name: str) -> str:
    return name.removesuffix("type")


def _room(facts: _Facts, goal: Goal, instruction: str) -> Room:
    places, things = facts.all("receptacle"), facts.all("object")
    for id_ in (*places, *things):
        if "_bar_" not in id_:
            raise ValueError(f"{id_} has no '_bar_' after its type, so it has no name")
    names = _number_names(facts.types)
    where, kinds = facts.mapping("receptacleatlocation"), facts.mapping("receptacletype")
    agents = {point for _, point in facts.pairs["atlocation"]}
    if len(agents) != 1:
        raise ValueError(f"the agent must be at one location, is at {len(agents)}")
    points = sorted({*where.values(), *agents, *(point for _, point in facts.pairs["objectatlocation"])})
    point_at = {point: i for i, point in enumerate(points)}
    fitting: dict[str, set[str]] = {}
    for kind, type_ in facts.pairs["cancontain"]:
        fitting.setdefault(_type(kind), set()).add(_type(type_))
    return Room(
        receptacles=tuple(
            Receptacle(
                names[id_],
                _type(kinds.get(id_, "")),
                point_at[where[id_]] if id_ in where else NOWHERE,
                id_ in facts.marked["openable"],
            )
            for id_ in places
        ),
        things=_things(facts, things, names),
        fitting={kind: frozenset(types) for kind, types in fitting.items()},
        start=_start(facts, places, things, point_at),
        goal=goal,
        instruction=instruction,
        points=tuple(names.get(point, point) for point in points),
    )


def _start(facts: _Facts, places: Sequence[str], things: Sequence[str], point_at: Mapping[str, int]) -> Start:
    place_at, thing_at = {id_: i for i, id_ in enumerate(places)}, {id_: i for i, id_ in enumerate(things)}
    contents: list[set[int]] = [set() for _ in places]
    for thing, place in facts.pairs["inreceptacle"]:
        if thing in thing_at and place in place_at:
            contents[place_at[place]].add(thing_at[thing])
    laid = facts.pairs["objectatlocation"]
    return Start(
        at=point_at[facts.pairs["atlocation"][0][1]],
        contents=tuple(tuple(sorted(indices)) for indices in contents),
        opened=frozenset(place_at[id_] for id_ in facts.marked["opened"] if id_ in place_at),
        laid=frozenset((thing_at[thing], point_at[point]) for thing, point in laid if thing in thing_at),
        **{
            mark: frozenset(thing_at[id_] for id_ in facts.marked[name] if id_ in thing_at)
            for name, mark in _MARKS.items()
        },
    )


def _things(facts: _Facts, ids: Sequence[str], names: Mapping[str, str]) -> tuple[Thing, ...]:
    types = facts.mapping("objecttype")
    inside: dict[str, list[str]] = {}
    for inner, outer in sorted(facts.pairs["inreceptacleobject"]):
        if facts.types[inner] == "object":
            inside.setdefault(outer, []).append(names[inner])
    return tuple(
        Thing(
            names[id_],
            _type(types.get(id_, "")),
            frozenset(ability for ability in _ABILITIES if id_ in facts.marked[ability]),
            id_ in facts.marked["isreceptacleobject"],
            tuple(inside.get(id_, ())),
        )
        for id_ in ids
    )


# ---- goals -----------------------------------------------------------------------------------------------------------


def read_goal(goal: Sequence[Node]) -> Goal:
    """Read the goal of a problem; ValueError if it is none of ALFWorld's six kinds."""
    atoms = [atom for node in goal for atom in _atoms(node)]
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for name, *rest in atoms:
        by_name.setdefault(name, []).append(tuple(rest))
    kinds = {variable: _type(kind) for variable, kind in by_name.pop("objecttype", [])}
    places = {_type(kind) for _, kind in by_name.pop("receptacletype", [])}
    result = _lamp_goal(by_name, kinds) if "istoggled" in by_name else _place_goal(by_name, kinds, places)
    if result is None:
        raise ValueError(f"the goal is none of ALFWorld's six tasks: {_format(list(goal))}")
    return result


def _lamp_goal(by_name: Mapping[str, list[tuple[str, ...]]], kinds: Mapping[str, str]) -> Goal | None:
    names = {"toggleable", "istoggled", "receptacleatlocation", "atlocation", "inreceptacle", "holds"}
    if set(by_name) != names or any(len(atoms) != 1 for atoms in by_name.values()) or len(kinds) != 2:
        return None
    lamp, thing = by_name["istoggled"][0][0], by_name["holds"][0][1]
    lit = by_name["inreceptacle"][0][0] == by_name["toggleable"][0][0] == lamp
    fits = lit and {lamp, thing} == set(kinds)
    return Goal("look_at_obj_in_light", kinds[thing], lamp=kinds[lamp]) if fits else None


def _place_goal(
    by_name: Mapping[str, list[tuple[str, ...]]], kinds: Mapping[str, str], places: set[str]
) -> Goal | None:
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
    """List the atoms of a conjunction with variables bound by `exists`; the only negation is `not =`."""
    if isinstance(node, list) and node:
        name, *rest = node
        if name == "and":
            return [atom for part in rest for atom in _atoms(part)]
        if name == "exists" and len(rest) == 2:
            return _atoms(rest[1])
        if name == "not" and len(rest) == 1 and isinstance(rest[0], list) and rest[0][:1] == ["="]:
            return [["not =", *map(str, rest[0][1:])]]
        atom = [word for word in node if isinstance(word, str)]
        if isinstance(name, str) and len(atom) == len(node):
            if name not in _PREDICATES and name != "holds":
                raise ValueError(f"unknown predicate {name!r} in :goal: {_format(node)}")
            return [atom]
    raise ValueError(f"a goal must consist of 'and', 'exists' and facts, not {_format(node)}")


def _format(node: Any) -> str:
    text = f"({' '.join(map(_format, node))})" if isinstance(node, list) else str(node)
    return text if len(text) <= 200 else f"{text[:200]}…"
