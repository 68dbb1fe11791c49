"""A language model behind an OpenAI-compatible endpoint that marks the steps of trajectories.

The judge is shown the rules, the task, what happened up to a step, the step, and the next observation. It sees nothing
later, and not whether the episode succeeded. `PROMPT` is the whole question. Its answer is read for a mark and for
nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym_py.agents.openai import Completion, completion
from agentgym_py.checks import require_arguments
from agentgym_py.errors import ConfigError, EndpointError
from agentgym_py.files import add_filename, write_atomic
from agentgym_py.http_client import (
    HttpClient,
    PromptTooLongError,
    RequestFailedError,
    checked_address,
    gather_all,
    read_json,
    require_key,
    run_in_loop,
)
from agentgym_py.rewards.state_values import marked
from agentgym_py.rng import seed_of
from agentgym_py.trajectory import Trajectory

KEPT = "state-marks.jsonl"
"""The file of a training's marks. It is named like the training's states, by which `agentgym train` recognizes an
interrupted training.
"""
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


def question(trajectory: Trajectory, number: int) -> str:
    """The question for a step: `PROMPT` with the trajectory up to there."""
    steps, step = trajectory.steps, trajectory.steps[number]
    shown = [*(each.observation for each in steps[1:]), trajectory.final_observation]
    turns = [f"World: {each.observation}\n\nAgent: {each.reply}\n\n" for each in steps[:number]]
    return PROMPT.format(
        rules=trajectory.rules, task=trajectory.instruction, before=f"{''.join(turns)}World: {step.observation}",
        step=step.reply, after=shown[number],
    )  # fmt: skip


def mark_in(text: str) -> float | None:
    """The mark in an answer's last line, from 0 to 1; None if that line is not `Mark: ` and a number."""
    found = _MARK.fullmatch((text.strip().splitlines() or [""])[-1].strip())
    mark = float(found[1]) / _BEST if found else 2.0
    return mark if mark <= 1 else None


class OpenAIJudge:
    """A model that answers `POST {base_url}/chat/completions` as OpenAI's does, and marks steps from 0 to 1.

    An answer without a mark, or cut at its longest, is no answer: the model is asked again, `asks` times in all, then
    at temperature 1 where it had a lower one, and after that the step has no mark. Nor has one whose prompt is longer
    than the model's context, or whose request stays lost; those that fail are made again as `OpenAIAgent` does.

    Args:
        model: The endpoint's name of the model.
        base_url: The address, up to `/v1`.
        temperature: Sampling temperature; None sends none, for models that take none.
        max_new_tokens: Longest answer, as `max_tokens`.
        asks: How often a step is asked for at most.
        concurrency: Requests at once.
        timeout: Seconds for one answer.
        retries: How often a request is made again.
        extra: More fields of every request, such as `{"top_p": 0.9}`; null takes one out.

    Raises:
        ConfigError: a value that cannot be; a password in the address; no key for OpenAI's; httpx2 is not installed.
    """

    def __init__(
        self,
        model: str = "",
        base_url: str = "https://api.openai.com/v1",
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
            raise ConfigError("an endpoint serves models by name: model must say which one judges")
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
    def of(cls, settings: Mapping[str, Any]) -> OpenAIJudge:
        """The judge of a trainer's settings; a ConfigError names `judge`."""
        try:
            require_arguments(cls, settings)
            return cls(**settings)
        except ConfigError as error:
            raise ConfigError(f"judge: {error}") from error

    def values(self, trajectories: Sequence[Trajectory], kept: Path | None = None) -> list[list[float | None]]:
        """Marks of all steps, as the values of the states that they led to; see `state_values.marked`.

        Each mark is written to the file `kept` as it comes. Marks in it of the same model and the same question are not
        asked for again.

        Raises:
            EndpointError: the endpoint refuses, is broken, gave no answer at all, or none that could be read.
        """
        marks = _read(kept) if kept else {}
        places = dict[str, tuple[Trajectory, int]]()
        for each in trajectories:
            for i in range(len(each.steps)):
                places.setdefault(self._key(each, i), (each, i))
        wanted = [(key, *place) for key, place in places.items() if key not in marks]
        run_in_loop(gather_all([self._ask(*each, marks, kept) for each in wanted]))
        if wanted and not any(key in marks for key in places):
            raise EndpointError(f"{self._server.where} gave none of {len(wanted)} steps a mark that can be read")
        return [marked(each, lambda t, i: marks.get(self._key(t, i))) for each in trajectories]

    def _key(self, trajectory: Trajectory, number: int) -> str:
        """Identity of a question: model, settings and prompt."""
        return hashlib.sha256(repr((self.model, question(trajectory, number))).encode()).hexdigest()

    async def _ask(
        self, key: str, trajectory: Trajectory, number: int, marks: dict[str, float], kept: Path | None
    ) -> None:
        """Find the mark, and keep it if there is one."""
        try:
            async with self._gate:  # only as many prompts are in memory as are being asked
                mark = await self._mark(trajectory, number)
        except PromptTooLongError:
            return
        except RequestFailedError as lost:
            if not self._server.answered:
                raise EndpointError(str(lost)) from None
            return
        if mark is None:
            return
        marks[key] = mark
        if kept:
            line = {"key": key, "mark": mark, "model": self.model, "trajectory": trajectory.id, "step": number}
            kept.parent.mkdir(parents=True, exist_ok=True)
            with add_filename(kept), kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    async def _mark(self, trajectory: Trajectory, number: int) -> float | None:
        for k in range(self.asks):
            body = {**self._fixed, "messages": [{"role": "user", "content": question(trajectory, number)}]}
            if k and body["temperature"] is not None:
                body["temperature"] = max(1.0, body["temperature"])
            sent = {name: each for name, each in body.items() if each is not None}
            seed = seed_of("judge", trajectory.id, number, k)
            said: Completion = await self._server.ask(self._address, sent, completion, "chat completion", seed)
            mark = None if said.cut else mark_in(said.text)
            if mark is not None:
                return mark
        return None


def _read(path: Path) -> dict[str, float]:
    """Read a file of marks, if it exists; a line that a kill left half written is removed from it."""
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        write_atomic(path, whole)
    lines = [read_json(line.encode()) for line in whole.splitlines()]
    return {line["key"]: line["mark"] for line in lines if isinstance(line, dict) and line.keys() >= {"key", "mark"}}
