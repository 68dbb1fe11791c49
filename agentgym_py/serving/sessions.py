"""The sessions of a server: one environment each, one request at a time, with limits, closed when idle.

The event loop owns the table. Environments run in a few threads, so that a slow one does not delay the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from agentgym_py.checks import is_path, parameters_of
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.base import NOT_IN_SNAPSHOTS, as_json, changed_arguments
from agentgym_py.env.registration import env_id, short_name
from agentgym_py.errors import AgentGymError, ConfigError, UnknownNameError, did_you_mean
from agentgym_py.http_client import MAX_ANSWER
from agentgym_py.serving.calls import CALLS, episode_state
from agentgym_py.serving.protocol import SESSION_GONE, VERSION, Change, Limit, Make, decode, encode
from agentgym_py.serving.world_threads import NoFreeThreadError, WorldThreads

ALLOWED = ("difficulty", "max_steps", "split")
"""Arguments of an environment that clients may always set."""
_KEY = re.compile(r"[A-Za-z0-9_-]{16,64}")
_MAX_KEPT = 64 << 10
"""Longest answer that a session keeps for a repeated request."""
_MAX_NAME = 100
"""Characters of a client's names in error messages."""
_SWEEP = 5.0
"""Longest time between two checks for idle sessions, in seconds."""
_CLOSE_SECONDS = 1.0
"""Seconds for which a thread closes environments before it serves other calls again."""
_LOG = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server."""

    sessions: int = 1000
    """Number of simultaneous sessions."""
    total: int | None = None
    """Total number of sessions until the server ends; null: no limit."""
    changes: int = 1_000_000
    """Steps, resets and restores per session; clients of this package then continue in a new one."""
    request_bytes: int = 1 << 20
    """Longest request in bytes."""
    idle: float = 600.0
    """Seconds without a request after which a session is closed."""
    longest: float = 30.0
    """Seconds after which a call of an environment counts as hanging, and its session is closed."""
    threads: int = 8
    """Threads that run environments; more help only if environments wait."""

    def __post_init__(self) -> None:
        for limit in fields(Limits):
            value = getattr(self, limit.name)
            if value is not None and not value > 0:
                raise ConfigError(f"{limit.name} must be above 0, got {value}")


class RefusedRequestError(AgentGymError):
    """The server refuses a request; holds the HTTP status and the error name for clients."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


def _is_equal(sent: Any, fixed: Any) -> bool:
    """Return whether an argument that a client sent, as JSON, is the server's."""
    if sent == fixed:
        return True
    with suppress(TypeError, ValueError):  # not every argument is plain data
        return bool(sent == as_json(fixed))
    return False


class Offer:
    """An environment that clients can open sessions of."""

    def __init__(self, spec: EnvSpec, allow: Sequence[str]) -> None:
        with closing(spec.make()) as env:
            env_class: type = type(env)
        parameters = parameters_of(env_class)
        self.spec, self.id = spec, env_id(spec.name)
        self.arguments = [name for name in (*ALLOWED, *allow) if name in parameters and name not in spec.kwargs]
        self.fixed = list(changed_arguments(env_class, spec.kwargs, NOT_IN_SNAPSHOTS))
        """The arguments that this server fixes and on which episodes depend."""
        for name in self.arguments:
            if is_path(parameters[name]):
                raise ConfigError(
                    f"--allow: {name} of {spec.name} is a file or folder of this machine, so clients may not set it"
                )

    def with_arguments(self, kwargs: Mapping[str, Any]) -> EnvSpec:
        """Return the spec with the arguments of a client.

        Raises:
            ConfigError: clients may not set an argument.
        """
        for name, value in kwargs.items():
            if name in self.spec.kwargs:
                if not _is_equal(value, self.spec.kwargs[name]):
                    raise ConfigError(f"{name} of {self.spec.name} is fixed by this server to another value")
            elif name not in self.arguments:
                name = name[:_MAX_NAME]
                hint = did_you_mean(name, self.arguments, "They may set")
                raise ConfigError(f"Clients may not set the argument {name!r} of {self.spec.name}.{hint}")
        return EnvSpec(self.spec.name, {**self.spec.kwargs, **kwargs})

    def require_limit(self, max_steps: int) -> None:
        """Refuse a step limit above the one that this server fixes."""
        fixed = self.spec.kwargs.get("max_steps")
        if fixed is not None and max_steps > fixed:
            raise ConfigError(f"max_steps of {self.spec.name} is fixed by this server: it is {fixed}, not {max_steps}")


