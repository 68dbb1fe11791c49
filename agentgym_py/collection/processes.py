"""Processes that play episodes side by side.

A small model decodes no faster on two threads than on one, since most of its time goes into calls and not into sums;
two processes decode almost twice as fast as one. And a process can be ended where a world in it hangs.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import sys
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Self

from agentgym_py.collection.executor import _WORTH, Ongoing, said_of, shares
from agentgym_py.collection.watchdog import Watch
from agentgym_py.errors import ConfigError

if TYPE_CHECKING:
    from agentgym_py.collection import Collector, Job
    from agentgym_py.trajectory import Trajectory


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
