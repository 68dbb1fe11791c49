"""Recall of a search for tools."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentgym_py.errors import ConfigError
from agentgym_py.evaluation.recall import recall
from agentgym_py.retrieval import ToolQuery


class Fixed:
    """Finds the same tools for every text."""

    def search(self, texts: Sequence[str], k: int) -> list[list[str]]:
        return [list("abcd")[:k] for _ in texts]


def test_recall_is_the_share_of_needed_tools() -> None:
    """And of queries that have all of them."""
    queries = [ToolQuery("x", ("a",)), ToolQuery("y", ("a", "c")), ToolQuery("z", ("e",)), ToolQuery("z", ("b", "e"))]
    found = recall(Fixed(), queries, ks=[1, 2, 3])
    assert found.queries == 4
    assert {k: rate.value for k, rate in found.at.items()} == {1: 1.5 / 4, 2: 2 / 4, 3: 2.5 / 4}
    assert {k: rate.value for k, rate in found.all_at.items()} == {1: 1 / 4, 2: 1 / 4, 3: 2 / 4}
    with pytest.raises(ConfigError, match="at least one query"):
        recall(Fixed(), [])
