from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym_py.env import Reply
from agentgym_py.env.actions import format_reply, from_keyboard, name_call, parse_reply, parse_tool_call, to_keyboard
from agentgym_py.env.tools import function_tool

anything = st.text(st.characters(), max_size=60)  # surrogates and controls included
LABELS = ["Thought:", "Action:", "action :", "Action Input:", "Observation:", "<tool_call>", "</tool_call>", "```json"]
MARKS = ["\n", " ", "{", "}", "[", "]", ":", ",", "```", "NaN", "1e999", "\ud800"]
MARKS += ['"name"', '"f"', '"arguments"', '"tool_calls"']
pieces = st.lists(st.sampled_from(LABELS + MARKS), max_size=20).map("".join)
THOUGHT_MARKS = [
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("", "</think>"),
    ("<|channel>thought\n", "<channel|>"),
]
THOUGHT_MARKS += [("<thinking>", "</thinking>"), ("<seed:think>", "</seed:think>"), ("", "[/THINK]")]
line = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20).map(str.strip)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(anything | pieces)
@settings(max_examples=150)
def test_the_parser_is_total(text: str) -> None:
    """Any string gives a reply of stripped strings, and JSON arguments stay JSON."""
    reply = parse_reply(text)
    assert reply.action == reply.action.strip() and isinstance(reply.thought, str)
    assert reply.form != "react" or "\n" not in reply.action
    if reply.arguments is not None:
        assert json.loads(reply.action_input or "") == reply.arguments


@given(
    anything | pieces,
    anything | pieces,
    st.sampled_from(THOUGHT_MARKS),
)
@settings(max_examples=150)
@example("I could look around.", "\n\ngo south", ("<think>", "</think>"))
@example("Action: go north\nObservation: a wall", "Action: go south", ("", "</think>"))
@example('<tool_call>{"name": "a"}</tool_call>', '<tool_call>{"name": "b"}</tool_call>', ("[THINK]", "[/THINK]"))
@example("Action: look?", "Thought: fine\nAction: go south", ("<think>", "</think>"))
def test_what_is_thought_is_no_action(thought: str, rest: str, tags: tuple[str, str]) -> None:
    """Labels, observations and calls count only behind the last closing tag, with or without an opening one."""
    for parse in (parse_reply, parse_tool_call):
        reply, alone = parse(f"{tags[0]}{thought}{tags[1]}{rest}"), parse(rest)
        assert replace(reply, thought="") == replace(alone, thought="")
        assert thought.strip() in reply.thought and alone.thought in reply.thought


@given(anything | pieces, st.sampled_from(["<think>", "\n [THINK]", "Well.</think>\n<think>", "<|channel>thought\n"]))
def test_a_thought_without_an_end_holds_no_action(thought: str, tag: str) -> None:
    """The reply was cut within its thought: there is no action, and it is not guessed."""
    for parse in (parse_reply, parse_tool_call):
        reply = parse(tag + thought)
        assert (reply.action, reply.action_input, reply.calls) == ("", None, 1)
        assert thought.strip() in reply.thought
    assert parse_reply("Action: say <think>").action == "say <think>"


@given(line, line, st.none() | line)
@example("search[action: figure]", "I read Action: x, then", None)
@example("Action: x", "Thought: y", "Action Input: z")
@example("Observation: x", "Observation: y", "Observation: z")
def test_format_and_parse_round_trip(action: str, thought: str, action_input: str | None) -> None:
    """`parse_reply` returns the parts that `format_reply` joined, also with labels within them."""
    text = format_reply(action, thought, action_input)
    if "<tool_call>" in text or "action input" in action.lower() or action[:1] in ("*", "`", "{"):
        return
    result = parse_reply(text)
    assert (result.action, result.thought, result.action_input, result.form) == (action, thought, action_input, "react")


@given(st.text(min_size=1, max_size=10), st.dictionaries(st.text(max_size=5), json_values, max_size=3))
def test_every_way_to_write_a_tool_call(name: str, arguments: dict[str, object]) -> None:
    """Bare, tagged, fenced, OpenAI's message and function object, with arguments as object or as text."""
    call = {"name": name, "arguments": arguments}
    as_text = {"name": name, "arguments": json.dumps(arguments)}
    message = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": as_text}]}
    texts = [json.dumps(each) for each in (call, as_text, {"type": "function", "function": call}, message)]
    texts += [f"<tool_call>\n{texts[0]}\n</tool_call>", f"<tool_call>{texts[1]}", f"```json\n{texts[0]}\n```"]
    texts += [json.dumps(call, indent=2), json.dumps({"name": name, "parameters": arguments})]
    for text in texts:
        result = parse_reply(text)
        assert (result.action, result.arguments, result.form) == (name.strip(), arguments, "tool_call")


