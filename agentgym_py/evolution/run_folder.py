"""Run folders hold a whole run in plain files; a kill at any moment leaves the finished rounds intact."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from shlex import quote
from typing import Any

import yaml

from agentgym_py import trust
from agentgym_py.errors import RunError, setting
from agentgym_py.evaluation.stats import Estimate
from agentgym_py.evolution.sequence import Schedule
from agentgym_py.evolution.stopwatch import ELAPSED
from agentgym_py.files import (
    PROVENANCE,
    JsonFolder,
    clear_read_errors,
    new_folder,
    parse_yaml,
    read_text,
    remove_partial_files,
    require_inside,
    sync_to_disk,
    write_atomic,
)
from agentgym_py.training.settings import current_settings

_REBUILT = {"metrics.json", "test.json"}
"""Files that a resumed run rebuilds from its other files if they are missing."""


def read_estimate(value: Mapping[str, Any]) -> Estimate:
    """Read an estimate from a run's JSON, in which null is nan."""
    mean, low, high = (math.nan if value[name] is None else value[name] for name in ("value", "low", "high"))
    return Estimate(mean, low, high, value["n"])


@lru_cache(maxsize=4)
def _parse(text: str) -> Any:
    """Parse YAML once: a command reads its run.yaml up to ten times, and Python parses 20 lines in a millisecond."""
    return parse_yaml(text)


