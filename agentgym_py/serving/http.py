"""Shared by the HTTP servers of this package: access control and JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentgym_py.serving.access import has_token

_EVERYWHERE = "0.0.0.0"  # noqa: S104  # only compared with


class Json(JSONResponse):
    """JSON in ASCII, because a model may write half of a surrogate pair, which UTF-8 cannot hold."""

    def render(self, content: Any) -> bytes:
        """Encode the body."""
        return json.dumps(content, allow_nan=False).encode("ascii")


def require_token(token: str, advice: str) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency of routes that answers requests without the token with 401 and `advice`."""

    async def check_token(request: Request) -> None:
        if not has_token(request.scope, token):
            raise HTTPException(401, advice)

    return check_token


class CloseWithoutToken:
    """Middleware that closes the connection after each answer to a request without the token.

    Otherwise strangers could occupy every connection of the server, which keeps them open for its clients.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or has_token(scope, self.token):
            await self.app(scope, receive, send)
            return

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        await self.app(scope, receive, closing)


def ignore_disconnects(app: FastAPI) -> None:
    """Let a client vanish within its request without a traceback in the log."""

    @app.exception_handler(ClientDisconnect)
    async def vanished(_: Request, __: ClientDisconnect) -> Json:
        return Json({"error": {"type": "HTTP", "message": "the request was cut off"}}, 400)


def restrict_hosts(app: FastAPI, host: str) -> None:
    """Refuse requests whose `Host` is neither this machine nor the address of the server.

    Otherwise a foreign name that resolves to this machine could read through a browser (DNS rebinding). A server on all
    addresses cannot know its names and refuses none.
    """
    names = ["*"] if host == _EVERYWHERE else sorted({"127.0.0.1", "localhost", host})
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=names)
