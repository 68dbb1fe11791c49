"""The parser of agents' replies: ReAct text, an OpenAI-style tool call or the bare action; it accepts any string."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from agentgym_py.env.thoughts import split_thought

# A label at the start of a line counts in any case; one within a line only if capitalised and not in brackets, so that
# the bare action `search[action: figure]` is not cut.
_ACTION = re.compile(r"^[ \t]*action[ \t]*:", re.IGNORECASE | re.MULTILINE)
_ACTION_INLINE = re.compile(r"(?<![\w\[(\"'])A(?:ction|CTION)[ \t]*:")
_INPUT = re.compile(r"^[ \t]*action[ \t]+input[ \t]*:", re.IGNORECASE | re.MULTILINE)
_INPUT_INLINE = re.compile(r"(?<![\w\[(\"'])A(?:ction[ \t]+Input|CTION[ \t]+INPUT)[ \t]*:")
_THOUGHT = re.compile(r"\A\s*thought[ \t]*:", re.IGNORECASE)
_OBSERVATION = re.compile(r"^[ \t]*observation[ \t]*:", re.IGNORECASE | re.MULTILINE)
_TAG = re.compile(r"<tool_call>\s*(?=\{)")
_FENCED = re.compile(r"\A```(?:json)?\s*(\{.*\})\s*```\Z", re.DOTALL)
_ONE_LINE = re.compile(r"\s*(\w+)\s*(?:\(\s*(?:(\{.*\})\s*)?\)|(\{.*\}))\s*", re.DOTALL)
_KEYWORD_CALL = re.compile(r"\s*(\w+)(?:\s*\((.+)\)|[ \t]+(?=\w+=)(.+))\s*", re.DOTALL)
_VALUE_CALL = re.compile(r"(\w+)(?:\s*\((.+)\)|[ \t]+([\"'].+[\"']))", re.DOTALL)
_KEYWORD = re.compile(r"\s*(\w+)\s*=\s*")
_VALUE_END = re.compile(r"\s*,\s*|\s+|\Z")
_QUOTED = re.compile(r"'([^'\\]*)'")
_WORD = re.compile(r"[^\s,(){}\[\]\"'=]+")
WORD_EDGES = " .!?()\"'`“”‘’"
"""Quotes, brackets and final marks that a model may put around a word."""
_CONSTANTS = {"True": True, "False": False, "None": None}
_INPUT_BELOW = re.compile(r"\nAction Input: (?=\{)")
_BOLD = re.compile(r"^[ \t]*\*\*(thought|action|action input|observation)(?::\*\*|\*\*:)", re.IGNORECASE | re.MULTILINE)
_OPENING_FENCE = re.compile(r"\A\s*```\w*[ \t]*\n")
_MARKS = ("```", "**", "`")
_UNLABELLED = re.compile(r"^([ \t]*action[ \t]*:[ \t]*`?\w+`?)[ \t]*\n\s*(?=\{)", re.IGNORECASE | re.MULTILINE)
_CALL_START = re.compile(r"\s*(\w+)\s*(?:\(\s*)?(?=\{)")
_ARGUMENTS = ("arguments", "parameters", "input", "action_input")
_CALL_KEYS = frozenset(("arguments", "parameters", "input", "function", "function_call", "tool_calls"))
_MAX_QUOTE = 80
_MAX_DEPTH = 100
"""Deeper JSON is refused: far below the interpreter's limit, so that the result does not depend on the stack."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A parsed reply of an agent."""

    action: str
    """The action's text, or the tool's name; empty if the reply has none."""
    thought: str = ""
    """The text before the action."""
    action_input: str | None = None
    """The text after `Action Input:`, or the arguments of a tool call as JSON."""
    arguments: Mapping[str, Any] | None = None
    """`action_input` as a JSON object; None if it is not one."""
    form: Literal["react", "tool_call", "bare"] = "bare"
    """How the reply was written."""
    calls: int = 1
    """Number of tool calls, counted by `parse_tool_call`; only one is allowed."""

    @property
    def name(self) -> str:
        """The action's name: `search` both in `search[red shoes]` and in a call of the tool `search`."""
        return self.parts[0]

    @property
    def argument(self) -> str | None:
        """The action's argument as text, from the brackets, `Action Input:` or a call's values (joined by commas)."""
        return self.parts[1]

    @property
    def parts(self) -> tuple[str, str | None]:
        """Name and argument."""
        action, argument = self.action, self.action_input
        if self.arguments is not None:
            argument = ", ".join(map(str, self.arguments.values())) if self.arguments else None
        if argument is None and action[-1:] != "]":
            return action, None
        name, bracket, rest = action.partition("[")
        if argument is not None:  # brackets and an input: the input ends the argument
            return name, f"{rest}[{argument}" if bracket else argument
        return (name, rest[:-1]) if bracket else (action, None)

    @property
    def bracket_parts(self) -> tuple[str, str | None]:
        """Name and argument without what follows the last bracket, such as a full stop."""
        name, argument = self.parts
        if argument is None and "]" in self.action:
            return replace(self, action=self.action[: self.action.rfind("]") + 1]).parts
        return name, argument

    @property
    def error(self) -> str:
        """Why the input cannot be parsed; empty if it can, or if there is none.

        The input of a tool call must be a JSON object, and so must an `Action Input:` that begins with `{`.
        """
        if self.calls > 1:
            return f"Only one call a turn is done, and this reply has {self.calls}: write the first of them alone."
        text = (self.action_input or "").strip()
        if self.arguments is not None or not text or (self.form != "tool_call" and text[0] != "{"):
            return ""
        quote = f"{text[:_MAX_QUOTE]!r}" + ("…" if len(text) > _MAX_QUOTE else "")
        subject = f"The input of {self.action[:_MAX_QUOTE]!r}" if self.action else "A call"
        return f'{subject} must be one JSON object, such as {{"name": "value"}}, not {quote}{_json_error(text)}.'


