"""How large a statement may grow while SQLite prepares it, from its text alone.

SQLite puts a common table expression in wherever its name stands, and a subquery's expressions wherever its columns
stand. `SELECT a+a AS a FROM (SELECT a + a AS a FROM (...))` thus doubles with each line, before a single instruction
runs: neither the progress handler (of SQLite before 3.41) nor the authorizer is asked meanwhile. The bound here may be
too high, never too low: whatever is a name counts, wherever it stands.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|\Z)"
    r"""|(?P<quoted>'(?:[^']|'')*'?|"(?:[^"]|"")*"?|`[^`]*`?|\[[^\]]*\]?)"""
    r"|(?P<word>[^\W\d][\w$]*)|(?P<mark>[()*.])",
    re.DOTALL,
)
_DEEPEST, _MOST_PARTS = 100, 30  # more is no honest question, and would be deep recursion here
_SELECTS = re.compile("select|values", re.IGNORECASE)
_OPENS = frozenset({"select", "with", "values"})
# What SQLite never takes for a name unless it is quoted.
_RESERVED = (
    "select from where and or not in is null as on join group order having limit distinct all union intersect except "
    "case when then else between exists using values"
)
_NO_NAMES = frozenset([*_RESERVED.split(), "."])


@dataclass(slots=True)
class _Scope:
    """A SELECT with what stands in it, its own subqueries apart."""

    tokens: int = 1
    names: Counter[str] = field(default_factory=Counter)
    inner: list[_Scope] = field(default_factory=list)


def grown_size(statement: str) -> float:
    """A bound on the size of a statement once everything is put in; infinite for parts that name each other."""
    if len(_SELECTS.findall(statement)) < 2:  # nothing to put in anywhere
        return len(statement)
    top, parts, deepest = _scopes(statement)
    if deepest > _DEEPEST or len(parts) > _MOST_PARTS:
        return math.inf
    known: dict[str, float] = {}

    def of_name(name: str, within: tuple[str, ...]) -> float:
        if name not in parts:
            return 0.0
        if name in within:
            return 0.0 if name == within[-1] else math.inf
        if name not in known:
            known[name] = sum(of_scope(scope, (*within, name)) for scope in parts[name])
        return known[name]

    def of_scope(scope: _Scope, within: tuple[str, ...]) -> float:
        inner = sum(of_scope(each, within) for each in scope.inner)
        named = sum(times * of_name(name, within) for name, times in scope.names.items())
        most = math.prod(times for _, times in scope.names.most_common(2))
        return scope.tokens + most * (inner + named)

    return of_scope(top, ())


def _scopes(statement: str) -> tuple[_Scope, dict[str, list[_Scope]], int]:
    """The outermost SELECT, the bodies of common table expressions by name, and how deep parentheses go."""
    top, deepest = _Scope(), 0
    parts: dict[str, list[_Scope]] = {}
    open_scopes, opened_by = [top], [""]  # one entry a parenthesis: the scope inside, and the name before it
    before = ["", "", ""]  # the last names and marks; after `)` the name that stood before its `(`
    words = list(_words(statement))
    for position, word in enumerate(words):
        scope = open_scopes[-1]
        scope.tokens += 1
        following = words[position + 1] if position + 1 < len(words) else ""
        if word == "(":
            if following in _OPENS:
                scope = _begin(scope, parts, before)
            open_scopes.append(scope)
            opened_by.append(before[-1])
            deepest = max(deepest, len(open_scopes))
        elif word == ")" and len(open_scopes) > 1:
            open_scopes.pop()
            before = [*before[-2:], opened_by.pop()]
            continue
        elif word not in _NO_NAMES and following != ".":  # `t.x` names x alone
            scope.names[word] += 1
        before = [*before[-2:], word]
    return top, parts, deepest


def _begin(scope: _Scope, parts: dict[str, list[_Scope]], before: list[str]) -> _Scope:
    """A new scope: the body of `name AS (`, or a subquery of `scope`."""
    made = _Scope()
    named = [word for word in before if word not in ("not", "materialized")]
    if len(named) > 1 and named[-1] == "as":
        parts.setdefault(named[-2], []).append(made)
    else:
        scope.inner.append(made)
    return made


def _words(statement: str) -> Iterator[str]:
    """Names and words in lower case, without their quotes, and the marks that matter here; comments are left out."""
    for found in _TOKEN.finditer(statement):
        if found["quoted"]:
            yield found["quoted"][1:-1].lower() or "''"
        elif found["word"] or found["mark"]:
            yield found[0].lower()
