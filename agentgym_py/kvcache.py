"""Keys and values of many episodes in preallocated slots, as a transformers cache that any causal model can run on.

A slot holds one episode without holes: its tokens stand at 0 … n-1. What lies beyond n is finite rubbish that masks
hide. A forward says by a `Span` which slots its rows are, where its tokens go and how much of the slots they see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

_STEP = 64


@dataclass
class Span:
    """Where the tokens of one forward go and what they see."""

    positions: Tensor  # (B, T) where each token is written within its slot
    length: int
    """How many positions of each slot the forward sees."""
    rows: Tensor | None = None  # (B,) slots of the rows; None: the slots 0 … B-1, which saves a copy
    fresh: bool = False
    """Nothing is cached for these rows: the new keys are all there is, in the order of the batch."""
    _flat: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def flat(self, heads: int, capacity: int) -> Tensor:
        """Index of each written vector in a (slots * heads * capacity, head_dim) view; made once a forward."""
        key = (heads, capacity)
        if key not in self._flat:
            device = self.positions.device
            rows = torch.arange(len(self.positions), device=device) if self.rows is None else self.rows
            heads_H = torch.arange(heads, device=device)
            base_BH = (rows[:, None] * heads + heads_H) * capacity
            self._flat[key] = (base_BH[:, :, None] + self.positions[:, None, :]).reshape(-1)
        return self._flat[key]


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers is untyped here
    """One layer's keys and values, (slots, kv_heads, capacity, head_dim) each."""

    def __init__(self, slots: int) -> None:
        super().__init__()
        self.slots, self.capacity = slots, _STEP
        self.span: Span | None = None
        self.keys: Tensor
        self.values: Tensor

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate, now that the shapes are known; zeros, because a hidden NaN would still poison attention."""
        self.keys = key_states.new_zeros(self.slots, key_states.shape[1], self.capacity, key_states.shape[3])
        self.values = value_states.new_zeros(self.slots, value_states.shape[1], self.capacity, value_states.shape[3])
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object) -> tuple[Tensor, Tensor]:
        """Write the new keys and values (B, kv_heads, T, head_dim) and return all that the rows see."""
        span = self.span
        assert span is not None
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        flat = span.flat(key_states.shape[1], self.capacity)
        self.keys.view(-1, self.keys.shape[-1]).index_copy_(0, flat, key_states.reshape(-1, key_states.shape[-1]))
        self.values.view(-1, self.values.shape[-1]).index_copy_(
            0, flat, value_states.reshape(-1, value_states.shape[-1])
        )
        if span.fresh:
            return key_states, value_states
        if span.rows is None:
            rows = len(span.positions)
            return self.keys[:rows, :, : span.length], self.values[:rows, :, : span.length]
        return self.keys[span.rows, :, : span.length], self.values[span.rows, :, : span.length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Never what a model should go by: every forward brings its own four-dimensional mask."""
        return (self.span.length if self.span else query_length), 0

    def get_seq_length(self) -> int:
        """Never what a model should go by: every forward brings its own positions."""
        return self.span.length if self.span else 0

    def get_max_length(self) -> int:
        """No maximum: the slots grow."""
        return -1

    def tensors(self) -> tuple[Tensor, ...]:
        """What is allocated."""
        return (self.keys, self.values) if self.is_initialized else ()

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` positions a slot."""
        if self.is_initialized:
            self.keys, self.values = (_grown(old, capacity) for old in (self.keys, self.values))
        self.capacity = capacity


class SlotCache(Cache):  # type: ignore[misc]  # transformers is untyped here
    """All layers' slots."""

    def __init__(self, layers: int, slots: int) -> None:
        super().__init__(layers=[SlotLayer(slots) for _ in range(layers)])
        self.capacity = _STEP

    def at(self, span: Span) -> SlotCache:
        """Point the next forward at `span`."""
        for layer in self.layers:
            layer.span = span
        return self

    def reserve(self, length: int) -> None:
        """Make room for `length` positions a slot, by doubling."""
        if length <= self.capacity:
            return
        while self.capacity < length:
            self.capacity *= 2
        for layer in self.layers:
            layer.grow(self.capacity)

    def copy(self, sources: Sequence[int], targets: Sequence[int], length: int) -> None:
        """Copy the first `length` positions of slots; a slot may be both a source and a target."""
        for tensor in self._tensors():
            tensor[list(targets), :, :length] = tensor[list(sources), :, :length]

    def swap(self, left: Sequence[int], right: Sequence[int], length: int) -> None:
        """Exchange the first `length` positions of slots pairwise."""
        self.copy([*left, *right], [*right, *left], length)

    def _tensors(self) -> list[Tensor]:
        return [tensor for layer in self.layers for tensor in layer.tensors()]


def _grown(old: Tensor, capacity: int) -> Tensor:
    new = old.new_zeros(*old.shape[:2], capacity, old.shape[3])
    new[:, :, : old.shape[2]] = old
    return new
