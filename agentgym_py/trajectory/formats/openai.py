"""Rows for OpenAI: chat messages with tool calls."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from agentgym_py.env import function_tool, text_parameter
from agentgym_py.env.actions import json_object
from agentgym_py.trajectory.formats import foreign
from agentgym_py.trajectory.formats.rows import Message, Row
from agentgym_py.trajectory.types import Step, Trajectory, opening_text, tool_rules

ACT_TOOL = function_tool(
    foreign.ACT_NAME, "Do one action.", {"action": text_parameter("The action, as the rules have it.")}
)
"""The tool whose argument is the text of any action."""
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def openai_chat(
    trajectory: Trajectory, *, tools: Sequence[dict[str, Any]] = (), final: bool = False, with_outcome: bool = False
) -> Row:
    """Return OpenAI's chat row with `tool_calls`: `{"messages": [...], "tools": [...], "parallel_tool_calls": false}`.

    An action with an input, or one that is the name of a tool in `tools`, calls the tool of its name; any other action
    calls the tool `act` with its text. The arguments are a JSON string. `final` adds the answer to the last call, which
    a fine-tuning file must not have. A reply that is not trained on has `weight` 0. `tools` are the schemas of the
    world's tools, as `with_tools` of `agentgym_py.collection.replay` finds them; another tool that is called has a
    permissive one. An episode that is not a plain success has `success` and `reward` too. `with_outcome` gives them to
    every row, because all rows of a file should have the same keys.

    Raises:
        DataError: an infrastructure failure ended the episode.
    """
    turns: list[Message] = []
    names = {tool["function"]["name"] for tool in tools}
    for i, step in enumerate(trajectory.steps):
        if i == 0:
            turns.append({"role": "user", "content": opening_text(tool_rules(trajectory.rules), step.observation)})
        else:
            turns.append(tool_answer(i - 1, step.observation))
        turns.append(tool_call(i, step, names) | ({} if step.trained else {"weight": 0}))
    if final and trajectory.steps:
        turns.append(tool_answer(len(trajectory.steps) - 1, trajectory.final_observation))
    schemas = [*map(_permissive_tool, sorted(called_tools(trajectory, names) - names)), *tools]
    outcome = foreign.outcome_keys(trajectory, always=with_outcome)
    return {"messages": turns, "tools": schemas, "parallel_tool_calls": False, **outcome}


def tool_call(number: int, step: Step, names: Collection[str] = ()) -> Message:
    """Return the message of a step as a tool call with id `call_{number}`; see `function_call`."""
    name, arguments = function_call(step, names)
    call = {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": step.thought or None, "tool_calls": [call]}


def tool_answer(number: int, observation: str) -> Message:
    """Return the message that answers the call `call_{number}`."""
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": observation}


def function_call(step: Step, names: Collection[str] = ()) -> tuple[str, str]:
    """Return name and arguments (a JSON object as text) of a step's call; `names` are those of known tools."""
    if step.action_input is None and step.action in names:
        return step.action, "{}"
    if step.action_input is None or not _TOOL_NAME.fullmatch(step.action):
        text = step.action if step.action_input is None else f"{step.action}\nAction Input: {step.action_input}"
        return foreign.ACT_NAME, json.dumps({"action": text}, ensure_ascii=False)
    is_object = json_object(step.action_input) is not None
    return step.action, step.action_input if is_object else json.dumps({"input": step.action_input}, ensure_ascii=False)


def possible_tools(trajectory: Trajectory) -> set[str]:
    """Return the actions that may be names of its world's tools, with an input or without one."""
    return {step.action for step in trajectory.steps if _TOOL_NAME.fullmatch(step.action)} - {foreign.ACT_NAME}


def called_tools(trajectory: Trajectory, names: Collection[str] = ()) -> set[str]:
    """Return the names of the tools that the calls of `openai_chat` call; `names` are those of known tools."""
    return {function_call(step, names)[0] for step in trajectory.steps}


def _permissive_tool(name: str) -> dict[str, Any]:
    if name == foreign.ACT_NAME:
        return ACT_TOOL
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
