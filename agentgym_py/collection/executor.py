"""What every executor needs: shares of the jobs, and what happens to a share when its worker dies."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice

from agentgym_py.agents import Agent
from agentgym_py.collection.episode import EpisodeLoop, failed_trajectory
from agentgym_py.collection.job import Job
from agentgym_py.collection.play_config import PlayConfig
from agentgym_py.collection.watchdog import Watchdog
from agentgym_py.env.tracebacks import error_text
from agentgym_py.errors import InfrastructureError, WorkerError
from agentgym_py.trajectory import Trajectory

MIN_JOBS_PER_WORKER = 32
"""Jobs per process from which several processes are worth starting."""
Share = Sequence[tuple[int, Job]]
"""Jobs of one worker, each with its index among all jobs."""
Message = tuple[int, Trajectory] | Exception
"""What a worker reports: (index of the job, trajectory), or the error that ended its share."""


@dataclass(slots=True)
class Assignment:
    """A share of the jobs, played by a worker that may die."""

    agent: Agent
    config: PlayConfig
    share: Share
    """The jobs that the worker has to play now."""
    late: int | None = None
    """Place in `share` of the job whose env was late, so that the worker was killed."""
    finished: set[int] = field(default_factory=set)
    """Indices of the jobs that are over."""
    deaths: Counter[int | None] = field(default_factory=Counter)
    """Deaths of workers by the job that was at work, None when no job was."""
    _later: list[tuple[PlayConfig, Share]] = field(default_factory=list)

    def receive(self, message: Message) -> Iterator[tuple[int, Trajectory]]:
        """Yield a trajectory unless it is a repetition; raise an error."""
        if isinstance(message, Exception):
            raise message
        if message[0] not in self.finished:
            self.finished.add(message[0])
            yield message

    def has_next(self) -> bool:
        """Move on to the part of the share that comes next; False when there is none."""
        if not self._later:
            return False
        self.config, self.share = self._later.pop(0)
        return True

    def worker_died(self, how: str, at_work: Sequence[int] = ()) -> Iterator[tuple[int, Trajectory]]:
        """Decide what a new worker has to play; `share` is empty when that is nothing.

        A death is counted against the job whose env was at work, and a job without retries left is given up. When
        several were at work (`step_threads`) these jobs are played alone first, one after another, because then the env
        that crashes its process is found. An agent with weights plays its whole share again, because what is batched
        together decides how sums round. After a late env only unfinished jobs are played, because there may be many.

        Args:
            how: How it ended, for messages.
            at_work: Places in `share` of the jobs whose envs were at work.

        Raises:
            WorkerError: workers died too often while no env was at work.
        """
        if all(index in self.finished for index, _ in self.share):  # envs were being closed
            self.share, self.late = [], None
            return
        suspects = [self.share[at][0] for at in (at_work if self.late is None else [self.late])]
        suspects = [index for index in suspects if index not in self.finished]  # others ended at this very moment
        if len(suspects) > 1:
            self._isolate(suspects)
            return
        if self.late is None or suspects:
            yield from self._count_death(suspects[0] if suspects else None, how)
        if self.late is not None or self.agent.policy_digest is None:
            self.share = self._unfinished()
        else:
            self.share = [(index, job) for index, job in self.share if self.deaths[index] <= self.config.retries]
            if not self._unfinished():
                self.share = []
        self.late = None

    def _unfinished(self) -> Share:
        return [(index, job) for index, job in self.share if index not in self.finished]

    def _isolate(self, suspects: Sequence[int]) -> None:
        rest = [(index, job) for index, job in self._unfinished() if index not in suspects]
        if rest:
            self._later.insert(0, (self.config, rest))
        self.share = [(index, job) for index, job in self.share if index in suspects]
        self.config = replace(self.config, step_threads=0)

    def _count_death(self, index: int | None, how: str) -> Iterator[tuple[int, Trajectory]]:
        self.deaths[index] += 1
        if self.deaths[index] > self.config.retries:
            yield self._give_up(index, how)

    def _give_up(self, index: int | None, how: str) -> tuple[int, Trajectory]:
        """Return what stands for a job at which workers died too often."""
        if index is None:
            raise WorkerError(f"a process that played episodes died {how}, {self.deaths[index]} times")
        limit = self.config.step_timeout
        why = f"took its process along {how}" if self.late is None else f"was not back after {limit:g} s"
        self.finished.add(index)
        error = repr(InfrastructureError(f"the world {why}"))
        return index, failed_trajectory(self.agent, self.config, dict(self.share)[index], error)


def last_at_end(results: Iterator[tuple[int, Trajectory]], number: int) -> Iterator[tuple[int, Trajectory]]:
    """Yield `number` results; the last one when their stream has ended, because its reader may never ask for more."""
    yield from islice(results, number - 1)
    yield from list(results)


def deal(jobs: Sequence[Job], number: int) -> list[Share]:
    """Deal the jobs out to `number` workers; attempts at a task stay together, because they share their start."""
    groups = [list(group) for _, group in groupby(enumerate(jobs), lambda job: (job[1].env.key, job[1].task))]
    return [[numbered for group in groups[k::number] for numbered in group] for k in range(number)]


def run_share(agent: Agent, config: PlayConfig, share: Share, watchdog: Watchdog | None = None) -> Iterator[Message]:
    """Play a share in this process and yield what to report."""
    try:
        for at, trajectory in EpisodeLoop(agent, config).stream([job for _, job in share], watchdog):
            yield share[at][0], trajectory
    except Exception as error:
        yield portable(error)


def portable(error: Exception) -> Exception:
    """Return an error that another process can read; classes of an agent or an env may not be."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  # what was pickled here
    except Exception:  # `pickle` calls methods of the class, which may raise anything
        return WorkerError(f"a process that played episodes raised {error_text(error)}")
    return error
