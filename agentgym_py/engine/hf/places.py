"""Which slot of the cache each episode has. Row b of a decoding batch stands in slot b, so the cache is read in place.

If the memory for keys and values is bounded, rows keep only as much as they need, and idle slots are dropped, the least
recently used first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_py.engine.hf.cache_slots import SlotBook
from agentgym_py.engine.hf.kvcache import Move, SlotCache, count_tokens, grown, positions_read, sizes_of

_WORTH_SORTING = 1.15
"""Rows are sorted by length if attention would otherwise read more by this factor."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A slot that is to become a row of a decoding batch."""

    slot: int
    length: int
    """Tokens that a decoding step reads."""
    held: int
    """Tokens in the cache."""
    need: int
    """Tokens when the reply has its longest length."""


class Places:
    """The slots of a cache, and what they hold: `book` knows the tokens, `cache` has their keys and values."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.most_tokens: float = math.inf
        """Tokens that the cache may hold."""
        self.clear()

    def clear(self) -> None:
        """Drop all keys and values, and free their memory."""
        self.cache, self.book = SlotCache(self.slots), SlotBook(self.slots)

    def forget(self) -> None:
        """Use nothing of what the slots hold."""
        self.book = SlotBook(self.slots)

    def has_room(self, needs: Sequence[int]) -> bool:
        """Whether replies of these lengths can be decoded at the same time, sorted by length."""
        return count_tokens(sizes_of(sorted(needs))) <= self.most_tokens

    def to_front(self, seats: Sequence[Seat]) -> list[int]:
        """Move these slots to 0 … n-1, sorted by length if that pays; return the old position in `seats` of each."""
        order, n = self._order(seats), len(seats)
        sources = [seats[i].slot for i in order]
        displaced = sorted(set(range(n)) - set(sources))
        vacated = sorted(set(sources) - set(range(n)))
        moved = [(s, t) for s, t in zip(sources + displaced, [*range(n), *vacated], strict=True) if s != t]
        held = [len(ids) for ids in self.book.contents]
        for seat in seats:
            held[seat.slot] = seat.held
        source_of = {target: source for source, target in moved}
        self.book.move(moved)
        self._arrange(
            [Move(source_of.get(slot, slot), slot, held[source_of.get(slot, slot)]) for slot in range(self.slots)],
            [seats[i].need for i in order],
        )
        return order

    def _order(self, seats: Sequence[Seat]) -> list[int]:
        """Choose the order of rows: as they are, unless the cache would read or hold too much."""
        n = len(seats)
        at = {seat.slot: i for i, seat in enumerate(seats)}
        outside = [i for i, seat in enumerate(seats) if seat.slot >= n]
        order = [at[slot] if slot in at else outside.pop() for slot in range(n)]
        if count_tokens(sizes_of([seats[i].need for i in order])) > self.most_tokens:
            return sorted(range(n), key=lambda i: seats[i].need)
        by_length = sorted(range(n), key=lambda i: seats[i].length)
        read, sorted_read = (positions_read([seats[i].length for i in rows]) for rows in (order, by_length))
        fits = count_tokens(sizes_of([seats[i].need for i in by_length])) <= self.most_tokens
        return by_length if fits and read > _WORTH_SORTING * sorted_read else order

    def _arrange(self, moves: Sequence[Move], rows: Sequence[int]) -> None:
        """Give the first slots room for the tokens of `rows`, and each slot the prefix that `moves` names."""
        needs = [max(move.length, need) for move, need in zip(moves, [*rows, *[0] * len(moves)], strict=False)]
        if count_tokens(grown(self.cache.sizes, needs)) <= self.most_tokens:
            self.cache.reserve(needs)
            self.cache.copy(moves)
            return
        needs[: len(rows)] = rows
        for slot in self.book.by_use(range(len(rows), self.slots)):
            if count_tokens(sizes_of(needs)) <= self.most_tokens:
                break
            needs[slot] = 0
        self.book.shorten(needs)
        self.cache.rebuild(needs, [move._replace(length=min(move.length, needs[move.target])) for move in moves])