def parse_reply(text: str) -> Reply:
    """Parse a reply; never raises.

    What stands before the last `</think>` (or another mark that ends a thought) is thought, with or without an opening
    mark, and so is what follows a mark that is opened and not closed. In the rest a tool call wins over ReAct text, and
    ReAct text over the bare action. Of several actions the last one before an invented `Observation:` counts. An action
    is one line; an `Action Input:` may be several. Labels at the start of a line win over those within one. A bare
    action may have its `Action Input:` on the next line (a two-line tool call). Markdown around labels and actions is
    left out: `**Action:** look`, `` Action: `look` `` and a fence. An action may be JSON with `action` and
    `action_input`, as LangChain writes it. JSON is strict: no NaN, no number beyond a float, no nesting deeper than
    100. If an input should be a JSON object and is not, `Reply.error` says why; `TextEnv.step` treats it as a bad
    action.
    """
    thought, text = split_thought(text)
    return _with_thought(_parse(text), thought)


def parse_tool_call(text: str) -> Reply:
    """Parse a reply in a world with tools; never raises.

    Like `parse_reply`, but a call may be one line: `name {"argument": 1}`, `name({"argument": 1})`, `name()`,
    `name(argument=1, other="x")` or `name argument=1`. An input may be in backticks, and `Action Input:` may be missing
    before a line that begins with `{`. Without labels a call may be a JSON list of one, or follow other words.
    """
    thought, text = split_thought(text)
    return _with_thought(_parse_tool_call(text), thought)


def _with_thought(reply: Reply, thought: str) -> Reply:
    return replace(reply, thought=f"{thought}\n{reply.thought}".strip()) if thought else reply


def _parse(text: str) -> Reply:
    if ":" not in text and "{" not in text:  # no label, no call: most replies of experts and samplers
        return Reply(_without_marks(text))
    if call := _tool_call(text):
        return call
    text = _BOLD.sub(r"\1:", text)
    return _react(text) or _bare(text)


def _parse_tool_call(text: str) -> Reply:
    if call := _call_in_line(text):
        return call
    reply = _parse(_UNLABELLED.sub(r"\1\nAction Input: ", _BOLD.sub(r"\1:", text)))
    if reply.form == "tool_call":
        return replace(reply, calls=_count_calls(text))
    if reply.action_input is not None:
        fenced = _FENCED.match(reply.action_input)
        return replace(reply, action_input=fenced[1], arguments=json_object(fenced[1])) if fenced else reply
    if reply.form == "bare" and (at_end := _call_at_end(text)):
        return at_end
    if call := _call_in_line(reply.action, reply.thought):
        return call
    start = _CALL_START.match(reply.action)
    if start or reply.action.startswith("{"):  # a call whose JSON is broken
        raw = reply.action[start.end() :] if start else reply.action
        return replace(reply, action=start[1] if start else "", action_input=raw, arguments=json_object(raw))
    return reply


def _call_in_line(text: str, thought: str = "") -> Reply | None:
    """The call that a text is, with its arguments as JSON or by keywords."""
    if "(" not in text and "{" not in text and "=" not in text:  # spares a long text two searches
        return None
    if call := _ONE_LINE.fullmatch(text):
        return _parse(format_reply(call[1], thought, call[2] or call[3] or "{}"))
    call = _KEYWORD_CALL.fullmatch(text)
    arguments = _keywords(call[2] or call[3]) if call else None
    return _with_arguments(call[1], thought, arguments) if call and arguments else None


