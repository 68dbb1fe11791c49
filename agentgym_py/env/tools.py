"""The tools of worlds: their JSON schemas, the check of a call, and how it is written as an action."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from agentgym_py.errors import did_you_mean

T = TypeVar("T")
Schema = Mapping[str, Any]
"""The JSON schema of a parameter."""
CALL_FORM = 'Answer in this form:\nThought: why\nAction: tool\nAction Input: {"argument": "value"}'
"""How an agent writes a call of a tool."""
_LONGEST_CACHED = 200


class RefusedError(Exception):
    """An action that cannot be done; the message is the observation, and nothing has changed."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that reads or changes what a world consists of, its subject: a workbook, an application."""

    name: str
    purpose: str
    """One sentence."""
    run: Callable[..., str]
    """Takes the subject and the arguments by name; returns the observation or raises RefusedError."""
    check_argument: Callable[[str, Any, Schema], Any]
    """Takes the name, value and schema of an argument; returns the value to use or raises RefusedError."""
    needs: Mapping[str, Schema]
    takes: Mapping[str, Schema]
    """The optional parameters."""

    def __str__(self) -> str:
        return f"{self.signature}: {self.purpose}"

    @property
    def signature(self) -> str:
        """Return the tool's signature in the rules."""
        return f"{self.name}({', '.join([*self.needs, *(f'{name}?' for name in self.takes)])})"

    def schema(self) -> dict[str, Any]:
        """Return the tool as an OpenAI function."""
        properties = {name: dict(schema) for name, schema in {**self.needs, **self.takes}.items()}
        return function_tool(self.name, self.purpose, properties, list(self.needs))

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments to use; RefusedError if one is missing, unknown or wrong."""
        values: dict[str, Any] = {}
        for name, value in arguments.items():
            schema = self.needs.get(name) or self.takes.get(name)
            if schema is None:
                raise RefusedError(f"{self.name} takes no {name[:40]!r}; it is {self.signature}.")
            values[name] = self.check_argument(name, value, schema)
        for name, schema in self.needs.items():
            if name not in values:
                raise RefusedError(f"{self.name} needs {name!r}{one_of(schema)}; it is {self.signature}.")
        return values

    def call(self, subject: object, arguments: Mapping[str, Any]) -> str:
        """Make a call and return its observation; RefusedError if it cannot be done."""
        return self.run(subject, **self.check(arguments))


def make_tool(
    run: Callable[..., str], purpose: str, needs: str = "", takes: str = "", *, schemas: Mapping[str, Schema],
    check_argument: Callable[[str, Any, Schema], Any],
) -> Tool:  # fmt: skip
    """Make a tool of a function, with the names of its needed and optional parameters separated by spaces."""
    needed, optional = ({name: schemas[name] for name in names.split()} for names in (needs, takes))
    return Tool(run.__name__, purpose, run, check_argument, needed, optional)


def one_of(schema: Schema) -> str:
    """Return the choices of a parameter for an error; empty if it has none."""
    return f", one of {', '.join(map(str, schema['enum']))}" if "enum" in schema else ""


def require_tool(name: str, tools: Mapping[str, T]) -> T:
    """Return a tool; RefusedError if there is none. The hints' similarity is fixed, because it is part of the world."""
    if name not in tools:
        raise RefusedError(f"No tool {name[:40]!r}." + did_you_mean(name[:40], tools, "There are", 0.5))
    return tools[name]


def rules_of_tools(instruction: str, terms: str, tools: Mapping[str, Tool]) -> dict[str, str]:
    """Return the rules texts, by prompt, of a world whose actions are calls of these tools."""
    listed = map(str, tools.values())
    return {
        "full": "\n".join([instruction, terms, "Tools (? may be left out):", *listed, CALL_FORM]),
        "brief": f"{instruction} Tools: {', '.join(tool.signature for tool in tools.values())}.",
        "none": "",
    }


def function_tool(
    name: str, description: str, properties: Mapping[str, Schema], required: Sequence[str] | None = None
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


def format_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Write a call as an action, with the arguments on a second line."""
    return f"{name}\nAction Input: {format_arguments(arguments)}" if arguments else name


def format_arguments(arguments: Mapping[str, Any]) -> str:
    """Write arguments as `json.dumps(arguments, ensure_ascii=False)` does, at a quarter of its cost."""
    return f"{{{', '.join([f'{_quoted(name)}: {_format(value)}' for name, value in arguments.items()])}}}"


def _format(value: Any) -> str:
    if type(value) is str and len(value) <= _LONGEST_CACHED:
        return _quoted(value)
    return format_arguments(value) if isinstance(value, dict) else json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=4_000)
def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
