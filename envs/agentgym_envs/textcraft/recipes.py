"""Recipes, what a thing takes, and Minecraft's recipe files."""

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

_SHAPED, _SHAPELESS = "crafting_shaped", "crafting_shapeless"
_PLACES = 9
_MOST_MADE = 999
_NAME = re.compile(r"[a-z0-9/ -]+")


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
    unread_tags: tuple[str, ...] = ()
    """Tags that recipes name and no file fills; each counts as one thing of its name, found ready."""
    passed_over: int = 0
    """Recipes of other kinds than crafting."""


@lru_cache(maxsize=8)
def read_folder(path: str) -> Folder:
    """The recipes in a folder's `*.json`, subfolders included, as Minecraft's data packs hold them.

    Shaped and shapeless crafting count, other kinds (smelting, stonecutting) are passed over. An ingredient that may be
    one of several is the first of them; a tag is the first thing that `tags/item` or `tags/items`, in the folder or
    beside it, say of it, and where they say nothing one thing of its own name. Of several recipes for a thing the
    first by file name that leads to no circle counts; where all do (ingot, block; a template that is copied), what most
    recipes use is found ready.

    Raises:
        CatalogueError: no such folder; a file that is no recipe, with its path and the key that is wrong; no recipe at
            all.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise CatalogueError(f"{path}: no such folder")
    files = [file for file in sorted(folder.rglob("*.json")) if "tags" not in file.relative_to(folder).parts]
    digest = hashlib.sha256()
    tags = _Tags(folder, digest)
    recipes: list[Recipe] = []
    for file in files:
        raw, read = _read(file, tags)
        digest.update(raw)
        recipes += read
    if not recipes:
        raise CatalogueError(f"{path}: no crafting recipes (*.json of Minecraft's data packs) here")
    book = without_circles(recipes)
    depths = {item: depth(book, item) for item in book}
    return Folder(path, digest.hexdigest()[:16], book, depths, tuple(sorted(tags.unread)), len(files) - len(recipes))


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


class _Tags:
    """What tags stand for, by the files of a folder and of the one beside it."""

    def __init__(self, folder: Path, digest: Any) -> None:
        self.unread: set[str] = set()
        self._values: dict[str, list[Any]] = {}
        inside = [each for each in folder.rglob("tags") if each.is_dir()]
        for kind in (place / name for place in (*inside, folder.parent / "tags") for name in ("item", "items")):
            for file in sorted(kind.rglob("*.json")):
                try:
                    raw = file.read_bytes()
                    values = _field(json.loads(raw), "values")
                except (ValueError, OSError, RecursionError) as error:
                    raise CatalogueError(f"{file} is no tag of Minecraft's: {error}") from error
                digest.update(raw)
                name = file.relative_to(kind).with_suffix("").as_posix()
                self._values.setdefault(name, []).extend(values if isinstance(values, list) else [])

    def first(self, tag: str) -> str:
        """The first thing that a tag stands for, or its own name."""
        found = self._first(tag, set())
        if not found:
            self.unread.add(tag)
        return found or tag

    def _first(self, tag: str, seen: set[str]) -> str:
        name = tag.lstrip("#").rpartition(":")[2]
        if name in seen:
            return ""
        seen.add(name)
        for value in self._values.get(name, ()):
            thing = value.get("id") if isinstance(value, dict) else value
            if isinstance(thing, str):
                found = self._first(thing, seen) if thing.startswith("#") else thing
                if found:
                    return found
        return ""


def _read(file: Path, tags: _Tags) -> tuple[bytes, list[Recipe]]:
    """A file's bytes, and its recipe if it is one for the crafting grid."""
    try:
        raw = file.read_bytes()
        return raw, list(_recipe(json.loads(raw), tags))
    except (ValueError, OSError, RecursionError) as error:
        raise CatalogueError(f"{file} is no recipe of Minecraft's: {error}") from error


def _recipe(whole: Any, tags: _Tags) -> Iterator[Recipe]:
    """The recipe; ValueError names the key that is wrong."""
    kind = _field(whole, "type")
    if not isinstance(kind, str):
        raise ValueError(f"'type' is no text: {kind!r:.100}")
    if kind.removeprefix("minecraft:") not in (_SHAPED, _SHAPELESS):
        return
    result = _field(whole, "result")
    count = result.get("count", 1) if isinstance(result, dict) else 1
    if type(count) is not int or not 1 <= count <= _MOST_MADE:
        raise ValueError(f"'result.count' is no number from 1 to {_MOST_MADE}: {count!r:.100}")
    given = _shaped(whole) if kind.endswith(_SHAPED) else _shapeless(whole)
    if not 1 <= len(given) <= _PLACES:
        raise ValueError(f"{len(given)} ingredients, a grid has {_PLACES} places")
    needs = Counter(_name(each, where, tags) for where, each in given)
    yield Recipe(_name(result, "result", tags), count, tuple(needs.items()))


def _shaped(whole: Any) -> list[tuple[str, Any]]:
    """Key and ingredient of each place that is not empty."""
    pattern, key = _field(whole, "pattern"), _field(whole, "key")
    if not isinstance(pattern, list) or not all(isinstance(row, str) for row in pattern):
        raise ValueError(f"'pattern' is no list of texts: {pattern!r:.100}")
    marks = [mark for mark in "".join(pattern) if mark != " "]
    return [(f"key.{mark}", _field(key, mark, "'key'")) for mark in marks]


def _shapeless(whole: Any) -> list[tuple[str, Any]]:
    given = _field(whole, "ingredients")
    if not isinstance(given, list):
        raise ValueError(f"'ingredients' is no list: {given!r:.100}")
    return [(f"ingredients[{number}]", each) for number, each in enumerate(given)]


def _field(whole: Any, key: str, what: str = "the file") -> Any:
    if not isinstance(whole, dict):
        raise ValueError(f"{what} is no object: {whole!r:.100}")
    if key not in whole:
        raise ValueError(f"{what} has no {key!r}")
    return whole[key]


def _name(given: Any, where: str, tags: _Tags) -> str:
    """A thing's name in words: of `minecraft:oak_log`, `#minecraft:logs`, {"item": ...}, {"tag": ...}, or a list."""
    each = given[0] if isinstance(given, list) and given else given
    tag = each.startswith("#") if isinstance(each, str) else False
    if isinstance(each, dict):
        tag = not {"item", "id"} & each.keys()
        each = next((each[key] for key in ("item", "id", "tag") if key in each), None)
    if tag and isinstance(each, str):
        each = tags.first(each)
    name = str(each).lstrip("#").rpartition(":")[2].replace("_", " ").replace(".", " ").lower()
    name = " ".join(name.split())
    if not isinstance(each, str) or not _NAME.fullmatch(name) or "using" in name.split():
        raise ValueError(f"{where!r} names no thing: {given!r:.100}")
    return name
