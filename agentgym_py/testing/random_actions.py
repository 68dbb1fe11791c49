"""Actions of an agent that does not think: admissible ones, tool calls, words and nonsense."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym_py.env import TextEnv
from agentgym_py.rng import Rng

NONSENSE = "\x00 no such action"
"""A reply that no env accepts as an action."""
_MAX_WORDS = 40


def any_action(env: TextEnv, rng: Rng, observation: str) -> str:
    """Return a random admissible action, else a random tool call, else a word of the observation."""
    admissible = env.actions()
    if admissible:
        return rng.choice(admissible)
    tools = env.tools()
    words = observation.split()[-_MAX_WORDS:] or ["nothing"]
    return random_call(rng.choice(tools), rng, words) if tools else rng.choice(words)


def random_call(tool: Mapping[str, Any], rng: Rng, words: Sequence[str]) -> str:
    """Return a call of a tool with arguments that its schema allows; texts come from `words`."""
    function = tool.get("function", tool)
    schema = function.get("parameters", {})
    required = set(schema.get("required", ()))
    arguments = {
        name: random_value(parameter, rng, words)
        for name, parameter in schema.get("properties", {}).items()
        if name in required or rng.below(2)
    }
    return json.dumps({"name": function["name"], "arguments": arguments}, ensure_ascii=False)


def random_value(schema: Mapping[str, Any], rng: Rng, words: Sequence[str]) -> Any:
    """Return a value that a JSON schema allows, or one of `words` for an unknown type."""
    if schema.get("enum"):
        return rng.choice(schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = rng.choice(kind)
    makers: dict[Any, Callable[[], Any]] = {
        "integer": lambda: rng.below(20),
        "number": lambda: rng.below(200) / 10,
        "boolean": lambda: bool(rng.below(2)),
        "null": lambda: None,
        "array": lambda: [random_value(schema.get("items", {}), rng, words) for _ in range(rng.below(3))],
        "object": dict,
    }
    return makers.get(kind, lambda: rng.choice(words))()
