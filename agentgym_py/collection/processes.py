"""Processes that play episodes side by side.

A small model decodes no faster on two threads than on one, because most of its time goes into calls and not into sums;
two processes decode almost twice as fast. And a process can be killed when an env in it hangs.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from typing import NamedTuple, Self, cast

from agentgym_py.agents import Agent
from agentgym_py.collection.episode import EpisodeLoop
from agentgym_py.collection.executor import MIN_JOBS_PER_WORKER, Assignment, Message, deal, run_share
from agentgym_py.collection.job import Job
from agentgym_py.collection.play_config import PlayConfig
from agentgym_py.collection.watchdog import EXHAUSTED, MAX_LANES, Watchdog, read_beats
from agentgym_py.errors import ConfigError, WorkerError
from agentgym_py.escapes import escaped_output
from agentgym_py.policy.memory import release_memory, without_collections
from agentgym_py.trajectory import Trajectory

_PATIENCE = 1.0
"""Seconds after which to look whether a silent process lives."""
_OOM_SCORE = 500
"""Added to a worker's score by which Linux chooses what to kill when memory is full."""


class _Process(NamedTuple):
    process: BaseProcess
    pipe: Connection
    beats: MutableSequence[float]
    """As in `Watchdog`, in memory that both processes see, because a hanging process cannot answer."""

    def receive(self) -> Message | None:
        """Return the next message, None at the end of a share.

        Raises:
            EOFError, OSError: the process has died.
        """
        if not self.process.is_alive() and not self.pipe.poll():  # a process that an env forked keeps the pipe open
            raise EOFError
        return cast("Message | None", self.pipe.recv())

    @property
    def death(self) -> str:
        """How the process died, for messages."""
        status = self.process.exitcode
        if status == EXHAUSTED:
            return "(it used up all file descriptors)"
        return f"({status})" if status is None or status < 0 else f"(exit status {status})"

    def at_work(self, assignment: Assignment) -> list[tuple[float, int]]:
        """List (start, place of the job) of the calls into envs that run now."""
        return read_beats(self.beats, assignment.config.step_threads + 1)


class Workers:
    """`number` processes, each of which plays a fixed share of the jobs with a copy of the agent, on one torch thread.

    They start when they are first needed. They end with `close`, after an error, when the reader leaves a stream, or
    when this process is gone. Jobs are dealt out by `number` alone, so the same jobs give bit-identical trajectories,
    also when a process dies and its share is played again. Another `number` batches rows otherwise, so sums round
    otherwise. Agents and arguments are pickled, and envs must be importable: one registered by hand in a script is not.
    """

    def __init__(self, number: int) -> None:
        if number < 1:
            raise ConfigError(f"a number of workers must be at least 1, got {number}")
        self.number = number
        self._running: dict[int, _Process] = {}
        self._is_streaming = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the processes, whatever they are doing."""
        for worker in self._running.values():
            worker.pipe.close()
            worker.process.kill()
        for worker in self._running.values():
            worker.process.join()
        self._running = {}

    def is_worthwhile(self, jobs: Sequence[Job]) -> bool:
        """Whether there are enough jobs for several processes."""
        return self.number > 1 and len(jobs) >= MIN_JOBS_PER_WORKER * self.number

    def stream(self, agent: Agent, config: PlayConfig, jobs: Sequence[Job]) -> Iterator[tuple[int, Trajectory]]:
        """Play every job; yield (index of the job, trajectory) as episodes end.

        Raises:
            WorkerError: another stream of these workers is open, or processes died again and again, for example of
                memory, while no env was at work.
            AgentGymError, or whatever else was raised there.
        """
        if self._is_streaming:
            raise WorkerError("these workers still play other jobs: read that stream to its end, or close it, first")
        local = config.per_process(self.number)
        busy = {k: Assignment(agent, local, share) for k, share in enumerate(deal(jobs, self.number)) if share}
        self._is_streaming = True
        try:
            for k, assignment in busy.items():
                self._send(k, assignment)
            while busy:
                yield from self._listen(busy, local.step_timeout)
        except BaseException:  # also when the reader leaves: messages on their way must not reach the next stream
            self.close()
            raise
        finally:
            self._is_streaming = False

    def _listen(self, busy: dict[int, Assignment], limit: float | None) -> Iterator[tuple[int, Trajectory]]:
        """Yield what the busy workers report; kill a worker with a late env, replace one that died."""
        ready = wait([self._running[k].pipe for k in busy], min(limit / 4, _PATIENCE) if limit else _PATIENCE)
        for k, assignment in list(busy.items()):
            worker = self._running[k]
            if worker.pipe not in ready and worker.process.is_alive():
                since, at = min(worker.at_work(assignment), default=(0.0, 0))
                if limit and since and monotonic() - since > limit:
                    assignment.late = at
                    worker.process.kill()  # then its pipe ends
                continue
            try:
                message = worker.receive()
            except (EOFError, OSError):
                worker.process.join()
                del self._running[k]
                worker.pipe.close()
                at_work = [at for _, at in worker.at_work(assignment)]
                yield from assignment.worker_died(worker.death, at_work)
                if assignment.share or assignment.has_next():
                    self._send(k, assignment)
                else:
                    del busy[k]
                continue
            if message is not None:
                yield from assignment.receive(message)
            elif assignment.has_next():
                self._send(k, assignment)
            else:
                del busy[k]

    def _send(self, k: int, assignment: Assignment) -> None:
        """Let worker `k` play what is assigned; start it when it does not run."""
        if k not in self._running:
            self._running[k] = self._start()
        with suppress(ConnectionError):  # it has died: reading its pipe tells
            self._running[k].pipe.send((assignment.agent, assignment.config, assignment.share))

    def _start(self) -> _Process:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks and threads of torch
        ours, theirs = context.Pipe()
        beats = context.RawArray("d", 2 * (MAX_LANES + 1))
        torch = sys.modules.get("torch")
        threads = torch.get_num_threads() if torch and self.number == 1 else 1
        process = context.Process(target=_work, args=(theirs, beats, threads), daemon=True)
        with _interrupts_blocked():
            process.start()
        theirs.close()
        return _Process(process, ours, beats)


def _be_killed_first() -> None:
    """When an env fills the memory, let Linux end this process, and not its parent or the user's other programs."""
    with suppress(OSError):  # no such file elsewhere
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))


def stream_near(
    agent: Agent, config: PlayConfig, jobs: Sequence[Job], beside: Workers, has_died: bool = False
) -> Iterator[tuple[int, Trajectory]]:
    """Play in this process, or in the worker beside it when an env must be stopped or may have ended this process."""
    if (config.step_timeout is not None or has_died) and jobs:
        return beside.stream(agent, config, jobs)
    return EpisodeLoop(agent, config).stream(jobs)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes that never see Ctrl-C, which is for their parent; Windows has no such mask."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, beats: MutableSequence[float], threads: int) -> None:
    """Play the shares that come through the pipe until its other end is closed."""
    _be_killed_first()
    with escaped_output(), suppress(EOFError, ConnectionError):
        while True:
            with without_collections():  # the first agent brings its libraries
                agent, config, share = pipe.recv()
            release_memory()  # of the last model and engine
            if torch := sys.modules.get("torch"):  # it came with the agent
                torch.set_num_threads(threads)
            for message in run_share(agent, config, share, Watchdog(config.step_timeout, beats)):
                pipe.send(message)
            pipe.send(None)
