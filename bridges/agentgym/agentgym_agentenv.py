"""Any world of agentgym-py behind the HTTP routes of AgentGym, for its clients, trainers and AgentGym-RL.

    agentgym-agentenv textcraft --port 36001      # for TextCraftEnvClient
    agentgym-agentenv todo --port 36002           # for agentgym_agentenv_client.WorldTask

After an infrastructure failure the answer has status 500, which AgentGym's clients raise as an error.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

from agentgym_agentenv_dialects import DIALECTS, USUAL, Dialect
from fastapi import Body, FastAPI, Request
from fastapi.responses import JSONResponse

from agentgym_py.env.registration import short_name
from agentgym_py.errors import AgentGymError, ConfigError, InfrastructureError, UnknownNameError, did_you_mean
from agentgym_py.serving.async_episode import AsyncEpisode
from agentgym_py.serving.tool_episode import EpisodeSettings, SessionLimits, ToolEpisode

JsonBody = Annotated[dict[str, Any], Body()]
T = TypeVar("T")


class ServerFullError(AgentGymError):
    """All sessions are in use."""


class Session:
    """A session of a client, with one episode at a time; its requests run one after another."""

    def __init__(self, settings: EpisodeSettings, longest: float) -> None:
        self._settings, self._longest = settings, longest
        self.lock = asyncio.Lock()
        self.last_used = time.monotonic()
        self._live: AsyncEpisode | None = None

    async def reset(self, number: int) -> None:
        """Start a task of the server's split; UnknownNameError if it has none of this number."""
        env, self._live = self._live.episode.env if self._live else None, None
        self._live = await AsyncEpisode.start(partial(ToolEpisode, self._settings, number, env), self._longest)

    async def ask(self, work: Callable[[ToolEpisode], T]) -> T:
        """Do something with the episode; ConfigError without one. An episode whose world fails or hangs is lost."""
        live = self._live
        if live is None:
            raise ConfigError("there is no episode, or its world has failed: POST /reset first")
        try:
            return await live.run(lambda: work(live.episode))
        except InfrastructureError:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the world."""
        live, self._live = self._live, None
        if live is not None:
            await live.close()


class Sessions:
    """The sessions of a server. A silent one is closed when its place is needed: AgentGym's clients rarely close."""

    def __init__(self, settings: EpisodeSettings, limits: SessionLimits) -> None:
        self._settings, self._limits = settings, limits
        self._numbers = itertools.count()
        self._by_number: dict[int, Session] = {}

    async def create(self) -> int:
        """Open a session and return its number; ServerFullError if all are in use."""
        if len(self._by_number) >= self._limits.sessions:
            since = time.monotonic() - self._limits.idle
            for number in [number for number, one in self._by_number.items() if one.last_used < since]:
                await self.close(number)
        if len(self._by_number) >= self._limits.sessions:
            raise ServerFullError(f"all {self._limits.sessions} sessions are in use; start it with more --sessions")
        number = next(self._numbers)
        self._by_number[number] = Session(self._settings, self._limits.longest)
        return number

    def find(self, number: Any) -> Session:
        """Return a session; UnknownNameError if it was closed or never existed."""
        session = self._by_number.get(number) if isinstance(number, int) else None
        if session is None:
            raise UnknownNameError(f"there is no session {number!r:.40}: POST /create opens one")
        session.last_used = time.monotonic()
        return session

    async def close(self, number: Any) -> bool:
        """Close a session; return whether it existed."""
        session = self._by_number.pop(number, None) if isinstance(number, int) else None
        if session is not None:
            async with session.lock:
                await session.close()
        return session is not None


