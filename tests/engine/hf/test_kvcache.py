"""The slot cache: beginnings of slots copied all at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from agentgym_py.engine.hf.kvcache import Move, Size, SlotCache, count_tokens, sizes_of, slot_of  # needs torch

SLOTS, LENGTH = 7, 5
MOVES = st.lists(
    st.tuples(st.integers(0, SLOTS - 1), st.integers(0, SLOTS - 1), st.integers(0, LENGTH)),
    unique_by=lambda move: move[1],
)


@given(MOVES)
@settings(max_examples=100, deadline=None)
def test_slots_are_copied_all_at_once(moves: list[tuple[int, int, int]]) -> None:
    """Chains, rings, one slot to several: each target begins with what its source held before; the rest stays."""
    cache = SlotCache(SLOTS)
    before = torch.arange(SLOTS * 2 * LENGTH * 3).reshape(SLOTS, 2, LENGTH, 3)
    cache.keys[0], cache.values[0] = [before.clone()], [-before]
    cache.copy([Move(*move) for move in moves])
    expected = before.clone()
    for source, target, length in moves:
        expected[target, :, :length] = before[source, :, :length]
    assert torch.equal(cache.keys[0][0], expected) and torch.equal(cache.values[0][0], -expected)


def test_a_block_is_as_large_as_its_longest_episode() -> None:
    """One long episode enlarges its own block only, and slots that were never used take no memory."""
    needs = [70] * 16 + [5000] + [0] * 40
    assert sizes_of(needs) == [Size(16, 128), Size(1, 5120), Size(0, 0), Size(0, 0)]
    assert count_tokens(sizes_of(needs)) == 16 * 128 + 5120


def test_rebuilt_slots_keep_what_moves_name() -> None:
    """A rebuild changes places and sizes at once, keeps the named prefixes, and frees the rest."""
    cache = SlotCache(20)
    cache.reserve([600] * 20)
    cache.keys[0] = [torch.randn(size.rows, 2, size.capacity, 3) for size in cache.sizes]
    cache.values[0] = [-block for block in cache.keys[0]]
    before, size = [slot_of(cache.keys[0], slot).clone() for slot in (19, 0)], cache.nbytes
    cache.rebuild([0, 50, 100] + [0] * 17, [Move(19, 1, 40), Move(0, 2, 90), Move(5, 5, 0)])
    assert torch.equal(slot_of(cache.keys[0], 1)[:, :40], before[0][:, :40])
    assert torch.equal(slot_of(cache.values[0], 2)[:, :90], -before[1][:, :90])
    assert cache.nbytes == size * (3 * 128) // (20 * 768)
