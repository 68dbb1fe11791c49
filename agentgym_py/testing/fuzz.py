"""A check that any string at all is a step: nonsense, broken JSON, surrogates, megabytes, valid actions distorted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from agentgym_py.rng import Rng
from agentgym_py.testing.harness import Play, Subject

MEGABYTE = 1 << 20
_SIGNS = "\x00\n\t []{}()\"'`\\/:,.;|<>=+-*^%#@!?&$~_0aZé中\u202e\u0301\u00a0\ud800\udfff\U0001f389"
_AWKWARD = (
    "", " ", "\n", "\x00", "\ud800", "\udfff\ud800", "🎉", "é", "e\u0301", "\u202eabc", "İ", "ß", "ﬁ", "٣", "²", "Ⅷ",
    "[", "]", "[]", "[[", "name[", "name[]", "name[[x]]", "name[x", "finish[]", "search[", "click[]", "a" * 200,
    "Action:", "Action: ", "Action: \n", "Action: x\nAction Input:", "Action: x\nAction Input: {", "Thought:",
    "Action Input: {}", "Thought: x\nAction: y\nObservation: z\nAction: w", "<tool_call>", "<tool_call>{", "{}",
    '{"name": 1}', '{"name": null, "arguments": 3}', '{"name": "x", "arguments": "{"}',
    '{"name": "x", "arguments": []}', '{"tool_calls": []}', '{"function": {"name": "x", "arguments": "[]"}}',
    "```json\n{}\n```", "null", "NaN", "-0", "1e999", "9" * 5000, "-" * 3000, "(" * 3000, "{" * 3000, '{"a":' * 3000,
    "../../etc/passwd", "'; DROP TABLE tasks; --", "%s%n{0}{x}", "$(id)", "__import__('os')", "\\", "\r\n",
    "\x1b[31m", "\ufeff", "look\x00",
)  # fmt: skip
_WRONG_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 70, 1e308, "", "x", "\ud800", "9" * 5000, [], {}, [[]], {"a": {"b": []}}, ["x"] * 100,
)  # fmt: skip
_LONG = ("a", "\ud800", "[", "{", "(", "9", " ", "\n", "🎉", "Action: ", "a[", "x, ", '{"name":', "Thought: \n", "go ")
_GAPS = ("( x", "({} x", "{ x", "{} x", " x", "[ x", "(\tx")
"""What follows a name; the gap becomes a megabyte, for whoever looks there for the end of a call again and again."""
_SHARE = 3


def strings(subject: Subject) -> None:
    """Any string is a step: awkward ones, megabytes, valid actions distorted, and what hypothesis thinks of."""
    env = subject.shared
    for number, text in enumerate(_texts(subject)):
        play = subject.play(env)
        play.reset(subject.seeds(6)[number % 6])
        play.wander(subject.rng("before a string", number), number % 5, nonsense=0)
        _say(play, text(play))
    if find_spec("hypothesis"):
        _with_hypothesis(subject)
    else:
        subject.notes.append("a fixed list and distorted actions only (pip install hypothesis for its strings too)")


def _say(play: Play, text: str) -> None:
    """One string, in which the episode must stay whole: its snapshot can be taken and taken up."""
    play.subject.counts["strings"] += 1
    play.step(text)
    if len(text) < MEGABYTE:
        here = play.snapshot()
        play.env.restore(here)
        play.need(play.snapshot() == here, "after this action a snapshot that is restored is another one")


def _texts(subject: Subject) -> Iterator[Callable[[Play], str]]:
    for text in (*_AWKWARD, *(unit * (MEGABYTE // len(unit)) for unit in _LONG)):
        yield partial(_same, text)
    rng = subject.rng("strings")
    yield lambda play: _head(play, rng) + "[" + "x" * MEGABYTE + "]"
    yield lambda play: _head(play, rng) + "[" + "9" * 5000 + "]"
    for gap in _GAPS:
        yield partial(_gaping, re.sub(r"\s", lambda space: space[0] * MEGABYTE, gap), rng)
    for _ in range(_SHARE * subject.settings.episodes):
        yield lambda play: _distorted(play, rng)
        yield lambda play: _random_text(rng)


def _same(text: str, play: Play) -> str:
    del play
    return text


def _head(play: Play, rng: Rng) -> str:
    return play.any_action(rng).split("[")[0]


def _gaping(rest: str, rng: Rng, play: Play) -> str:
    tools = play.env.tools()
    tool: Any = rng.choice(tools) if tools else {"name": _head(play, rng)}
    return str(tool.get("function", tool)["name"]) + rest


def _random_text(rng: Rng) -> str:
    return "".join(rng.choice(_SIGNS) if rng.below(4) else chr(rng.below(0x110000)) for _ in range(rng.below(40)))


def _distorted(play: Play, rng: Rng) -> str:
    """A valid action with something wrong in it: deeper in than nonsense comes."""
    tools = play.env.tools()
    if tools and rng.below(2):
        return _wrong_call(rng.choice(tools), rng)
    text = play.any_action(rng)
    for _ in range(1 + rng.below(3)):
        place = rng.below(len(text) + 1)
        end = min(len(text), place + rng.below(4))
        put = rng.choice((*_SIGNS, "", "", text, text.upper(), "9" * 400))
        text = text[:place] + put + text[end:]
    return text


def _wrong_call(tool: Any, rng: Rng) -> str:
    function = tool.get("function", tool)
    names: Sequence[str] = [*function.get("parameters", {}).get("properties", {}), "no_such_parameter"]
    arguments = {name: rng.choice(_WRONG_VALUES) for name in names if rng.below(4)}
    return json.dumps({"name": function["name"], "arguments": arguments})


def _with_hypothesis(subject: Subject) -> None:
    """Hypothesis's strings; it finds the shortest one that breaks something, and that one is reported."""
    from hypothesis import HealthCheck, Verbosity, given, seed, settings
    from hypothesis import strategies as st

    env = subject.shared
    words = st.sampled_from(("Action: ", "Action Input: ", "Thought: ", "\n", "[", "]", '{"name": "', '"}', "{", "}"))
    pieces = st.lists(words | st.text(max_size=8) | st.integers(0, 1 << 20), max_size=8)

    @seed(subject.settings.seed)
    @settings(
        max_examples=_SHARE * subject.settings.episodes, deadline=None, database=None, verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
    )  # fmt: skip
    @given(st.integers(0, 5), st.integers(0, 5), st.text() | st.characters(codec=None).map(str) | pieces)
    def told(start: int, steps: int, said: Any) -> None:
        play = subject.play(env)
        play.reset(subject.seeds(6)[start])
        rng = subject.rng("hypothesis", start, steps)
        play.wander(rng, steps, nonsense=0)
        _say(play, _joined(play, rng, said))

    told()


def _joined(play: Play, rng: Rng, said: str | list[str | int]) -> str:
    """A text, or pieces of one; a number among them stands for an action that is valid here."""
    if isinstance(said, str):
        return said
    return "".join(each if isinstance(each, str) else play.any_action(rng) for each in said)
