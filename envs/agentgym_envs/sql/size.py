"""An upper bound on the size that a statement reaches while SQLite prepares it, from its text alone.

SQLite copies a common table expression to every use of its name, and a subquery's expressions to every use of its
columns. `SELECT a+a AS a FROM (SELECT a + a AS a FROM (...))` doubles at each level before a single instruction runs,
so neither the progress handler (before SQLite 3.41) nor the authorizer can stop it. The bound counts every name
anywhere, so it may be too high, but never too low.
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
_MAX_DEPTH, _MAX_PARTS = 100, 30  # an honest question needs less, and more means deep recursion here
_SELECTS = re.compile("select|values", re.IGNORECASE)
_OPENS = frozenset({"select", "with", "values"})
# Words that SQLite takes for a name only in quotes.
_RESERVED = (
    "select from where and or not in is null as on join group order having limit distinct all union intersect except "
    "case when then else between exists using values"
)
_NO_NAMES = frozenset([*_RESERVED.split(), "."])


@dataclass(slots=True)
class _Scope:
    """A SELECT and its names, without those of its subqueries."""

    tokens: int = 1
    names: Counter[str] = field(default_factory=Counter)
    inner: list[_Scope] = field(default_factory=list)


def expanded_size(statement: str) -> float:
    """Return a bound on the size of a statement after expansion; infinite for parts that use each other."""
    if len(_SELECTS.findall(statement)) < 2:  # nothing to expand
        return len(statement)
    top, parts, deepest = _scopes(statement)
    if deepest > _MAX_DEPTH or len(parts) > _MAX_PARTS:
        return math.inf
    sizes: dict[str, float] = {}

    def of_name(name: str, within: tuple[str, ...]) -> float:
        if name not in parts:
            return 0.0
        if name in within:
            return 0.0 if name == within[-1] else math.inf
        if name not in sizes:
            sizes[name] = sum(of_scope(scope, (*within, name)) for scope in parts[name])
        return sizes[name]

    def of_scope(scope: _Scope, within: tuple[str, ...]) -> float:
        inner = sum(of_scope(subquery, within) for subquery in scope.inner)
        names = sum(times * of_name(name, within) for name, times in scope.names.items())
        copies = math.prod(times for _, times in scope.names.most_common(2))
        return scope.tokens + copies * (inner + names)

    return of_scope(top, ())


def _scopes(statement: str) -> tuple[_Scope, dict[str, list[_Scope]], int]:
    """The outermost SELECT, the bodies of common table expressions by name, and the depth of parentheses."""
    top, deepest = _Scope(), 0
    parts: dict[str, list[_Scope]] = {}
    open_scopes, opened_by = [top], [""]  # per parenthesis: the scope inside, and the name before
    before = ["", "", ""]  # the last three words; after `)` the word before its `(`
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
        elif word not in _NO_NAMES and following != ".":  # `t.x` uses only the name x
            scope.names[word] += 1
        before = [*before[-2:], word]
    return top, parts, deepest


def _begin(scope: _Scope, parts: dict[str, list[_Scope]], before: list[str]) -> _Scope:
    """A new scope: the body of `name AS (`, or a subquery of `scope`."""
    new = _Scope()
    words = [word for word in before if word not in ("not", "materialized")]
    if len(words) > 1 and words[-1] == "as":
        parts.setdefault(words[-2], []).append(new)
    else:
        scope.inner.append(new)
    return new


def _words(statement: str) -> Iterator[str]:
    """Names and words in lower case without quotes, and the marks that matter here, without comments."""
    for token in _TOKEN.finditer(statement):
        if token["quoted"]:
            yield token["quoted"][1:-1].lower() or "''"
        elif token["word"] or token["mark"]:
            yield token[0].lower()
