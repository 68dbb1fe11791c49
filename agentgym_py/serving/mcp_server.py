"""A world as a server of the Model Context Protocol: each session is one episode, each tool call one step.

The tools are those of the world. Neither reset nor reward are among them, and no answer contains a reward: the
trajectory, with its rewards, goes to `record`. The opening text (rules and first observation) is the `instructions` of
the server and its only prompt, `task`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server import Server, streamable_http
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agentgym_py.collection.env_turn import EnvTurn
from agentgym_py.env.arguments import parse_task
from agentgym_py.errors import AgentGymError, InfrastructureError
from agentgym_py.serving.access import has_token
from agentgym_py.serving.async_episode import close_late
from agentgym_py.serving.tool_episode import HAS_ENDED, EpisodeSettings, SessionLimits, ToolEpisode
from agentgym_py.serving.world_threads import NoFreeThreadError, WorldThreads, in_daemon
from agentgym_py.trajectory import Trajectory
from agentgym_py.version import __version__

PATH = "/mcp"
PROMPT = "task"
ENDED_NOTE = f"{HAS_ENDED} Further calls do nothing."
_EVERYWHERE = "0.0.0.0"  # noqa: S104  # only compared with
_MAX_NAME = 100
"""Characters of a client's name in trajectories."""
_LAST_CALL = 2.0
"""Seconds that the end of a session waits for a call that is running."""
_LOG = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(slots=True)
class _Holder:
    """What belongs to one connection, as in `mcp.server.connection.Connection`."""

    state: dict[str, Any] = field(default_factory=dict)
    exit_stack: AsyncExitStack = field(default_factory=AsyncExitStack)


