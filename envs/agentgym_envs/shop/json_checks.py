"""WebShop's JSON files, checked as they are read: what is wrong is named by file, entry and key."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from agentgym_py.errors import CatalogueError

T = TypeVar("T", list[Any], dict[str, Any])
_LARGEST = 1e300


def read_json(path: Path, kind: type[T], seen: Callable[[bytes], None] = lambda _: None) -> T:
    """The JSON of a file, unpacked if it is gzipped and shown to `seen`; CatalogueError names the file."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        seen(raw)
        value = json.loads(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise CatalogueError(f"{path}: cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:  # broken JSON or broken UTF-8
        raise CatalogueError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(value, kind):
        wanted = "list" if kind is list else "object"
        raise CatalogueError(f"{path}: a JSON {wanted} is wanted, found {type(value).__name__}")
    return value


@dataclass(frozen=True, slots=True)
class Entry:
    """A JSON object and where it stands; each method gives the value of a key, or a CatalogueError that names it."""

    where: str
    """File and entry, for messages."""
    values: Mapping[str, Any]

    @classmethod
    def of(cls, where: str, value: Any) -> Entry:
        """A value that must be an object."""
        if not isinstance(value, dict):
            raise CatalogueError(f"{where} is no JSON object")
        return cls(where, value)

    def value(self, key: str) -> Any:
        """Whatever stands under a key that must be there."""
        if key not in self.values:
            raise CatalogueError(f"{self.where}: key {key!r} is missing")
        return self.values[key]

    def text(self, key: str) -> str:
        """A string."""
        value = self.value(key)
        return value if isinstance(value, str) else self.refuse(key, "a string", value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(
            each if isinstance(each, str) else self.refuse(key, "a list of strings", each) for each in self.many(key)
        )

    def number(self, key: str) -> float:
        """A finite number."""
        value = self.value(key)
        good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
        return float(value) if good else self.refuse(key, "a finite number", value)

    def many(self, key: str) -> list[Any]:
        """A list of whatever."""
        value = self.value(key)
        return value if isinstance(value, list) else self.refuse(key, "a list", value)

    def entry(self, key: str) -> Entry:
        """An object."""
        value = self.value(key)
        return Entry(f"{self.where}: {key}", value if isinstance(value, dict) else self.refuse(key, "an object", value))

    def entries(self, key: str) -> list[Entry]:
        """A list of objects."""
        return [Entry.of(f"{self.where}: {key} {i}", each) for i, each in enumerate(self.many(key))]

    def refuse(self, key: str, wanted: str, found: Any) -> NoReturn:
        """Say what should stand under a key."""
        shown = repr(found) if isinstance(found, float) else type(found).__name__
        raise CatalogueError(f"{self.where}: key {key!r} must be {wanted}, found {shown}")


ITEMS = "items_shuffle"


def find_file(folder: Path, stem: str) -> Path:
    """`stem*.json` or `stem*.json.gz` in a folder: the plain name first, else the first in alphabetical order."""
    if not folder.is_dir():
        raise CatalogueError(f"{folder}: no such folder")
    found = sorted(path for path in folder.glob(f"{stem}*.json*") if path.name.endswith((".json", ".json.gz")))
    if not found:
        raise CatalogueError(f"{folder}: no {stem}*.json or {stem}*.json.gz in it")
    return min(found, key=lambda path: (path.name.split(".")[0] != stem, path.name))
