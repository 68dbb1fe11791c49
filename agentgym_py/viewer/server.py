"""The server of the viewer: a page and its API, on loopback only, for clients with the token.

Without the token only the page's three static files are served, which hold no data. A request whose `Host` is not this
machine is refused, because a foreign name that resolves to it could otherwise read through a browser. The page never
inserts data as HTML.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
import warnings
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import wraps
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from agentgym_py.agents import ExpertAgent
from agentgym_py.engine.sampling import MAX_TEMPERATURE
from agentgym_py.errors import AgentGymError, DataError, UnknownNameError, WriteError
from agentgym_py.feedback import verdicts
from agentgym_py.feedback.verdicts import Ref
from agentgym_py.files import inside
from agentgym_py.policy import Policy
from agentgym_py.serving.http import Json, require_token, restrict_hosts
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.viewer.index import Filter, Index, Order
from agentgym_py.viewer.live import LiveEpisode, Models, TypedAgent
from agentgym_py.viewer.show import TokenTexts, expert_plans, path_of, static_file

CONTINUED = "continued.jsonl"
"""The store of continued episodes that the user kept."""
_MAX_LIVE = 32
"""Maximum number of live episodes; the oldest is dropped first."""
_POLL_SECONDS = 3.0
"""Seconds between updates of the index."""
_MAX_ACTIONS = 200
_MAX_PROBLEMS = 500
"""Characters of an answer that says what is wrong with a request."""
_MAX_PATHS = 500
"""Maximum number of episodes of a tree."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STATIC = {"viewer.js": "text/javascript", "viewer.css": "text/css"}


@dataclass(frozen=True)
class EpisodeQuery(Filter):
    """A filter of episodes, their order, and a page of them."""

    text: str = Field(default="", max_length=500)
    order: Order = "file"
    offset: int = Field(default=0, ge=0, lt=1 << 31)
    limit: int = Field(default=100, ge=1, le=500)


class ThumbRequest(BaseModel):
    """A verdict on an episode."""

    episode: int
    verdict: Literal[1, 0, -1]


class StarsRequest(BaseModel):
    """A rating of an episode from 1 (worst) to 5; 0 withdraws it."""

    episode: int
    stars: int = Field(ge=0, le=verdicts.MAX_STARS)


class ReplyRequest(BaseModel):
    """The better reply at a step (from 0) of an episode; an empty text withdraws it."""

    episode: int
    step: int = Field(ge=0)
    reply: str = Field(max_length=100_000)


class PreferenceRequest(BaseModel):
    """A verdict on two episodes: 1 if the first is better, -1 if the second is."""

    first: int
    second: int
    verdict: Literal[1, 0, -1]


class StartRequest(BaseModel):
    """The start of a live episode: before step `at` of a stored one."""

    episode: int
    at: int = Field(ge=0)


class ActRequest(BaseModel):
    """The next agent: `person` replies `text`; `expert`, or a model by its name, acts for `steps`."""

    by: str = Field(max_length=1000)
    text: str = Field("", max_length=100_000)
    steps: int = Field(1, ge=1, le=1000)
    temperature: float = Field(0.0, ge=0.0, le=MAX_TEMPERATURE)


