"""Writing files: a reader sees all of a file or line, or nothing of it, and errors name the file."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from agentgym_py.errors import AgentGymError, WriteError
from agentgym_py.files.reading import is_special

_FULL_DISK = 1 << 20
"""A disk with fewer free bytes counts as full."""
_LASTING = frozenset(
    (
        errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG,
        errno.ELOOP,
    )
)  # fmt: skip
"""Errors that do not pass by themselves."""


def write_atomic(path: Path, data: str) -> None:
    """Write a temporary file and rename it: a reader sees the old or the new file, never a part.

    Raises:
        OSError: it cannot be written, or a pipe or device is in its place.
    """
    require_replaceable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        aside.unlink(missing_ok=True)
        with add_filename(path), aside.open("x", encoding="utf-8") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        sync_to_disk(path.parent)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a path to write to; it replaces `target` when the block ends without an error.

    Raises:
        OSError: `target` is a pipe or a device, or cannot be written.
    """
    require_replaceable(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)
    try:
        yield partial
        sync_to_disk(partial)
        partial.replace(target)
        sync_to_disk(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def require_replaceable(path: Path) -> None:
    """Raise OSError for a pipe or a device, which root could replace by a file."""
    if is_special(path):
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file, which is made if it is missing: all of the line, or none if the disk is full."""
    with add_filename(path):
        handle = open_to_append(path)
        try:
            append_or_undo(handle, line)
        finally:
            os.close(handle)


def open_to_append(path: Path) -> int:
    """Open a file to append to, which is made if it is missing, and return its descriptor.

    Raises:
        OSError: it cannot be opened, has hard links, or is a device, or a pipe, which would wait for a reader.
    """
    require_replaceable(path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        _require_one_name(handle, path)
    except OSError:
        os.close(handle)
        raise
    return handle


def open_to_change(path: Path) -> BinaryIO:
    """Open a file to change it in place; OSError as `open_to_append`, or without a file."""
    file = path.open("r+b")
    try:
        _require_one_name(file.fileno(), path)
    except OSError:
        file.close()
        raise
    return file


def _require_one_name(handle: int, path: Path) -> None:
    """Raise OSError for an open file with hard links: the name of another file would change with it."""
    if os.fstat(handle).st_nlink > 1:
        raise OSError(errno.EMLINK, "it has hard links, which would change with it; put a copy in its place", str(path))


def append_or_undo(handle: int, line: bytes) -> None:
    """Append all of `line` to an open file, or none of it if the disk is full."""
    start = os.fstat(handle).st_size
    sent = 0
    try:
        while sent < len(line):
            sent += os.write(handle, line[sent:])
    except BaseException:
        os.ftruncate(handle, start)
        raise


def remove(folder: Path) -> None:
    """Remove a folder, if it exists; renaming it first means that a kill never leaves it half empty."""
    aside = folder.with_name(f".{folder.name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(FileNotFoundError):
        folder.replace(aside)
    shutil.rmtree(aside, ignore_errors=True)


def remove_partial_files(folder: Path, patterns: Sequence[str] = (".*.tmp", ".*.old", "*.partial")) -> None:
    """Remove the unfinished files and folders of a killed process."""
    for path in [path for pattern in patterns for path in folder.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, so that they survive a power cut."""
    if sys.platform == "win32":  # it syncs only files open for writing, and no folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        with add_filename(path):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def add_filename(path: Path) -> Iterator[None]:
    """Add the file's name to an OSError that lacks one; the project's own errors name it in their text."""
    try:
        yield
    except AgentGymError:
        raise
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def is_lasting(error: BaseException | None) -> bool:
    """Whether the same command meets an error again, because a path is wrong or may not be written."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _LASTING:
            return True
        error = error.__cause__
    return False


@contextmanager
def clear_write_errors(path: Path) -> Iterator[None]:
    """Turn any error of a writing library into a WriteError; torch, for one, does not mention a full disk."""
    try:
        yield
    except AgentGymError:
        raise
    except Exception as error:
        existing = next(place for place in (path, *path.absolute().parents) if place.exists())
        full = not isinstance(error, OSError) and shutil.disk_usage(existing).free < _FULL_DISK
        raise WriteError(f"{path} cannot be written: {'no space left on its disk' if full else error}") from error
