"""Recipes, plans by them, and Minecraft's recipe files."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym_py.errors import CatalogueError
from agentgym_py.files import files_below, parse_json, read_bytes

_SHAPED, _SHAPELESS = "crafting_shaped", "crafting_shapeless"
_GRID_PLACES = 9
_MAX_COUNT = 999
_NAME = re.compile(r"[a-z0-9/ -]+")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a thing is crafted."""

    item: str
    count: int
    """How many it makes."""
    needs: tuple[tuple[str, int], ...]
    """Different ingredients with their counts."""

    @property
    def command(self) -> str:
        """The action that uses the recipe."""
        return f"craft {self.count} {self.item} using {', '.join(f'{count} {item}' for item, count in self.needs)}"


Book = Mapping[str, Recipe]
"""The recipe of each thing, without circles. A thing without a recipe is raw: `get` takes it."""


def closure(book: Book, item: str) -> list[str]:
    """Return a thing and everything that it is made of, ingredients first."""
    order: dict[str, None] = {}

    def visit(thing: str) -> None:
        if thing in order:
            return
        for need, _ in book[thing].needs if thing in book else ():
            visit(need)
        order[thing] = None

    visit(item)
    return list(order)


def depth(book: Book, item: str) -> int:
    """Return the depth of a thing's recipe tree; 0 for a raw thing."""
    depths: dict[str, int] = {}
    for thing in closure(book, item):
        depths[thing] = 1 + max(depths[need] for need, _ in book[thing].needs) if thing in book else 0
    return depths[item]


