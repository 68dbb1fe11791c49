"""Track which slot of an engine's cache holds which tokens, and find the slot that shares most with a new prompt."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
    """The content of every slot, and when it was last used."""

    def __init__(self, slots: int) -> None:
        self.contents: list[Ids] = [np.empty(0, np.int64)] * slots
        self._last_used = [0] * slots
        self._clock = 0

    def claim(self, prompts: Sequence[Ids], busy: Collection[int] = ()) -> list[int]:
        """Assign each prompt a slot that is not busy: the one it continues, else the least recently used one."""
        self._clock += 1
        free = set(range(len(self.contents))).difference(busy)
        seats: list[int | None] = []
        for prompt in prompts:
            slot = self._find_continued(prompt, free)
            free.discard(-1 if slot is None else slot)
            seats.append(slot)
        idle = self.by_use(free)[::-1]
        claimed = [idle.pop() if slot is None else slot for slot in seats]
        for slot in claimed:
            self._last_used[slot] = self._clock
        return claimed

    def _find_continued(self, prompt: Ids, free: Collection[int]) -> int | None:
        begun = [slot for slot in free if self._is_prefix(slot, prompt)]
        return max(begun, key=lambda slot: (len(self.contents[slot]), -slot), default=None)

    def _is_prefix(self, slot: int, prompt: Ids) -> bool:
        ids, n = self.contents[slot], len(self.contents[slot])
        return 0 < n <= len(prompt) and ids[n - 1] == prompt[n - 1] and np.array_equal(ids, prompt[:n])

    def source(self, prompt: Ids) -> Source:
        """Find the slot that shares most with a prompt. Its last token is computed in any case."""
        shared = [common_prefix(ids, prompt) for ids in self.contents]
        best = max(range(len(shared)), key=shared.__getitem__)
        return Source(best, min(shared[best], len(prompt) - 1))

    def move(self, moves: Sequence[tuple[int, int]]) -> None:
        """Rename slots by a permutation, as pairs (from, to)."""
        contents, used = list(self.contents), list(self._last_used)
        for source, target in moves:
            self.contents[target], self._last_used[target] = contents[source], used[source]

    def by_use(self, slots: Iterable[int]) -> list[int]:
        """Sort slots, the least recently used first."""
        return sorted(slots, key=lambda slot: (self._last_used[slot], slot))

    def shorten(self, lengths: Sequence[int]) -> None:
        """Forget what slots hold beyond these lengths."""
        self.contents = [ids[:length] for ids, length in zip(self.contents, lengths, strict=True)]