@dataclass(slots=True)
class Session:
    """An environment and its last change."""

    request_digest: bytes
    """Digest of the request that opened it."""
    offer: Offer
    spec: EnvSpec
    """The offer's spec, with the arguments of the client."""
    env: TextEnv | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    last_used: float = field(default_factory=time.monotonic)
    """Time of the last request."""
    changes: int = 0
    last_change: tuple[str, bytes, bytes | None] = ("", b"", b"")
    """The last change: call, digest of the request, answer (None if it was too long to keep)."""
    hangs: bool = False
    """Whether a thread is still in its environment, which is closed when the thread returns."""


class Sessions:
    """The table of sessions; its coroutines belong to one event loop."""

    def __init__(
        self, worlds: Sequence[EnvSpec], limits: Limits, *, experts: bool = False, allow: Sequence[str] = ()
    ) -> None:
        self.limits, self.experts = limits, experts
        self.offers = {offer.id: offer for offer in (Offer(spec, allow) for spec in worlds)}
        self.session_count = self.expired_count = 0
        self.pending_bytes = 0
        """Bytes of the requests that are not answered yet."""
        self._sessions: dict[str, Session] = {}
        self.threads = WorldThreads(limits.threads, limits.longest)
        self._closing = asyncio.Semaphore(max(1, limits.threads // 2))  # leaves threads for calls
        self._unclosed: deque[TextEnv] = deque()
        """Environments of removed sessions."""
        self._ending: set[asyncio.Task[None]] = set()
        """A task for each removed session whose environment is not closed yet."""

    def state(self) -> dict[str, Any]:
        """Return the state of the server for clients."""
        worlds = [{"id": offer.id, "arguments": offer.arguments} for offer in self.offers.values()]
        return {
            "protocol": VERSION, "worlds": worlds, "experts": self.experts, "limits": asdict(self.limits),
            "sessions": len(self._sessions), "made": self.session_count, "expired": self.expired_count,
            "stuck": self.threads.stuck, "pending_bytes": self.pending_bytes, "memory_mib": _memory_mib(),
        }  # fmt: skip

    async def make(self, key: str, raw: bytes) -> bytes:
        """Open a session under the name that the client chose; a repeated request returns the same session."""
        if not _KEY.fullmatch(key):
            raise ConfigError("a session's name must be 16 to 64 random letters, digits, - and _")
        source = None
        if key not in self._sessions and (fork := decode(Make, raw).fork) is not None:
            origin = self._find(fork)
            source = await self._run(fork, origin, lambda: _fork_source(origin))
        session = self._sessions.get(key)  # a repeated request may have opened it meanwhile
        if session is None:
            session = self._add(key, raw, source[0] if source else None)
            try:
                return await self._run(key, session, lambda: _make_env(key, session, self.limits, source))
            except BaseException:
                self._drop(key, session)
                self.session_count -= 1
                raise
        if session.request_digest != _digest(raw):
            raise RefusedRequestError(409, "Conflict", "another session has this name; choose a new random one")
        return await self._run(key, session, lambda: _describe(key, session, self.limits))

    async def call(self, key: str, name: str, raw: bytes) -> bytes:
        """Execute a call in a session."""
        session = self._find(key)
        if name not in CALLS:
            raise UnknownNameError(
                f"No call {name[:_MAX_NAME]!r}." + did_you_mean(name[:_MAX_NAME], CALLS, "There are")
            )
        if CALLS[name].experts_only and not self.experts:
            raise ConfigError("this server gives no expert knowledge; start it with --experts true")
        try:
            return await self._run(key, session, lambda: _answer_call(session, name, raw, self.limits.changes))
        except RefusedRequestError as refused:
            if refused.status == 410:  # used up, or its last answer is lost
                self.close(key)
            raise

    def close(self, key: str) -> bool:
        """Close a session, and its environment as soon as possible; return whether the session existed."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._end_soon(session)
        return session is not None

    async def sweep(self) -> None:
        """Close idle sessions, until cancelled."""
        while True:
            await asyncio.sleep(min(_SWEEP, self.limits.idle / 4))
            since = time.monotonic() - self.limits.idle
            idle = [
                key
                for key, session in self._sessions.items()
                if session.last_used < since and not session.lock.locked()
            ]
            self.expired_count += sum(map(self.close, idle))

    async def end(self) -> None:
        """Close every session."""
        for key in list(self._sessions):
            self.close(key)
        if self._ending:
            await asyncio.wait(self._ending, timeout=self.limits.longest)
        for task in self._ending:
            task.cancel()

    def _add(self, key: str, raw: bytes, spec: EnvSpec | None) -> Session:
        """Add a session without an environment; `spec` is that of a forked session."""
        if spec is None:
            request = decode(Make, raw)
            spec = self._offer(str(request.env)).with_arguments(request.kwargs)
        if len(self._sessions) >= self.limits.sessions:
            message = (
                f"all {self.limits.sessions} sessions are in use; close some, or start the server with more --sessions"
            )
            raise RefusedRequestError(503, "Full", message)
        if len(self._ending) >= self.limits.sessions:
            message = f"the worlds of {len(self._ending)} former sessions are still being closed; try again later"
            raise RefusedRequestError(503, "Full", message)
        if self.session_count >= (self.limits.total or self.session_count + 1):
            raise RefusedRequestError(
                403, "UsedUp", f"this server has opened all of its {self.limits.total} sessions (--total)"
            )
        self.session_count += 1
        session = self._sessions[key] = Session(_digest(raw), self.offers[env_id(spec.name)], spec)
        return session

    def _drop(self, key: str, session: Session) -> None:
        """Remove a session from the table."""
        if self._sessions.get(key) is session:
            del self._sessions[key]

    def _offer(self, name: str) -> Offer:
        by_name = self.offers | {short_name(key): offer for key, offer in self.offers.items()}
        if name not in by_name:
            name, short = name[:_MAX_NAME], map(short_name, self.offers)
            raise UnknownNameError(f"No world {name!r} on this server." + did_you_mean(name, short, "It serves"))
        return by_name[name]

    def _find(self, key: str) -> Session:
        if key not in self._sessions:
            raise RefusedRequestError(
                404,
                SESSION_GONE,
                f"no such session; a session is closed after {self.limits.idle:g} s without a request",
            )
        return self._sessions[key]

    async def _run(self, key: str, session: Session, work: Callable[[], T]) -> T:
        """Run a session's work in a thread, after earlier work of the session."""
        async with session.lock:
            if self._find(key) is not session:
                raise RefusedRequestError(404, SESSION_GONE, "this session was closed and opened again meanwhile")
            if not self.threads.is_healthy:
                raise RefusedRequestError(503, "Stuck", "a world hangs in every thread of this server; restart it")
            session.last_used = time.monotonic()
            future = await self._in_thread(work)
            session.last_used = time.monotonic()
            if future.done():
                return await self._result(key, session, future)
            self._drop(key, session)
            session.hangs = True
            future.add_done_callback(lambda _: self._thread_returned(session))
            message = f"{session.spec.name} did not answer in {self.limits.longest:g} s, and its session is closed"
            raise RefusedRequestError(504, "WorldHangs", message)

    async def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run work in a thread, as `WorldThreads.run`; RefusedRequestError if no thread was free."""
        try:
            return await self.threads.run(work)
        except NoFreeThreadError as error:
            raise RefusedRequestError(503, "Busy", f"{error} (--threads {self.limits.threads})") from None

    def _thread_returned(self, session: Session) -> None:
        session.hangs = False
        self._end_soon(session)

    async def _end(self, session: Session) -> None:
        """Close the environment of a removed session."""
        async with session.lock:
            if session.hangs or session.env is None:
                return
            self._unclosed.append(session.env)
            session.env = None
        async with self._closing:
            while self._unclosed:
                with suppress(RefusedRequestError):  # threads are busy
                    await asyncio.wait({await self._in_thread(self._close_envs)})  # one that hangs delays only closes

    def _close_envs(self) -> None:
        """Close all environments of removed sessions, so that a busy server keeps pace; errors are ignored."""
        ends = time.monotonic() + min(_CLOSE_SECONDS, self.limits.longest / 2)
        while time.monotonic() < ends:
            try:
                env = self._unclosed.popleft()  # other threads do the same
            except IndexError:
                return
            with suppress(Exception):
                env.close()

    def _end_soon(self, session: Session) -> None:
        task = asyncio.ensure_future(self._end(session))
        self._ending.add(task)  # the event loop keeps only a weak reference
        task.add_done_callback(self._ending.discard)

    async def _result(self, key: str, session: Session, future: asyncio.Future[T]) -> T:
        try:
            return future.result()
        except AgentGymError:
            raise
        except Exception as error:  # an env may raise anything; its state is then unknown
            self._drop(key, session)
            self._end_soon(session)
            _LOG.exception("%s failed", session.spec.name)
            message = f"{session.spec.name} failed, and its session is closed: {type(error).__name__}"
            raise RefusedRequestError(500, "WorldFailed", message) from error


# ------------------------------------------------------------------------------------------------ what threads do


def _fork_source(session: Session) -> tuple[EnvSpec, int, bytes]:
    """Return what a fork needs: the spec, the step limit and the snapshot."""
    return session.spec, _env(session).max_steps, _env(session).snapshot()


def _make_env(key: str, session: Session, limits: Limits, source: tuple[EnvSpec, int, bytes] | None) -> bytes:
    """Make the environment; restore the state of the other session for a fork."""
    env = session.env = session.spec.make()
    try:
        env.render_mode = "ansi"  # render() then returns the last observation
        if source:
            _, env.max_steps, snapshot = source
            env.restore(snapshot)
        return _describe(key, session, limits)
    except BaseException:
        session.env = None
        with suppress(Exception):
            env.close()
        raise


def _describe(key: str, session: Session, limits: Limits) -> bytes:
    """Describe a session's environment for its client."""
    env = _env(session)
    about = {
        "session": key, "env": env_id(session.spec.name), "name": env.name, "version": env.version,
        "rules": dict(env.rules), "random_baseline": env.random_baseline, "stops_at_end": env.stops_at_end,
        "max_steps": env.max_steps, "costs": dict(env.costs), "has_model_partner": env.has_model_partner,
        "split": env.split, "request_bytes": limits.request_bytes, "changes": session.changes,
        "fixed": session.offer.fixed, "max_return": env.max_return, "reading_actions": env.reading_actions,
        "difficulties": env.difficulties, "held_out_version": env.held_out_version, "files_digest": env.files_digest,
    }  # fmt: skip
    return encode(about | episode_state(env))


def _answer_call(session: Session, name: str, raw: bytes, max_changes: int) -> bytes:
    request: Any = decode(CALLS[name].request, raw)
    if isinstance(request, Limit):
        session.offer.require_limit(request.max_steps)
    if not isinstance(request, Change):
        return _encode_answer(CALLS[name].answer(_env(session), request))
    if request.n == session.changes and session.last_change[:2] == (name, _digest(raw)):
        if (kept := session.last_change[2]) is None:
            raise RefusedRequestError(
                410, SESSION_GONE, f"the answer to change {request.n} was too long to keep, so it cannot be repeated"
            )
        return kept
    if request.n != session.changes + 1:
        message = f"the next change of this session has n = {session.changes + 1}, not {request.n}"
        raise RefusedRequestError(409, "OutOfOrder", message + ": another client uses it, or an answer was lost")
    if request.n > max_changes:
        raise RefusedRequestError(
            410, SESSION_GONE, f"this session has had its {max_changes} changes (--changes); open another one"
        )
    answer = _encode_answer(CALLS[name].answer(_env(session), request))
    kept = answer if len(answer) <= _MAX_KEPT else None
    session.changes, session.last_change = request.n, (name, _digest(raw), kept)
    return answer


def _encode_answer(value: Any) -> bytes:
    """Encode the answer of a world.

    Raises:
        ValueError: it is longer than clients read.
    """
    answer = encode(value)
    if len(answer) > MAX_ANSWER:
        raise ValueError(f"its answer has {len(answer)} bytes; clients read {MAX_ANSWER}")
    return answer


def _memory_mib() -> float | None:
    """Return the memory of this process; None if the system does not tell."""
    with suppress(OSError, ValueError, AttributeError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)
    return None


def _digest(request: bytes) -> bytes:
    """Return a digest, so that long requests need not be stored."""
    return hashlib.sha256(request).digest()


def _env(session: Session) -> TextEnv:
    assert session.env is not None, "a session is in the table only after its environment was made"
    return session.env
