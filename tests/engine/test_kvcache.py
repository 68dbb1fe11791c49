"""The slot cache: beginnings of slots copied all at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from agentgym_py.engine.kvcache import Move, SlotCache  # needs torch

SLOTS, LENGTH = 7, 5
MOVES = st.lists(
    st.tuples(st.integers(0, SLOTS - 1), st.integers(0, SLOTS - 1), st.integers(0, LENGTH)),
    unique_by=lambda move: move[1],
)


@given(MOVES)
@settings(max_examples=300, deadline=None)
def test_slots_are_copied_all_at_once(moves: list[tuple[int, int, int]]) -> None:
    """Chains, rings, one slot to several: each target begins with what its source held before; the rest stays."""
    cache = SlotCache(SLOTS)
    before = torch.arange(SLOTS * 2 * LENGTH * 3).reshape(SLOTS, 2, LENGTH, 3)
    cache.keys[0], cache.values[0] = before.clone(), -before
    cache.copy([Move(*move) for move in moves])
    expected = before.clone()
    for source, target, length in moves:
        expected[target, :, :length] = before[source, :, :length]
    assert torch.equal(cache.keys[0], expected) and torch.equal(cache.values[0], -expected)
