"""How the fair expert finds the tables and columns that a question means: by names, by links, else by a look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agentgym_envs.sql.tables import Layout

_ADDED = {
    "all", "at", "by", "code", "count", "data", "in", "is", "list", "name", "no", "num", "number", "of", "on", "table",
    "the", "to", "total",
}  # fmt: skip
"""Parts of names of tables and columns that say nothing about what they hold."""
_ENDINGS = (("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("s", ""))


@dataclass(frozen=True, slots=True)
class Mention:
    """A column that a question speaks of."""

    level: int
    """Place of its table in the chain of three."""
    kind: Literal["choice", "amount"]
    about: str
    """What the question says of it: `role keeper`."""


@dataclass(frozen=True, slots=True)
class Look:
    """A column whose values the fair expert looks at."""

    table: str
    column: str
    about: str
    """Why: what the question says of this column, or of another one that it may be."""
    is_known: bool
    """Whether only its notation is open; False: whether the question means this column is."""

    @property
    def statement(self) -> str:
        """The query that shows the values."""
        return f"SELECT DISTINCT {self.column} FROM {self.table}"


def stems(text: str) -> frozenset[str]:
    """Return the words of a text or a name in lower case, in the singular."""
    words = "".join(letter if letter.isalnum() else " " for letter in text.lower()).split()
    return frozenset(_singular(word) for word in words) - _ADDED


def _singular(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word[: -len(ending)] + instead
    return word


def table_note(layout: Layout, level: int, word: str) -> str:
    """Return which table a word means, and how one can tell: by its name, by a link to it, or as the rest."""
    entity, table = layout.domain.entities[level], layout.names[level].table
    if stems(table) & stems(f"{entity.singular} {entity.plural}"):
        return f"{word} = {table}"
    if level + 1 < len(layout.names):
        child = layout.names[level + 1]
        return f"{child.link} in {child.table}: {word} = {table}"
    return f"the rest: {word} = {table}"


def looks_for(layout: Layout, mentions: Sequence[Mention], text: str) -> list[Look]:
    """Return the looks after which each column is known: it is named, its values fit, or no other is left.

    Of a training database's further column of the same kind, the meaning is taken as known.
    """
    looks: list[Look] = []
    known = {(mention.level, _column(layout, mention)) for mention in mentions if _is_named(layout, mention, text)}
    for mention in mentions:
        names, column = layout.names[mention.level], _column(layout, mention)
        if (mention.level, column) in known:
            continue
        others = ("id", names.label, names.link)
        left = [each for each in names.columns() if each not in others and (mention.level, each) not in known]
        for candidate in left[: min(left.index(column) + 1, len(left) - 1)]:
            looks.append(Look(names.table, candidate, mention.about, is_known=False))
            known.add((mention.level, candidate))
        known.add((mention.level, column))
    return looks


def _column(layout: Layout, mention: Mention) -> str:
    names = layout.names[mention.level]
    return names.choice if mention.kind == "choice" else names.amount


def _is_named(layout: Layout, mention: Mention, text: str) -> bool:
    """Return whether the question has a word of the column's name that is not the table's."""
    entity = layout.domain.entities[mention.level]
    noun = entity.choice.noun if mention.kind == "choice" else f"{entity.amount.noun} {entity.amount.units}"
    own = stems(_column(layout, mention)) - stems(f"{entity.singular} {entity.plural}")
    return bool(own & stems(noun) & stems(text))
