"""What the commands that serve share: the packages they need, a port, and serving until Ctrl-C."""

from __future__ import annotations

import socket
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agentgym_py.cli.parser import UsageError
from agentgym_py.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI

LOOPBACK = "127.0.0.1"


def require_port(port: int) -> None:
    """ConfigError unless it is one."""
    if not 0 <= port < 1 << 16:
        raise ConfigError(f"port must be from 0 to 65535, got {port}")


def require_server(what: str, extra: str) -> None:
    """ConfigError that says what to install, unless `what` can be served."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        from agentgym_py.registry import install_advice

        raise ConfigError(f"{what} needs fastapi and uvicorn, of the extra `{extra}`: {install_advice(extra)}")


def listening(host: str, port: int, backlog: int | None = None) -> socket.socket:
    """A socket that listens there; port 0 is one that is free.

    Raises:
        UsageError: there is no such address here, or the port is taken.
    """
    try:
        at = socket.create_server((host, port), backlog=backlog)
    except OSError as error:
        raise UsageError(f"--port {port} at {host}: {error.strerror}") from error
    at.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else the end of an answer waits 40 ms for an ACK
    return at


def serve(app: FastAPI, at: socket.socket, **settings: Any) -> None:
    """Serve until Ctrl-C; `settings` are more of uvicorn's."""
    import uvicorn

    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2, **settings)
    with suppress(KeyboardInterrupt):  # the way to end it
        uvicorn.Server(config).run(sockets=[at])
