"""Files that are written whole or not at all, folders of JSON, and clear errors if writing fails."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_py.errors import AgentGymError, RunError

LOCK = ".lock"
PROVENANCE = "provenance.json"
_NOTHING_LEFT = 1 << 20
"""A disk with fewer free bytes counts as full."""


def write_atomic(path: Path, data: str) -> None:
    """Write a file aside and rename it: a reader sees the old or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with add_filename(path), aside.open("w", encoding="utf-8") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        sync_to_disk(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def missing_file_hint(folder: Path, name: str) -> str:
    """Say why a folder lacks a file of this name, and which folder in it has one."""
    if not folder.is_dir():
        return "there is no such folder"
    found = next(iter(sorted(folder.glob(f"*/{name}"))), None)
    return f"{name} is not there" + (f"; did you mean {found.parent}?" if found else "")


def remove(folder: Path) -> None:
    """Remove a folder, if it exists. It is renamed first, so that a kill leaves none with half of its files."""
    aside = folder.with_name(f".{folder.name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(FileNotFoundError):
        folder.replace(aside)
    shutil.rmtree(aside, ignore_errors=True)


def remove_partial_files(folder: Path) -> None:
    """Remove what a kill left half written."""
    for each in (*folder.glob(".*.tmp"), *folder.glob(".*.old"), *folder.glob("*.partial")):
        shutil.rmtree(each) if each.is_dir() else each.unlink()


@contextmanager
def add_filename(path: Path) -> Iterator[None]:
    """Add the file's name to the system's errors about it."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def clear_write_errors(path: Path) -> Iterator[None]:
    """Turn whatever a library raises while it writes into one clear error: torch does not mention a full disk.

    Raises:
        RunError: the block failed.
    """
    try:
        yield
    except AgentGymError:
        raise
    except Exception as error:
        there = next(each for each in (path, *path.absolute().parents) if each.exists())
        full = not isinstance(error, OSError) and shutil.disk_usage(there).free < _NOTHING_LEFT
        raise RunError(f"{path} cannot be written: {'no space left on its disk' if full else error}") from error


def sync_to_disk(path: Path) -> None:
    """Flush a file, or the names in a folder, so that they survive a power cut."""
    if sys.platform == "win32":  # syncs only files open for writing, and no folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        with add_filename(path):
            os.fsync(handle)
    finally:
        os.close(handle)


def json_safe(value: Any) -> Any:
    """Replace nan and infinities, which JSON lacks, by null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): json_safe(each) for key, each in value.items()}
    return [json_safe(each) for each in value] if isinstance(value, list | tuple) else value


def canonical_json(kwargs: Mapping[str, Any]) -> str:
    """The arguments of an environment as text; equal for equal arguments."""
    return json.dumps(dict(kwargs), sort_keys=True, default=str)


RENAMED = {"tries": "attempts", "samples": "attempts", "fork_tries": "fork_attempts", "temperatures": "temperature"}
"""Settings as files of earlier versions call them, and their names today."""


def with_current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a file that an earlier version may have written, by the names of today."""
    old = {RENAMED[name]: value for name, value in settings.items() if name in RENAMED and value is not None}
    return {name: value for name, value in settings.items() if name not in RENAMED} | old


@dataclass(frozen=True, slots=True)
class JsonFolder:
    """A folder of JSON files, each written whole or not at all."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of the folder; RunError if one is at work (no lock on Windows).

        The system releases the lock when the process ends, however it ends. The locked file is never replaced, because
        two processes would then each hold a lock of their own.
        """
        with (self.path / LOCK).open("ab") as file:
            if sys.platform != "win32":
                import fcntl

                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    raise RunError(f"{self.path} is in use: another process is at work on this run") from error
            for litter in self.path.glob(".*.tmp"):  # of a process that was killed
                litter.unlink(missing_ok=True)
            yield

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file; what is no number becomes null."""
        write_atomic(
            self.path / name, json.dumps(json_safe(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        )

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON file; RunError if it is broken or no object."""
        try:
            value = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path / name} cannot be read: {error}") from error
        if not isinstance(value, dict):
            raise RunError(f"{self.path / name} is no JSON object")
        return value


def new_folder(path: str | Path) -> Path:
    """Check that a folder is new, empty, or left by an interrupted start of a run; RunError otherwise."""
    target = Path(path)
    names = [each.name for each in target.iterdir()] if target.is_dir() else []
    if target.exists() and (not target.is_dir() or (names and not _only_begun(names))):
        hint = f"a run; go on with it by --resume {path}" if (target / "run.yaml").is_file() else "other files"
        raise RunError(f"{path} already holds {hint}")
    return target


def _only_begun(names: Sequence[str]) -> bool:
    """Whether a folder with these names in it is what an interrupted `RunFolder.started` leaves."""
    return LOCK in names and all(name == PROVENANCE or name.startswith(".") for name in names)
