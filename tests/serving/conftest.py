"""A real server on a free port, in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium
import pytest

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")

from agentgym_py import registry
from agentgym_py.cli.server_options import LOOPBACK, listen, server_config
from agentgym_py.env import EnvSpec, Outcome, Reply, Task, TextEnv
from agentgym_py.serving import RemoteEnv
from agentgym_py.serving.client import Connection
from agentgym_py.serving.sessions import Limits, Sessions

TOKEN = "a-token-for-tests"


class OddEnv(TextEnv):
    """A world that misbehaves when it is told to: `fail`, `exit`, `stop`, `hang`, `nan`; others are counted."""

    woken = threading.Event()
    """What one that hangs waits for."""
    name = "odd"
    rules = {"full": "", "brief": "", "none": ""}  # noqa: RUF012  # nothing changes it

    def __init__(self, *, max_steps: int = 1000, split: str = "train", file: str | None = None) -> None:
        super().__init__(max_steps=max_steps, split=split)
        self.count = 0
        self.file = file

    def task(self, name: str | int, split: str | None = None) -> Task:
        """One task."""
        return Task("odd/1", "train", "odd", "easy", "Count.")

    def begin(self, task: Task) -> str:
        """From zero."""
        self.count = 0
        return "0"

    def act(self, reply: Reply) -> Outcome:
        """Count."""
        if reply.action == "exit":
            raise KeyboardInterrupt
        if reply.action == "stop":
            raise StopIteration
        if reply.action == "fail":
            raise RuntimeError("as it was told")
        if reply.action == "hang":
            self.woken.wait(60)
        self.count += 1
        return Outcome(str(self.count), float("nan") if reply.action == "nan" else 0.0)

    def state(self) -> dict[str, Any]:
        """The count."""
        return {"count": self.count}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Take it up."""
        self.count = int(state["count"])

    def expert(self) -> list[str]:
        """Knows nothing."""
        return []


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Lets worlds that hang come back, at the end of the test at the latest."""
    event = threading.Event()
    monkeypatch.setattr(OddEnv, "woken", event)
    yield event
    event.set()


if "OddForTests-v0" not in gymnasium.registry:
    world: Any = OddEnv
    gymnasium.register(id="OddForTests-v0", entry_point=world)


@dataclass
class Server:
    """A server that runs."""

    url: str
    sessions: Sessions
    running: Any
    thread: threading.Thread

    def env(self, world: str, **kwargs: Any) -> RemoteEnv:
        """A client."""
        return RemoteEnv(url=self.url, env=world, token=TOKEN, **{"retries": 0, **kwargs})

    def ask(self, method: str, path: str = "", body: bytes = b"", token: str = TOKEN) -> Any:
        """A request by hand, and its answer."""
        link = Connection(self.url, token, 10, 0)
        try:
            return link.ask(method, path, body)
        finally:
            link.close()

    def stop(self) -> None:
        """End it."""
        self.running.should_exit = True
        self.thread.join(10)


Serve = Callable[..., Server]


@contextmanager
def _serving(worlds: list[EnvSpec], port: int = 0, *, experts: bool = False, **limits: Any) -> Iterator[Server]:
    from agentgym_py.serving.server import make_app

    allow = limits.pop("allow", ())
    sessions = Sessions(worlds, Limits(**limits), experts=experts, allow=allow)
    with listen(LOOPBACK, port) as at:
        app = make_app(sessions, TOKEN, LOOPBACK)
        running = uvicorn.Server(server_config(app, timeout_graceful_shutdown=1, timeout_keep_alive=600))
        thread = threading.Thread(target=running.run, args=([at],), daemon=True)
        thread.start()
        made = Server(f"http://{LOOPBACK}:{at.getsockname()[1]}", sessions, running, thread)
        yield made
        made.stop()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A function that starts a server: worlds by name or spec, `port`, `experts`, `allow`, fields of `Limits`."""
    running = []

    def start(*worlds: str | EnvSpec, **more: Any) -> Server:
        specs = [each if isinstance(each, EnvSpec) else EnvSpec(each) for each in worlds]
        context = _serving(specs, **more)
        running.append(context)
        return context.__enter__()

    yield start
    for each in running:
        each.__exit__(None, None, None)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One of every world for all tests that leave nothing behind; its experts tell."""
    names = [*registry.names("agentgym.envs"), "OddForTests-v0"]
    with _serving([EnvSpec(name) for name in names], experts=True, longest=30.0) as made:
        yield made
        made.running.force_exit = True  # no client is left, so sessions need not be closed
