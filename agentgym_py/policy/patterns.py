"""Patterns in a stranger's settings of adapters, which name layers: none of them takes minutes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from agentgym_py.errors import PolicyError

_SECONDS = 20.0
_SLOW = re.compile(r"[*+?{|]")
"""A pattern without repetitions and alternatives takes no time."""
_FORMS = ("%s", r"(.*\.)?(%s)$", r"(^|.*\.)%s($|\..*)", r"(?:^|.*?\.)%s\.(?P<idx>\d+)\.")
"""How PEFT matches a pattern with the name of a layer."""
_PROGRAM = """
import contextlib, json, re, sys
patterns, names = json.load(sys.stdin)
for pattern in patterns:
    with contextlib.suppress(Exception):
        for name in names:
            re.match(pattern, name), re.fullmatch(pattern, name)
"""


def require_quick_patterns(settings: Any, names: Sequence[str]) -> None:
    """Raise PolicyError if a pattern of PEFT settings takes more than 20 s for the names of a model's layers.

    They are matched in a process that can be ended: Python's own matching cannot be.
    """
    patterns = [form % text for text in _texts(vars(settings)) if _SLOW.search(text) for form in _FORMS]
    if not patterns:
        return
    try:
        subprocess.run(  # noqa: S603  # a fixed program
            [sys.executable, "-I", "-c", _PROGRAM], input=json.dumps([patterns, list(names)]).encode(),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise PolicyError(f"their patterns take more than {_SECONDS:g} s") from error


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, and the keys of its mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from _texts(item)
