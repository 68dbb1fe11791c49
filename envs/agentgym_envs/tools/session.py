"""The state of an episode: calls on a private database, their answers and the completed subgoals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice, product, starmap
from json.encoder import encode_basestring
from typing import Any

from agentgym_envs.tools.catalogue import CORE, FINISH, SEARCH, UNDO, Find, all_tools, find_tools
from agentgym_envs.tools.database import ConnectionPool, Rows, dump
from agentgym_envs.tools.plans import Call, Key
from agentgym_envs.tools.task_templates import Puzzle
from agentgym_envs.tools.tool import Answer, Parameter, Tool, ToolError, rows_of, to_json

_COLUMNS: Mapping[str, str] = {
    **{name: name for name in ("film_id", "person_id", "paper_id", "author_id", "event_id", "order_id", "product_id")},
    **{"city": "city", "day": "day", "director_id": "person_id", "birthplace": "city", "works_in": "city"},
    **{"ships_to": "city", "parcel_in": "city"},
}
"""Columns of answers to the parameters that take their values."""
_MAX_CALLS = 24
"""The maximum calls of a tool in `actions`."""
_MAX_WORDS = 8
_LONG_WORD = re.compile(r"[A-Za-z]{4,}")
_INTEGER = re.compile(r"-?[0-9]+")
_NUMERIC_ANSWER = re.compile(
    r"(?:(?:the )?answer(?: is|:) |(?:it|that) is |it's )?(-?[0-9]+(?:\.[0-9]+)?)((?: ?[^ .0-9]+(?: [^ 0-9]+){0,2})?)"
)
"""A number, with an optional lead and up to three words without digits after it."""
_WORD = re.compile(r"[^\s.,?!\"']+")
_DENIALS = frozenset(("not", "no", "never"))
_OFFSET = re.compile(r"^utc ?(?=[-+][0-9])")
_HOUR = re.compile(r"[0-9]:[0-9]{2}")
_UNITS: Mapping[str, frozenset[str]] = {
    field: frozenset(units.split())
    for field, units in {
        "population": "people inhabitants residents",
        "elevation_m": "m metre metres meter meters",
        "high_c": "° c °c degree degrees celsius",
        "low_c": "° c °c degree degrees celsius",
        "wind_kmh": "km/h kmh kph km kilometres kilometers per an hour",
        "rain_mm": "mm millimetre millimetres millimeter millimeters",
        "minutes": "min mins minute minutes",
        "freed_minutes": "min mins minute minutes",
        "gross_millions": "m million millions",
        "score": "point points",
        "citations": "citation citations",
        "quantity": "piece pieces",
        "stock": "piece pieces",
        "weight_g": "g gram grams",
    }.items()
}
"""Field to the words of its unit."""
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")


class Session:
    """The state of an episode, which follows from the calls in `log`; `do` makes a call."""

    def __init__(
        self, puzzle: Puzzle, connections: ConnectionPool, instruction: str, find: Find = find_tools,
        retrieved: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Begin an episode.

        Args:
            puzzle: The task.
            connections: The databases.
            instruction: The request.
            find: The search for tools.
            retrieved: Names of the tools on offer beside the search for tools.
        """
        self.puzzle, self._find = puzzle, find
        self.instruction = instruction
        self.log: list[Call] = []
        """The successful calls, in order."""
        self.completed: set[Key] = set()
        """The needed calls that are done."""
        self.active_changes: list[Key] = []
        """The changes that are not undone."""
        self.is_unasked = False
        """Whether the request does not ask for the last change, or that is done already."""
        self.answer: str | None = None
        self.tools = _offered_tools(puzzle, retrieved)
        self._observations: list[str] = []
        self._connections = connections
        self._connection = connections.acquire(puzzle.database)
        self._last: Answer = []
        self._values = {name: {value: _value(value) for value in values} for name, values in puzzle.named.items()}
        """Parameter to the values that calls can take, with their JSON."""
        self._values.setdefault("day", {})[puzzle.database.today.isoformat()] = f'"{puzzle.database.today.isoformat()}"'
        self._calls_of: dict[str, list[str]] = {}
        self._call_list: list[str] | None = None

    def close(self) -> None:
        """Release the database."""
        self._connections.release(self.puzzle.database, self._connection)

    # ---- calls ------------------------------------------------------------------------------------------------------

    def do(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """Make a call and return its answer; a ToolError changes nothing."""
        arguments = tool.check(arguments)
        if tool is UNDO:
            text = self._undo()
        elif tool is SEARCH:
            text = self._search(arguments["query"])
        else:
            text = self._run(tool, arguments)
        self.log.append(Call(tool.name, arguments))
        self._observations.append(text)
        return text

    def _run(self, tool: Tool, arguments: dict[str, Any]) -> str:
        answer = self._change(tool, arguments) if tool.changes else tool.on(self._connection, arguments)
        if tool.name in self.puzzle.names:
            key = Call(tool.name, arguments).key
            if key in self.puzzle.keys:
                self.completed.add(key)
        self._last = answer
        self._note(answer)
        return to_json(answer) if answer else "Nothing found."

    def _change(self, tool: Tool, arguments: dict[str, Any]) -> Answer:
        """Make a change after a savepoint to which `_undo` can return."""
        key = Call(tool.name, arguments).key
        is_asked = key in self.puzzle.changes
        is_done = self.active_changes.count(key) >= self.puzzle.changes.count(key)
        before = self._contents() if is_asked and is_done else []
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN")
        self._connection.execute("SAVEPOINT change")
        try:
            answer = tool.on(self._connection, arguments)
        except ToolError:
            self._connection.execute("RELEASE change")
            raise
        self.active_changes.append(key)
        self.is_unasked = not is_asked or (is_done and self._contents() != before)
        return answer

    def _undo(self) -> str:
        if not self.active_changes:
            raise ToolError("There is no change to take back.")
        self._connection.execute("ROLLBACK TO change")
        self._connection.execute("RELEASE change")
        self._last = []
        name, _ = self.active_changes.pop()
        return f"The last change, {name}, is taken back."

    def _search(self, query: str) -> str:
        self._last = []
        found = {name: all_tools()[name] for name in self._find(query)}
        self.tools.update(found)
        self._call_list = None
        return "\n".join(tool.line for tool in found.values()) or "No tool suits these words."

    def _note(self, answer: Answer) -> None:
        """Record the values that later calls can take."""
        for row in rows_of(answer):
            for column, value in row.items():
                parameter = _COLUMNS.get(column)
                if parameter is None:
                    continue
                values = self._values.setdefault(parameter, {})
                if value not in values:
                    values[value], self._call_list = _value(value), None
                    for name in _tools_with(parameter):
                        self._calls_of.pop(name, None)

    # ---- success ----------------------------------------------------------------------------------------------------

    def is_state_right(self) -> bool:
        """Tell whether the database is in the required final state."""
        if Counter(self.active_changes) == Counter(self.puzzle.changes):
            return True
        return bool(self.active_changes) and self._contents() == self._expected_contents()

    def _contents(self) -> list[Rows]:
        return dump(self._connection)

    def _expected_contents(self) -> list[Rows]:
        connection = self._connections.acquire(self.puzzle.database)
        for call in self.puzzle.calls:
            tool = all_tools()[call.tool]
            if tool.changes:
                tool.on(connection, call.arguments)
        contents = dump(connection)
        self._connections.release(self.puzzle.database, connection)
        return contents

    def has_shown(self, text: str) -> bool:
        """Tell whether the day, the list of tools or an answer contains a text, in any case."""
        lines = (tool.line for tool in self.tools.values())
        return (
            text.casefold()
            in "\n".join((self.puzzle.database.today.isoformat(), *lines, *self._observations)).casefold()
        )

    def is_answer_right(self) -> bool:
        """Tell whether the answer is right."""
        return self.answer is not None and same_answer(
            self.answer, self.puzzle.answer, self.instruction, self.puzzle.field
        )

    # ---- plans and actions ------------------------------------------------------------------------------------------

    def plan(self) -> list[str]:
        """Plan to undo wrong changes, make the missing calls and answer."""
        undos, remaining = self._changes_to_undo()
        plan = [Call(UNDO.name, {}).text] * undos
        tools = set(self.tools)
        for call in self.puzzle.calls:
            if call.key in (remaining if call.key in self.puzzle.changes else self.completed):
                continue
            if call.tool not in tools:
                query = all_tools()[call.tool].purpose
                plan.append(Call(SEARCH.name, {"query": query}).text)
                tools.update(self._find(query))
            plan.append(call.text)
        return [*plan, Call(FINISH.name, {"answer": self.puzzle.answer}).text]

    def note(self, plan: list[str]) -> str:
        """Return what the expert thinks before the first call of a plan; empty before an undo.

        It begins with `First:` if more calls follow, but not before a search for a tool.
        """
        notes = {call.text: note for call, note in zip(self.puzzle.calls, self.puzzle.notes, strict=True)}
        if len(plan) == 1:
            return self.puzzle.answer_note
        if plan[0].startswith(f"{SEARCH.name} "):
            return f"{notes[plan[1]]} I need a tool."
        note = notes.get(plan[0], "")
        return f"First: {note}" if note and len(plan) > 2 else note

    def _changes_to_undo(self) -> tuple[int, set[Key]]:
        """Return how many changes to undo and which of the needed ones then remain."""
        if self.is_state_right():
            return 0, set(self.puzzle.changes)
        right = 0
        for key in self.active_changes:
            if key not in self.puzzle.changes or key in self.active_changes[:right]:
                break
            right += 1
        return len(self.active_changes) - right, set(self.active_changes[:right])

    def actions(self) -> list[str]:
        """List calls with values from the request or an answer, and answers from the request or the last answer."""
        if self.answer is not None:
            return []
        undo = [_UNDO_LINE] if self.active_changes else []
        return self._list_calls() + undo + self._answers() or [_GIVE_UP]

    def _list_calls(self) -> list[str]:
        """List the calls, updated only for tools that take a new value."""
        if self._call_list is None:
            self._call_list = []
            for name, tool in self.tools.items():
                lines = self._calls_of.get(name)
                if lines is None:
                    lines = self._calls_of[name] = self._calls(tool)
                self._call_list += lines
        return self._call_list

    def _calls(self, tool: Tool) -> list[str]:
        if tool is SEARCH:
            words = dict.fromkeys(_LONG_WORD.findall(self.instruction))
            return [Call(SEARCH.name, {"query": word}).text for word in islice(words, _MAX_WORDS)]
        if tool is UNDO or tool is FINISH:
            return []
        values = [_choices(p) or self._values.get(p.name, {}).values() for p in tool.parameters]
        return list(islice(starmap(_call_template(tool).format, product(*values)), _MAX_CALLS))

    def _answers(self) -> list[str]:
        named = (str(value) for values in self.puzzle.named.values() for value in values)
        values = dict.fromkeys((*named, *(str(value) for row in rows_of(self._last) for value in row.values())))
        return [f'finish {{"answer": {encode_basestring(value)}}}' for value in values]


def _offered_tools(puzzle: Puzzle, retrieved: Sequence[str]) -> dict[str, Tool]:
    if puzzle.tools is None:
        found = {name: all_tools()[name] for name in retrieved}
        return {**found, **{tool.name: tool for tool in (SEARCH, UNDO, FINISH)}}
    tools = {name: CORE[name] for name in puzzle.tools}
    if any(tool.changes for tool in tools.values()):
        tools[UNDO.name] = UNDO
    return {**tools, FINISH.name: FINISH}


_UNDO_LINE = Call(UNDO.name, {}).text
_GIVE_UP = Call(FINISH.name, {"answer": "unknown"}).text
"""The only action if there is no other."""


@cache
def _tools_with(parameter: str) -> tuple[str, ...]:
    """Return the tools that take a parameter."""
    return tuple(name for name, tool in CORE.items() if any(p.name == parameter for p in tool.parameters))


@cache
def _call_template(tool: Tool) -> str:
    """Return the format string of a tool's calls."""
    places = ", ".join(f"{encode_basestring(p.name)}: {{}}" for p in tool.parameters)
    return f"{tool.name} {{{{{places}}}}}"


@cache
def _choices(parameter: Parameter) -> tuple[str, ...]:
    return tuple(map(encode_basestring, parameter.choices))


def _value(value: Any) -> str:
    """Write a value as JSON."""
    return str(value) if type(value) is int else encode_basestring(value)


def same_answer(answer: str, expected: str, request: str = "", field: str = "") -> bool:
    """Tell whether an answer has the expected words, or the number (see `_NUMERIC_ANSWER`) in a fitting unit.

    The words of the unit are those of the request or of the answered field.
    """
    text = _normalize(answer)
    if text == _normalize(expected):
        return True
    match = _NUMERIC_ANSWER.fullmatch(_THOUSANDS.sub("", text)) if _INTEGER.fullmatch(expected) else None
    if match is None or float(match[1]) != int(expected):
        return False
    words = set(_WORD.findall(request.casefold())) - _DENIALS
    return set(match[2].split()) <= words | _UNITS.get(field, frozenset())


def _normalize(text: str) -> str:
    """Remove irrelevant differences: case, spaces, quotes, a full stop, `UTC` and the first zero of a time."""
    plain = " ".join(text.casefold().split()).strip(" .\"'")
    return f"0{plain}" if _HOUR.fullmatch(plain) else _OFFSET.sub("", plain)
