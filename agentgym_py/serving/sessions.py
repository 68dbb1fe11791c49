"""The sessions of a server: one environment each, used by one request at a time, with limits, closed when idle.

The event loop keeps the table; environments run in a few threads, so that a slow one does not delay the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from agentgym_py.checks import is_path, parameters_of
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.registration import env_id, short_name
from agentgym_py.errors import AgentGymError, ConfigError, UnknownNameError, did_you_mean
from agentgym_py.serving.calls import CALLS, where
from agentgym_py.serving.protocol import GONE, VERSION, Change, Make, read, written

ALLOWED = ("difficulty", "max_steps", "split")
"""Arguments of an environment that clients may always choose."""
_KEY = re.compile(r"[A-Za-z0-9_-]{16,64}")
_SWEEP = 5.0
"""Largest number of seconds between two looks for idle sessions."""
_LOG = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server."""

    sessions: int = 1000
    """Sessions at once."""
    total: int | None = None
    """Sessions until the server ends; null: any number."""
    changes: int = 1_000_000
    """Steps, resets and restores of a session; a client of this package then continues in a new one."""
    request_bytes: int = 1 << 20
    """Longest request."""
    idle: float = 600.0
    """Seconds without a request after which a session is closed."""
    longest: float = 30.0
    """Seconds after which a call of an environment counts as hanging, and its session is closed."""
    threads: int = 8
    """Threads in which environments run; more help only if environments wait."""

    def __post_init__(self) -> None:
        for each in fields(Limits):
            value = getattr(self, each.name)
            if value is not None and not value > 0:
                raise ConfigError(f"{each.name} must be above 0, got {value}")


