"""Files that are written whole or not at all, and what is said where they cannot be."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentgym_py.errors import AgentGymError, RunError

_NOTHING_LEFT = 1 << 20
"""Bytes of a disk that is full."""


def write_atomic(path: Path, data: str) -> None:
    """Write a file aside and rename it: a reader sees the old one or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with naming(path), aside.open("w", encoding="utf-8") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        to_disk(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def not_there(folder: Path, name: str) -> str:
    """Why a folder that should hold a file of this name does not, and where within it is one."""
    if not folder.is_dir():
        return "there is no such folder"
    found = next(iter(sorted(folder.glob(f"*/{name}"))), None)
    return f"{name} is not there" + (f"; did you mean {found.parent}?" if found else "")


def remove(folder: Path) -> None:
    """Remove a folder, if it is there; it is renamed first, so that a kill leaves none with half of its files."""
    aside = folder.with_name(f".{folder.name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(FileNotFoundError):
        folder.replace(aside)
    shutil.rmtree(aside, ignore_errors=True)


def remove_halves(folder: Path) -> None:
    """Remove what a kill left there half written."""
    for each in (*folder.glob(".*.tmp"), *folder.glob(".*.old"), *folder.glob("*.partial")):
        shutil.rmtree(each) if each.is_dir() else each.unlink()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What the system says of an open file, it says with its name."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Whatever a library raises while it writes there, as one clear error: torch says nothing of a disk that is full.

    Raises:
        RunError: what is within failed.
    """
    try:
        yield
    except AgentGymError:
        raise
    except Exception as error:
        there = next(each for each in (path, *path.absolute().parents) if each.exists())
        full = not isinstance(error, OSError) and shutil.disk_usage(there).free < _NOTHING_LEFT
        raise RunError(f"{path} cannot be written: {'no space left on its disk' if full else error}") from error


def to_disk(path: Path) -> None:
    """What was written to a file, or the names in a folder, outlive a power cut."""
    if sys.platform == "win32":  # which syncs only what is open for writing, and no folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(handle)
    finally:
        os.close(handle)
