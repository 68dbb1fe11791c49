"""The environment server: environments in sessions, for clients that know the token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from agentgym_py.errors import AgentGymError
from agentgym_py.serving.http import CloseWithoutToken, Json, ignore_disconnects, require_token, restrict_hosts
from agentgym_py.serving.protocol import SESSIONS, VERSION
from agentgym_py.serving.sessions import RefusedRequestError, Sessions

_MAX_PENDING = 64 << 20
"""Most bytes of all requests that are not answered yet, or two requests of the longest kind."""
_NAMES = {401: "BadToken", 413: "TooLong"}


def make_app(sessions: Sessions, token: str, host: str) -> FastAPI:
    """Make the application. Every request except /health needs `token`; `host` is the address of the server."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweep = asyncio.create_task(sessions.sweep())
        yield
        sweep.cancel()
        await sessions.end()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan, default_response_class=Json)
    restrict_hosts(app, host)
    ignore_disconnects(app)
    app.add_middleware(CloseWithoutToken, token=token)

    @app.exception_handler(AgentGymError)
    async def refused(_: Request, error: AgentGymError) -> Json:
        if isinstance(error, RefusedRequestError):
            return _error(error.status, error.kind, str(error))
        return _error(400, type(error).__name__, str(error))

    @app.exception_handler(AnyHTTPException)
    async def http(_: Request, error: AnyHTTPException) -> Json:
        return _error(error.status_code, _NAMES.get(error.status_code, "HTTP"), str(error.detail))

    @app.get("/health")
    async def health() -> Json:
        is_healthy = sessions.threads.is_healthy
        return Json({"ok": is_healthy, "protocol": VERSION}, 200 if is_healthy else 503)

    app.include_router(_api(sessions, token))
    return app


def _api(sessions: Sessions, token: str) -> APIRouter:
    check_token = require_token(token, "missing or wrong token: send the token that agentgym serve prints as Bearer")
    api = APIRouter(prefix=SESSIONS, dependencies=[Depends(check_token)])

    @api.get("")
    async def state() -> Json:
        return Json(sessions.state())

    @api.put("/{key}")
    async def make(request: Request) -> Response:
        async with _body(request) as raw:
            return _answer(await sessions.make(request.path_params["key"], raw))

    @api.post("/{key}/{call}")
    async def call(request: Request) -> Response:
        path = request.path_params
        async with _body(request) as raw:
            return _answer(await sessions.call(path["key"], path["call"], raw))

    @api.delete("/{key}")
    async def close(request: Request) -> Json:
        return Json({"closed": sessions.close(request.path_params["key"])})

    @asynccontextmanager
    async def _body(request: Request) -> AsyncIterator[bytes]:
        """Read a request's body, which counts as pending until it is answered."""
        limit, parts, size = sessions.limits.request_bytes, list[bytes](), 0
        try:
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                sessions.pending_bytes += len(part)
                if size > limit:
                    raise HTTPException(413, f"the request is longer than {limit} bytes (--request_bytes)")
                if sessions.pending_bytes > max(_MAX_PENDING, 2 * limit):
                    raise RefusedRequestError(
                        503, "Busy", f"unanswered requests hold more than {_MAX_PENDING >> 20} MiB"
                    )
            yield b"".join(parts)
        finally:
            sessions.pending_bytes -= size

    return api


def _answer(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _error(status: int, kind: str, message: str) -> Json:
    return Json({"error": {"type": kind, "message": message}}, status)
