"""Worlds of other packages and servers, which cannot be copied: `restore` repeats the replies of an episode."""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from contextlib import suppress
from dataclasses import astuple, dataclass
from numbers import Integral
from typing import Any, Protocol

from agentgym_py.env.actions import Reply
from agentgym_py.env.arguments import require_split, unknown_task_error
from agentgym_py.env.base import TextEnv
from agentgym_py.env.tracebacks import contained
from agentgym_py.env.types import SPLITS, Outcome, StopReason, Task
from agentgym_py.errors import ConfigError, InfrastructureError, SnapshotError, UnknownNameError

_ANY = "any"
"""The level of all tasks of a world that has no levels."""
_ID = re.compile(rf"(?P<env>\w+)/(?P<split>{'|'.join(SPLITS)})/(?P<level>[^/]+)/(?P<number>0|[1-9][0-9]{{0,17}})")


@dataclass(frozen=True, slots=True)
class ForeignTurn:
    """What a foreign world answers to an action."""

    observation: str
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    """Whether the world's own step limit ended the episode."""
    success: bool = False
    valid: bool = True


class ForeignSession(Protocol):
    """A connection to a foreign world, with one episode at a time.

    A method raises InfrastructureError if the world fails or does not answer. Whatever else it raises, such as a
    KeyError for an answer that lacks a field, becomes one.
    """

    def reset(self, split: str, number: int) -> str:
        """Start a task, and return the first observation."""

    def step(self, reply: Reply, text: str) -> ForeignTurn:
        """Do the action of a reply; `text` is the whole reply."""

    def close(self) -> None:
        """Close the connection."""


class ForeignEnv(TextEnv):
    """A `TextEnv` around a world that runs elsewhere and that task and actions determine.

    A subclass defines `connect`, and `task_count` if the tasks are finitely many. Tasks are `name/split/level/number`.
    A snapshot holds the replies of the episode: `restore` opens a second session, repeats them there, and refuses if
    the world answers differently. The world has no expert, so agents and trainers that need one cannot play it.

    Args:
        max_steps: Step limit.
        level: Difficulty and kind of all tasks; an argument that sets it belongs into `id_arguments`.
        split: Where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.
    """

    def __init__(
        self, *, max_steps: int, level: str = _ANY, split: str = "train", render_mode: str | None = None
    ) -> None:
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)
        self.level = level
        self._session: ForeignSession | None = None
        self._replies: list[str] = []
        self._text = ""
        """The reply of the step that runs."""
        self._seen = ""
        """A digest of everything that the world has answered in this episode."""

    @abstractmethod
    def connect(self) -> ForeignSession:
        """Open a session; InfrastructureError if there is no answer."""

    def task_count(self, split: str) -> int | None:
        """Return the number of tasks in a split; None if it has no end."""
        return None if split in SPLITS else 0

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def task(self, name: str | int, split: str | None = None) -> Task:
        """Return the task of an id, or number `name` of a split (default: the environment's)."""
        if isinstance(name, Integral) and not isinstance(name, bool):
            name = f"{self.name}/{require_split(split or self.split)}/{self.level}/{name}"
        elif not isinstance(name, str):
            raise UnknownNameError(f"A task is named by its id or its number, not by {name!r}.")
        match = _ID.fullmatch(name)
        if not match or (match["env"], match["level"]) != (self.name, self.level):
            raise unknown_task_error(name, self.name, self.level, [self.level])
        count = self.task_count(match["split"])
        if count is not None and int(match["number"]) >= count:
            raise UnknownNameError(f"No task {name!r:.100}: the split {match['split']!r} has {count} tasks.")
        instruction = f"Task {match['number']} of the split {match['split']}; the first observation says what to do."
        kind = self.name if self.level == _ANY else self.level
        return Task(name, match["split"], kind=kind, difficulty=self.level, instruction=instruction)

    def sample_task(self, split: str) -> Task:
        """Draw a random task of a split."""
        count = self.task_count(split)
        return self.task(self.rng.below(1 << 31 if count is None else max(1, count)), split)

    # ---- the episode ------------------------------------------------------------------------------------------------

    def begin(self, task: Task) -> str:
        """Start the task; a session that is lost is opened again."""
        had_session = self._session is not None
        try:
            observation = self._start(self._connected(), task)
        except InfrastructureError:
            self._close_session()
            if not had_session:
                raise
            observation = self._start(self._connected(), task)
        self._replies, self._seen = [], _digest("", observation)
        return observation

    def _start(self, session: ForeignSession, task: Task) -> str:
        with contained(f"{self.name} failed at its first observation"):
            return session.reset(task.split, int(task.id.rpartition("/")[2]))

    def _do(self, session: ForeignSession, reply: Reply, text: str) -> ForeignTurn:
        with contained(f"{self.name} failed"):
            return session.step(reply, text)

    def _connected(self) -> ForeignSession:
        if self._session is None:
            self._session = self.connect()
        return self._session

    def act(self, reply: Reply) -> Outcome:
        """Do one action in the world."""
        if self._session is None:
            raise InfrastructureError("the session is lost or closed; reset() opens a new one")
        try:
            turn = self._do(self._session, reply, self._text)
        except InfrastructureError:
            self._close_session()
            raise
        self._seen = _digest(self._seen, astuple(turn))
        if turn.truncated and not turn.terminated:
            self.stop_reason = StopReason.TRUNCATED  # `step` keeps it
        return Outcome(turn.observation, turn.reward, turn.terminated, turn.success, turn.valid)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """See `TextEnv.step`.

        Raises:
            ActionError: `action` is not a string.
            InfrastructureError: the world failed or does not answer. The episode is lost; `reset` starts another.
        """
        self._text = action
        result = super().step(action)
        if self.last_reply is not None:  # else the episode had ended
            self._replies.append(action)
        return result

    def close(self) -> None:
        """Close the session, and whatever a subclass keeps beside it."""
        self._close_session()

    def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(InfrastructureError):
                session.close()

    # ---- forks ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the replies of the episode and a digest of the answers."""
        return {"replies": list(self._replies), "seen": self._seen}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Repeat the replies in a new session.

        Raises:
            SnapshotError: the world answers differently than before.
            InfrastructureError: the world failed, or has no second session.
        """
        replies, seen = state["replies"], state["seen"]
        if not (isinstance(replies, list) and all(isinstance(text, str) for text in replies)):
            raise SnapshotError("A snapshot's 'replies' must be a list of strings")
        session = self.connect()
        try:
            digest = _digest("", self._start(session, task))
            for text in replies:
                reply = self.read(text)
                if not reply.error:
                    digest = _digest(digest, astuple(self._do(session, reply, text)))
            if digest != seen:
                raise SnapshotError("The world answers differently when the replies are repeated")
        except BaseException:
            with suppress(InfrastructureError):
                session.close()
            raise
        self._close_session()
        self._session, self._replies, self._seen = session, list(replies), digest

    # ---- knowledge that it lacks ------------------------------------------------------------------------------------

    def expert(self) -> list[str]:
        """Raise ConfigError: the world has no expert."""
        raise ConfigError(f"{self.name} has no expert: choose another agent, such as a model")

    def secrets(self) -> list[str]:
        """Return nothing: the world knows what it hides."""
        return []


def action_text(reply: Reply) -> str:
    """Return the action of a reply as text, without its thought."""
    given = reply.action_input
    return reply.action if given is None else f"{reply.action}\nAction Input: {given}"


def _digest(before: str, answer: object) -> str:
    """Extend the digest by an answer."""
    return hashlib.sha256(json.dumps([before, answer]).encode()).hexdigest()
