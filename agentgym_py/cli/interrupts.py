"""Ctrl-C and SIGTERM that are never lost.

Python raises KeyboardInterrupt wherever the main thread is. In the callback of a weak reference or in `__del__` it
prints "Exception ignored" and continues. Libraries swallow it, or turn it into another error. Within
`interrupts_honoured` such an interrupt is raised again a moment later, at the next `require_not_interrupted` between
two episodes or steps, or instead of the other error. An interrupt that arrives during an import waits for its end,
because a half-imported library fails in strange ways. A second signal ends the process at once.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from agentgym_py.training.progress import Reporter
    from agentgym_py.trajectory import Trajectory

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED, KILLED = 130, 143
_AGAIN = 0.05
"""Seconds after which an ignored or postponed interrupt is raised again."""
_DEBOUNCE = 1.0
"""Seconds within which a second signal counts as the first, because a parent process may pass it on, too."""
_IMPORT_SECONDS = 30.0
"""Longest time that an interrupt waits for the end of an import."""
_STOPPING = b"\nstopping; a second Ctrl-C ends the command at once\n"
"""What a person sees at the first signal."""
_IMPORTER = "<frozen importlib._bootstrap>"
"""File name of Python's import machinery in stack frames."""
_START = "agentgym_start"
"""The module whose handlers are in place while the command starts."""


class Killed(KeyboardInterrupt):
    """The process received SIGTERM."""


_KINDS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Killed}
_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


@dataclass(slots=True)
class _State:
    pending: type[KeyboardInterrupt] | None = None
    """The interrupt, until the command ends."""
    number: int = signal.SIGINT
    """Its signal."""
    first: float = 0.0
    """Time of the first signal."""
    again: bool = False
    """Whether the next signal repeats an ignored or postponed interrupt."""
    repetition: object = None
    """Identifies the thread that repeats it."""
    pid: int = 0
    """The process of the command; its forks end silently."""
    imports: int = 0
    """Number of imports that the command itself is part of, as in `import experiment`."""


_state = _State()


@contextmanager
def interrupts_honoured() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the command wherever they arrive, and a second one the process at once.

    A signal that the process ignores, or handles otherwise, is left alone.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    numbers = [number for number in _DEFAULTS if _is_default(number)] if is_main_thread else []
    if not numbers:
        yield
        return
    hook = sys.unraisablehook

    def unraisable(args: Any) -> None:
        if args.exc_type is not None and issubclass(args.exc_type, KeyboardInterrupt):
            _raise_later(args.exc_type)
        else:
            hook(args)

    _state.pid, _state.imports = os.getpid(), _count_imports(sys._getframe())
    before = {number: signal.signal(number, _on_signal) for number in numbers}
    sys.unraisablehook = unraisable
    try:
        with no_interrupt_lost():
            yield
    finally:
        sys.unraisablehook = hook
        for number in numbers:
            signal.signal(number, before[number])
        _cancel_repetition()
        _state.pending = None


@contextmanager
def no_interrupt_lost() -> Iterator[None]:
    """Raise the interrupt instead of the error that a library made of it."""
    try:
        yield
    except Exception as error:
        if _state.pending is None:
            raise
        _cancel_repetition()
        raise _state.pending from error


def _is_default(number: signal.Signals) -> bool:
    """Whether the process has no handler of its own for a signal."""
    handler = signal.getsignal(number)
    return handler is _DEFAULTS[number] or getattr(handler, "__module__", None) == _START


def _count_imports(frame: FrameType | None) -> int:
    """Return the number of imports on the stack."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename == _IMPORTER
        frame = frame.f_back
    return count


def _cancel_repetition() -> None:
    """Do not repeat the interrupt, because it is being raised."""
    _state.repetition, _state.again = None, False


def remember_interrupt(kind: type[KeyboardInterrupt]) -> None:
    """Remember that the command must end."""
    _state.pending = kind


def require_not_interrupted() -> None:
    """Raise an interrupt that was swallowed."""
    if _state.pending is not None:
        _cancel_repetition()
        raise _state.pending


def interruptible(call: F) -> F:
    """Wrap a function so that it raises instead of running after an interrupt."""

    @wraps(call)
    def checked(*args: Any, **kwargs: Any) -> Any:
        require_not_interrupted()
        return call(*args, **kwargs)

    return checked  # type: ignore[return-value]  # the signature of `call`


@dataclass(frozen=True, slots=True)
class InterruptibleReporter:
    """A reporter that ends an interrupted run between two episodes or steps."""

    reporter: Reporter

    def phase(self, round_number: int, what: str, total: int) -> Callable[[Trajectory], None]:
        """Begin a phase."""
        require_not_interrupted()
        return interruptible(self.reporter.phase(round_number, what, total))

    def training(self, round_number: int, trajectories: int) -> Callable[[int, int], None]:
        """Begin training."""
        require_not_interrupted()
        return interruptible(self.reporter.training(round_number, trajectories))

    def round(self, number: int, metrics: dict[str, Any]) -> None:
        """End a round."""
        self.reporter.round(number, metrics)
        require_not_interrupted()


def _on_signal(number: int, frame: FrameType | None) -> None:
    if os.getpid() != _state.pid:  # a fork
        os._exit(128 + number)
    now, first_time = time.monotonic(), _state.pending is None
    if not (first_time or _state.again):
        if now - _state.first >= _DEBOUNCE:
            _end_at_once()
        return
    if first_time:
        _state.number, _state.first = number, now
        if sys.stderr.isatty():  # the end may take a while, such as that of an import or of worker processes
            os.write(2, _STOPPING)
    _state.pending, _state.again = _state.pending or _KINDS[signal.Signals(number)], False
    if _count_imports(frame) > _state.imports and now - _state.first < _IMPORT_SECONDS:
        _raise_later(_state.pending)
        return
    raise _state.pending


def _raise_later(kind: type[KeyboardInterrupt]) -> None:
    """Raise the interrupt again in the main thread after it has left the callback or the import."""
    main_thread, repetition = threading.main_thread().ident or 0, object()

    def send() -> None:
        time.sleep(_AGAIN)
        if _state.repetition is repetition:
            _state.again = True
            signal.pthread_kill(main_thread, _state.number)

    remember_interrupt(kind)
    _state.repetition = repetition
    _thread.start_new_thread(send, ())  # `threading` takes a lock, which the interrupted code may hold


def _end_at_once() -> None:
    if sys.stderr.isatty():
        os.write(2, b"\x1b[?25h")  # the cursor, which a progress bar may have hidden
    os.write(2, b"\nagentgym: ended at once\n")
    os._exit(KILLED if _state.pending is Killed else INTERRUPTED)
