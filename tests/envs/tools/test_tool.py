from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_envs.tools.catalogue import CORE, FINISH, all_tools
from agentgym_envs.tools.env import ToolsEnv
from agentgym_envs.tools.lookups import PARAMETERS
from agentgym_envs.tools.tool import ToolError, quoted, unknown_tool
from agentgym_py.rng import Rng

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def why(tool: str, arguments: dict[str, Any]) -> str:
    """What a tool says of wrong arguments."""
    with pytest.raises(ToolError) as refused:
        CORE[tool].check(arguments)
    return str(refused.value)


@pytest.mark.parametrize(
    ("tool", "arguments", "wanted"),
    [
        ("get_film", {}, "get_film needs film_id (an integer): A film's number."),
        ("get_film", {"film_id": "12"}, 'film_id must be an integer, not the string "12".'),
        ("get_film", {"film_id": True}, "film_id must be an integer, not true."),
        ("get_film", {"film_id": 1}, ""),
        ("get_film", {"film_id": 2.0}, ""),
        ("get_film", {"film_id": 2.5}, "film_id must be an integer, not 2.5."),
        ("get_film", {"film_id": [1]}, "film_id must be an integer, not a list."),
        ("get_film", {"film_id": 10**40}, "film_id must be from 1 to 999999."),
        ("get_film", {"film_id": 1, "id": 2}, 'get_film takes no "id". It takes film_id.'),
        ("get_place", {"city": 1}, "city must be a string, not 1."),
        ("get_place", {"city": None}, "city must be a string, not null."),
        ("get_place", {"city": {}}, "city must be a string, not an object."),
        ("get_place", {"city": "  "}, "city must be 1 to 200 printable characters."),
        ("get_place", {"city": "a\x00b"}, "city must be 1 to 200 printable characters."),
        ("get_place", {"city": "\ud800"}, "city must be 1 to 200 printable characters."),
        ("get_place", {"city": "x" * 201}, "city must be 1 to 200 printable characters."),
        ("list_events", {"day": "tomorrow"}, 'day must be a day, yyyy-mm-dd, not the string "tomorrow".'),
        ("list_events", {"day": "2031-02-30"}, 'day must be a day, yyyy-mm-dd, not the string "2031-02-30".'),
        ("list_events", {"day": "2031-02-28"}, ""),
        ("move_event", {"event_id": 1, "day": "2031-02-28", "start": "24:00"}, "start must be a time, hh:mm, not"),
        ("list_orders", {"status": "lost"}, "status must be one of processing, sent, delivered, cancelled, returned"),
        ("list_orders", {"status": "Sent"}, ""),
    ],
)
def test_an_error_says_how_to_mend_the_call(tool: str, arguments: dict[str, Any], wanted: str) -> None:
    """Missing, unknown and wrong parameters are named, with what they should be; right ones pass."""
    if wanted:
        assert why(tool, arguments).startswith(wanted)
    else:
        assert CORE[tool].check(arguments).keys() == arguments.keys()


@given(arguments=st.dictionaries(st.sampled_from([*PARAMETERS, "other"]) | st.text(max_size=5), JSON, max_size=5))
@pytest.mark.parametrize("tool", ["get_film", "add_event", "list_orders", "get_forecast"])
def test_any_arguments_pass_or_are_refused(tool: str, arguments: dict[str, Any]) -> None:
    """Nothing else comes of them than values of the types that the schema says."""
    try:
        checked = CORE[tool].check(arguments)
    except ToolError as refused:
        assert str(refused) and str(refused).isprintable()
    else:
        assert [type(value) for value in checked.values()] == [
            {"integer": int, "string": str}[each.type] for each in CORE[tool].parameters
        ]


def test_schemas_say_what_is_checked() -> None:
    """Types, bounds, patterns, choices and what is required stand in the JSON schema."""
    function = CORE["move_event"].schema()["function"]
    properties = function["parameters"]["properties"]
    assert function["name"] == "move_event" and function["description"].endswith(".")
    assert function["parameters"]["required"] == ["event_id", "day", "start"]
    assert properties["event_id"] == {
        "type": "integer",
        "description": "The number of an event in the calendar.",
        "minimum": 1,
        "maximum": 999_999,
    }
    assert properties["day"]["pattern"] == "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
    assert CORE["list_orders"].schema()["function"]["parameters"]["properties"]["status"]["enum"][0] == "processing"
    assert FINISH.schema()["function"]["parameters"]["additionalProperties"] is False


def takes(schema: dict[str, Any], value: object) -> bool:
    """Whether a parameter's schema allows a value; only what the schemas here can say."""
    if schema["type"] == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    return (
        isinstance(value, str)
        and value in schema.get("enum", [value])
        and re.fullmatch(schema.get("pattern", ".*"), value, re.DOTALL) is not None
    )


def test_every_tool_has_a_schema() -> None:
    """All thousand: name, purpose, and of each parameter type and meaning; what is required is all."""
    for name, tool in all_tools().items():
        made = tool.schema()
        function = made["function"]
        parameters = function["parameters"]
        assert made["type"] == "function" and function["name"] == name and len(function["description"]) > 10
        assert parameters["type"] == "object" and parameters["required"] == list(parameters["properties"])
        for each in parameters["properties"].values():
            assert each["type"] in ("string", "integer") and len(each["description"]) > 5, name


@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard", "retrieval"])
def test_listed_calls_fit_the_schemas(difficulty: str) -> None:
    """Every action that is listed is a call of a tool on offer with values that its schema allows."""
    env = ToolsEnv(difficulty=difficulty)
    rng = Rng("schemas")
    for seed in range(15):
        env.reset(seed=seed)
        while not env.stop_reason:
            schemas = {each["function"]["name"]: each["function"]["parameters"]["properties"] for each in env.tools()}
            for action in env.actions():
                reply = env.read(action)
                assert reply.arguments is not None and reply.arguments.keys() == schemas[reply.action].keys(), action
                assert all(takes(schemas[reply.action][key], value) for key, value in reply.arguments.items()), action
            env.step(rng.choice(env.actions()))


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=200))
def test_any_printable_text_is_taken_as_it_is(text: str) -> None:
    """A name is what was written, without the blanks around it."""
    assert PARAMETERS["city"].check(f"  {text} ") == text


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_taken_where_its_schema_takes_it(value: float) -> None:
    """Whole numbers within the bounds, however they are written; nothing else."""
    parameter = PARAMETERS["minutes"]
    whole = value == int(value) and parameter.minimum <= value <= parameter.maximum
    try:
        assert parameter.check(value) == value and whole
    except ToolError:
        assert not whole


@given(st.dates() | st.text("0123456789-", max_size=12))
def test_a_day_is_one_of_the_calendar(day: object) -> None:
    """Exactly the days that Python's calendar has, in the one form."""
    text = str(day)
    try:
        known = len(text) == 10 and date.fromisoformat(text).isoformat() == text
    except ValueError:
        known = False
    try:
        assert PARAMETERS["day"].check(text) == text and known
    except ToolError:
        assert not known


def test_unknown_tools_come_with_what_there_is() -> None:
    """The nearest name and all others are said, and a megabyte of nonsense in few words."""
    assert "Did you mean 'get_film'?" in unknown_tool("get_films", ["get_film", "finish"])
    assert "Did you mean 'get_film'?" in unknown_tool("find_film", ["get_film", "finish"])
    assert "No tool was named" in unknown_tool("", ["finish"])
    assert len(unknown_tool("x" * 10**6, ["finish"])) < 100
    assert quoted("\ud800") == '"\\ud800"'
