"""Benchmarks of what must last, in short: memory over many batches, a server under load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="resident sizes are read from /proc"),
]


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    """A program of the folder `benchmarks`."""
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_collecting_batch_after_batch_takes_no_more_memory() -> None:
    """And where everything is kept that is said."""
    command = ["benchmarks/memory.py", "--batches", "160", "--bound", "2", "--who", "random"]
    flat, leaking = ran(*command), ran(*command, "--leak")
    assert flat.returncode == 0, flat.stdout + flat.stderr
    assert leaking.returncode == 1 and "random grew by" in leaking.stdout, leaking.stdout + leaking.stderr


def test_many_sessions_of_a_server_are_kept_apart_and_forgotten() -> None:
    """Of all worlds, each as its episode is played locally; those that are left alone are closed."""
    short = ["--sessions", "60", "--steps", "6", "--rounds", "1", "--think", "0.5", "--idle", "10"]
    done = ran("benchmarks/serving.py", *short)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "with 60 sessions" in done.stdout and " and 0 sessions after the clients left" in done.stdout
    assert "\n0 answers differ from the local episode" in done.stdout
