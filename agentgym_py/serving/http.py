"""What the HTTP servers of this package share: access and JSON."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

_EVERYWHERE = "0.0.0.0"  # noqa: S104  # it is compared with, not listened at


class Json(JSONResponse):
    """JSON in ASCII, because a model may write half of a surrogate pair, which UTF-8 cannot hold."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False).encode("ascii")


def only_for(token: str, advice: str) -> Callable[[Request], Awaitable[None]]:
    """A dependency of routes: a request without the token gets 401 and `advice`."""

    async def known(request: Request) -> None:
        given = request.headers.get("authorization", "")
        if not secrets.compare_digest(given.encode(), f"Bearer {token}".encode()):
            raise HTTPException(401, advice)

    return known


def only_at(app: FastAPI, host: str) -> None:
    """Refuse requests whose `Host` is neither this machine nor the address that the server listens at.

    Otherwise a foreign name that resolves to this machine could read through a browser (DNS rebinding). A server that
    listens everywhere cannot know its names, and refuses none.
    """
    names = ["*"] if host == _EVERYWHERE else sorted({"127.0.0.1", "localhost", host})
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=names)
