"""Read chat data: messages, ShareGPT, Alpaca, prompt and completion, preferences, KTO.

A turn is `{"role", "content"}` or `{"from", "value"}`, in any of these formats. The system's first text is the rules,
texts of users and tools are observations, and the assistant's are replies. Null counts as a missing key.

- A reply in a prompt, or with `weight` 0 or `loss` false, is not trained on. Of a preference the chosen episode has
  success and reward 1.0, the rejected one neither; a label of KTO says so in any format; else `outcome` says it.
- Reasoning (`reasoning_content`, `reasoning` or `thinking`) becomes `<think>`, a tool call `<tool_call>`; of images and
  audio there is an error.
- What opens alike is of one task, so that preference pairs can be made of it. A row that is a preference is a task of
  its own, so that it stays this pair.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentgym_py.env.actions import json_object
from agentgym_py.errors import DataError
from agentgym_py.trajectory.formats import agenttraj
from agentgym_py.trajectory.formats.foreign import Conversation, ToolCall, reply_text
from agentgym_py.trajectory.formats.rows import Row
from agentgym_py.trajectory.json_values import quote
from agentgym_py.trajectory.preferences import opening_key
from agentgym_py.trajectory.types import Trajectory

AGENT = "chat"
"""`provenance.agent` and `kind` of such an episode."""
_RULES = ("system", "developer")
_REPLIES = ("assistant", "gpt", "chatgpt", "bing", "bard", "model", "function_call")
_OBSERVATIONS = ("user", "human", "tool", "function", "ipython", "observation", "environment")
_CALL = "function_call"
"""Role of a turn whose text is the JSON of a call, and the old key of one."""
_REASONING = ("reasoning_content", "reasoning", "thinking")
"""Keys of a reply's reasoning: of DeepSeek and older vLLM, of newer vLLM and OpenRouter, of gpt-oss and Ollama."""
_PROMPTS = ("prompt", "instruction", "conversations", "messages")
"""Keys of a preference's prompt."""
_SPEAKERS = {"Human": "user", "Assistant": "assistant"}
_SPEAKER = re.compile(r"\n\n(Human|Assistant):(?: |(?=\n)|$)")
"""What begins a turn in a text of HH-RLHF."""
Turn = tuple[str, Mapping[str, Any]]
"""A place, for error messages, and a turn."""


class EqualSidesError(DataError):
    """A row of preferences whose sides are equal: nothing can be learned from it."""


def _messages(row: Row, name: str) -> list[Trajectory]:
    return [_episode([*_system(row), *_listed(row, "messages")], _labelled(row), name)]


def _sharegpt(row: Row, name: str) -> list[Trajectory]:
    key = "conversation" if _has(row, "conversation") else "conversations"
    return [_episode([*_system(row), *_listed(row, key)], _labelled(row), name)]


def _alpaca(row: Row, name: str) -> list[Trajectory]:
    return [_episode([*_instruction(row), _assistant(row, "output")], _labelled(row), name)]


def _prompt_completion(row: Row, name: str) -> list[Trajectory]:
    return [_episode([*_prompt(row), *_answer(row, "completion")], _labelled(row), name)]


def _kto(row: Row, name: str) -> list[Trajectory]:
    if not isinstance(row.get("label"), bool):
        raise DataError(f"label: expected true or false, found {quote(row.get('label'))}")
    return _prompt_completion(row, name)


def _labelled(row: Row) -> Row:
    """The row with the outcome that a label of KTO says: `label`, or `kto_tag` of LLaMA-Factory."""
    label = next((row[key] for key in ("label", "kto_tag") if isinstance(row.get(key), bool)), None)
    if label is None:
        return row
    outcome = {key: row[key] for key in ("success", "reward") if _has(row, key)}
    return {**row, "success": label, "reward": float(label), **outcome}


