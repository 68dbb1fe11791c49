"""Which files a viewer looks at, and where their index stands."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_py.errors import ConfigError, DataError
from agentgym_py.trajectory.dataset import detect


@dataclass(frozen=True, slots=True)
class Source:
    """The files that are looked at: one folder with all stores in it, or stores by name."""

    root: Path
    """The folder that they stand in; feedback is kept there."""
    named: tuple[Path, ...] = ()
    """Stores that were named; empty where it is the whole folder."""

    @classmethod
    def of(cls, paths: Sequence[str | Path]) -> Source:
        """A folder, or one or more stores of one folder.

        Raises:
            DataError: no such file, no store, or nothing in the folder.
            ConfigError: a folder among other paths, or files of several folders.
        """
        each = [Path(path).absolute() for path in paths]
        if len(each) == 1 and each[0].is_dir():
            source = cls(each[0])
            if not source.files():
                raise DataError(f"{paths[0]}: no trajectories in this folder")
            return source
        for path in each:
            if path.is_dir():
                raise ConfigError(f"{path}: a folder is viewed alone; name it only, or its files")
            if detect(path) != "store":
                raise DataError(f"{path}: no store of this project; agentgym data convert makes one of it")
        roots = {path.parent for path in each}
        if len(roots) != 1:
            raise ConfigError(f"the files stand in {len(roots)} folders; name the folder that holds them")
        return cls(roots.pop(), tuple(dict.fromkeys(each)))

    def files(self) -> list[Path]:
        """The stores there are now; in a folder every `.jsonl` file that is one, by name."""
        return list(self.named) if self.named else sorted(filter(_is_store, self.root.rglob("*.jsonl")))

    @property
    def index(self) -> Path:
        """The file of the index, hidden, beside the store."""
        if not self.named:
            return self.root / ".view.sqlite"
        return self.root / f".view-{short_digest('/'.join(path.name for path in self.named))}.sqlite"


def short_digest(text: str) -> str:
    """64 bits of the SHA-256 of a text, in hex digits."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _is_store(path: Path) -> bool:
    try:
        return detect(path) == "store"
    except DataError:
        return False
