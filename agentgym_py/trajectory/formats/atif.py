"""Read and write ATIF, the Agent Trajectory Interchange Format of Harbor (RFC 0001): v1.7 is written, v1.0 to 1.8 read.

A file is one trajectory, an array of them, or one per line. The rules are a step of the system, the first observation
one of the user. A reply is a step of the agent: its action is a tool call, its thought is `reasoning_content`, and the
next observation is the call's result. An episode without a world, such as a chat, has messages only.

What ATIF has no key for is in `extra` under "agentgym"; a file with it is read as exactly the episode that was written.
A file of another program is read as text: rules, observations, replies, usage. Its token ids are not read, nor are the
trajectories of its subagents. A reply that was copied from elsewhere, or made without a model, is not trained on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym_py.errors import DataError
from agentgym_py.files import replacing
from agentgym_py.trajectory.formats.foreign import Conversation, ToolCall, reply_text, unique_ids
from agentgym_py.trajectory.formats.openai import function_call
from agentgym_py.trajectory.formats.rows import Row, parse_rows, read_rows, write_rows
from agentgym_py.trajectory.json_values import from_json, plain_values, quote, read_record, to_json
from agentgym_py.trajectory.types import OMIT_DEFAULT, Step, Trajectory, Usage

VERSION = "ATIF-v1.7"
_READ = tuple(f"ATIF-v1.{minor}" for minor in range(9))
_OURS = "agentgym"
"""Key of `extra` for what only this project reads."""
_WITHOUT_MODEL = frozenset(("expert", "random", "person"))
"""Agents of this project that are no models."""
_IN_METRICS = ("ids", "logprobs")
"""Keys of `Tokens` that the metrics of a step hold."""


@dataclass(frozen=True, slots=True)
class AtifPart:
    """A part of a text that may have images or audio."""

    type: str
    text: str | None = field(default=None, metadata=OMIT_DEFAULT)
    source: Mapping[str, Any] | None = field(default=None, metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True)
class AtifCall:
    """A call of a tool."""

    tool_call_id: str
    function_name: str
    arguments: Mapping[str, Any]
    extra: Mapping[str, Any] | None = field(default=None, metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True)
class AtifResult:
    """What a call, or anything else that the agent did, returned."""

    source_call_id: str | None = field(default=None, metadata=OMIT_DEFAULT)
    content: str | tuple[AtifPart, ...] | None = field(default=None, metadata=OMIT_DEFAULT)
    subagent_trajectory_ref: tuple[Mapping[str, Any], ...] | None = field(default=None, metadata=OMIT_DEFAULT)
    extra: Mapping[str, Any] | None = field(default=None, metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True)
class AtifObservation:
    """The results of a step."""

    results: tuple[AtifResult, ...]


@dataclass(frozen=True, slots=True)
class AtifMetrics:
    """Tokens and cost of a step."""

    prompt_tokens: int | None = field(default=None, metadata=OMIT_DEFAULT)
    completion_tokens: int | None = field(default=None, metadata=OMIT_DEFAULT)
    cached_tokens: int | None = field(default=None, metadata=OMIT_DEFAULT)
    cost_usd: float | None = field(default=None, metadata=OMIT_DEFAULT)
    prompt_token_ids: tuple[int, ...] | None = field(default=None, metadata=OMIT_DEFAULT)
    """The whole prompt, with all earlier turns."""
    completion_token_ids: tuple[int, ...] | None = field(default=None, metadata=OMIT_DEFAULT)
    logprobs: tuple[float, ...] | None = field(default=None, metadata=OMIT_DEFAULT)
    extra: Mapping[str, Any] | None = field(default=None, metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True)
class AtifStep:
    """A turn of the system, the user or the agent."""

    step_id: int
    """From 1."""
    source: str
    message: str | tuple[AtifPart, ...]
    timestamp: str | None = field(default=None, metadata=OMIT_DEFAULT)
    model_name: str | None = field(default=None, metadata=OMIT_DEFAULT)
    reasoning_effort: str | float | None = field(default=None, metadata=OMIT_DEFAULT)
    reasoning_content: str | None = field(default=None, metadata=OMIT_DEFAULT)
    tool_calls: tuple[AtifCall, ...] | None = field(default=None, metadata=OMIT_DEFAULT)
    observation: AtifObservation | None = field(default=None, metadata=OMIT_DEFAULT)
    metrics: AtifMetrics | None = field(default=None, metadata=OMIT_DEFAULT)
    is_copied_context: bool | None = field(default=None, metadata=OMIT_DEFAULT)
    llm_call_count: int | None = field(default=None, metadata=OMIT_DEFAULT)
    """0 for a step of an agent without a model, which has no metrics and no reasoning."""
    extra: Mapping[str, Any] | None = field(default=None, metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True)
class AtifAgent:
    """The agent and its model."""

    name: str
    version: str
    model_name: str | None = field(default=None, metadata=OMIT_DEFAULT)
    tool_definitions: tuple[Mapping[str, Any], ...] | None = field(default=None, metadata=OMIT_DEFAULT)
    extra: Mapping[str, Any] | None = field(default=None, metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True)
class AtifFinalMetrics:
    """Sums over the steps."""

    total_prompt_tokens: int | None = field(default=None, metadata=OMIT_DEFAULT)
    total_completion_tokens: int | None = field(default=None, metadata=OMIT_DEFAULT)
    total_cached_tokens: int | None = field(default=None, metadata=OMIT_DEFAULT)
    total_cost_usd: float | None = field(default=None, metadata=OMIT_DEFAULT)
    total_steps: int | None = field(default=None, metadata=OMIT_DEFAULT)
    extra: Mapping[str, Any] | None = field(default=None, metadata=OMIT_DEFAULT)
    """May hold `reward` and `success`."""


@dataclass(frozen=True, slots=True)
class AtifTrajectory:
    """A document of the format."""

    schema_version: str
    agent: AtifAgent
    steps: tuple[AtifStep, ...]
    session_id: str | None = field(default=None, metadata=OMIT_DEFAULT)
    """Identifies a run of an agent, which may have several documents."""
    trajectory_id: str | None = field(default=None, metadata=OMIT_DEFAULT)
    notes: str | None = field(default=None, metadata=OMIT_DEFAULT)
    final_metrics: AtifFinalMetrics | None = field(default=None, metadata=OMIT_DEFAULT)
    continued_trajectory_ref: str | None = field(default=None, metadata=OMIT_DEFAULT)
    extra: Mapping[str, Any] | None = field(default=None, metadata=OMIT_DEFAULT)
    subagent_trajectories: tuple[Mapping[str, Any], ...] | None = field(default=None, metadata=OMIT_DEFAULT)


# -------------------------------------------------------------------------------------------------------------- writing


def write(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Write episodes and return how many: a line each to a `.jsonl` file, else one object, or an array of several."""
    rows = map(to_row, trajectories)
    target = Path(path)
    if target.suffix == ".jsonl":
        return write_rows(target, rows)
    first, second = next(rows, None), next(rows, None)
    if first is None or second is not None:
        return write_rows(target, (row for row in (first, second, *rows) if row is not None))
    with replacing(target) as partial:
        partial.write_text(json.dumps(first, indent=1) + "\n", encoding="utf-8", newline="\n")
    return 1


