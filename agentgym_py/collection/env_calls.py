"""Where calls into envs run: in the loop that plays, or on threads beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.step_threads import StepThreads, Task
from agentgym_py.collection.watchdog import Watchdog

T = TypeVar("T")


class EnvCalls(Protocol[T]):
    """The calls into envs of one collection; each is named by the index of its job."""

    @property
    def pending(self) -> Collection[Future[T]]:
        """Those that have not been taken."""
        ...

    @property
    def patience(self) -> float | None:
        """Seconds after which to call `fail_late`; None when no limit is kept here."""
        ...

    def start(self, index: int, task: Task[T]) -> Iterable[tuple[int, T]]:
        """Start a call; return its result if it has returned already."""
        ...

    def fail_late(self) -> None:
        """Let pending calls that are over their limit raise InfrastructureError."""
        ...

    def returned(self) -> Iterable[tuple[int, Future[T]]]:
        """Take the pending calls that have returned."""
        ...

    def finish(self, index: int, task: Task[None] | None) -> None:
        """Forget a job that has ended, after a last call whose result is not needed."""
        ...

    def close(self) -> None:
        """Close the envs."""
        ...


class CallsInLoop(Generic[T]):
    """Each call runs when it is started, so none is ever pending."""

    pending: Collection[Future[T]] = ()
    patience = None

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog, self._pool = watchdog, EnvPool(watchdog)

    def start(self, index: int, task: Task[T]) -> Iterable[tuple[int, T]]:
        """Run a call and return its result."""
        return ((index, task(self._pool, self._watchdog.for_job(index))),)

    def fail_late(self) -> None:
        """Do nothing."""

    def returned(self) -> Iterable[tuple[int, Future[T]]]:
        """Take nothing."""
        return ()

    def finish(self, index: int, task: Task[None] | None) -> None:
        """Run the last call of a job."""
        if task is not None:
            task(self._pool, self._watchdog)

    def close(self) -> None:
        """Close the envs."""
        self._pool.close()


class CallsOnThreads(Generic[T]):
    """Each call runs on the thread of its job, beside generation."""

    def __init__(self, number: int, watchdog: Watchdog) -> None:
        self._threads = StepThreads(number, watchdog)
        self._pending = dict[int, Future[T]]()

    @property
    def pending(self) -> Collection[Future[T]]:
        """Those that have not been taken."""
        return self._pending.values()

    @property
    def patience(self) -> float | None:
        """Seconds after which to look for late envs."""
        return self._threads.patience

    def start(self, index: int, task: Task[T]) -> Iterable[tuple[int, T]]:
        """Let a thread run a call."""
        self._pending[index] = self._threads.submit(index, task)
        return ()

    def fail_late(self) -> None:
        """Abandon the threads of late envs."""
        self._threads.replace_late()

    def returned(self) -> Iterator[tuple[int, Future[T]]]:
        """Take the calls that have returned or are late."""
        for index in [index for index, future in self._pending.items() if future.done()]:
            yield index, self._pending.pop(index)

    def finish(self, index: int, task: Task[None] | None) -> None:
        """Let the job's thread run its last call."""
        if task is not None:
            self._threads.submit(index, task)
        self._threads.release(index)

    def close(self) -> None:
        """Close the envs; do not wait for those at work."""
        self._threads.close()
