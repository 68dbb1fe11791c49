"""`agentgym serve`: serve worlds to clients on this machine or others."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass, fields

from agentgym_py.cli.env_options import add_env_options, env_specs
from agentgym_py.cli.parser import Parser, Values, read_options
from agentgym_py.cli.server_options import LOOPBACK, allow_files, listen, require_port, require_server, serve
from agentgym_py.errors import ConfigError
from agentgym_py.serving.client import TOKEN
from agentgym_py.serving.sessions import ALLOWED, Limits, Sessions

_MIN_TOKEN_LENGTH = 16
_EXTRA_CONNECTIONS = 100
_OTHER_FILES = 100
"""Files that a server opens besides its connections."""


@dataclass(frozen=True, slots=True)
class ServeOptions(Limits):
    """The environment server."""

    host: str = LOOPBACK
    """Address to listen on; 0.0.0.0 is all addresses of this machine, unencrypted on the network."""
    port: int = 0
    """Port; 0 chooses a free one."""
    experts: bool = False
    """Give clients the plans of the experts and the secrets of the worlds."""

    def __post_init__(self) -> None:
        Limits.__post_init__(self)
        require_port(self.port)


def options(parser: Parser) -> None:
    """Add the options of `serve`."""
    add_env_options(parser)
    parser.add(
        "allow", default=[], item=str, metavar="ARGUMENT", group="The environment server",
        help=f"An argument of the worlds that clients may set, besides {', '.join(ALLOWED)}; repeated, or with commas. "
        "Those of --env_kwargs are fixed.",
    )  # fmt: skip
    parser.add_dataclass(ServeOptions)


def run(args: Values) -> int:
    """Serve until Ctrl-C or SIGTERM; return 130 or 143."""
    chosen = read_options(ServeOptions, args)
    require_server("the environment server", "serve")
    from agentgym_py.serving.server import make_app

    specs = env_specs(args)
    limits = Limits(**{field.name: getattr(chosen, field.name) for field in fields(Limits)})
    sessions = Sessions(specs, limits, experts=chosen.experts, allow=args["allow"])
    new_token = None if os.environ.get(TOKEN) else secrets.token_urlsafe(24)
    token = new_token or token_of_environment()
    with listen(chosen.host, chosen.port, backlog=limits.sessions) as server_socket:
        advice = f"export {TOKEN}={new_token}" if new_token else f"The token is that of {TOKEN} here."
        port = server_socket.getsockname()[1]
        print(f"http://{chosen.host}:{port}\n{advice}\nPress Ctrl-C to stop.", flush=True)
        if chosen.host not in (LOOPBACK, "localhost"):
            print("agentgym: warning: connections are not encrypted; use a proxy with TLS", file=sys.stderr)
        status = serve(
            make_app(sessions, token, chosen.host), server_socket, limit_concurrency=_connections(limits),
            timeout_keep_alive=int(limits.idle) + 1,
        )  # fmt: skip
    print(f"\nstopped; sessions opened: {sessions.session_count}", file=sys.stderr, flush=True)
    return status


def _connections(limits: Limits) -> int:
    """Return the largest number of connections: each needs a file."""
    files = allow_files(2 * limits.sessions + _EXTRA_CONNECTIONS + _OTHER_FILES)
    return max(1, files - _OTHER_FILES)


def token_of_environment() -> str:
    """Return the token in `AGENTGYM_TOKEN`; ConfigError if it can be guessed."""
    token = os.environ[TOKEN]
    if len(token) < _MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable():
        raise ConfigError(f"{TOKEN} must be at least {_MIN_TOKEN_LENGTH} printable ASCII characters")
    return token
