"""The client of an environment server: an environment that runs elsewhere."""

from __future__ import annotations

import base64
import copy
import http.client
import json
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar, cast

import gymnasium

from agentgym_py.checks import parameters_of
from agentgym_py.env import Outcome, PartnerRecord, Reply, StopReason, Task, TextEnv
from agentgym_py.env.spaces import UnicodeText
from agentgym_py.errors import ActionError, ConfigError, EndpointError, InfrastructureError, UnknownNameError
from agentgym_py.files import parse_json
from agentgym_py.http_client import MOST_ANSWER_VALUES
from agentgym_py.serving.protocol import ERRORS, SESSION_GONE, SESSIONS, encode
from agentgym_py.serving.timed_http import TimedConnection

TOKEN = "AGENTGYM_TOKEN"  # noqa: S105  # the variable's name
"""The environment variable that holds the token."""
_BYTES_PER_CHARACTER = 12  # of JSON in ASCII
_REQUEST_OVERHEAD = 100
"""Bytes of a request besides its text."""
_WAIT = 0.1
"""Seconds before the first retry; each further wait is three times as long."""
_MAX_FAILURES, _PATIENCE = 5, 60.0
"""Number of consecutive unanswered requests, and their duration in seconds, after which a server counts as gone."""
_LATER: Mapping[str, Any] = {
    "costs": {}, "has_model_partner": False, "max_return": None, "reading_actions": (), "held_out_version": None,
}  # fmt: skip
"""Attributes of worlds that earlier servers do not send, and their values without them."""
_unanswered: dict[str, tuple[int, float]] = {}
"""Number of consecutive unanswered requests and the time of the first, by address."""


class SessionLostError(InfrastructureError):
    """The session no longer exists."""


class Connection:
    """A connection to a server; it opens on first use and reopens after a failure."""

    def __init__(self, url: str, token: str, timeout: float, retries: int) -> None:
        if timeout <= 0 or retries < 0:
            raise ConfigError(f"timeout must be above 0 and retries at least 0, got {timeout} and {retries}")
        if not (token.isascii() and token.isprintable()):
            raise ConfigError(f"the token, of {TOKEN}, must be printable ASCII characters")
        self._arguments = url, token, timeout, retries
        self._http = TimedConnection(url, timeout)
        self._url, self._retries = url, retries
        self.lost = False
        """Whether the last request found no server."""
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def duplicate(self) -> Connection:
        """Open a second connection to the same server."""
        return Connection(*self._arguments)

    def ask(self, method: str, path: str, body: bytes = b"", *, retries: int | None = None) -> Any:
        """Send a request and return the answer; retry if there is none, because the server recognizes repetitions.

        Raises:
            InfrastructureError: no answer, or the server or its environment failed.
            EndpointError: no environment of this process got an answer for a long time.
            AgentGymError: the environment raised it.
        """
        retries_left, wait = self._retries if retries is None else retries, _WAIT
        while True:
            try:
                status, raw = self._http.send(method, SESSIONS + path, body, self._headers)
            except InfrastructureError as error:
                raise InfrastructureError(f"{self._url}: {error}") from error
            except (OSError, http.client.HTTPException) as error:
                if not retries_left:
                    self.lost = True
                    count, since = _unanswered.get(self._url, (0, time.monotonic()))
                    _unanswered[self._url] = count + 1, since
                    passed = time.monotonic() - since
                    gone = count + 1 >= _MAX_FAILURES and passed >= _PATIENCE
                    message = f"no answer from {self._url}{f' for {passed:.0f} s' if gone else ''}: {error!r}"
                    raise (EndpointError if gone else InfrastructureError)(message) from error
            else:
                if status != 503 or not retries_left:
                    self.lost = False
                    _unanswered.pop(self._url, None)
                    return parse_answer(self._url, status, raw)
            time.sleep(wait)
            retries_left, wait = retries_left - 1, 3 * wait

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        self._http.close()


def parse_answer(url: str, status: int, raw: bytes) -> Any:
    """Return the JSON that a server answered, or raise the error that it names.

    Raises:
        InfrastructureError: the server answered something else, or has lost the session.
        ConfigError: it needs a token.
        AgentGymError: any other that the server names.
    """
    try:
        answer = parse_json(raw, MOST_ANSWER_VALUES)
        if status < 300:
            return answer
        kind, message = str(answer["error"]["type"]), str(answer["error"]["message"])
    except (ValueError, LookupError, TypeError) as error:
        message = f"{url} is not an environment server: it answered {status} {raw[:100]!r}"
        raise InfrastructureError(message) from error
    if status == 401:
        raise ConfigError(f"{url}: {message}; set {TOKEN}")
    if kind in ERRORS:
        named = ERRORS[kind](message)
        named.of_server = True
        raise named
    raise (SessionLostError if kind == SESSION_GONE else InfrastructureError)(f"{url}: {message}")


