"""Tools: what an agent can call, how arguments are checked and how calls are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgym_envs.service.desk import Desk
from agentgym_py.env.tools import RefusedError, function_tool, one_of

LONGEST = 200
"""Most characters of a text argument."""
_KINDS = {"string": str, "integer": int, "object": dict}


class Verdict(NamedTuple):
    """What the policy says of a change."""

    codes: tuple[str, ...]
    """The rules that forbid it; empty if it is allowed."""
    why: str
    """The facts that decide, for the thought of a teacher."""


def verdict(*checks: tuple[bool, str, str]) -> Verdict:
    """Return the verdict of checks: whether a rule forbids the change, its name, and the facts.

    A forbidden change is explained by the facts of the first rule that forbids it, an allowed one by all facts.
    """
    codes = tuple(code for forbids, code, _ in checks if forbids)
    facts = [fact for forbids, _, fact in checks if fact and (forbids or not codes)]
    return Verdict(codes, facts[0] if codes else "; ".join(dict.fromkeys(facts)))


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of a company, or one for talking."""

    name: str
    purpose: str
    """One sentence."""
    parameters: Mapping[str, Mapping[str, Any]]
    """Parameter to its JSON schema; all are needed."""
    run: Callable[..., str] | None = None
    """Takes the desk and the arguments by name, returns the observation; None for a tool that talks."""
    judge: Callable[..., Verdict] | None = None
    """Takes the desk and the arguments by name; only changes have one."""
    about: tuple[str, str] = ("", "")
    """The parameter that names a row, and its table; the row belongs to a customer."""
    computed: tuple[str, ...] = ()
    """Parameters that the agent computes, so that the customer does not compare them."""

    @property
    def signature(self) -> str:
        """Return the tool as the first observation lists it."""
        return f"{self.name}({', '.join(self.parameters)})"

    def schema(self) -> dict[str, Any]:
        """Return the tool as an OpenAI function."""
        return function_tool(self.name, self.purpose, self.parameters)

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments in the order of the parameters; RefusedError if one is missing, unknown or wrong."""
        for name in arguments:
            if name not in self.parameters:
                raise RefusedError(f"{self.name} takes no {name[:40]!r}; it is {self.signature}.")
        for name, schema in self.parameters.items():
            if name not in arguments:
                raise RefusedError(f"{self.name} needs {name!r}{one_of(schema)}; it is {self.signature}.")
        return {name: _checked(name, arguments[name], schema) for name, schema in self.parameters.items()}

    def owner(self, desk: Desk, arguments: Mapping[str, Any]) -> str | None:
        """Return the customer to whom the row of a call belongs; None if it belongs to no one."""
        parameter, table = self.about
        if not parameter:
            return None
        rid = arguments[parameter]
        return str(rid if table == "customers" else desk.get(table, rid)["customer"])


def _checked(name: str, value: object, schema: Mapping[str, Any]) -> Any:
    kind = _KINDS[schema["type"]]
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind is int and isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:18])
    if kind is str and type(value) is int and abs(value) < 10**18:
        value = str(value)
    if type(value) is not kind:
        raise RefusedError(f"{name!r} must be of type {schema['type']}.")
    if isinstance(value, int) and not 0 <= value < 10**6:
        raise RefusedError(f"{name!r} must be from 0 to 999999.")
    if isinstance(value, str):
        value = " ".join(value[: 2 * LONGEST].split())
        if not 0 < len(value) <= LONGEST:
            raise RefusedError(f"{name!r} must have 1 to {LONGEST} characters.")
    if "enum" in schema:
        value = {plain(choice): choice for choice in schema["enum"]}.get(plain(str(value)))
    if value is None:
        raise RefusedError(f"{name!r} must be one of {', '.join(schema['enum'])}.")
    return value


def plain(text: str) -> str:
    """Return a text in the form in which arguments are compared: in one case, without `#` before and a stop after."""
    return text.removeprefix("#").removesuffix(".").casefold()


def text(description: str, *choices: str) -> dict[str, Any]:
    """Return the schema of a text."""
    return {"type": "string", "description": description, **({"enum": list(choices)} if choices else {})}


def whole(description: str) -> dict[str, Any]:
    """Return the schema of a whole number."""
    return {"type": "integer", "description": description}
