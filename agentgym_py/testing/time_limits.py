"""Limits on the time of an env's calls."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

from agentgym_py.testing.failures import BrokenContractError

_WAIT_FACTOR = 10
TIMERS = (
    ((signal.ITIMER_VIRTUAL, signal.SIGVTALRM, 1), (signal.ITIMER_REAL, signal.SIGALRM, _WAIT_FACTOR))
    if hasattr(signal, "setitimer")
    else ()
)
_handler_of = import_module("_signal").getsignal
"""`signal.getsignal` without its search for an enum member, which takes as long as many a step."""


class _Limit:
    """The time limit of a call."""

    __slots__ = ("call", "has_rung", "seconds")

    def __init__(self, call: str, seconds: float) -> None:
        self.call, self.seconds, self.has_rung = call, seconds, False

    def error(self) -> BrokenContractError:
        """Return the error of a call that takes longer."""
        return BrokenContractError(f"{self.call} takes longer than {self.seconds:g} seconds")


_limited: list[_Limit] = []
"""The time limit of the call that runs now; empty between calls."""
_earlier: dict[int, Any] = {}
"""The handlers that `handled_alarms` has replaced, by signal; empty outside."""


def _ring(number: int, frame: FrameType | None) -> None:
    """Fail the call that has a time limit; between two such calls the alarm is the earlier handler's."""
    if _limited:
        _limited[-1].has_rung = True
        raise _limited[-1].error()
    if callable(handler := _earlier.get(number)):
        handler(number, frame)


@contextmanager
def handled_alarms() -> Iterator[None]:
    """Handle alarms of `time_limit` inside the block; installing handlers for each call takes longer than a step."""
    if _earlier or threading.current_thread() is not threading.main_thread():
        yield
        return
    _earlier.update({number: signal.signal(number, _ring) for _, number, _ in TIMERS})
    try:
        yield
    finally:
        for number, handler in _earlier.items():
            signal.signal(number, handler)
        _earlier.clear()


@contextmanager
def time_limit(seconds: float, call: str) -> Iterator[None]:
    """Fail after `seconds` of CPU time, or after `_WAIT_FACTOR` times as many of wall time.

    Works only in the main thread of a system with timers, and not inside a C call. A call that handles the error
    itself fails as it returns. Existing timers are suspended and set again afterwards.
    """
    if threading.current_thread() is not threading.main_thread() or not TIMERS:
        yield
    elif not _earlier:
        with handled_alarms(), time_limit(seconds, call):
            yield
    else:
        for _, number, _ in TIMERS:
            if _handler_of(number) is not _ring:  # an earlier call of the world has replaced it
                signal.signal(number, _ring)
        before = [signal.setitimer(timer, seconds * factor) for timer, _, factor in TIMERS]
        limit = _Limit(call, seconds)
        _limited.append(limit)
        try:
            yield
        except Exception:
            if not limit.has_rung:
                raise
        finally:
            for (timer, _, _), remaining in zip(TIMERS, before, strict=True):
                signal.setitimer(timer, *remaining)
            _limited.pop()
        if limit.has_rung:
            raise limit.error()
