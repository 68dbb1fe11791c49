"""Limits of envs: the time of a call, and what it may do to its process."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import MutableSequence, Sequence
from time import monotonic
from types import TracebackType

from agentgym_py.env.tracebacks import error_text
from agentgym_py.errors import ConfigError, InfrastructureError

EXHAUSTED = 78
"""Exit status of a worker without free file descriptors."""
MAX_LANES = 1024
"""Most threads for envs that a `Watchdog` can show to another process, beside the thread that plays."""


class Watchdog:
    """Times the calls into envs on one thread, and shows which job's env is at work.

    `with watchdog.for_job(7): env.step(reply)` raises InfrastructureError if that took more than `limit` seconds, or
    raised something that is no `Exception`, such as SystemExit. A copy of the process that the env has forked ends when
    it returns from the call.

    Args:
        limit: Seconds that a call may take.
        beats: Two numbers per lane: the start of the call that runs now on the machine's monotonic clock (0: none), and
            the number of its job. In shared memory a parent process can read them, and kills this one.
        lane: Which lane of `beats` is this thread's.
    """

    def __init__(self, limit: float | None = None, beats: MutableSequence[float] | None = None, lane: int = 0) -> None:
        self.limit = limit
        self.has_parent = beats is not None
        """Whether another process ends this one when an env is late."""
        self._beats: MutableSequence[float] = [0.0, 0.0] if beats is None else beats
        self._since, self._job = 2 * lane, 2 * lane + 1
        self._began = 0.0
        self._process = os.getpid()

    def for_thread(self, lane: int) -> Watchdog:
        """Return the watchdog of another thread."""
        return Watchdog(self.limit, self._beats, lane) if self.has_parent else Watchdog(self.limit)

    def for_job(self, number: int) -> Watchdog:
        """Attribute the next call to this job."""
        self._beats[self._job] = number
        return self

    @property
    def is_late(self) -> bool:
        """Whether a call runs now and is over its limit."""
        since = self._beats[self._since]
        return bool(self.limit and since and monotonic() - since > self.limit)

    @property
    def error(self) -> InfrastructureError:
        """The error of a call that has not returned."""
        return InfrastructureError(f"the world was not back after {self.limit:g} s")

    def require_descriptors(self) -> None:
        """End a worker in which failed envs have left no free file descriptor: its other episodes need some."""
        if self.has_parent and not _has_descriptors():
            gc.collect()  # closes the files of envs that are gone; a collection takes too long to begin with one
            if not _has_descriptors():
                with self:  # shows the parent process which job is to blame
                    os._exit(EXHAUSTED)

    def __enter__(self) -> None:
        self._began = self._beats[self._since] = monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._process:
            os._exit(0)  # without the cleanup of this process, whose files and pipes the copy shares
        self._beats[self._since] = 0.0
        took = monotonic() - self._began
        if kind is None and self.limit is not None and took > self.limit:
            raise InfrastructureError(f"the world took longer than the step_timeout of {self.limit:g} s")
        if error is not None and not isinstance(error, Exception | KeyboardInterrupt):
            raise InfrastructureError(f"the world raised {error_text(error)}").with_traceback(trace) from error


def _has_descriptors() -> bool:
    """Return whether this process can open another file."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


def read_beats(beats: Sequence[float], lanes: int) -> list[tuple[float, int]]:
    """List (start, number of the job) of each call that runs now in one of the first `lanes` lanes."""
    return [(beats[2 * k], int(beats[2 * k + 1])) for k in range(lanes) if beats[2 * k]]


def require_timeout(seconds: float | None) -> None:
    """Raise ConfigError unless `seconds` may be a `step_timeout`."""
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise ConfigError(f"step_timeout must be a number of seconds above 0, got {seconds}")
