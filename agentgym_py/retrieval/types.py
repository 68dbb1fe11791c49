"""What retrieval knows of a world: its tools, and requests with the tools that they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ToolQuery:
    """A text, and the tools that it needs."""

    text: str
    tools: tuple[str, ...]
    """Names, at least one."""
    is_part: bool = False
    """Whether the text is the part of a request that one call is for."""


@runtime_checkable
class ToolSource(Protocol):
    """A world whose tools can be searched."""

    def tool_texts(self) -> Mapping[str, str]:
        """Return a text for each tool by name: what it does."""
        ...

    def tool_queries(self, split: str, tasks: Iterable[int]) -> Iterator[ToolQuery]:
        """Yield what these tasks of a split ask for; a task may have several queries, or none if it needs no tool."""
        ...


def document_of(name: str, text: str) -> str:
    """Return what is read of a tool: the words of its name, and its text."""
    return f"{name} {text}"


class Searcher(Protocol):
    """Finds tools for a text."""

    def search(self, texts: Sequence[str], k: int) -> list[list[str]]:
        """Return the names of the k best tools for each text, the best first; fewer if fewer suit at all."""
        ...
