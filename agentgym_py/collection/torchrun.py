"""Episodes shared out over the processes that train together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentgym_py.collection.executor import shares
from agentgym_py.collection.processes import Workers
from agentgym_py.distributed import gather, rank, world

if TYPE_CHECKING:
    from agentgym_py.collection import Collector, Job
    from agentgym_py.trajectory import Trajectory


class Ranks(Workers):
    """Plays every job in all processes that train together: a fixed share in each, on its own device.

    All of them must ask for the same jobs, and each gets all trajectories. Who plays what is as in `Workers`.
    """

    def __init__(self) -> None:
        super().__init__(world())
        self._beside = Workers(1)

    def close(self) -> None:
        """End the process in which worlds run that may be late."""
        self._beside.close()

    def worth(self, jobs: Sequence[Job]) -> bool:
        """Always, for all must learn from the very same episodes."""
        return self.number > 1

    def stream(self, collector: Collector, jobs: Sequence[Job]) -> Iterator[tuple[int, Trajectory]]:
        """Play this process's share, (number of the job, trajectory) as they end; the others' when all are over.

        Raises:
            WorkerError: another process is gone.
        """
        share = shares(jobs, self.number)[rank()]
        alone = replace(collector, workers=self._beside, slots=-(-collector.slots // self.number))
        played = []
        for index, trajectory in alone.stream([job for _, job in share]):
            played.append((share[index][0], trajectory))
            yield played[-1]
        for number, others in enumerate(gather(played)):
            if number != rank():
                yield from others
