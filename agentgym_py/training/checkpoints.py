"""Saved states of a training: written aside with digests, then renamed, so that a kill leaves the last one."""

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
from agentgym_py.errors import RunError
from agentgym_py.files import clear_write_errors, remove, sync_to_disk, write_atomic

_ABOUT = "state.json"
"""Names the training of a state, and the digest of every other file; written last."""
_FORMAT = 2
"""Version of a state; the first one had no number."""
_over: ContextVar[list[Path] | None] = ContextVar("over", default=None)
"""Folders of finished trainings whose states must stay a little longer."""


def digest_of(*parts: object) -> str:
    """SHA-256 of the parts as printed; 1 and 1.0 are the same."""
    return hashlib.sha256(
        "\x1f".join(repr(_plain(each)) for each in parts).encode("utf-8", "surrogatepass")
    ).hexdigest()


def _plain(value: Any) -> Any:
    """The value with ints for the floats that equal one, and settings by name."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if is_dataclass(value):
        return type(value).__name__, {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if hasattr(value, "tolist"):  # an array, whose repr is cut
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not set(map(type, value)) <= {int, str}:  # token ids need no look
        return [_plain(each) for each in value]
    return value


class Checkpoints:
    """Keep the last state of one training in a folder.

    `training` is a digest of everything the training depends on: the state of another training is refused. `minutes` is
    the least time between two states; with 0 each is kept. Under several processes all call and write, each its own
    files.
    """

    def __init__(self, folder: Path, training: str, minutes: float) -> None:
        self.folder, self.training, self.minutes, self.split = folder, training, minutes, _split()
        self._kept = time.monotonic()

    def due(self) -> bool:
        """Whether enough time has passed since the last state."""
        return distributed.on_rank_zero(lambda: time.monotonic() - self._kept >= 60 * self.minutes)

    def keep(self, write: Callable[[Path], None]) -> None:
        """Keep what `write`, called in every process, puts into the folder that it is given."""
        aside = self.folder / ".writing"
        with clear_write_errors(self.folder):
            distributed.on_rank_zero(_made, aside)
            write(aside)
        self.take(aside)

    def take(self, aside: Path) -> None:
        """Keep this complete folder, which stands beside the states, and drop the one before."""
        distributed.on_rank_zero(self._take, aside)
        self._kept = time.monotonic()

    def _take(self, aside: Path) -> None:
        older = self._states()
        with clear_write_errors(self.folder):
            about = {
                "format": _FORMAT,
                "training": self.training,
                "split": self.split,
                "files": {name: _digest(aside / name) for name in _names(aside)},
            }
            write_atomic(aside / _ABOUT, json.dumps(about, indent=1) + "\n")
            for each in (*aside.rglob("*"), aside):
                sync_to_disk(each)
            aside.replace(self.folder / f"state-{int(older[-1].name[6:]) + 1 if older else 1:06d}")
            sync_to_disk(self.folder)
        for each in older:
            shutil.rmtree(each, ignore_errors=True)  # the next save tries again

    def last(self) -> Path | None:
        """Return the folder of the last state, None without one.

        Raises:
            RunError: a file is not what was written, or the state is of another training.
        """
        return distributed.on_rank_zero(self._last)

    def _last(self) -> Path | None:
        if not (states := self._states()):
            return None
        state = states[-1]
        way_out = f"delete {self.folder} to restart this training"
        try:
            about: Mapping[str, Any] = json.loads((state / _ABOUT).read_text(encoding="utf-8"))
            damaged = [name for name, digest in about["files"].items() if _digest(state / name) != digest]
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise RunError(f"{state} is damaged ({error}); {way_out}") from error
        if damaged:
            raise RunError(f"{state} is damaged ({', '.join(damaged)}: not what was written); {way_out}")
        if about.get("format") != _FORMAT:
            raise RunError(f"{state} was saved by another version of agentgym-py, which trains differently; {way_out}")
        if about.get("training") != self.training:
            raise RunError(f"{state} is the state of another training (other data, settings or weights); {way_out}")
        if (split := about.get("split", "")) != self.split:
            ways = [f"split by {way}" if way else "in whole" for way in (split, self.split)]
            raise RunError(f"{state} was kept {ways[0]}, and is not read {ways[1]}: go on as it began, or {way_out}")
        return state

    def _states(self) -> list[Path]:
        return sorted(self.folder.glob("state-*"))

    def clear(self) -> None:
        """Remove the states of a finished training."""
        clear(self.folder)


@contextmanager
def until_saved() -> Iterator[None]:
    """Keep the states of a training that ends within until the block ends, because what replaces them is written first.

    If the block raises they stay, and the training resumes from them.
    """
    over: list[Path] = []
    before = _over.set(over)
    try:
        yield
    finally:
        _over.reset(before)
    for folder in over:
        clear(folder)


def clear(folder: Path) -> None:
    """Remove the states of a finished training, and their folder if it is then empty."""
    if (over := _over.get()) is None:
        distributed.on_rank_zero(_removed, folder)
    else:
        over.append(folder)


def _removed(folder: Path) -> None:
    remove(folder)
    with suppress(OSError):  # the folder holds something else, or never existed
        folder.parent.rmdir()


def _split() -> str:
    """The sharding of the states; DeepSpeed's are read only by as many processes."""
    name = distributed.sharding_backend() or ""
    return f"{name} over {distributed.world_size()} processes" if name == "DeepSpeed" else name


def _made(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _names(folder: Path) -> list[str]:
    return sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
