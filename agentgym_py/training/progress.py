"""How a run reports its progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from agentgym_py.trajectory import Trajectory


class Reporter(Protocol):
    """Receives the progress of a run: the command line shows it, a test may record it."""

    def phase(self, round_number: int, what: str, total: int) -> Callable[[Trajectory], None]:
        """Begin a phase; call the result with each of its `total` trajectories."""
        ...

    def training(self, round_number: int, trajectories: int) -> Callable[[int, int], None]:
        """Begin a training; call the result with the finished steps and their total."""
        ...

    def round(self, number: int, metrics: dict[str, Any]) -> None:
        """Finish a round."""
        ...


Progress = Callable[[int, int], None]
"""Called with the finished optimizer steps (episodes, on-policy) and their total."""
