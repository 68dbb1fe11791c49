"""Processes that play episodes side by side.

A small model decodes no faster on two threads than on one, since most of its time goes into calls and not into sums;
two processes decode almost twice as fast as one.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from agentgym_py.errors import ConfigError, WorkerError

if TYPE_CHECKING:
    from agentgym_py.collect import Collector, Job
    from agentgym_py.trajectory import Trajectory

_WORTH = 32
"""Jobs a process from which on it is worth its while."""
Share = Sequence[tuple[int, "Job"]]


class Workers:
    """`number` processes, each of which plays a fixed share of the jobs with a copy of the agent, on one thread.

    They start when they are first needed, and end with `close`, when an error or whoever reads a stream leaves it, or
    when this process is gone. Who plays what depends on the jobs and `number` only, so the same jobs come out the same
    to the bit; with another `number` rows are batched otherwise, and sums round otherwise. An agent and its arguments
    are pickled, and worlds must be importable there: a world registered by hand in a script is not.
    """

    def __init__(self, number: int) -> None:
        if number < 1:
            raise ConfigError(f"a number of workers must be at least 1, got {number}")
        self.number = number
        self._running: list[tuple[BaseProcess, Connection]] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for process, pipe in self._running:
            pipe.close()
            process.kill()
        for process, _ in self._running:
            process.join()
        self._running = []

    def worth(self, jobs: Sequence[Job]) -> bool:
        """Whether so many jobs are played sooner here than by one process."""
        return self.number > 1 and len(jobs) >= _WORTH * self.number

    def stream(self, collector: Collector, jobs: Sequence[Job]) -> Iterator[tuple[int, Trajectory]]:
        """Play every job; (number of the job, trajectory) as they end.

        Raises:
            WorkerError: a process died, for example of memory.
            AgentGymError, or what else the collector raised there.
        """
        alone = replace(collector, workers=None, slots=-(-collector.slots // self.number))
        try:
            self._start()
            for (_, pipe), share in zip(self._running, shares(jobs, self.number), strict=True):
                pipe.send((alone, share))
            yield from self._listen()
        except BaseException:  # a reader who leaves the stream too: what is still to come would be taken for the next's
            self.close()
            raise

    def _listen(self) -> Iterator[tuple[int, Trajectory]]:
        busy = {pipe: process for process, pipe in self._running}
        while busy:
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection)
                try:
                    said = pipe.recv()
                except EOFError as error:
                    busy[pipe].join()
                    raise WorkerError(f"a process that played episodes died ({busy[pipe].exitcode})") from error
                if isinstance(said, Exception):
                    raise said
                if said is None:
                    del busy[pipe]
                else:
                    yield said

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks and threads of torch
        while len(self._running) < self.number:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
            with _interrupts_held():
                process.start()
            theirs.close()
            self._running.append((process, ours))


def shares(jobs: Sequence[Job], number: int) -> list[Share]:
    """The jobs dealt out to `number`; the tries at a task stay together, for their beginnings are computed once."""
    groups = [list(group) for _, group in groupby(enumerate(jobs), lambda each: (each[1].env.key, each[1].task))]
    return [[each for group in groups[k::number] for each in group] for k in range(number)]


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """A process that is started here never sees Ctrl-C: it is its parent's."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection) -> None:
    """Play what comes through the pipe until nobody is at its other end."""
    import torch

    torch.set_num_threads(1)
    with suppress(EOFError, ConnectionError):
        while True:
            collector, share = pipe.recv()
            _play(collector, share, pipe)


def _play(collector: Collector, share: Share, pipe: Connection) -> None:
    numbers = [number for number, _ in share]
    try:
        for index, trajectory in collector.stream([job for _, job in share]):
            pipe.send((numbers[index], trajectory))
        pipe.send(None)
    except ConnectionError:
        raise
    except Exception as error:
        pipe.send(error)