def _preferences(row: Row, name: str) -> list[Trajectory]:
    if _is_agenttraj(row):
        pair = agenttraj.pair_from_row(row)
        return _pair(pair.chosen, pair.rejected, name)
    chosen, rejected = (_side(row, key) for key in ("chosen", "rejected"))
    if _is_whole(row):
        chosen, rejected = ([*_system(row), *side] for side in _without_shared_replies(chosen, rejected))
    else:
        prompt = _prompt(row)
        repeated = prompt[len(_system(row)) :]
        chosen, rejected = ([*prompt, *_without_prompt(side, repeated)] for side in (chosen, rejected))
    id = _id(row, name)
    return _pair(
        _episode(chosen, {"reward": 1.0}, f"{id}/chosen"), _episode(rejected, {"reward": 0.0}, f"{id}/rejected"), name
    )


def _pair(chosen: Trajectory, rejected: Trajectory, name: str) -> list[Trajectory]:
    """Return both sides as attempts at a task of their own, whose id no other row has; `name` is that of the row."""
    sides = [[(step.observation, step.reply) for step in side.steps] for side in (chosen, rejected)]
    if sides[0] == sides[1]:
        raise EqualSidesError("chosen and rejected are the same")
    for side, trajectory in (("chosen", chosen), ("rejected", rejected)):
        if not any(step.trained for step in trajectory.steps):
            raise DataError(f"{side}: no reply of its own")
    if opening_key(chosen) != opening_key(rejected):
        raise DataError("chosen and rejected have different texts before their first reply")
    digest = hashlib.sha256(json.dumps([name, *sides]).encode()).hexdigest()[:16]
    return [
        replace(side, provenance=replace(side.provenance, task_id=f"{side.task_id}/{digest}"))
        for side in (chosen, rejected)
    ]


PARSERS: Mapping[str, Callable[[Row, str], Sequence[Trajectory]]] = {
    "messages": _messages, "sharegpt": _sharegpt, "alpaca": _alpaca, "prompt_completion": _prompt_completion,
    "preferences": _preferences, "kto": _kto,
}  # fmt: skip
"""Parser of a row of each format; the second argument is the id of a row that has none."""


def format_of(keys: set[str]) -> str | None:
    """Return the format of a row with these keys; None if it is none of these."""
    signs = {
        "preferences": {"chosen", "rejected"}, "kto": {"prompt", "completion", "label"},
        "prompt_completion": {"prompt", "completion"}, "messages": {"messages"}, "alpaca": {"instruction", "output"},
    }  # fmt: skip
    if keys & {"conversations", "conversation"} and not signs["preferences"] <= keys:
        return "sharegpt"
    return next((name for name, needed in signs.items() if needed <= keys), None)


# ------------------------------------------------------------------------------------------------------- keys of a row


def _has(row: Mapping[str, Any], key: str) -> bool:
    return row.get(key) is not None


def _require(row: Mapping[str, Any], key: str) -> Any:
    if not _has(row, key):
        raise DataError(f"missing key {key!r}")
    return row[key]


def _string(row: Mapping[str, Any], key: str) -> str:
    value = _require(row, key)
    if not isinstance(value, str):
        raise DataError(f"{key}: expected a string, found {quote(value)}")
    return value


def _listed(row: Row, key: str) -> list[Turn]:
    """The turns in a list, or the only one, of a key."""
    turns = _require(row, key)
    turns = [turns] if isinstance(turns, dict) else turns
    if not isinstance(turns, list):
        raise DataError(f"{key}: expected a list, found {quote(turns)}")
    return [(f"{key}[{i}]", turn) for i, turn in enumerate(turns)]


def _system(row: Row) -> list[Turn]:
    return [("system", {"role": "system", "content": _string(row, "system")})] if row.get("system") else []


def _instruction(row: Row) -> list[Turn]:
    """The turns before the output of Alpaca's row: `system`, `history`, `instruction` with `input`."""
    turns = _system(row)
    history = row.get("history") or []
    if not isinstance(history, list):
        raise DataError(f"history: expected a list, found {quote(history)}")
    for i, said in enumerate(history):
        if not (isinstance(said, list) and len(said) == 2 and all(isinstance(text, str) for text in said)):
            raise DataError(f"history[{i}]: expected two strings, found {quote(said)}")
        roles = zip(("user", "assistant"), said, strict=True)
        turns += [(f"history[{i}]", {"role": role, "content": text}) for role, text in roles]
    text = _string(row, "instruction")
    if row.get("input"):
        text = f"{text}\n\n{_string(row, 'input')}"
    return [*turns, ("instruction", {"role": "user", "content": text})]


