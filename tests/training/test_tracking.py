"""What a run logs in tensorboard, trackio or wandb."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from shutil import copy
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym_py import distributed
from agentgym_py.errors import ConfigError, RunError
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.training import tracking
from agentgym_py.training.tracking import Tracker

FIXTURES = Path(__file__).parents[1] / "fixtures"
SETTINGS = {"env": ["shop"], "seed": 0, "track": "tensorboard"}


@pytest.fixture
def no_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if only tensorboard were installed."""
    missing = ("wandb", "trackio")
    monkeypatch.setattr(
        "agentgym_py.training.tracking.find_spec", lambda name: None if name in missing else find_spec(name)
    )


def metrics(success: float) -> dict[str, Any]:
    """Of a round, as its folder has them."""
    of = {"value": success, "low": success / 2, "high": success, "n": 4}
    played = {"success": of, "reward": {**of, "low": None, "high": None}, "steps": 3.0, "invalid": 0.5, "tokens": None}
    return {
        "explored": played, "valid": played, "training": {"trajectories": 5},
        "selection": {"kept": 6, "dropped": {"below reward 1": 4}},
    }  # fmt: skip


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """By name the steps and values that tensorboard reads there."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder / tracking.FOLDER), size_guidance={"scalars": 0})
    read.Reload()
    return {tag: [(each.step, each.value) for each in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_nothing_is_imported_and_nobody_listens_unless_asked() -> None:
    """Neither torch nor a service, and what trainers log goes nowhere."""
    code = (
        "import json, sys, agentgym_py.training.tracking as t; t.log({'x': 1.0}); "
        "print(json.dumps([t.is_tracking(), *sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listens, *imported = json.loads(done.stdout)
    assert not listens and not {"torch", "accelerate", "tensorboard", "wandb", "trackio"} & set(imported)


@pytest.mark.parametrize("service", ["wandb", "trackio"])
def test_a_missing_package_is_one_line(no_wandb: None, tmp_path: Path, service: tracking.Service) -> None:
    """It names the package and the extra; nothing was written."""
    with pytest.raises(ConfigError, match=rf"track={service} needs .*: pip install {service}, .*\[tracking\]"):
        Tracker(service, tmp_path, {})
    assert not list(tmp_path.iterdir())


class Shown:
    """A reporter that counts what it hears."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def phase(self, round_number: int, what: str, total: int) -> Any:
        """A phase."""
        self.heard.append((round_number, what, total))

    def training(self, round_number: int, trajectories: int) -> Any:
        """A training."""
        self.heard.append((round_number, trajectories))

    def round(self, number: int, metrics: dict[str, Any]) -> None:
        """A round."""
        self.heard.append(number)


def logged(
    folder: Path, rows: Mapping[int, float], rounds: int, settings: Mapping[str, Any] = SETTINGS
) -> list[object]:
    """Log a run of this many rounds, whose trainings log these rows by step; what its reporter heard."""
    tracker, shown = Tracker("tensorboard", folder, settings), Shown()
    reporter = tracker.reporter(shown)
    with tracker.listening():
        for number in range(rounds):
            reporter.phase(number, "explore", 3)
            reporter.training(number, 5)
            for step, loss in rows.items():
                tracking.log({"loss": loss}, step)
            reporter.round(number, metrics(0.25 * (number + 1)))
    return shown.heard


