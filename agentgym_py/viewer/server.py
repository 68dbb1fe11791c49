"""The server of the viewer: a page and what it asks for, on loopback only, for whoever knows the token.

Without the token nothing but the page's own three files is served, which hold no data. A request whose `Host` is not
this machine is refused (else a name on the network that points here could read through a browser); nothing that a page
shows is ever HTML.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
import warnings
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from agentgym_py.agents import Agent, ExpertAgent
from agentgym_py.errors import AgentGymError, DataError, UnknownNameError
from agentgym_py.policy import Policy
from agentgym_py.serving.http import Json, only_at, only_for
from agentgym_py.trajectory import store
from agentgym_py.viewer import feedback
from agentgym_py.viewer.feedback import Ref
from agentgym_py.viewer.index import Filter, Index, Order
from agentgym_py.viewer.live import Live, Models, Person
from agentgym_py.viewer.show import TokenTexts, planned, static

CONTINUED = "continued.jsonl"
"""The store, beside the others, of episodes that were gone on with and kept."""
_LIVE = 32
"""Episodes that are gone on with at once; of more the oldest is forgotten."""
_LOOK = 3.0
"""Seconds between looks at the files for what is new."""
_SHOWN_ACTIONS = 200
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
class Wanted(Filter):
    """What a list asks for: which episodes, and which part of them in what order."""

    text: str = Field(default="", max_length=500)
    order: Order = "file"
    offset: int = Field(default=0, ge=0, lt=1 << 31)
    limit: int = Field(default=100, ge=1, le=500)


class Thumb(BaseModel):
    """A verdict on an episode."""

    episode: int
    verdict: Literal[1, 0, -1]


class Choice(BaseModel):
    """Which of two episodes is better: 1 the first, -1 the second."""

    first: int
    second: int
    verdict: Literal[1, 0, -1]


class Start(BaseModel):
    """Where to go on from: before step `at` of an episode."""

    episode: int
    at: int = Field(ge=0)


class Act(BaseModel):
    """Who acts next: `person` says `text`; `expert`, or a model by its name, acts for `steps`."""

    by: str = Field(max_length=1000)
    text: str = Field("", max_length=100_000)
    steps: int = Field(1, ge=1, le=1000)
    temperature: float = Field(0.0, ge=0.0, le=10.0)


class Viewer:
    """What the endpoints share: the index, feedback, models, live episodes. Its methods may run in several threads."""

    def __init__(self, index: Index, load: Callable[[str], Policy]) -> None:
        self.index = index
        self.texts = TokenTexts(index.source.root)
        self.models = Models(index.source.root, load)
        self._lives: OrderedDict[str, Live] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def folder(self) -> Path:
        """Where feedback and kept episodes go."""
        return self.index.source.root

    def state(self) -> dict[str, Any]:
        """The frame of the page."""
        said = self._feedback()
        return {
            "title": self.folder.name,
            "bytes": [self.index.done, self.index.total],
            "episodes": self.index.find(limit=0)[0],
            "broken": [asdict(each) for each in self.index.broken()],
            "facets": self.index.facets(),
            "models": list(self.models.names()),
            "feedback": {"thumbs": len(said.thumbs), "preferences": len(said.preferences)},
        }

    def listed(self, wanted: Wanted) -> dict[str, Any]:
        """Rows, each with its thumb."""
        total, rows = self.index.find(wanted, wanted.order, wanted.offset, wanted.limit)
        return {"total": total, "rows": self._judged(rows)}

    def episode(self, n: int) -> dict[str, Any]:
        """An episode, its row, and all that were played of the same task."""
        whole = self.index.siblings(n)
        (row,) = self._judged([each for each in whole if each["n"] == n])
        return {"row": row, "episode": self.texts.shown(self.index.read(n)), "siblings": self._judged(whole)}

    def thumb(self, said: Thumb) -> dict[str, Any]:
        """Write it down; the row as it is now."""
        with self._lock:
            feedback.thumb(self.folder, self._ref(said.episode), said.verdict)
        return self._judged([self.index.row(said.episode)])[0]

    def choice(self, first: int, second: int) -> dict[str, Any]:
        """What was said of two episodes: 1, -1, or 0 where nothing was."""
        a, b = self._ref(first), self._ref(second)
        said = self._feedback().preferences
        comparable = feedback.comparable(self.index.read(first), self.index.read(second))
        return {"verdict": ((a, b) in said) - ((b, a) in said), "comparable": comparable}

    def prefer(self, said: Choice) -> dict[str, Any]:
        """Write it down, if the two open alike."""
        if not feedback.comparable(self.index.read(said.first), self.index.read(said.second)):
            raise DataError("these two do not open with the same task, rules and observation: no trainer can pair them")
        with self._lock:
            feedback.prefer(self.folder, self._ref(said.first), self._ref(said.second), said.verdict)
        return self.choice(said.first, said.second)

    def start(self, wanted: Start) -> dict[str, Any]:
        """Go on from a step."""
        live, key = Live(self.index.read(wanted.episode), wanted.at), secrets.token_urlsafe(9)
        with self._lock:
            self._lives[key] = live
            while len(self._lives) > _LIVE:
                self._lives.popitem(last=False)
        return self._shown(key, live)

    def act(self, key: str, said: Act) -> dict[str, Any]:
        """Let somebody act."""
        live = self._live(key)
        if said.by in ("person", "expert"):
            agent: Agent = Person(said.text) if said.by == "person" else ExpertAgent()
            live.act(agent, 1 if said.by == "person" else said.steps)
        else:
            self.models.act(live, said.by, said.steps, said.temperature)
        return self._shown(key, live)

    def keep(self, key: str) -> dict[str, Any]:
        """Write a live episode, as far as it has come, into the store of such episodes; its number, if listed."""
        live = self._live(key)
        with self._lock:
            store.append(self.folder / CONTINUED, [live.trajectory])
        if self.index.source.named:
            return {"n": None, "file": CONTINUED}
        self.index.look_at(self.folder / CONTINUED)
        return {"n": self.index.number_of(CONTINUED, live.trajectory.id), "file": CONTINUED}

    def _live(self, key: str) -> Live:
        live = self._lives.get(key)
        if live is None:
            raise UnknownNameError("This episode is no longer gone on with; start again from its step.")
        return live

    def _shown(self, key: str, live: Live) -> dict[str, Any]:
        return {
            "key": key, "episode": self.texts.shown(live.trajectory), "over": live.over, "gave_up": live.gave_up,
            "actions": live.actions[:_SHOWN_ACTIONS] if live.actions is not None else None,
        }  # fmt: skip

    def _ref(self, n: int) -> Ref:
        row = self.index.row(n)
        return Ref(row["path"], row["id"])

    def _judged(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        thumbs = self._feedback().thumbs
        return [{**row, "thumb": thumbs.get(Ref(row["path"], row["id"]), 0)} for row in rows]

    def _feedback(self) -> feedback.Feedback:
        return feedback.read(self.folder, warn=False)


def app_of(viewer: Viewer, token: str) -> FastAPI:
    """The application; `token` is what every request for data must bear."""
    stop = threading.Event()

    def follow() -> None:
        while True:
            try:
                viewer.index.update()
            except (OSError, sqlite3.Error, DataError) as error:  # a replaced folder, a full disk, a damaged index
                warnings.warn(f"looking at the files again: {error}", stacklevel=1)
            if stop.wait(_LOOK):
                return

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        yield
        stop.set()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan, default_response_class=Json)
    only_at(app, "127.0.0.1")

    @app.middleware("http")
    async def guard(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await go_on(request)
        response.headers.update(_HEADERS)
        return response

    @app.exception_handler(AgentGymError)
    @app.exception_handler(OSError)
    @app.exception_handler(OverflowError)  # a number that SQLite cannot hold
    def refused(_: Request, error: Exception) -> Json:
        return Json({"detail": str(error)}, 404 if isinstance(error, UnknownNameError) else 409)

    @app.get("/")
    def page() -> Response:
        return Response(static("index.html"), media_type="text/html")

    @app.get("/static/{name}")
    def file(name: str) -> Response:
        if name not in _STATIC:
            raise HTTPException(404)
        return Response(static(name), media_type=_STATIC[name])

    app.include_router(_api(viewer, token))
    return app


def _api(viewer: Viewer, token: str) -> APIRouter:
    known = only_for(token, "open the address that agentgym view printed: it has the token")

    class Guarded(APIRoute):
        """Asks for the token before it reads the body, which a dependency comes after."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def guarded(request: Request) -> Response:
                await known(request)
                return await handle(request)

            return guarded

    api = APIRouter(prefix="/api", route_class=Guarded)

    @api.get("/state")
    def state() -> Json:
        return Json(viewer.state())

    @api.get("/episodes")
    def episodes(request: Request) -> Json:
        try:
            return Json(viewer.listed(TypeAdapter(Wanted).validate_python(dict(request.query_params))))
        except ValidationError as error:
            raise RequestValidationError(error.errors()) from error

    @api.get("/episodes/{n}")
    def episode(n: int) -> Json:
        return Json(viewer.episode(n))

    @api.get("/episodes/{n}/plans")
    def plan(n: int) -> Json:
        return Json(planned(viewer.index.read(n)))

    @api.post("/thumb")
    def thumb(said: Thumb) -> Json:
        return Json(viewer.thumb(said))

    @api.get("/preference")
    def choice(first: int, second: int) -> Json:
        return Json(viewer.choice(first, second))

    @api.post("/preference")
    def prefer(said: Choice) -> Json:
        return Json(viewer.prefer(said))

    @api.post("/live")
    def start(wanted: Start) -> Json:
        return Json(viewer.start(wanted))

    @api.post("/live/{key}/act")
    def act(key: str, said: Act) -> Json:
        return Json(viewer.act(key, said))

    @api.post("/live/{key}/keep")
    def keep(key: str) -> Json:
        return Json(viewer.keep(key))

    return api
