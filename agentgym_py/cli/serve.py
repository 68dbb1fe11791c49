"""`agentgym serve`: worlds for clients on this machine, or others."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from agentgym_py.cli.env_options import add_env_options, env_specs
from agentgym_py.cli.parser import read_options
from agentgym_py.cli.server_options import LOOPBACK, listening, require_port, require_server, serve
from agentgym_py.errors import ConfigError
from agentgym_py.serving.client import TOKEN
from agentgym_py.serving.sessions import ALLOWED, Limits, Sessions

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values

_TOKEN_AT_LEAST = 16
_CONNECTIONS = 100
"""Beside one for each session."""


@dataclass(frozen=True, slots=True)
class ServeOptions(Limits):
    """The environment server."""

    host: str = LOOPBACK
    """Address to listen at; 0.0.0.0: all of this machine's, and then the network hears what is said."""
    port: int = 0
    """Port; 0: one that is free."""
    experts: bool = False
    """Tell clients the plans of the experts and the secrets of the worlds."""

    def __post_init__(self) -> None:
        Limits.__post_init__(self)
        require_port(self.port)


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `serve` takes."""
    del argv
    add_env_options(parser)
    parser.add(
        "allow", default=[], item=str, metavar="ARGUMENT", group="The environment server",
        help=f"An argument of the worlds that clients may choose, beside {', '.join(ALLOWED)}; several times, or with "
        "commas. Those of --env_kwargs are fixed.",
    )  # fmt: skip
    parser.add_dataclass(ServeOptions)


def run(args: Values) -> int:
    """Serve until Ctrl-C."""
    chosen = read_options(ServeOptions, args)
    require_server("the environment server", "serve")
    from agentgym_py.serving.server import app_of

    specs = env_specs(args)
    limits = Limits(**{each.name: getattr(chosen, each.name) for each in fields(Limits)})
    sessions = Sessions(specs, limits, experts=chosen.experts, allow=args["allow"])
    told = None if os.environ.get(TOKEN) else secrets.token_urlsafe(24)
    token = told or _given_token()
    with listening(chosen.host, chosen.port, backlog=limits.sessions) as at:
        how = f"export {TOKEN}={told}" if told else f"The token is that of {TOKEN} here."
        print(f"http://{chosen.host}:{at.getsockname()[1]}\n{how}\nCtrl-C ends it.", flush=True)
        if chosen.host not in (LOOPBACK, "localhost"):
            print("agentgym: warning: nothing is encrypted; put a proxy with TLS before it", file=sys.stderr)
        serve(
            app_of(sessions, token, chosen.host), at,
            limit_concurrency=2 * limits.sessions + _CONNECTIONS, timeout_keep_alive=int(limits.idle) + 1,
        )  # fmt: skip
    if sessions.running:  # a world that hangs; Python would wait for its thread
        os._exit(0)
    return 0


def _given_token() -> str:
    token = os.environ[TOKEN]
    if len(token) < _TOKEN_AT_LEAST or not token.isascii() or not token.isprintable():
        raise ConfigError(f"{TOKEN} must be at least {_TOKEN_AT_LEAST} printable ASCII characters")
    return token
