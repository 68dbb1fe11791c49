"""Keys and values of many episodes in preallocated slots, and attention over them.

A slot holds one episode without holes: its tokens are at 0 … n-1, and nothing reads the finite values beyond. Tokens to
compute come packed: N tokens of several episodes in a row, without padding. A plan says where each token goes and what
it attends to.

Shapes: N packed tokens, B rows, H query heads, K key-value heads, D head size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

_FIRST_CAPACITY = 64
_BLOCK = 16
"""Rows per attention call while decoding."""


class SlotCache:
    """Keys and values of every layer, (slots, K, capacity, D) each. A layer is allocated when it is first written."""

    def __init__(self, slots: int) -> None:
        self.slots, self.capacity = slots, _FIRST_CAPACITY
        self.keys: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}

    def write(self, layer: int, plan: Plan, keys_NKD: Tensor, values_NKD: Tensor) -> None:
        """Write each new token's key and value to its place."""
        heads, size = keys_NKD.shape[1:]
        if layer not in self.keys:  # zeros, because a NaN would poison attention even if a mask hides it
            self.keys[layer] = keys_NKD.new_zeros(self.slots, heads, self.capacity, size)
            self.values[layer] = values_NKD.new_zeros(self.slots, heads, self.capacity, values_NKD.shape[2])
        places = plan.places(heads, self.capacity)
        self.keys[layer].view(-1, size).index_copy_(0, places, keys_NKD.reshape(-1, size))
        self.values[layer].view(-1, values_NKD.shape[2]).index_copy_(0, places, values_NKD.flatten(0, 1))

    def reserve(self, length: int) -> None:
        """Make room for `length` tokens per slot, by doubling."""
        while self.capacity < length:
            self.capacity *= 2
        for store in (self.keys, self.values):
            for layer, old in store.items():
                if old.shape[2] < self.capacity:
                    store[layer] = old.new_zeros(*old.shape[:2], self.capacity, old.shape[3])
                    store[layer][:, :, : old.shape[2]] = old

    def copy(self, moves: Sequence[Move]) -> None:
        """Copy prefixes of slots, all at once: a slot may be source and target.

        Copies go one after another through memory that stays in the processor's cache, five times as fast as by an
        index.
        """
        steps = order_copies(moves)
        for tensor in [*self.keys.values(), *self.values.values()]:
            aside = tensor[0].clone() if any(move.target == ASIDE for move in steps) else None
            for source, target, length in steps:
                into = aside if target == ASIDE else tensor[target]
                out_of = aside if source == ASIDE else tensor[source]
                assert into is not None and out_of is not None
                into[:, :length] = out_of[:, :length]


class Move(NamedTuple):
    """Copy the first `length` tokens of a slot."""

    source: int
    target: int
    length: int


ASIDE = -1
"""Buffer for a slot's content while the other slots of its cycle are copied."""


def order_copies(moves: Sequence[Move]) -> list[Move]:
    """Order copies so that one after another they equal `moves` all at once; no target may occur twice."""
    pending = {move.target: move for move in moves if move.source != move.target}
    readers = Counter(move.source for move in pending.values())
    ready = [target for target in pending if not readers[target]]
    steps = []
    while pending:
        if not ready:  # the rest are cycles: one slot of a cycle is buffered, and its only reader takes it from there
            first, reader = next((move.source, move) for move in pending.values())
            steps.append(Move(first, ASIDE, reader.length))
            pending[reader.target] = reader._replace(source=ASIDE)
            ready.append(first)
        move = pending.pop(ready.pop())
        steps.append(move)
        readers[move.source] -= 1
        if move.source in pending and not readers[move.source]:
            ready.append(move.source)
    return steps


class Plan(Protocol):
    """Where the tokens of one forward pass go, and what they attend to."""

    def places(self, heads: int, capacity: int) -> Tensor:
        """Index (N * heads,) of each new vector in a (slots * heads * capacity, D) view."""
        ...

    def attend(self, cache: SlotCache, layer: int, queries_NHD: Tensor, scale: float) -> Tensor:
        """Attention of each token over its own episode up to itself, (N, H, D)."""
        ...


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive new tokens of one episode, at `start` … `start + count - 1` in `slot`."""

    slot: int
    start: int
    count: int


class PrefillPlan:
    """Segments of any lengths, one after another. Each is attended on its own, so nothing is padded."""

    def __init__(self, segments: Sequence[Segment], band: CausalBand, device: torch.device) -> None:
        self.segments, self._band = segments, band
        counts_B = torch.tensor([s.count for s in segments], device=device)
        starts_B = torch.tensor([s.start for s in segments], device=device)
        self.ends_B = counts_B.cumsum(0) - 1
        """Where each segment's last token stands in the pack."""
        pack_N = torch.arange(int(counts_B.sum()), device=device)
        self.positions_N = pack_N + (starts_B - self.ends_B - 1 + counts_B).repeat_interleave(counts_B)
        self._slots_N = torch.tensor([s.slot for s in segments], device=device).repeat_interleave(counts_B)
        self._places = _Places()

    def places(self, heads: int, capacity: int) -> Tensor:
        """See `Plan`."""
        return self._places(self._slots_N, self.positions_N, heads, capacity)

    def attend(self, cache: SlotCache, layer: int, queries_NHD: Tensor, scale: float) -> Tensor:
        """See `Plan`."""
        keys, values = cache.keys[layer], cache.values[layer]
        outputs = []
        at = 0
        for s in self.segments:
            visible = slice(s.slot, s.slot + 1), slice(None), slice(s.start + s.count)
            output_1HCD = scaled_dot_product_attention(
                queries_NHD[at : at + s.count].transpose(0, 1)[None],
                _per_head(keys[visible], queries_NHD.shape[1]),
                _per_head(values[visible], queries_NHD.shape[1]),
                attn_mask=self._band.mask(s.start, s.count) if s.start and s.count > 1 else None,
                is_causal=s.start == 0 and s.count > 1,
                scale=scale,
            )
            outputs.append(output_1HCD[0].transpose(0, 1))
            at += s.count
        return torch.cat(outputs)


