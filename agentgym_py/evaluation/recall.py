"""Recall of a search for tools: the share of the needed tools among the first k that it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_py.errors import ConfigError
from agentgym_py.evaluation.stats import Estimate, bootstrap_mean, success_rate
from agentgym_py.retrieval.types import Searcher, ToolQuery

KS = (1, 5, 10)
"""Numbers of tools found for which recall is measured."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Recall over Q queries, each with its 95 % interval, by k."""

    queries: int
    at: dict[int, Estimate]
    """Mean share of a query's needed tools among the first k."""
    all_at: dict[int, Estimate]
    """Share of queries with all needed tools among the first k."""


def recall(searcher: Searcher, queries: Sequence[ToolQuery], ks: Sequence[int] = KS) -> Recall:
    """Measure the recall of a search.

    Raises:
        ConfigError: there is no query.
    """
    if not queries:
        raise ConfigError("recall needs at least one query")
    found = searcher.search([query.text for query in queries], max(ks))
    needed = [{*query.tools} for query in queries]
    at, all_at = dict[int, Estimate](), dict[int, Estimate]()
    for k in ks:
        shares = [len(tools & {*names[:k]}) / len(tools) for tools, names in zip(needed, found, strict=True)]
        at[k] = bootstrap_mean(shares)
        all_at[k] = success_rate([share == 1 for share in shares], range(len(shares)))
    return Recall(len(queries), at, all_at)