def _assistant(row: Row, key: str) -> Turn:
    return key, {"role": "assistant", "content": _string(row, key)}


def _prompt(row: Row) -> list[Turn]:
    """The turns of a prompt, whose replies are not trained on."""
    if _has(row, "prompt"):
        turns = [*_system(row), *_texts(row, "prompt", "user")]
    elif _has(row, "instruction"):
        turns = _instruction(row)
    else:
        key = next((key for key in ("conversations", "messages") if _has(row, key)), "prompt")
        turns = [*_system(row), *_listed(row, key)]
    return _untrained(turns)


def _untrained(turns: Iterable[Turn]) -> list[Turn]:
    return [(where, {**turn, "weight": 0} if isinstance(turn, dict) else turn) for where, turn in turns]


def _texts(row: Row, key: str, role: str) -> list[Turn]:
    """The turns of a key that holds the text of a role, a turn or a list of turns."""
    found = _require(row, key)
    if isinstance(found, str):
        return [(key, {"role": role, "content": found})]
    if not isinstance(found, list | dict):
        raise DataError(f"{key}: expected text or a list of turns, found {quote(found)}")
    return _listed(row, key)


def _answer(row: Row, key: str) -> list[Turn]:
    return _texts(row, key, "assistant")


def _side(row: Row, key: str) -> list[Turn]:
    """A side of a preference; without a prompt beside it, a text is a dialogue of the form of Anthropic's HH-RLHF."""
    return _dialogue(_string(row, key), key) if _is_dialogue(row) else _answer(row, key)


def _is_dialogue(row: Row) -> bool:
    return isinstance(row.get("chosen"), str) and not any(_has(row, key) for key in _PROMPTS)


def _dialogue(text: str, key: str) -> list[Turn]:
    r"""The turns of a text such as `\n\nHuman: Hi.\n\nAssistant: Hello.`."""
    before, *parts = _SPEAKER.split(text)
    speakers = parts[::2]
    if before or speakers[:1] != ["Human"] or speakers[-1] != "Assistant":
        raise DataError(
            f"missing key 'prompt', and {key} is no dialogue '\\n\\nHuman: …\\n\\nAssistant: …' that ends with the "
            f"assistant: {quote(text)}"
        )
    turns = zip(speakers, parts[1::2], strict=True)
    return [(f"{key}[{i}]", {"role": _SPEAKERS[speaker], "content": said}) for i, (speaker, said) in enumerate(turns)]


def _is_whole(row: Row) -> bool:
    """Whether `chosen` and `rejected` are whole conversations, which repeat the prompt."""
    if _is_dialogue(row):
        return True
    chosen = row.get("chosen")
    if not isinstance(chosen, list) or not chosen or not isinstance(chosen[0], dict):
        return False
    return _role(chosen[0]) not in _REPLIES and not isinstance(row.get("prompt"), list)


def _without_prompt(side: list[Turn], prompt: list[Turn]) -> list[Turn]:
    """A side of a preference without the prompt, if it repeats it."""
    begin = [turn for _, turn in _untrained(side[: len(prompt)])]
    return side[len(prompt) :] if begin == [turn for _, turn in prompt] else side


def _without_shared_replies(chosen: list[Turn], rejected: list[Turn]) -> tuple[list[Turn], list[Turn]]:
    """Two conversations; the turns that both begin with are not trained on."""
    pairs = zip(chosen, rejected, strict=False)
    shared = next((i for i, (one, other) in enumerate(pairs) if one[1] != other[1]), min(len(chosen), len(rejected)))
    prompt = _untrained(chosen[:shared])
    return [*prompt, *chosen[shared:]], [*prompt, *rejected[shared:]]


def _is_agenttraj(row: Row) -> bool:
    """Whether a preference is AgentTraj's, whose prompt has three turns, the second of which is "Ok."."""
    prompt = row.get("prompt")
    if not isinstance(prompt, list) or len(prompt) != 3:
        return False
    return all(isinstance(turn, dict) and "loss" in turn for turn in prompt)


# --------------------------------------------------------------------------------------------------------------- turns