@dataclass(frozen=True, slots=True)
class RunFolder(JsonFolder):
    """`run.yaml`, `provenance.json`, `rounds/NN/`, `test.json`, `report.html`; and `.lock`, an empty file.

    A round's folder holds `trajectories.jsonl`, `checkpoint/`, `training.json`, `valid.jsonl`, `test.jsonl`,
    `metrics.json`, and `training/` if the trainer left other files or was killed. `metrics.json` is written last and
    ends a round, as `training.json` ends a training.
    """

    @classmethod
    @contextmanager
    def start(cls, path: Path, config: Mapping[str, Any], provenance: Mapping[str, Any]) -> Iterator[RunFolder]:
        """Start a run and lock it.

        `run.yaml` makes a folder a run and is written last, so a run killed before that can be started again.

        Raises:
            RunError: the folder is not empty, or another process starts a run there.
        """
        folder = cls(cls.require_new(path))
        with folder.locked():
            cls.require_new(path)  # again: another process may have started a run meanwhile
            folder.write_json(PROVENANCE, provenance)
            folder.write_config(config)
            yield folder

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any]) -> RunFolder:
        """Start a run and unlock it; see `start`."""
        with cls.start(path, config, {}) as folder:
            return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run; raises RunError if there is none."""
        if path.is_file():
            raise RunError(f"{path} is a file; a run is the folder that holds its run.yaml")
        if not path.is_dir():
            raise RunError(f"{path}: no such folder")
        if not (path / "run.yaml").is_file():
            is_evaluation = (path / "manifest.json").is_file()
            advice = f"; it holds an evaluation: agentgym view {path}" if is_evaluation else ""
            raise RunError(f"{path} holds no run (no run.yaml there){advice}")
        require_inside(path)
        return cls(path)

    def config(self) -> dict[str, Any]:
        """Return the run's settings by their current names."""
        return current_settings(self.stored_config())

    def stored_config(self) -> dict[str, Any]:
        """Return the settings as run.yaml has them."""
        try:
            config = deepcopy(_parse(read_text(self.path / "run.yaml")))
        except ValueError as error:
            raise RunError(f"{self.path / 'run.yaml'} is broken: {error}") from error
        if not isinstance(config, dict):
            raise RunError(f"{self.path / 'run.yaml'} is not a mapping")
        return config

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the settings, which makes the folder a run."""
        write_atomic(self.path / "run.yaml", yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True))

    def require_extensible(self, rounds: int) -> None:
        """Refuse a number of rounds that the run can no longer have.

        Raises:
            RunError: more rounds have begun, or the run stopped early, which it would also do with more rounds.
        """
        with clear_read_errors(self.path):
            self._require_extensible(self.config(), rounds)

    def _require_extensible(self, config: Mapping[str, Any], rounds: int) -> None:
        if config.get("sequence") and rounds != config["rounds"]:
            last_agent = self.round(self.planned_rounds()) / "checkpoint"
            raise RunError(
                f"{self.path} is a sequence of worlds, which keeps its number of rounds; start a new run, with "
                f"{setting('model', last_agent)} to continue its last agent"
            )
        planned = self.planned_rounds()
        last = max((n for n in self._rounds("*") if n <= planned and self.has_begun(n)), default=0)
        if rounds < last:
            over = "is over" if self.done(last) else "has begun"
            needs = f"{setting('rounds')} must be {last} or more"
            raise RunError(f"{self.path} cannot have {rounds} rounds: its round {last} {over}; {needs}")
        if self.finished and rounds > last < config["rounds"]:
            raise RunError(
                f"{self.path} stopped after round {last} because no later round was better (patience "
                f"{config['patience']}): with more rounds it would have stopped there, too; start a new run"
            )

    def planned_rounds(self) -> int:
        """Return the number of the last round, if the run does not stop early."""
        config = self.config()
        stages = len(config["env"]) if config.get("sequence") else 1
        return Schedule(stages, int(config.get("rounds", 0))).rounds - 1

    def last_round_of(self, stage: int) -> int:
        """Return the last round of a stage of a sequence, from 0."""
        return Schedule(stage + 1, int(self.config()["rounds"])).rounds - 1

    def has_begun(self, number: int) -> bool:
        """Tell whether a round has stored anything but its time."""
        return self.round(number).is_dir() and any(path.name != ELAPSED for path in self.round(number).iterdir())

    def set_rounds(self, rounds: int) -> None:
        """Change the number of rounds; the final test is repeated after the last of them."""
        (self.path / "test.json").unlink(missing_ok=True)  # first: a kill in between leaves a resumable run
        self.write_config(self.config() | {"rounds": rounds})

    def round(self, number: int) -> Path:
        """Return the folder of a round."""
        return self.path / "rounds" / f"{number:02d}"

    def done(self, number: int) -> bool:
        """Tell whether a round is over."""
        return (self.round(number) / "metrics.json").is_file()

    def finished_rounds(self) -> list[int]:
        """Return the numbers of the rounds that are over."""
        return self._rounds("*/metrics.json")

    def _rounds(self, pattern: str) -> list[int]:
        """Return the numbers of the rounds in which a pattern finds something; `run.yaml` may plan any number."""
        names = {path.relative_to(self.path).parts[1] for path in (self.path / "rounds").glob(pattern)}
        return sorted(int(name) for name in names if name.isdecimal() and self.round(int(name)).name == name)

    @property
    def finished(self) -> bool:
        """Whether the run is over, including its test."""
        return (self.path / "test.json").is_file()

    def resume_command(self) -> str:
        """Return the command that resumes the run, which trusts the run's own sources and servers."""
        stored = self.read_json(PROVENANCE) if (self.path / PROVENANCE).is_file() else {}
        places = trust.places(self.config(), stored.get("sources", {}))
        return f"agentgym evolve --resume {quote(str(self.path))}{trust.options(places)}"

    @staticmethod
    def require_new(path: str | Path) -> Path:
        """Return the path as `new_folder` does; RunError says how to resume a run that it holds."""
        if (Path(path) / "run.yaml").is_file():
            command = RunFolder(Path(path)).resume_command()
            raise RunError(f"{path} already holds a run; to resume it: {command}")
        return new_folder(path)

    def begin_round(self, number: int) -> Path:
        """Prepare the folder of a round to start or resume it; partial files of a killed run are deleted."""
        folder = self.round(number)
        folder.mkdir(parents=True, exist_ok=True)
        remove_partial_files(folder)
        return folder

    def is_trained(self, number: int) -> bool:
        """Tell whether a round's training is over."""
        return (self.round(number) / "training.json").is_file()

    def finish_training(self, number: int, training: Mapping[str, Any]) -> None:
        """Mark a round's training as over, after its checkpoint is on the disk."""
        folder = self.round(number)
        for path in (*(folder / "checkpoint").rglob("*"), folder / "checkpoint", folder):
            sync_to_disk(path)
        self.write_json(f"rounds/{number:02d}/training.json", training)

    def training(self, number: int) -> dict[str, Any]:
        """Read what `finish_training` wrote."""
        return self.read_json(f"rounds/{number:02d}/training.json")

    def finish_round(self, number: int, metrics: Mapping[str, Any]) -> None:
        """Mark a round as over, after all its files are on the disk."""
        folder = self.round(number)
        shutil.rmtree(folder / "parts", ignore_errors=True)
        for path in (*folder.rglob("*"), folder, folder.parent, self.path):
            sync_to_disk(path)
        self.write_json(f"rounds/{number:02d}/metrics.json", metrics)

    def metrics(self, number: int) -> dict[str, Any]:
        """Read what `finish_round` wrote."""
        return self.read_json(f"rounds/{number:02d}/metrics.json")

    def best_round(self, last: int) -> int:
        """Return the round up to `last` with the best valid success rate, the earliest of equals."""
        with clear_read_errors(self.path):
            rates = [self.metrics(r)["valid"]["success"]["value"] for r in range(last + 1)]
            rates = [-1.0 if rate is None else rate for rate in rates]  # None: every episode failed by infrastructure
            return rates.index(max(rates))

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON file of the run; raises RunError if it is broken."""
        try:
            return JsonFolder.read_json(self, name)
        except RunError as error:
            if Path(name).name in _REBUILT:
                raise RunError(f"{error}; delete it, and resume the run, which makes it again") from error
            raise
