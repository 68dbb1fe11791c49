"""Ctrl-C is never lost, wherever it comes."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentgym_py.cli import command_module, interrupts
from agentgym_py.cli.interrupts import (
    InterruptibleReporter,
    Killed,
    interruptible,
    interrupts_honoured,
    no_interrupt_lost,
    remember_interrupt,
    require_not_interrupted,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """Python's own, whatever runs these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press(number: int = signal.SIGINT) -> None:
    """Ctrl-C, which the main thread hears before the next line."""
    os.kill(os.getpid(), number)
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


@pytest.mark.parametrize("terminal", [True, False])
def test_a_person_sees_at_once_that_the_command_stops(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and only in a terminal; a log has the line of the end."""
    written: list[bytes] = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(os, "write", lambda _, text: written.append(text))
    with pytest.raises(KeyboardInterrupt), interrupts_honoured():
        press()
    assert [b"stopping" in text for text in written] == [True] * terminal


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


SLOW_IMPORT = """
from tests_of_interrupts import pressed
pressed()
finished = True
"""


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Killed)])
def test_an_import_is_not_cut_in_half(
    number: int, kind: type[KeyboardInterrupt], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt is raised when the import is over, and not postponed where a script runs during its own import."""
    (tmp_path / "a_library.py").write_text(SLOW_IMPORT)
    (tmp_path / "an_experiment.py").write_text(SLOW_IMPORT.replace("pressed()", "pressed(True)"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "tests_of_interrupts", stub := ModuleType("tests_of_interrupts"))

    def pressed(is_command: bool = False) -> None:
        with interrupts_honoured() if is_command else nullcontext():
            press(number)

    stub.pressed = pressed  # type: ignore[attr-defined]
    with pytest.raises(kind) as raised, interrupts_honoured():
        import_module("a_library")
        for _ in range(1000):
            time.sleep(0.01)
    assert raised.type is kind and sys.modules.pop("a_library").finished
    with pytest.raises(kind):
        import_module("an_experiment")


@pytest.mark.parametrize("library", [RuntimeError("interrupted?"), OSError("interrupted?"), None])
def test_what_a_library_makes_of_an_interrupt_is_the_interrupt(library: Exception | None) -> None:
    """Another error, which a command would report, or nothing; an error without an interrupt stays."""

    def ask() -> None:
        try:
            press()
        except KeyboardInterrupt:
            if library is not None:
                raise library from None

    with pytest.raises(KeyboardInterrupt), interrupts_honoured(), no_interrupt_lost():
        ask()
        require_not_interrupted()
    with pytest.raises(ValueError, match="mine"), interrupts_honoured(), no_interrupt_lost():
        raise ValueError("mine")


def test_a_command_that_ends_in_spite_of_an_interrupt_is_interrupted(
    agentgym: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its status is never 0; one that has said so itself is not interrupted twice."""

    def run(_: object) -> int:
        with suppress(KeyboardInterrupt):
            press(signal.SIGTERM)
        return status

    monkeypatch.setattr(command_module("report"), "run", run)
    status = 0
    assert agentgym("report", ".") == (143, "", "\nagentgym: interrupted\n")
    status = 143
    assert agentgym("report", ".") == (143, "", "")


@pytest.mark.parametrize("place", ["env_specs", "new_file", "Collector", "_summary"])
def test_an_interrupted_collection_says_whether_there_is_a_file(
    place: str, agentgym: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it is interrupted, also before the first episode and after the last."""
    monkeypatch.setattr(command_module("collect"), place, lambda *_, **__: press())
    status, _, err = agentgym("collect", "--env", "GUESS", "--tasks", "2", "--out", "a.jsonl")
    assert status == 130 and Path("a.jsonl").exists() == (place == "_summary")
    assert ("a.jsonl: no episode had ended, so there is no file" in err) == (place != "_summary")


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


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_one_ends_the_process_at_once(number: signal.Signals, status: int) -> None:
    """But not one that comes with the first, as when a terminal and a parent process both send it."""
    with subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"go\n"
            process.send_signal(number)
            assert process.stdout.readline() == b"cleaning\n"
            process.send_signal(number)
            time.sleep(1.5)
            assert process.poll() is None
            process.send_signal(number)
            assert process.wait(20) == status and process.stderr and b"ended at once" in process.stderr.read()
        finally:
            process.kill()


BEGINS = """
import time
print("importing", flush=True)
time.sleep(100)
"""
ENDS = """
import atexit, threading, time
def main():
    threading.Thread(target=time.sleep, args=[100]).start()
    atexit.register(print, "the end")
    return 7
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_is_interrupted_while_it_is_imported(number: signal.Signals, status: int, tmp_path: Path) -> None:
    """With one line, whatever is being imported."""
    with started(BEGINS, tmp_path) as process:
        assert process.stdout and process.stdout.readline() == b"importing\n"
        process.send_signal(number)
        assert process.wait(20) == status and process.stderr
        assert process.stderr.read() == b"\nagentgym: interrupted\n"


def test_a_command_that_has_ended_waits_for_no_thread(tmp_path: Path) -> None:
    """Which may be in a request or in a world; what is to be done at the end is done."""
    with started(ENDS, tmp_path) as process:
        assert process.wait(20) == 7 and process.stdout and process.stderr
        assert (process.stdout.read(), process.stderr.read()) == (b"the end\n", b"")


@contextmanager
def started(command: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start `agentgym` with this source in the place of `agentgym_py.cli`."""
    (folder / "agentgym_py").mkdir()
    (folder / "agentgym_py" / "__init__.py").touch()
    (folder / "agentgym_py" / "cli.py").write_text(command)
    shutil.copytree(ROOT / "agentgym_start", folder / "agentgym_start")
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    code += "from agentgym_start import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
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
