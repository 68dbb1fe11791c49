"""What the tests of bridges share: equal starts, and no reward after an infrastructure failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from scripted import Played, Script

from agentgym_py.env import StopReason
from agentgym_py.errors import InfrastructureError
from agentgym_py.serving.tool_episode import ToolEpisode

T = TypeVar("T")
FAILURE = "the disk is full"
"""The message of the failures of `fail`."""


def play_rows(
    rows: Sequence[T],
    scripts: Sequence[Script],
    run: Callable[[list[T], int | None], Iterable[Played]],
) -> list[Played]:
    """Play the rows of scripts; those that are given up end at a limit of one turn.

    Args:
        rows: What the framework plays for each script: a row, or a task's number.
        scripts: The scripts.
        run: Plays some of the rows, in any order, with at most this number of turns each, or without a limit.
    """
    episodes = dict[str, Played]()
    for limit in (None, 1):
        some = [
            row for row, script in zip(rows, scripts, strict=True)
            if (script.episode.stop_reason is StopReason.GAVE_UP) is (limit is not None)
        ]  # fmt: skip
        if some:
            episodes |= {episode.task: episode for episode in run(some, limit)}
    return [episodes[script.episode.task] for script in scripts]


def note_starts(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[bytes]]:
    """Return the snapshots of all starts from now on, by task; a direct episode's is `Script.start`."""
    starts, begin = dict[str, list[bytes]](), ToolEpisode._begin

    def noted(self: ToolEpisode, name: Any) -> None:
        begin(self, name)
        starts.setdefault(self.task.id, []).append(self.env.snapshot())

    monkeypatch.setattr(ToolEpisode, "_begin", noted)
    return starts


def note_closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the task of every world that is closed from now on."""
    tasks, close = list[str](), ToolEpisode.close

    def closes(self: ToolEpisode) -> None:
        tasks.append(self.task.id)
        close(self)

    monkeypatch.setattr(ToolEpisode, "close", closes)
    return tasks


def fail(
    monkeypatch: pytest.MonkeyPatch, *, start: str | None = None, step: str | None = None, hang: str | None = None
) -> threading.Event:
    """Let the world fail at the start of the task `start`, and in the second step of the task `step`.

    In the second step of the task `hang` it hangs until the event that is returned is set.
    """
    begin, do, release = ToolEpisode._begin, ToolEpisode.step, threading.Event()

    def begins(self: ToolEpisode, name: Any) -> None:
        if name == start:
            raise InfrastructureError(FAILURE)
        begin(self, name)

    def steps(self: ToolEpisode, text: str) -> Any:
        if self.task.id == step and self.steps:
            raise InfrastructureError(FAILURE)
        if self.task.id == hang and self.steps:
            release.wait()
        return do(self, text)

    monkeypatch.setattr(ToolEpisode, "_begin", begins)
    monkeypatch.setattr(ToolEpisode, "step", steps)
    return release


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an ASGI application on loopback from a thread of this process; the address is the value."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