class RemoteEnv(TextEnv):
    """A world that an environment server runs (`agentgym serve`), with the same episodes as the world itself.

    Task, rules, version, actions, tools and experts are those of the world. Stored trajectories name the world itself,
    so they can be replayed without a server.

    Actions: the world's. An action that is sent again after a lost answer is executed once.

    Observation: the world's.

    Reward: the world's.

    End: the world's, at its `max_steps`. If the server does not answer or has lost the session, `step` raises
    InfrastructureError, so the episode is no evidence; `reset` and `restore` then open a new session.

    Args:
        url: address of the server, as `agentgym serve` prints it.
        env: short name or Gymnasium id of a world that it serves.
        token: access token; prefer the environment variable AGENTGYM_TOKEN, which is never stored.
        timeout: seconds after which a request counts as lost.
        retries: number of retries of a lost request, after 0.1, 0.3, 0.9 … seconds.
        render_mode: `ansi` or None.
        kwargs: arguments of the world that the server leaves to clients, such as `difficulty`.

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
            self._make_request = encode({"env": env, "kwargs": kwargs})
        except (TypeError, ValueError) as error:
            raise ConfigError(f"arguments for a server must be plain data, got {kwargs!r:.200}") from error
        self._key, self._changes, self._limit = "", 0, 0
        card = self._open(self._make_request)
        self._require_arguments(card.get("fixed", ()), env, kwargs)
        self._limit, self._longest = card["max_steps"], card["request_bytes"]
        super().__init__(max_steps=self._limit, split=card["split"], render_mode=render_mode)
        class_attributes = ("name", "version", "rules", "random_baseline", "stops_at_end")
        later = {name: card.get(name, default) for name, default in _LATER.items()}
        later["reading_actions"] = tuple(later["reading_actions"])
        vars(self).update({name: card[name] for name in class_attributes} | later)
        self._difficulties: tuple[str, ...] = tuple(card.get("difficulties", ()))
        self._files_digest: str | None = card.get("files_digest")
        self.action_space = UnicodeText((self._longest - _REQUEST_OVERHEAD) // _BYTES_PER_CHARACTER)

    def _require_arguments(self, fixed: Sequence[str], env: str, kwargs: Mapping[str, Any]) -> None:
        """Refuse a server that fixes arguments which this client does not name: trajectories would lack them."""
        missing = [name for name in fixed if name not in kwargs and name not in parameters_of(RemoteEnv)]
        if missing:
            self.close()
            raise ConfigError(
                f"this server fixes {', '.join(missing)} of {env}: give the client the same values, because "
                "trajectories name the arguments of their world"
            )

    # ---- the session ------------------------------------------------------------------------------------------------

    def _open(self, make_request: bytes) -> Any:
        """Open a session; return the server's description of it."""
        key = secrets.token_urlsafe(24)
        card = self._link.ask("PUT", f"/{key}", make_request)
        self._key, self._changes = key, card["changes"]
        if self._limit not in (0, card["max_steps"]):
            self._change("limit", max_steps=self._limit)
        return card

    def _ask(self, call: str, **arguments: Any) -> Any:
        if not self._key:
            raise SessionLostError("this environment is closed, or its session is lost; reset() opens a new one")
        body = encode(arguments)
        if len(body) > self._longest:
            raise ConfigError(
                f"the request has {len(body)} bytes; the server accepts {self._longest} (--request_bytes)"
            )
        return self._link.ask("POST", f"/{self._key}/{call}", body)

    def _change(self, call: str, **arguments: Any) -> Any:
        answer = self._ask(call, n=self._changes + 1, **arguments)
        self._changes += 1
        return answer

    def _change_or_reopen(self, call: str, **arguments: Any) -> Any:
        """Send a change that does not depend on the state; open a new session if the old one is lost."""
        try:
            return self._change(call, **arguments)
        except InfrastructureError:
            self.close()
            self._open(self._make_request)
            return self._change(call, **arguments)

    def _set_state(self, answer: Mapping[str, Any]) -> None:
        self.current_task = Task(**answer["task"]) if answer["task"] else None
        self.steps, self.succeeded = answer["steps"], answer["success"]
        self.last_reply = self._parsed = None
        self.stop_reason = StopReason(answer["stop_reason"]) if answer["stop_reason"] else None
        self._last = answer["observation"]

    def close(self) -> None:
        """Close the session."""
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
        """See `TextEnv.reset`; opens a new session if the old one is lost. The server's own partners play."""
        gymnasium.Env.reset(self, seed=seed)
        if isinstance(options, Mapping):
            options = {key: value for key, value in options.items() if key != "partner"}
        answer = self._change_or_reopen("reset", seed=seed, options=options)
        self._set_state(answer)
        return self._last, answer["info"]

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """See `TextEnv.step`.

        Raises:
            ActionError: `action` is not a string.
            InfrastructureError: the server does not answer, or has lost the session.
        """
        self._require_reset()
        if not isinstance(action, str):
            raise ActionError(f"action must be a string, the agent's whole reply; got {action!r:.60}")
        answer = self._change("step", action=action)
        self._last, self.steps, self.succeeded = answer["observation"], answer["steps"], answer["info"]["success"]
        terminated, truncated = answer["terminated"], answer["truncated"]
        self.stop_reason = StopReason.TERMINATED if terminated else StopReason.TRUNCATED if truncated else None
        self.last_reply, self._parsed = Reply(**answer["read"]) if answer["read"] else None, None
        return self._last, answer["reward"], terminated, truncated, answer["info"]

    def restore(self, snapshot: bytes) -> None:
        """See `TextEnv.restore`; opens a new session if the old one is lost."""
        self._set_state(self._change_or_reopen("restore", snapshot=base64.b64encode(snapshot).decode()))

    def fork(self) -> RemoteEnv:
        """Return another environment, with its own session, in the state of this one."""
        fork = copy.copy(self)
        fork._link, fork._np_random = self._link.duplicate(), None
        fork._open(encode({"fork": self._key}))
        return fork

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
        """Return the world's own snapshot, which can be restored here and in the world itself."""
        return base64.b64decode(self._ask("snapshot"))

    def state(self) -> dict[str, Any]:
        """Return the world's part of a snapshot."""
        return cast("dict[str, Any]", json.loads(self.snapshot())["state"])

    @property
    def difficulties(self) -> tuple[str, ...]:
        """See `TextEnv.difficulties`."""
        return self._difficulties

    @property
    def files_digest(self) -> str | None:
        """See `TextEnv.files_digest`."""
        return self._files_digest

    @property
    def partner_record(self) -> PartnerRecord | None:
        """See `TextEnv.partner_record`."""
        if not self.has_model_partner:
            return None
        state = self.state()
        return PartnerRecord(state["partner"], tuple(state["moves"]))

    def task(self, name: str | int, split: str | None = None) -> Task:
        """See `TextEnv.task`."""
        if not isinstance(name, str | Integral) or isinstance(name, bool):
            raise UnknownNameError(f"A task is named by its id or its number, not by {name!r}.")
        return Task(**self._ask("task", name=name, split=split))

    def read(self, text: str) -> Reply:
        """See `TextEnv.read`."""
        return Reply(**self._ask("read", text=text))

    def actions(self) -> list[str] | None:
        """See `TextEnv.actions`."""
        return cast("list[str] | None", self._ask("actions"))

    def tools(self) -> list[dict[str, Any]] | None:
        """See `TextEnv.tools`."""
        return cast("list[dict[str, Any]] | None", self._ask("tools"))

    def expert(self) -> list[str]:
        """See `TextEnv.expert`; raises ConfigError unless the server gives experts to clients."""
        return cast("list[str]", self._ask("expert"))

    def fair_expert(self) -> str | None:
        """See `TextEnv.fair_expert`; raises ConfigError unless the server gives experts to clients."""
        return cast("str | None", self._ask("fair_expert"))

    def expert_thought(self, action: str) -> str:
        """See `TextEnv.expert_thought`; raises ConfigError unless the server gives experts to clients."""
        return str(self._ask("expert_thought", action=action))

    def secrets(self) -> list[str] | None:
        """See `TextEnv.secrets`; raises ConfigError unless the server gives experts to clients."""
        return cast("list[str] | None", self._ask("secrets"))

    # ---- what the server does ---------------------------------------------------------------------------------------

    def begin(self, task: Task) -> str:
        """Not used: the server does this."""
        raise NotImplementedError

    def act(self, reply: Reply) -> Outcome:
        """Not used: the server does this."""
        raise NotImplementedError

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Not used: the server does this."""
        raise NotImplementedError
