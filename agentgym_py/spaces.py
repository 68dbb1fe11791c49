"""A text space that contains every string up to a length."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Text

_PRINTABLE = "".join(map(chr, range(32, 127))) + "\n"


class UnicodeText(Text):
    """Any Unicode string of at most `max_length` characters; `gymnasium.spaces.Text` wants a list of characters."""

    def __init__(self, max_length: int, *, seed: int | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=_PRINTABLE, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string that is short enough."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A printable ASCII string of at most 32 characters; masks make no sense here."""
        del mask, probability
        size = int(self.np_random.integers(0, min(self.max_length, 32) + 1))
        return "".join(_PRINTABLE[i] for i in self.np_random.integers(0, len(_PRINTABLE), size))
