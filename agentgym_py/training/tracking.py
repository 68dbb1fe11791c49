"""Track a training in tensorboard, trackio or wandb while it runs, through accelerate's trackers.

A trainer calls `log`, and an entered `Tracker` receives it. The tracker's step is the number of rows that the run has
logged so far; docs/guides/tracking.md lists the names. Nothing is sent anywhere unless the user's environment says so.
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
from agentgym_py.errors import ConfigError, RunError, setting
from agentgym_py.files import JsonFolder, clear_read_errors
from agentgym_py.registry import install_advice
from agentgym_py.training.checkpoints import fingerprint
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.few_shot import few_shot_messages

if TYPE_CHECKING:
    from agentgym_py.training.progress import Reporter

Service = Literal["tensorboard", "trackio", "wandb"]
FOLDER = "tracking"
"""Folder in the run's folder, for the log state and the files of tensorboard and wandb."""
_STATE = f"{FOLDER}/state.json"
_OF_EPISODES = ("steps", "invalid", "tokens", "cut", "turns_dropped", "summary_tokens")
"""Numbers of a summary of episodes that are logged beside its estimates."""
_WRITE_SECONDS = 600.0
"""Time that trackio's thread has to write the last rows."""

_TRACES = 8
"""Episodes of a phase that trackio shows as traces."""

_listener: ContextVar[Callable[[Mapping[str, float], int | None], None] | None] = ContextVar("listener", default=None)
_prefix: ContextVar[str] = ContextVar("prefix", default="train")


def is_tracking() -> bool:
    """Whether a tracker listens, so that every step should be logged."""
    return _listener.get() is not None


def log(row: Mapping[str, float], step: int | None = None) -> None:
    """Log a row of a training's `step`, counted from 1.

    A step that was logged before, as by a training that is resumed, is skipped; a row without a step is always logged.
    """
    if listener := _listener.get():
        listener(row, step)


@contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    """Log the rows of a training within as `prefix/NAME`, in place of `train/NAME`: its loss is another one."""
    before = _prefix.set(prefix)
    try:
        yield
    finally:
        _prefix.reset(before)


def require_service(service: Service | None) -> None:
    """Raise ConfigError if the package of a service is not installed."""
    if service and getattr(find_spec(service), "origin", None) is None:  # a plain folder of that name has no loader
        raise ConfigError(
            f"{setting('track', service)} needs the package {service}: pip install {service}, or for all services: "
            f"{install_advice('tracking')}"
        )


@dataclass(slots=True)
class _LogState:
    """How far a run has logged; written to its folder after each row."""

    config: str
    """Fingerprint of the run's settings."""
    id: str
    step: int = 0
    """Rows so far."""
    training: int = -1
    """The round whose training logged last."""
    at: int = 0
    """The last step of that training."""
    round: int = -1
    """The last round whose metrics were logged."""
    test: bool = False


def _read_state(run: JsonFolder) -> _LogState:
    with clear_read_errors(run.path / _STATE):
        return _LogState(**run.read_json(_STATE))


