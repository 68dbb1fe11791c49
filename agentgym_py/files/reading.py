"""Reading files that may come from a stranger: nothing hangs or fills the memory."""

from __future__ import annotations

import errno
import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from agentgym_py.errors import AgentGymError, RunError
from agentgym_py.files.values import parse_json

MOST_BYTES = 256 << 20
"""Largest file of settings or results, and longest line: a sparse file takes no room on a disk, but any in memory."""
_MOST_PACKED = 1000
"""How much smaller than its size a large file may be on the disk, which may pack files."""


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Read a file that may come from a stranger.

    Raises:
        OSError: it cannot be read, has more bytes than `most` (by default MOST_BYTES), or is a pipe or a device; those
            below /dev are read, because the user has named them.
    """
    if is_special(path) and not path.is_relative_to("/dev"):
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
    most = MOST_BYTES if most is None else most
    with path.open("rb") as file:
        content = file.read(most + 1 if is_special(path) else -1) if path.stat().st_size <= most else None
    if content is None or len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB", str(path))
    return content


def read_text(path: Path) -> str:
    """Read a text file; OSError as `read_bytes`, ValueError if it is not UTF-8."""
    return read_bytes(path).decode()


def load_json(path: Path) -> Any:
    """Read a JSON file that may come from a stranger.

    Raises:
        OSError: as `read_text`.
        ValueError: as `parse_json`.
    """
    return parse_json(read_text(path))


def numbered_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers from 1; one that is longer than MOST_BYTES is cut and the last."""
    for number in count(1):
        line = file.readline(MOST_BYTES + 1)
        if line:
            yield number, line
        if not line or len(line) > MOST_BYTES:
            return


@contextmanager
def clear_read_errors(folder: Path) -> Iterator[None]:
    """Turn what goes wrong with the values of a stranger's or damaged files into a RunError of one line."""
    try:
        yield
    except AgentGymError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise RunError(f"{folder} is damaged, or of another version: {error!r}") from error


def reason_of(error: Exception) -> str:
    """Return why a file cannot be read, without its name."""
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error})"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def is_special(path: Path) -> bool:
    """Whether a path is a pipe, a socket or a device."""
    return path.exists() and not (path.is_file() or path.is_dir())


def is_hollow(path: Path) -> bool:
    """Whether a path is a large file that is nearly all holes: it takes no room on the disk, but hours to read."""
    try:
        about = path.stat()
    except FileNotFoundError:  # another process has renamed it since the folder was listed
        return False
    size = about.st_size
    if not stat.S_ISREG(about.st_mode) or size <= MOST_BYTES:
        return False
    return 512 * getattr(about, "st_blocks", size) < size // _MOST_PACKED
