"""What readers of foreign formats share: turns become steps, tool calls become text, outcomes are inferred.

A conversation is the rules, then texts of the world or the user, and replies. Files hold successful demonstrations
unless they say otherwise: see `outcome`. Such an episode has no world, so it cannot be replayed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from agentgym_py.env import StopReason
from agentgym_py.env.actions import format_reply, json_object, parse_reply
from agentgym_py.errors import DataError
from agentgym_py.trajectory.json_values import finite, quote
from agentgym_py.trajectory.types import Provenance, Step, Trajectory, Usage

ACT_NAME = "act"
"""Name of the tool whose argument `action` is a whole action, in files that this project writes."""

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool in a message."""

    name: str
    arguments: str
    """JSON text of an object."""


@dataclass(slots=True)
class Conversation:
    """Turns of a conversation, in order, which become the steps of an episode."""

    rules: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    observation: list[str] = field(default_factory=list)
    """Texts since the last reply."""

    def add_rules(self, text: str) -> None:
        """Add the text of the system: to the rules, or to the observation if the conversation has begun."""
        (self.observation if self.steps or self.observation else self.rules).append(text)

    def add_observation(self, text: str) -> None:
        """Add the text of a user, a tool or the world."""
        self.observation.append(text)

    def add_reply(self, text: str, *, trained: bool = True, usage: Usage | None = None) -> None:
        """Add a reply; one that directly follows another is part of it.

        If only one of the two is trained on, it is a step of its own, whose observation is empty.
        """
        if self.steps and not self.observation and self.steps[-1].trained == trained:
            last = self.steps[-1]
            both = _both(last.usage, usage)
            self.steps[-1] = _step(last.observation, f"{last.reply}\n{text}", trained, both)
        else:
            self.steps.append(_step("\n\n".join(self.observation), text, trained, usage))
            self.observation = []

    def episode(self, id: str, row: Mapping[str, Any], agent: str, kind: str) -> Trajectory:
        """Return the episode; `row` holds its outcome. Conversations with the same opening are of one task."""
        rules = "\n\n".join(self.rules)
        success, reward = outcome(row, bool(self.steps))
        steps = (*self.steps[:-1], replace(self.steps[-1], reward=reward)) if self.steps else ()
        return Trajectory(
            id=id,
            provenance=Provenance("", 0, {}, self._task(rules, kind), 0, agent),
            split="",
            kind=kind,
            difficulty="",
            instruction="",
            rules=rules,
            steps=steps,
            final_observation="\n\n".join(self.observation),
            reward=reward,
            success=success,
            stop_reason=StopReason.TERMINATED if success else None,
        )

    def _task(self, rules: str, kind: str) -> str:
        """Name the task by a digest of everything before the first reply that is trained on."""
        opening = [rules]
        for step in self.steps:
            opening.append(step.observation)
            if step.trained:
                break
            opening.append(step.reply)
        if not self.steps:
            opening += self.observation
        digest = hashlib.sha256(json.dumps(opening).encode()).hexdigest()[:16]
        return f"{kind}/{digest}"


def _step(observation: str, text: str, trained: bool, usage: Usage | None) -> Step:
    reply = parse_reply(text)
    return Step(
        observation, text, reply.thought, reply.action, reply.action_input, 0.0, True, trained=trained, usage=usage
    )


def _both(first: Usage | None, second: Usage | None) -> Usage | None:
    """Return the usage of a reply in two parts; a count that one part lacks is that of the other."""
    if first is None or second is None:
        return first or second

    def total(a: _Number | None, b: _Number | None) -> _Number | None:
        return (a if b is None else b) if a is None or b is None else a + b

    return Usage(
        total(first.prompt_tokens, second.prompt_tokens), total(first.completion_tokens, second.completion_tokens),
        total(first.cost, second.cost), second.model or first.model, second.cut,
    )  # fmt: skip


def reply_text(content: str, reasoning: str = "", calls: Sequence[ToolCall] = ()) -> str:
    """Return the text of a reply: reasoning in `<think>`, the content, and each call in `<tool_call>`.

    A single call of `act` becomes the ReAct text of its action, with the content as thought.
    """
    think = f"<think>\n{reasoning}\n</think>\n\n" if reasoning else ""
    if len(calls) == 1 and calls[0].name == ACT_NAME and (action := _action_of(calls[0].arguments)) is not None:
        return think + format_reply(action, content)
    tagged = (
        f'<tool_call>\n{{"name": {json.dumps(call.name, ensure_ascii=False)}, "arguments": {call.arguments}}}\n'
        "</tool_call>"
        for call in calls
    )
    return think + "\n".join(filter(None, (content, *tagged)))


def _action_of(arguments: str) -> str | None:
    value = json_object(arguments) or {}
    action = value.get("action") if len(value) == 1 else None
    return action if isinstance(action, str) else None


def outcome(row: Mapping[str, Any], has_reply: bool) -> tuple[bool, float]:
    """Return success and reward of a row.

    Without `success`, an episode succeeded if its `reward` is at least 1, or if it has a reply but no reward; without
    `reward`, success is 1.0 and failure 0.0.
    """
    success, reward = row.get("success"), row.get("reward")
    reward = None if reward is None else finite(reward, "reward")
    if success not in (None, True, False):
        raise DataError(f"success: expected true or false, found {quote(success)}")
    if success is None:
        success = has_reply if reward is None else reward >= 1
    return bool(success), float(success) if reward is None else reward


def outcome_keys(trajectory: Trajectory, *, always: bool = False) -> dict[str, Any]:
    """Return `success` and `reward` for a row, or nothing if `outcome` infers the same without them.

    `always` returns them in any case, so that all rows of a file have the same keys.

    Raises:
        DataError: an infrastructure failure ended the episode, so it has no outcome.
    """
    if not trajectory.is_evidence:
        raise DataError(
            f"trajectory {trajectory.id!r}: an infrastructure failure ended it, so it has no outcome; leave it out"
        )
    if not always and (trajectory.success, trajectory.reward) == outcome({}, bool(trajectory.steps)):
        return {}
    return {"success": trajectory.success, "reward": trajectory.reward}


def unique_ids(trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
    """Give a second episode of one id the id `<id>#2`, or the next number that is free."""
    counts: dict[str, int] = {}
    for trajectory in trajectories:
        id = trajectory.id
        while id in counts:
            counts[trajectory.id] += 1
            id = f"{trajectory.id}#{counts[trajectory.id]}"
        counts[id] = 1
        yield trajectory if id == trajectory.id else replace(trajectory, id=id)
