"""States of a training: the last whole one, refused where it is damaged, and nothing left at the end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentgym_py import files
from agentgym_py.errors import RunError
from agentgym_py.training.checkpoints import Checkpoints, fingerprint, keep_states_until_exit

ROOT = Path(__file__).parents[2]


def keep(kept: Checkpoints, text: str) -> None:
    """Keep a state that holds this text."""
    kept.save(lambda folder: _write(folder / "text", text))


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def held(kept: Checkpoints) -> str | None:
    """The text of the last state."""
    last = kept.latest()
    return (last / "text").read_text() if last else None


def test_the_last_state_is_found_by_the_same_training_alone(tmp_path: Path) -> None:
    """A newer one replaces it, the end leaves no folder, and another training is told whose it is."""
    folder = tmp_path / "out" / "states"
    kept = Checkpoints(folder, fingerprint("a", 1), 0.0)
    assert kept.latest() is None and not folder.exists()
    for text in ("one", "two"):
        keep(kept, text)
        assert held(Checkpoints(folder, fingerprint("a", 1), 0.0)) == text
        assert len(list(folder.iterdir())) == 1
    with pytest.raises(RunError, match=r"another training.*delete .*states to restart"):
        Checkpoints(folder, fingerprint("a", 2), 0.0).latest()
    kept.remove()
    assert not (tmp_path / "out").exists()


def test_a_state_of_an_earlier_version_is_refused_by_name(tmp_path: Path) -> None:
    """Its training cannot be continued: the error says so and how to begin the training again."""
    kept = Checkpoints(tmp_path / "states", fingerprint("a", 1), 0.0)
    keep(kept, "one")
    (about,) = tmp_path.glob("states/state-*/state.json")
    about.write_text(json.dumps({k: v for k, v in json.loads(about.read_text()).items() if k != "format"}))
    with pytest.raises(RunError, match=r"saved by another version of agentgym-py.*delete .*states to restart"):
        kept.latest()


def test_settings_are_the_same_however_their_numbers_are_written() -> None:
    """A preset's epochs are 1; read from the run's folder they are 1.0."""

    @dataclass(frozen=True, slots=True)
    class Settings:
        epochs: float
        weights: dict[str, float] | None = None

    def digest(settings: Settings) -> str:
        return fingerprint([settings], ["a", 1], [[1, 2]])

    assert digest(Settings(1)) == digest(Settings(1.0)) == fingerprint([Settings(1)], ["a", 1.0], [[1, 2.0]])
    assert digest(Settings(1, {"one": 2})) == digest(Settings(1, {"one": 2.0})) != digest(Settings(1, {"one": 2.5}))
    assert len({digest(Settings(epochs)) for epochs in (1, 1.5, 2, float("inf"))}) == 4


def test_files_of_the_settings_count_by_their_content(tmp_path: Path) -> None:
    """So that a run folder can be moved; a changed file is another training."""

    @dataclass(frozen=True, slots=True)
    class Settings:
        file: Path

    before = {}
    for name in ("here", "moved"):
        (tmp_path / name / "model").mkdir(parents=True)
        (tmp_path / name / "model" / "weights").write_text("w")
        before[name] = [fingerprint(Settings(tmp_path / name / place)) for place in ("model", "model/weights")]
    assert before["here"] == before["moved"] and before["here"][0] != before["here"][1]
    (tmp_path / "moved" / "model" / "weights").write_text("other")
    assert fingerprint(Settings(tmp_path / "moved" / "model")) != before["here"][0]
    assert fingerprint(Settings(tmp_path / "a")) != fingerprint(Settings(tmp_path / "b"))


def test_what_a_kill_leaves_is_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the rename the one before stands, and after it the new one, whatever of the old one is left."""
    kept, rmtree = Checkpoints(tmp_path / "states", "x", 0.0), shutil.rmtree
    keep(kept, "one")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lambda *_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception, match="killed"):
            keep(kept, "two")
    assert held(kept) == "one"
    with monkeypatch.context() as patch:
        patch.setattr(
            shutil, "rmtree", lambda path, **_: None if path.name.startswith("state-") else rmtree(path, True)
        )
        keep(kept, "three")
    assert held(kept) == "three" and len(list((tmp_path / "states").glob("state-*"))) == 2
    keep(kept, "four")
    assert held(kept) == "four" and len(list((tmp_path / "states").glob("state-*"))) == 1


def test_a_damaged_state_is_refused_and_stays(tmp_path: Path) -> None:
    """The file that is changed since they were written is named, one that is missing too."""
    kept = Checkpoints(tmp_path / "states", "x", 0.0)
    keep(kept, "one")
    state = kept.latest()
    assert state is not None
    (state / "text").write_text("two")
    with pytest.raises(RunError, match=r"damaged \(text: changed since they were written\)"):
        kept.latest()
    (state / "text").unlink()
    with pytest.raises(RunError, match="damaged"):
        kept.latest()
    for about in ("", "null", "[]", '{"files": 1}', "[" * 100_000):
        (state / "state.json").write_text(about)
        with pytest.raises(RunError, match="damaged"):
            kept.latest()
    assert state.is_dir()


