"""A seeded generator whose stream never changes and whose state is one integer."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

T = TypeVar("T")
_MASK = (1 << 64) - 1
_LARGE = 10_000
"""Number of items beyond which `sample` does not copy them, such as the million tasks of an env."""


def seed_of(*parts: object) -> int:
    """Derive a 64-bit seed from printable parts; equal in every process and on every Python (SHA-256)."""
    text = "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


def stable_order(keys: Sequence[Hashable], *seed: object) -> list[int]:
    """Return the positions of `keys` in a random order that is the same for all others if a key is added or removed.

    Each key has a random number of its own, by which they are sorted, so that two runs whose data differ a little have
    common random numbers. A shuffle would draw numbers for positions, and one more key would change the whole order.
    """
    seen, numbers = Counter[Hashable](), list[int]()
    for key in keys:
        numbers.append(seed_of(*seed, key, seen[key]))
        seen[key] += 1
    return sorted(range(len(numbers)), key=numbers.__getitem__)


class Rng:
    """SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).

    Tasks must never change, but neither `random.Random` nor `numpy.random.Generator` promises the same `choice` or
    `sample` in the next release; and their states are too large for a snapshot.
    """

    __slots__ = ("state",)

    def __init__(self, *seed: object) -> None:
        self.state = seed_of(*seed)

    def bits(self) -> int:
        """Draw 64 random bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, n: int) -> int:
        """Draw a uniform integer in [0, n); the bias of the multiplication is below n / 2**64."""
        if n <= 0:
            raise ValueError(f"below needs n > 0, got {n}")
        # `bits` inlined: a task draws hundreds of numbers, and the call would double the cost
        self.state = z = (self.state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return ((z ^ (z >> 31)) * n) >> 64

    def uniform(self) -> float:
        """Draw a uniform float in [0, 1)."""
        return (self.bits() >> 11) * (1.0 / (1 << 53))

    def choice(self, items: Sequence[T]) -> T:
        """Draw one item, uniformly."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """Draw `k` different positions of `items`, in random order; ValueError unless 0 <= k <= len(items)."""
        if k < 0:
            raise ValueError(f"sample needs k >= 0, got {k}")
        if len(items) > _LARGE:
            return self._sample_large(items, k)
        pool = list(items)
        for i in range(k):
            j = i + self.below(len(pool) - i)
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:k]

    def _sample_large(self, items: Sequence[T], k: int) -> list[T]:
        """Draw what `sample` draws, but remember only the places that swaps change, because a copy costs more."""
        chosen, swapped = list[T](), dict[int, int]()
        for i in range(k):
            j = i + self.below(len(items) - i)
            chosen.append(items[swapped.get(j, j)])
            swapped[j] = swapped.get(i, i)
        return chosen