class Viewer:
    """Implements the API: index, feedback, models, live episodes. Its methods may run in several threads."""

    def __init__(self, index: Index, load: Callable[[str], Policy], world_advice: str = "") -> None:
        """Show an index; `load` loads a model, `world_advice` is the command that names the sources of its worlds."""
        self.index, self._world_advice = index, world_advice
        self.texts = TokenTexts(index.source.root)
        self.models = Models(index.source.root, load)
        self._live: OrderedDict[str, LiveEpisode] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def folder(self) -> Path:
        """The folder of feedback and kept episodes."""
        return self.index.source.root

    def state(self) -> dict[str, Any]:
        """Return what the page shows around the episodes."""
        current = self._verdicts()
        return {
            "title": self.folder.name,
            "bytes": [self.index.done, self.index.total],
            "episodes": self.index.find(limit=0)[0],
            "broken": [asdict(line) for line in self.index.broken()],
            "facets": self.index.facets(),
            "models": list(self.models.names()),
            "feedback": {
                "thumbs": len(current.thumbs),
                "ratings": len(current.stars),
                "preferences": len(current.preferences),
                "replies": len(current.replies),
            },
        }

    def episodes(self, query: EpisodeQuery) -> dict[str, Any]:
        """Return the rows of a query, with their thumbs."""
        total, rows = self.index.find(query, query.order, query.offset, query.limit)
        return {"total": total, "rows": self._with_thumbs(rows)}

    def episode(self, n: int) -> dict[str, Any]:
        """Return an episode, its row, and the rows of all episodes of the same task."""
        siblings = self._with_thumbs(self.index.siblings(n))
        row = next(row for row in siblings if row["n"] == n)
        current, ref = self._verdicts(), self._ref(n)
        replies = {step: reply for (of, step), reply in current.replies.items() if of == ref}
        judged = {"stars": current.stars.get(ref, 0), "replies": replies}
        return {"row": row, "episode": self.texts.to_json(self.index.read(n)), "siblings": siblings, **judged}

    def neighbours(self, n: int, query: EpisodeQuery) -> dict[str, Any]:
        """Return the numbers of the episodes before and after one in a list, and whether it is in that list."""
        found = self.index.neighbours(n, query, query.order)
        previous, following = found or (None, None)
        return {"listed": found is not None, "previous": previous, "next": following}

    def tree(self, n: int) -> dict[str, Any]:
        """Return the paths of the episodes of a task, this one included, and how many are left out."""
        siblings = self.index.siblings(n)
        rows = sorted(siblings, key=lambda row: row["n"] != n)[:_MAX_PATHS]
        paths = [{"row": row, "path": path_of(self.index.read(row["n"]))} for row in sorted(rows, key=itemgetter("n"))]
        return {"episodes": paths, "left_out": len(siblings) - len(rows)}

    def plans(self, n: int) -> dict[str, Any]:
        """Return the expert's plans and state values for an episode."""
        trajectory = self.index.read(n)
        try:
            self._require_world(trajectory)
        except AgentGymError as error:
            return {"error": str(error)}
        return expert_plans(trajectory)

    def thumb(self, request: ThumbRequest) -> dict[str, Any]:
        """Store a verdict; return the episode's row."""
        with self._lock:
            verdicts.rate(self.folder, self._ref(request.episode), request.verdict)
        return self._with_thumbs([self.index.row(request.episode)])[0]

    def stars(self, request: StarsRequest) -> dict[str, Any]:
        """Store a rating; return it."""
        with self._lock:
            verdicts.give_stars(self.folder, self._ref(request.episode), request.stars)
        return {"stars": request.stars}

    def correct(self, request: ReplyRequest) -> dict[str, Any]:
        """Store a better reply at a step; return it."""
        if request.step >= (count := len(self.index.read(request.episode).steps)):
            raise DataError(f"the episode has {count} steps: there is no step {request.step + 1}")
        with self._lock:
            verdicts.correct(self.folder, self._ref(request.episode), request.step, request.reply)
        return {"step": request.step, "reply": request.reply.strip() and request.reply}

    def preference(self, first: int, second: int) -> dict[str, Any]:
        """Return the verdict on two episodes: 1, -1, or 0 without one."""
        a, b = self._ref(first), self._ref(second)
        preferences = self._verdicts().preferences
        comparable = verdicts.comparable(self.index.read(first), self.index.read(second))
        return {"verdict": ((a, b) in preferences) - ((b, a) in preferences), "comparable": comparable}

    def prefer(self, request: PreferenceRequest) -> dict[str, Any]:
        """Store a verdict on two episodes that open alike."""
        if not verdicts.comparable(self.index.read(request.first), self.index.read(request.second)):
            raise DataError("these two do not open with the same task, rules and observation: no trainer can pair them")
        with self._lock:
            verdicts.prefer(self.folder, self._ref(request.first), self._ref(request.second), request.verdict)
        return self.preference(request.first, request.second)

    def start(self, request: StartRequest) -> dict[str, Any]:
        """Start a live episode."""
        trajectory = self.index.read(request.episode)
        self._require_world(trajectory)
        live, key = LiveEpisode(trajectory, request.at), secrets.token_urlsafe(9)
        with self._lock:
            self._live[key] = live
            while len(self._live) > _MAX_LIVE:
                self._live.popitem(last=False)
        return self._live_state(key)

    def act(self, key: str, request: ActRequest) -> dict[str, Any]:
        """Let an agent act in a live episode."""
        live = self._find_live(key)
        if request.by == "person":
            live.act(TypedAgent(request.text))
        elif request.by == "expert":
            live.act(ExpertAgent(), request.steps)
        else:
            self.models.act(live, request.by, request.steps, request.temperature)
        return self._live_state(key)

    def keep(self, key: str) -> dict[str, Any]:
        """Append a live episode to the store of continued ones; return its number if that store is in the index."""
        live = self._find_live(key)
        with self._lock:
            store.append(inside(self.folder, CONTINUED), [live.trajectory])
        if self.index.source.stores:
            return {"n": None, "file": CONTINUED}
        self.index.update_file(self.folder / CONTINUED)
        return {"n": self.index.find_number(CONTINUED, live.trajectory.id), "file": CONTINUED}

    def _require_world(self, trajectory: Trajectory) -> None:
        """Raise UnknownNameError, with the command that names the world's source, if the world is not known."""
        try:
            trajectory.replay_spec()
        except UnknownNameError as error:
            if not self._world_advice:
                raise
            message = f"No environment {trajectory.provenance.env_id!r:.100} is installed; name its source:"
            raise UnknownNameError(f"{message} {self._world_advice}") from error

    def _find_live(self, key: str) -> LiveEpisode:
        live = self._live.get(key)
        if live is None:
            raise UnknownNameError("This live episode was dropped; start again from its step.")
        return live

    def _live_state(self, key: str) -> dict[str, Any]:
        live = self._find_live(key)
        return {
            "key": key, "episode": self.texts.to_json(live.trajectory), "over": live.over, "gave_up": live.gave_up,
            "actions": live.actions[:_MAX_ACTIONS] if live.actions is not None else None,
        }  # fmt: skip

    def _ref(self, n: int) -> Ref:
        row = self.index.row(n)
        return Ref(row["path"], row["id"])

    def _with_thumbs(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        thumbs = self._verdicts().thumbs
        return [{**row, "thumb": thumbs.get(Ref(row["path"], row["id"]), 0)} for row in rows]

    def _verdicts(self) -> verdicts.Verdicts:
        return verdicts.read(self.folder, warn=False)


def app_of(viewer: Viewer, token: str) -> FastAPI:
    """Return the application; every request for data needs the token."""
    stop = threading.Event()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        thread = threading.Thread(target=_follow, args=(viewer, stop), daemon=True)
        thread.start()
        yield
        stop.set()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan, default_response_class=Json)
    restrict_hosts(app, "127.0.0.1")

    @app.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        response.headers.update(_HEADERS)
        return response

    @app.exception_handler(AgentGymError)
    @app.exception_handler(OSError)
    @app.exception_handler(OverflowError)  # a number that SQLite cannot hold
    def refused(_: Request, error: Exception) -> Json:
        return Json({"detail": str(error)}, 404 if isinstance(error, UnknownNameError) else 409)

    @app.exception_handler(RequestValidationError)
    def wrong(_: Request, error: RequestValidationError) -> Json:
        return Json(
            {"detail": "; ".join(map(_problem, error.errors()))[:_MAX_PROBLEMS]}, 422
        )  # FastAPI's own answer cannot hold 1e400

    @app.get("/")
    def page() -> Response:
        return Response(static_file("index.html"), media_type="text/html")

    @app.get("/static/{name}")
    def file(name: str) -> Response:
        if name not in _STATIC:
            raise HTTPException(404)
        return Response(static_file(name), media_type=_STATIC[name])

    app.include_router(_api(viewer, token))
    return app


