"""Threads that run envs beside the loop that plays: an env that sleeps does not hold up the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from agentgym_py.agents import Episode
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
        self._home: dict[int, _EnvThread] = {}

    @property
    def patience(self) -> float | None:
        """Seconds after which to look for late envs; None when no limit is kept here."""
        limit = self._watchdog.limit
        return None if limit is None or self._watchdog.has_parent else min(limit / 4, 1.0)

    def submit(self, index: int, task: Task[T]) -> Future[T]:
        """Run a task on the thread of this episode; a new episode gets the thread with the fewest."""
        if index not in self._home:
            self._home[index] = min(self._threads, key=lambda thread: len(thread.episodes))
            self._home[index].episodes.add(index)
        future = Future[T]()
        self._home[index].tasks.put((index, future, task))
        return future

    def release(self, index: int) -> None:
        """Forget an episode that has ended."""
        self._home.pop(index).episodes.discard(index)

    def replace_late(self, episodes: Mapping[int, Episode]) -> None:
        """Fail the tasks that are over their limit, each alone; other episodes of the thread move to a new one.

        Args:
            episodes: The episodes that have begun, by index.
        """
        if self.patience is None:
            return
        for place, thread in enumerate(self._threads):
            if not thread.watchdog.is_late:
                continue
            fresh = _EnvThread(self._watchdog.for_thread(place))
            late = thread.abandon(fresh)
            if late is None:  # it returned just now
                fresh.tasks.put(None)
                continue
            self._threads[place] = fresh
            for index in thread.episodes - {late}:
                self._home[index] = fresh
                fresh.episodes.add(index)
                if index in episodes:
                    fresh.pool.adopt(episodes[index].env, thread.pool)

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
    """A thread with its tasks and its envs."""

    def __init__(self, watchdog: Watchdog) -> None:
        self.watchdog, self.pool = watchdog, EnvPool(watchdog)
        self.tasks = SimpleQueue[_Item | None]()
        self.episodes = set[int]()
        """The live episodes that belong to this thread."""
        self.running: _Item | None = None
        self.is_closing = False
        self.closed = threading.Event()
        self._successor: _EnvThread | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="step", daemon=True).start()  # a hanging env must not hold the exit

    def abandon(self, successor: _EnvThread) -> int | None:
        """Fail the running task and hand the others over; return its episode, or None when the task has returned."""
        with self._lock:
            if self.running is None:
                return None
            index, future, _ = self.running
            self._successor = successor
        _settle(partial(future.set_exception, self.watchdog.error))
        with suppress(Empty):
            while True:
                successor.tasks.put(self.tasks.get_nowait())
        return index

    def _run(self) -> None:
        while self._successor is None and (item := self.tasks.get()) is not None and not self.is_closing:
            self.running = item
            index, future, task = item
            settle: Callable[[], None]
            try:
                settle = partial(future.set_result, task(self.pool, self.watchdog.for_job(index)))
            except BaseException as error:
                settle = partial(future.set_exception, error)
            with self._lock:
                self.running = None
            _settle(settle)
        self.pool.close()
        self.closed.set()


def _settle(settle: Callable[[], None]) -> None:
    """Set a future's outcome, unless the task was given up as late."""
    with suppress(InvalidStateError):
        settle()
