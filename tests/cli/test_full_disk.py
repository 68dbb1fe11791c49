"""A full disk, a quota, a folder that takes no files: one line, what is kept is told, and the command can be resumed.

The system's limit of a file's size stands for them: it hits every writer, those of libraries, too.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.errors import RunError
from agentgym_py.feedback.verdicts import Ref, rate
from agentgym_py.files import claimed
from agentgym_py.trajectory import store

resource = pytest.importorskip("resource")
Run = Callable[..., tuple[int, str, str]]
SOURCE = ("collect", "--env", "GUESS", "--tasks", "6", "--out", "d.jsonl")


@contextmanager
def full(limit: int) -> Iterator[None]:
    """Let no file become longer than this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


WRITERS = {
    "collect": (["collect", "--env", "GUESS", "--tasks", "9", "--out", "made"], 4000,
                "trajectories were written and are kept"),
    "collect nothing": (["collect", "--env", "GUESS", "--tasks", "9", "--out", "made"], 0, ""),
    "eval": (["eval", "--env", "GUESS", "--agent", "expert", "--tasks", "9", "--out", "made"], 5000,
             "the same command resumes from there"),
    "convert": (["data", "convert", "d.jsonl", "made", "--to", "store"], 4000, ""),
    "convert to rows": (["data", "convert", "d.jsonl", "made", "--to", "trl"], 100, ""),
    "convert to parquet": (["data", "convert", "d.jsonl", "made", "--to", "parquet"], 1000, ""),
    "salvage": (["data", "salvage", "d.jsonl", "made"], 4000, ""),
    "view": (["view", "d.jsonl", "--export", "made"], 4000, ""),
    "attack": (["attack", "--env", "GUESS", "--tasks", "2", "--generations", "1", "--reward", "agent", "--out", "made"],
               1000, ""),
    "index": (["tools", "index", "--env", "tools", "--tasks", "2", "--measure_tasks", "0", "--epochs", "1", "--threads",
               "1", "--out", "made"], 4000, ""),
    "judge": (["judge", "--data", "d.jsonl", "--source", "environment", "--out", "made"], 200, ""),
    "certify": (["certify", "GUESS", "--only", "solvable", "--episodes", "2", "--out", "made"], 100, ""),
    "export": (["export", "MODEL", "--out", "made"], 4000, ""),
    "train": (["train", "--model", "MODEL", "--data", "d.jsonl", "--out", "made", "--trainer.epochs", "1",
               "--threads", "1"], 4000, "the same command starts again"),
    "evolve": (["evolve", "--env", "GUESS", "--preset", "smoke", "--model", "MODEL", "--out", "made",
                "--threads", "1"], 40_000, "to resume: agentgym evolve --resume made"),
}  # fmt: skip
"""Commands that write `made`, a size at which each fails, and what it says besides the error."""
KEEPS = ("collect", "eval", "evolve")
"""Those that keep what they have."""


@pytest.mark.parametrize("kind", [pytest.param(k, marks=pytest.mark.slow) if k == "evolve" else k for k in WRITERS])
def test_a_full_disk_is_one_line_and_costs_nothing(kind: str, agentgym: Run, small_model: str) -> None:
    """Nothing half written is left; when there is room, the same command does what it would have done."""
    assert agentgym(*SOURCE)[0] == 0
    words, limit, told = WRITERS[kind]
    argv = [word.replace("MODEL", small_model) for word in words]
    with full(limit):
        status, _, err = agentgym(*argv)
    said = err.strip().splitlines()
    assert status == 2 and "Traceback" not in err and told in err, err
    assert said[-1].startswith("agentgym: ") and sum(line.startswith("agentgym: ") for line in said) == 1, err
    assert "too large" in err.lower() or (kind == "view" and "the index" in err), err
    assert Path("made").exists() == (kind in (*KEEPS, "train", "certify", "judge"))
    assert not [*Path().glob(".made*"), *Path().glob("made*partial"), *Path().rglob(".*.tmp")]
    if kind == "collect":
        kept = list(store.read("made"))
        assert 0 < len(kept) < 9
        assert agentgym("collect", "--env", "GUESS", "--tasks", "9", "--out", "whole")[0] == 0
        assert kept == list(store.read("whole"))[: len(kept)]
        return
    again = ["evolve", "--resume", "made", "--threads", "1"] if kind == "evolve" else argv
    assert agentgym(*again)[0] == 0


