"""The one parser of agents' replies: ReAct text, an OpenAI-style tool call or the bare action; total over strings."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

# At the start of a line a label counts in any case; within a line only when capitalised and not in brackets, so that
# the bare action `search[action: figure]` stays whole.
_ACTION = re.compile(r"^[ \t]*action[ \t]*:", re.IGNORECASE | re.MULTILINE)
_ACTION_INLINE = re.compile(r"(?<![\w\[(\"'])A(?:ction|CTION)[ \t]*:")
_INPUT = re.compile(r"^[ \t]*action[ \t]+input[ \t]*:", re.IGNORECASE | re.MULTILINE)
_INPUT_INLINE = re.compile(r"(?<![\w\[(\"'])A(?:ction[ \t]+Input|CTION[ \t]+INPUT)[ \t]*:")
_THOUGHT = re.compile(r"\A\s*thought[ \t]*:", re.IGNORECASE)
_OBSERVATION = re.compile(r"^[ \t]*observation[ \t]*:", re.IGNORECASE | re.MULTILINE)
_TAG = re.compile(r"<tool_call>\s*(?=\{)")
_FENCED = re.compile(r"\A```(?:json)?\s*(\{.*\})\s*```\Z", re.DOTALL)
_ONE_LINE = re.compile(r"\s*(\w+)\s*(?:\(\s*(?:(\{.*\})\s*)?\)|(\{.*\}))\s*", re.DOTALL)
_BELOW = re.compile(r"\nAction Input: (?=\{)")
# What models write around a call beside its labels; read in worlds of tools only.
_BOLD = re.compile(r"^[ \t]*\*\*(thought|action|action input|observation)(?::\*\*|\*\*:)", re.IGNORECASE | re.MULTILINE)
_UNLABELLED = re.compile(r"^([ \t]*action[ \t]*:[ \t]*`?\w+`?)[ \t]*\n\s*(?=\{)", re.IGNORECASE | re.MULTILINE)
_QUOTED = re.compile(r"`(\w+)`")
_BEGUN = re.compile(r"\s*(\w+)\s*(?:\(\s*)?(?=\{)")
_CALLS = frozenset(("arguments", "parameters", "input", "function", "function_call", "tool_calls"))
_SHOWN = 80
_MAX_DEPTH = 100
"""JSON nested deeper is no JSON: far below the interpreter's limit, so that a reply reads the same on any stack."""


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
    calls: int = 1
    """How many calls stand in it, as `parse_tool_call` counts them; a reply may have only one."""

    @property
    def name(self) -> str:
        """The action's name: `search` in `search[red shoes]`, and in a call of the tool `search`."""
        return self.parts[0]

    @property
    def argument(self) -> str | None:
        """The action's argument as text; None if it has none.

        That is what stands in the brackets, or after `Action Input:`, or the values of a call, joined by commas.
        """
        return self.parts[1]

    @property
    def parts(self) -> tuple[str, str | None]:
        """Name and argument."""
        action, given = self.action, self.action_input
        if self.arguments is not None:
            given = ", ".join(map(str, self.arguments.values())) if self.arguments else None
        if given is None and action[-1:] != "]":
            return action, None
        name, bracket, rest = action.partition("[")
        if given is not None:  # brackets and an input: the input ends the argument
            return name, f"{rest}[{given}" if bracket else given
        return (name, rest[:-1]) if bracket else (action, None)

    @property
    def error(self) -> str:
        """Why its input cannot be read; empty if it can, or if there is none.

        The input of a tool call must be a JSON object, and what stands after `Action Input:` where it begins with `{`.
        """
        if self.calls > 1:
            return f"Only one call a turn is done, and this reply has {self.calls}: write the first of them alone."
        given = (self.action_input or "").strip()
        if self.arguments is not None or not given or (self.form != "tool_call" and given[0] != "{"):
            return ""
        shown = f"{given[:_SHOWN]!r}" + "…" * (len(given) > _SHOWN)
        what = f"The input of {self.action[:_SHOWN]!r}" if self.action else "A call"
        wanted = f'{what} must be one JSON object, such as {{"name": "value"}}'
        return f"{wanted}, not {shown}{_no_object(given)}."


