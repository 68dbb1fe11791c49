"""Questions to a language model that judges, behind an OpenAI-compatible endpoint; an answer must be readable."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from agentgym_py.agents.chat import Completion, completion
from agentgym_py.checks import require_arguments, require_field_types
from agentgym_py.env.actions import json_object
from agentgym_py.env.thoughts import thought_ends
from agentgym_py.errors import ConfigError, DataError, EndpointError
from agentgym_py.files import append_line, read_text, write_atomic
from agentgym_py.http_client import (
    DEFAULT_ADDRESS,
    HttpClient,
    PromptTooLongError,
    RequestFailedError,
    checked_address,
    gather_all,
    read_json,
    require_key,
    require_limits,
    run_in_loop,
)
from agentgym_py.rng import seed_of

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
TOO_LONG = "the prompt is longer than the judge's context"
_KEY = '{"key"'
"""The beginning of each line of a file of answers."""
_FENCE = re.compile(r"\s*```(?:json)?\n(.*)\n```\s*", re.DOTALL)
_MOST_ENDS = 100
"""Ends of thoughts behind which an object is looked for; each takes as long as the answer is."""
_QUOTED = 100
"""Characters of an answer that a reason quotes."""


class UnreadableError(ValueError):
    """An answer of a judge does not have the form that was asked for."""


class UnansweredError(Exception):
    """A question has no answer that can be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Question(Generic[T_co]):
    """A question to a judge."""

    render: Callable[[], str]
    """Returns the prompt; called just before the request, so that memory holds only the prompts of open requests."""
    parse: Callable[[str], T_co]
    """Reads an answer; raises UnreadableError."""
    seed: int = 0
    """Seed of the waits between retries."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """The endpoint of a language model that judges."""

    model: str = ""
    """The endpoint's name of the model (required)."""
    base_url: str = DEFAULT_ADDRESS
    """Address of the endpoint, up to `/v1`. The key comes from the environment variable OPENAI_API_KEY."""
    temperature: float | None = 0.0
    """Sampling temperature; null sends none, for models that do not accept it."""
    max_new_tokens: int = 512
    """Longest answer in tokens, sent as `max_tokens`."""
    asks: int = 3
    """Largest number of times that a question is asked until an answer can be read, after the first time at a
    temperature of at least 1."""
    concurrency: int = 16
    """Requests at once."""
    timeout: float = 120.0
    """Seconds for one answer."""
    retries: int = 5
    """Retries of a failed request."""
    extra: dict[str, Any] = field(default_factory=dict)
    """More fields of every request, such as `top_p`; null removes one."""

    def __post_init__(self) -> None:
        require_field_types(self)
        if not self.model:
            raise ConfigError("model must name the model that judges, because an endpoint serves models by name")
        for name in ("max_new_tokens", "asks"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        require_limits(self.concurrency, self.timeout, self.retries)
        checked_address(self.base_url)
        require_key(self.base_url)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Make the judge of a trainer's setting `judge`, which a ConfigError names."""
        try:
            require_arguments(cls, settings)
            return cls(**settings)
        except ConfigError as error:
            raise ConfigError(f"judge: {error}") from error


class JudgeClient:
    """Asks a model that answers `POST {base_url}/chat/completions` as OpenAI's does.

    Readable answers are appended to the file `answers`, if there is one, and what it holds is not asked again.

    Raises:
        ConfigError: httpx2 is missing.
    """

    def __init__(self, settings: JudgeSettings, answers: Path | None = None) -> None:
        self._model, self._asks = settings.model, settings.asks
        self._file, self._answers = answers, read_pairs(answers, "answer") if answers else {}
        self._address = f"{checked_address(settings.base_url)}/chat/completions"
        self._fixed = {
            "model": settings.model, "temperature": settings.temperature, "max_tokens": settings.max_new_tokens,
            **settings.extra,
        }  # fmt: skip
        self._server = HttpClient(
            f"the judge at {checked_address(settings.base_url)} (model {settings.model!r})",
            concurrency=settings.concurrency, timeout=settings.timeout, retries=settings.retries,
            advice="An address ends in /v1 with most servers",
        )  # fmt: skip
        self._gate = asyncio.Semaphore(settings.concurrency)

    @property
    def where(self) -> str:
        """Name of the judge in errors."""
        return self._server.where

    def ask_all(self, questions: Sequence[Question[T]]) -> list[T | UnansweredError]:
        """Ask concurrently; an error stands in the place of an answer that is missing.

        Raises:
            EndpointError: the endpoint refuses, is broken, or gave no answer at all.
        """

        async def answer(question: Question[T]) -> T | UnansweredError:
            try:
                return await self.ask(question)
            except UnansweredError as error:
                return error

        return run_in_loop(gather_all([answer(question) for question in questions]))

    async def ask(self, question: Question[T]) -> T:
        """Ask until an answer can be read.

        Raises:
            UnansweredError: none can, the prompt is longer than the model's context, or all retries failed.
            EndpointError: as for `ask_all`.
        """
        try:
            async with self._gate:
                return await self._ask(question)
        except PromptTooLongError:
            raise UnansweredError(TOO_LONG) from None
        except RequestFailedError as lost:
            if not self._server.answered:
                raise EndpointError(str(lost)) from None
            raise UnansweredError(str(lost)) from None

    async def _ask(self, question: Question[T]) -> T:
        prompt, reason = question.render(), ""
        key = hashlib.sha256(repr((self._model, prompt)).encode()).hexdigest()
        if isinstance(kept := self._answers.get(key), str):
            with suppress(UnreadableError):  # as when the file is of a version that asked for another form
                return question.parse(kept)
        for number in range(self._asks):
            body = {**self._fixed, "messages": [{"role": "user", "content": prompt}]}
            if number and body["temperature"] is not None:
                body["temperature"] = max(1.0, body["temperature"])
            sent = {name: value for name, value in body.items() if value is not None}
            seed = seed_of(question.seed, number)
            answer: Completion = await self._server.ask(self._address, sent, completion, "chat completion", seed)
            try:
                if answer.cut:
                    raise UnreadableError("it was cut at max_new_tokens")
                parsed = question.parse(answer.text)
            except UnreadableError as error:
                reason = f"{error}: {answer.text[:_QUOTED]!r}"
            else:
                self._keep(key, answer.text)
                return parsed
        raise UnansweredError(f"no answer can be read (asked {self._asks} times); in the last one, {reason}")

    def _keep(self, key: str, answer: str) -> None:
        self._answers[key] = answer
        if self._file:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            append_line(self._file, json.dumps({"key": key, "answer": answer}).encode() + b"\n")


def read_pairs(path: Path, name: str) -> dict[str, Any]:
    """Read the values `name` by key from JSON lines, if the file exists, and remove a line that was cut off.

    Raises:
        DataError: it is a file of something else, which is not changed.
    """
    if not path.exists():
        return {}
    try:
        text = read_text(path)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no file of answers: {error}") from error
    complete = text[: text.rfind("\n") + 1]
    if torn := text[len(complete) :]:
        if not _KEY.startswith(torn[: len(_KEY)]):
            raise DataError(f"{path} is no file of answers: its last line is {torn[:40]!r}")
        write_atomic(path, complete)
    lines = [read_json(line.encode()) for line in complete.splitlines()]
    return {line["key"]: line[name] for line in lines if isinstance(line, dict) and line.keys() >= {"key", name}}


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object that an answer is, maybe after a thought (`…</think>`) and in a fence of Markdown.

    Raises:
        UnreadableError: it is anything else, such as an object within other text.
    """
    for end in (0, *thought_ends(text)[:_MOST_ENDS]):  # the object may quote such an end
        fence = _FENCE.fullmatch(answer := text[end:])
        if (value := json_object(fence[1] if fence else answer)) is not None:
            return value
    raise UnreadableError("it is no JSON object")


def require_keys(value: object, keys: Sequence[str], what: str) -> dict[str, Any]:
    """Return an object that has these keys and no others; UnreadableError otherwise."""
    if not isinstance(value, dict):
        raise UnreadableError(f"{what} is no JSON object")
    if missing := [key for key in keys if key not in value]:
        raise UnreadableError(f"{what} lacks {missing[0]!r}")
    if unknown := [key for key in value if key not in keys]:
        raise UnreadableError(f"{what} has {unknown[0]!r}, which was not asked for")
    return value


def require_number(value: object, low: float, high: float, what: str) -> float:
    """Return a JSON number in [low, high]; UnreadableError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise UnreadableError(f"{what} is {value!r:.40}, not a number from {low:g} to {high:g}")
    return float(value)