def test_a_judgement_is_whole_or_not_there(tmp_path: Path, agentgym: Run) -> None:
    """A full disk leaves no half line in `verdicts.jsonl`."""
    assert agentgym(*SOURCE)[0] == 0
    name = next(iter(store.read("d.jsonl"))).id
    rate(Path(), Ref("d.jsonl", name), 1)
    before = Path("verdicts.jsonl").read_bytes()
    with full(len(before) + 10), pytest.raises(OSError, match="too large"):
        rate(Path(), Ref("d.jsonl", name), -1)
    assert Path("verdicts.jsonl").read_bytes() == before
    rate(Path(), Ref("d.jsonl", name), -1)
    assert Path("verdicts.jsonl").read_bytes().startswith(before)


@pytest.mark.parametrize("code", [30, 13, 122, 28], ids=["read-only", "no permission", "quota", "full"])
@pytest.mark.parametrize("kind", ["collect", "convert", "eval"])
def test_a_folder_that_takes_no_file_is_one_line(
    kind: str, code: int, agentgym: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder on a read-only disk or over the quota; nothing is left of the try."""
    assert agentgym(*SOURCE)[0] == 0
    real = Path.open

    def refuse(self: Path, mode: str = "r", *more: Any, **named: Any) -> Any:
        if mode[0] in "awx" or "+" in mode:
            raise OSError(code, "it takes no file", str(self))
        return real(self, mode, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        status, _, err = agentgym(*WRITERS[kind][0])
    assert status == 2 and err.count("\n") == 1 and "it takes no file" in err, err
    assert agentgym(*WRITERS[kind][0])[0] == 0


TRAIN = ["train", "--model", "MODEL", "--data", "d.jsonl", "--threads", "1"]
SMOKE = ["evolve", "--env", "GUESS", "--preset", "smoke", "--model", "MODEL", "--threads", "1"]


@pytest.mark.parametrize("words", [SMOKE, TRAIN, ["eval", "--env", "GUESS", "--agent", "expert", "--tasks", "2"]])
def test_what_is_met_again_has_no_advice(words: list[str], agentgym: Run, small_model: str) -> None:
    """A folder within a file, or a name that is too long: another try ends in the same way."""
    assert agentgym(*SOURCE)[0] == 0
    argv = [word.replace("MODEL", small_model) for word in words]
    for out, reason in (("d.jsonl/sub", "Not a directory"), ("a" * 300, "File name too long")):
        status, _, err = agentgym(*argv, "--out", out)
        assert status == 2 and err.endswith(f": {reason}\n") and err.count("\n") == 1, err
    assert [str(path) for path in Path().iterdir()] == ["d.jsonl"]


def test_a_run_that_may_not_be_written_has_no_advice(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither how to start it nor how to resume it, and the folder is named instead of its lock; a full disk passes."""
    smoke = [*(word.replace("MODEL", small_model) for word in SMOKE), "--out", "made"]
    real = Path.open

    def refuse(code: int, self: Path, mode: str = "r", *more: Any, **named: Any) -> Any:
        if self.name == ".lock":
            raise OSError(code, os.strerror(code), str(self))
        return real(self, mode, *more, **named)

    def refused(code: int, *argv: str) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", lambda *more, **named: refuse(code, *more, **named))
            status, _, err = agentgym(*argv)
        assert status == 2
        return err

    assert refused(errno.EACCES, *smoke) == "agentgym: made cannot be written: Permission denied\n"
    assert refused(errno.ENOSPC, *smoke).endswith("space left on device; nothing was written yet; start it again\n")
    assert agentgym(*smoke)[0] == 0
    (Path("made") / "test.json").unlink()
    resume = ("evolve", "--resume", "made", "--threads", "1")
    assert refused(errno.EROFS, *resume) == "agentgym: made cannot be written: Read-only file system\n"
    assert refused(errno.ENOSPC, *resume).endswith("device; to resume: agentgym evolve --resume made\n")


def test_a_claim_names_what_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output, not its lock."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(RunError, match="made cannot be written: Read-only"), claimed(tmp_path / "made"):
        pass
