"""A check that any string is a step: nonsense, broken JSON, surrogates, megabytes, corrupted valid actions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from agentgym_py.rng import Rng
from agentgym_py.testing.harness import Episode, Subject

MEGABYTE = 1 << 20
_CHARS = "\x00\n\t []{}()\"'`\\/:,.;|<>=+-*^%#@!?&$~_0aZé中\u202e\u0301\u00a0\ud800\udfff\U0001f389"
AWKWARD = (
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
"""Strings that no world may stumble over."""
_WRONG_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 70, 1e308, "", "x", "\ud800", "9" * 5000, [], {}, [[]], {"a": {"b": []}}, ["x"] * 100,
)  # fmt: skip
_LONG = ("a", "\ud800", "[", "{", "(", "9", " ", "\n", "🎉", "Action: ", "a[", "x, ", '{"name":', "Thought: \n", "go ")
_GAPS = ("( x", "({} x", "{ x", "{} x", " x", "[ x", "(\tx")
"""Suffixes of a tool's name whose space becomes a megabyte, for parsers that search the end of a call quadratically."""
_STRINGS_PER_EPISODE = 3


def strings(subject: Subject) -> None:
    """Any string is a step: awkward ones, megabytes, corrupted valid actions, and hypothesis's strings."""
    env = subject.shared
    for number, make_text in enumerate(_texts(subject)):
        episode = subject.episode(env)
        episode.reset(subject.seeds(6)[number % 6])
        episode.wander(subject.rng("before a string", number), number % 5, nonsense=0)
        _try(episode, make_text(episode))
    if find_spec("hypothesis"):
        _with_hypothesis(subject)
    else:
        subject.notes.append("a fixed list and distorted actions only (pip install hypothesis for its strings too)")


def _try(episode: Episode, text: str) -> None:
    """Step with one string, after which a snapshot must restore to itself."""
    episode.subject.counts["strings"] += 1
    episode.step(text)
    if len(text) < MEGABYTE:
        snapshot = episode.snapshot()
        episode.env.restore(snapshot)
        same = episode.snapshot() == snapshot
        episode.require(same, "after this action a snapshot that is restored is another one")


def _texts(subject: Subject) -> Iterator[Callable[[Episode], str]]:
    for text in (*AWKWARD, *(unit * (MEGABYTE // len(unit)) for unit in _LONG)):
        yield partial(_constant, text)
    rng = subject.rng("strings")
    yield lambda episode: _action_name(episode, rng) + "[" + "x" * MEGABYTE + "]"
    yield lambda episode: _action_name(episode, rng) + "[" + "9" * 5000 + "]"
    for gap in _GAPS:
        yield partial(_call_with_gap, re.sub(r"\s", lambda space: space[0] * MEGABYTE, gap), rng)
    for _ in range(_STRINGS_PER_EPISODE * subject.settings.episodes):
        yield lambda episode: _corrupted_action(episode, rng)
        yield lambda episode: random_text(rng)


def _constant(text: str, _: Episode) -> str:
    return text


def _action_name(episode: Episode, rng: Rng) -> str:
    return episode.any_action(rng).split("[")[0]


def _call_with_gap(suffix: str, rng: Rng, episode: Episode) -> str:
    tools = episode.env.tools()
    tool: Any = rng.choice(tools) if tools else {"name": _action_name(episode, rng)}
    return str(tool.get("function", tool)["name"]) + suffix


def random_text(rng: Rng) -> str:
    """Return up to 40 characters, most of them with a meaning to some parser."""
    return "".join(rng.choice(_CHARS) if rng.below(4) else chr(rng.below(0x110000)) for _ in range(rng.below(40)))


def _corrupted_action(episode: Episode, rng: Rng) -> str:
    """Return a valid action with a few characters changed, which gets deeper into the parser than nonsense."""
    tools = episode.env.tools()
    if tools and rng.below(2):
        return wrong_call(rng.choice(tools), rng)
    return corrupted_text(episode.any_action(rng), rng)


def corrupted_text(text: str, rng: Rng) -> str:
    """Return a text in which some characters have been replaced, removed or inserted."""
    for _ in range(1 + rng.below(3)):
        start = rng.below(len(text) + 1)
        end = min(len(text), start + rng.below(4))
        insert = rng.choice((*_CHARS, "", "", text, text.upper(), "9" * 400))
        text = text[:start] + insert + text[end:]
    return text


def wrong_call(tool: Any, rng: Rng) -> str:
    """Return a call of a tool with arguments of wrong types, or without some of them."""
    function = tool.get("function", tool)
    names: Sequence[str] = [*function.get("parameters", {}).get("properties", {}), "no_such_parameter"]
    arguments = {name: rng.choice(_WRONG_VALUES) for name in names if rng.below(4)}
    return json.dumps({"name": function["name"], "arguments": arguments})


def _with_hypothesis(subject: Subject) -> None:
    """Try hypothesis's strings; it shrinks a failing one, which is reported."""
    from hypothesis import HealthCheck, Verbosity, given, seed, settings
    from hypothesis import strategies as st

    env = subject.shared
    words = st.sampled_from(("Action: ", "Action Input: ", "Thought: ", "\n", "[", "]", '{"name": "', '"}', "{", "}"))
    pieces = st.lists(words | st.text(max_size=8) | st.integers(0, 1 << 20), max_size=8)

    @seed(subject.settings.seed)
    @settings(
        max_examples=_STRINGS_PER_EPISODE * subject.settings.episodes, deadline=None, database=None,
        verbosity=Verbosity.quiet, suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
    )  # fmt: skip
    @given(st.integers(0, 5), st.integers(0, 5), st.text() | st.characters(codec=None).map(str) | pieces)
    def try_reply(start: int, steps: int, reply: Any) -> None:
        episode = subject.episode(env)
        episode.reset(subject.seeds(6)[start])
        rng = subject.rng("hypothesis", start, steps)
        episode.wander(rng, steps, nonsense=0)
        # a number among pieces stands for an action that is valid here
        texts = (piece if isinstance(piece, str) else episode.any_action(rng) for piece in reply)
        _try(episode, reply if isinstance(reply, str) else "".join(texts))

    try_reply()
