"""One episode: calls on a database of its own, what they have shown, and how far the errand has come."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import islice, product, starmap
from json.encoder import encode_basestring
from typing import Any

from agentgym_envs.tools.catalogue import CORE, FINISH, SEARCH, UNDO, all_tools, find_tools
from agentgym_envs.tools.plans import Call, Key
from agentgym_envs.tools.task_templates import Errand
from agentgym_envs.tools.tool import Answer, Parameter, Refused, Tool, rows_of, to_json
from agentgym_envs.tools.world import Desk, Rows, dump

_COLUMNS: Mapping[str, str] = {
    **{name: name for name in ("film_id", "person_id", "paper_id", "author_id", "event_id", "order_id", "product_id")},
    **{"city": "city", "day": "day", "director_id": "person_id", "birthplace": "city", "works_in": "city"},
    **{"ships_to": "city", "parcel_in": "city"},
}
"""The columns of answers whose values calls can take, and the parameters that take them."""
_MOST_LISTED = 24
"""Calls of one tool that are listed at a time."""
_MOST_WORDS = 8
_LONG_WORD = re.compile(r"[A-Za-z]{4,}")
_WHOLE = re.compile(r"-?[0-9]+")
_SAID = re.compile(r"(?:(?:the )?answer(?: is|:) |(?:it|that) is |it's )?(-?[0-9]+(?:\.[0-9]+)?)((?: [^ 0-9]+){0,3})")
"""A number, perhaps with a short lead before it and up to three words without digits after it."""
_WORD = re.compile(r"[^\s.,?!\"']+")
_DENIALS = frozenset(("not", "no", "never"))
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")


class Session:
    """The state of an episode. Calls are made with `do`; all of it follows from `log`."""

    def __init__(self, errand: Errand, desk: Desk, instruction: str) -> None:
        self.errand = errand
        self.instruction = instruction
        self.log: list[Call] = []
        """The calls that worked, in order."""
        self.met: set[Key] = set()
        """The needed calls that were made."""
        self.standing: list[Key] = []
        """The changes that were made and not taken back."""
        self.answer: str | None = None
        self.tools = _offered(errand)
        self._said: list[str] = []
        self._desk = desk
        self._connection = desk.lend(errand.world)
        self._last: Answer = []
        self._shown = {name: {value: _value(value) for value in values} for name, values in errand.named.items()}
        """By parameter what further calls can take, with its JSON."""
        self._shown.setdefault("day", {})[errand.world.today.isoformat()] = f'"{errand.world.today.isoformat()}"'
        self._lines: dict[str, list[str]] = {}
        self._whole: list[str] | None = None

    def close(self) -> None:
        """Give the database back."""
        self._desk.take_back(self.errand.world, self._connection)

    # ---- calls ------------------------------------------------------------------------------------------------------

    def do(self, tool: Tool, given: Mapping[str, Any]) -> str:
        """Make a call and return what it says; Refused where it cannot be made, and nothing has changed then."""
        arguments = tool.check(given)
        if tool is UNDO:
            text = self._undo()
        elif tool is SEARCH:
            text = self._search(arguments["query"])
        else:
            text = self._run(tool, arguments)
        self.log.append(Call(tool.name, arguments))
        self._said.append(text)
        return text

    def _run(self, tool: Tool, arguments: dict[str, Any]) -> str:
        answer = self._changed(tool, arguments) if tool.changes else tool.on(self._connection, arguments)
        if tool.name in self.errand.names:
            key = Call(tool.name, arguments).key
            if key in self.errand.keys:
                self.met.add(key)
        self._last = answer
        self._note(answer)
        return to_json(answer) if answer else "Nothing found."

    def _changed(self, tool: Tool, arguments: dict[str, Any]) -> Answer:
        """Make a change behind a mark that `_undo` can return to."""
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN")
        self._connection.execute("SAVEPOINT change")
        try:
            answer = tool.on(self._connection, arguments)
        except Refused:
            self._connection.execute("RELEASE change")
            raise
        self.standing.append(Call(tool.name, arguments).key)
        return answer

    def _undo(self) -> str:
        if not self.standing:
            raise Refused("There is no change to take back.")
        self._connection.execute("ROLLBACK TO change")
        self._connection.execute("RELEASE change")
        self._last = []
        name, _ = self.standing.pop()
        return f"The last change, {name}, is taken back."

    def _search(self, query: str) -> str:
        self._last = []
        found = find_tools(query)
        known = all_tools()
        for name in found:
            self.tools[name] = known[name]
        self._whole = None
        return "\n".join(known[name].line for name in found) or "No tool suits these words."

    def _note(self, answer: Answer) -> None:
        """Remember what further calls can take."""
        for row in rows_of(answer):
            for column, value in row.items():
                parameter = _COLUMNS.get(column)
                if parameter is None:
                    continue
                shown = self._shown.setdefault(parameter, {})
                if value not in shown:
                    shown[value], self._whole = _value(value), None
                    for name in _takers(parameter):
                        self._lines.pop(name, None)

    # ---- judgement --------------------------------------------------------------------------------------------------

    def state_is_right(self) -> bool:
        """Whether the database is as it should be in the end."""
        if Counter(self.standing) == Counter(self.errand.changes):
            return True
        return bool(self.standing) and self._contents() == self._wanted()

    def _contents(self) -> list[Rows]:
        return dump(self._connection)

    def _wanted(self) -> list[Rows]:
        connection = self._desk.lend(self.errand.world)
        for call in self.errand.calls:
            tool = all_tools()[call.tool]
            if tool.changes:
                tool.on(connection, call.arguments)
        wanted = dump(connection)
        self._desk.take_back(self.errand.world, connection)
        return wanted

    def has_said(self, text: str) -> bool:
        """Whether the day, the list of tools or what they have answered holds a text, in any case."""
        lines = (tool.line for tool in self.tools.values())
        return text.casefold() in "\n".join((self.errand.world.today.isoformat(), *lines, *self._said)).casefold()

    def answer_is_right(self) -> bool:
        """Whether the answer given is the one wanted."""
        return self.answer is not None and same_answer(self.answer, self.errand.answer, self.instruction)

    # ---- what could be done -----------------------------------------------------------------------------------------

    def plan(self) -> list[str]:
        """Take back what is wrong, make the calls that are missing, answer."""
        spoiled, kept = self._spoiled()
        plan = [Call(UNDO.name, {}).text] * spoiled
        found = set(self.tools)
        for call in self.errand.calls:
            if call.key in (kept if call.key in self.errand.changes else self.met):
                continue
            if call.tool not in found:
                query = all_tools()[call.tool].does
                plan.append(Call(SEARCH.name, {"query": query}).text)
                found.update(find_tools(query))
            plan.append(call.text)
        return [*plan, Call(FINISH.name, {"answer": self.errand.answer}).text]

    def _spoiled(self) -> tuple[int, set[Key]]:
        """How many changes must be taken back, and which of those wanted then stand."""
        if self.state_is_right():
            return 0, set(self.errand.changes)
        right = 0
        for key in self.standing:
            if key not in self.errand.changes or key in self.standing[:right]:
                break
            right += 1
        return len(self.standing) - right, set(self.standing[:right])

    def actions(self) -> list[str]:
        """Calls with values that the request or an answer has shown; answers with those of the request or the last."""
        if self.answer is not None:
            return []
        undo = [_UNDO_LINE] if self.standing else []
        return self._listed() + undo + self._answers() or [_GIVE_UP]

    def _listed(self) -> list[str]:
        """The calls; rewritten only for tools that can take what is new."""
        if self._whole is None:
            self._whole = []
            for name, tool in self.tools.items():
                lines = self._lines.get(name)
                if lines is None:
                    lines = self._lines[name] = self._calls(tool)
                self._whole += lines
        return self._whole

    def _calls(self, tool: Tool) -> list[str]:
        if tool is SEARCH:
            words = dict.fromkeys(_LONG_WORD.findall(self.instruction))
            return [Call(SEARCH.name, {"query": word}).text for word in islice(words, _MOST_WORDS)]
        if tool is UNDO or tool is FINISH:
            return []
        values = [_choices(each) or self._shown.get(each.name, {}).values() for each in tool.parameters]
        return list(islice(starmap(_form(tool).format, product(*values)), _MOST_LISTED))

    def _answers(self) -> list[str]:
        named = (str(value) for values in self.errand.named.values() for value in values)
        values = dict.fromkeys((*named, *(str(value) for row in rows_of(self._last) for value in row.values())))
        return [f'finish {{"answer": {encode_basestring(value)}}}' for value in values]


def _offered(errand: Errand) -> dict[str, Tool]:
    if errand.tools is None:
        return {tool.name: tool for tool in (SEARCH, UNDO, FINISH)}
    tools = {name: CORE[name] for name in errand.tools}
    if any(tool.changes for tool in tools.values()):
        tools[UNDO.name] = UNDO
    return {**tools, FINISH.name: FINISH}


_UNDO_LINE = Call(UNDO.name, {}).text
_GIVE_UP = Call(FINISH.name, {"answer": "unknown"}).text
"""What is listed where nothing else can be."""


@cache
def _takers(parameter: str) -> tuple[str, ...]:
    """The tools that take a parameter."""
    return tuple(name for name, tool in CORE.items() if any(each.name == parameter for each in tool.parameters))


@cache
def _form(tool: Tool) -> str:
    """A call of the tool, with places for the values."""
    places = ", ".join(f"{encode_basestring(each.name)}: {{}}" for each in tool.parameters)
    return f"{tool.name} {{{{{places}}}}}"


@cache
def _choices(parameter: Parameter) -> tuple[str, ...]:
    return tuple(map(encode_basestring, parameter.choices))


def _value(value: Any) -> str:
    """A value as it stands in JSON."""
    return str(value) if type(value) is int else encode_basestring(value)


def same_answer(given: str, wanted: str, request: str = "") -> bool:
    """Whether an answer says what is wanted: the same words, or the number, see `_SAID`, in a unit that was named."""
    said = _plain(given)
    if said == _plain(wanted):
        return True
    found = _SAID.fullmatch(_THOUSANDS.sub("", said)) if _WHOLE.fullmatch(wanted) else None
    if found is None or float(found[1]) != int(wanted):
        return False
    return set(found[2].split()) <= set(_WORD.findall(request.casefold())) - _DENIALS


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .\"'")
