"""Where episodes run: what an executor is, and how a share of the jobs survives its player."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from agentgym_py.collection.watchdog import Watch
from agentgym_py.errors import InfrastructureError, WorkerError

if TYPE_CHECKING:
    from agentgym_py.collection import Collector, Job
    from agentgym_py.trajectory import Trajectory


_WORTH = 32
"""Jobs a process from which on it is worth its while."""


Share = Sequence[tuple[int, "Job"]]


class Executor(Protocol):
    """Where a collector's episodes are played: `Workers`, `ranks.Ranks` or `cluster.RayWorkers`.

    Whoever plays, the trajectories are the same but for how sums round.
    """

    number: int
    """How many play."""

    def worth(self, jobs: Sequence[Job]) -> bool:
        """Whether so many jobs are played sooner here than by this process."""
        ...

    def stream(self, collector: Collector, jobs: Sequence[Job]) -> Iterator[tuple[int, Trajectory]]:
        """Play every job as `collector` says; (number of the job, trajectory) as they end."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...

    def __enter__(self) -> Executor: ...

    def __exit__(self, *exc: object) -> None: ...


@dataclass(slots=True)
class Ongoing:
    """A share of the jobs that somebody plays who may die, and how far it is."""

    collector: Collector
    given: Share
    """What who plays now was given."""
    late: int | None = None
    """The one of those given whose world took too long, so that who plays was ended."""
    over: set[int] = field(default_factory=set)
    deaths: Counter[int | None] = field(default_factory=Counter)
    """By job that was at work, None between them."""

    def heard(self, said: tuple[int, Trajectory] | Exception) -> Iterator[tuple[int, Trajectory]]:
        """What is new of what was said; an exception is raised."""
        if isinstance(said, Exception):
            raise said
        if said[0] not in self.over:
            self.over.add(said[0])
            yield said

    def died(self, how: str, at: int | None = None) -> Iterator[tuple[int, Trajectory]]:
        """Who played is gone, maybe while the world of job `at` of those given was at work.

        What is to be given next is then in `given`: of an agent with weights everything again, for what is batched
        with what decides how sums round. After a world that was late only what is not over, for there may be many.

        Raises:
            WorkerError: it happened too often, and no world is to blame.
        """
        if all(number in self.over for number, _ in self.given):  # worlds were being closed
            self.given = []
            return
        at = at if self.late is None else self.late
        number = None if at is None else self.given[at][0]
        if self.late is None or number not in self.over:  # else it came back in this very moment
            number = None if number in self.over else number
            self.deaths[number] += 1
            if self.deaths[number] > self.collector.retries:
                yield self._lost(number, how)
        if self.late is not None or self.collector.agent.policy_digest is None:
            self.given = [each for each in self.given if each[0] not in self.over]
        else:
            self.given = [each for each in self.given if self.deaths[each[0]] <= self.collector.retries]
            if all(number in self.over for number, _ in self.given):
                self.given = []
        self.late = None

    def _lost(self, number: int | None, how: str) -> tuple[int, Trajectory]:
        """What stands for a job at which somebody died too often."""
        from agentgym_py.collection.collector import failed

        if number is None:
            raise WorkerError(f"a process that played episodes died {how}, {self.deaths[number]} times")
        limit = self.collector.step_timeout
        why = f"took its process along {how}" if self.late is None else f"was not back after {limit:g} s"
        self.over.add(number)
        return number, failed(dict(self.given)[number], self.collector, repr(InfrastructureError(f"the world {why}")))


def shares(jobs: Sequence[Job], number: int) -> list[Share]:
    """The jobs dealt out to `number`; the tries at a task stay together, for their beginnings are computed once."""
    groups = [list(group) for _, group in groupby(enumerate(jobs), lambda each: (each[1].env.key, each[1].task))]
    return [[each for group in groups[k::number] for each in group] for k in range(number)]


def said_of(
    collector: Collector, share: Share, watch: Watch | None = None
) -> Iterator[tuple[int, Trajectory] | Exception]:
    """What is to be said of a share that is played here."""
    try:
        for index, trajectory in collector.stream([job for _, job in share], watch):
            yield share[index][0], trajectory
    except Exception as error:
        yield error
