"""Checked reading of WebShop's JSON files: errors name file, entry and key."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from agentgym_py.errors import CatalogueError
from agentgym_py.files import read_bytes

T = TypeVar("T", list[Any], dict[str, Any])
_LARGEST = 1e300
_MOST = 16 << 30
"""Largest file in bytes; WebShop's whole catalogue has 5 GB."""


def read_json(path: Path, kind: type[T], on_bytes: Callable[[bytes], None] = lambda _: None) -> T:
    """Read the JSON of a file, unzipped if needed, and pass its bytes to `on_bytes`; CatalogueError names the file."""
    try:
        raw = read_bytes(path, _MOST)
        raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
        on_bytes(raw)
        value = json.loads(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise CatalogueError(f"{path}: cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:  # broken JSON or broken UTF-8
        raise CatalogueError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(value, kind):
        expected = "list" if kind is list else "object"
        raise CatalogueError(f"{path}: must be a JSON {expected}, is {type(value).__name__}")
    return value


@dataclass(frozen=True, slots=True)
class Entry:
    """A JSON object and its place; each method returns the value of a key or raises a CatalogueError that names it."""

    where: str
    """File and entry, for messages."""
    values: Mapping[str, Any]

    @classmethod
    def of(cls, where: str, value: Any) -> Entry:
        """Make an entry of a value that must be an object."""
        if not isinstance(value, dict):
            raise CatalogueError(f"{where}: must be a JSON object")
        return cls(where, value)

    def value(self, key: str) -> Any:
        """Return any value of a required key."""
        if key not in self.values:
            raise CatalogueError(f"{self.where}: key {key!r} is missing")
        return self.values[key]

    def text(self, key: str) -> str:
        """Return a string."""
        value = self.value(key)
        return value if isinstance(value, str) else self.fail(key, "a string", value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        return tuple(
            item if isinstance(item, str) else self.fail(key, "a list of strings", item) for item in self.items(key)
        )

    def number(self, key: str) -> float:
        """Return a finite number."""
        value = self.value(key)
        valid = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
        return float(value) if valid else self.fail(key, "a finite number", value)

    def items(self, key: str) -> list[Any]:
        """Return a list of any items."""
        value = self.value(key)
        return value if isinstance(value, list) else self.fail(key, "a list", value)

    def entry(self, key: str) -> Entry:
        """Return an object."""
        value = self.value(key)
        return Entry(f"{self.where}: {key}", value if isinstance(value, dict) else self.fail(key, "an object", value))

    def entries(self, key: str) -> list[Entry]:
        """Return a list of objects."""
        return [Entry.of(f"{self.where}: {key} {i}", item) for i, item in enumerate(self.items(key))]

    def fail(self, key: str, expected: str, value: Any) -> NoReturn:
        """Raise a CatalogueError about the value of a key."""
        actual = repr(value) if isinstance(value, float) else type(value).__name__
        raise CatalogueError(f"{self.where}: key {key!r} must be {expected}, is {actual}")


ITEMS = "items_shuffle"


def find_file(folder: Path, stem: str) -> Path:
    """Find `stem*.json` or `stem*.json.gz` in a folder: the bare stem if it exists, else the alphabetically first."""
    if not folder.is_dir():
        raise CatalogueError(f"{folder}: no such folder")
    paths = [path for path in folder.glob(f"{stem}*.json*") if path.name.endswith((".json", ".json.gz"))]
    if not paths:
        raise CatalogueError(f"{folder}: no {stem}*.json or {stem}*.json.gz in it")
    return min(paths, key=lambda path: (path.name.split(".")[0] != stem, path.name))
