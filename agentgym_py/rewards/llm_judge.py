"""A language model behind an OpenAI-compatible endpoint that marks the steps of trajectories.

The judge sees the rules, the task, what happened up to a step, the step, and the next observation. It sees nothing
later, and not whether the episode succeeded. `PROMPT` is the whole question; of the answer only the mark is read.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym_py.agents.chat import Completion, completion
from agentgym_py.checks import require_arguments
from agentgym_py.errors import ConfigError, EndpointError
from agentgym_py.files import append_line, write_atomic
from agentgym_py.http_client import (
    DEFAULT_ADDRESS,
    HttpClient,
    PromptTooLongError,
    RequestFailedError,
    checked_address,
    gather_all,
    read_json,
    require_key,
    run_in_loop,
)
from agentgym_py.rewards.state_values import values_from_marks
from agentgym_py.rng import seed_of
from agentgym_py.trajectory import Trajectory

MARKS_FILE = "state-marks.jsonl"
"""The file of a training's marks. It is named like a saved state, by which `agentgym train` recognizes an interrupted
training."""
PROMPT = """\
An agent acts in a world of text. Judge one step of it.

# The rules that the agent was given

{rules}

# Its task

{task}

# What happened before the step

{before}

# The step

{step}

# What the world showed then

{after}

# Your mark

How good is the state that the step led to? Give a number from 0 to 10: 10 where the task is done, 5 where the agent is
as likely as not to do it from there, 0 where it cannot be done any more. Nothing above this heading is said to you.
Think in a few sentences at most, and end with a line of its own, the mark alone:
Mark: NUMBER"""
_MARK = re.compile(r"Mark: ([0-9]{1,2}(?:\.[0-9]{1,3})?)")
_BEST = 10


def render_question(trajectory: Trajectory, number: int) -> str:
    """Fill `PROMPT` for a step, with the trajectory up to there."""
    steps, step = trajectory.steps, trajectory.steps[number]
    turns = [f"World: {turn.observation}\n\nAgent: {turn.reply}\n\n" for turn in steps[:number]]
    after = steps[number + 1].observation if number + 1 < len(steps) else trajectory.final_observation
    return PROMPT.format(
        rules=trajectory.rules, task=trajectory.instruction, before=f"{''.join(turns)}World: {step.observation}",
        step=step.reply, after=after,
    )  # fmt: skip


def parse_mark(text: str) -> float | None:
    """Read the mark in an answer's last line, from 0 to 1; None if that line is not `Mark: ` and a number."""
    match = _MARK.fullmatch((text.strip().splitlines() or [""])[-1].strip())
    mark = float(match[1]) / _BEST if match else 2.0
    return mark if mark <= 1 else None


