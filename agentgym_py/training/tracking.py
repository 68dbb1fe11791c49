"""Track a training in tensorboard, trackio or wandb while it runs, through accelerate's trackers.

A trainer calls `log`; a `Tracker` that is entered receives it. Its steps are the rows that the whole run has logged so
far, so they only grow; docs/tracking.md has the names. Nothing is sent anywhere unless the user's environment says so.
"""

from __future__ import annotations

import atexit
import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from agentgym_py import distributed
from agentgym_py.errors import ConfigError, RunError
from agentgym_py.files import JsonFolder
from agentgym_py.registry import install_advice
from agentgym_py.training.checkpoints import digest_of
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.training.progress import Reporter

Service = Literal["tensorboard", "trackio", "wandb"]
FOLDER = "tracking"
"""Folder within the run's: how far it has logged, and the files of tensorboard and wandb."""

_listener: ContextVar[Callable[[Mapping[str, float], int | None], None] | None] = ContextVar("listener", default=None)


def wanted() -> bool:
    """Whether a tracker listens, so that every step is worth logging."""
    return _listener.get() is not None


def log(row: Mapping[str, float], step: int | None = None) -> None:
    """Log a row of a training's `step`, counted from 1.

    A step that was logged before, such as one that a resumed training repeats, is skipped; a row without a step is
    always logged.
    """
    if listener := _listener.get():
        listener(row, step)


def need(service: Service | None) -> None:
    """Raise ConfigError if the package of a service is not installed."""
    if service and getattr(find_spec(service), "origin", None) is None:  # a plain folder of that name has no loader
        raise ConfigError(
            f"--track {service} needs the package {service}: pip install {service}, or with all three services: "
            f"{install_advice('tracking')}"
        )


_LONGEST_WRITE = 600.0
"""Seconds that trackio's thread may take to write what was logged."""


@dataclass(slots=True)
class _Told:
    """How far a run has logged; kept in its folder after each row."""

    config: str
    """Digest of the run's settings."""
    id: str
    step: int = 0
    """Rows so far."""
    training: int = -1
    """The round whose training logged last."""
    at: int = 0
    """Its last step."""
    round: int = -1
    """The last round that was summarized."""
    test: bool = False