@pytest.mark.parametrize(
    "text",
    [
        "**Action:** go north",
        "**Action**: **go north**",
        "Action: `go north`",
        "Action:\n```\ngo north\n```",
        "```text\ngo north\n```",
        "```go north```",
        "**go north**",
        '{"action": "go north"}',
        'Action: {"action": "go north"}',
    ],
)
def test_markdown_around_an_action_is_left_out(text: str) -> None:
    """Bold labels, backticks and fences, as chat models write them, and JSON with an action."""
    for parse in (parse_reply, parse_tool_call):
        for head in ("", "**Thought:** I am done here.\n"):
            if head and not text.startswith(("Action", "**Action")):
                continue
            reply = parse(head + text)
            assert reply.parts == ("go north", None) and reply.thought == head[12:].strip()


@pytest.mark.parametrize("text", ["`a` or `b`", "**a** and **b**", "*", "**", "``", "search[`a`]"])
def test_marks_within_an_action_stay(text: str) -> None:
    assert parse_reply(text).action == text
    assert parse_reply(f"Action: {text}").action == text


def test_words_after_the_last_bracket_can_be_left_out() -> None:
    """`bracket_parts` leaves them out, also in a reply without brackets or with an input."""
    for text, parts in (
        ("guess[crane].", ("guess", "crane")),
        ("click[a [b]] now", ("click", "a [b]")),
        ("go north.", ("go north.", None)),
        ('Action: ask\nAction Input: {"word": "red]."}', ("ask", "red].")),
    ):
        assert parse_reply(text).bracket_parts == parts


def test_an_action_as_json_has_its_input() -> None:
    """LangChain's structured chat; the input is an object or text."""
    reply = parse_reply('Thought: x\nAction:\n```json\n{"action": "search", "action_input": "red shoes"}\n```')
    assert (reply.thought, reply.parts, reply.error) == ("x", ("search", "red shoes"), "")
    call = parse_tool_call('Action: {"action": "search", "action_input": {"words": "red"}}')
    assert (call.action, call.arguments) == ("search", {"words": "red"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("click[buy now]", Reply("click[buy now]")),
        ("  look \n", Reply("look")),
        ("", Reply("")),
        ("Action:", Reply("", form="react")),
        ("Thought: I only think", Reply("", "I only think")),
        ("Thought:\nI look.\n\nAction:\nsearch[red cup]", Reply("search[red cup]", "I look.", form="react")),
        ("Thought: I look. Action: search[red cup]", Reply("search[red cup]", "I look.", form="react")),
        ("THOUGHT: x\nACTION : y\nmore", Reply("y", "x", form="react")),
        ("Action: a\nObservation: b\nAction: c", Reply("a", form="react")),
        ("Action: a\nAction: b", Reply("b", "Action: a", form="react")),
        ("search[action: figure]", Reply("search[action: figure]")),
        ("click[Action: x]", Reply("click[Action: x]")),
        ("put the action: figure back", Reply("put the action: figure back")),
        ('Action: f\nAction Input: {"a":\n 1}', Reply("f", "", '{"a":\n 1}', {"a": 1}, "react")),
        ('Thought: t. Action: f Action Input: {"a": 1}', Reply("f", "t.", '{"a": 1}', {"a": 1}, "react")),
        ('f\nAction Input: {"a": 1}', Reply("f", "", '{"a": 1}', {"a": 1})),
        ("search[x Action Input: y]", Reply("search[x Action Input: y]")),
        ("Action: f\nAction Input: plain", Reply("f", "", "plain", None, "react")),
        ("Action: f\nAction Input: [1]", Reply("f", "", "[1]", None, "react")),
        ('{"name": "f"}', Reply("f", "", "{}", {}, "tool_call")),
        ('{"name": "f", "arguments": 3}', Reply("f", "", "3", None, "tool_call")),
        ('{"name": "f", "arguments": "x"}', Reply("f", "", "x", None, "tool_call")),
        ('{"thought": "t", "name": "f"}', Reply("f", "t", "{}", {}, "tool_call")),
        ('I call <tool_call>{"name": "f"}</tool_call> now', Reply("f", "I call", "{}", {}, "tool_call")),
        ('{"content": "t", "tool_calls": [{"function": {"name": "f"}}, 3]}', Reply("f", "t", "{}", {}, "tool_call")),
        ('{"name": 3}', Reply('{"name": 3}')),
        ('{"tool_calls": []}', Reply('{"tool_calls": []}')),
        ('{"name": "f"} and more', Reply('{"name": "f"} and more')),
        ("<tool_call>none\nAction: look", Reply("look", "<tool_call>none", form="react")),
    ],
)
def test_forms(text: str, expected: Reply) -> None:
    """The forms of a reply, and which one wins."""
    assert parse_reply(text) == expected


