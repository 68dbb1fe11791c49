"""Tools of worlds: checked calls, and calls written as actions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_py.env.actions import parse_tool_call
from agentgym_py.env.tools import RefusedError, Tool, format_arguments, format_call, make_tool, require_tool

SCHEMAS = {"item": {"type": "string"}, "count": {"type": "integer"}}


def put(shelf: list[str], item: str, count: int = 1) -> str:
    """Put items on a shelf."""
    shelf += [item] * count
    return f"There are {len(shelf)}."


def checked(name: str, value: Any, schema: Any) -> Any:
    """Refuse a value of another type."""
    if type(value) is not {"string": str, "integer": int}[schema["type"]]:
        raise RefusedError(f"{name} must be of type {schema['type']}.")
    return value


TOOL = make_tool(put, "Put items.", "item", "count", schemas=SCHEMAS, check_argument=checked)
TOOLS: dict[str, Tool] = {TOOL.name: TOOL}


def test_a_tool_has_its_signature_and_schema() -> None:
    """Both tell which parameters are optional."""
    assert str(TOOL) == "put(item, count?): Put items."
    function = TOOL.schema()["function"]
    assert function["parameters"]["properties"] == SCHEMAS and function["parameters"]["required"] == ["item"]


def test_a_call_changes_the_subject() -> None:
    """By the arguments that are given."""
    shelf = ["cup"]
    assert require_tool("put", TOOLS).call(shelf, {"count": 2, "item": "pan"}) == "There are 3."
    assert shelf == ["cup", "pan", "pan"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, r"put needs 'item'; it is put\(item, count\?\)\."),
        ({"item": "pan", "size": 2}, "put takes no 'size'; it is"),
        ({"item": 3}, "item must be of type string"),
        ({"item": 3, "size": 2}, "item must be of type string"),
        ({"size": 2, "item": 3}, "put takes no 'size'"),
    ],
)
def test_a_wrong_call_is_refused(arguments: dict[str, Any], words: str) -> None:
    """The first wrong argument is named, a missing one last, and nothing changes."""
    shelf: list[str] = []
    with pytest.raises(RefusedError, match=words):
        TOOL.call(shelf, arguments)
    assert shelf == []


def test_a_missing_argument_is_named_with_its_choices() -> None:
    """If it has some."""
    schemas = {"item": {"type": "string", "enum": ["cup", "pan"]}}
    tool = make_tool(put, "Put items.", "item", schemas=schemas, check_argument=checked)
    with pytest.raises(RefusedError, match="put needs 'item', one of cup, pan; it is"):
        tool.check({})


def test_an_unknown_tool_is_refused() -> None:
    """With the nearest name and all names."""
    with pytest.raises(RefusedError, match=r"No tool 'puts'.*Did you mean 'put'"):
        require_tool("puts", TOOLS)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=250),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, min_size=1, max_size=4))
def test_a_call_is_written_as_json_and_parses_back(arguments: dict[str, Any]) -> None:
    """The arguments are those of `json.dumps`."""
    assert format_arguments(arguments) == json.dumps(arguments, ensure_ascii=False)
    assert format_call("put", {}) == "put"
    assert json.loads(format_call("put", arguments).partition("\nAction Input: ")[2]) == arguments


def test_a_written_call_is_parsed_as_a_tool_call() -> None:
    """With the same name and arguments."""
    reply = parse_tool_call(f"Thought: why\nAction: {format_call('put', {'item': 'tin cup', 'count': 2})}")
    assert (reply.action, reply.arguments) == ("put", {"item": "tin cup", "count": 2})