def to_row(trajectory: Trajectory) -> Row:
    """Return the ATIF document of an episode.

    Raises:
        DataError: a value that JSON cannot hold.
    """
    data = to_json(trajectory)
    steps = _written_steps(trajectory, data["steps"])
    models = {step.usage.model for step in trajectory.steps if step.usage and step.usage.model}
    provenance = trajectory.provenance
    sampled = any(step.tokens for step in trajectory.steps)
    row: Row = plain_values(
        AtifTrajectory(
            schema_version=VERSION,
            session_id=trajectory.id,
            trajectory_id=trajectory.id,
            agent=AtifAgent(
                name=provenance.agent,
                version=provenance.package_version or "unknown",
                model_name=provenance.agent if sampled else models.pop() if len(models) == 1 else None,
            ),
            steps=tuple(steps),
            final_metrics=_final_metrics(trajectory, steps),
            extra={_OURS: {key: data[key] for key in data if key not in _ELSEWHERE}},
        )
    )
    return row


_ELSEWHERE = ("id", "rules", "steps", "final_observation")
"""Keys of an episode that are parts of the document."""


def _written_steps(trajectory: Trajectory, records: Sequence[Row]) -> list[AtifStep]:
    """The steps of a document; `records` are those of the episode as JSON values."""
    steps, texts = list[AtifStep](), [*(step.observation for step in trajectory.steps), trajectory.final_observation]
    if trajectory.rules:
        steps.append(AtifStep(1, "system", trajectory.rules))
    steps.append(AtifStep(len(steps) + 1, "user", texts[0]))
    has_world, without_model = bool(trajectory.provenance.env_id), trajectory.provenance.agent in _WITHOUT_MODEL
    prompts = _prompts(trajectory)
    for i, (step, record) in enumerate(zip(trajectory.steps, records, strict=True)):
        kept = {key: value for key, value in record.items() if key != "observation"}
        if step.tokens is not None:
            kept["tokens"] = {key: value for key, value in record["tokens"].items() if key not in _IN_METRICS}
        metrics = _metrics(step, prompts[i] if prompts else None)
        calls = 1 + (step.summary is not None) if metrics else 0 if without_model else None
        number = len(steps) + 1
        shared: dict[str, Any] = {"metrics": metrics, "llm_call_count": calls, "extra": {_OURS: kept}}
        if has_world:
            name, arguments = function_call(step)
            shared["message" if calls == 0 or not step.thought else "reasoning_content"] = step.thought
            steps.append(
                AtifStep(**{
                    "step_id": number, "source": "agent", "message": "", **shared,
                    "tool_calls": (AtifCall(f"call_{i}", name, json.loads(arguments)),),
                    "observation": AtifObservation((AtifResult(f"call_{i}", texts[i + 1]),)),
                })
            )  # fmt: skip
        else:
            steps.append(AtifStep(number, "agent", step.reply, **shared))
            if i + 1 < len(trajectory.steps) or texts[-1]:
                steps.append(AtifStep(number + 1, "user", texts[i + 1]))
    return steps