def test_tensorboard_has_every_step_and_round_once(tmp_path: Path) -> None:
    """With the intervals of success; a run that continues appends, and what it does again is not there twice."""
    pytest.importorskip("tensorboard")
    pytest.importorskip("accelerate")
    assert logged(tmp_path, {1: 3.0, 2: 2.0}, 1) == [(0, "explore", 3), (0, 5), 0]
    logged(tmp_path, {1: 3.0, 2: 2.0, 3: 1.0}, 2)
    found = scalars(tmp_path)
    assert found["train/loss"] == [(1, 3.0), (2, 2.0), (3, 1.0), (4, 3.0), (5, 2.0), (6, 1.0)]
    assert found["valid/success"] == [(2, 0.25), (6, 0.5)] and found["valid/success_low"] == [(2, 0.125), (6, 0.25)]
    assert found["select/trained"] == [(2, 5), (6, 5)] and found["select/dropped"] == [(2, 4), (6, 4)]
    assert "valid/reward_low" not in found and "valid/tokens" not in found
    tracker = Tracker("tensorboard", tmp_path, SETTINGS)
    nothing = {"value": 0.5, "low": math.nan, "high": math.nan, "n": 4}
    result: dict[str, Any] = {"best": 0, "last": 1, "rounds": {"0": metrics(0.1)["valid"], "1": metrics(0.2)["valid"]}}
    result["rounds"]["1"]["reward"] = nothing
    for _ in range(2):
        with tracker.listening():
            tracker.test(result)
    found = scalars(tmp_path)
    assert [found[f"test/{name}/success"][0][1] for name in ("first", "best", "last")] == pytest.approx([0.1, 0.1, 0.2])
    assert len(found["test/last/success"]) == 1 and "test/last/reward_low" not in found


def test_other_settings_are_another_run(tmp_path: Path) -> None:
    """Their rows are not mixed."""
    pytest.importorskip("tensorboard")
    logged(tmp_path, {1: 3.0}, 1)
    with pytest.raises(RunError, match="belongs to a run with other settings"):
        logged(tmp_path, {1: 3.0}, 1, {**SETTINGS, "seed": 1})


def test_tracking_of_an_older_run_resumes(tmp_path: Path) -> None:
    """Settings are compared as `run.yaml` has them, so that a setting with a new name is no other run."""
    pytest.importorskip("tensorboard")
    copy(FIXTURES / "58a3e36" / "run.yaml", tmp_path)
    folder = RunFolder(tmp_path)
    tracker = Tracker("tensorboard", tmp_path, folder.stored_config())
    assert (
        tracker._state.config == "39dae6e7972fa188efc2b8e059ce0e65a91a233ee30b10c9bf775e1d947d4f2d"
    )  # as commit 58a3e36 stored it
    (tmp_path / "tracking").mkdir(exist_ok=True)
    folder.write_json("tracking/state.json", asdict(tracker._state))
    Tracker("tensorboard", tmp_path, folder.stored_config())
    with pytest.raises(RunError, match="belongs to a run with other settings"):
        Tracker("tensorboard", tmp_path, folder.config())


