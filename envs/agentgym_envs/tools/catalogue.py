"""All tools: lookups, changes, the themed ones of difficulty `retrieval`, and the search for tools."""

from __future__ import annotations

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from agentgym_envs.tools.changes import CHANGES
from agentgym_envs.tools.lookups import LOOKUPS, query_row
from agentgym_envs.tools.themes import THEMES, Theme
from agentgym_envs.tools.tool import Answer, Parameter, Run, Tool, ToolError

MAX_FOUND = 5
"""The maximum tools of a search."""
Find = Callable[[str], tuple[str, ...]]
"""Returns the names of the tools that match a query, at most `MAX_FOUND`."""
_WORD = re.compile(r"[a-z]+")
_STOP_WORDS = frozenset(
    ("a", "an", "and", "by", "for", "from", "get", "in", "is", "of", "on", "the", "to", "whose", "with")
)


def _not_run(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
    raise ToolError("The episode does this itself.")


FINISH = Tool(
    "finish",
    "Give the answer, which ends the task",
    (Parameter("answer", "The answer alone: a name, a number, a day or a time."),),
    _not_run,
)
UNDO = Tool("undo_last_change", "Take back your last change to the calendar or the orders", (), _not_run)
SEARCH = Tool(
    "search_tools", f"Find up to {MAX_FOUND} tools by words", (Parameter("query", "What a tool should do."),), _not_run
)

CORE: Mapping[str, Tool] = {tool.name: tool for tool in LOOKUPS + CHANGES}
ORDER: Mapping[str, int] = {name: place for place, name in enumerate(CORE)}
"""The order of tools in listings."""


@cache
def all_tools() -> Mapping[str, Tool]:
    """Return the thousand tools by name."""
    themed = [tool for theme in THEMES for attribute in theme.attributes for tool in _themed_tools(theme, attribute)]
    return {**CORE, **{tool.name: tool for tool in (*themed, UNDO, SEARCH, FINISH)}}


@cache
def searchable() -> Mapping[str, str]:
    """Return the purpose of every tool that a search can find, by name."""
    return {name: tool.purpose for name, tool in all_tools().items() if tool not in (UNDO, SEARCH, FINISH)}


def themed_name(verb: str, noun: str, attribute: str) -> str:
    """Return the name of a themed tool: a verb, a kind of thing and its attribute."""
    return f"{verb}_{noun}_{attribute}".replace(" ", "_")


def _themed_tools(theme: Theme, attribute: str) -> tuple[Tool, ...]:
    noun = theme.noun
    name = Parameter("name", f"The name of a {noun}.")
    limit = Parameter("limit", f"A number of {attribute}.", "integer", minimum=0)
    where = "FROM figures WHERE theme = :theme AND attribute = :attribute"
    column = attribute.replace(" ", "_")

    def bound(sql: str) -> Run:
        def run(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
            row = query_row(
                connection, sql, {"theme": noun, "attribute": attribute, **values}, f"There is no {noun} {{name}}."
            )
            return {column if key == "value" else key: value for key, value in row.items()}

        return run

    def tool(verb: str, purpose: str, sql: str, *parameters: Parameter) -> Tool:
        return Tool(themed_name(verb, noun, attribute), purpose, parameters, bound(sql))

    return (
        tool("get", f"Get the {attribute} of a {noun}", f"SELECT name, value {where} AND name = :name", name),
        tool("top", f"Get the {noun} with the highest {attribute}",
             f"SELECT name, value {where} ORDER BY value DESC LIMIT 1"),
        tool("bottom", f"Get the {noun} with the lowest {attribute}",
             f"SELECT name, value {where} ORDER BY value LIMIT 1"),
        tool("total", f"Get the total {attribute} over every {noun}", f"SELECT sum(value) AS total {where}"),
        tool("count", f"Count the entries of {noun} whose {attribute} is above a limit",
             f"SELECT count(*) AS count {where} AND value > :limit", limit),
    )  # fmt: skip


class Finder:
    """Search by words in names and purposes: BM25 without lengths; equal scores keep the order of tools."""

    def __init__(self, tools: Mapping[str, str]) -> None:
        """Read the purposes of tools by name."""
        self._names = list(tools)
        documents = [Counter(_words(f"{name} {purpose}")) for name, purpose in tools.items()]
        frequencies = Counter(word for words in documents for word in words)
        self._postings: dict[str, list[tuple[int, float]]] = {word: [] for word in frequencies}
        for place, words in enumerate(documents):
            for word, times in words.items():
                weight = math.log(1 + len(documents) / frequencies[word]) * times / (times + 0.8)
                self._postings[word].append((place, weight))

    def find(self, query: str, number: int = MAX_FOUND) -> tuple[str, ...]:
        """Return the names of the best tools; none if no word occurs in any tool."""
        scores: dict[int, float] = {}
        for word in dict.fromkeys(_words(query)):
            for place, weight in self._postings.get(word, ()):
                scores[place] = scores.get(place, 0.0) + weight
        best = sorted(scores, key=lambda place: (-round(scores[place], 9), place))[:number]
        return tuple(self._names[place] for place in best)


def _words(text: str) -> list[str]:
    words = _WORD.findall(text.lower())
    return [word[:-1] if word.endswith("s") and len(word) > 3 else word for word in words if word not in _STOP_WORDS]


@cache
def _finder() -> Finder:
    return Finder(searchable())


@lru_cache(maxsize=4096)
def find_tools(query: str, number: int = MAX_FOUND) -> tuple[str, ...]:
    """Return the names of the best tools that match a query by its words."""
    return _finder().find(query, number)
