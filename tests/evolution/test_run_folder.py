from __future__ import annotations

import json
import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from agentgym_py.errors import ConfigError, RunError
from agentgym_py.evolution import run_folder
from agentgym_py.evolution.fork import Fork
from agentgym_py.evolution.run_folder import RunFolder, read_estimate
from agentgym_py.files import json_folder, write_atomic


def test_a_used_folder_is_refused(tmp_path: Path) -> None:
    """A folder that holds a run, or anything else, is not written into; an empty one is."""
    folder = RunFolder.create(tmp_path / "a", {"seed": 1})
    assert folder.config() == {"seed": 1}
    with pytest.raises(RunError, match="--resume"):
        RunFolder.create(tmp_path / "a", {})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="other files"):
        RunFolder.create(tmp_path / "b", {})
    (tmp_path / "c").mkdir()
    RunFolder.create(tmp_path / "c", {})


def start(path: Path, number: int, together: Barrier | None = None) -> bool:
    """Whether this start has the folder, at the same moment as others."""
    if together:
        together.wait()
    try:
        with RunFolder.start(path, {"seed": number}, {"from": number}):
            return True
    except RunError:
        return False


@pytest.mark.parametrize("stage", ["locked", "provenance.json", "run.yaml"])
def test_a_start_that_was_killed_can_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """Whatever a kill in `create` leaves is no run, and taken by the next start; what stands there is whole."""

    def killed(path: Path, data: str) -> None:
        if path.name == stage or stage == "locked":
            (path.parent / f".{path.name}.99.tmp").write_text(data[:3])
            raise KeyboardInterrupt
        write_atomic(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(json_folder, "write_atomic", killed)
        patch.setattr(run_folder, "write_atomic", killed)
        with pytest.raises(KeyboardInterrupt):
            start(tmp_path / "a", 1)
    with pytest.raises(RunError, match="holds no run"):
        RunFolder.open(tmp_path / "a")
    assert start(tmp_path / "a", 2)
    folder = RunFolder.open(tmp_path / "a")
    assert folder.config() == {"seed": 2} and folder.read_json("provenance.json") == {"from": 2}


def test_a_file_of_that_name_alone_is_not_ours(tmp_path: Path) -> None:
    """A provenance.json that no start of a run left is somebody's file, and stays."""
    (tmp_path / "provenance.json").write_text("mine")
    with pytest.raises(RunError, match="other files"):
        RunFolder.create(tmp_path, {})


def test_of_many_starts_in_one_folder_one_wins(tmp_path: Path) -> None:
    """Started at the same moment: one has the run, with its settings and provenance; the others are told."""
    with ThreadPoolExecutor(4) as pool:
        for attempt in range(50):
            path, numbers, together = tmp_path / str(attempt), range(4), Barrier(4)
            started = pool.map(start, [path] * 4, numbers, [together] * 4)
            won = [number for number, mine in zip(numbers, started, strict=True) if mine]
            folder = RunFolder.open(path)
            assert won == [folder.config()["seed"]] == [folder.read_json("provenance.json")["from"]]


def test_a_round_is_over_when_its_metrics_stand(tmp_path: Path) -> None:
    """An interrupted round leaves no metrics; when it continues, whole files stay and half-written ones go."""
    folder = RunFolder.create(tmp_path / "a", {})
    (folder.begin_round(0) / "whole.jsonl").write_text("{}")
    (folder.round(0) / "half.jsonl.partial").write_text("{")
    (folder.round(0) / ".checkpoint.7.tmp").mkdir()
    assert not folder.done(0)
    assert [each.name for each in folder.begin_round(0).iterdir()] == ["whole.jsonl"]
    folder.finish_round(0, {"x": 1})
    assert folder.done(0) and folder.metrics(0) == {"x": 1}


def test_planned_rounds_are_not_counted_one_by_one(tmp_path: Path) -> None:
    """A stranger's run.yaml plans any number."""
    folder = RunFolder(tmp_path)
    folder.write_config({"rounds": 10**12, "env": ["maze"]})
    for number in (0, 1):
        folder.begin_round(number)
        folder.write_json(f"rounds/{number:02d}/metrics.json", {})
    folder.require_extensible(10**13)
    with pytest.raises(RunError, match="its round 1 is over"):
        folder.require_extensible(0)
    for point in ("999999999", "9" * 5000, "²"):
        with pytest.raises((RunError, ConfigError), match="round"):
            Fork.parse(f"{tmp_path}@{point}")


def test_broken_files_of_a_run_are_named(tmp_path: Path) -> None:
    """No run, a broken run.yaml and broken metrics each end in one clear error."""
    with pytest.raises(RunError, match=r"no run\.yaml"):
        RunFolder.open(tmp_path)
    (tmp_path / "run.yaml").write_text("{unclosed")
    with pytest.raises(RunError, match=r"run\.yaml"):
        RunFolder.open(tmp_path).config()
    (tmp_path / "test.json").write_text("{")
    with pytest.raises(RunError, match=r"test\.json"):
        RunFolder(tmp_path).read_json("test.json")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """Text that cannot be encoded leaves what stood there, and no litter."""
    write_atomic(tmp_path / "f", "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(tmp_path / "f", "\ud800")
    assert (tmp_path / "f").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_what_is_no_number_is_null(tmp_path: Path) -> None:
    """The files are JSON for every reader, however deep a nan stands."""
    folder = RunFolder.create(tmp_path / "a", {})
    folder.write_json("x.json", {"a": math.nan, "b": [{"c": (math.inf, 1.5)}]})

    def refuse(name: str) -> None:
        raise AssertionError(name)

    text = (tmp_path / "a" / "x.json").read_text()
    assert json.loads(text, parse_constant=refuse) == {"a": None, "b": [{"c": [None, 1.5]}]}
    assert math.isnan(read_estimate({"value": None, "low": 0.0, "high": 1.0, "n": 0}).value)


def test_a_finished_round_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file and folder of the round is synced before the metrics that say that it is over."""
    folder = RunFolder.create(tmp_path / "a", {})
    (folder.begin_round(0) / "checkpoint").mkdir()
    (folder.round(0) / "checkpoint" / "weights").write_text("w")
    synced = []

    def fsync(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, folder.done(0)))

    monkeypatch.setattr(os, "fsync", fsync)
    folder.finish_round(0, {})
    for path in (folder.path, folder.round(0), folder.round(0) / "checkpoint", folder.round(0) / "checkpoint/weights"):
        assert (path.stat().st_ino, False) in synced, path
