"""How long worlds may take."""

from __future__ import annotations

import math
from collections.abc import MutableSequence
from time import monotonic
from typing import TYPE_CHECKING

from agentgym_py.errors import ConfigError, InfrastructureError

if TYPE_CHECKING:
    pass


class Watch:
    """Times what one world after another does, and shows to another process which one is at work.

    `with watch.of(7): env.step(reply)` raises InfrastructureError where it took longer than `limit` seconds. `beat` is
    since when by the machine's monotonic clock, 0 where none is at work, and the number of its job.
    """

    def __init__(self, limit: float | None = None, beat: MutableSequence[float] | None = None) -> None:
        self.limit = limit
        self._beat = [0.0, 0.0] if beat is None else beat

    def of(self, number: int) -> Watch:
        """What comes next is of this job."""
        self._beat[1] = number
        return self

    def __enter__(self) -> None:
        self._began = self._beat[0] = monotonic()

    def __exit__(self, kind: object, *exc: object) -> None:
        self._beat[0] = 0.0
        took = monotonic() - self._began
        if kind is None and self.limit is not None and took > self.limit:
            raise InfrastructureError(f"the world took longer than the step_timeout of {self.limit:g} s")


def checked_timeout(seconds: float | None) -> float | None:
    """`seconds` where it may be a `step_timeout`, else ConfigError."""
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise ConfigError(f"step_timeout must be a number of seconds above 0, got {seconds}")
    return seconds
