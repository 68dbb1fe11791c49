"""Run folders: everything that a run is, in plain files, written so that a kill at any moment leaves the last round."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agentgym_py.errors import RunError
from agentgym_py.evaluation.stats import Estimate
from agentgym_py.files import (
    PROVENANCE,
    JsonFolder,
    new_folder,
    remove_partial_files,
    sync_to_disk,
    with_current_names,
    write_atomic,
)
from agentgym_py.training.settings import with_current_trainer_names

_MADE_AGAIN = {"metrics.json", "test.json"}
"""What a resumed run makes again, where it is missing, of what else it has."""


def read_estimate(value: Mapping[str, Any]) -> Estimate:
    """An estimate as it stands in a run's JSON, where null is nan."""
    value_, low, high = (math.nan if value[name] is None else value[name] for name in ("value", "low", "high"))
    return Estimate(value_, low, high, value["n"])


@dataclass(frozen=True, slots=True)
class RunFolder(JsonFolder):
    """`run.yaml`, `provenance.json`, `rounds/NN/`, `test.json`, `report.html`; and `.lock`, an empty file.

    A round's folder holds `trajectories.jsonl`, `checkpoint/`, `training.json`, `valid.jsonl`, `test.jsonl`,
    `metrics.json`, and `training/` where the trainer left something else or was killed. A round is over when its
    `metrics.json` stands there; it is written last, as `training.json` is of a training.
    """

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
            folder.write_json(PROVENANCE, provenance)
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
        if path.is_file():
            raise RunError(f"{path} is a file; a run is the folder that holds its run.yaml")
        if not path.is_dir():
            raise RunError(f"{path}: no such folder")
        if not (path / "run.yaml").is_file():
            raise RunError(f"{path} holds no run (no run.yaml there)")
        return cls(path)

    def config(self) -> dict[str, Any]:
        """Return the settings that the run was started with, by their current names."""
        config = with_current_names(self.written_config())
        trainer = config.get("trainer")
        return config | ({"trainer": with_current_trainer_names(trainer)} if isinstance(trainer, Mapping) else {})

    def written_config(self) -> dict[str, Any]:
        """Return the settings as they stand in run.yaml."""
        try:
            config = yaml.safe_load((self.path / "run.yaml").read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise RunError(f"{self.path / 'run.yaml'} is broken: {error}") from error
        if not isinstance(config, dict):
            raise RunError(f"{self.path / 'run.yaml'} is no mapping")
        return config

    def require_extensible(self, rounds: int) -> None:
        """Refuse a number of rounds that the run cannot have any more.

        Raises:
            RunError: more rounds have begun than that, or the run stopped early, as it would with more rounds.
        """
        config = self.config()
        begun = [n for n in range(config["rounds"] + 1) if self.round(n).is_dir() and any(self.round(n).iterdir())]
        last = max(begun, default=0)
        if rounds < last:
            over = "is over" if self.done(last) else "has begun"
            raise RunError(f"{self.path} cannot have {rounds} rounds: its round {last} {over}; --rounds {last} or more")
        if self.finished and rounds > last < config["rounds"]:
            raise RunError(
                f"{self.path} stopped after round {last} because no later round was better (patience "
                f"{config['patience']}): with more rounds it would have stopped there, too; start a new run"
            )

    def set_rounds(self, rounds: int) -> None:
        """Give the run another number of rounds; a test that is over is made again after the last of them."""
        config = self.config() | {"rounds": rounds}
        (self.path / "test.json").unlink(missing_ok=True)  # first: a kill in between leaves the run as it was
        write_atomic(self.path / "run.yaml", yaml.safe_dump(config, sort_keys=False, allow_unicode=True))

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

    def begun(self, number: int) -> Path:
        """The folder of a round that is about to run, or to go on; what a kill left half written is deleted."""
        folder = self.round(number)
        folder.mkdir(parents=True, exist_ok=True)
        remove_partial_files(folder)
        return folder

    def trained(self, number: int) -> bool:
        """Whether a round's training is over."""
        return (self.round(number) / "training.json").is_file()

    def finish_training(self, number: int, training: Mapping[str, Any]) -> None:
        """Mark a round's training as over, once its checkpoint is on the disk."""
        folder = self.round(number)
        for each in (*(folder / "checkpoint").rglob("*"), folder / "checkpoint", folder):
            sync_to_disk(each)
        self.write_json(f"rounds/{number:02d}/training.json", training)

    def training(self, number: int) -> dict[str, Any]:
        """What `finish_training` wrote."""
        return self.read_json(f"rounds/{number:02d}/training.json")

    def finish(self, number: int, metrics: Mapping[str, Any]) -> None:
        """Mark a round as over, once all of it is on the disk."""
        folder = self.round(number)
        shutil.rmtree(folder / "parts", ignore_errors=True)
        for each in (*folder.rglob("*"), folder, folder.parent, self.path):
            sync_to_disk(each)
        self.write_json(f"rounds/{number:02d}/metrics.json", metrics)

    def metrics(self, number: int) -> dict[str, Any]:
        """What `finish` wrote."""
        return self.read_json(f"rounds/{number:02d}/metrics.json")

    def best(self, last: int) -> int:
        """Of the rounds up to `last` the one with the best valid success rate; of equals the earliest."""
        rates = [self.metrics(r)["valid"]["success"]["value"] for r in range(last + 1)]
        known = [-1.0 if rate is None else rate for rate in rates]  # None: every episode failed by infrastructure
        return known.index(max(known))

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON file of the run; RunError if it is broken."""
        try:
            return JsonFolder.read_json(self, name)
        except RunError as error:
            if Path(name).name in _MADE_AGAIN:
                raise RunError(f"{error}; delete it, and --resume makes it again") from error
            raise