def accept_settings(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Have the tracking of a run go on although its settings have changed from `before` to `now`."""
    held = JsonFolder(folder)
    if not (folder / FOLDER / "state.json").is_file():
        return
    told = _Told(**held.read_json(f"{FOLDER}/state.json"))
    if told.config == digest_of(sorted(before.items())):
        told.config, told.test = digest_of(sorted(now.items())), False
        held.write_json(f"{FOLDER}/state.json", asdict(told))


class Tracker:
    """Log one run; a resumed run appends.

    Under several processes each has a tracker, and only that of rank 0 writes.
    """

    def __init__(self, service: Service, folder: Path, config: Mapping[str, Any]) -> None:
        """Track the run of these settings in this folder.

        Raises:
            ConfigError: the service's package is not installed.
            RunError: the folder has the tracking of another run.
        """
        need(service)
        self._run, self._training = JsonFolder(folder), 0
        self._told = distributed.on_rank_zero(self._read, digest_of(sorted(config.items())))
        self._to = _started(service, folder, self._told, config) if distributed.is_rank_zero() else None

    def _read(self, made_of: str) -> _Told:
        if not (self._run.path / FOLDER / "state.json").is_file():
            return _Told(made_of, secrets.token_hex(4))
        held = _Told(**self._run.read_json(f"{FOLDER}/state.json"))
        if held.config != made_of:
            raise RunError(f"{self._run.path / FOLDER} is of a run with other settings")
        return held

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Receive what trainers log; the service is closed afterwards."""
        before = _listener.set(self._hear)
        try:
            yield
        finally:
            _listener.reset(before)
            if self._to:
                with redirect_stdout(sys.stderr):
                    self._to.finish()
                    _wait_until_written(self._to)

    def reporter(self, shown: Reporter) -> Reporter:
        """Wrap a reporter so that rounds are tracked."""
        return _Rounds(self, shown)

    def begin(self, number: int) -> None:
        """Assign what is logged from now on to this round."""
        self._training = number

    def round(self, number: int, metrics: Mapping[str, Any]) -> None:
        """Log the metrics of a finished round."""
        if number <= self._told.round:
            return
        training = metrics["training"] or {}
        kept, dropped = metrics["selection"]["kept"], sum(metrics["selection"]["dropped"].values())
        values = {"round": number, "select/kept": kept, "select/dropped": dropped}
        values |= {"select/trained": training.get("trajectories", 0)}
        for name, phase in (("explore", "explored"), ("valid", "valid")):
            values |= _summary(name, metrics[phase])
        self._told.round = number
        self._write(values)

    def test(self, result: Mapping[str, Any]) -> None:
        """Log the test result of a finished run."""
        if self._told.test:
            return
        values: dict[str, float] = {}
        for name, number in (("first", 0), ("best", result["best"]), ("last", result["last"])):
            if found := result["rounds"].get(str(number)):
                values |= _summary(f"test/{name}", found)
        self._told.test = True
        self._write(values)

    def _hear(self, row: Mapping[str, float], step: int | None) -> None:
        told = self._told
        if step is not None:
            if (self._training, step) <= (told.training, told.at):
                return
            told.training, told.at = self._training, step
        told.step += 1
        self._write({"round": self._training, **{f"train/{name}": value for name, value in row.items()}})

    def _write(self, values: Mapping[str, float]) -> None:
        if self._to:
            self._to.log(dict(values), step=self._told.step)
            self._run.write_json(f"{FOLDER}/state.json", asdict(self._told))


@dataclass(frozen=True, slots=True)
class _Rounds:
    """A reporter that also tells a tracker."""

    tracker: Tracker
    shown: Reporter

    def phase(self, round_number: int, what: str, total: int) -> Callable[[Trajectory], None]:
        self.tracker.begin(round_number)
        return self.shown.phase(round_number, what, total)

    def training(self, round_number: int, trajectories: int) -> Callable[[int, int], None]:
        self.tracker.begin(round_number)
        return self.shown.training(round_number, trajectories)

    def round(self, number: int, metrics: dict[str, Any]) -> None:
        self.tracker.round(number, metrics)
        self.shown.round(number, metrics)


def _summary(name: str, found: Mapping[str, Any]) -> dict[str, float]:
    """A summary of episodes as numbers by name; other values are left out."""
    values = {each: found.get(each) for each in ("steps", "invalid", "tokens")}
    for each in ("success", "reward"):
        of = found[each]
        values |= {each: of["value"], f"{each}_low": of["low"], f"{each}_high": of["high"]}
    return {f"{name}/{each}": value for each, value in values.items() if value is not None and isfinite(value)}


def _wait_until_written(to: Any) -> None:
    """Wait for trackio's thread, which writes the rows.

    Trackio's own `finish` gives it 30 seconds. On a busy machine that is too few: the program ends, and rows are lost.
    """
    writer = getattr(getattr(to, "run", None), "_local_sender_thread", None)
    if isinstance(writer, threading.Thread):
        writer.join(_LONGEST_WRITE)


def _started(service: Service, folder: Path, told: _Told, config: Mapping[str, Any]) -> Any:
    """Accelerate's tracker of a run, ready to log."""
    import torch
    from accelerate import PartialState, tracking

    PartialState(cpu=config.get("device") == "cpu" or not torch.cuda.is_available())  # the trackers read it
    name = f"{folder.absolute().name}-{told.id}"
    if service == "tensorboard":
        to: Any = tracking.TensorBoardTracker(FOLDER, folder)
        to.start()
        if not told.step:
            to.log({"config": "    " + yaml.safe_dump(dict(config), sort_keys=False).replace("\n", "\n    ")}, step=0)
        return to
    if service == "trackio":
        to = tracking.TrackioTracker("agentgym", name=name, resume="allow", config=dict(config))
    else:
        for key, value in (("MODE", "offline"), ("SILENT", "true"), ("CONSOLE", "off")):
            os.environ.setdefault(f"WANDB_{key}", value)
        place = folder / FOLDER
        place.mkdir(exist_ok=True)
        to = tracking.WandBTracker(
            "agentgym", name=name, id=told.id, resume="allow", dir=str(place), config=dict(config)
        )
    with redirect_stdout(sys.stderr):  # trackio prints a greeting there; stdout may be read by a program
        to.start()
    if service == "trackio":  # it repeats at exit that the run is over
        atexit.register(setattr, sys, "stdout", sys.stderr)
    return to