def _with_arguments(name: str, thought: str, arguments: dict[str, Any]) -> Reply:
    return Reply(name, thought, json.dumps(arguments, ensure_ascii=False), arguments, "react")


def _keywords(text: str) -> dict[str, Any] | None:
    """Read `name="x", other=2`; None if the text is something else or repeats a name."""
    arguments: dict[str, Any] = {}
    place, has_json = 0, not _too_deep(text)
    while keyword := _KEYWORD.match(text, place):
        read = _value(text, keyword.end(), has_json)
        if read is None or keyword[1] in arguments:
            return None
        arguments[keyword[1]], place = read
    return arguments if place == len(text) else None


def _value(text: str, place: int, has_json: bool) -> tuple[Any, int] | None:
    """Read a JSON value, a text in single quotes or a bare word, which a comma, a space or the end follows."""
    readings: list[tuple[Any, int]] = []
    with suppress(ValueError, RecursionError):
        readings += [_DECODER.raw_decode(text, place)] if has_json else []
    if quoted := _QUOTED.match(text, place):
        readings.append((quoted[1], quoted.end()))
    if word := _WORD.match(text, place):
        readings.append((_CONSTANTS.get(word[0], word[0]), word.end()))
    for value, end in readings:
        if stop := _VALUE_END.match(text, end):
            return value, stop.end()
    return None


def name_call(reply: Reply, tools: Sequence[Mapping[str, Any]]) -> Reply:
    """Return a reply with its tool in the tool's own spelling, and with a value without a name as an argument.

    The tool may be written in any case: `Finish`. A value without a name, as in `get_cell("B2")` or `get_cell "B2"`, is
    an argument of a tool that needs, or has, exactly one. Any other reply is returned as it is.
    """
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    call = _VALUE_CALL.fullmatch(reply.action) if reply.action_input is None else None
    name = call[1] if call else reply.action
    if name not in schemas:
        name = next((known for known in schemas if known.casefold() == name.casefold()), "")
    if not name or not call:
        return replace(reply, action=name) if name else reply
    parameters = schemas[name]["required"] or list(schemas[name]["properties"])
    text = (call[2] or call[3]).strip()
    read = _value(text, 0, not _too_deep(text))
    if len(parameters) != 1 or read is None or read[1] != len(text):
        return reply
    return _with_arguments(name, reply.thought, {parameters[0]: read[0]})


def _call_at_end(text: str) -> Reply | None:
    """The call in a JSON object, or list, at the end of a reply."""
    body = text.strip().removeprefix("[TOOL_CALLS]").rstrip("` \n")
    begin = min((place for place in (body.find("{"), body.find("[{")) if place >= 0), default=-1)
    if begin < 0 or _too_deep(body):
        return None
    try:
        value = _DECODER.decode(body[begin:])
    except (ValueError, RecursionError):
        return None
    calls = value if isinstance(value, list) else [value]
    if not all(isinstance(call, dict) and _CALL_KEYS & call.keys() for call in calls):
        return None
    words = body[:begin].strip().removesuffix("```json").strip("` \n")
    reply = _reply_of_call(calls[0], _THOUGHT.sub("", words).strip())
    return replace(reply, calls=len(calls)) if reply else None


def _count_calls(text: str) -> int:
    """Number of calls in a reply that begins with one."""
    tags = len(_TAG.findall(text))
    listed = None if tags else (json_object(text) or {}).get("tool_calls")
    return max(1, tags, sum(isinstance(call, dict) for call in listed) if isinstance(listed, list) else 0)


def from_keyboard(text: str, tools: Sequence[Mapping[str, Any]] | None) -> str:
    """Turn typed text into the form that a world with these tools parses.

    A one-line call of a tool becomes an action with `Action Input:` below it.
    """
    if not tools:
        return text
    call = parse_tool_call(text)
    names = {tool.get("function", tool)["name"] for tool in tools}
    if call.action not in names or call.arguments is None or call.error:
        return text
    return format_reply(call.action, call.thought, call.action_input)


def to_keyboard(action: str) -> str:
    """Turn an action into typed form: a call in one line, without `Action Input:`."""
    return _INPUT_BELOW.sub(" ", action)


def format_reply(action: str, thought: str = "", action_input: str | None = None) -> str:
    """Return the ReAct text of a reply.

    `parse_reply` returns the same parts if they are single stripped lines without `<tool_call>`, and the action has no
    `Action Input:`, no Markdown around it and is no JSON.
    """
    head = f"Thought: {thought}\n" if thought else ""
    tail = f"\nAction Input: {action_input}" if action_input is not None else ""
    return f"{head}Action: {action}{tail}"


