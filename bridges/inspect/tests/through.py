"""The scripted agent through Inspect: `eval` with its mock model."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

from agentgym_inspect import agentgym
from inspect_ai import eval as evaluate
from inspect_ai.log import EvalLog, EvalSample, read_eval_log
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ModelOutput, ModelUsage, get_model
from inspect_ai.tool import ToolCall
from scripted import MAX_STEPS, SEED, Played, Script, World

from agentgym_py.env import StopReason


def run(world: World, scripts: Sequence[Script], **more: Any) -> EvalLog:
    """Run the task `agentgym` with a model that follows the scripts, by tool calls or in text, and then gives up."""
    by_opening = {script.episode.observations[0]: script for script in scripts}

    def reply(messages: list[ChatMessage], *_: Any) -> ModelOutput:
        script = by_opening[messages[0].text]
        turn = sum(message.role == "assistant" for message in messages)
        if turn == len(script.calls):  # as a provider says that the context is full
            output = ModelOutput.from_content("mockllm", "", stop_reason="model_length")
        elif isinstance(call := script.calls[turn], Exception):  # as an endpoint fails
            raise call
        elif isinstance(call, ToolCall):  # as a provider reads it
            output = ModelOutput.from_message(ChatMessageAssistant(content="", tool_calls=[call]))
        elif world.tools:
            output = ModelOutput.for_tool_call("mockllm", *call)
        else:
            output = ModelOutput.from_content("mockllm", script.actions[turn])
        output.usage = ModelUsage()  # else the mock counts tokens with a tokenizer that it downloads
        return output

    task = agentgym(
        env=world.name, env_kwargs={"max_steps": MAX_STEPS}, split="train", tasks=len(scripts), tools=world.tools,
        prompt="none", seed=SEED,
    )  # fmt: skip
    usual = {
        "log_dir": tempfile.mkdtemp(),
        "display": "none",
        "model": get_model("mockllm/model", custom_outputs=reply),
    }
    (log,) = evaluate(task, **usual | more)
    return read_eval_log(log.location)  # with the samples


def read(sample: EvalSample, world: World) -> Played:
    """Read an episode from the log's sample."""
    assert sample.scores is not None
    score = sample.scores["outcome"]
    assert isinstance(score.value, dict) and score.metadata is not None
    role = "tool" if world.tools else "user"
    seen = [message.text for message in sample.messages[1:] if message.role == role]
    return Played(
        str(sample.id), (sample.messages[0].text, *seen), (score.value["return"],), score.value["success"] == 1,
        StopReason(score.metadata["stop_reason"]),
    )  # fmt: skip


def play(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play the scripts; return the episodes in their order."""
    log = run(world, scripts)
    assert log.status == "success" and log.samples is not None
    played = {str(sample.id): read(sample, world) for sample in log.samples}
    return [played[script.episode.task] for script in scripts]


TIMED = {"through Inspect's eval with its mock model, log included": play}