class DecodePlan:
    """One new token per row; row b stands in slot b, so the cache is read in place.

    A mask hides what lies beyond a row's length. Rows are attended in blocks of neighbours, each block up to its
    longest row, because that read decides the speed.
    """

    def __init__(self, positions_B: Tensor, lengths: Sequence[int], mask_BL: Tensor) -> None:
        self.positions_B = positions_B
        self.all_B = torch.arange(len(lengths), device=positions_B.device)
        """The rows' places in the pack: every token is the last one of its row."""
        self._blocks = _blocks(lengths)
        self._masks = [mask_BL[at:end, None, None, :length] for at, end, length in self._blocks]
        self._places = _Places()

    def places(self, heads: int, capacity: int) -> Tensor:
        """See `Plan`."""
        return self._places(self.all_B, self.positions_B, heads, capacity)

    def attend(self, cache: SlotCache, layer: int, queries_NHD: Tensor, scale: float) -> Tensor:
        """See `Plan`. Query heads that share a key-value head are rows of one attention."""
        rows, heads, size = queries_NHD.shape
        keys, values = cache.keys[layer], cache.values[layer]
        grouped = queries_NHD.reshape(rows, keys.shape[1], heads // keys.shape[1], size)
        outputs = [
            scaled_dot_product_attention(
                grouped[at:end], keys[at:end, :, :length], values[at:end, :, :length], attn_mask=mask, scale=scale
            )
            for (at, end, length), mask in zip(self._blocks, self._masks, strict=True)
        ]
        return torch.cat(outputs).view(rows, heads, -1)


def positions_read(lengths: Sequence[int]) -> int:
    """Count the positions that a decoding step over rows of these lengths reads."""
    return sum((end - at) * length for at, end, length in _blocks(lengths))


def _blocks(lengths: Sequence[int]) -> list[tuple[int, int, int]]:
    """Blocks of rows, as (first row, last row + 1, length)."""
    starts = range(0, len(lengths), _BLOCK)
    return [(at, min(at + _BLOCK, len(lengths)), -(-max(lengths[at : at + _BLOCK]) // 8) * 8) for at in starts]


class CausalBand:
    """Additive masks of new tokens over what precedes them. All are windows of one band, and none is built twice."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device
        self._before = self._rows = 0
        self._band = torch.empty(0)

    def mask(self, start: int, count: int) -> Tensor:
        """(count, start + count): token i sees the positions up to `start + i`."""
        if start > self._before or count > self._rows:
            self._before, self._rows = max(2 * start, self._before), max(2 * count, self._rows)
            shape = (self._rows, self._before + self._rows)
            hidden = torch.ones(shape, dtype=torch.bool, device=self._device).triu(self._before + 1)
            self._band = torch.zeros(shape, dtype=self._dtype, device=self._device).masked_fill_(hidden, -torch.inf)
        offset = self._before - start
        return self._band[:count, offset : offset + start + count]


@dataclass(slots=True)
class _Places:
    """Index of a plan's vectors, computed for the first layer and reused for all."""

    _made: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def __call__(self, slots_N: Tensor, positions_N: Tensor, heads: int, capacity: int) -> Tensor:
        key = (heads, capacity)
        if key not in self._made:
            heads_K = torch.arange(heads, device=slots_N.device)
            self._made[key] = ((slots_N[:, None] * heads + heads_K) * capacity + positions_N[:, None]).reshape(-1)
        return self._made[key]


def _per_head(keys_1KLD: Tensor, heads: int) -> Tensor:
    """Keys for every query head; without a copy if there is one key-value head for all."""
    if keys_1KLD.shape[1] == 1:
        return keys_1KLD.expand(-1, heads, -1, -1)
    return keys_1KLD.repeat_interleave(heads // keys_1KLD.shape[1], dim=1)