class EpisodeServer:
    """The episodes of a server.

    Args:
        settings: The world and how episodes start.
        record: Stores the trajectory of a session when its episode ends or the session is closed.
        limits: Limits of sessions and calls.
        task: Task of every session that names none; None: tasks number 0, 1, 2, … of the split.
    """

    def __init__(
        self,
        settings: EpisodeSettings,
        record: Callable[[Trajectory], None],
        limits: SessionLimits | None = None,
        task: str | int | None = None,
    ) -> None:
        self.settings, self.record, self.limits = replace(settings, calls=True), record, limits or SessionLimits()
        self.stopping = False
        """Whether the server is being stopped: episodes that have not ended then are infrastructure failures."""
        self.sessions = set[_Session]()
        self._numbers = itertools.count() if task is None else itertools.repeat(task)
        self.threads = WorldThreads(self.limits.threads, self.limits.longest)

    def single(self) -> Server[Any]:
        """Return a server with one session in all its life, for stdio."""

        @asynccontextmanager
        async def lifespan(_: Server[_Holder]) -> AsyncIterator[_Holder]:
            holder = _Holder()
            async with holder.exit_stack:
                yield holder

        return self._server(lifespan=lifespan)

    def many(self) -> Server[Any]:
        """Return a server with a session per connection, for HTTP.

        Over HTTP the protocol's version 2026-07-28 has no sessions. Its clients are referred to the earlier ones, which
        they speak too.
        """
        server = self._server()

        async def discover(ctx: ServerRequestContext[Any, Any], _: Any) -> types.DiscoverResult:
            versions, capabilities = list(HANDSHAKE_PROTOCOL_VERSIONS), server.get_capabilities()
            return types.DiscoverResult(supported_versions=versions, capabilities=capabilities)

        server.add_request_handler("server/discover", types.RequestParams, discover)
        return server

    def _server(self, **more: Any) -> Server[Any]:
        server: Server[Any] = Server(
            f"agentgym {self.settings.spec.name}", version=__version__, on_list_tools=self._list_tools,
            on_call_tool=self._call_tool, on_list_prompts=self._list_prompts, on_get_prompt=self._get_prompt, **more,
        )  # fmt: skip
        server.middleware += [self._note_time, self._add_instructions]
        return server

    async def stop(self) -> None:
        """Close every session; an episode that has not ended is an infrastructure failure."""
        self.stopping = True
        for session in list(self.sessions):
            await session.close()

    # ---- requests ---------------------------------------------------------------------------------------------------

    async def _note_time(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Note when a session is used: at the beginning and at the end of each request, also of a ping."""
        state = _holder(ctx).state
        try:
            if session := state.get("session"):
                session.last_used = anyio.current_time()
            return await call_next(ctx)
        finally:
            if session := state.get("session"):
                session.last_used = anyio.current_time()

    async def _add_instructions(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Add the session's task to the answer that opens it."""
        opens = ctx.method == "initialize" or (ctx.method == "server/discover" and _single(ctx))
        if not opens:
            return await call_next(ctx)
        opening = _sendable((await self._session(ctx).episode()).opening)
        answer = await call_next(ctx)
        assert isinstance(answer, dict), "the runner serializes it"
        return {**answer, "instructions": opening}

    async def _list_tools(self, ctx: ServerRequestContext[Any, Any], _: Any) -> types.ListToolsResult:
        episode = await self._session(ctx).episode()
        return types.ListToolsResult(tools=[_mcp_tool(tool["function"]) for tool in episode.tools])

    async def _call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        turn = await self._session(ctx).call(params.name, params.arguments or {}, _client(ctx))
        texts = [turn.observation]
        if turn.stop_reason and turn.observation != HAS_ENDED:
            texts.append(ENDED_NOTE)
        content = [types.TextContent(type="text", text=_sendable(text)) for text in texts]
        return types.CallToolResult(content=[*content], is_error=not turn.valid)

    async def _list_prompts(self, *_: Any) -> types.ListPromptsResult:
        prompt = types.Prompt(name=PROMPT, description="The task of this session: rules and first observation.")
        return types.ListPromptsResult(prompts=[prompt])

    async def _get_prompt(
        self, ctx: ServerRequestContext[Any, Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        if params.name != PROMPT:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r:.60}; there is {PROMPT!r}")
        text = types.TextContent(type="text", text=_sendable((await self._session(ctx).episode()).opening))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])

    def _session(self, ctx: ServerRequestContext[Any, Any]) -> _Session:
        """Return the session of a request; a connection's first request opens it."""
        single = _single(ctx)
        if not single and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            data = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": ctx.protocol_version}
            raise MCPError(
                types.UNSUPPORTED_PROTOCOL_VERSION, "an episode needs a session: use an earlier version", data
            )
        holder = _holder(ctx)
        if "session" not in holder.state:
            named = ctx.request.query_params.get("task") if ctx.request is not None else None
            task = next(self._numbers) if named is None else parse_task(named)
            holder.state["session"] = session = _Session(self, task, math.inf if single else self.limits.idle)
            self.sessions.add(session)
            holder.exit_stack.push_async_callback(session.close)
        session = holder.state["session"]
        assert isinstance(session, _Session)
        return session

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run a world in a thread. A call that its client cancels runs to its end: nothing can stop a thread.

        Raises:
            InfrastructureError: it has not returned in time, or a world hangs in every thread.
            NoFreeThreadError: all threads were busy, so the world was not called.
        """
        if not self.threads.is_healthy:
            raise InfrastructureError("a world hangs in every thread of this server; restart it")
        with anyio.CancelScope(shield=True):
            call = await self.threads.run(work)
        if not call.done():
            raise _HangsError(f"{self.settings.spec.name} did not answer in {self.limits.longest:g} s", call)
        return call.result()


class _HangsError(InfrastructureError):
    """A world has not returned from a call, and its thread is still in it."""

    def __init__(self, message: str, call: asyncio.Future[Any]) -> None:
        super().__init__(message)
        self.call = call


class _Session:
    """One connection's episode; its requests run one after another.

    After `idle` seconds without a request, its end is not that of the client.
    """

    def __init__(self, server: EpisodeServer, task: str | int, idle: float) -> None:
        self._server, self._task, self._idle = server, task, idle
        self._lock = anyio.Lock()
        self._episode: ToolEpisode | None = None
        self._agent = "mcp"
        self._error: str | None = None
        self._recorded = self._hangs = False
        self.last_used = anyio.current_time()

    async def episode(self) -> ToolEpisode:
        """Return the episode; the first request begins it."""
        async with self._lock:
            return await self._begun()

    async def call(self, tool: str, arguments: Mapping[str, Any], agent: str) -> EnvTurn:
        """Do one step; record the episode when it ends."""
        async with self._lock:
            self._agent = agent
            episode = await self._begun()
            turn = await self._try(lambda: episode.call(tool, arguments))
            if turn.stop_reason:
                await self._record()
            return turn

    async def close(self) -> None:
        """Record an episode that has not ended, and close its world; a second call does nothing."""
        if self not in self._server.sessions:
            return
        self._server.sessions.remove(self)
        if self._episode is None:
            return
        if self._server.stopping:
            self._error = self._error or "the server was stopped"
        elif anyio.current_time() - self.last_used >= self._idle:
            self._error = self._error or f"the client was silent for {self._idle:g} s"
        with anyio.CancelScope(shield=True), suppress(MCPError, AgentGymError):
            with anyio.move_on_after(_LAST_CALL):
                async with self._lock:
                    await self._record()
                    if not self._hangs:
                        await self._server.in_thread(self._episode.close)
            await self._record()  # if a call is still running
        self._error, self._episode = self._error or "the session is closed", None  # mcp keeps the session for a while

    async def _begun(self) -> ToolEpisode:
        if self._error is not None:
            raise MCPError(types.INTERNAL_ERROR, self._error)
        if self._episode is None:
            self._episode = await self._try(lambda: ToolEpisode(self._server.settings, self._task))
        return self._episode

    async def _try(self, work: Callable[[], T]) -> T:
        """Run the world; its failure ends the episode, and is an error of the protocol, which no model reads."""
        try:
            return await self._server.in_thread(work)
        except InfrastructureError as error:
            self._error = " ".join(str(error).split())
            if isinstance(error, _HangsError):
                self._close_late(error.call)
            await self._record()
            raise MCPError(types.INTERNAL_ERROR, self._error) from error
        except NoFreeThreadError as error:  # the episode is as it was
            raise MCPError(types.INTERNAL_ERROR, f"{error}; try again") from error
        except AgentGymError as error:
            raise MCPError(types.INVALID_PARAMS, " ".join(str(error).split())) from error

    def _close_late(self, call: asyncio.Future[Any]) -> None:
        """Close the world as soon as a call returns that makes it or is in it."""
        episode, self._hangs = self._episode, True
        call.add_done_callback(close_late if episode is None else lambda _: in_daemon(episode.close))

    async def _record(self) -> None:
        """Record the episode once.

        Raises:
            MCPError: the trajectory cannot be written.
        """
        if self._episode is None or self._recorded:
            return
        self._recorded = True
        trajectory = self._episode.trajectory(self._agent, self._error)
        try:
            await anyio.to_thread.run_sync(self._server.record, trajectory)  # it may wait for another server
        except (AgentGymError, OSError) as error:
            self._error = f"the trajectory {trajectory.id} cannot be written: {' '.join(str(error).split())}"
            _LOG.error(self._error)
            raise MCPError(types.INTERNAL_ERROR, self._error) from error


def _single(ctx: ServerRequestContext[Any, Any]) -> bool:
    return isinstance(ctx.lifespan_context, _Holder)


def _holder(ctx: ServerRequestContext[Any, Any]) -> Any:
    """What has the connection's session in its `state`."""
    return ctx.lifespan_context if _single(ctx) else ctx.session._connection  # no public way in mcp 2.3


