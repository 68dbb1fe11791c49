"""AgentOpenEnv-v0: a server of OpenEnv as a world.

    agentgym eval --env openenv --env_kwargs '{url: "http://127.0.0.1:8000"}' --model NAME

The protocol is spoken here and not by openenv's client: after a lost connection that client opens another session, in
which a step would be one of another episode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, ClassVar

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from agentgym_py import trust
from agentgym_py.env import Reply
from agentgym_py.env.foreign import ForeignEnv, ForeignSession, ForeignTurn, action_text
from agentgym_py.env.spaces import UnicodeText
from agentgym_py.env.tracebacks import contained
from agentgym_py.env.types import MAX_TEXT
from agentgym_py.errors import InfrastructureError
from agentgym_py.files import parse_json
from agentgym_py.http_client import MOST_ANSWER_VALUES, require_limits
from agentgym_py.serving.timed_http import TimedConnection

ACT = "act"
"""The tool whose arguments are the fields of OpenEnv's action."""
_SPLITS = {"train": "train", "valid": "validation", "test": "test"}
"""Types of OpenEnv's splits by ours."""
_WRONG_ACTION = "VALIDATION_ERROR"
_MAX_BYTES = 12 * MAX_TEXT


class OpenEnvEnv(ForeignEnv):
    """AgentOpenEnv-v0: a world that a server of OpenEnv runs.

    Task: the server's. If it has a task API, tasks are those of its splits; otherwise task N of a split is the episode
    of one seed, and no seed belongs to two splits.

    Actions: if the server's action has one field of text, the action is that text. Otherwise it is a JSON object of the
    fields. In both cases the tool `act` takes the fields as arguments. A field that is missing or of a wrong type is an
    invalid action; an error that the server's world raises is an infrastructure failure.

    Observation: the text, if the server's observation has one field of text that is not empty; otherwise its fields as
    JSON.

    Reward: the server's; none counts as 0.

    End: the server's `done`, or `max_steps`. Success is `success` in the metadata; without it, an end with a reward of
    at least `success_reward`.

    Args:
        url: address of the server, such as http://127.0.0.1:8000.
        max_steps: step limit.
        success_reward: last reward from which an episode counts as success.
        timeout: seconds after which a request counts as lost.
        split: where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    The server has no expert. Registered ids: AgentOpenEnv-v0.
    """

    name: ClassVar[str] = "openenv"

    def __init__(
        self, *, url: str, max_steps: int = 50, success_reward: float = 1.0, timeout: float = 60.0,
        split: str = "train", render_mode: str | None = None,
    ) -> None:  # fmt: skip
        require_limits(timeout=timeout)
        self.url, self.success_reward, self.timeout = url.rstrip("/"), success_reward, timeout
        self._http = TimedConnection(url, timeout)
        schemas = self._get("schema")
        if not isinstance(schemas, dict) or not isinstance(schema := schemas.get("action"), dict):
            raise InfrastructureError(f"{url} is no server of OpenEnv: it has no schema of actions")
        properties = {key: value for key, value in schema.get("properties", {}).items() if key != "metadata"}
        required = [key for key in schema.get("required", ()) if key in properties]
        self.schema = {"type": "object", "properties": properties, "required": required}
        if "$defs" in schema:
            self.schema["$defs"] = schema["$defs"]
        texts = [key for key in required or properties if properties[key].get("type") == "string"]
        self.text_field = texts[0] if len(texts) == 1 and len(required or properties) == 1 else None
        with contained(f"{url} is no server of OpenEnv"):
            self.splits, self._counts = self._find_splits()
        about = (self._get("metadata") or {}).get("description") or ""
        self.rules: Mapping[str, str] = {"full": about, "brief": about, "none": ""}  # type: ignore[misc]  # by server
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)
        self.observation_space = UnicodeText(MAX_TEXT)

    def _get(self, path: str, body: Any = None) -> Any:
        """Ask the server a question; None if it does not know the answer."""
        method, sent = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
        try:
            with closing(self._http) as http:
                status, raw = http.send(method, f"/{path}", sent, {"Content-Type": "application/json"})
            content = parse_json(raw, MOST_ANSWER_VALUES) if status == HTTPStatus.OK else raw[:200]
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            raise InfrastructureError(f"no answer from {self.url}/{path}: {error!r}") from error
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.NOT_IMPLEMENTED):
            return None
        if status != HTTPStatus.OK:
            raise InfrastructureError(f"{self.url}/{path} answered {status} {content!r}")
        return content

    def _find_splits(self) -> tuple[dict[str, str], dict[str, int]]:
        """Return the server's names of our splits, and their numbers of tasks; empty without a task API."""
        name = (self._get("list_environments") or [""])[0]
        answer = (self._get(f"{name}/splits") if name else None) or []
        kinds = {split["type"]: split["name"] for split in reversed(answer)}
        splits = {ours: kinds[theirs] for ours, theirs in _SPLITS.items() if theirs in kinds}
        counts = {ours: self._get(f"{name}/num_tasks", {"split": theirs}) for ours, theirs in splits.items()}
        if not splits or None in counts.values():
            return {}, {}
        return splits, {ours: count["num_tasks"] for ours, count in counts.items() if count}

    def task_count(self, split: str) -> int | None:
        """Return the number of tasks of the task API; without one, None."""
        return self._counts.get(split, 0) if self.splits else None

    def tools(self) -> list[dict[str, Any]]:
        """Return the tool `act`, whose arguments are the fields of OpenEnv's action."""
        about = "Do one action."
        return [{"type": "function", "function": {"name": ACT, "description": about, "parameters": self.schema}}]

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`; an action of several fields is no text."""
        return {ACT: f"{{{self.text_field}}}"} if self.text_field else {}

    def connect(self) -> ForeignSession:
        """Open a session."""
        return _Session(self)

    def fields_of(self, reply: Reply) -> dict[str, Any] | None:
        """Return the fields of OpenEnv's action; None if the reply has none."""
        if reply.action == ACT and reply.arguments is not None:
            return dict(reply.arguments)
        if self.text_field is not None:
            return {self.text_field: action_text(reply)}
        try:
            fields = json.loads(reply.action)
        except (ValueError, RecursionError):
            return None
        return fields if isinstance(fields, dict) else None


class _Session:
    """A connection to `/ws`: one session of the server, and never another."""

    def __init__(self, env: OpenEnvEnv) -> None:
        trust.require_online(env.url)
        self._env, address = env, f"ws{env.url[len('http') :]}/ws"
        try:
            self._socket: ClientConnection = connect(
                address, open_timeout=env.timeout, max_size=_MAX_BYTES,
                ping_interval=None,  # a world may block its server's event loop: `recv` has the timeout
                proxy=None if trust.is_loopback(trust.host(env.url) or "") else True,
            )  # fmt: skip
        except (OSError, WebSocketException) as error:
            raise InfrastructureError(f"no session at {address}: {error}") from error

    def _ask(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Send a message; return the answer's type, its data in `data`."""
        try:
            self._socket.send(json.dumps({"type": kind, "data": data}))
            answer = parse_json(self._socket.recv(self._env.timeout), MOST_ANSWER_VALUES)
        except (OSError, WebSocketException, ValueError, RecursionError) as error:
            self._socket.close()
            raise InfrastructureError(f"{self._env.url} does not answer: {error!r}") from error
        if not isinstance(answer, dict) or not isinstance(answer.get("data"), dict):
            raise InfrastructureError(f"{self._env.url} is no server of OpenEnv: it answered {answer!r:.100}")
        return answer

    def reset(self, split: str, number: int) -> str:
        """Start a task by split and index, or by its seed."""
        seed = 3 * number + list(_SPLITS).index(split)  # of one split only
        task = {"split": self._env.splits[split], "index": number} if self._env.splits else {}
        return _text(self._require(self._ask("reset", {"seed": seed, **task})))

    def step(self, reply: Reply, text: str) -> ForeignTurn:
        """Do an action."""
        del text  # a field of OpenEnv's action takes the action alone
        fields = self._env.fields_of(reply)
        if fields is None:
            names = ", ".join(self._env.schema["properties"])
            return ForeignTurn(f"The action must be a JSON object with the fields {names}.", valid=False)
        answer = self._ask("step", fields)
        if answer["type"] == "error" and answer["data"].get("code") == _WRONG_ACTION:
            wrong = "; ".join(_problem(error) for error in answer["data"].get("errors", ()))
            return ForeignTurn(f"The action has wrong fields: {wrong}.", valid=False)
        data = self._require(answer)
        about = data.get("metadata") or {}
        reward, done = float(data.get("reward") or 0.0), bool(data.get("done"))
        truncated = done and about.get("truncated") is True
        success = about.get("success", done and not truncated and reward >= self._env.success_reward)
        valid = about.get("valid_action", True) is not False
        return ForeignTurn(_text(data), reward, done and not truncated, truncated, success is True, valid)

    def _require(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data of an observation; anything else is a failure of the server."""
        data: dict[str, Any] = answer["data"]
        if answer["type"] != "observation":
            raise InfrastructureError(f"{self._env.url}: {data.get('code')}: {data.get('message')}")
        return data

    def close(self) -> None:
        """End the session."""
        try:
            self._socket.send('{"type": "close"}')
            self._socket.close()
        except (OSError, WebSocketException):
            pass


def _text(data: Mapping[str, Any]) -> str:
    """Return an observation as text: its only text, or its fields as JSON."""
    fields = {key: value for key, value in data["observation"].items() if key != "metadata"}
    texts = [value for value in fields.values() if isinstance(value, str) and value]
    return texts[0] if len(texts) == 1 else json.dumps(fields, ensure_ascii=False)


def _problem(error: Mapping[str, Any]) -> str:
    return f"{'.'.join(map(str, error.get('loc', ())))}: {error.get('msg')}"
