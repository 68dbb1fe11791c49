"""Ctrl-C that is never lost.

Python raises KeyboardInterrupt wherever the main thread happens to be. In the callback of a weak reference or in a
`__del__` it prints "Exception ignored" and continues. Within `interrupts_honoured` such an interrupt is raised again a
moment later, and `require_not_interrupted`, which long commands call between episodes and steps, raises it if a library
has swallowed it in another way. A second Ctrl-C ends the process at once.
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
"""Seconds after which an interrupt that was ignored is raised again."""
_SAME = 1.0
"""Seconds within which a second Ctrl-C counts as the first: whoever started the process may pass it on, too."""


class Killed(KeyboardInterrupt):
    """SIGTERM came."""


@dataclass(slots=True)
class _State:
    pending: type[KeyboardInterrupt] | None = None
    """What was asked for, until the command is over."""
    first: float = 0.0
    """When Ctrl-C came."""
    again: bool = False
    """Whether the next signal is one that was ignored."""
    timer: threading.Timer | None = None
    """What raises again what was ignored."""


_state = _State()


@contextmanager
def interrupts_honoured() -> Iterator[None]:
    """Within, Ctrl-C ends what runs wherever it comes; a second one ends the process at once.

    Who ignores SIGINT, or has a handler of its own, keeps it.
    """
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    hook = sys.unraisablehook

    def ignored(what: Any) -> None:
        if what.exc_type is not None and issubclass(what.exc_type, KeyboardInterrupt):
            _raise_later(what.exc_type)
        else:
            hook(what)

    before = signal.signal(signal.SIGINT, _on_sigint)
    sys.unraisablehook = ignored
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGINT, before)
        _calm()
        _state.pending = None


def _calm() -> None:
    """Raise nothing again: the interrupt is on its way."""
    if _state.timer is not None:
        _state.timer.cancel()
    _state.timer, _state.again = None, False


def note(what: type[KeyboardInterrupt]) -> None:
    """Remember that the command is to end."""
    _state.pending = what


def require_not_interrupted() -> None:
    """Raise what Ctrl-C, or SIGTERM, asked for and nobody heard."""
    if _state.pending is not None:
        _calm()
        raise _state.pending


def interruptible(call: F) -> F:
    """The same function, which is not called once the command is to end."""

    @wraps(call)
    def checked(*args: Any, **kwargs: Any) -> Any:
        require_not_interrupted()
        return call(*args, **kwargs)

    return checked  # type: ignore[return-value]  # it takes and gives what `call` does


@dataclass(frozen=True, slots=True)
class InterruptibleReporter:
    """A reporter whose run ends between two episodes or steps, if it has not ended before."""

    shown: Reporter

    def phase(self, round_number: int, what: str, total: int) -> Callable[[Trajectory], None]:
        """A phase begins."""
        require_not_interrupted()
        return interruptible(self.shown.phase(round_number, what, total))

    def training(self, round_number: int, trajectories: int) -> Callable[[int, int], None]:
        """Training begins."""
        require_not_interrupted()
        return interruptible(self.shown.training(round_number, trajectories))

    def round(self, number: int, metrics: dict[str, Any]) -> None:
        """A round is over."""
        self.shown.round(number, metrics)
        require_not_interrupted()


def _on_sigint(*_: object) -> None:
    now = time.monotonic()
    if _state.again or _state.pending is None:
        if _state.pending is None:
            _state.first = now
        _state.pending, _state.again = _state.pending or KeyboardInterrupt, False
        raise _state.pending
    if now - _state.first >= _SAME:
        _end_at_once()


def _raise_later(what: type[KeyboardInterrupt]) -> None:
    """Have the main thread raise it again, once it has left the callback in which it was ignored."""
    here = os.getpid()

    def send() -> None:
        if os.getpid() == here and _state.timer is timer:
            _state.again = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    note(what)
    timer = _state.timer = threading.Timer(_AGAIN, send)
    timer.daemon = True
    timer.start()


def _end_at_once() -> None:
    if sys.stderr.isatty():
        os.write(2, b"\x1b[?25h")  # the cursor, which a progress bar may have hidden
    os.write(2, b"\nagentgym: ended at once\n")
    os._exit(KILLED if _state.pending is Killed else INTERRUPTED)
