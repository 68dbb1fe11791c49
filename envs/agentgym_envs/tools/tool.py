"""Tools: a name, typed parameters and a function of a database; and errors that an agent can correct."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Literal

from agentgym_py.env import function_tool
from agentgym_py.errors import did_you_mean

_CLOCK = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LONGEST = 200
to_json = json.JSONEncoder(ensure_ascii=False).encode
"""The JSON of calls and answers."""
_MAX_SHOWN = 40
_MIN_SIMILARITY = 0.5
"""The least similarity of a suggested name to an unknown one."""

Answer = dict[str, Any] | list[dict[str, Any]]
"""A tool's answer: one row or several."""


def rows_of(answer: Answer) -> list[dict[str, Any]]:
    """Return an answer's rows as a list."""
    return [answer] if isinstance(answer, dict) else answer


class ToolError(Exception):
    """A tool cannot do what was asked; the agent reads the message."""


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """A parameter of a tool. Like tools, parameters are compared by identity, which makes them fast as keys."""

    name: str
    meaning: str
    type: Literal["string", "integer"] = "string"
    form: Literal["", "day", "clock"] = ""
    """The form of a string."""
    choices: tuple[str, ...] = ()
    minimum: int = 1
    maximum: int = 999_999

    @property
    def kind(self) -> str:
        """Describe the type in words."""
        return {"day": "a day, yyyy-mm-dd", "clock": "a time, hh:mm"}.get(self.form) or {
            "string": "a string",
            "integer": "an integer",
        }[self.type]

    def schema(self) -> dict[str, Any]:
        """Return its JSON schema."""
        schema: dict[str, Any] = {"type": self.type, "description": self.meaning}
        if self.type == "integer":
            schema |= {"minimum": self.minimum, "maximum": self.maximum}
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.form:
            schema["pattern"] = f"^{(_DAY if self.form == 'day' else _CLOCK).pattern}$"
        return schema

    def check(self, value: Any) -> str | int:
        """Validate and convert a value; ToolError says what it should be."""
        if self.type == "integer":
            return self._integer(value)
        if not isinstance(value, str):
            raise ToolError(f"{self.name} must be {self.kind}, not {_short(value)}.")
        text = value.strip()
        if not 0 < len(text) <= _LONGEST or not text.isprintable():
            raise ToolError(f"{self.name} must be 1 to {_LONGEST} printable characters.")
        if self.choices and text.casefold() not in self.choices:
            raise ToolError(f"{self.name} must be one of {', '.join(self.choices)}, not {_short(value)}.")
        if not _fits(self.form, text):
            raise ToolError(f"{self.name} must be {self.kind}, not {_short(value)}.")
        return text.casefold() if self.choices else text

    def _integer(self, value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise ToolError(f"{self.name} must be an integer, not {_short(value)}.")
        if not self.minimum <= value <= self.maximum:
            raise ToolError(f"{self.name} must be from {self.minimum} to {self.maximum}.")
        return value


def _fits(form: str, text: str) -> bool:
    if form == "clock":
        return _CLOCK.fullmatch(text) is not None
    if form != "day":
        return True
    if not _DAY.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def quoted(text: str) -> str:
    """Quote the beginning of an agent's text for a message."""
    head = text[:_MAX_SHOWN]
    return f'"{head}"' if head.isprintable() else json.dumps(head)


def _short(value: Any) -> str:
    """Describe a wrong value briefly."""
    if isinstance(value, str):
        return f"the string {quoted(value)}"
    if isinstance(value, (Mapping, list)):
        return "an object" if isinstance(value, Mapping) else "a list"
    return json.dumps(value)[:_MAX_SHOWN]


Run = Callable[[sqlite3.Connection, Mapping[str, Any]], Answer]


@dataclass(frozen=True, eq=False)
class Tool:
    """A tool."""

    name: str
    purpose: str
    """An imperative without a full stop."""
    parameters: tuple[Parameter, ...]
    run: Run
    """Reads or changes a database or raises ToolError; call it through `on`."""
    changes: bool = False
    twins: tuple[str, ...] = ()
    """Similar tools."""

    @cached_property
    def line(self) -> str:
        """Name, parameters and purpose in one line."""
        return f"{self.name}({', '.join(p.name for p in self.parameters)}): {self.purpose}"

    def on(self, connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
        """Run it on a database with checked values; changes stay within a transaction."""
        if self.changes and not connection.in_transaction:
            connection.execute("BEGIN")
        return self.run(connection, values)

    def schema(self) -> dict[str, Any]:
        """Return an OpenAI function tool."""
        return function_tool(self.name, f"{self.purpose}.", {p.name: p.schema() for p in self.parameters})

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Validate arguments; ToolError says what is missing, unknown or of the wrong type."""
        checked = {}
        for parameter in self.parameters:
            name = parameter.name
            if name not in arguments:
                raise ToolError(f"{self.name} needs {name} ({parameter.kind}): {parameter.meaning}")
            checked[name] = parameter.check(arguments[name])
        if len(arguments) > len(checked):
            unknown = next(name for name in arguments if name not in checked)
            raise ToolError(f"{self.name} takes no {quoted(unknown)}. {self._takes()}")
        return checked

    def _takes(self) -> str:
        return f"It takes {', '.join(p.name for p in self.parameters) or 'nothing: {}'}."


def unknown_tool(name: str, tools: list[str]) -> str:
    """Return the error for an unknown tool."""
    if not name:
        return "No tool was named. Write Action: and a tool's name, then Action Input: and its parameters as JSON."
    return f"There is no tool {quoted(name)} here." + did_you_mean(
        name[:_MAX_SHOWN], tools, "There are", _MIN_SIMILARITY
    )
