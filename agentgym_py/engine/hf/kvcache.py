"""Keys and values of many episodes in preallocated slots, and attention over them.

A slot holds one episode without holes: its tokens are at 0 … n-1, and nothing reads the finite values beyond.
Neighbouring slots form a block, which is as large as its longest episode needs. Tokens to compute come packed: N tokens
of several episodes in a row, without padding. A plan says where each token goes and what it attends to.

Shapes: N packed tokens, B rows, H query heads, K key-value heads, D head size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

_SMALLEST = 64
_STEP = 256
"""Blocks grow by this many tokens; shorter ones double."""
_BLOCK = 16
"""Slots of one block: they share its capacity, and one attention call reads them while decoding."""
_ALIGNED = 8
"""CUDA's attention kernels read masks whose rows begin at multiples of this many elements."""


class Size(NamedTuple):
    """The memory of a block of slots."""

    rows: int
    capacity: int


def sizes_of(needs: Sequence[int]) -> list[Size]:
    """Sizes of the blocks in which each slot has room for as many tokens as it needs; 0 is an empty slot."""
    sizes = []
    for at in range(0, len(needs), _BLOCK):
        block = needs[at : at + _BLOCK]
        rows = max((row + 1 for row, need in enumerate(block) if need), default=0)
        sizes.append(Size(rows, round_up(max(block))) if rows else Size(0, 0))
    return sizes


