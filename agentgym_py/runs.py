"""Run folders: everything that a run is, in plain files, written so that a kill at any moment leaves the last round."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agentgym_py.errors import RunError
from agentgym_py.stats import Estimate


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
    """`path` as a folder that is new or empty; RunError where it holds something."""
    target = Path(path)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        hint = f"a run; go on with it by --resume {path}" if (target / "run.yaml").is_file() else "other files"
        raise RunError(f"{path} already holds {hint}")
    return target


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`run.yaml`, `provenance.json`, `rounds/NN/`, `test.json`, `report.html`.

    A round's folder holds `trajectories.jsonl`, `checkpoint/`, `valid.jsonl`, `test.jsonl` and `metrics.json`.

    A round is over when its `metrics.json` stands there; it is written last.
    """

    path: Path

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any]) -> RunFolder:
        """Start a run; RunError where the folder already holds something."""
        new_folder(path)
        write_atomic(path / "run.yaml", yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True))
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run; RunError where there is none."""
        if not (path / "run.yaml").is_file():
            raise RunError(f"{path} holds no run (no run.yaml there)")
        return cls(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of the run meanwhile; RunError where one is at work (no lock on Windows).

        The system lets go of the lock when the process ends, however it ends.
        """
        if sys.platform == "win32":
            yield
            return
        import fcntl

        with (self.path / "run.yaml").open("rb") as file:
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