class RefusedError(AgentGymError):
    """A request that the server refuses, with the HTTP status and the error's name for clients."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class Offer:
    """An environment that may be made."""

    def __init__(self, spec: EnvSpec, allow: Sequence[str]) -> None:
        with closing(spec.make()) as env:
            world: type = type(env)
        taken = parameters_of(world)
        self.spec, self.id = spec, env_id(spec.name)
        self.arguments = [name for name in (*ALLOWED, *allow) if name in taken and name not in spec.kwargs]
        for name in self.arguments:
            if is_path(taken[name]):
                raise ConfigError(f"{name} of {spec.name} is a file or folder of this machine: no client may choose it")

    def with_arguments(self, kwargs: Mapping[str, Any]) -> EnvSpec:
        """The environment with the arguments of a client.

        Raises:
            ConfigError: an argument that this server does not leave to clients.
        """
        for name, value in kwargs.items():
            if name in self.spec.kwargs:
                if value != self.spec.kwargs[name]:
                    raise ConfigError(f"{name} of {self.spec.name} is fixed by this server to another value")
            elif name not in self.arguments:
                there_are = did_you_mean(name, self.arguments, "It leaves")
                raise ConfigError(f"This server leaves no argument {name!r} of {self.spec.name} to clients.{there_are}")
        return EnvSpec(self.spec.name, {**self.spec.kwargs, **kwargs})


@dataclass(slots=True)
class Session:
    """An environment, and what was done with it."""

    made_by: bytes
    """The digest of the request that made it."""
    spec: EnvSpec
    env: TextEnv | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    used: float = field(default_factory=time.monotonic)
    """Time of the last request."""
    changes: int = 0
    last: tuple[str, bytes, bytes] = ("", b"", b"")
    """The last change: call, digest of the request, answer."""
    hangs: bool = False
    """A thread is still in its environment, which is closed when that returns."""


class Sessions:
    """The table of sessions; its coroutines belong to one event loop."""

    def __init__(
        self, worlds: Sequence[EnvSpec], limits: Limits, *, experts: bool = False, allow: Sequence[str] = ()
    ) -> None:
        self.limits, self.experts = limits, experts
        self.offers = {offer.id: offer for offer in (Offer(spec, allow) for spec in worlds)}
        self.made = self.expired = self.running = self.stuck = 0
        self._sessions: dict[str, Session] = {}
        self._threads = ThreadPoolExecutor(limits.threads, "world")
        self._free = asyncio.Semaphore(limits.threads)
        self._closing = asyncio.Semaphore(max(1, limits.threads // 2))  # in threads: others get answers meanwhile
        self._tasks: set[asyncio.Task[None]] = set()

    def state(self) -> dict[str, Any]:
        """What a client may want to know of the server."""
        worlds = [{"id": each.id, "arguments": each.arguments} for each in self.offers.values()]
        return {
            "protocol": VERSION, "worlds": worlds, "experts": self.experts, "limits": asdict(self.limits),
            "sessions": len(self._sessions), "made": self.made, "expired": self.expired, "stuck": self.stuck,
        }  # fmt: skip

    @property
    def well(self) -> bool:
        """Whether a thread is free of hanging environments."""
        return self.stuck < self.limits.threads

    async def make(self, key: str, raw: bytes) -> bytes:
        """Make a session under the name that the client chose; the same request again finds it made."""
        if not _KEY.fullmatch(key):
            raise ConfigError("a session's name is 16 to 64 letters, digits, - and _; let it be random")
        frozen = None
        if key not in self._sessions and (fork := read(Make, raw).fork) is not None:
            origin = self._find(fork)
            frozen = await self._run(fork, origin, lambda: _frozen(origin))
        session = self._sessions.get(key)  # the same request may have come again meanwhile
        if session is None:
            session = self._new(key, raw, frozen[0] if frozen else None)
            try:
                return await self._run(key, session, lambda: _made(key, session, self.limits, frozen))
            except BaseException:
                self._drop(key, session)
                self.made -= 1
                raise
        if session.made_by != _digest(raw):
            raise RefusedError(409, "Conflict", "there is another session of this name; choose a new random one")
        return await self._run(key, session, lambda: _card(key, session, self.limits))

    async def call(self, key: str, name: str, raw: bytes) -> bytes:
        """Do a call of a session."""
        session = self._find(key)
        if name not in CALLS:
            raise UnknownNameError(f"No call {name!r}." + did_you_mean(name, CALLS, "There are"))
        if CALLS[name].tells and not self.experts:
            raise ConfigError("this server keeps what its experts know; it tells when started with --experts true")
        try:
            return await self._run(key, session, lambda: _answered(session, name, raw, self.limits.changes))
        except RefusedError as refused:
            if refused.status == 410:  # used up
                self.close(key)
            raise

    def close(self, key: str) -> bool:
        """End a session, and close its environment as soon as possible; returns whether the session existed."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._later(self._end(session))
        return session is not None

    async def sweep(self) -> None:
        """Close idle sessions, until cancelled."""
        while True:
            await asyncio.sleep(min(_SWEEP, self.limits.idle / 4))
            since = time.monotonic() - self.limits.idle
            idle = [key for key, each in self._sessions.items() if each.used < since and not each.lock.locked()]
            self.expired += sum(map(self.close, idle))

    async def end(self) -> None:
        """Close every session."""
        for key in list(self._sessions):
            self.close(key)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.limits.longest)
        for task in self._tasks:
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _new(self, key: str, raw: bytes, spec: EnvSpec | None) -> Session:
        """A session that has its place, but no environment yet; `spec` is that of a forked session."""
        if spec is None:
            asked = read(Make, raw)
            spec = self._offer(str(asked.env)).with_arguments(asked.kwargs)
        if len(self._sessions) >= self.limits.sessions:
            told = f"all {self.limits.sessions} sessions are in use; close some, or start the server with --sessions"
            raise RefusedError(503, "Full", told)
        if self.made >= (self.limits.total or self.made + 1):
            raise RefusedError(403, "UsedUp", f"this server has made its {self.limits.total} sessions (--total)")
        self.made += 1
        session = self._sessions[key] = Session(_digest(raw), spec)
        return session

    def _drop(self, key: str, session: Session) -> None:
        """Hide a session from all further requests."""
        if self._sessions.get(key) is session:
            del self._sessions[key]

    def _offer(self, name: str) -> Offer:
        by_name = self.offers | {short_name(key): each for key, each in self.offers.items()}
        if name not in by_name:
            short = map(short_name, self.offers)
            raise UnknownNameError(f"No world {name!r} on this server." + did_you_mean(name, short, "It serves"))
        return by_name[name]

    def _find(self, key: str) -> Session:
        if key not in self._sessions:
            raise RefusedError(404, GONE, f"no such session; one that is idle for {self.limits.idle:g} s is closed")
        return self._sessions[key]

    async def _run(self, key: str, session: Session, work: Callable[[], T]) -> T:
        """Run work of a session in a thread, after the work of others on it."""
        async with session.lock:
            if self._find(key) is not session:
                raise RefusedError(404, GONE, "this session was closed and made again meanwhile")
            if not self.well:
                raise RefusedError(503, "Stuck", "a world hangs in every thread of this server; start it again")
            session.used = time.monotonic()
            future = await self._in_thread(work)
            session.used = time.monotonic()
            if future.done():
                return await self._said(key, session, future)
            self._drop(key, session)
            session.hangs = True
            future.add_done_callback(lambda _: self._back(session))
            told = f"{session.spec.name} did not answer in {self.limits.longest:g} s, and its session is closed"
            raise RefusedError(504, "WorldHangs", told)

    async def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Wait for work. If it hangs, its thread is stuck: it cannot be stopped, but may end by itself.

        Raises:
            RefusedError: no thread was free for as long as a call may take.
        """
        try:
            await asyncio.wait_for(self._free.acquire(), self.limits.longest)
        except TimeoutError:
            told = f"no thread was free for {self.limits.longest:g} s (--threads {self.limits.threads})"
            raise RefusedError(503, "Busy", told) from None
        future = asyncio.get_running_loop().run_in_executor(self._threads, _guarded, work)
        self.running += 1
        future.add_done_callback(self._done)
        await asyncio.wait({future}, timeout=self.limits.longest)
        if not future.done():
            self.stuck += 1
            future.add_done_callback(self._unstuck)
        return future

    def _done(self, ended: asyncio.Future[Any]) -> None:
        self.running -= 1
        self._free.release()
        if not ended.cancelled():
            ended.exception()  # asyncio complains if its result is never read

    def _unstuck(self, _: asyncio.Future[Any]) -> None:
        self.stuck -= 1

    def _back(self, session: Session) -> None:
        session.hangs = False
        self._later(self._end(session))

    async def _end(self, session: Session) -> None:
        """Close the environment of a session that is gone; an error in closing is ignored."""
        async with session.lock, self._closing:
            env = None if session.hangs else session.env
            while env is not None:
                with suppress(RefusedError):  # threads are busy
                    await asyncio.wait({await self._in_thread(env.close)})  # one that hangs keeps others from hanging
                    session.env = env = None

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)  # the loop itself does not keep a reference
        task.add_done_callback(self._tasks.discard)

    async def _said(self, key: str, session: Session, future: asyncio.Future[T]) -> T:
        try:
            return future.result()
        except AgentGymError:
            raise
        except Exception as error:  # a foreign env may raise anything; its state is then unknown
            self._drop(key, session)
            self._later(self._end(session))
            _LOG.exception("%s failed", session.spec.name)
            told = f"{session.spec.name} failed, and its session is closed: {type(error).__name__}"
            raise RefusedError(500, "WorldFailed", told) from error


# ------------------------------------------------------------------------------------------------ what threads do


def _guarded(work: Callable[[], T]) -> T:
    """Wrap an error that would end the server's loop, or that a future does not accept."""
    try:
        return work()
    except BaseException as error:
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise
        raise RuntimeError(repr(error)) from error