def parse_reply(text: str) -> Reply:
    """Read a reply; never raises.

    A tool call wins over ReAct text, and ReAct text over the bare action. Of several actions the last one before an
    invented `Observation:` counts; an action is one line, an `Action Input:` may be several. Labels that begin a line
    win over those within one. A bare action may have its `Action Input:` on the next line: a tool call in two lines.
    JSON is strict: no NaN, no number beyond a float, no nesting deeper than 100. A call whose input should be a JSON
    object and is none says why in `Reply.error`; `TextEnv.step` takes it for a bad action.
    """
    if ":" not in text and "{" not in text:  # no label, no call: most replies of experts and samplers
        return Reply(text.strip())
    return _tool_call(text) or _react(text) or _bare(text)


def parse_tool_call(text: str) -> Reply:
    """Read a reply to a world of tools; never raises.

    As `parse_reply`, and a call may stand in one line: `name {"argument": 1}`, `name({"argument": 1})` or `name()`.
    Labels may be bold, a name and an input in backticks, the label `Action Input:` may be missing before a line that
    begins with `{`, and without labels a call may be a JSON list of one, or stand behind words.
    """
    if call := _ONE_LINE.fullmatch(text):
        return parse_reply(format_reply(call[1], "", call[2] or call[3] or "{}"))
    reply = parse_reply(_UNLABELLED.sub(r"\1\nAction Input: ", _BOLD.sub(r"\1:", text)))
    if reply.form == "tool_call":
        return replace(reply, calls=_count(text))
    if quoted := _QUOTED.fullmatch(reply.action):
        reply = replace(reply, action=quoted[1])
    if reply.action_input is not None:
        fenced = _FENCED.match(reply.action_input)
        return replace(reply, action_input=fenced[1], arguments=_json_object(fenced[1])) if fenced else reply
    if reply.form == "bare" and (found := _behind_words(text)):
        return found
    call = _ONE_LINE.fullmatch(reply.action)
    if call:
        return parse_reply(format_reply(call[1], reply.thought, call[2] or call[3] or "{}"))
    begun = _BEGUN.match(reply.action)
    if begun or reply.action.startswith("{"):  # a call whose JSON is broken
        raw = reply.action[begun.end() :] if begun else reply.action
        return replace(reply, action=begun[1] if begun else "", action_input=raw, arguments=_json_object(raw))
    return reply


parse_tool_call = parse_tool_call
"""The name of `parse_tool_call` before it had this one."""


def _behind_words(text: str) -> Reply | None:
    """The call of a JSON object, or of a list, that ends a reply."""
    body = text.strip().removeprefix("[TOOL_CALLS]").rstrip("` \n")
    begin = min((place for place in (body.find("{"), body.find("[{")) if place >= 0), default=-1)
    if begin < 0 or _too_deep(body):
        return None
    try:
        value = _DECODER.decode(body[begin:])
    except (ValueError, RecursionError):
        return None
    calls = value if isinstance(value, list) else [value]
    if not all(isinstance(call, dict) and _CALLS & call.keys() for call in calls):
        return None
    words = body[:begin].strip().removesuffix("```json").strip("` \n")
    found = _called(calls[0], _THOUGHT.sub("", words).strip())
    return replace(found, calls=len(calls)) if found else None


def _count(text: str) -> int:
    """How many calls a reply that begins with one has."""
    tags = len(_TAG.findall(text))
    listed = None if tags else (_json_object(text) or {}).get("tool_calls")
    return max(1, tags, sum(isinstance(call, dict) for call in listed) if isinstance(listed, list) else 0)


def from_keyboard(text: str, tools: Sequence[Mapping[str, Any]] | None) -> str:
    """Return what a person typed in the form that a world with these tools reads.

    A call of one of the tools in one line becomes an action with `Action Input:` below it.
    """
    if not tools:
        return text
    call = parse_tool_call(text)
    names = {tool.get("function", tool)["name"] for tool in tools}
    if call.action not in names or call.arguments is None or call.error:
        return text
    return format_reply(call.action, call.thought, call.action_input)


def to_keyboard(action: str) -> str:
    """Return an action as a person types it: a call in one line, without `Action Input:`."""
    return _BELOW.sub(" ", action)


