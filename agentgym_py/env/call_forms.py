"""The text of an action as the call of a tool, found by the forms of `TextEnv.call_forms`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from string import Formatter
from typing import Any


def call_of_text(
    text: str, forms: Mapping[str, str], tools: Sequence[Mapping[str, Any]]
) -> tuple[str, dict[str, Any]] | None:
    """Return the name and the arguments of the call that an action's text stands for; None if it stands for none.

    Only tools in `tools` are called. Of several forms that match, the one with the most fixed characters counts. A
    value that the schema does not allow, such as another word than those of an `enum`, does not match.
    """
    functions = {tool["function"]["name"]: tool["function"] for tool in tools}
    for name, form in sorted(forms.items(), key=lambda item: -_fixed(item[1])):
        match = _pattern(form).fullmatch(text)
        if match and name in functions:
            schemas = functions[name]["parameters"]["properties"]
            arguments = {key: _value(value, schemas[key]) for key, value in match.groupdict().items()}
            if None not in arguments.values() and form.format(**arguments) == text:
                return name, arguments
    return None


def _value(text: str, schema: Mapping[str, Any]) -> str | int | None:
    """Return a value of the schema's type; None if the text is none."""
    if schema.get("type") == "integer":
        return int(text) if text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS else None
    return text if text in schema.get("enum", (text,)) else None


@lru_cache(maxsize=1024)
def _pattern(form: str) -> re.Pattern[str]:
    parts = Formatter().parse(form)
    return re.compile("".join(re.escape(fixed) + (f"(?P<{key}>.+?)" if key else "") for fixed, key, *_ in parts), re.S)


@lru_cache(maxsize=1024)
def _fixed(form: str) -> int:
    """Number of characters that are no value."""
    return sum(len(fixed) for fixed, *_ in Formatter().parse(form))


_MAX_DIGITS = 19
"""A number with as many digits does not match: no world counts so far, and `int` refuses the longest."""
