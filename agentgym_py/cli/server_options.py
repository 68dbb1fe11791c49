"""Shared by the commands that serve: required packages, the port, and the server loop."""

from __future__ import annotations

import asyncio
import socket
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agentgym_py.cli import interrupt_status
from agentgym_py.cli.parser import UsageError
from agentgym_py.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI

_REQUEST_SECONDS = 10.0
"""Longest time for a whole request to arrive, and for a client to read nothing of an answer."""
LOOPBACK = "127.0.0.1"


def require_port(port: int) -> None:
    """Raise ConfigError for an invalid port."""
    if not 0 <= port < 1 << 16:
        raise ConfigError(f"port must be from 0 to 65535, got {port}")


def require_server(what: str, extra: str) -> None:
    """Raise ConfigError with install advice if a package is missing; `what` names the server."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        from agentgym_py.registry import install_advice

        raise ConfigError(f"{what} needs fastapi and uvicorn, of the extra `{extra}`: {install_advice(extra)}")


def listen(host: str, port: int, backlog: int | None = None) -> socket.socket:
    """Return a listening socket; port 0 chooses a free one.

    Raises:
        UsageError: this machine has no such address, or the port is in use.
    """
    try:
        server_socket = socket.create_server((host, port), backlog=backlog)
    except OSError as error:
        raise UsageError(f"--port {port} at {host}: {error.strerror}") from error
    server_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else answers wait 40 ms for an ACK
    return server_socket


def whole_requests() -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol, which drops clients that do not finish a request or do not read the answer."""
    from h11 import IDLE, SEND_BODY
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class WholeRequests(H11Protocol):
        _timer: asyncio.TimerHandle | None = None
        _reader_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._unset_keepalive_if_required()  # uvicorn keeps it, and all of this, after an error
            for timer in (self._timer, self._reader_timer):
                if timer:
                    timer.cancel()
            self._timer = self._reader_timer = None

        def pause_writing(self) -> None:
            super().pause_writing()
            self._watch_reader(self.transport.get_write_buffer_size() + 1)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._reader_timer:
                self._reader_timer.cancel()
                self._reader_timer = None

        def timeout_keep_alive_handler(self) -> None:
            super().timeout_keep_alive_handler()
            self._drop_unread()

        def _watch_reader(self, before: int) -> None:
            """Abort the connection if the client has read nothing since the last look."""
            unread = self.transport.get_write_buffer_size()
            if unread >= before:
                self.transport.abort()
            elif unread:
                self._reader_timer = self.loop.call_later(_REQUEST_SECONDS, self._watch_reader, unread)

        def _drop_unread(self) -> None:
            """Abort a closed connection, which would otherwise wait until the client has read everything."""
            if self.transport.get_write_buffer_size():
                self.transport.abort()

        def _watch(self) -> None:
            """Start the timer with the first part of a request, and stop it with the last."""
            if self.conn.their_state in (IDLE, SEND_BODY):
                self._timer = self._timer or self.loop.call_later(_REQUEST_SECONDS, self._drop)
            elif self._timer:
                self._timer.cancel()
                self._timer = None

        def _drop(self) -> None:
            self._timer = None
            if self.conn.their_state in (IDLE, SEND_BODY):
                self.transport.close()
                self._drop_unread()

    return WholeRequests


def allow_files(wanted: int) -> int:
    """Raise this process's limit of open files to `wanted` if the system lets it; return the number it may open."""
    if sys.platform == "win32":
        return wanted
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, soft)


def serve(app: FastAPI, server_socket: socket.socket, **settings: Any) -> int:
    """Serve until Ctrl-C or SIGTERM and return the exit status, 130 or 143; `settings` go to uvicorn."""
    import uvicorn

    config = uvicorn.Config(
        app, http=whole_requests(), log_level="error", access_log=False, timeout_graceful_shutdown=2, **settings
    )
    try:
        uvicorn.Server(config).run(sockets=[server_socket])  # raises the signal again when it has shut down
    except KeyboardInterrupt as stop:
        return interrupt_status(stop)
    return 0
