"""JSON schemas of tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def function_tool(
    name: str, description: str, properties: Mapping[str, Mapping[str, Any]], required: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return an OpenAI function tool from JSON schemas by parameter; by default all parameters are required."""
    parameters = {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def text_parameter(description: str) -> dict[str, str]:
    """Return the JSON schema of a text parameter."""
    return {"type": "string", "description": description}
