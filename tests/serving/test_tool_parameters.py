"""`tool_parameters`: what transformers reads from a signature is the tool's schema again."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any

import pytest
from transformers.utils import get_json_schema

from agentgym_py import registry
from agentgym_py.agents.chat import offered_tools
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError
from agentgym_py.serving.tool_parameters import tool_parameters


def read_back(schema: dict[str, Any]) -> Any:
    """Return the schema that transformers makes of a function with these parameters, as `types` reads it."""

    def call(**_arguments: Any) -> str:
        return ""

    parameters = tool_parameters("call", schema)
    call.__signature__ = Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": str}
    call.__doc__ = "\n".join(["Call.", "", "Args:", *(f"    {name}: It." for name in schema["properties"])])
    return types({"required": [], **get_json_schema(call)["function"]["parameters"]})


def types(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what Python's types can say: no descriptions, no patterns, and several types in any order."""
    found: dict[str, Any] = {key: schema[key] for key in ("enum", "required") if key in schema}
    kind = schema["type"]
    found["type"] = sorted(kind) if isinstance(kind, list) else kind
    if "items" in schema:
        found["items"] = types(schema["items"])
    if "properties" in schema:
        found["properties"] = {key: types(value) for key, value in schema["properties"].items()}
    return found


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"}, {"type": "string", "enum": ["up", "down"]}, {"type": ["string", "number"]},
        {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}, {"type": "array"},
        {"type": "object"}, {"type": "array", "items": {"type": ["integer", "string"]}},
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_survives(schema: dict[str, Any]) -> None:
    """Types, enumerations, several types and lists of lists."""
    wanted = {"type": "object", "properties": {"it": schema}, "required": ["it"]}
    assert read_back(wanted) == types(wanted)


def test_optional_parameters_may_be_left_out() -> None:
    """Their default is None; `anyOf` and null are read, and a parameter without a type is text."""
    either = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    must, may, any_ = tool_parameters(
        "call", {"properties": {"a": {"type": "string"}, "b": either, "c": {}}, "required": ["a"]}
    )
    assert must.default is Parameter.empty and may.default is None
    assert (must.annotation, may.annotation, any_.annotation) == (str, int | None, str)
    assert tool_parameters("call", {}) == []


@pytest.mark.parametrize(
    ("properties", "name"),
    [({"class": {"type": "string"}}, "class"), ({"a b": {}}, "a b"), ({"x": {"type": []}}, "x")],
)
def test_a_parameter_that_python_cannot_have_is_named(properties: dict[str, Any], name: str) -> None:
    """With its tool: neither a keyword, nor words, nor one of no type."""
    with pytest.raises(ConfigError, match=f"the tool 'call' has the parameter '{name}', which Python cannot have"):
        tool_parameters("call", {"properties": properties})


@pytest.mark.parametrize("name", registry.names("agentgym.envs"))
def test_tools_of_every_world_survive(name: str) -> None:
    """Those that it offers at the start of a task."""
    env = EnvSpec(name).make()
    env.reset(seed=0, options={"task": env.task(0, "train").id})
    for tool in offered_tools(env):
        parameters = tool["function"]["parameters"]
        assert read_back(parameters) == types(parameters), tool["function"]["name"]
    env.close()
