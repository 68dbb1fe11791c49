"""Threads in which a server runs worlds. None can be stopped, so a caller waits only for so long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from agentgym_py.errors import AgentGymError

T = TypeVar("T")


class NoFreeThreadError(AgentGymError):
    """No thread was free for as long as a call may take."""


class WorldThreads:
    """A number of threads, and what they do now. Its coroutines belong to one event loop.

    Args:
        threads: Number of calls at the same time.
        longest: Seconds after which a call counts as hanging.
    """

    def __init__(self, threads: int, longest: float) -> None:
        self.threads, self.longest = threads, longest
        self.busy = self.stuck = 0
        """Number of calls that run, and of those that hang."""
        self._free = asyncio.Semaphore(threads)

    @property
    def is_healthy(self) -> bool:
        """Whether a thread is free of hanging worlds."""
        return self.stuck < self.threads

    async def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call, and wait for it. The future of one that hangs is not done; its thread may return later.

        Raises:
            NoFreeThreadError: all threads were busy.
        """
        try:
            await asyncio.wait_for(self._free.acquire(), self.longest)
        except TimeoutError:
            raise NoFreeThreadError(f"no thread was free for {self.longest:g} s") from None
        call = in_daemon(work)
        self.busy += 1
        call.add_done_callback(self._returned)
        await asyncio.wait({call}, timeout=self.longest)
        if not call.done():
            self.stuck += 1
            call.add_done_callback(self._unstuck)
        return call

    def _returned(self, _: asyncio.Future[T]) -> None:
        self.busy -= 1
        self._free.release()

    def _unstuck(self, _: asyncio.Future[T]) -> None:
        self.stuck -= 1


def in_daemon(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run a call in a thread of its own, which does not keep the process alive.

    The threads of `asyncio.to_thread` are few, so that some worlds that hang would block all others, and the process
    would wait for them at its end.
    """
    loop = asyncio.get_running_loop()
    call: asyncio.Future[T] = loop.create_future()
    call.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # or asyncio may complain: never read

    def end(settle: Callable[[Any], None], outcome: Any) -> None:
        if not call.done():  # it may be cancelled
            settle(outcome)

    def target() -> None:
        settle: Callable[[Any], None]
        outcome: Any
        try:
            settle, outcome = call.set_result, work()
        except BaseException as error:  # a future refuses StopIteration; another one would end the event loop
            is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            settle, outcome = call.set_exception, error if is_plain else RuntimeError(repr(error))
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(end, settle, outcome)

    threading.Thread(target=target, name="world", daemon=True).start()
    return call
