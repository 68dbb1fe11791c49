"""Folders of our own: JSON files that are written atomically, and locks against a second process."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from agentgym_py.errors import RunError, WriteError
from agentgym_py.files.folders import inside, require_inside
from agentgym_py.files.reading import load_json, reason_of
from agentgym_py.files.values import json_safe
from agentgym_py.files.writing import add_filename, remove_partial_files, write_atomic

LOCK = ".lock"
PROVENANCE = "provenance.json"
_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, as in a name that is not UTF-8; a file holds it as an escape of JSON."""


@dataclass(frozen=True, slots=True)
class JsonFolder:
    """A folder of JSON files that are written atomically."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder, which is made if it is missing, for this process (no lock on Windows).

        The system releases the lock when the process ends, however it ends. The lock file is never replaced, because
        then two processes could each hold a lock.

        Raises:
            RunError: another process holds the lock, or the folder cannot be written.
        """
        require_inside(self.path)
        with _open_lock(self.path / LOCK, self.path) as file:
            if sys.platform != "win32" and not _is_locked(file):
                raise RunError(f"{self.path} is in use: another process is at work on this run")
            _require_free(_claim_of(self.path), self.path)
            remove_partial_files(self.path, [".*.tmp"])
            yield

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file; nan and infinities become null."""
        text = json.dumps(json_safe(value), indent=1, ensure_ascii=False, allow_nan=False)
        text = _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
        write_atomic(self.path / name, text + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON object; RunError if the file has none."""
        try:
            value = load_json(inside(self.path, name))
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path / name} cannot be read: {reason_of(error)}") from error
        if not isinstance(value, dict):
            raise RunError(f"{self.path / name} is not a JSON object")
        return value


@contextmanager
def claimed(target: Path) -> Iterator[None]:
    """Claim a new file or folder for this process while the block makes it; no other process can (not on Windows).

    The caller checks within the block that `target` is new. The claim is a locked file beside it, removed at the
    end; one that a killed process left behind is claimed again.

    Raises:
        RunError: another process is making it, or it cannot be written.
    """
    if sys.platform == "win32":
        yield
        return
    place = _claim_of(target)
    with add_filename(place), _open_lock(inside(place.parent, place.name), target) as file:
        if not _is_locked(file) or not _is_at(file, place):
            raise RunError(f"{target} is in use: another process is writing it")
        try:
            _require_free(target / LOCK, target)
            yield
        finally:
            place.unlink(missing_ok=True)


def _open_lock(lock: Path, target: Path) -> BinaryIO:
    """Open the lock file of a target; it and its folder are made if they are missing. WriteError names the target."""
    try:
        if not lock.parent.exists():  # a file there is no folder, which `open` says more clearly
            lock.parent.mkdir(parents=True, exist_ok=True)
        return lock.open("ab")
    except OSError as error:
        raise WriteError(f"{target} cannot be written: {error.strerror}") from error


def _claim_of(target: Path) -> Path:
    """Return the lock file of a claim, which lies beside its target."""
    return target.absolute().with_name(f".{target.name}.lock")


def _require_free(lock: Path, target: Path) -> None:
    """Raise RunError if another process holds the lock of the other kind: `locked` and `claimed` exclude each other."""
    if sys.platform != "win32" and lock.is_file():
        with suppress(OSError), lock.open("rb") as file:
            if not _is_locked(file):
                raise RunError(f"{target} is in use: another process is writing it")


def _is_locked(file: BinaryIO) -> bool:
    """Lock a file for this process until it is closed; return False if another process holds the lock."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(file: BinaryIO, place: Path) -> bool:
    """Return whether an open file is still the one at `place`: its process may have removed it before it was locked."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), place.stat())
    return False


def new_folder(path: str | Path) -> Path:
    """Return the path of a new, empty or merely initialised folder; RunError otherwise."""
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise RunError(f"{path} is a file; choose another name for the folder")
    names = [path.name for path in target.iterdir()] if target.is_dir() else []
    if names and not _only_begun(names):
        what = "a run" if (target / "run.yaml").is_file() else "other files"
        raise RunError(f"{path} already holds {what}; choose another folder")
    return target


def require_creatable(path: str | Path) -> None:
    """Raise RunError if a folder cannot be made; one that is made for the trial is removed again."""
    target = Path(path)
    missing = [folder for folder in (target, *target.parents) if not folder.exists()]
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{path} cannot be made: {reason_of(error)}") from error
    finally:
        for folder in missing:
            with suppress(OSError):  # it was not made, or another process has written into it
                folder.rmdir()


def _only_begun(names: Sequence[str]) -> bool:
    """Whether these are the files that an interrupted `RunFolder.start` leaves."""
    return LOCK in names and all(name == PROVENANCE or name.startswith(".") for name in names)
