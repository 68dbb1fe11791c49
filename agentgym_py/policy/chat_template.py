"""The settings of a chat template, written into the template itself, so that a checkpoint keeps them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal, get_args

from agentgym_py.env.thoughts import thought_ends
from agentgym_py.errors import ConfigError, TemplateError

Thinking = Literal["auto", "on", "off"]
"""Whether a model thinks before it acts: as its template has it by default, or set by `enable_thinking`."""
TODAY = date(2024, 7, 26)
"""The date in every template that writes today's, because prompts must not change at midnight; Llama's default."""
_NOW = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")
_MESSAGES = "messages"
"""Name of the setting that holds the messages before a conversation."""
_SETTINGS = re.compile(r"\A\{#- agentgym settings (\{.*?\}) -#\}\n")


def require_thinking(thinking: str) -> None:
    """Raise ConfigError if `thinking` is no such setting."""
    if thinking not in get_args(Thinking):
        raise ConfigError(f"thinking must be one of {', '.join(get_args(Thinking))}, got {thinking!r}")


def with_settings(
    template: str,
    thinking: Thinking,
    kwargs: Mapping[str, Any],
    system_prompt: str | None = None,
    few_shot: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return a template with these settings in place of those of an earlier call; none of them keep the earlier ones.

    `system_prompt` and the messages `few_shot` stand before each conversation; a system message of its own replaces the
    first.

    Raises:
        TemplateError: the template does not think, or has no `enable_thinking` to turn it off; a value is not JSON.
    """
    before = _SETTINGS.match(template)
    stored_values = _stored(before)
    template = _without_settings(template, before, len(stored_values))
    values = stored_values | dict(kwargs)
    if thinking != "auto":
        if "enable_thinking" not in template and (thinking == "off" or not thought_ends(template)):
            needed = "`enable_thinking`" + (" or `</think>`" if thinking == "on" else "")
            raise TemplateError(f"thinking {thinking} needs a chat template with {needed}, and it has none")
        values["enable_thinking"] = thinking == "on"
    prompting = dict(values.pop(_MESSAGES, {}))
    prompting |= {"system_prompt": system_prompt} if system_prompt is not None else {}
    prompting |= {"few_shot": list(few_shot)} if few_shot else {}
    template = _NOW.sub(lambda call: json.dumps(TODAY.strftime(call[2])), template)
    if not values and not prompting:
        return template
    if wrong := [name for name in values if not name.isidentifier() or name == _MESSAGES]:
        raise TemplateError(f"chat_template_kwargs are names of the template's variables, got {wrong[0]!r}")
    try:
        values = json.loads(json.dumps(values, allow_nan=False))
        lines = [f"{{%- set {name} = {_literal(value)} -%}}\n" for name, value in values.items()]
        lines += [_leading_messages(**prompting)] if prompting else []
        values |= {_MESSAGES: prompting} if prompting else {}
        stored = json.dumps(values).replace("#}", "#\\u007d")  # must not end the comment
        return f"{{#- agentgym settings {stored} -#}}\n{''.join(lines)}{template}"
    except (TypeError, ValueError) as error:
        raise TemplateError(f"chat_template_kwargs must be JSON: {error}") from error


def _stored(line: re.Match[str] | None) -> dict[str, Any]:
    """Return the settings of a template's first line; TemplateError if a stranger has written something else there."""
    try:
        values: dict[str, Any] = json.loads(line[1]) if line else {}
        return values | {_MESSAGES: dict(values[_MESSAGES])} if _MESSAGES in values else values
    except (ValueError, TypeError, RecursionError) as error:
        raise TemplateError(f"the chat template's line `agentgym settings` is damaged: {error}") from error


def _without_settings(template: str, before: re.Match[str] | None, number: int) -> str:
    """Return a template without its settings: a comment and a line per setting. Lines after these are its own."""
    if before is None:
        return template
    lines = re.compile(rf"(?:\{{%- set .*? -%\}}\n){{0,{number}}}").match(template, before.end())
    return template[lines.end() :] if lines else template


def _leading_messages(system_prompt: str = "", few_shot: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the line of a template that puts messages before the conversation."""
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    own = f"messages[:1] + {_literal(few_shot)} + messages[1:]"
    leading = f"{_literal([*system, *few_shot])} + messages"
    return f"{{%- set messages = {own} if messages[0]['role'] == 'system' else {leading} -%}}\n"


def prompting_of(template: str) -> dict[str, Any]:
    """Return the `system_prompt` and `few_shot` that `with_settings` has written into a template."""
    prompting = _stored(_SETTINGS.match(template)).get(_MESSAGES, {})
    return {name: value for name, value in prompting.items() if value}


def _literal(value: Any) -> str:
    """Write a value as Jinja does. A text, number or bool of JSON is one of Jinja's, too, and null is `none`."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(name)}: {_literal(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def thinking_of(template: str) -> Thinking:
    """Return the thinking that `with_settings` has written into a template."""
    enabled = _stored(_SETTINGS.match(template)).get("enable_thinking")
    return "auto" if enabled is None else "on" if enabled else "off"
