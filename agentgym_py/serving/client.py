"""The client of an environment server: an environment that runs elsewhere."""

from __future__ import annotations

import base64
import copy
import http.client
import json
import os
import secrets
import time
from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

import gymnasium

from agentgym_py.env import Outcome, Reply, StopReason, Task, TextEnv
from agentgym_py.env.spaces import UnicodeText
from agentgym_py.errors import ActionError, ConfigError, EndpointError, InfrastructureError, UnknownNameError
from agentgym_py.serving.protocol import ERRORS, GONE, SESSIONS, written

TOKEN = "AGENTGYM_TOKEN"  # noqa: S105  # the variable's name
"""The environment variable that holds the token."""
_BYTES_A_CHARACTER = 12  # of JSON in ASCII
_AROUND = 100
"""Bytes of a request beside its text."""
_WAIT = 0.1
"""Seconds before a request is sent again; then three times as long, and so on."""
_LOST, _PATIENCE = 5, 60.0
"""A server that leaves this many requests in a row unanswered, over this many seconds, is gone."""
_unanswered: dict[str, tuple[int, float]] = {}
"""By address: how many requests in a row went unanswered, and since when."""


class SessionLostError(InfrastructureError):
    """The session no longer exists."""


class Connection:
    """One connection to a server, opened on first use and reopened when it breaks."""

    def __init__(self, url: str, token: str, timeout: float, retries: int) -> None:
        if timeout <= 0 or retries < 0:
            raise ConfigError(f"timeout must be above 0 and retries at least 0, got {timeout} and {retries}")
        if not (token.isascii() and token.isprintable()):
            raise ConfigError(f"the token, of {TOKEN}, must be printable ASCII characters")
        self._given = url, token, timeout, retries
        try:
            parts = urlsplit(url)
            if not parts.hostname:
                raise ValueError("no host")
            kind = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}[parts.scheme]
            self._http = kind(parts.hostname, parts.port, timeout=timeout)
        except (ValueError, LookupError, http.client.InvalidURL) as error:
            told = f"url must be as http://127.0.0.1:8000, what agentgym serve prints; not {url!r}"
            raise ConfigError(told) from error
        self._url, self._path, self._retries = url, parts.path.rstrip("/") + SESSIONS, retries
        self.lost = False
        """Whether the last request found no server."""
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def another(self) -> Connection:
        """Open a second connection to the same server."""
        return Connection(*self._given)

    def ask(self, method: str, path: str, body: bytes = b"", *, retries: int | None = None) -> Any:
        """Return the answer to a request, which is sent again if none comes: the server recognizes one it has done.

        Raises:
            InfrastructureError: no answer, or the server or its environment failed.
            EndpointError: no answer for long, to any environment of this process.
            AgentGymError: what the environment raised.
        """
        left, wait = self._retries if retries is None else retries, _WAIT
        while True:
            try:
                status, raw = self._once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                if not left:
                    self.lost = True
                    count, since = _unanswered.get(self._url, (0, time.monotonic()))
                    _unanswered[self._url] = count + 1, since
                    passed = time.monotonic() - since
                    gone = count + 1 >= _LOST and passed >= _PATIENCE
                    told = f"no answer from {self._url}{f' for {passed:.0f} s' if gone else ''}: {error!r}"
                    raise (EndpointError if gone else InfrastructureError)(told) from error
            else:
                if status != 503 or not left:
                    self.lost = False
                    _unanswered.pop(self._url, None)
                    return self._understood(status, raw)
            time.sleep(wait)
            left, wait = left - 1, 3 * wait

    def _once(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        try:
            self._http.request(method, self._path + path, body, self._headers)
            answer = self._http.getresponse()
            return answer.status, answer.read()
        except BaseException:  # also Ctrl-C: an answer that comes later does not belong to the next request
            self.close()
            raise

    def close(self) -> None:
        """Close it; the next request opens it again."""
        self._http.close()

    def _understood(self, status: int, raw: bytes) -> Any:
        try:
            said = json.loads(raw)
            if status < 300:
                return said
            kind, message = said["error"]["type"], said["error"]["message"]
        except (ValueError, LookupError, TypeError) as error:
            told = f"{self._url} is no environment server: it answered {status} {raw[:100]!r}"
            raise InfrastructureError(told) from error
        if status == 401:
            raise ConfigError(f"{self._url}: {message}; set {TOKEN}")
        if kind in ERRORS:
            raise ERRORS[kind](message)
        raise (SessionLostError if kind == GONE else InfrastructureError)(f"{self._url}: {message}")


class RemoteEnv(TextEnv):
    """A world that an environment server runs (`agentgym serve`); the same episodes as the world itself, to the byte.

    Task, rules, version, actions, tools and experts are those of the world. Stored trajectories name the world itself,
    so that they can be replayed without a server.

    Actions: the world's. What is sent twice, because no answer came, is done once.

    Observation: the world's.

    Reward: the world's.

    End: the world's, at its `max_steps`. Where the server does not answer, or has lost the session, `step` raises
    InfrastructureError: the episode is no evidence. `reset` and `restore` make a new session then.

    Args:
        url: as `agentgym serve` prints it.
        env: short name or Gymnasium id of a world that it serves.
        token: who may use it; better given as the environment variable AGENTGYM_TOKEN, which is written down nowhere.
        timeout: seconds after which a request counts as lost.
        retries: how often it is sent again then, after 0.1, 0.3, 0.9 … seconds.
        render_mode: `ansi` or None.
        kwargs: the world's arguments that the server leaves to clients, such as `difficulty`.

    The `random_baseline` is the world's. Registered ids: AgentRemote-v0.
    """

    name: ClassVar[str] = "remote"

    def __init__(
        self,
        *,
        url: str,
        env: str,
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 3,
        render_mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._link = Connection(url, os.environ.get(TOKEN, "") if token is None else token, timeout, retries)
        try:
            self._made_by = written({"env": env, "kwargs": kwargs})
        except (TypeError, ValueError) as error:
            raise ConfigError(f"a server takes only plain data as arguments, not {kwargs!r:.200}") from error
        self._key, self._changes, self._limit = "", 0, 0
        card = self._open(self._made_by)
        self._limit, self._longest = card["max_steps"], card["request_bytes"]
        super().__init__(max_steps=self._limit, split=card["split"], render_mode=render_mode)
        # the instance has here what a class says of its env
        of_world = ("name", "version", "rules", "random_baseline", "stops_at_end")
        vars(self).update({name: card[name] for name in of_world})
        self.action_space = UnicodeText((self._longest - _AROUND) // _BYTES_A_CHARACTER)

    # ---- the session ------------------------------------------------------------------------------------------------

    def _open(self, made_by: bytes) -> Any:
        """Make a session; returns what the server says of it."""
        key = secrets.token_urlsafe(24)
        card = self._link.ask("PUT", f"/{key}", made_by)
        self._key, self._changes = key, card["changes"]
        if self._limit not in (0, card["max_steps"]):
            self._change("limit", max_steps=self._limit)
        return card

    def _ask(self, call: str, **given: Any) -> Any:
        if not self._key:
            raise SessionLostError("this environment is closed, or its session is lost; reset() makes a new one")
        body = written(given)
        if len(body) > self._longest:
            raise ConfigError(f"a request of {len(body)} bytes; the server takes {self._longest} (--request_bytes)")
        return self._link.ask("POST", f"/{self._key}/{call}", body)

    def _change(self, call: str, **given: Any) -> Any:
        said = self._ask(call, n=self._changes + 1, **given)
        self._changes += 1
        return said

    def _afresh(self, call: str, **given: Any) -> Any:
        """Send a change that does not depend on the state before it; if the session is lost, in a new one."""
        try:
            return self._change(call, **given)
        except InfrastructureError:
            self.close()
            self._open(self._made_by)
            return self._change(call, **given)

    def _take_up(self, said: Mapping[str, Any]) -> None:
        self.current_task = Task(**said["task"]) if said["task"] else None
        self.steps, self.succeeded = said["steps"], said["success"]
        self.last_reply = self._parsed = None
        self.stop_reason = StopReason(said["stop_reason"]) if said["stop_reason"] else None
        self._last = said["observation"]

    def close(self) -> None:
        """End the session; a server that is gone ends it by itself."""
        key, self._key = self._key, ""
        try:
            if key and not self._link.lost:
                self._link.ask("DELETE", f"/{key}", retries=0)
        except (ConfigError, EndpointError, InfrastructureError):
            pass
        finally:
            self._link.close()

    # ---- what changes the episode -----------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """As `TextEnv.reset`; in a new session if the old one is lost."""
        gymnasium.Env.reset(self, seed=seed)
        said = self._afresh("reset", seed=seed, options=options)
        self._take_up(said)
        return self._last, said["info"]

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """As `TextEnv.step`.

        Raises:
            ActionError: `action` is no string.
            InfrastructureError: the server does not answer, or has lost the session.
        """
        self._require_reset()
        if not isinstance(action, str):
            raise ActionError(f"action must be a string, the agent's whole reply; got {action!r:.60}")
        said = self._change("step", action=action)
        self._last, self.steps, self.succeeded = said["observation"], said["steps"], said["info"]["success"]
        terminated, truncated = said["terminated"], said["truncated"]
        self.stop_reason = StopReason.TERMINATED if terminated else StopReason.TRUNCATED if truncated else None
        self.last_reply, self._parsed = Reply(**said["read"]) if said["read"] else None, None
        return self._last, said["reward"], terminated, truncated, said["info"]

    def restore(self, snapshot: bytes) -> None:
        """As `TextEnv.restore`; in a new session if the old one is lost."""
        self._take_up(self._afresh("restore", snapshot=base64.b64encode(snapshot).decode()))

    def fork(self) -> RemoteEnv:
        """Return another environment, with its own session, in the state of this one."""
        made = copy.copy(self)
        made._link, made._np_random = self._link.another(), None
        made._open(written({"fork": self._key}))
        return made

    @property
    def max_steps(self) -> int:
        """The step limit of an episode."""
        return self._limit

    @max_steps.setter
    def max_steps(self, value: int) -> None:
        if value != self._limit:
            self._change("limit", max_steps=value)
        self._limit = value

    # ---- questions --------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The environment's own snapshot: it can be restored here and in the environment itself."""
        return base64.b64decode(self._ask("snapshot"))

    def state(self) -> dict[str, Any]:
        """The part of a snapshot that is the environment's."""
        return cast("dict[str, Any]", json.loads(self.snapshot())["state"])

    def task(self, name: str | int, split: str | None = None) -> Task:
        """As `TextEnv.task`."""
        if not isinstance(name, str | Integral) or isinstance(name, bool):
            raise UnknownNameError(f"A task is named by its id or its number, not by {name!r}.")
        return Task(**self._ask("task", name=name, split=split))

    def read(self, text: str) -> Reply:
        """As `TextEnv.read`."""
        return Reply(**self._ask("read", text=text))

    def actions(self) -> list[str] | None:
        """As `TextEnv.actions`."""
        return cast("list[str] | None", self._ask("actions"))

    def tools(self) -> list[dict[str, Any]] | None:
        """As `TextEnv.tools`."""
        return cast("list[dict[str, Any]] | None", self._ask("tools"))

    def expert(self) -> list[str]:
        """As `TextEnv.expert`; ConfigError if the server does not tell."""
        return cast("list[str]", self._ask("expert"))

    def fair_expert(self) -> str | None:
        """As `TextEnv.fair_expert`; ConfigError if the server does not tell."""
        return cast("str | None", self._ask("fair_expert"))

    def expert_thought(self, action: str) -> str:
        """As `TextEnv.expert_thought`; ConfigError if the server does not tell."""
        return str(self._ask("expert_thought", action=action))

    def secrets(self) -> list[str] | None:
        """As `TextEnv.secrets`; ConfigError if the server does not tell."""
        return cast("list[str] | None", self._ask("secrets"))

    # ---- what the server does ---------------------------------------------------------------------------------------

    def begin(self, task: Task) -> str:
        """The server's."""
        raise NotImplementedError

    def act(self, reply: Reply) -> Outcome:
        """The server's."""
        raise NotImplementedError

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """The server's."""
        raise NotImplementedError