BROKEN = [
    '{"name": "f", "arguments": "{"}',
    '{"name": "f", "arguments": "x"}',
    '{"name": "f", "arguments": 3}',
    '{"name": "f", "arguments": [1]}',
    '{"tool_calls": [{"function": {"name": "f", "arguments": "{\\"a\\": 1"}}]}',
    '<tool_call>{"name": "f", "arguments": "{}}"}</tool_call>',
    "Action: f\nAction Input: {'a': 1}",
    'Action: f\nAction Input: {"a": 1} and more',
    "Thought: t. Action: f Action Input: {",
    'f\nAction Input: {"a": NaN}',
    "f\nAction Input: " + '{"a":' * 101,
]


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: text[:60])
def test_an_input_that_must_be_an_object_but_is_not_is_an_error(text: str) -> None:
    """In every form of a call; the error quotes the input."""
    result = parse_reply(text)
    assert result.error.startswith("The input of 'f' must be one JSON object") and len(result.error) < 300
    assert result.action == "f" and result.arguments is None


@pytest.mark.parametrize(
    "text",
    [
        "search[{]",
        "{",
        "Action: f",
        "Action: f\nAction Input: red cup",
        "Action: f\nAction Input: [1]",
        "Action: f\nAction Input:",
        '{"name": "f", "arguments": ""}',
        '{"name": "f", "arguments": " { } "}',
        'f\nAction Input: {"a": 1}',
    ],
)
def test_text_and_objects_are_valid_inputs(text: str) -> None:
    """Text after `Action Input:` need not be JSON, and an input is optional."""
    assert parse_reply(text).error == ""


def test_the_error_names_the_place_in_the_json() -> None:
    """The position that the JSON parser reports."""
    result = parse_reply("Action: f\nAction Input: {'a': 1}").error
    assert "not \"{'a': 1}\": Expecting property name enclosed in double quotes: line 1 column 2" in result


def test_a_tag_within_the_arguments_does_not_end_the_call() -> None:
    """The object is parsed as JSON, not cut at the first closing tag."""
    result = parse_reply('<tool_call>{"name": "f", "arguments": {"a": "}</tool_call>"}}</tool_call>')
    assert result.arguments == {"a": "}</tool_call>"}


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "9" * 5000])
def test_numbers_beyond_json_make_no_call(value: str) -> None:
    """Values that JSON cannot represent are not parsed as JSON."""
    text = f'{{"name": "f", "arguments": {{"a": {value}}}}}'
    assert parse_reply(text) == Reply(text)


