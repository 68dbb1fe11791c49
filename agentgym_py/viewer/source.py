"""The files that a viewer shows, and the place of their index."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_py.errors import ConfigError, DataError, RunError
from agentgym_py.files import inside, walk
from agentgym_py.trajectory.reading import detect


@dataclass(frozen=True, slots=True)
class Source:
    """The files that a viewer shows: all stores of a folder, or some of them."""

    root: Path
    """The folder; feedback is kept there."""
    stores: tuple[Path, ...] = ()
    """The stores that the user named; empty for the whole folder."""

    @classmethod
    def from_paths(cls, paths: Sequence[str | Path]) -> Source:
        """Make a source of a folder, or of one or more stores of one folder.

        Raises:
            DataError: no such file, no store, or no stores in the folder.
            ConfigError: a folder among other paths, or files of several folders.
        """
        absolute = [Path(path).absolute() for path in paths]
        if len(absolute) == 1 and absolute[0].is_dir():
            source = cls(absolute[0])
            if not source.files():
                raise DataError(f"{paths[0]}: no trajectories in this folder")
            return source
        for path in absolute:
            if not path.exists():
                raise DataError(f"{path}: no such file or folder")
            if path.is_dir():
                raise ConfigError(f"{path}: a folder is viewed alone; name it only, or its files")
            if detect(path) != "store":
                raise DataError(f"{path}: no store of this project; agentgym data convert makes one of it")
        roots = {path.parent for path in absolute}
        if len(roots) != 1:
            raise ConfigError(f"the files stand in {len(roots)} folders; name the folder that holds them")
        return cls(roots.pop(), tuple(dict.fromkeys(absolute)))

    def files(self) -> list[Path]:
        """Return the stores that exist now: the named ones, or every `.jsonl` file of the folder that is a store."""
        if self.stores:
            return list(self.stores)
        found = (path for path in walk(self.root) if path.suffix == ".jsonl")
        return sorted(path for path in found if _is_inside(self.root, path) and _is_store(path))

    @property
    def index(self) -> Path:
        """The file of the index, hidden, beside the stores."""
        if not self.stores:
            return self.root / ".view.sqlite"
        return self.root / f".view-{short_digest('/'.join(path.name for path in self.stores))}.sqlite"


def short_digest(text: str) -> str:
    """Return the first 64 bits of a text's SHA-256 as hex digits."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _is_inside(root: Path, path: Path) -> bool:
    try:
        return inside(root, path.relative_to(root)).is_file()
    except RunError:
        return False


def _is_store(path: Path) -> bool:
    try:
        return detect(path) == "store"
    except DataError:
        return False
