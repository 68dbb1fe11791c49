"""Saved states of a training: written aside with digests, then renamed, so that a kill keeps the last one."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from agentgym_py import distributed
from agentgym_py.errors import AgentGymError, RunError
from agentgym_py.files import (
    clear_write_errors,
    inside,
    load_json,
    remove,
    require_ordinary,
    sync_to_disk,
    write_atomic,
)

_ABOUT = "state.json"
"""Holds the fingerprint of a state's training and the digest of every other file; written last."""
_FORMAT = 3
"""Version of the states: version 1 had no number, 2 another order of the rows."""
_finished: ContextVar[list[Path] | None] = ContextVar("finished", default=None)
"""Folders of finished trainings whose states are removed later."""


def fingerprint(*parts: object) -> str:
    """Return the SHA-256 of the parts as printed; 1 and 1.0 are the same.

    A `Path` counts by the content of its file or folder, so that a run folder can be moved.
    """
    text = "\x1f".join(repr(_plain(part)) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    """Return the value with ints for integral floats, and settings by name."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Path):
        return _content(value)
    if is_dataclass(value):
        values = {f: getattr(value, f.name) for f in fields(value)}
        omitted = [f for f in values if f.metadata.get("omit_default") and values[f] == f.default]
        return type(value).__name__, {f.name: _plain(values[f]) for f in values if f not in omitted}
    if hasattr(value, "tolist"):  # an array, whose repr is cut
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not set(map(type, value)) <= {int, str}:  # token ids are plain already
        return [_plain(item) for item in value]
    return value


class Checkpoints:
    """Keep the latest state of one training in a folder.

    `training` is the fingerprint of everything that the training depends on: the state of another training is refused.
    `minutes` is the least time between two states. Of several processes, all call each method and write their own
    files.
    """

    def __init__(self, folder: Path, training: str, minutes: float) -> None:
        self.folder, self.training, self.minutes, self.sharding = folder, training, minutes, _sharding()
        self._saved = time.monotonic()

    def is_due(self) -> bool:
        """Whether `minutes` have passed since the latest state."""
        return distributed.on_rank_zero(lambda: time.monotonic() - self._saved >= 60 * self.minutes)

    def save(self, write: Callable[[Path], None]) -> None:
        """Save the state that `write` puts into a folder; it is called in every process."""
        aside = self.folder / ".writing"
        with clear_write_errors(self.folder):
            distributed.on_rank_zero(_make_folder, aside)
            write(aside)
        distributed.on_rank_zero(self._adopt, aside)
        self._saved = time.monotonic()

    def _adopt(self, aside: Path) -> None:
        """Make a complete folder the latest state, and remove older ones."""
        older = self._states()
        with clear_write_errors(self.folder):
            about = {
                "format": _FORMAT,
                "training": self.training,
                "split": self.sharding,
                "files": {name: _digest(aside / name) for name in _names(aside)},
            }
            write_atomic(aside / _ABOUT, json.dumps(about, indent=1) + "\n")
            for path in (*aside.rglob("*"), aside):
                sync_to_disk(path)
            aside.replace(self.folder / f"state-{int(older[-1].name[6:]) + 1 if older else 1:06d}")
            sync_to_disk(self.folder)
        for state in older:
            shutil.rmtree(state, ignore_errors=True)  # the next save tries again

    def latest(self) -> Path | None:
        """Return the folder of the latest state, None without one.

        Raises:
            RunError: a file has changed since it was written, or the state is of another training.
        """
        return distributed.on_rank_zero(self._latest)

    def _latest(self) -> Path | None:
        if not (states := self._states()):
            return None
        state = states[-1]
        restart = f"delete {self.folder} to restart this training"
        require_ordinary(state)
        try:
            about: Mapping[str, Any] = load_json(inside(state, _ABOUT))
            damaged = [name for name, digest in about["files"].items() if _digest(inside(state, name)) != digest]
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise RunError(f"{state} is damaged ({error}); {restart}") from error
        if damaged:
            raise RunError(f"{state} is damaged ({', '.join(damaged)}: changed since they were written); {restart}")
        if about.get("format") != _FORMAT:
            raise RunError(f"{state} was saved by another version of agentgym-py, which trains differently; {restart}")
        if about.get("training") != self.training:
            raise RunError(f"{state} is the state of another training (other data, settings or weights); {restart}")
        if (sharding := about.get("split", "")) != self.sharding:
            saved, now = (f"sharded by {name}" if name else "unsharded" for name in (sharding, self.sharding))
            raise RunError(
                f"{state} was saved {saved}, and this training is {now}: resume it as it began, or {restart}"
            )
        return state

    @contextmanager
    def reading(self, state: Path) -> Iterator[None]:
        """Turn whatever the files of a state make the block raise into a RunError: a stranger may have written them."""
        try:
            yield
        except (AgentGymError, MemoryError):
            raise
        except Exception as error:
            said = " ".join(repr(error).split())[:300]
            raise RunError(f"{state} is damaged ({said}); delete {self.folder} to restart this training") from error

    def _states(self) -> list[Path]:
        return sorted(self.folder.glob("state-*"))

    def remove(self) -> None:
        """Remove the states of a finished training."""
        remove_states(self.folder)


@contextmanager
def keep_states_until_exit() -> Iterator[None]:
    """Keep the states of trainings that finish within the block until it ends, because their results are saved first.

    If the block raises, the states stay, and the training resumes from them.
    """
    finished: list[Path] = []
    before = _finished.set(finished)
    try:
        yield
    finally:
        _finished.reset(before)
    for folder in finished:
        remove_states(folder)


def remove_states(folder: Path) -> None:
    """Remove the states of a finished training, and their folder if it is then empty."""
    if (finished := _finished.get()) is None:
        distributed.on_rank_zero(_remove, folder)
    else:
        finished.append(folder)


def _remove(folder: Path) -> None:
    remove(folder)
    with suppress(OSError):  # the folder holds something else, or never existed
        folder.parent.rmdir()


def _sharding() -> str:
    """Name the sharding of the states; only as many processes can read DeepSpeed's."""
    name = distributed.sharding_backend() or ""
    return f"{name} over {distributed.world_size()} processes" if name == "DeepSpeed" else name


def _make_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _content(path: Path) -> str | dict[str, str]:
    """Return the digests of a file, or of all files of a folder by name; the path if there is none."""
    if path.is_dir():
        return {name: _digest(path / name) for name in _names(path)}
    return _digest(path) if path.is_file() else str(path)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
