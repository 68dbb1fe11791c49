"""Limits of envs: what a worker does when its file descriptors run out."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest

from agentgym_py.collection.watchdog import EXHAUSTED, Watchdog
from agentgym_py.errors import InfrastructureError


class Exited(BaseException):
    """Raised in place of the end of the process."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record collections of garbage and exits, which are stopped."""
    heard: list[Any] = []

    def leave(status: int) -> None:
        heard.append(status)
        raise Exited

    monkeypatch.setattr(gc, "collect", lambda: heard.append("collect"))
    monkeypatch.setattr(os, "_exit", leave)
    return heard


def fail_to_open(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let the next calls of `os.open` fail, as without free descriptors."""
    really, failures = os.open, iter(range(times))

    def opened(*args: Any) -> int:
        if next(failures, None) is not None:
            raise OSError(24, "Too many open files")
        return really(*args)

    monkeypatch.setattr(os, "open", opened)


def test_a_worker_with_descriptors_collects_no_garbage(calls: list[Any]) -> None:
    """A collection beside torch takes a tenth of a second, and each env that is closed would cost one."""
    Watchdog(None, [0.0, 0.0]).require_descriptors()
    assert not calls


def test_garbage_may_hold_the_descriptors(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a worker does not end."""
    fail_to_open(monkeypatch, 1)
    Watchdog(None, [0.0, 0.0]).require_descriptors()
    assert calls == ["collect"]


def test_a_worker_without_descriptors_ends(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the status that tells its parent why, and showing the job; a process without a parent does not."""
    fail_to_open(monkeypatch, 2)
    beats = [0.0, 0.0]
    with pytest.raises(InfrastructureError, match="Exited"):
        Watchdog(None, beats).for_job(7).require_descriptors()
    assert calls == ["collect", EXHAUSTED] and beats[1] == 7
    fail_to_open(monkeypatch, 2)
    Watchdog().require_descriptors()
    assert calls == ["collect", EXHAUSTED]
