"""Recipes, what a thing takes, and Minecraft's recipe files."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym_py.errors import CatalogueError

_SHAPED, _SHAPELESS = "crafting_shaped", "crafting_shapeless"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one thing is made."""

    item: str
    count: int
    """How many it gives."""
    needs: tuple[tuple[str, int], ...]
    """Ingredients, each once, with how many it takes."""

    @property
    def command(self) -> str:
        """The action that uses it."""
        return f"craft {self.count} {self.item} using {', '.join(f'{count} {item}' for item, count in self.needs)}"


Book = Mapping[str, Recipe]
"""One recipe a thing, and no thing needs itself. What has no recipe is found ready."""


def closure(book: Book, item: str) -> list[str]:
    """A thing and all that goes into it, each after its ingredients."""
    order: dict[str, None] = {}

    def visit(each: str) -> None:
        if each in order:
            return
        for need, _ in book[each].needs if each in book else ():
            visit(need)
        order[each] = None

    visit(item)
    return list(order)


def depth(book: Book, item: str) -> int:
    """How many recipes stand one upon another below a thing; 0 for what is found ready."""
    found: dict[str, int] = {}
    for each in closure(book, item):
        found[each] = 1 + max(found[need] for need, _ in book[each].needs) if each in book else 0
    return found[item]


def shortest(book: Book, target: str, have: Mapping[str, int]) -> list[str]:
    """The fewest commands that make one `target`: what is missing is got, each kind at once, then crafted.

    Each thing has one recipe, so how often each must be used follows from how much of it is missing, from the target
    down; using one more often never lowers what is missing of another. Whatever is found ready takes one command.
    """
    order = closure(book, target)
    wanted = Counter({target: 1})
    gets: list[str] = []
    crafts: list[str] = []
    for item in reversed(order):
        missing = wanted[item] - have.get(item, 0)
        if missing <= 0:
            continue
        if item not in book:
            gets.append(f"get {missing} {item}")
            continue
        times = -(-missing // book[item].count)
        crafts += [book[item].command] * times
        for need, count in book[item].needs:
            wanted[need] += times * count
    return [*reversed(gets), *reversed(crafts)]


# ---- Minecraft's files ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Folder:
    """What stands in a folder of recipes."""

    path: str
    version: str
    """A digest of the files."""
    book: Book
    depths: Mapping[str, int]
    """Of everything that has a recipe."""


@lru_cache(maxsize=8)
def read_folder(path: str) -> Folder:
    """The recipes in a folder's `*.json`, subfolders included, as Minecraft's data packs hold them.

    Shaped and shapeless crafting count, other kinds (smelting, stonecutting) are passed over. An ingredient that may be
    one of several is the first of them; a tag stands for one thing of its name. Of several recipes for a thing the
    first by file name that leads to no circle counts; where all do (ingot, block), what most recipes use is found
    ready.
    """
    files = sorted(Path(path).rglob("*.json"))
    digest = hashlib.sha256()
    recipes: list[Recipe] = []
    for file in files:
        raw = file.read_bytes()
        digest.update(raw)
        recipes += _read(file, raw)
    if not recipes:
        raise CatalogueError(f"{path}: no crafting recipes (*.json of Minecraft's data packs) here")
    book = without_circles(recipes)
    return Folder(path, digest.hexdigest()[:16], book, {item: depth(book, item) for item in book})


def without_circles(recipes: Iterable[Recipe]) -> Book:
    """One recipe a thing such that no thing needs itself."""
    left: dict[str, list[Recipe]] = {}
    for recipe in recipes:
        left.setdefault(recipe.item, []).append(recipe)
    uses = Counter(need for ways in left.values() for recipe in ways for need, _ in recipe.needs)
    known = {need for need in uses if need not in left}
    book: dict[str, Recipe] = {}
    while left:
        ready = {item: way for item, ways in left.items() if (way := _first_ready(ways, known))}
        if not ready:
            found = max(sorted(left), key=lambda item: uses[item])
            known.add(found)
            del left[found]
        for item, way in ready.items():
            book[item] = way
            known.add(item)
            del left[item]
    return book


def _first_ready(ways: list[Recipe], known: set[str]) -> Recipe | None:
    return next((way for way in ways if all(need in known for need, _ in way.needs)), None)


def _read(file: Path, raw: bytes) -> Iterator[Recipe]:
    try:
        whole = json.loads(raw)
        kind = whole["type"].removeprefix("minecraft:")
        if kind not in (_SHAPED, _SHAPELESS):
            return
        result = whole["result"]
        result = {"item": result} if isinstance(result, str) else result
        count = result.get("count", 1)
        needs = Counter(map(_name, _ingredients(whole, kind)))
        item = _name(result["item"] if "item" in result else result["id"])
        if type(count) is not int or count < 1 or not needs or item in needs:
            raise ValueError(f"count {count!r}, ingredients {dict(needs)}")
        yield Recipe(item, count, tuple(needs.items()))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise CatalogueError(f"{file} is no recipe of Minecraft's: {error!r}") from error


def _ingredients(whole: dict[str, Any], kind: str) -> list[Any]:
    if kind == _SHAPELESS:
        return list(whole["ingredients"])
    return [whole["key"][mark] for row in whole["pattern"] for mark in row if mark != " "]


def _name(given: Any) -> str:
    """A thing's name in words: of `minecraft:oak_log`, `#minecraft:logs`, {"item": ...}, {"tag": ...}, or a list."""
    if isinstance(given, list):
        given = given[0]
    if isinstance(given, dict):
        given = given["item"] if "item" in given else given["tag"]
    name: str = given.lstrip("#").rpartition(":")[2].replace("_", " ").strip().lower()
    if not name or "," in name or " using " in f" {name} ":
        raise ValueError(f"no name of a thing: {given!r}")
    return name