class OpenAIJudge:
    """Mark steps from 0 to 1 with a model that answers `POST {base_url}/chat/completions` as OpenAI's does.

    An answer without a mark, or cut at `max_new_tokens`, does not count: the model is asked up to `asks` times, after
    the first time at a temperature of at least 1. A step has no mark if no answer has one, if its prompt is longer than
    the model's context, or if all retries of its request fail.

    Args:
        model: The endpoint's name of the model.
        base_url: The address, up to `/v1`.
        temperature: Sampling temperature; None sends none, for models that do not accept it.
        max_new_tokens: Longest answer, sent as `max_tokens`.
        asks: Largest number of questions per step.
        concurrency: Requests at once.
        timeout: Seconds for one answer.
        retries: Retries of a failed request.
        extra: More fields of every request, such as `{"top_p": 0.9}`; null removes one.

    Raises:
        ConfigError: a value is invalid, the address has a password, OpenAI's key or httpx2 is missing.
    """

    def __init__(
        self,
        model: str = "",
        base_url: str = DEFAULT_ADDRESS,
        *,
        temperature: float | None = 0.0,
        max_new_tokens: int = 512,
        asks: int = 3,
        concurrency: int = 16,
        timeout: float = 120.0,
        retries: int = 5,
        extra: dict[str, Any] | None = None,
    ) -> None:
        if not model:
            raise ConfigError("model must name the model that judges, because an endpoint serves models by name")
        for name, value in (("max_new_tokens", max_new_tokens), ("asks", asks)):
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        self.model, self.asks = model, asks
        self._address = f"{checked_address(base_url)}/chat/completions"
        self._fixed = {"model": model, "temperature": temperature, "max_tokens": max_new_tokens, **(extra or {})}
        self._server = HttpClient(
            f"the judge at {checked_address(base_url)} (model {model!r})", concurrency=concurrency, timeout=timeout,
            retries=retries, advice="An address ends in /v1 with most servers",
        )  # fmt: skip
        self._gate = asyncio.Semaphore(concurrency)
        require_key(base_url)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> OpenAIJudge:
        """Make the judge of a trainer's setting `judge`, which a ConfigError names."""
        try:
            require_arguments(cls, settings)
            return cls(**settings)
        except ConfigError as error:
            raise ConfigError(f"judge: {error}") from error

    def values(self, trajectories: Sequence[Trajectory], marks_file: Path | None = None) -> list[list[float | None]]:
        """Mark all steps; a mark is the value of the state that its step led to, and the first state has none.

        Each mark is appended to `marks_file` as it arrives, and a mark in that file is not requested again.

        Raises:
            EndpointError: the endpoint refuses, is broken, gave no answer at all, or none that could be read.
        """
        marks = _read_marks(marks_file) if marks_file else {}
        questions = dict[str, tuple[Trajectory, int]]()
        for trajectory in trajectories:
            for number in range(len(trajectory.steps)):
                questions.setdefault(self._key(trajectory, number), (trajectory, number))
        missing = [(key, *question) for key, question in questions.items() if key not in marks]
        run_in_loop(gather_all([self._collect_mark(*question, marks, marks_file) for question in missing]))
        if missing and not any(key in marks for key in questions):
            raise EndpointError(f"{self._server.where} gave none of {len(missing)} steps a mark that can be read")
        return [values_from_marks(t, lambda t, i: marks.get(self._key(t, i))) for t in trajectories]

    def _key(self, trajectory: Trajectory, number: int) -> str:
        """Identify a question by model and prompt."""
        return hashlib.sha256(repr((self.model, render_question(trajectory, number))).encode()).hexdigest()

    async def _collect_mark(
        self, key: str, trajectory: Trajectory, number: int, marks: dict[str, float], marks_file: Path | None
    ) -> None:
        """Request a mark, and keep it if there is one."""
        try:
            async with self._gate:  # so that memory holds only the prompts of open requests
                mark = await self._request_mark(trajectory, number)
        except PromptTooLongError:
            return
        except RequestFailedError as lost:
            if not self._server.answered:
                raise EndpointError(str(lost)) from None
            return
        if mark is None:
            return
        marks[key] = mark
        if marks_file:
            line = {"key": key, "mark": mark, "model": self.model, "trajectory": trajectory.id, "step": number}
            marks_file.parent.mkdir(parents=True, exist_ok=True)
            append_line(marks_file, json.dumps(line).encode() + b"\n")

    async def _request_mark(self, trajectory: Trajectory, number: int) -> float | None:
        for k in range(self.asks):
            body = {**self._fixed, "messages": [{"role": "user", "content": render_question(trajectory, number)}]}
            if k and body["temperature"] is not None:
                body["temperature"] = max(1.0, body["temperature"])
            sent = {name: value for name, value in body.items() if value is not None}
            seed = seed_of("judge", trajectory.id, number, k)
            answer: Completion = await self._server.ask(self._address, sent, completion, "chat completion", seed)
            mark = None if answer.cut else parse_mark(answer.text)
            if mark is not None:
                return mark
        return None


def _read_marks(path: Path) -> dict[str, float]:
    """Read a file of marks, if it exists, and remove a line that a kill left half written."""
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    complete = text[: text.rfind("\n") + 1]
    if complete != text:
        write_atomic(path, complete)
    lines = [read_json(line.encode()) for line in complete.splitlines()]
    return {line["key"]: line["mark"] for line in lines if isinstance(line, dict) and line.keys() >= {"key", "mark"}}