def _frozen(session: Session) -> tuple[EnvSpec, int, bytes]:
    """What a fork is made from: the environment, its step limit, the snapshot."""
    return session.spec, _env(session).max_steps, _env(session).snapshot()


def _made(key: str, session: Session, limits: Limits, frozen: tuple[EnvSpec, int, bytes] | None) -> bytes:
    """Make the environment; for a fork, in the state of the other."""
    env = session.env = session.spec.make()
    try:
        env.render_mode = "ansi"  # so that it gives its last observation
        if frozen:
            _, env.max_steps, snapshot = frozen
            env.restore(snapshot)
        return _card(key, session, limits)
    except BaseException:
        session.env = None
        with suppress(Exception):
            env.close()
        raise


def _card(key: str, session: Session, limits: Limits) -> bytes:
    """What a client must know of a session's environment."""
    env = _env(session)
    about = {
        "session": key, "env": env_id(session.spec.name), "name": env.name, "version": env.version,
        "rules": dict(env.rules), "random_baseline": env.random_baseline, "stops_at_end": env.stops_at_end,
        "max_steps": env.max_steps,
        "split": env.split, "request_bytes": limits.request_bytes, "changes": session.changes,
    }  # fmt: skip
    return written(about | where(env))


def _answered(session: Session, name: str, raw: bytes, most: int) -> bytes:
    asked: Any = read(CALLS[name].asks, raw)
    if not isinstance(asked, Change):
        return written(CALLS[name].answer(_env(session), asked))
    if asked.n == session.changes and session.last[:2] == (name, _digest(raw)):
        return session.last[2]
    if asked.n != session.changes + 1:
        told = f"this session has had {session.changes} changes, the next is n = {session.changes + 1}, not {asked.n}"
        raise RefusedError(409, "OutOfOrder", told + ": somebody else uses it, or an answer was lost")
    if asked.n > most:
        raise RefusedError(410, GONE, f"this session has had its {most} changes (--changes); make another one")
    answer = written(CALLS[name].answer(_env(session), asked))
    session.changes, session.last = asked.n, (name, _digest(raw), answer)
    return answer


def _digest(request: bytes) -> bytes:
    """A digest, so that long requests are not kept."""
    return hashlib.sha256(request).digest()


def _env(session: Session) -> TextEnv:
    assert session.env is not None, "a session is found only after it is made"
    return session.env
