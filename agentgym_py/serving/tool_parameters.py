"""The parameters of a tool as a Python signature has them: for frameworks that read tools from functions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from inspect import Parameter
from operator import or_
from typing import Any, Literal

from agentgym_py.errors import ConfigError

FAILED = "The environment has failed; this episode is over."
"""What a function of a tool returns after an infrastructure failure."""
_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "object": dict, "null": None}


def tool_parameters(tool: str, schema: Mapping[str, Any]) -> list[Parameter]:
    """Return keyword parameters with annotations for a tool's JSON schema; optional ones have the default None.

    Args:
        tool: The name of the tool.
        schema: Its `parameters`: the JSON schema of an object.

    Raises:
        ConfigError: Python has no such parameter.
    """
    required = schema.get("required", ())
    return [_parameter(tool, name, value, name in required) for name, value in schema.get("properties", {}).items()]


def _parameter(tool: str, name: str, schema: Mapping[str, Any], is_required: bool) -> Parameter:
    default = Parameter.empty if is_required else None
    try:
        return Parameter(name, Parameter.KEYWORD_ONLY, annotation=_annotation(schema), default=default)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the tool {tool!r} has the parameter {name!r}, which Python cannot have: {error}") from error


def _annotation(schema: Mapping[str, Any]) -> Any:
    """Return the Python type of a JSON schema; text if it names none."""
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if "anyOf" in schema:
        return reduce(or_, map(_annotation, schema["anyOf"]))
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        return reduce(or_, (_annotation({**schema, "type": name}) for name in kind))
    if kind == "array":
        return list[_annotation(schema["items"])] if "items" in schema else list  # type: ignore[misc]  # made at run time
    return _TYPES.get(kind, str)