@pytest.mark.parametrize("name", ["/dev/zero", "../../precious", "/etc/hosts"])
def test_a_state_names_no_file_elsewhere(name: str, tmp_path: Path) -> None:
    """A stranger's would hang or be read."""
    kept = Checkpoints(tmp_path / "states", "x", 0.0)
    keep(kept, "one")
    (tmp_path / "precious").touch()
    about = json.loads((tmp_path / "states" / "state-000001" / "state.json").read_text())
    about["files"][name] = "0"
    (tmp_path / "states" / "state-000001" / "state.json").write_text(json.dumps(about))
    with pytest.raises(RunError, match="leads out of"):
        kept.latest()


def _with_holes(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.skipif(os.name != "posix", reason="pipes and sparse files of POSIX")
@pytest.mark.parametrize("trap", [os.mkfifo, _with_holes])
def test_a_state_with_a_pipe_or_holes_is_refused(trap: Callable[[Path], object], tmp_path: Path) -> None:
    """Its digest would take forever."""
    kept = Checkpoints(tmp_path / "states", "x", 0.0)
    keep(kept, "one")
    (tmp_path / "states" / "state-000001" / "text").unlink()
    trap(tmp_path / "states" / "state-000001" / "text")
    with pytest.raises(RunError, match="no ordinary file"):
        kept.latest()


@pytest.mark.parametrize("error", [KeyError("step"), RuntimeError("size mismatch\nfor a"), RecursionError("deep")])
def test_what_a_prepared_state_raises_is_one_line(error: Exception, tmp_path: Path) -> None:
    """Its digests may be right, and its values wrong; the project's own errors stay as they are."""
    kept = Checkpoints(tmp_path / "states", "x", 0.0)
    message = r"is damaged .*; delete .*states to restart this training"
    with pytest.raises(RunError, match=message) as said, kept.reading(tmp_path / "states" / "state-000001"):
        raise error
    assert "\n" not in str(said.value)
    with pytest.raises(RunError, match=r"^as it is$"), kept.reading(tmp_path):
        raise RunError("as it is")


def test_a_state_is_due_after_its_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted from the last one, at first from the beginning."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    kept = Checkpoints(tmp_path / "states", "x", 2.0)
    for _ in range(2):
        assert not kept.is_due()
        now[0] += 120
        assert kept.is_due()
        keep(kept, "one")


def test_a_disk_that_is_full_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries say it in their own words, if at all; the project's own errors stay as they are."""
    with (
        pytest.raises(RunError, match="states cannot be written: unexpected pos"),
        files.clear_write_errors(tmp_path / "states"),
    ):
        raise RuntimeError("unexpected pos")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 0}))
    with (
        pytest.raises(RunError, match="no space left on its disk"),
        files.clear_write_errors(tmp_path / "no" / "states"),
    ):
        raise RuntimeError("unexpected pos")
    with pytest.raises(RunError, match=r"^mine$"), files.clear_write_errors(tmp_path):
        raise RunError("mine")


def test_a_kill_while_a_training_is_cleared_away_leaves_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is as if it had never been, and the next one leaves nothing."""
    kept = Checkpoints(tmp_path / "out" / "states", "x", 0.0)
    keep(kept, "one")
    with monkeypatch.context() as patch:
        patch.setattr(
            shutil, "rmtree", lambda path, **_: next(iter(path.glob("state-*/*")), path / "none").unlink(True)
        )
        kept.remove()
    assert held(kept) is None
    keep(kept, "two")
    kept.remove()
    assert not (tmp_path / "out").exists()


def test_states_stay_until_what_replaces_them_is_written(tmp_path: Path) -> None:
    """They are gone after it, and stay where it fails: the training is over for all that."""
    kept = Checkpoints(tmp_path / "out" / "states", "x", 0.0)
    keep(kept, "one")
    with pytest.raises(OSError, match="full"), keep_states_until_exit():
        kept.remove()
        raise OSError("full")
    assert held(kept) == "one"
    with keep_states_until_exit():
        kept.remove()
        assert held(kept) == "one"
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="fork, and /proc")
@pytest.mark.parametrize("trainer", ["filtered_bc", "grpo"])
def test_kill_9_and_go_on(trainer: str) -> None:
    """At random moments and at each place of the code that changes a file; full and read-only disks; damaged states."""
    command = [sys.executable, "benchmarks/resume.py", "--trainers", trainer, "--moments", "15"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"| {trainer} |") == 7