def accept_settings(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Let the tracking of a run continue although its settings have changed from `before` to `now`."""
    run = JsonFolder(folder)
    if not (folder / _STATE).is_file():
        return
    state = _read_state(run)
    if state.config == fingerprint(sorted(before.items())):
        state.config, state.test = fingerprint(sorted(now.items())), False
        run.write_json(_STATE, asdict(state))


class Tracker:
    """Log one run; a resumed run appends.

    Of several processes, each has a tracker, and that of rank 0 writes.
    """

    def __init__(self, service: Service, folder: Path, config: Mapping[str, Any]) -> None:
        """Track the run of these settings in this folder.

        Raises:
            ConfigError: the service's package is not installed.
            RunError: the folder has the tracking of another run.
        """
        require_service(service)
        self._run, self._training = JsonFolder(folder), 0
        self._episodes: dict[str, list[Trajectory]] | None = {} if service == "trackio" else None
        """The first episodes of each phase since the last round, for a service that shows episodes."""
        self._state = distributed.on_rank_zero(self._read_state, fingerprint(sorted(config.items())))
        self._tracker = _start(service, folder, self._state, config) if distributed.is_rank_zero() else None

    def _read_state(self, config: str) -> _LogState:
        if not (self._run.path / _STATE).is_file():
            return _LogState(config, secrets.token_hex(4))
        state = _read_state(self._run)
        if state.config != config:
            raise RunError(f"{self._run.path / FOLDER} belongs to a run with other settings")
        return state

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Receive what trainers log; the service is closed afterwards."""
        before = _listener.set(self._log_training)
        try:
            yield
        finally:
            _listener.reset(before)
            if self._tracker:
                with redirect_stdout(sys.stderr):
                    self._tracker.finish()
                    _wait_until_written(self._tracker)

    def reporter(self, reporter: Reporter) -> Reporter:
        """Wrap a reporter so that rounds are tracked."""
        return _TrackingReporter(self, reporter)

    def begin(self, number: int) -> None:
        """Assign what is logged from now on to this round."""
        self._training = number

    def watching(self, phase: str, report: Callable[[Trajectory], None]) -> Callable[[Trajectory], None]:
        """Return a reporter of a phase's episodes that keeps the first ones for the service."""
        if self._episodes is None:
            return report
        kept = self._episodes[phase] = []

        def report_and_keep(trajectory: Trajectory) -> None:
            if len(kept) < _TRACES:
                kept.append(trajectory)
            report(trajectory)

        return report_and_keep

    def _traces(self) -> dict[str, Any]:
        """Return the kept episodes as traces, by phase, and forget them."""
        episodes, self._episodes = self._episodes, None if self._episodes is None else {}
        if not self._tracker:
            return {}
        return {f"{phase}/episodes": list(map(_trace, kept)) for phase, kept in (episodes or {}).items() if kept}

    def round(self, number: int, metrics: Mapping[str, Any]) -> None:
        """Log the metrics of a finished round, and its first episodes if the service shows episodes."""
        traces = self._traces()
        if number <= self._state.round:
            return
        selection, training = metrics["selection"], metrics["training"] or {}
        values: dict[str, Any] = {
            "round": number, "select/kept": selection["kept"], "select/dropped": sum(selection["dropped"].values()),
            "select/trained": training.get("trajectories", 0),
        }  # fmt: skip
        for name, phase in (("explore", "explored"), ("valid", "valid")):
            values |= _summary(name, metrics[phase])
        self._state.round = number
        self._write(values | traces)

    def test(self, result: Mapping[str, Any]) -> None:
        """Log the test result of a finished run."""
        if self._state.test:
            return
        values: dict[str, float] = {}
        for name, number in (("first", 0), ("best", result["best"]), ("last", result["last"])):
            if summary := result["rounds"].get(str(number)):
                values |= _summary(f"test/{name}", summary)
        self._state.test = True
        self._write(values)

    def _log_training(self, row: Mapping[str, float], step: int | None) -> None:
        state = self._state
        if step is not None:
            if (self._training, step) <= (state.training, state.at):
                return
            state.training, state.at = self._training, step
        state.step += 1
        self._write({"round": self._training, **{f"{_prefix.get()}/{name}": value for name, value in row.items()}})

    def _write(self, values: Mapping[str, Any]) -> None:
        if self._tracker:
            self._tracker.log(dict(values), step=self._state.step)
            self._run.write_json(_STATE, asdict(self._state))


@dataclass(frozen=True, slots=True)
class _TrackingReporter:
    """A reporter that also tracks."""

    tracker: Tracker
    reporter: Reporter

    def phase(self, round_number: int, what: str, total: int) -> Callable[[Trajectory], None]:
        self.tracker.begin(round_number)
        return self.tracker.watching(what, self.reporter.phase(round_number, what, total))

    def training(self, round_number: int, trajectories: int) -> Callable[[int, int], None]:
        self.tracker.begin(round_number)
        return self.reporter.training(round_number, trajectories)

    def round(self, number: int, metrics: dict[str, Any]) -> None:
        self.tracker.round(number, metrics)
        self.reporter.round(number, metrics)


def _summary(prefix: str, summary: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a summary of episodes, by name."""
    values = {name: summary.get(name) for name in _OF_EPISODES}
    for name in ("success", "reward"):
        estimate = summary[name]
        values |= {name: estimate["value"], f"{name}_low": estimate["low"], f"{name}_high": estimate["high"]}
    return {f"{prefix}/{name}": value for name, value in values.items() if value is not None and isfinite(value)}


def _trace(trajectory: Trajectory) -> Any:
    """Return an episode as trackio's trace: the conversation, and how it ended."""
    from trackio import Trace

    messages = [*few_shot_messages([trajectory]), {"role": "user", "content": trajectory.final_observation}]
    about = {
        "task": trajectory.task_id, "environment": trajectory.provenance.env_id, "success": trajectory.success,
        "reward": trajectory.reward, "steps": len(trajectory.steps), "status": "error" if trajectory.error else "ok",
    }  # fmt: skip
    return Trace(messages=messages, metadata=about)


def _wait_until_written(tracker: Any) -> None:
    """Wait for trackio's thread, which writes the rows.

    Trackio's own `finish` waits 30 seconds. On a busy machine that is too short, and rows are lost.
    """
    writer = getattr(getattr(tracker, "run", None), "_local_sender_thread", None)
    if isinstance(writer, threading.Thread):
        writer.join(_WRITE_SECONDS)


def _start(service: Service, folder: Path, state: _LogState, config: Mapping[str, Any]) -> Any:
    """Start accelerate's tracker of a run."""
    import torch
    from accelerate import PartialState, tracking

    PartialState(cpu=config.get("device") == "cpu" or not torch.cuda.is_available())  # the trackers read it
    name = f"{folder.absolute().name}-{state.id}"
    if service == "tensorboard":
        tracker: Any = tracking.TensorBoardTracker(FOLDER, folder)
        tracker.start()
        if not state.step:
            tracker.log(
                {"config": "    " + yaml.safe_dump(dict(config), sort_keys=False).replace("\n", "\n    ")}, step=0
            )
        return tracker
    if service == "trackio":
        tracker = tracking.TrackioTracker("agentgym", name=name, resume="allow", config=dict(config))
    else:
        for key, value in (("MODE", "offline"), ("SILENT", "true"), ("CONSOLE", "off")):
            os.environ.setdefault(f"WANDB_{key}", value)
        place = folder / FOLDER
        place.mkdir(exist_ok=True)
        tracker = tracking.WandBTracker(
            "agentgym", name=name, id=state.id, resume="allow", dir=str(place), config=dict(config)
        )
    with redirect_stdout(sys.stderr):  # trackio prints a greeting; a program may read stdout
        tracker.start()
    if service == "trackio":  # it prints a message at exit
        atexit.register(setattr, sys, "stdout", sys.stderr)
    return tracker
