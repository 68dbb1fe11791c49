"""The help of a command: what most people set, or every option."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from agentgym_py.cli.parser import HELP_ALL, Option, Parser
from agentgym_py.cli.values import type_name

_COLUMN = 26
"""Where explanations begin."""


def help_text(parser: Parser, everything: bool) -> str:
    """The help of a command, without its rarer options unless `everything` is wanted."""
    width = max(60, shutil.get_terminal_size().columns - 2)
    parts = [f"usage: {parser.usage}", textwrap.fill(parser.about, width)]
    if parser.commands:
        about = f"  `{parser.prog} COMMAND --help` shows a command's options."
        parts.append(f"commands:\n{about}\n\n{rows({n: c.about for n, c in parser.commands.items()}, width)}")
        return "\n\n".join(parts) + "\n"
    if parser.positionals:
        parts.append("arguments:\n" + rows({str(each.metavar): each.help for each in parser.positionals}, width))
    shown = [option for option in parser.options.values() if everything or option.basic]
    groups = dict.fromkeys(option.group for option in shown)
    for group in groups:
        texts = {_spelling(option): _explanation(option) for option in shown if option.group == group}
        parts.append(f"{group or 'options'}:\n{rows(texts, width)}")
    if hidden := len(parser.options) - len(shown):
        parts.append(f"`{parser.prog} {HELP_ALL}` shows {hidden} more option{'s' * (hidden > 1)}.{_of_trainer(parser)}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _of_trainer(parser: Parser) -> str:
    if "trainer.name" not in parser.options:
        return ""
    return f" `agentgym trainers show {parser.options['trainer.name'].default}` explains the trainer's."


def _spelling(option: Option) -> str:
    if option.hint is bool and option.default is False:
        return option.flag
    return f"{option.flag} {option.metavar or type_name(option.hint, option.name.rpartition('.')[2])}"


def _explanation(option: Option) -> str:
    default = option.default
    if default in (None, "", [], {}) or default is False:
        return option.help
    return f"{option.help} (default: {shown(default)})".lstrip()


def shown(value: Any) -> str:
    """A default as one types it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(each)}" for key, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ",".join(map(shown, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def rows(texts: Mapping[str, str], width: int) -> str:
    """Names beside their explanations, wrapped."""
    return "\n".join(line for left, text in texts.items() for line in _row(left, text, width))


def _row(left: str, text: str, width: int) -> Iterable[str]:
    """A name and its explanation; the explanation begins on a line of its own when the name is long."""
    lines = textwrap.wrap(text, width - _COLUMN, break_long_words=False, break_on_hyphens=False) or [""]
    first = f"  {left}"
    if len(first) > _COLUMN - 2:
        yield first
    else:
        yield f"{first:<{_COLUMN}}{lines.pop(0)}".rstrip()
    yield from (" " * _COLUMN + line for line in lines if line)
