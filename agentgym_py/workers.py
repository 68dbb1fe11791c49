"""Processes that play episodes side by side.

A small model decodes no faster on two threads than on one, since most of its time goes into calls and not into sums;
two processes decode almost twice as fast as one. And a process can be ended where a world in it hangs.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import signal
import sys
from collections import Counter
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from agentgym_py.errors import ConfigError, InfrastructureError, WorkerError

if TYPE_CHECKING:
    from agentgym_py.collect import Collector, Job
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


class _Process(NamedTuple):
    process: BaseProcess
    pipe: Connection
    beat: MutableSequence[float]
    """As in `Watch`, in memory that both processes see: the other one may never answer again."""


class Workers:
    """`number` processes, each of which plays a fixed share of the jobs with a copy of the agent, on one thread.

    They start when they are first needed, and end with `close`, when an error or whoever reads a stream leaves it, or
    when this process is gone. Who plays what depends on the jobs and `number` only, so the same jobs come out the same
    to the bit, also where a process dies and its share is played again; with another `number` rows are batched
    otherwise, and sums round otherwise. An agent and its arguments are pickled, and worlds must be importable there: a
    world registered by hand in a script is not.
    """

    def __init__(self, number: int) -> None:
        if number < 1:
            raise ConfigError(f"a number of workers must be at least 1, got {number}")
        self.number = number
        self._running: dict[int, _Process] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for each in self._running.values():
            each.pipe.close()
            each.process.kill()
        for each in self._running.values():
            each.process.join()
        self._running = {}

    def worth(self, jobs: Sequence[Job]) -> bool:
        """Whether so many jobs are played sooner here than by one process."""
        return self.number > 1 and len(jobs) >= _WORTH * self.number

    def stream(self, collector: Collector, jobs: Sequence[Job]) -> Iterator[tuple[int, Trajectory]]:
        """Play every job; (number of the job, trajectory) as they end.

        Raises:
            WorkerError: processes died again and again, for example of memory, while no world was at work.
            AgentGymError, or what else the collector raised there.
        """
        alone = replace(collector, workers=None, slots=-(-collector.slots // self.number))
        busy = {k: Ongoing(alone, given) for k, given in enumerate(shares(jobs, self.number)) if given}
        try:
            for k, share in busy.items():
                self._give(k, share)
            while busy:
                yield from self._listen(busy)
        except BaseException:  # a reader who leaves the stream too: what is still to come would be taken for the next's
            self.close()
            raise

    def _listen(self, busy: dict[int, Ongoing]) -> Iterator[tuple[int, Trajectory]]:
        """What there is to hear of the busy ones; who is late is ended, who died is begun anew."""
        limit = next(iter(busy.values())).collector.step_timeout
        ready = wait([self._running[k].pipe for k in busy], limit and min(limit / 4, 1.0))
        for k, share in list(busy.items()):
            each = self._running[k]
            if each.pipe not in ready:
                since = each.beat[0]
                if limit and since and monotonic() - since > limit:
                    share.late = int(each.beat[1])
                    each.process.kill()  # the pipe's end says it
                continue
            try:
                said = each.pipe.recv()
            except (EOFError, OSError):
                each.process.join()
                del self._running[k]
                each.pipe.close()
                yield from share.died(f"({each.process.exitcode})", int(each.beat[1]) if each.beat[0] else None)
                said = None
                if share.given:
                    self._give(k, share)
                    continue
            if said is None:
                del busy[k]
            else:
                yield from share.heard(said)

    def _give(self, k: int, share: Ongoing) -> None:
        """Let process `k` play what is given; where there is none it is started."""
        if k not in self._running:
            self._running[k] = self._started()
        with suppress(ConnectionError):  # it died since: its pipe says so when it is listened to
            self._running[k].pipe.send((share.collector, share.given))

    def _started(self) -> _Process:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks and threads of torch
        ours, theirs = context.Pipe()
        beat = context.RawArray("d", 2)
        torch = sys.modules.get("torch")
        threads = torch.get_num_threads() if torch and self.number == 1 else 1
        process = context.Process(target=_work, args=(theirs, beat, threads), daemon=True)
        with _interrupts_held():
            process.start()
        theirs.close()
        return _Process(process, ours, beat)


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
        from agentgym_py.collect import failed

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


def checked_timeout(seconds: float | None) -> float | None:
    """`seconds` where it may be a `step_timeout`, else ConfigError."""
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise ConfigError(f"step_timeout must be a number of seconds above 0, got {seconds}")
    return seconds


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """A process that is started here never sees Ctrl-C: it is its parent's."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, beat: MutableSequence[float], threads: int) -> None:
    """Play what comes through the pipe until nobody is at its other end."""
    with suppress(EOFError, ConnectionError):
        while True:
            collector, share = pipe.recv()
            gc.collect()  # the last ones' model and engine, which hold each other
            if torch := sys.modules.get("torch"):  # it came with the agent
                torch.set_num_threads(threads)
            for said in said_of(collector, share, Watch(collector.step_timeout, beat)):
                pipe.send(said)
            pipe.send(None)