def _prompts(trajectory: Trajectory) -> list[tuple[int, ...]] | None:
    """The whole prompt of each reply; None if the ids of one are unknown."""
    if not trajectory.has_tokens:
        return None
    prompts, sequence = list[tuple[int, ...]](), list[int]()
    for step in trajectory.steps:
        for record in step.token_records:
            sequence = [*([] if record.starts_sequence else sequence), *record.context]
            prompt = tuple(sequence)
            sequence += record.ids
        prompts.append(prompt)
    return prompts


def _metrics(step: Step, prompt: tuple[int, ...] | None) -> AtifMetrics | None:
    """The metrics of a model's reply; None for other agents."""
    tokens, usage = step.tokens, step.usage
    if tokens is None and usage is None:
        return None
    if usage is not None:
        prompt_tokens, completion_tokens = usage.prompt_tokens, usage.completion_tokens
    else:
        prompt_tokens, completion_tokens = (
            None if prompt is None else len(prompt),
            len(tokens.ids) if tokens else None,
        )
    return AtifMetrics(
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cost_usd=usage.cost if usage else None,
        prompt_token_ids=prompt,
        completion_token_ids=tokens.ids if tokens else None,
        logprobs=tokens.logprobs if tokens else None,
    )


def _final_metrics(trajectory: Trajectory, steps: Sequence[AtifStep]) -> AtifFinalMetrics:
    def total(name: str) -> Any:
        values = [getattr(step.metrics, name) for step in steps if step.metrics]
        return sum(counted) if (counted := [value for value in values if value is not None]) else None

    return AtifFinalMetrics(
        total_prompt_tokens=total("prompt_tokens"),
        total_completion_tokens=total("completion_tokens"),
        total_cost_usd=total("cost_usd"),
        total_steps=len(steps),
        extra={"reward": trajectory.reward, "success": trajectory.success},
    )


# -------------------------------------------------------------------------------------------------------------- reading


def read(path: str | Path, *, warn: bool = True) -> Iterator[Trajectory]:
    """Stream the episodes of a file; a second one of one id gets the id `<id>#2`.

    Raises:
        DataError: no such file, or a row is not in this format; names the row and the key.
    """
    return unique_ids(parse_rows(path, read_rows(path, warn=warn), from_row))


