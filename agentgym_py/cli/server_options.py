"""Shared by the commands that serve: required packages, the port, and the server loop."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agentgym_py.cli import interrupt_status
from agentgym_py.cli.parser import UsageError
from agentgym_py.errors import ConfigError

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

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


def server_config(app: Starlette, **settings: Any) -> uvicorn.Config:
    """Return the configuration of a server that may have strangers as clients; `settings` go to uvicorn."""
    import uvicorn

    from agentgym_py.cli.whole_requests import WholeRequests

    usual = {"access_log": False, "log_level": "error", "timeout_graceful_shutdown": 2}
    config = uvicorn.Config(app, http=WholeRequests, ws="none", **{**usual, **settings})
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
    return config


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Whether uvicorn logs something else than the requests that it cuts off as it stops, each with a traceback."""
    is_traceback = record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not is_traceback and not str(record.msg).startswith("Cancel ")


def serve(app: Starlette, server_socket: socket.socket, **settings: Any) -> int:
    """Serve until Ctrl-C or SIGTERM and return the exit status, 130 or 143; `settings` go to uvicorn."""
    import uvicorn

    config = server_config(app, **settings)
    try:
        uvicorn.Server(config).run(sockets=[server_socket])  # raises the signal again when it has shut down
    except KeyboardInterrupt as stop:
        return interrupt_status(stop)
    return 0
