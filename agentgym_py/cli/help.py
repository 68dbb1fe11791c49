"""The help of a command: the common options, or all of them."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from agentgym_py.cli.examples import IN_HELP, examples_of
from agentgym_py.cli.parser import HELP_ALL, Option, Parser
from agentgym_py.cli.values import is_mapping_type, metavar_of

EXAMPLES_TITLE = "Examples:"
_COLUMN = 26
"""Column at which explanations begin."""
_PLACEHOLDERS = {
    "out": "PATH", "export": "FILE", "judged": "FILE", "resume": "DIR", "manifest": "DIR", "reward_model": "DIR",
    "model": "NAME", "base": "NAME", "agent": "NAME", "device": "NAME", "attn_implementation": "NAME",
    "base_url": "URL", "task": "ID", "host": "ADDRESS", "split": "train|valid|test", "preset": "default|smoke",
    "few_shot": "FILE", "record": "FILE", "system_prompt": "TEXT", "prompt_template": "TEXT", "push": "OWNER/NAME",
    "lora_target_modules": "NAMES", "levels": "NAME,...", "feedback": "FILE", "folder": "DIR",
    "until_decided": "FOLDER", "estimators": "NAME,...", "report": "FILE", "reference": "NAME",
    "constraint": "COST<=LIMIT", "evals": "FOLDER,...", "files": "FILE,...", "answers": "FILE",
    "answer": "FILE.py:NAME", "program": "FILE.py:NAME", "step_kind": "FILE.py:NAME", "rubric": "TEXT",
    "request": "TEXT", "prm": "DIR", "teacher": "NAME",
}  # fmt: skip
"""Placeholders for the values of texts that say more than the option's name does."""


def help_text(parser: Parser, everything: bool) -> str:
    """Return the help of a command: its common options, or all with `everything`."""
    width = max(60, shutil.get_terminal_size().columns - 2)
    parts = [f"usage: {parser.usage}", textwrap.fill(parser.about, width)]
    if parser.commands:
        parts.append(f"`{parser.prog} COMMAND --help` shows a command's options.")
        for title, names in (parser.command_groups or {"Commands": list(parser.commands)}).items():
            parts.append(f"{title}:\n{format_rows({name: parser.commands[name].about for name in names}, width)}")
        return "\n\n".join([*parts, *_examples(parser, everything)]) + "\n"
    if parser.positionals:
        parts.append("Arguments:\n" + format_rows({str(p.metavar): p.help for p in parser.positionals}, width))
    options = [option for option in parser.options.values() if everything or option.basic]
    groups = dict.fromkeys(option.group for option in options)
    for group in groups:
        texts = {_spelling(option): _explanation(option) for option in options if option.group == group}
        parts.append(f"{group or 'Options'}:\n{format_rows(texts, width)}")
    if hidden := len(parser.options) - len(options):
        about = f"`{parser.prog} {HELP_ALL}` shows {hidden} more option{'s' * (hidden > 1)}.{_trainer_hint(parser)}"
        parts.append(textwrap.fill(about, width, break_on_hyphens=False))
    return "\n\n".join(part for part in [*parts, *_examples(parser, everything)] if part) + "\n"


def _examples(parser: Parser, everything: bool) -> list[str]:
    """Return the section of examples, if the command has any."""
    examples = examples_of(parser.prog.removeprefix("agentgym").strip())
    lines = [f"  # {what}\n  {line}" for what, line in (examples if everything else examples[:IN_HELP])]
    return ["\n".join([EXAMPLES_TITLE, *lines])] if lines else []


def _trainer_hint(parser: Parser) -> str:
    if "trainer.name" not in parser.options:
        return ""
    return f" `agentgym trainers show {parser.options['trainer.name'].default}` explains those of the trainer."


def _spelling(option: Option) -> str:
    if option.hint is bool and option.default is False:
        return option.flag
    if is_mapping_type(option.hint):
        return f"{option.flag}.NAME VALUE"
    name = option.name.rpartition(".")[2]
    return f"{option.flag} {option.metavar or _PLACEHOLDERS.get(name) or metavar_of(option.hint, name)}"


def _explanation(option: Option) -> str:
    default = option.default
    if default in (None, "", [], {}) or default is False:
        return option.help
    return f"{option.help} (default: {format_default(default)})".lstrip()


def format_default(value: Any) -> str:
    """Return a default as it is typed."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {format_default(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ",".join(map(format_default, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def format_rows(texts: Mapping[str, str], width: int) -> str:
    """Return names beside their wrapped explanations."""
    return "\n".join(line for name, text in texts.items() for line in _format_row(name, text, width))


def _format_row(name: str, text: str, width: int) -> Iterable[str]:
    """Yield the lines of a name and its explanation, which begins on its own line if the name is long."""
    lines = textwrap.wrap(text, width - _COLUMN, break_long_words=False, break_on_hyphens=False) or [""]
    first = f"  {name}"
    if len(first) > _COLUMN - 2:
        yield first
    else:
        yield f"{first:<{_COLUMN}}{lines.pop(0)}".rstrip()
    yield from (" " * _COLUMN + line for line in lines if line)
