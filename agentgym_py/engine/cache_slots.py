"""Track which slot of an engine's cache holds which tokens, and find the slot that shares most with a new prompt."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class Source(NamedTuple):
    """A slot, and how many of its first tokens a prompt can reuse."""

    slot: int
    length: int


def common_prefix(a: Ids, b: Ids) -> int:
    """Count the first ids that two sequences share."""
    n = min(len(a), len(b))
    differs = a[:n] != b[:n]
    first = int(differs.argmax()) if n else 0
    return first if n and differs[first] else n


class SlotBook:
    """What every slot holds, and when it was last used."""

    def __init__(self, slots: int) -> None:
        self.held: list[Ids] = [np.empty(0, np.int64)] * slots
        self._used = [0] * slots
        self._clock = 0

    def claim(self, prompts: Sequence[Ids], busy: Collection[int] = ()) -> list[int]:
        """Assign each prompt a slot that is not busy: the one it continues, else the least recently used one."""
        self._clock += 1
        free = set(range(len(self.held))).difference(busy)
        seats: list[int | None] = []
        for prompt in prompts:
            slot = self._continued(prompt, free)
            free.discard(-1 if slot is None else slot)
            seats.append(slot)
        idle = sorted(free, key=lambda slot: (self._used[slot], slot), reverse=True)
        claimed = [idle.pop() if slot is None else slot for slot in seats]
        for slot in claimed:
            self._used[slot] = self._clock
        return claimed

    def _continued(self, prompt: Ids, free: Collection[int]) -> int | None:
        begun = [slot for slot in free if self._begins(slot, prompt)]
        return max(begun, key=lambda slot: (len(self.held[slot]), -slot), default=None)

    def _begins(self, slot: int, prompt: Ids) -> bool:
        held, n = self.held[slot], len(self.held[slot])
        return 0 < n <= len(prompt) and held[n - 1] == prompt[n - 1] and np.array_equal(held, prompt[:n])

    def source(self, prompt: Ids) -> Source:
        """Find the slot that shares most with a prompt. Its last token is computed in any case."""
        shared = [common_prefix(held, prompt) for held in self.held]
        best = max(range(len(shared)), key=shared.__getitem__)
        return Source(best, min(shared[best], len(prompt) - 1))

    def move(self, moves: Sequence[tuple[int, int]]) -> None:
        """Rename slots by a permutation, as pairs (from, to)."""
        held, used = list(self.held), list(self._used)
        for source, target in moves:
            self.held[target], self._used[target] = held[source], used[source]
