"""A reflection without a text: failures are tried again as they are, the control of `self_improvement.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_py.evolution.reflection import Write
from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class PlainRetry:
    """Plain retries."""

    def reflect(self, failures: Sequence[Trajectory], write: Write) -> Sequence[str]:
        """Return an empty text for each failure."""
        del write
        return [""] * len(failures)
