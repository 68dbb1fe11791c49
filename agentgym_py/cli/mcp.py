"""`agentgym mcp`: offer a world's tools to agents that speak the Model Context Protocol."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentgym_py.checks import Basic
from agentgym_py.cli.env_options import add_env_options, env_specs
from agentgym_py.cli.interrupts import INTERRUPTED, KILLED
from agentgym_py.cli.parser import Parser, UsageError, Values, read_options
from agentgym_py.cli.serve import token_of_environment
from agentgym_py.cli.server_options import LOOPBACK, listen, require_port, serve
from agentgym_py.env import Prompt
from agentgym_py.env.arguments import parse_task, require_prompt, require_seed, require_split
from agentgym_py.errors import ConfigError, RunError
from agentgym_py.files import claimed
from agentgym_py.serving.client import TOKEN
from agentgym_py.serving.tool_episode import EpisodeSettings, SessionLimits, ToolEpisode
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.store import TrajectoryWriter, append

if TYPE_CHECKING:
    from agentgym_py.serving.mcp_server import EpisodeServer

_PATIENCE = 10.0
"""Seconds that a trajectory waits for another process that writes to the same file."""


@dataclass(frozen=True, slots=True)
class McpOptions(SessionLimits):
    """The MCP server."""

    transport: Basic[Literal["stdio", "http"]] = "stdio"
    """`stdio`: the client starts this command, one episode each; `http`: streamable HTTP, one episode a session."""
    record: Basic[str | None] = None
    """File to which each episode's trajectory is appended, with its rewards; no answer contains a reward."""
    task: Basic[str | None] = None
    """Id of the task, or its number within the split, of every session; by default they take tasks 0, 1, 2, … A client
    over HTTP chooses one by its address: `/mcp?task=ID`."""
    split: Basic[str] = "train"
    """Tasks that sessions get. `train` is the default because the record may become training data; to measure an agent,
    choose `test`."""
    prompt: Prompt = "full"
    """Which rules text opens the instructions: `full`, `brief` or `none`."""
    seed: int = 0
    """Seed of the worlds, as in `collect`."""
    host: Basic[str] = LOOPBACK
    """Address to listen on (http); on another than loopback every request needs the token, and nothing is encrypted."""
    port: Basic[int] = 0
    """Port (http); 0 chooses a free one."""

    def __post_init__(self) -> None:
        SessionLimits.__post_init__(self)
        require_port(self.port)
        require_split(self.split)
        require_prompt(self.prompt)
        require_seed(self.seed)


def options(parser: Parser) -> None:
    """Add the options of `mcp`."""
    add_env_options(parser)
    parser.add_dataclass(McpOptions)


def run(args: Values) -> int:
    """Serve until the client leaves (stdio), Ctrl-C or SIGTERM."""
    chosen = read_options(McpOptions, args)
    _require_mcp()
    from agentgym_py.serving.mcp_server import EpisodeServer

    with redirect_stdout(sys.stderr):  # over stdio, stdout belongs to the protocol
        specs = env_specs(args)
    if len(specs) > 1:
        raise UsageError("--env: an MCP server offers the tools of one world; start one server for each")
    settings = EpisodeSettings(specs[0], chosen.split, chosen.seed, chosen.prompt)
    task = parse_task(chosen.task) if chosen.task else None
    with redirect_stdout(sys.stderr):  # over stdio, stdout belongs to the protocol
        ToolEpisode(settings, 0 if task is None else task).close()  # a mistake is an error of this command
    limits = SessionLimits(**{limit.name: getattr(chosen, limit.name) for limit in fields(SessionLimits)})
    episodes = EpisodeServer(settings, _recorder(chosen.record), limits, task)
    if chosen.transport == "stdio":
        return _serve_stdio(episodes)
    return _serve_http(episodes, chosen.host, chosen.port)


def _require_mcp() -> None:
    if find_spec("mcp") is None:
        from agentgym_py.registry import install_advice

        raise ConfigError(f"agentgym mcp needs the package mcp, of the extra `mcp`: {install_advice('mcp')}")


def _recorder(path: str | None) -> Callable[[Trajectory], None]:
    """Return a function that appends to a file, which several servers may share.

    Raises:
        OSError, WriteError: it cannot be written.
    """
    if path is None:
        return lambda trajectory: None
    file = Path(path)
    with claimed(file):
        TrajectoryWriter(file).close()

    def record(trajectory: Trajectory) -> None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                with claimed(file):
                    append(file, [trajectory])
                return
            except RunError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    return record


# ---- transports -----------------------------------------------------------------------------------------------------


def _serve_stdio(episodes: EpisodeServer) -> int:
    """Serve one client on stdin and stdout until it closes them."""
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve_client(scope: anyio.CancelScope) -> None:
        server = episodes.single()
        with suppress(BrokenPipeError):  # the client is gone
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        scope.cancel()

    async def main() -> int:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve_client, tasks.cancel_scope)
                async for number in signals:
                    await episodes.stop()
                    print("\nagentgym: interrupted", file=sys.stderr, flush=True)
                    os._exit(INTERRUPTED if number == signal.SIGINT else KILLED)  # a thread waits for stdin
        return 0

    return anyio.run(main)


def _serve_http(episodes: EpisodeServer, host: str, port: int) -> int:
    """Serve clients over HTTP until Ctrl-C or SIGTERM."""
    from agentgym_py.serving.mcp_server import PATH, make_app

    given = token_of_environment() if os.environ.get(TOKEN) else None
    new = None if given or host in (LOOPBACK, "localhost") else secrets.token_urlsafe(24)
    with listen(host, port) as server_socket:
        print(f"http://{host}:{server_socket.getsockname()[1]}{PATH}")
        if token := given or new:
            print(f"The header of every request: Authorization: Bearer {new or f'(the token of {TOKEN})'}")
        print("Press Ctrl-C to stop.", flush=True)
        if host not in (LOOPBACK, "localhost"):
            print("agentgym: warning: connections are not encrypted; use a proxy with TLS", file=sys.stderr)
        return serve(make_app(episodes, host, token), server_socket)
