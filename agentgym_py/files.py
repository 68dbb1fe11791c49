"""Atomic file writes, folders of JSON files, and clear errors when writing fails."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from agentgym_py.errors import AgentGymError, RunError, WriteError

LOCK = ".lock"
DEEPEST = 64
"""Levels of folders within a folder that may come from a stranger."""
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""Last bytes of a journal of several databases: after the name of a file that SQLite deletes when it opens one."""
PROVENANCE = "provenance.json"
_FULL_DISK = 1 << 20
"""A disk with fewer free bytes counts as full."""
MOST_BYTES = 256 << 20
"""Largest file of settings or results, and longest line: a sparse file takes no room on a disk, but any in memory."""
_MOST_PACKED = 1000
"""How much smaller than its size a large file may be on the disk, which may pack files."""
MOST_VALUES = 10_000_000
"""Largest number of values of a JSON text: `[],` takes 3 bytes of a file and 80 of the memory."""
_MOST_YAML = 1 << 20
"""Longest YAML text in characters, of which Python parses some 100,000 a second."""
_MOST_NODES = 1_000_000
"""Largest number of values of a YAML file, with its aliases written out."""


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
    partial = target.with_name(f"{target.name}.partial")
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
    if _is_special(path):
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file, which is made if it is missing: all of the line, or none if the disk is full."""
    with add_filename(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            append_or_undo(handle, line)
        finally:
            os.close(handle)


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


def missing_file_hint(folder: Path, name: str) -> str:
    """Say why a folder lacks a file of this name, and suggest a subfolder that has one."""
    if not folder.is_dir():
        return "there is no such folder"
    below = next(iter(sorted(folder.glob(f"*/{name}"))), None)
    return f"{name} is not there" + (f"; did you mean {below.parent}?" if below else "")


def remove(folder: Path) -> None:
    """Remove a folder, if it exists; renaming it first means that a kill never leaves it half empty."""
    aside = folder.with_name(f".{folder.name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(FileNotFoundError):
        folder.replace(aside)
    shutil.rmtree(aside, ignore_errors=True)


def remove_partial_files(folder: Path) -> None:
    """Remove the unfinished files and folders of a killed process."""
    for path in (*folder.glob(".*.tmp"), *folder.glob(".*.old"), *folder.glob("*.partial")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _reason(error: Exception) -> str:
    """Return why a file cannot be read, without its name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Read a file that may come from a stranger.

    Raises:
        OSError: it cannot be read, has more bytes than `most` (by default MOST_BYTES), or is a pipe or a device; those
            below /dev are read, because the user has named them.
    """
    if _is_special(path) and not path.is_relative_to("/dev"):
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
    most = MOST_BYTES if most is None else most
    with path.open("rb") as file:
        content = file.read(most + 1 if _is_special(path) else -1) if path.stat().st_size <= most else None
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


def parse_json(text: str | bytes, most: int = MOST_VALUES, **options: Any) -> Any:
    """Parse JSON that may come from a stranger; `options` go to `json.loads`.

    Raises:
        ValueError: it is not JSON, is nested too deeply, or has more than `most` values.
    """
    signs: Any = b",[{" if isinstance(text, bytes) else ",[{"
    if len(text) > most and sum(map(text.count, signs)) > most:
        raise ValueError(f"it has more than {most} values")
    try:
        return json.loads(text, **options)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def numbered_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers from 1; one that is longer than MOST_BYTES is cut and the last."""
    for number in count(1):
        line = file.readline(MOST_BYTES + 1)
        if line:
            yield number, line
        if not line or len(line) > MOST_BYTES:
            return


def inside(folder: Path, name: str | Path = "") -> Path:
    """Return a path in a folder that may come from a stranger.

    Raises:
        RunError: a symbolic link leads it out of the folder, or it is a pipe or a device.
    """
    path = folder / name
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
        is_special = _is_special(path)
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a null character
        raise RunError(f"{path} cannot be read: {_reason(error)}") from error
    if not is_inside:
        raise RunError(f"{path} leads out of {folder}, by a symbolic link or ..; put the file itself there")
    if is_special:
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


def require_inside(folder: Path) -> None:
    """Raise RunError if anything in a folder leads out of it, is too deep in it, or is a pipe, device or file of holes.

    A journal of SQLite that names a file elsewhere leads out, too.
    """
    for path in walk(folder):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            inside(folder, path.relative_to(folder))
        elif path.is_dir() and len(path.relative_to(folder).parts) == DEEPEST:
            raise RunError(f"{folder} has folders in folders, more than {DEEPEST} levels; remove them")
        elif _is_hollow(path):
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
        if _is_special(path) or _is_hollow(path):
            raise RunError(f"{path} is no ordinary file; remove it")


def _is_special(path: Path) -> bool:
    return path.exists() and not (path.is_file() or path.is_dir())


