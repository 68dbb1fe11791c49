"""What a run reports to its observer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from torch import Tensor as Tensor

else:
    Tensor = Any
if TYPE_CHECKING:
    pass


class Reporter(Protocol):
    """Receives how a run proceeds; the command line shows it, a test may record it."""

    def phase(self, round_number: int, what: str, total: int) -> Callable[[Trajectory], None]:
        """A phase begins; call the result with each of its `total` trajectories."""
        ...

    def training(self, round_number: int, trajectories: int) -> Callable[[int, int], None]:
        """Training begins; call the result with the steps done and their number."""
        ...

    def round(self, number: int, metrics: dict[str, Any]) -> None:
        """A round is over."""
        ...


Progress = Callable[[int, int], None]
"""Called with the optimizer steps done and their number."""