def _problem(problem: Mapping[str, Any]) -> str:
    """Describe what is wrong with a value of a request."""
    name = problem["loc"][-1] if problem["loc"] else "request"
    if problem["type"] in ("int_parsing", "float_parsing", "int_from_float"):
        return f"{name} must be a number"
    message = str(problem["msg"])
    rule = message.removeprefix("Input should be ")
    return f"{name}: {message}" if rule == message else f"{name} must be {rule}"


def _follow(viewer: Viewer, stop: threading.Event) -> None:
    """Update the index until `stop` is set."""
    while True:
        try:
            viewer.index.update()
        except (OSError, sqlite3.Error, DataError, WriteError) as error:  # such as a full disk
            warnings.warn(f"the index was not updated: {error}; the viewer tries again", stacklevel=1)
        if stop.wait(_POLL_SECONDS):
            return


def _api(viewer: Viewer, token: str) -> APIRouter:
    check_token = require_token(token, "open the address that agentgym view printed: it has the token")

    class Guarded(APIRoute):
        """Checks the token before the body is read; a dependency would check it afterwards."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def guarded(request: Request) -> Response:
                await check_token(request)
                return await handle(request)

            return guarded

    api = APIRouter(prefix="/api", route_class=Guarded)

    @api.get("/episodes")
    def episodes(request: Request) -> Json:
        return Json(viewer.episodes(_query_of(request)))

    @api.get("/episodes/{n}/neighbours")
    def neighbours(n: int, request: Request) -> Json:
        return Json(viewer.neighbours(n, _query_of(request)))

    for method, path, endpoint in (
        ("GET", "/state", viewer.state), ("GET", "/episodes/{n}", viewer.episode),
        ("GET", "/episodes/{n}/plans", viewer.plans), ("GET", "/episodes/{n}/tree", viewer.tree),
        ("POST", "/thumb", viewer.thumb), ("POST", "/stars", viewer.stars), ("POST", "/reply", viewer.correct),
        ("GET", "/preference", viewer.preference), ("POST", "/preference", viewer.prefer),
        ("POST", "/live", viewer.start), ("POST", "/live/{key}/act", viewer.act),
        ("POST", "/live/{key}/keep", viewer.keep),
    ):  # fmt: skip
        api.add_api_route(path, _as_json(endpoint), methods=[method], response_model=None)
    return api


def _query_of(request: Request) -> EpisodeQuery:
    try:
        return TypeAdapter(EpisodeQuery).validate_python(dict(request.query_params))
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from error


def _as_json(endpoint: Callable[..., dict[str, Any]]) -> Callable[..., Json]:
    @wraps(endpoint)
    def respond(*args: Any, **kwargs: Any) -> Json:
        return Json(endpoint(*args, **kwargs))

    return respond