def _episode(turns: Iterable[Turn], row: Row, name: str) -> Trajectory:
    conversation = Conversation()
    for where, turn in turns:
        try:
            _add(conversation, turn)
        except DataError as error:
            raise DataError(f"{where}{error}") from error
    if not conversation.steps:
        raise DataError("no turn of the assistant")
    return conversation.episode(_id(row, name), row, AGENT, AGENT)


def _id(row: Mapping[str, Any], name: str) -> str:
    id = row.get("id")
    return str(id) if isinstance(id, str | int) and not isinstance(id, bool) and id != "" else name


def _add(conversation: Conversation, turn: Mapping[str, Any]) -> None:
    """Add a turn; an error begins with its key."""
    if not isinstance(turn, dict):
        raise DataError(f": expected an object, found {quote(turn)}")
    role = _role(turn)
    if role in _RULES:
        conversation.add_rules(_content(turn))
    elif role in _OBSERVATIONS:
        conversation.add_observation(_content(turn))
    elif role in _REPLIES:
        conversation.add_reply(_reply(turn, role), trained=_is_trained(turn))
    else:
        known = ", ".join((*_RULES, *_OBSERVATIONS, *_REPLIES))
        raise DataError(f".{_key(turn, 'role', 'from')}: {quote(role)} is none of {known}")


def _key(turn: Mapping[str, Any], name: str, other: str) -> str:
    """The key of OpenAI's form or of ShareGPT's."""
    return other if other in turn and not _has(turn, name) else name


def _role(turn: Mapping[str, Any]) -> Any:
    return turn.get(_key(turn, "role", "from"))


def _reply(turn: Mapping[str, Any], role: str) -> str:
    if role == _CALL:
        call = json_object(_content(turn))
        if call is None:
            raise DataError(f".{_key(turn, 'content', 'value')}: expected a JSON object, found {quote(_content(turn))}")
        return reply_text("", calls=[_call(call, "")])
    calls = [_call(call, f".tool_calls[{i}]") for i, call in enumerate(_calls(turn))]
    if _has(turn, _CALL):
        calls.append(_call(turn[_CALL], f".{_CALL}"))
    key = next((key for key in _REASONING if turn.get(key) is not None), _REASONING[0])
    if not isinstance(reasoning := turn.get(key), str | None):
        raise DataError(f".{key}: expected a string, found {quote(reasoning)}")
    return reply_text(_content(turn, empty=bool(calls)), reasoning or "", calls)


def _calls(turn: Mapping[str, Any]) -> list[Any]:
    calls = turn.get("tool_calls") or []
    if not isinstance(calls, list):
        raise DataError(f".tool_calls: expected a list, found {quote(calls)}")
    return calls


def _call(call: Any, where: str) -> ToolCall:
    inner = call.get("function", call) if isinstance(call, dict) else call
    name = inner.get("name") if isinstance(inner, dict) else None
    if not isinstance(name, str):
        raise DataError(f"{where}: expected a call with a name, found {quote(call)}")
    arguments = inner.get("arguments")
    try:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    except RecursionError as error:
        raise DataError(f"{where}: nested too deeply") from error
    if json_object(text) is None:
        raise DataError(f"{where}: the arguments are no JSON object: {quote(arguments)}")
    return ToolCall(name, text)


def _content(turn: Mapping[str, Any], empty: bool = False) -> str:
    """The text of a turn, which may be missing if `empty`."""
    key = _key(turn, "content", "value")
    content = turn.get(key)
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content:
        return "\n".join(_part(part, f".{key}[{i}]") for i, part in enumerate(content))
    if content or not empty:
        raise DataError(f".{key}: expected a string, found {quote(content)}")
    return ""


def _part(part: Any, where: str) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    if not isinstance(text, str) or (isinstance(part, dict) and part.get("type", "text") != "text"):
        kind = part.get("type") if isinstance(part, dict) else part
        raise DataError(f"{where}: only text can be read, found {quote(kind)}")
    return text


def _is_trained(turn: Mapping[str, Any]) -> bool:
    weight, loss = turn.get("weight"), turn.get("loss")
    if weight not in (None, 0, 1):
        raise DataError(f".weight: expected 0 or 1, found {quote(weight)}")
    if not isinstance(loss, bool | None):
        raise DataError(f".loss: expected true or false, found {quote(loss)}")
    return weight != 0 and loss is not False
