"""Episodes dealt out to the processes that train together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

from agentgym_py.agents import Agent
from agentgym_py.collection.executor import deal
from agentgym_py.collection.job import Job
from agentgym_py.collection.play_config import PlayConfig
from agentgym_py.collection.processes import Workers, stream_near
from agentgym_py.distributed import gather, rank, world_size
from agentgym_py.trajectory import Trajectory


class Ranks:
    """Plays a fixed share of the jobs in each process that trains, on its own device.

    All processes must ask for the same jobs, and each gets all trajectories. Jobs are dealt out as by `Workers`.
    """

    def __init__(self) -> None:
        self.number = world_size()
        self._beside = Workers(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the process that runs envs which may be late."""
        self._beside.close()

    def is_worthwhile(self, jobs: Sequence[Job]) -> bool:
        """Return True with several ranks, because all must learn from the same episodes."""
        return self.number > 1

    def stream(self, agent: Agent, config: PlayConfig, jobs: Sequence[Job]) -> Iterator[tuple[int, Trajectory]]:
        """Play this rank's share; yield (index of the job, trajectory) as episodes end, then those of other ranks.

        Raises:
            WorkerError: another process is gone.
        """
        share = deal(jobs, self.number)[rank()]
        results = []
        for at, trajectory in stream_near(
            agent, config.per_process(self.number), [job for _, job in share], self._beside
        ):
            results.append((share[at][0], trajectory))
            yield results[-1]
        for number, trajectories in enumerate(gather(results)):
            if number != rank():
                yield from trajectories