def _bare(text: str) -> Reply:
    thought = _THOUGHT.match(text)
    if thought:
        return Reply("", thought=text[thought.end() :].strip())
    label = _INPUT.search(text)
    if label is None:
        return Reply(text.strip())
    raw = text[label.end() :].strip()
    return Reply(_first_line(text[: label.start()]), "", raw, json_object(raw))


def _react(text: str) -> Reply | None:
    cut = _OBSERVATION.search(text)
    head = text[: cut.start()] if cut and _last_action(text[: cut.start()]) else text
    label = _last_action(head)
    if label is None:
        return None
    thought = _THOUGHT.sub("", head[: label.start()]).strip()
    rest = head[label.end() :]
    if call := _tool_call(rest):
        return replace(call, thought=thought) if thought else call
    rest = _OPENING_FENCE.sub("", rest)
    label = _INPUT.search(rest) or _INPUT_INLINE.search(rest)
    if label is None:
        return Reply(_first_line(rest), thought, form="react")
    raw = rest[label.end() :].strip()
    return Reply(_first_line(rest[: label.start()]), thought, raw, json_object(raw), "react")


def _last_action(text: str) -> re.Match[str] | None:
    """The last label at the start of a line; if there is none, the last one within a line."""
    for label in (_ACTION, _ACTION_INLINE):
        if matches := deque(label.finditer(text), maxlen=1):
            return matches.pop()
    return None


def _first_line(text: str) -> str:
    return _without_marks(text.strip().split("\n", 1)[0])


def _without_marks(text: str) -> str:
    """Return a text without the Markdown that emphasizes or quotes all of it."""
    text = text.strip()
    if text[:1] not in ("*", "`"):
        return text
    if fence := _OPENING_FENCE.match(text):
        return text[fence.end() :].removesuffix("```").strip()
    for mark in _MARKS:
        inner = text[len(mark) : -len(mark)]
        if inner and mark not in inner and text == f"{mark}{inner}{mark}":
            return inner.strip()
    return text


def _tool_call(text: str) -> Reply | None:
    stripped = text.strip()
    tag = _TAG.search(stripped)
    fenced = _FENCED.match(stripped)
    if tag:
        call, thought = json_object(stripped[tag.end() :], prefix=True), stripped[: tag.start()].strip()
    elif fenced or stripped.startswith("{"):
        call, thought = json_object(fenced.group(1) if fenced else stripped), ""
    else:
        return None
    return _reply_of_call(call, thought) if call is not None else None


def _reply_of_call(call: dict[str, Any], thought: str) -> Reply | None:
    """The reply of a call: OpenAI's message, its `function`, a name and arguments, or `action` and `action_input`."""
    calls = call.get("tool_calls")
    if isinstance(calls, list) and calls and isinstance(calls[0], dict):
        call, thought = calls[0], _text(call.get("content"), thought)
    inner = next((call[key] for key in ("function", "function_call", "action") if key in call), None)
    if isinstance(inner, dict):
        thought, call = _text(call.get("thought"), thought), inner
    name = next((call[key] for key in ("name", "function_name", "action") if key in call), None)
    if not isinstance(name, str):
        return None
    arguments: Any = next((call[key] for key in _ARGUMENTS if key in call), {})
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    parsed = json_object(raw) if isinstance(arguments, str) else arguments
    arguments = parsed if isinstance(parsed, dict) else None
    thought = _text(call.get("thought"), thought)
    if "action_input" in call:
        return Reply(_first_line(name), thought, raw, arguments, "react")
    return Reply(name.strip(), thought, raw, arguments, "tool_call")


def _text(value: object, default: str) -> str:
    return value if isinstance(value, str) and value else default


def json_object(text: str, prefix: bool = False) -> dict[str, Any] | None:
    """Return the JSON object that a text is (with `prefix`, begins with); None if it is none, or is not strict JSON."""
    if _too_deep(text):
        return None
    try:
        value = _DECODER.raw_decode(text)[0] if prefix else _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _json_error(text: str) -> str:
    """Why a text is not JSON, to be appended; empty if it is JSON but no object."""
    if _too_deep(text):
        return f": it nests deeper than {_MAX_DEPTH}"
    try:
        _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        return f": {error}"
    return ""


def _too_deep(text: str) -> bool:
    """Whether brackets, including those in strings, nest deeper than `_MAX_DEPTH`."""
    if text.count("{") + text.count("[") <= _MAX_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKET.findall(text):
        depth += 1 if bracket in "{[" else -1
        if depth > _MAX_DEPTH:
            return True
    return False


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is beyond a float")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_BRACKET = re.compile(r"[][{}]")
_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)