def test_nesting_has_a_limit_that_does_not_depend_on_the_stack() -> None:
    """The result does not depend on the depth of the caller; brackets in strings count."""

    def text(depth: int) -> str:
        return '{"name": "f", "arguments": {"a": ' + "[" * depth + "]" * depth + "}}"

    def deep(levels: int, depth: int) -> Reply:
        return deep(levels - 1, depth) if levels else parse_reply(text(depth))

    assert parse_reply(text(98)).form == deep(500, 98).form == "tool_call"
    assert parse_reply(text(99)).form == deep(500, 99).form == "bare"
    assert parse_reply('{"name": "f", "arguments": {"a": [' + "[]," * 500 + "1]}}").form == "tool_call"


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>{" * 40_000,
        "<tool_call>{} " * 30_000,
        ("<tool_call>" + " " * 100) * 3_000,
        "{" * 300_000,
        '{"a":' * 100_000,
        "[" * 300_000,
        "{" + "[]" * 200_000,
        "```" + " " * 300_000,
        "```{" + "}  " * 100_000,
        "Action:" * 50_000,
        "\nAction:" * 50_000,
        "Action Input:" * 30_000,
        "Observation:\n" * 30_000,
        " " * 300_000 + "x",
        "action" + " " * 300_000,
        "\ud800" * 100_000,
        "a(" + " " * 300_000 + "x",
        "a({}" + "\t" * 300_000 + "x",
        "Action: a(" + " " * 300_000 + "x",
        "a {" + "} " * 150_000 + "x",
        "a" * 300_000 + " (",
        "a" + " " * 300_000 + "{x",
        "Action: a" + "\n" * 300_000 + "x",
        "Action: a\n" * 30_000,
        "**Action:** `a`" + " " * 300_000,
        "words {" + "[{" * 100_000,
        "words " * 50_000 + "{}" * 50_000,
        "[TOOL_CALLS]" * 30_000,
        "**action" * 40_000,
    ],
    ids=lambda text: f"{text[:12]!r}",
)
def test_no_text_is_slow(text: str) -> None:
    """Time is linear in the text: a third of a megabyte takes well under a second."""
    for read in (parse_reply, parse_tool_call):
        begin = time.thread_time()
        read(text)
        assert time.thread_time() - begin < 2, read


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('set_due {"task": "t7"}', {"task": "t7"}),
        ('set_due({"task": "t7"})', {"task": "t7"}),
        ("set_due()", {}),
        ("Thought: so\nAction: set_due ( )", {}),
        ('Action: set_due {"a": {"b": ")"}}', {"a": {"b": ")"}}),
        ('set_due\nAction Input: {"task": "t7"}', {"task": "t7"}),
    ],
)
def test_a_call_may_be_one_line(text: str, arguments: dict[str, object]) -> None:
    """With or without arguments, as a bare line or an action."""
    reply = parse_tool_call(text)
    assert (reply.action, reply.arguments) == ("set_due", arguments)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('f(a="x, y", b=2)', {"a": "x, y", "b": 2}),
        ("Action: f(a='it is', b=True)", {"a": "it is", "b": True}),
        ("f a=2026-07-13 b=o412", {"a": "2026-07-13", "b": "o412"}),
        ("Thought: so\nAction: f a=076634", {"a": "076634"}),
        ('f(a={"b": [1, ")"]}, c=null)', {"a": {"b": [1, ")"]}, "c": None}),
        ("f(a=1, a=2)", None),
        ("f(a=1 +2)", None),
        ("f(a=)", None),
        ("f a = 1", None),
        ("f a=two words", None),
        ("f(a=" + "[" * 150 + "]" * 150 + ")", None),
    ],
)
def test_arguments_may_have_keywords(text: str, arguments: dict[str, object] | None) -> None:
    """JSON, texts in single quotes and bare words; whatever else follows a keyword makes it no call."""
    reply = parse_tool_call(text)
    assert reply.arguments == arguments and (reply.action == "f" or arguments is None)
    assert arguments is None or json.loads(reply.action_input or "") == arguments


