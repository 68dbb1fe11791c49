"""AgentGymServer-v0: a running environment server of AgentGym as a world.

agentgym eval --env gymserver --env_kwargs '{url: "http://127.0.0.1:36001", dialect: textcraft}' --model NAME
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from itertools import pairwise
from typing import Any, ClassVar
from urllib.parse import urlencode

from agentgym_agentenv_dialects import DIALECTS, Dialect

from agentgym_py.env import SPLITS, Reply
from agentgym_py.env.foreign import ForeignEnv, ForeignSession, ForeignTurn, action_text
from agentgym_py.errors import ConfigError, InfrastructureError, UnknownNameError, did_you_mean
from agentgym_py.files import parse_json
from agentgym_py.http_client import MOST_ANSWER_VALUES, require_limits
from agentgym_py.serving.timed_http import TimedConnection


class GymServerEnv(ForeignEnv):
    """AgentGymServer-v0: a world that an environment server of AgentGym runs.

    Task: the server's, by number. A server has one row of tasks, so `ranges` divides it among the splits, such as
    `{"train": [0, 374], "test": [374, 474]}`. Without it, task N of a split is number 3 N, 3 N + 1 (valid) or 3 N + 2
    (test).

    Actions: the server's, after `Action:`. Servers of the dialect `tools` get the whole reply.

    Observation: the server's. Rules are in the client classes of AgentGym, not on the server: give them as `rules`.

    Reward: the rise of the server's reward or score, which is the return so far.

    End: the server's `done`, or `max_steps`. Success is an end with a return of at least `success_reward`: 1 in most
    worlds, 100 in SciWorld.

    Args:
        url: address of the server, such as http://127.0.0.1:36001.
        dialect: kind of server, such as `textcraft`, `babyai`, `alfworld`, `webshop`, `tools`.
        ranges: first number and number after the last, by split; None as above.
        rules: text that opens an episode.
        max_steps: step limit.
        success_reward: return from which an episode counts as success.
        timeout: seconds after which a request counts as lost.
        split: where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    The server has no expert. Registered ids: AgentGymServer-v0.
    """

    name: ClassVar[str] = "gymserver"

    def __init__(
        self, *, url: str, dialect: str, ranges: Mapping[str, Sequence[int]] | None = None, rules: str = "",
        max_steps: int = 30, success_reward: float = 1.0, timeout: float = 60.0, split: str = "train",
        render_mode: str | None = None,
    ) -> None:  # fmt: skip
        require_limits(timeout=timeout)
        if dialect not in DIALECTS:
            raise UnknownNameError(f"No dialect {dialect!r}." + did_you_mean(dialect, DIALECTS, "There are"))
        self.url, self.dialect, self.http = url.rstrip("/"), DIALECTS[dialect], TimedConnection(url, timeout)
        self.ranges = None if ranges is None else _disjoint(ranges)
        self.success_reward, self.lists_actions = success_reward, dialect == "alfworld"
        self.rules: Mapping[str, str] = {"full": rules, "brief": rules, "none": ""}  # type: ignore[misc]  # as given
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)

    def task_count(self, split: str) -> int | None:
        """Return the number of tasks in a range; None without ranges."""
        return None if self.ranges is None else len(self.ranges.get(split, ()))

    def number_of(self, split: str, number: int) -> int:
        """Return the server's number of a task."""
        return 3 * number + SPLITS.index(split) if self.ranges is None else self.ranges[split][number]

    def connect(self) -> ForeignSession:
        """Open a session."""
        return _Session(self)


def _disjoint(ranges: Mapping[str, Sequence[int]]) -> dict[str, range]:
    """Return the ranges by split; ConfigError if two have a task in common, or one is none."""
    numbers = dict[str, range]()
    for split, limits in ranges.items():
        is_range = isinstance(limits, Sequence) and [type(number) for number in limits] == [int, int]
        if split not in SPLITS or not is_range or not 0 <= limits[0] <= limits[1]:
            raise ConfigError(
                f"ranges must be like {{'train': [0, 374], 'test': [374, 474]}}, got {dict(ranges)!r:.200}"
            )
        numbers[split] = range(*limits)
    ordered = sorted(filter(None, numbers.values()), key=lambda some: some.start)
    if any(before.stop > after.start for before, after in pairwise(ordered)):
        raise ConfigError(f"ranges have tasks in common: {dict(ranges)!r:.200}")
    return numbers


class _Session:
    """A session of the server."""

    def __init__(self, env: GymServerEnv) -> None:
        self._env = env
        answer = self._ask("POST", "create", env.dialect.create_body)
        number = answer.get("id") if isinstance(answer, dict) else answer
        if type(number) is not int:
            raise InfrastructureError(f"{env.url} opened no session: it answered {answer!r:.100}")
        self._who: dict[str, int] = {env.dialect.session: number}
        self._return = 0.0

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request; an error in the answer is a failure, whatever its status."""
        env = self._env
        question = f"?{urlencode(self._who)}" if method == "GET" else ""
        sent = b"" if method == "GET" else json.dumps(body).encode()
        url = f"{env.url}/{path}"
        try:
            status, raw = env.http.send(method, f"/{path}{question}", sent, {"Content-Type": "application/json"})
            content = parse_json(raw, MOST_ANSWER_VALUES)
        except (OSError, HTTPException, ValueError) as error:
            raise InfrastructureError(f"no answer from {url}: {error!r}") from error
        if status != 200 or (isinstance(content, dict) and "error" in content):
            raise InfrastructureError(f"{url} answered {status} {content!r:.200}")
        return content

    def reset(self, split: str, number: int) -> str:
        """Start a task by its number."""
        env, speaks = self._env, self._env.dialect
        body = {**speaks.reset_body, **self._who, speaks.task: env.number_of(split, number)}
        answer, self._return = self._ask("POST", "reset", body), 0.0
        if speaks.reset_answer != "object":
            answer = {"observation": self._ask("GET", "observation")}
        text = _text(answer, "observation")
        if "task_description" in answer:
            text = f"{answer['task_description']}\n{text}"
        if env.lists_actions:
            actions = answer.get("available_actions")
            if not isinstance(actions, list) or not all(isinstance(action, str) for action in actions):
                raise InfrastructureError(f"{env.url} lists no actions: {actions!r:.200}")
            text += f"\nAVAILABLE ACTIONS: {','.join(actions)}"
        return text

    def step(self, reply: Reply, text: str) -> ForeignTurn:
        """Do an action."""
        speaks: Dialect = self._env.dialect
        action = text if speaks.whole_reply else action_text(reply)
        answer = self._ask("POST", "step", {**self._who, "action": action})
        observation, done = _text(answer, speaks.observation), answer.get("done") is True
        try:
            value = float(answer[speaks.reward])
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise InfrastructureError(f"{self._env.url} gave no {speaks.reward}: {answer!r:.200}") from error
        reward, self._return = value - self._return, value
        truncated = done and answer.get("truncated") is True
        success = answer.get("success", done and value >= self._env.success_reward) is True
        return ForeignTurn(observation, reward, done and not truncated, truncated, success)

    def close(self) -> None:
        """End the session; servers without `/close` keep it."""
        try:
            self._ask("POST", "close", self._who)
        finally:
            self._env.http.close()


def _text(answer: Any, name: str) -> str:
    text = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(text, str):
        raise InfrastructureError(f"the server's answer has no text {name!r}: {answer!r:.200}")
    return text
