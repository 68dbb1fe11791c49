"""Values as JSON and YAML: texts that may come from a stranger, and texts of our own."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

MOST_VALUES = 10_000_000
"""Largest number of values of a JSON text: `[],` takes 3 bytes of a file and 80 of the memory."""
_STRING = r'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
"""A string of JSON, or the rest of the text if it has no end, so that no sign is looked at twice."""
_MOST_YAML = 1 << 20
"""Longest YAML text in characters, of which Python parses some 100,000 a second."""
_MOST_NODES = 1_000_000
"""Largest number of values of a YAML file, with its aliases written out."""
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MOST_DIGITS = 100
"""Longest number of a YAML text in characters; `1:1:1` is one, too, and takes PyYAML the square of its length."""
RENAMED = {"tries": "attempts", "samples": "attempts", "fork_tries": "fork_attempts", "temperatures": "temperature",
           "explore_max_steps": "horizon"}  # fmt: skip
"""Today's names of settings in files of earlier versions."""


def parse_json(text: str | bytes, most: int = MOST_VALUES, **options: Any) -> Any:
    """Parse JSON that may come from a stranger; `options` go to `json.loads`.

    Raises:
        ValueError: it is not JSON, is nested too deeply, or has more than `most` values.
    """
    require_few_values(text, most)
    try:
        return json.loads(text, **options)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def require_few_values(text: str | bytes, most: int = MOST_VALUES) -> None:
    """Raise ValueError if a JSON text has more than `most` values; signs within its strings are none."""
    if len(text) <= most or _count_signs(text) <= most:
        return
    outside = re.sub(_STRING, "", text) if isinstance(text, str) else re.sub(_STRING.encode(), b"", text)
    if _count_signs(outside) > most:
        raise ValueError(f"it has more than {most} values")


def _count_signs(text: Any) -> int:
    return sum(map(text.count, ",[{" if isinstance(text, str) else (b",", b"[", b"{")))


def parse_yaml(text: str, loader: Any = None) -> Any:
    """Parse YAML with a safe loader.

    Raises:
        ValueError: it is not YAML, is too long, holds itself, is nested too deeply, or its aliases repeat too much.
    """
    import yaml

    if len(text) > _MOST_YAML:
        raise ValueError(f"it has more than {_MOST_YAML >> 20} MiB of YAML")
    try:
        reader = (loader or yaml.SafeLoader)(text)
    except yaml.YAMLError as error:  # a control character
        raise ValueError(_yaml_problem(error)) from error
    try:
        node = reader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > _MOST_NODES:
            raise ValueError(f"its aliases stand for more than {_MOST_NODES} values")
        return reader.construct_document(node)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except yaml.YAMLError as error:
        raise ValueError(_yaml_problem(error)) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:  # a tag that does not fit its text
        raise ValueError(f"a value does not fit its tag: {error!r}") from error
    finally:
        reader.dispose()


def _yaml_problem(error: Exception) -> str:
    """Return what PyYAML found, with its line if it names one; its text would name the place within a `<string>`."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or not problem:
        return " ".join(str(error).replace('"<unicode string>", ', "").split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def _size(node: Any, sizes: dict[int, int | None]) -> int:
    """Return the number of values of a YAML node with its aliases written out."""
    if id(node) in sizes:
        if (known := sizes[id(node)]) is None:
            raise ValueError("a value holds itself")
        return known
    sizes[id(node)] = None
    if node.tag in _NUMBERS and isinstance(node.value, str) and len(node.value) > _MOST_DIGITS:
        raise ValueError(f"line {node.start_mark.line + 1}: a number of more than {_MOST_DIGITS} characters")
    inner = node.value if isinstance(node.value, list) else []
    parts = [part for item in inner for part in (item if isinstance(item, tuple) else (item,))]
    sizes[id(node)] = size = 1 + sum(_size(part, sizes) for part in parts)
    return size


def json_safe(value: Any) -> Any:
    """Replace nan and infinities, which JSON lacks, by None, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): json_safe(item) for key, item in value.items()}
    return [json_safe(item) for item in value] if isinstance(value, list | tuple) else value


def canonical_json(kwargs: Mapping[str, Any]) -> str:
    """Return the arguments of an environment as text; equal for equal arguments."""
    return json.dumps(dict(kwargs), sort_keys=True, default=str)


def with_current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, maybe of an earlier version, by today's names."""
    old = {RENAMED[name]: value for name, value in settings.items() if name in RENAMED and value is not None}
    return {name: value for name, value in settings.items() if name not in RENAMED} | old