def format_reply(action: str, thought: str = "", action_input: str | None = None) -> str:
    """The ReAct text of a reply.

    `parse_reply` gives its parts back when they are single stripped lines without `<tool_call>` in them, and without
    `Action Input:` in the action.
    """
    head = f"Thought: {thought}\n" if thought else ""
    tail = f"\nAction Input: {action_input}" if action_input is not None else ""
    return f"{head}Action: {action}{tail}"


def _bare(text: str) -> Reply:
    thought = _THOUGHT.match(text)
    if thought:
        return Reply("", thought=text[thought.end() :].strip())
    given = _INPUT.search(text)
    if given is None:
        return Reply(text.strip())
    raw = text[given.end() :].strip()
    return Reply(_first_line(text[: given.start()]), "", raw, _json_object(raw))


def _react(text: str) -> Reply | None:
    cut = _OBSERVATION.search(text)
    head = text[: cut.start()] if cut and _last_action(text[: cut.start()]) else text
    found = _last_action(head)
    if found is None:
        return None
    thought = _THOUGHT.sub("", head[: found.start()]).strip()
    rest = head[found.end() :]
    given = _INPUT.search(rest) or _INPUT_INLINE.search(rest)
    if given is None:
        return Reply(_first_line(rest), thought, form="react")
    raw = rest[given.end() :].strip()
    return Reply(_first_line(rest[: given.start()]), thought, raw, _json_object(raw), "react")


def _last_action(text: str) -> re.Match[str] | None:
    """The last label at the start of a line; the last one within a line where there is none."""
    for label in (_ACTION, _ACTION_INLINE):
        found = deque(label.finditer(text), maxlen=1)
        if found:
            return found.pop()
    return None


def _first_line(text: str) -> str:
    stripped = text.strip()
    return stripped.split("\n", 1)[0].strip() if stripped else ""


def _tool_call(text: str) -> Reply | None:
    stripped = text.strip()
    tag = _TAG.search(stripped)
    fenced = _FENCED.match(stripped)
    if tag:
        call, thought = _json_object(stripped[tag.end() :], whole=False), stripped[: tag.start()].strip()
    elif fenced or stripped.startswith("{"):
        call, thought = _json_object(fenced.group(1) if fenced else stripped), ""
    else:
        return None
    return _called(call, thought) if call is not None else None


def _called(call: dict[str, Any], thought: str) -> Reply | None:
    """The reply of a tool call: OpenAI's message, its `function` object, or the bare name and arguments."""
    calls = call.get("tool_calls")
    if isinstance(calls, list) and calls and isinstance(calls[0], dict):
        call, thought = calls[0], _text(call.get("content"), thought)
    inner = call.get("function", call.get("function_call"))
    if isinstance(inner, dict):
        call = inner
    name = call.get("name", call.get("function_name"))
    if not isinstance(name, str):
        return None
    given: object = next((call[key] for key in ("arguments", "parameters", "input") if key in call), {})
    return _call_reply(name, given, _text(call.get("thought"), thought))


def _text(value: object, default: str) -> str:
    return value if isinstance(value, str) and value else default


def _call_reply(name: str, arguments: object, thought: str) -> Reply:
    if isinstance(arguments, str):
        return Reply(name.strip(), thought, arguments, _json_object(arguments), "tool_call")
    if isinstance(arguments, dict):
        return Reply(name.strip(), thought, json.dumps(arguments, ensure_ascii=False), arguments, "tool_call")
    return Reply(name.strip(), thought, json.dumps(arguments, ensure_ascii=False), None, "tool_call")


def _json_object(text: str, whole: bool = True) -> dict[str, Any] | None:
    """The JSON object of a text; without `whole` the one that it begins with."""
    if _too_deep(text):
        return None
    try:
        value, end = _DECODER.raw_decode(text.lstrip() if whole else text)
    except (ValueError, RecursionError):
        return None
    if whole and end != len(text.strip()):
        return None
    return value if isinstance(value, dict) else None


def _no_object(text: str) -> str:
    """Why a text is no JSON, to be appended; nothing where it is some, but no object."""
    if _too_deep(text):
        return f": it nests deeper than {_MAX_DEPTH}"
    try:
        _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        return f": {error}"
    return ""


def _too_deep(text: str) -> bool:
    """Whether brackets, those within strings included, nest deeper than `_MAX_DEPTH`."""
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


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_BRACKET = re.compile(r"[][{}]")
_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