def round_up(length: int) -> int:
    """Round a number of tokens up to the capacity of a block."""
    if length > _STEP:
        return -(-length // _STEP) * _STEP
    return max(_SMALLEST, 1 << (length - 1).bit_length())


def count_tokens(sizes: Sequence[Size]) -> int:
    """Count the tokens for which blocks of these sizes hold memory."""
    return sum(size.rows * size.capacity for size in sizes)


class SlotCache:
    """Keys and values of every layer: a list of blocks, (rows, K, capacity, D) each.

    A layer is allocated when it is first written.
    """

    def __init__(self, slots: int) -> None:
        self.sizes = sizes_of([0] * slots)
        self.keys: dict[int, list[Tensor]] = {}
        self.values: dict[int, list[Tensor]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return sum(block.nbytes for blocks in [*self.keys.values(), *self.values.values()] for block in blocks)

    def write(self, layer: int, plan: Plan, keys_NKD: Tensor, values_NKD: Tensor | None = None) -> None:
        """Write each new token's key and value to its place; a convolution keeps its inputs as keys, (N, 1, D)."""
        for store, new in ((self.keys, keys_NKD), (self.values, values_NKD)):
            if new is None:
                continue
            if layer not in store:
                store[layer] = [_zeros(new, size, new.shape[1], new.shape[2]) for size in self.sizes]
            plan.write(store[layer], new)

    def reserve(self, needs: Sequence[int]) -> None:
        """Grow blocks until each slot has room for as many tokens as it needs."""
        for number, size in enumerate(grown(self.sizes, needs)):
            if size != self.sizes[number]:
                self._resize(number, size)

    def _resize(self, number: int, size: Size) -> None:
        self.sizes[number] = size
        for blocks in [*self.keys.values(), *self.values.values()]:
            old = blocks[number]
            blocks[number] = _zeros(old, size, old.shape[1], old.shape[3])
            blocks[number][: len(old), :, : old.shape[2]] = old

    def rebuild(self, needs: Sequence[int], moves: Sequence[Move]) -> None:
        """Give each slot exactly the memory that it needs, with the prefixes that `moves` names; drop all else."""
        self.sizes = sizes_of(needs)
        for store in (self.keys, self.values):
            for layer, old in store.items():
                store[layer] = [_zeros(old[0], size, old[0].shape[1], old[0].shape[3]) for size in self.sizes]
                for source, target, length in moves:
                    if length:
                        slot_of(store[layer], target)[:, :length] = slot_of(old, source)[:, :length]

    def copy(self, moves: Sequence[Move]) -> None:
        """Copy prefixes of slots, all at once: a slot may be source and target.

        Copies go one after another through memory that stays in the processor's cache, five times as fast as by an
        index.
        """
        steps = order_copies([move for move in moves if move.length])
        for blocks in [*self.keys.values(), *self.values.values()]:
            aside = None
            for source, target, length in steps:
                out_of = aside if source == ASIDE else slot_of(blocks, source)
                assert out_of is not None
                if target == ASIDE:
                    aside = out_of[:, :length].clone()
                else:
                    slot_of(blocks, target)[:, :length] = out_of[:, :length]


def grown(sizes: Sequence[Size], needs: Sequence[int]) -> list[Size]:
    """Sizes of blocks that have grown from `sizes` to what slots need."""
    wanted = sizes_of(needs)
    return [Size(max(a.rows, b.rows), max(a.capacity, b.capacity)) for a, b in zip(sizes, wanted, strict=True)]


def slot_of(blocks: Sequence[Tensor], slot: int) -> Tensor:
    """One slot's keys or values, (K, capacity, D)."""
    return blocks[slot // _BLOCK][slot % _BLOCK]


def _zeros(like: Tensor, size: Size, heads: int, width: int) -> Tensor:
    """Memory of a block. A NaN would poison attention even if a mask hides it."""
    return like.new_zeros(size.rows, heads, size.capacity, width)


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


class Attention(NamedTuple):
    """How a layer attends."""

    scale: float
    window: int | None = None
    """A token sees itself and the `window - 1` tokens before it; None: the whole episode."""
    softcap: float | None = None
    """Scores are squashed to ± this (Gemma 2)."""
    sinks_H: Tensor | None = None
    """A score per head that takes part in the softmax and has no value (gpt-oss)."""

    @property
    def is_plain(self) -> bool:
        """Whether torch's fused attention computes it."""
        return self.softcap is None and self.sinks_H is None


class Plan(Protocol):
    """Where the tokens of one forward pass go, and what they attend to."""

    def write(self, blocks: Sequence[Tensor], new_NKD: Tensor) -> None:
        """Write each new vector to its place in a layer's blocks."""
        ...

    def attend(self, cache: SlotCache, layer: int, queries_NHD: Tensor, how: Attention) -> Tensor:
        """Attention of each token over its own episode up to itself, (N, H, D)."""
        ...

    def before(self, blocks: Sequence[Tensor], count: int) -> Tensor:
        """Vectors of the `count` tokens before each new one in its episode, (N, count, D); 0 before its start.

        `blocks` hold one vector a token, which the new tokens have written.
        """
        ...


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive new tokens of one episode, at `start` … `start + count - 1` in `slot`."""

    slot: int
    start: int
    count: int

    @property
    def end(self) -> int:
        """Number of the episode's tokens after this segment."""
        return self.start + self.count


class PrefillPlan:
    """Segments of any lengths, one after another. Each is attended on its own, so nothing is padded."""

    def __init__(self, segments: Sequence[Segment], dtype: torch.dtype, device: torch.device) -> None:
        self.segments, self._dtype, self._device = segments, dtype, device
        counts_B = torch.tensor([s.count for s in segments], device=device)
        starts_B = torch.tensor([s.start for s in segments], device=device)
        self.ends_B = counts_B.cumsum(0) - 1
        """Where each segment's last token stands in the pack."""
        pack_N = torch.arange(int(counts_B.sum()), device=device)
        self.positions_N = pack_N + (starts_B - self.ends_B - 1 + counts_B).repeat_interleave(counts_B)
        self._masks: dict[tuple[int, int, int | None], Tensor] = {}

    def write(self, blocks: Sequence[Tensor], new_NKD: Tensor) -> None:
        """See `Plan`."""
        at = 0
        for s in self.segments:
            slot_of(blocks, s.slot)[:, s.start : s.start + s.count] = new_NKD[at : at + s.count].transpose(0, 1)
            at += s.count

    def attend(self, cache: SlotCache, layer: int, queries_NHD: Tensor, how: Attention) -> Tensor:
        """See `Plan`."""
        outputs = []
        at = 0
        for s in self.segments:
            keys, values = (slot_of(store[layer], s.slot)[None, :, : s.end] for store in (cache.keys, cache.values))
            window = how.window if how.window is not None and how.window < s.end else None
            is_causal = s.start == 0 and s.count > 1 and window is None and how.is_plain
            output_1HCD = _attend(
                queries_NHD[at : at + s.count].transpose(0, 1)[None],
                _per_head(keys, queries_NHD.shape[1]),
                _per_head(values, queries_NHD.shape[1]),
                None if is_causal or (s.count == 1 and window is None) else self._mask(s, window),
                how,
                is_causal=is_causal,
            )
            outputs.append(output_1HCD[0].transpose(0, 1))
            at += s.count
        return torch.cat(outputs)

    def before(self, blocks: Sequence[Tensor], count: int) -> Tensor:
        """See `Plan`."""
        outputs = []
        for s in self.segments:
            vectors = slot_of(blocks, s.slot)[0, max(0, s.start - count) : s.end - 1]
            vectors = pad(vectors, (0, 0, max(0, count - s.start), 0))
            outputs.append(vectors.unfold(0, count, 1).transpose(1, 2))
        return torch.cat(outputs)

    def _mask(self, segment: Segment, window: int | None) -> Tensor:
        """Additive mask (count, start + count), made once for all layers and for all segments of these numbers."""
        key = segment.start, segment.count, window
        if key not in self._masks:
            self._masks[key] = causal_mask(*key, self._dtype, self._device)
        return self._masks[key]


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
        self._longest = max(lengths)
        self._mask_BL = mask_BL
        self._masks: dict[int | None, list[Tensor]] = {}
        self._places: dict[int, list[Tensor]] = {}

    def write(self, blocks: Sequence[Tensor], new_NKD: Tensor) -> None:
        """See `Plan`."""
        heads, size = new_NKD.shape[1:]
        if heads not in self._places:
            self._places[heads] = self._index(blocks, heads)
        for (at, end, _), places, block in zip(self._blocks, self._places[heads], blocks, strict=False):
            block.view(-1, size).index_copy_(0, places, new_NKD[at:end].reshape(-1, size))

    def _index(self, blocks: Sequence[Tensor], heads: int) -> list[Tensor]:
        """Index (rows * heads,) of each new vector in a block's (rows * heads * capacity, D) view, in any layer."""
        vectors = torch.arange(_BLOCK * heads, device=self.positions_B.device)
        positions = self.positions_B.repeat_interleave(heads)
        return [
            vectors[: (end - at) * heads] * block.shape[2] + positions[at * heads : end * heads]
            for (at, end, _), block in zip(self._blocks, blocks, strict=False)
        ]

    def attend(self, cache: SlotCache, layer: int, queries_NHD: Tensor, how: Attention) -> Tensor:
        """See `Plan`. Query heads that share a key-value head are rows of one attention."""
        rows, heads, size = queries_NHD.shape
        keys, values = cache.keys[layer], cache.values[layer]
        grouped = queries_NHD.reshape(rows, keys[0].shape[1], heads // keys[0].shape[1], size)
        outputs = [
            _attend(grouped[at:end], keys[n][: end - at, :, :length], values[n][: end - at, :, :length], mask, how)
            for n, ((at, end, length), mask) in enumerate(zip(self._blocks, self._masks_of(how.window), strict=True))
        ]
        return torch.cat(outputs).view(rows, heads, -1)

    def before(self, blocks: Sequence[Tensor], count: int) -> Tensor:
        """See `Plan`."""
        positions = self.positions_B[:, None] - torch.arange(count, 0, -1, device=self.positions_B.device)
        outputs = []
        for (at, end, _), block in zip(self._blocks, blocks, strict=False):
            places = positions[at:end]
            vectors = block[: end - at, 0].gather(1, places.clamp(min=0)[..., None].expand(-1, -1, block.shape[3]))
            outputs.append(vectors * (places >= 0)[..., None])
        return torch.cat(outputs)

    def _masks_of(self, window: int | None) -> list[Tensor]:
        """Additive masks (rows, 1, 1, length) of the blocks, made for the first layer and kept for the others."""
        if window is not None and window >= self._longest:
            window = None
        if window not in self._masks:
            mask_BL = self._mask_BL
            if window is not None:
                places_L = torch.arange(mask_BL.shape[1], device=mask_BL.device)
                mask_BL = mask_BL.masked_fill(places_L <= self.positions_B[:, None] - window, -torch.inf)
            self._masks[window] = [mask_BL[at:end, None, None, :length] for at, end, length in self._blocks]
        return self._masks[window]


def convolve(cache: SlotCache, layer: int, plan: Plan, inputs_ND: Tensor, kernel_DW: Tensor) -> Tensor:
    """Causal depthwise convolution of each episode's inputs, whose last kernel weight is the new token's, (N, D)."""
    cache.write(layer, plan, inputs_ND[:, None])
    before_NWD = plan.before(cache.keys[layer], kernel_DW.shape[1] - 1)
    return (before_NWD * kernel_DW[:, :-1].t()).sum(1) + inputs_ND * kernel_DW[:, -1]


def positions_read(lengths: Sequence[int]) -> int:
    """Count the positions that a decoding step over rows of these lengths reads."""
    return sum((end - at) * length for at, end, length in _blocks(lengths))


def _blocks(lengths: Sequence[int]) -> list[tuple[int, int, int]]:
    """Blocks of rows, as (first row, last row + 1, length)."""
    starts = range(0, len(lengths), _BLOCK)
    return [(at, min(at + _BLOCK, len(lengths)), -(-max(lengths[at : at + _BLOCK]) // 8) * 8) for at in starts]


def causal_mask(start: int, count: int, window: int | None, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Additive mask (count, start + count): token i sees the positions up to `start + i`, the last `window` if given.

    Its rows begin where CUDA's kernels can read them.
    """
    shape = count, _round_to_aligned(start + count)
    mask = torch.full(shape, -torch.inf, dtype=dtype, device=device).triu_(start + 1)
    if window is not None:
        mask += torch.full(shape, -torch.inf, dtype=dtype, device=device).tril_(start - window)
    return mask[:, : start + count]


def _round_to_aligned(number: int) -> int:
    return -(-number // _ALIGNED) * _ALIGNED


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, how: Attention, *, is_causal: bool = False
) -> Tensor:
    """Attention of (…, H, C, D) queries over (…, H, L, D) keys and values."""
    if how.is_plain:
        return scaled_dot_product_attention(queries, keys, values, attn_mask=mask, is_causal=is_causal, scale=how.scale)
    scores = queries @ keys.transpose(-1, -2) * how.scale
    if how.softcap is not None:
        scores = torch.tanh(scores / how.softcap) * how.softcap
    if mask is not None:
        scores = scores + mask
    if how.sinks_H is not None:
        sinks = how.sinks_H.to(scores.dtype).view(1, scores.shape[1], -1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sinks], dim=-1)
    weights = scores.softmax(-1, dtype=torch.float32)[..., : keys.shape[-2]]
    return weights.to(values.dtype) @ values


def _per_head(keys_1KLD: Tensor, heads: int) -> Tensor:
    """Keys for every query head; without a copy if there is one key-value head for all."""
    if keys_1KLD.shape[1] == 1:
        return keys_1KLD.expand(-1, heads, -1, -1)
    return keys_1KLD.repeat_interleave(heads // keys_1KLD.shape[1], dim=1)
