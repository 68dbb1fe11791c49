"""Ctrl-C is never lost, wherever it comes."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.cli import interrupts
from agentgym_py.cli.interrupts import (
    InterruptibleReporter,
    Killed,
    interruptible,
    interrupts_honoured,
    remember_interrupt,
    require_not_interrupted,
)


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """Python's own, whatever runs these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    """Ctrl-C, which the main thread hears before the next line."""
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(100):
        time.sleep(0)


class Thing:
    """What a weak reference may refer to."""


class Dies:
    """Is interrupted as it goes."""

    def __del__(self) -> None:
        press()


def in_weakref() -> None:
    """Ctrl-C in the callback of a weak reference, as in the WeakKeyDictionaries of the libraries."""
    thing = Thing()
    kept = weakref.ref(thing, lambda _: press())
    del thing
    assert kept() is None


def in_del() -> None:
    """Ctrl-C in `__del__`."""
    Dies()


def in_collection() -> None:
    """Ctrl-C in a garbage collection."""
    first, second = Dies(), Thing()
    first.other, second.other = second, first  # type: ignore[attr-defined]
    del first, second
    gc.collect()


@pytest.mark.parametrize("where", [in_weakref, in_del, in_collection])
def test_an_ignored_interrupt_is_raised_again(where: Callable[[], None], capfd: pytest.CaptureFixture[str]) -> None:
    """Soon, in the main thread, and without Python's note that it was ignored."""
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), interrupts_honoured():
        where()
        for _ in range(1000):
            time.sleep(0.01)
    assert time.monotonic() - began < 5 and "ignored" not in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("where", [in_weakref, in_del, in_collection])
def test_without_it_python_loses_the_interrupt(where: Callable[[], None]) -> None:
    """Or this would be a test of nothing."""
    heard: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, heard.append
    try:
        where()
    finally:
        sys.unraisablehook = before
    assert [each.exc_type for each in heard] == [KeyboardInterrupt]


def test_one_that_a_library_swallows_ends_the_command_at_the_next_step() -> None:
    """In whatever a command calls between episodes and steps."""

    class Shown:
        def phase(self, *_: object) -> Any:
            return print

        def training(self, *_: object) -> Any:
            return print

        def round(self, *_: object) -> None:
            """Nothing."""

    shown = InterruptibleReporter(Shown())
    calls: list[Callable[[], object]] = [
        require_not_interrupted, lambda: interruptible(print)(1), lambda: shown.phase(1, "x", 2),
        lambda: shown.training(1, 2), lambda: shown.round(1, {}),
    ]  # fmt: skip
    for call in calls:
        with interrupts_honoured():
            call()
            with suppress(BaseException):
                press()
            with pytest.raises(KeyboardInterrupt):
                call()
        call()
    with interrupts_honoured():
        remember_interrupt(Killed)
        with pytest.raises(Killed):
            require_not_interrupted()


def test_it_is_raised_once() -> None:
    """One that was ignored and then heard between two steps does not come again in what is cleaned up."""
    with interrupts_honoured():
        in_weakref()
        with pytest.raises(KeyboardInterrupt):
            require_not_interrupted()
        time.sleep(4 * interrupts._AGAIN)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_another_handler_is_left_alone(handler: Any) -> None:
    """A job in the background ignores Ctrl-C."""
    signal.signal(signal.SIGINT, handler)
    with interrupts_honoured():
        assert signal.getsignal(signal.SIGINT) is handler
        press()


HANGS = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from agentgym_py.cli.interrupts import interrupts_honoured
with interrupts_honoured():
    try:
        print("go", flush=True)
        time.sleep(100)
    finally:
        print("cleaning", flush=True)
        time.sleep(100)
"""


def test_a_second_one_ends_the_process_at_once() -> None:
    """But not one that comes with the first, as when a terminal and a parent process both send it."""
    with subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"go\n"
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == b"cleaning\n"
            process.send_signal(signal.SIGINT)
            time.sleep(1.5)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130 and process.stderr and b"ended at once" in process.stderr.read()
        finally:
            process.kill()


STORM = """
import signal, sys, time, weakref
signal.signal(signal.SIGINT, signal.default_int_handler)
from agentgym_py.cli import main
from agentgym_py.env import TextEnv

step, told = TextEnv.step, []

class Thing: pass

def callback(_):
    until = time.monotonic() + 0.01
    while time.monotonic() < until:
        pass

def slow(self, action):
    thing = Thing()
    kept = weakref.ref(thing, callback)
    del thing
    if not told:
        told.append(print("playing", flush=True))
    return step(self, action)

TextEnv.step = slow
sys.exit(main(sys.argv[1:]))
"""
"""`agentgym` in a process that spends nearly all of its time in callbacks of weak references."""


@pytest.mark.parametrize("moments", [(1,), pytest.param((0, 2, 3, 4, 5), marks=pytest.mark.slow)], ids=["one", "all"])
@pytest.mark.parametrize("command", ["eval", "collect"])
def test_a_command_is_interrupted_at_any_moment(command: str, moments: tuple[int, ...], tmp_path: Path) -> None:
    """With status 130, and without a word of Python's."""
    argv = [command, "--env", "calculator", "--agent", "random", "--tasks", "3000", "--out", "out.jsonl"]
    for moment in moments:
        folder = tmp_path / str(moment)
        folder.mkdir()
        with subprocess.Popen(
            [sys.executable, "-c", STORM, *argv], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout and any("playing" in line for line in process.stdout)
                time.sleep(0.037 * moment)
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 130
                assert process.stderr and "ignored" not in (said := process.stderr.read()) and "Traceback" not in said
            finally:
                process.kill()