def make_app(settings: EpisodeSettings, dialect: str | None = None, limits: SessionLimits | None = None) -> FastAPI:
    """Return the application of a world.

    Args:
        settings: The world and how its episodes start; `split` is that of the tasks, which are given by number.
        dialect: Kind of AgentGym server; None: the usual one of the world.
        limits: Number of sessions, after how many silent seconds one may be closed, and how long a world may take.

    Raises:
        UnknownNameError: there is no such dialect.
    """
    world = short_name(settings.spec.local_spec.name)
    kind = USUAL.get(world, "tools") if dialect is None else dialect
    if kind not in DIALECTS:
        raise UnknownNameError(f"No dialect {kind!r}." + did_you_mean(kind, DIALECTS, "There are"))
    speaks, sessions = DIALECTS[kind], Sessions(settings, limits or SessionLimits())
    app = FastAPI(title=f"AgentGym server of {world}")

    @app.exception_handler(AgentGymError)
    def refuse(_: Request, error: AgentGymError) -> JSONResponse:
        status = 503 if isinstance(error, ServerFullError) else 500 if isinstance(error, InfrastructureError) else 400
        return JSONResponse({"error": " ".join(str(error).split())}, status)

    @app.get("/")
    async def hello() -> str:
        return f"This is environment {world}."

    @app.post("/create")
    async def create() -> Any:
        number = await sessions.create()
        answer = {"id": number, "observation": "", "reward": 0, "done": False}
        return answer if speaks.session == "id" else number

    @app.post("/reset")
    async def reset(body: JsonBody) -> Any:
        task = body.get(speaks.task)
        if type(task) is not int:
            raise ConfigError(f"{speaks.task} must be a number, got {task!r:.40}")
        session = sessions.find(body.get(speaks.session))
        async with session.lock:
            await session.reset(task)
            return await session.ask(lambda episode: _reset_answer(kind, speaks, body[speaks.session], episode))

    @app.post("/step")
    async def step(body: JsonBody) -> Any:
        action = body.get("action")
        if not isinstance(action, str):
            raise ConfigError(f"action must be a text, got {action!r:.40}")
        session = sessions.find(body.get(speaks.session))
        async with session.lock:
            return await session.ask(lambda episode: _step_answer(speaks, episode, episode.step(action).observation))

    @app.get("/observation")
    async def observation(request: Request) -> Any:
        session = sessions.find(_session_number(request, speaks))
        async with session.lock:
            return await session.ask(_observation)

    @app.get("/available_actions")
    async def available_actions(request: Request) -> list[str]:
        session = sessions.find(_session_number(request, speaks))
        async with session.lock:
            return await session.ask(lambda episode: episode.env.actions() or [])

    @app.post("/close")
    async def close(body: JsonBody) -> bool:
        return await sessions.close(body.get(speaks.session))

    return app


def _session_number(request: Request, dialect: Dialect) -> int | None:
    """Return the session in the query of a request."""
    name = request.query_params.get(dialect.session, "")
    return int(name) if name.isdecimal() else None


def _observation(episode: ToolEpisode) -> str:
    return episode.observation if episode.steps else episode.opening


def _reset_answer(kind: str, dialect: Dialect, number: int, episode: ToolEpisode) -> Any:
    if dialect.reset_answer == "text":
        return episode.opening
    if dialect.reset_answer == "list":
        return [episode.opening, None]
    answer = {"id": number, **_step_answer(dialect, episode, episode.opening)}
    if kind == "sciworld":  # its client joins the two by a line break
        task, _, rest = episode.opening.partition("\n")
        answer |= {"task_name": episode.task.kind, "var_num": 0, "task_description": task, "observation": rest}
    elif kind == "alfworld":
        answer["task_type"] = episode.task.kind
    return answer


def _step_answer(dialect: Dialect, episode: ToolEpisode, text: str) -> dict[str, Any]:
    """Answer with what any client of AgentGym reads, and `success` and `truncated`, which ours reads."""
    so_far = sum(step.reward for step in episode.steps)
    answer: dict[str, Any] = {
        dialect.observation: text, "reward": so_far, dialect.reward: so_far, "info": None,
        "done": episode.stop_reason is not None, "success": bool(episode.env.succeeded),
        "truncated": episode.stop_reason == "truncated",
    }  # fmt: skip
    if dialect.task == "game":
        answer["available_actions"] = episode.env.actions() or []
    return answer


def main() -> None:
    """Run the command `agentgym-agentenv`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", help="name of the world")
    parser.add_argument("--env-kwargs", type=json.loads, default={}, help="its arguments, as JSON")
    parser.add_argument("--split", default="train", help="split of the tasks")
    parser.add_argument("--seed", type=int, default=0, help="seed of the worlds")
    parser.add_argument(
        "--prompt", default="full", choices=["full", "brief", "none"], help="rules that open an episode"
    )
    parser.add_argument("--dialect", choices=DIALECTS, help="kind of AgentGym server; usually that of the world")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address; the protocol has no token, so mind who reaches it"
    )
    parser.add_argument("--port", type=int, default=36001)
    parser.add_argument("--sessions", type=int, default=100, help="number of simultaneous sessions")
    args = parser.parse_args()
    try:
        settings = EpisodeSettings.of_world(
            args.env, args.env_kwargs, split=args.split, prompt=args.prompt, seed=args.seed
        )
        app = make_app(settings, args.dialect, SessionLimits(sessions=args.sessions))
    except AgentGymError as error:
        sys.exit(f"agentgym-agentenv: {error}")
    import uvicorn

    uvicorn.run(app, host=args.host, port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
