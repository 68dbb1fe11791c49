"""Threads that run envs beside the loop that plays: an env that sleeps does not hold up the others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.watchdog import Watchdog

T = TypeVar("T")
Task = Callable[[EnvPool, Watchdog], T]
"""A call into an env: the pool of the env's thread and the watchdog of the episode's job are its arguments."""
_Item = tuple[int, "Future[Any]", Task[Any]]


class StepThreads:
    """`number` threads; every episode, named by its job's index, has one of them for all of its calls.

    `replace_late` and `close` never wait for an env that is at work: its thread is abandoned, and closes its own envs
    if it ever returns.
    """

    def __init__(self, number: int, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._threads = [_EnvThread(watchdog.for_thread(lane)) for lane in range(number)]
        self._lanes: dict[int, int] = {}
        """Which of the threads a live episode has."""

    @property
    def patience(self) -> float | None:
        """Seconds after which to look for late envs; None when no limit is kept here."""
        limit = self._watchdog.limit
        return None if limit is None or self._watchdog.has_parent else min(limit / 4, 1.0)

    def submit(self, index: int, task: Task[T]) -> Future[T]:
        """Run a task on the thread of this episode; a new episode gets the thread with the fewest."""
        if index not in self._lanes:
            episodes = Counter(self._lanes.values())
            self._lanes[index] = min(range(len(self._threads)), key=lambda lane: episodes[lane])
        future = Future[T]()
        self._threads[self._lanes[index]].tasks.put((index, future, task))
        return future

    def release(self, index: int) -> None:
        """Forget an episode that has ended."""
        del self._lanes[index]

    def replace_late(self) -> None:
        """Fail the tasks that are over their limit, each alone; other episodes of the thread move to a new one."""
        if self.patience is None:
            return
        for lane, thread in enumerate(self._threads):
            if thread.watchdog.is_late:
                self._threads[lane] = thread.replace_if_late(self._watchdog.for_thread(lane))

    def close(self) -> None:
        """Close the envs, each on its thread, and end the threads; do not wait for those that are at work."""
        for thread in self._threads:
            thread.is_closing = True
            thread.tasks.put(None)
        for thread in self._threads:
            while thread.running is None and not thread.closed.wait(self.patience):
                if thread.watchdog.is_late:
                    break


class _EnvThread:
    """A thread with its tasks and its envs; the successor of a late thread takes both over."""

    def __init__(
        self, watchdog: Watchdog, pool: EnvPool | None = None, tasks: SimpleQueue[_Item | None] | None = None
    ) -> None:
        self.watchdog, self.pool = watchdog, pool or EnvPool(watchdog)
        self.tasks = tasks or SimpleQueue[_Item | None]()
        self.running: _Item | None = None
        self.is_closing = False
        self.closed = threading.Event()
        self._is_abandoned = False
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="step", daemon=True).start()  # a hanging env must not hold the exit

    def replace_if_late(self, watchdog: Watchdog) -> _EnvThread:
        """Fail the running task and return the successor; return this thread when the late call has just returned."""
        with self._lock:  # meanwhile the late call may return, but not its task
            envs = self.pool.movable()  # before the check, so that the late env is still at work
            if self.running is None or not self.watchdog.is_late:
                return self
            self._is_abandoned = True
            self.running[1].set_exception(self.watchdog.error)
            return _EnvThread(watchdog, self.pool.split_off(envs, watchdog), self.tasks)

    def _run(self) -> None:
        while not self._is_abandoned and (item := self.tasks.get()) is not None and not self.is_closing:
            self.running = item
            index, future, task = item
            settle: Callable[[], None]
            try:
                settle = partial(future.set_result, task(self.pool, self.watchdog.for_job(index)))
            except BaseException as error:
                settle = partial(future.set_exception, error)
            with self._lock:
                self.running = None
                if not self._is_abandoned:
                    settle()
        self.pool.close()
        self.closed.set()
