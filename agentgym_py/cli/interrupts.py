"""Ctrl-C that is never lost.

Python raises KeyboardInterrupt wherever the main thread is. In the callback of a weak reference or in `__del__` it
prints "Exception ignored" and continues. Within `interrupts_honoured` such an interrupt is raised again a moment later.
Long commands call `require_not_interrupted` between episodes and steps, which raises it if a library has swallowed it
in another way. A second Ctrl-C ends the process at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from agentgym_py.training.progress import Reporter
    from agentgym_py.trajectory import Trajectory

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED, KILLED = 130, 143
_AGAIN = 0.05
"""Seconds after which an ignored interrupt is raised again."""
_DEBOUNCE = 1.0
"""Seconds within which a second Ctrl-C counts as the first, because a parent process may pass it on, too."""


class Killed(KeyboardInterrupt):
    """The process received SIGTERM."""


@dataclass(slots=True)
class _State:
    pending: type[KeyboardInterrupt] | None = None
    """The interrupt, until the command ends."""
    first: float = 0.0
    """Time of the first Ctrl-C."""
    again: bool = False
    """Whether the next signal repeats an ignored interrupt."""
    timer: threading.Timer | None = None
    """Repeats an ignored interrupt."""


_state = _State()


@contextmanager
def interrupts_honoured() -> Iterator[None]:
    """Let Ctrl-C end the command wherever it arrives, and a second Ctrl-C the process at once.

    A process that ignores SIGINT, or handles it otherwise, is left alone.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    hook = sys.unraisablehook

    def unraisable(args: Any) -> None:
        if args.exc_type is not None and issubclass(args.exc_type, KeyboardInterrupt):
            _raise_later(args.exc_type)
        else:
            hook(args)

    before = signal.signal(signal.SIGINT, _on_sigint)
    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGINT, before)
        _cancel_timer()
        _state.pending = None


def _cancel_timer() -> None:
    """Do not repeat the interrupt, because it is being raised."""
    if _state.timer is not None:
        _state.timer.cancel()
    _state.timer, _state.again = None, False


def remember_interrupt(kind: type[KeyboardInterrupt]) -> None:
    """Remember that the command must end."""
    _state.pending = kind


def require_not_interrupted() -> None:
    """Raise an interrupt that was swallowed."""
    if _state.pending is not None:
        _cancel_timer()
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


def _on_sigint(*_: object) -> None:
    now = time.monotonic()
    if _state.again or _state.pending is None:
        if _state.pending is None:
            _state.first = now
        _state.pending, _state.again = _state.pending or KeyboardInterrupt, False
        raise _state.pending
    if now - _state.first >= _DEBOUNCE:
        _end_at_once()


def _raise_later(kind: type[KeyboardInterrupt]) -> None:
    """Raise the interrupt again in the main thread after it has left the callback that ignored it."""
    pid = os.getpid()

    def send() -> None:
        if os.getpid() == pid and _state.timer is timer:
            _state.again = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    remember_interrupt(kind)
    timer = _state.timer = threading.Timer(_AGAIN, send)
    timer.daemon = True
    timer.start()


def _end_at_once() -> None:
    if sys.stderr.isatty():
        os.write(2, b"\x1b[?25h")  # the cursor, which a progress bar may have hidden
    os.write(2, b"\nagentgym: ended at once\n")
    os._exit(KILLED if _state.pending is Killed else INTERRUPTED)