@pytest.mark.parametrize(
    ("action", "name", "arguments"),
    [
        ("Look", "look", None),
        ('get_cell("B2")', "get_cell", {"cell": "B2"}),
        ('get_cell "B2"', "get_cell", {"cell": "B2"}),
        ("get_cell 'B2'", "get_cell", {"cell": "B2"}),
        ("GET_CELL(B2)", "get_cell", {"cell": "B2"}),
        ("finish(15)", "finish", {"answer": 15}),
        ("put([1, 2])", "put([1, 2])", None),
        ('get_cell("B2", "B3")', 'get_cell("B2", "B3")', None),
        ("dance(1)", "dance(1)", None),
    ],
)
def test_a_value_alone_is_the_only_argument(action: str, name: str, arguments: dict[str, object] | None) -> None:
    """Of a tool that needs one, or has one; a tool's name may be in any case."""
    tools = [
        function_tool("look", "Look.", {}),
        function_tool("get_cell", "Show.", {"cell": {}, "sheet": {}}, ["cell"]),
        function_tool("finish", "End.", {"answer": {}}, []),
        function_tool("put", "Put.", {"item": {}, "place": {}}),
    ]
    reply = name_call(parse_tool_call(f"Thought: so\nAction: {action}"), tools)
    assert (reply.action, reply.arguments, reply.thought) == (name, arguments, "so")


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        ('**Thought:** so\n**Action:** f\n**Action Input:** {"a": 1}', "so"),
        ('**Action**: f\n**Action Input**: {"a": 1}', ""),
        ('Action: `f`\nAction Input: {"a": 1}', ""),
        ('Action: f\nAction Input: ```json\n{"a": 1}\n```', ""),
        ('Thought: so\nAction: f\n{"a": 1}', "so"),
        ('Action: `f`\n\n  {"a":\n1}', ""),
        ('{"function_call": {"name": "f", "arguments": "{\\"a\\": 1}"}}', ""),
        ('{"name": "f", "input": {"a": 1}}', ""),
        ('[{"name": "f", "arguments": {"a": 1}}]', ""),
        ('[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}]', ""),
        ('Sure! {"name": "f", "arguments": {"a": 1}}', "Sure!"),
        ('Sure!\n```json\n{"name": "f", "arguments": {"a": 1}}\n```', "Sure!"),
        ('Thought: so\n{"name": "f", "parameters": {"a": 1}}', "so"),
    ],
)
def test_decorations_around_a_call(text: str, thought: str) -> None:
    """Markdown, other keys, a list of one, words before it, a missing label: all are the same call."""
    reply = parse_tool_call(text)
    assert (reply.action, reply.arguments, reply.thought, reply.error) == ("f", {"a": 1}, thought, "")


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ('f {"a": 1', "The input of 'f' must be one JSON object"),
        ('Action: f({"a": 1)', "The input of 'f' must be one JSON object"),
        ('f {"a": 1} and more', "The input of 'f' must be one JSON object"),
        ('{"name": "f", "arguments": {"a": 1}', "A call must be one JSON object"),
        ('[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]', "Only one call a turn is done, and this"),
        ('<tool_call>{"name": "f"}</tool_call>\n<tool_call>{"name": "g"}</tool_call>', "Only one call a turn"),
        ('{"tool_calls": [{"function": {"name": "f"}}, {"function": {"name": "g"}}]}', "Only one call a turn is done"),
    ],
)
def test_the_error_of_a_wrong_call(text: str, expected_text: str) -> None:
    """Broken JSON, and more than one call; a world without tools takes the first call."""
    assert parse_tool_call(text).error.startswith(expected_text)
    assert "Only" not in parse_reply(text).error


@pytest.mark.parametrize("text", ['I say f {"name": "Ann"}', "Sure! {1: 2}", "[1, 2]", "Well [{}]", "`f`"])
def test_ambiguous_text_is_no_call(text: str) -> None:
    """Words followed by JSON without a tool or arguments."""
    assert parse_tool_call(text).arguments is None


@given(st.text())
def test_other_text_is_parsed_as_by_parse_reply(text: str) -> None:
    """Any text without brackets and keywords."""
    text = text.replace("{", "").replace("(", "").replace("=", "")
    assert parse_tool_call(text) == parse_reply(text)


@pytest.mark.parametrize("line", ['list_due {"start": "2030-01-01", "end": "2030-01-02"}', "list_labels()"])
def test_a_typed_call_is_parsed_by_every_world(line: str) -> None:
    """A one-line call is split into two lines; text that calls no tool is unchanged."""
    tools = [{"type": "function", "function": {"name": name}} for name in ("list_due", "list_labels")]
    assert parse_reply(from_keyboard(line, tools)).arguments is not None
    for other in ("list_labels", "nothing()", "list_labels {", "list_labels(all)"):
        assert from_keyboard(other, tools) == other
    assert from_keyboard(line, None) == line


def test_an_action_is_typed_in_one_line() -> None:
    """A call's input follows its name; other actions are unchanged."""
    assert to_keyboard('set_due\nAction Input: {"task": "t7"}') == 'set_due {"task": "t7"}'
    assert to_keyboard("search[Action Input: 3]") == "search[Action Input: 3]"


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("search[red shoes]", "search", "red shoes"),
        ("Thought: so\nAction: search[a [b] c]", "search", "a [b] c"),
        ("search[]", "search", ""),
        ("look", "look", None),
        ("search[red", "search[red", None),
        ("search[red] please", "search[red] please", None),
        ("Action: search\nAction Input: red shoes", "search", "red shoes"),
        ('{"name": "search", "arguments": {"query": "red [x]"}}', "search", "red [x]"),
        ('{"name": "move", "arguments": {"a": 1, "b": "two"}}', "move", "1, two"),
        ('{"name": "search", "arguments": {"query": ""}}', "search", ""),
        ('{"name": "look", "arguments": {}}', "look", None),
        ("Action: search[red]\nAction Input: blue", "search", "red][blue"),
        ("", "", None),
    ],
)
def test_an_action_has_a_name_and_an_argument(text: str, name: str, argument: str | None) -> None:
    """In any form: brackets, an input below it, or a tool call whose values are joined."""
    reply = parse_reply(text)
    assert (reply.name, reply.argument) == (name, argument)