def shortest_plan(book: Book, target: str, have: Mapping[str, int]) -> list[str]:
    """Return the fewest commands that make one `target`: first get the missing raw things, each at once, then craft.

    Each thing has one recipe, so the number of uses follows from what is missing, from the target down; using a recipe
    more often never reduces what is missing of another thing. A raw thing takes one command.
    """
    order = closure(book, target)
    needed = Counter({target: 1})
    gets: list[str] = []
    crafts: list[str] = []
    for item in reversed(order):
        missing = needed[item] - have.get(item, 0)
        if missing <= 0:
            continue
        if item not in book:
            gets.append(f"get {missing} {item}")
            continue
        times = -(-missing // book[item].count)
        crafts += [book[item].command] * times
        for need, count in book[item].needs:
            needed[need] += times * count
    return [*reversed(gets), *reversed(crafts)]


# ---- Minecraft's files ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Folder:
    """The contents of a folder of recipes."""

    path: str
    version: str
    """Digest of the files."""
    book: Book
    depths: Mapping[str, int]
    """Depth of each thing with a recipe."""
    unread_tags: tuple[str, ...] = ()
    """Tags in recipes that no file defines; each counts as a raw thing of its own name."""
    skipped: int = 0
    """Number of recipes of other kinds than crafting."""


@lru_cache(maxsize=8)
def read_folder(path: str) -> Folder:
    """Read the recipes in a folder's `*.json`, with subfolders, in the format of Minecraft's data packs.

    Shaped and shapeless crafting count; other kinds (smelting, stonecutting) are skipped. An ingredient with
    alternatives is the first of them. A tag is its first thing in `tags/item` or `tags/items`, in the folder or beside
    it; without one it is a thing of its own name. Of several recipes for a thing, the first by file name that leads to
    no circle counts; if all do (ingot and block; a template that is copied), the most used thing is raw.

    Raises:
        CatalogueError: no such folder; a file that is not a recipe, with its path and the wrong key; no recipe at all.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise CatalogueError(f"{path}: no such folder")
    files = [file for file in files_below(folder, ".json") if "tags" not in file.relative_to(folder).parts]
    digest = hashlib.sha256()
    tags = _Tags(folder, digest)
    recipes: list[Recipe] = []
    for file in files:
        raw, read = _read(file, tags)
        digest.update(raw)
        recipes += read
    if not recipes:
        raise CatalogueError(f"{path}: no crafting recipes (*.json of Minecraft's data packs) here")
    try:
        book = without_circles(recipes)
        depths = {item: depth(book, item) for item in book}
    except RecursionError as error:
        raise CatalogueError(f"{path}: a thing is made of things that are made of things, too often") from error
    return Folder(path, digest.hexdigest()[:16], book, depths, tuple(sorted(tags.unread)), len(files) - len(recipes))


def without_circles(recipes: Iterable[Recipe]) -> Book:
    """Choose one recipe per thing so that no thing needs itself."""
    options: dict[str, list[Recipe]] = {}
    for recipe in recipes:
        options.setdefault(recipe.item, []).append(recipe)
    uses = Counter(need for choices in options.values() for recipe in choices for need, _ in recipe.needs)
    makeable = {need for need in uses if need not in options}
    book: dict[str, Recipe] = {}
    while options:
        ready = {item: first for item, choices in options.items() if (first := _first_makeable(choices, makeable))}
        book |= ready
        done = ready or [max(sorted(options), key=lambda item: uses[item])]  # that one becomes raw
        makeable.update(done)
        for item in done:
            del options[item]
    return book


def _first_makeable(choices: list[Recipe], makeable: set[str]) -> Recipe | None:
    return next((recipe for recipe in choices if all(need in makeable for need, _ in recipe.needs)), None)


class _Tags:
    """The things of tags, by the tag files in a folder and beside it."""

    def __init__(self, folder: Path, digest: Any) -> None:
        self.unread: set[str] = set()
        self._values: dict[str, list[Any]] = {}
        inside = [place for place in files_below(folder, "tags") if place.name == "tags" and place.is_dir()]
        for kind in (place / name for place in (*inside, folder.parent / "tags") for name in ("item", "items")):
            for file in files_below(kind, ".json"):
                try:
                    raw = read_bytes(file)
                    values = _field(parse_json(raw.decode(json.detect_encoding(raw))), "values")
                except (ValueError, OSError, RecursionError) as error:
                    raise CatalogueError(f"{file} is not a tag of Minecraft: {error}") from error
                digest.update(raw)
                name = file.relative_to(kind).with_suffix("").as_posix()
                self._values.setdefault(name, []).extend(values if isinstance(values, list) else [])

    def first(self, tag: str) -> str:
        """Return the first thing of a tag, or the tag's own name."""
        thing = self._first(tag, set())
        if not thing:
            self.unread.add(tag)
        return thing or tag

    def _first(self, tag: str, visited: set[str]) -> str:
        name = tag.lstrip("#").rpartition(":")[2]
        if name in visited:
            return ""
        visited.add(name)
        for value in self._values.get(name, ()):
            thing = value.get("id") if isinstance(value, dict) else value
            if isinstance(thing, str):
                thing = self._first(thing, visited) if thing.startswith("#") else thing
                if thing:
                    return thing
        return ""


def _read(file: Path, tags: _Tags) -> tuple[bytes, list[Recipe]]:
    """A file's bytes, and its recipe if it is a crafting recipe."""
    try:
        raw = read_bytes(file)
        return raw, list(_recipe(parse_json(raw.decode(json.detect_encoding(raw))), tags))
    except (ValueError, OSError, RecursionError) as error:
        raise CatalogueError(f"{file} is not a recipe of Minecraft: {error}") from error


def _recipe(data: Any, tags: _Tags) -> Iterator[Recipe]:
    """The recipe of a file, if it is a crafting recipe; ValueError names a wrong key."""
    kind = _field(data, "type")
    if not isinstance(kind, str):
        raise ValueError(f"'type' is not a text: {kind!r:.100}")
    if kind.removeprefix("minecraft:") not in (_SHAPED, _SHAPELESS):
        return
    result = _field(data, "result")
    count = result.get("count", 1) if isinstance(result, dict) else 1
    if type(count) is not int or not 1 <= count <= _MAX_COUNT:
        raise ValueError(f"'result.count' is not a number from 1 to {_MAX_COUNT}: {count!r:.100}")
    ingredients = _shaped(data) if kind.endswith(_SHAPED) else _shapeless(data)
    if not 1 <= len(ingredients) <= _GRID_PLACES:
        raise ValueError(f"{len(ingredients)} ingredients, a grid has {_GRID_PLACES} places")
    needs = Counter(_name(ingredient, where, tags) for where, ingredient in ingredients)
    yield Recipe(_name(result, "result", tags), count, tuple(needs.items()))


def _shaped(data: Any) -> list[tuple[str, Any]]:
    """Key and ingredient of each place that is not empty."""
    pattern, key = _field(data, "pattern"), _field(data, "key")
    if not isinstance(pattern, list) or not all(isinstance(row, str) for row in pattern):
        raise ValueError(f"'pattern' is not a list of texts: {pattern!r:.100}")
    marks = [mark for mark in "".join(pattern) if mark != " "]
    return [(f"key.{mark}", _field(key, mark, "'key'")) for mark in marks]


def _shapeless(data: Any) -> list[tuple[str, Any]]:
    ingredients = _field(data, "ingredients")
    if not isinstance(ingredients, list):
        raise ValueError(f"'ingredients' is not a list: {ingredients!r:.100}")
    return [(f"ingredients[{number}]", ingredient) for number, ingredient in enumerate(ingredients)]


def _field(data: Any, key: str, what: str = "the file") -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{what} is not an object: {data!r:.100}")
    if key not in data:
        raise ValueError(f"{what} has no {key!r}")
    return data[key]


def _name(value: Any, where: str, tags: _Tags) -> str:
    """A thing's name in words: of `minecraft:oak_log`, `#minecraft:logs`, {"item": ...}, {"tag": ...}, or a list."""
    thing = value[0] if isinstance(value, list) and value else value
    is_tag = thing.startswith("#") if isinstance(thing, str) else False
    if isinstance(thing, dict):
        is_tag = not {"item", "id"} & thing.keys()
        thing = next((thing[key] for key in ("item", "id", "tag") if key in thing), None)
    if is_tag and isinstance(thing, str):
        thing = tags.first(thing)
    name = str(thing).lstrip("#").rpartition(":")[2].replace("_", " ").replace(".", " ").lower()
    name = " ".join(name.split())
    if not isinstance(thing, str) or not _NAME.fullmatch(name) or "using" in name.split():
        raise ValueError(f"{where!r} names no thing: {value!r:.100}")
    return name
