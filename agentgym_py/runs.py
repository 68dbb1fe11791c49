"""Run folders: everything that a run is, in plain files, written so that a kill at any moment leaves the last round."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agentgym_py.errors import RunError
from agentgym_py.stats import Estimate

_LOCK = ".lock"
_PROVENANCE = "provenance.json"


def write_atomic(path: Path, data: str) -> None:
    """Write a file aside and rename it: a reader sees the old one or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        _to_disk(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def _to_disk(path: Path) -> None:
    """What was written to a file, or the names in a folder, outlive a power cut."""
    if sys.platform == "win32":  # which syncs only what is open for writing, and no folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def finite(value: Any) -> Any:
    """`value` with null for nan and infinities, which JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list | tuple) else value


def read_estimate(value: Mapping[str, Any]) -> Estimate:
    """An estimate as it stands in a run's JSON, where null is nan."""
    value_, low, high = (math.nan if value[name] is None else value[name] for name in ("value", "low", "high"))
    return Estimate(value_, low, high, value["n"])


def new_folder(path: str | Path) -> Path:
    """`path` as a folder that is new, empty, or left by a start of a run that was cut off; RunError where it is not."""
    target = Path(path)
    names = [each.name for each in target.iterdir()] if target.is_dir() else []
    if target.exists() and (not target.is_dir() or (names and not _only_begun(names))):
        hint = f"a run; go on with it by --resume {path}" if (target / "run.yaml").is_file() else "other files"
        raise RunError(f"{path} already holds {hint}")
    return target


def _only_begun(names: Sequence[str]) -> bool:
    """Whether a folder with these names in it is what `RunFolder.started` leaves when it is killed."""
    return _LOCK in names and all(name == _PROVENANCE or name.startswith(".") for name in names)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`run.yaml`, `provenance.json`, `rounds/NN/`, `test.json`, `report.html`; and `.lock`, an empty file.

    A round's folder holds `trajectories.jsonl`, `checkpoint/`, `valid.jsonl`, `test.jsonl` and `metrics.json`.

    A round is over when its `metrics.json` stands there; it is written last.
    """

    path: Path

    @classmethod
    @contextmanager
    def started(cls, path: Path, config: Mapping[str, Any], provenance: Mapping[str, Any]) -> Iterator[RunFolder]:
        """Start a run, which is locked from its first moment on.

        `run.yaml` makes it a run and is written last: what a kill before that leaves can be started again.

        Raises:
            RunError: the folder already holds something, or another process starts a run there.
        """
        new_folder(path).mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        with folder.locked():
            new_folder(path)  # again: who had the lock before may have started a run
            folder.write_json(_PROVENANCE, provenance)
            write_atomic(path / "run.yaml", yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True))
            yield folder

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any]) -> RunFolder:
        """A run that was started, and that nobody works on; see `started`."""
        with cls.started(path, config, {}) as folder:
            return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run; RunError where there is none."""
        if not path.is_dir():
            raise RunError(f"{path}: no such folder")
        if not (path / "run.yaml").is_file():
            raise RunError(f"{path} holds no run (no run.yaml there)")
        return cls(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of the run meanwhile; RunError where one is at work (no lock on Windows).

        The system lets go of the lock when the process ends, however it ends. The file that is locked is never
        replaced: two processes would each hold a lock of their own.
        """
        with (self.path / _LOCK).open("ab") as file:
            if sys.platform != "win32":
                import fcntl

                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    raise RunError(f"{self.path} is in use: another process is at work on this run") from error
            yield

    def config(self) -> dict[str, Any]:
        """The settings that the run was started with."""
        try:
            config = yaml.safe_load((self.path / "run.yaml").read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise RunError(f"{self.path / 'run.yaml'} is broken: {error}") from error
        if not isinstance(config, dict):
            raise RunError(f"{self.path / 'run.yaml'} is no mapping")
        return config

    def round(self, number: int) -> Path:
        """Folder of a round."""
        return self.path / "rounds" / f"{number:02d}"

    def done(self, number: int) -> bool:
        """Whether a round is over."""
        return (self.round(number) / "metrics.json").is_file()

    @property
    def finished(self) -> bool:
        """Whether the test is over too, so that nothing is left to run."""
        return (self.path / "test.json").is_file()

    def fresh(self, number: int) -> Path:
        """An empty folder for a round that is about to run; what an interrupted one left is deleted."""
        folder = self.round(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def finish(self, number: int, metrics: Mapping[str, Any]) -> None:
        """Mark a round as over, once all of it is on the disk."""
        folder = self.round(number)
        for each in (*folder.rglob("*"), folder, folder.parent, self.path):
            _to_disk(each)
        self.write_json(f"rounds/{number:02d}/metrics.json", metrics)

    def metrics(self, number: int) -> dict[str, Any]:
        """What `finish` wrote."""
        return self.read_json(f"rounds/{number:02d}/metrics.json")

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file of the run, whole or not at all; what is no number is null."""
        write_atomic(self.path / name, json.dumps(finite(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON file of the run; RunError where it is broken."""
        try:
            value = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path / name} cannot be read: {error}") from error
        if not isinstance(value, dict):
            raise RunError(f"{self.path / name} is no JSON object")
        return value