def _is_hollow(path: Path) -> bool:
    """Whether a path is a large file that is nearly all holes: it takes no room on the disk, but hours to read."""
    if not path.is_file() or (size := path.stat().st_size) <= MOST_BYTES:
        return False
    return 512 * getattr(path.stat(), "st_blocks", size) < size // _MOST_PACKED


def parse_yaml(text: str, loader: Any = None) -> Any:
    """Parse YAML with a safe loader.

    Raises:
        ValueError: it is not YAML, is too long, holds itself, is nested too deeply, or its aliases repeat too much.
    """
    import yaml

    if len(text) > _MOST_YAML:
        raise ValueError(f"it has more than {_MOST_YAML >> 20} MiB of YAML")
    try:
        reader = (loader or yaml.SafeLoader)(text)
    except yaml.YAMLError as error:  # a control character
        raise ValueError(" ".join(str(error).split())) from error
    try:
        node = reader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > _MOST_NODES:
            raise ValueError(f"its aliases stand for more than {_MOST_NODES} values")
        return reader.construct_document(node)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    finally:
        reader.dispose()


def _size(node: Any, sizes: dict[int, int | None]) -> int:
    """Return the number of values of a YAML node with its aliases written out."""
    if id(node) in sizes:
        if (known := sizes[id(node)]) is None:
            raise ValueError("a value holds itself")
        return known
    sizes[id(node)] = None
    inner = node.value if isinstance(node.value, list) else []
    parts = [part for item in inner for part in (item if isinstance(item, tuple) else (item,))]
    sizes[id(node)] = size = 1 + sum(_size(part, sizes) for part in parts)
    return size


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


@contextmanager
def clear_read_errors(folder: Path) -> Iterator[None]:
    """Turn what goes wrong with the values of a stranger's or damaged files into a RunError of one line."""
    try:
        yield
    except AgentGymError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise RunError(f"{folder} is damaged, or of another version: {error!r}") from error


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


def json_safe(value: Any) -> Any:
    """Replace nan and infinities, which JSON lacks, by None, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): json_safe(item) for key, item in value.items()}
    return [json_safe(item) for item in value] if isinstance(value, list | tuple) else value


def canonical_json(kwargs: Mapping[str, Any]) -> str:
    """Return the arguments of an environment as text; equal for equal arguments."""
    return json.dumps(dict(kwargs), sort_keys=True, default=str)


RENAMED = {"tries": "attempts", "samples": "attempts", "fork_tries": "fork_attempts", "temperatures": "temperature",
           "explore_max_steps": "horizon"}  # fmt: skip
"""Today's names of settings in files of earlier versions."""


def with_current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, maybe of an earlier version, by today's names."""
    old = {RENAMED[name]: value for name, value in settings.items() if name in RENAMED and value is not None}
    return {name: value for name, value in settings.items() if name not in RENAMED} | old


@dataclass(frozen=True, slots=True)
class JsonFolder:
    """A folder of JSON files that are written atomically."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for this process; RunError if another process holds the lock (no lock on Windows).

        The system releases the lock when the process ends, however it ends. The lock file is never replaced, because
        then two processes could each hold a lock.
        """
        require_inside(self.path)
        with (self.path / LOCK).open("ab") as file:
            if sys.platform != "win32" and not _is_locked(file):
                raise RunError(f"{self.path} is in use: another process is at work on this run")
            _require_free(_claim_of(self.path), self.path)
            for temporary in self.path.glob(".*.tmp"):  # left by a killed process
                temporary.unlink(missing_ok=True)
            yield

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file; nan and infinities become null."""
        write_atomic(
            self.path / name, json.dumps(json_safe(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        )

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON object; RunError if the file has none."""
        try:
            value = load_json(inside(self.path, name))
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path / name} cannot be read: {_reason(error)}") from error
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
    target.parent.mkdir(parents=True, exist_ok=True)
    place = _claim_of(target)
    try:
        lock = inside(place.parent, place.name).open("ab")
    except OSError as error:
        raise WriteError(f"{target} cannot be written: {error.strerror}") from error
    with add_filename(place), lock as file:
        if not _is_locked(file) or not _is_at(file, place):
            raise RunError(f"{target} is in use: another process is writing it")
        try:
            _require_free(target / LOCK, target)
            yield
        finally:
            place.unlink(missing_ok=True)


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
        is_run = (target / "run.yaml").is_file()
        advice = (
            f"a run; to resume it: agentgym evolve --resume {path}" if is_run else "other files; choose another folder"
        )
        raise RunError(f"{path} already holds {advice}")
    return target


def _only_begun(names: Sequence[str]) -> bool:
    """Whether these are the files that an interrupted `RunFolder.start` leaves."""
    return LOCK in names and all(name == PROVENANCE or name.startswith(".") for name in names)