def test_one_of_several_processes_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others listen too, for all must train alike, and write nothing."""
    monkeypatch.setattr(tracking, "require_service", lambda service: None)
    monkeypatch.setattr(distributed, "is_rank_zero", lambda: False)
    monkeypatch.setattr(distributed, "on_rank_zero", lambda call, *given: call(*given))
    tracker = Tracker("wandb", tmp_path, SETTINGS)
    with tracker.listening():
        assert tracking.is_tracking()
        tracking.log({"loss": 1.0}, 1)
    assert not list(tmp_path.iterdir()) and not tracking.is_tracking()


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Trackio's folder; no network for anybody who would want one."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    yield tmp_path / "trackio"


class SlowService:
    """As trackio on a busy machine: a thread writes the rows, and `finish` does not wait for it for long."""

    def __init__(self, folder: Path) -> None:
        self.rows = list[Mapping[str, Any]]()
        self.run = SimpleNamespace(_local_sender_thread=threading.Thread(target=self._write, daemon=True))
        self._folder, self._ended = folder, threading.Event()
        self.run._local_sender_thread.start()

    def log(self, row: Mapping[str, Any], step: int) -> None:
        """Keep a row for the thread."""
        self.rows.append({**row, "step": step})

    def finish(self) -> None:
        """Let the thread write, and go."""
        self._ended.set()

    def _write(self) -> None:
        self._ended.wait()
        time.sleep(1)
        (self._folder / "rows.json").write_text(json.dumps(self.rows))


def test_trackio_shows_the_first_episodes_of_a_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, episode: Any
) -> None:
    """As traces, once per round; each episode is still reported."""
    fake = SimpleNamespace(Trace=lambda messages, metadata: (messages, metadata))
    monkeypatch.setitem(sys.modules, "trackio", fake)
    monkeypatch.setattr(tracking, "require_service", lambda service: None)
    service = SlowService(tmp_path)
    monkeypatch.setattr(tracking, "_start", lambda *_: service)
    reported = list[object]()

    class Counted(Shown):
        def phase(self, round_number: int, what: str, total: int) -> Any:
            return reported.append

    reporter = Tracker("trackio", tmp_path, SETTINGS).reporter(Counted())
    for number in (0, 1):
        report = reporter.phase(number, "explore", 20)
        for i in range(20 if number == 0 else 1):
            report(episode("look", "buy", id=f"{number} {i}"))
        reporter.round(number, metrics(0.5))
    service.finish()
    first, second = (row["explore/episodes"] for row in service.rows)
    assert (len(first), len(second), len(reported)) == (8, 1, 21)
    messages, about = second[0]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2 + ["user"]
    assert messages[-1]["content"] == "Thanks." and about["success"] and about["steps"] == 2 and about["status"] == "ok"


def test_what_a_service_still_writes_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows are there when the run is over."""
    monkeypatch.setattr(tracking, "require_service", lambda service: None)
    monkeypatch.setattr(tracking, "_start", lambda *_: SlowService(tmp_path))
    tracker = Tracker("trackio", tmp_path, SETTINGS)
    with tracker.listening():
        tracking.log({"loss": 0.5}, 1)
    assert json.loads((tmp_path / "rows.json").read_text()) == [{"round": 0, "train/loss": 0.5, "step": 1}]


@pytest.mark.parametrize("service", ["trackio", "wandb"])
def test_the_other_services_write_offline(service: tracking.Service, offline: Path, tmp_path: Path) -> None:
    """Where they are installed: files in the run's folder, or in trackio's own, that have the rows."""
    pytest.importorskip(service)
    pytest.importorskip("accelerate")
    folder = tmp_path / "run"
    folder.mkdir()
    for _ in range(2):
        tracker = Tracker(service, folder, {**SETTINGS, "track": service})
        with tracker.listening():
            tracking.log({"loss": 0.125}, 1)
            tracker.round(0, metrics(0.5) | {"round": 0})
    state = json.loads((folder / tracking.FOLDER / "state.json").read_text())
    assert (state["step"], state["round"]) == (1, 0)
    written = b"".join(
        each.read_bytes() for each in (offline if service == "trackio" else folder).rglob("*") if each.is_file()
    )
    assert b"train/loss" in written and b"valid/success_high" in written


TWO = """
import sys
from pathlib import Path
from agentgym_py import distributed
from agentgym_py.training import tracking

distributed.init_process_group("cpu")
tracker = tracking.Tracker("tensorboard", Path(sys.argv[1]), {})
with tracker.listening():
    assert tracking.is_tracking()
    for step in (1, 2):
        tracking.log({"loss": float(step + 10 * distributed.rank())}, step)
"""


def test_two_processes_have_one_writer(tmp_path: Path) -> None:
    """Which logs what the first one says; the other is silent."""
    pytest.importorskip("tensorboard")
    pytest.importorskip("accelerate")
    (tmp_path / "two.py").write_text(TWO)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    subprocess.run([*launch, str(tmp_path / "two.py"), str(tmp_path)], check=True, capture_output=True, timeout=150)
    assert scalars(tmp_path)["train/loss"] == [(1, 1.0), (2, 2.0)]
    assert len(list((tmp_path / tracking.FOLDER).glob("events.*"))) == 1