def _client(ctx: ServerRequestContext[Any, Any]) -> str:
    """The name that the client gives itself."""
    params = ctx.session.client_params
    return params.client_info.name[:_MAX_NAME] if params else "mcp"


def _mcp_tool(function: Mapping[str, Any]) -> types.Tool:
    schema = function.get("parameters") or {"type": "object"}
    return types.Tool(name=function["name"], description=function.get("description"), input_schema=schema)


def _sendable(text: str) -> str:
    """Replace halves of surrogate pairs, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()


# ---- HTTP -----------------------------------------------------------------------------------------------------------


def make_app(episodes: EpisodeServer, host: str, token: str | None = None) -> Starlette:
    """Return the application for streamable HTTP; with a token, every request needs it.

    Requests of other hosts and origins are refused, so that no web page reaches the server by DNS rebinding. A server
    on all addresses cannot know its names, so it needs the token.
    """
    names = ["127.0.0.1", "localhost", "[::1]", *([host] if host != _EVERYWHERE else [])]
    limits = episodes.limits
    logging.getLogger(streamable_http.__name__).addFilter(_is_no_disconnect)
    manager = StreamableHTTPSessionManager(
        episodes.many(), json_response=True, max_sessions=limits.sessions, session_idle_timeout=limits.idle,
        max_request_body_size=limits.request_bytes,
        security_settings=TransportSecuritySettings(
            enable_dns_rebinding_protection=host != _EVERYWHERE,
            allowed_hosts=[f"{name}:*" for name in names] + names,
            allowed_origins=[f"http://{name}:*" for name in names],
        ),
    )  # fmt: skip

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield
            episodes.stopping = True

    # no GET: the server sends nothing by itself, and an open stream would keep an idle session
    endpoint = StreamableHTTPASGIApp(manager)
    app = Starlette(routes=[Route(PATH, endpoint, methods=["POST", "DELETE"])], lifespan=lifespan)
    if token:
        app.add_middleware(_RequireToken, token=token)
    return app


def _is_no_disconnect(record: logging.LogRecord) -> bool:
    """Whether mcp logs something else than a client that vanished within its request, or many could fill the log."""
    return not (record.exc_info and isinstance(record.exc_info[1], ClientDisconnect))


class _RequireToken:
    """Middleware that answers requests without the token with 401 and closes their connection."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or has_token(scope, self.token):
            await self.app(scope, receive, send)
            return
        advice = "missing or wrong token: send the token that agentgym mcp prints as Bearer"
        await PlainTextResponse(advice, 401, headers={"connection": "close"})(scope, receive, send)
