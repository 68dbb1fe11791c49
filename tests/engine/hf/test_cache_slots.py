from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from agentgym_py.engine.hf.cache_slots import SlotBook, common_prefix


def test_slots_are_found_by_what_they_hold() -> None:
    """A prompt takes the slot it continues, the longest if several; a new one the slot silent for longest."""
    book = SlotBook(3)
    ids = [np.array(x, np.int64) for x in ([1, 2], [1, 2, 3], [7])]
    assert book.claim(ids) == [0, 1, 2]
    book.contents = list(ids)
    assert book.claim([np.array([7, 8]), np.array([1, 2, 3, 4])]) == [2, 1]
    assert book.claim([np.array([9])]) == [0]
    assert book.source(np.array([1, 2, 3, 3])) == (1, 3)
    assert common_prefix(ids[0], ids[1]) == 2 and common_prefix(ids[0], ids[2]) == 0
