"""What a tool is: a name, typed parameters, and what it does to a database; and the errors an agent can mend."""

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
"""JSON as agents read and write it here."""
_SHOWN = 40
_NEAR = 0.5
"""How alike a name that is not there must be to one that is named for it."""

Answer = dict[str, Any] | list[dict[str, Any]]
"""What a tool answers: one thing or several."""


def rows_of(answer: Answer) -> list[dict[str, Any]]:
    """An answer's rows, of which it may have one."""
    return [answer] if isinstance(answer, dict) else answer


class Refused(Exception):  # noqa: N818  # no error of the program: the tool says no, and the agent reads why
    """A tool cannot do what was asked; the text is for the agent."""


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """One parameter of a tool. Like tools, two are equal only when they are the same, which makes them fast as keys."""

    name: str
    meaning: str
    type: Literal["string", "integer"] = "string"
    form: Literal["", "day", "clock"] = ""
    """A string of a certain form."""
    choices: tuple[str, ...] = ()
    least: int = 1
    most: int = 999_999

    @property
    def kind(self) -> str:
        """Its type in words."""
        return {"day": "a day, yyyy-mm-dd", "clock": "a time, hh:mm"}.get(self.form) or {
            "string": "a string",
            "integer": "an integer",
        }[self.type]

    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        made: dict[str, Any] = {"type": self.type, "description": self.meaning}
        if self.type == "integer":
            made |= {"minimum": self.least, "maximum": self.most}
        if self.choices:
            made["enum"] = list(self.choices)
        if self.form:
            made["pattern"] = f"^{(_DAY if self.form == 'day' else _CLOCK).pattern}$"
        return made

    def check(self, value: Any) -> str | int:
        """The value as a tool takes it; Refused, saying what it should be, if it is none."""
        if self.type == "integer":
            return self._integer(value)
        if not isinstance(value, str):
            raise Refused(f"{self.name} must be {self.kind}, not {_shown(value)}.")
        text = value.strip()
        if not 0 < len(text) <= _LONGEST or not text.isprintable():
            raise Refused(f"{self.name} must be 1 to {_LONGEST} printable characters.")
        if self.choices and text.casefold() not in self.choices:
            raise Refused(f"{self.name} must be one of {', '.join(self.choices)}, not {_shown(value)}.")
        if not _fits(self.form, text):
            raise Refused(f"{self.name} must be {self.kind}, not {_shown(value)}.")
        return text.casefold() if self.choices else text

    def _integer(self, value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise Refused(f"{self.name} must be an integer, not {_shown(value)}.")
        if not self.least <= value <= self.most:
            raise Refused(f"{self.name} must be from {self.least} to {self.most}.")
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
    """The beginning of what an agent wrote, in quotes, fit to be shown."""
    head = text[:_SHOWN]
    return f'"{head}"' if head.isprintable() else json.dumps(head)


def _shown(value: Any) -> str:
    """A wrong value in few words."""
    if isinstance(value, str):
        return f"the string {quoted(value)}"
    if isinstance(value, (Mapping, list)):
        return "an object" if isinstance(value, Mapping) else "a list"
    return json.dumps(value)[:_SHOWN]


Run = Callable[[sqlite3.Connection, Mapping[str, Any]], Answer]


@dataclass(frozen=True, eq=False)
class Tool:
    """One tool."""

    name: str
    does: str
    """What it does, as an imperative without a full stop."""
    parameters: tuple[Parameter, ...]
    run: Run
    """Read or change a database; Refused where that cannot be. Call `on` instead."""
    changes: bool = False
    twins: tuple[str, ...] = ()
    """Tools that look like it."""

    @cached_property
    def line(self) -> str:
        """Name, parameters and purpose in one line."""
        return f"{self.name}({', '.join(each.name for each in self.parameters)}): {self.does}"

    def on(self, connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
        """Do it to a database with checked values; what is changed stays within a transaction."""
        if self.changes and not connection.in_transaction:
            connection.execute("BEGIN")
        return self.run(connection, values)

    def schema(self) -> dict[str, Any]:
        """An OpenAI function tool."""
        return function_tool(self.name, f"{self.does}.", {each.name: each.schema() for each in self.parameters})

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as `run` takes them; Refused, saying what is missing, unknown or of the wrong type."""
        checked = {}
        for each in self.parameters:
            if each.name not in arguments:
                raise Refused(f"{self.name} needs {each.name} ({each.kind}): {each.meaning}")
            checked[each.name] = each.check(arguments[each.name])
        if len(arguments) > len(checked):
            unknown = next(name for name in arguments if name not in checked)
            raise Refused(f"{self.name} takes no {quoted(unknown)}. {self._takes()}")
        return checked

    def _takes(self) -> str:
        return f"It takes {', '.join(each.name for each in self.parameters) or 'nothing: {}'}."


def unknown_tool(name: str, known: list[str]) -> str:
    """What to say of a tool that is not there."""
    if not name:
        return "No tool was named. Write Action: and a tool's name, then Action Input: and its parameters as JSON."
    return f"There is no tool {quoted(name)} here." + did_you_mean(name[:_SHOWN], known, "There are", _NEAR)
