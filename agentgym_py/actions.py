"""The one parser of agents' replies: ReAct text, an OpenAI-style tool call or the bare action; total over strings."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

_ACTION = re.compile(r"\baction[ \t]*:", re.IGNORECASE)
_INPUT = re.compile(r"\baction[ \t]+input[ \t]*:", re.IGNORECASE)
_THOUGHT = re.compile(r"\A\s*thought[ \t]*:", re.IGNORECASE)
_OBSERVATION = re.compile(r"^[ \t]*observation[ \t]*:", re.IGNORECASE | re.MULTILINE)
_TAGGED = re.compile(r"<tool_call>\s*(\{.*?\})\s*(?:</tool_call>|\Z)", re.DOTALL)
_FENCED = re.compile(r"\A```(?:json)?\s*(\{.*\})\s*```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent said in one turn."""

    action: str
    """The action's text, or the tool's name; empty when the reply holds none."""
    thought: str = ""
    """What stands before the action."""
    action_input: str | None = None
    """The text after `Action Input:`, or the arguments of a tool call as JSON."""
    arguments: Mapping[str, Any] | None = None
    """`action_input` as a JSON object; None where it is none."""
    form: Literal["react", "tool_call", "bare"] = "bare"
    """How the reply was written."""


def parse_reply(text: str) -> Reply:
    """Read a reply; never raises.

    A tool call wins over ReAct text, and ReAct text over the bare action. Of several actions the last one before an
    invented `Observation:` counts; an action is one line, an `Action Input:` may be several.
    """
    return _tool_call(text) or _react(text) or _bare(text)


def format_reply(action: str, thought: str = "", action_input: str | None = None) -> str:
    """The ReAct text of a reply; `parse_reply` gives its parts back when they are single stripped lines."""
    head = f"Thought: {thought}\n" if thought else ""
    tail = f"\nAction Input: {action_input}" if action_input is not None else ""
    return f"{head}Action: {action}{tail}"


def _bare(text: str) -> Reply:
    thought = _THOUGHT.match(text)
    if thought:
        return Reply("", thought=text[thought.end() :].strip())
    return Reply(text.strip())


def _react(text: str) -> Reply | None:
    cut = _OBSERVATION.search(text)
    head = text[: cut.start()] if cut and _ACTION.search(text, 0, cut.start()) else text
    found = deque(_ACTION.finditer(head), maxlen=1)
    if not found:
        return None
    last = found.pop()
    thought = _THOUGHT.sub("", head[: last.start()]).strip()
    rest = head[last.end() :]
    given = _INPUT.search(rest)
    if given is None:
        return Reply(_first_line(rest), thought, form="react")
    raw = rest[given.end() :].strip()
    return Reply(_first_line(rest[: given.start()]), thought, raw, _json_object(raw), "react")


def _first_line(text: str) -> str:
    stripped = text.strip()
    return stripped.split("\n", 1)[0].strip() if stripped else ""


def _tool_call(text: str) -> Reply | None:
    stripped = text.strip()
    tagged = _TAGGED.search(stripped) if "<tool_call>" in stripped else None
    fenced = _FENCED.match(stripped) if stripped.startswith("```") else None
    if tagged:
        source, thought = tagged.group(1), stripped[: tagged.start()].strip()
    elif fenced or stripped.startswith("{"):
        source, thought = fenced.group(1) if fenced else stripped, ""
    else:
        return None
    call = _json_object(source)
    if call is None:
        return None
    calls = call.get("tool_calls")
    if isinstance(calls, list) and calls and isinstance(calls[0], dict):
        call, thought = calls[0], str(call.get("content") or thought)
    inner = call.get("function")
    if isinstance(inner, dict):
        call = inner
    name = call.get("name", call.get("function_name"))
    if not isinstance(name, str):
        return None
    return _call_reply(name, call.get("arguments", call.get("parameters", {})), str(call.get("thought") or thought))


def _call_reply(name: str, arguments: object, thought: str) -> Reply:
    if isinstance(arguments, str):
        return Reply(name.strip(), thought, arguments, _json_object(arguments), "tool_call")
    if isinstance(arguments, dict):
        return Reply(name.strip(), thought, json.dumps(arguments, ensure_ascii=False), arguments, "tool_call")
    return Reply(name.strip(), thought, json.dumps(arguments, ensure_ascii=False), None, "tool_call")


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
