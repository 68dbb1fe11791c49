"""Folders that may come from a stranger: nothing in them leads out, or is too deep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from agentgym_py.errors import RunError
from agentgym_py.files.reading import is_hollow, is_special, reason_of

DEEPEST = 64
"""Levels of folders within a folder that may come from a stranger."""
MOST_ENTRIES = 500_000
"""Files and folders that are searched for those of an ending: a stranger's settings may name `/`."""
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""Last bytes of a journal of several databases: after the name of a file that SQLite deletes when it opens one."""


def inside(folder: Path, name: str | Path = "") -> Path:
    """Return a path in a folder that may come from a stranger.

    Raises:
        RunError: a symbolic link leads it out of the folder, or it is a pipe or a device.
    """
    path = folder / name
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
        special = is_special(path)
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a null character
        raise RunError(f"{path} cannot be read: {reason_of(error)}") from error
    if not is_inside:
        raise RunError(f"{path} leads out of {folder}, by a symbolic link or ..; put the file itself there")
    if special:
        raise RunError(f"{path} is no ordinary file; remove it")
    return path


def walk(folder: Path) -> Iterator[Path]:
    """Yield the files and folders within a folder, `DEEPEST` levels deep; links are not followed.

    Python's own walks call themselves for each level, so a stranger's folder of a thousand levels would end them.
    """
    waiting = [(folder, 1)]
    while waiting:
        place, level = waiting.pop()
        try:
            with os.scandir(place) as entries:
                found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except OSError:  # it may not be read, or is gone
            continue
        for name, is_folder in found:
            yield place / name
            if is_folder and level < DEEPEST:
                waiting.append((place / name, level + 1))


def files_below(folder: Path, ending: str) -> list[Path]:
    """Return what in a folder has a name with this ending, sorted.

    Neither links to folders nor folders below DEEPEST levels are searched.

    Raises:
        RunError: the folder has more than MOST_ENTRIES files and folders.
    """
    found = []
    for number, path in enumerate(walk(folder)):
        if number >= MOST_ENTRIES:
            raise RunError(
                f"{folder} has more than {MOST_ENTRIES:,} files and folders; name the one with the *{ending}"
            )
        if path.name.endswith(ending):
            found.append(path)
    return sorted(found)


def require_inside(folder: Path) -> None:
    """Raise RunError if anything in a folder leads out of it, is too deep in it, or is a pipe, device or file of holes.

    A journal of SQLite that names a file elsewhere leads out, too.
    """
    for path in walk(folder):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            inside(folder, path.relative_to(folder))
        elif path.is_dir() and len(path.relative_to(folder).parts) == DEEPEST:
            raise RunError(f"{folder} has folders in folders, more than {DEEPEST} levels; remove them")
        elif is_hollow(path):
            raise RunError(f"{path} is no ordinary file, but nearly all holes; remove it")
        elif path.name.endswith("-journal") and path.is_file() and _last_bytes(path) == _SUPER_JOURNAL:
            raise RunError(f"{path} names a file elsewhere, which SQLite would delete; remove it")


def _last_bytes(path: Path) -> bytes:
    """Return as many bytes of the end of a file as `_SUPER_JOURNAL` has."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(_SUPER_JOURNAL)))
        return file.read()


def require_ordinary(folder: Path) -> None:
    """Raise RunError if a file of a model's folder, or of a folder in it, is a pipe, a device or a file of holes.

    A library that reads it would wait. Links may lead elsewhere, as in the hub's cache.
    """
    for path in (*folder.glob("*"), *folder.glob("*/*")):
        if is_special(path) or is_hollow(path):
            raise RunError(f"{path} is no ordinary file; remove it")


def missing_file_hint(folder: Path, name: str) -> str:
    """Say why a folder lacks a file of this name, and suggest a subfolder that has one."""
    if not folder.is_dir():
        return "there is no such folder"
    below = next(iter(sorted(folder.glob(f"*/{name}"))), None)
    return f"{name} is not there" + (f"; did you mean {below.parent}?" if below else "")