def from_row(row: Mapping[str, Any]) -> Trajectory:
    """Return the episode of an ATIF document.

    Raises:
        DataError: another version, a missing or unknown key, a value of the wrong type, an image or audio; names the
            key.
    """
    version = row.get("schema_version")
    if version not in _READ:
        raise DataError(
            f"schema_version: {quote(version)} cannot be read, {_READ[0]} to {_READ[-1].removeprefix('ATIF-v')} can"
        )
    document = read_record(AtifTrajectory, row)
    conversation = Conversation()
    for i, step in enumerate(document.steps):
        _add(conversation, step, f"steps[{i}]")
    name = document.trajectory_id or document.session_id or "atif"
    extra = document.extra or {}
    if isinstance(ours := extra.get(_OURS), dict):
        return _own(document, ours, conversation, name)
    metrics = (document.final_metrics and document.final_metrics.extra) or {}
    outcome = {key: value for key, value in {**extra, **metrics}.items() if isinstance(value, _OUTCOME.get(key, ()))}
    return conversation.episode(name, outcome, document.agent.name, "atif")


_OUTCOME: Mapping[str, Any] = {"reward": int | float, "success": bool}
"""Keys of `extra` that say how an episode ended, if they are of these types."""


def _add(conversation: Conversation, step: AtifStep, where: str) -> None:
    message = _text(step.message, f"{where}.message")
    if step.source == "system":
        conversation.add_rules(message)
    elif step.source == "user":
        conversation.add_observation(message)
    elif step.source == "agent":
        calls = [ToolCall(call.function_name, json.dumps(dict(call.arguments), ensure_ascii=False))
                 for call in step.tool_calls or ()]  # fmt: skip
        trained = not step.is_copied_context and step.llm_call_count != 0
        conversation.add_reply(
            reply_text(message, step.reasoning_content or "", calls), trained=trained, usage=_usage(step)
        )
    else:
        raise DataError(f"{where}.source: expected 'system', 'user' or 'agent', found {quote(step.source)}")
    results = step.observation.results if step.observation else ()
    for i, result in enumerate(results):
        if result.content is not None:
            conversation.add_observation(_text(result.content, f"{where}.observation.results[{i}].content"))


def _text(content: str | tuple[AtifPart, ...], where: str) -> str:
    if isinstance(content, str):
        return content
    for i, part in enumerate(content):
        if part.type != "text" or part.text is None:
            raise DataError(f"{where}[{i}]: only text can be read, found a part of type {quote(part.type)}")
    return "\n".join(part.text or "" for part in content)


def _usage(step: AtifStep) -> Usage | None:
    metrics = step.metrics
    if metrics is None or (metrics.prompt_tokens is None and metrics.completion_tokens is None):
        return None
    return Usage(metrics.prompt_tokens, metrics.completion_tokens, metrics.cost_usd, step.model_name or "")


def _own(document: AtifTrajectory, ours: Mapping[str, Any], conversation: Conversation, name: str) -> Trajectory:
    """The episode that `to_row` wrote: its texts are in the document, the rest in `extra`."""
    agents = [step for step in document.steps if step.source == "agent"]
    if len(agents) != len(conversation.steps):
        raise DataError(f"extra.{_OURS}: {len(agents)} steps of the agent, but {len(conversation.steps)} replies")
    steps = [
        {**_own_step(step, f"steps[{step.step_id - 1}]"), "observation": turn.observation}
        for step, turn in zip(agents, conversation.steps, strict=True)
    ]
    texts = {"rules": "\n\n".join(conversation.rules), "final_observation": "\n\n".join(conversation.observation)}
    try:
        return from_json({**ours, **texts, "id": name, "steps": steps})
    except DataError as error:
        raise DataError(f"extra.{_OURS}: {error}") from error


def _own_step(step: AtifStep, where: str) -> Row:
    kept = (step.extra or {}).get(_OURS)
    if not isinstance(kept, dict):
        raise DataError(f"{where}.extra: missing key {_OURS!r}")
    tokens = kept.get("tokens")
    if not isinstance(tokens, dict):
        return kept
    metrics = step.metrics or AtifMetrics()
    sampled = {"ids": list(metrics.completion_token_ids or ()), "logprobs": list(metrics.logprobs or ())}
    return {**kept, "tokens": {**tokens, **sampled}}
