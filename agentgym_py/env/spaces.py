"""A text space of all strings up to a length, and its shared-memory form for Gymnasium's vector environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory
from numpy.typing import NDArray

_PRINTABLE = "".join(map(chr, range(32, 127))) + "\n"
_LENGTH_BYTES = 8
_BYTES_PER_CHARACTER = 4


class UnicodeText(Space[str]):
    """Any Unicode string of at most `max_length` characters; `gymnasium.spaces.Text` needs a list of characters."""

    def __init__(self, max_length: int, *, seed: int | np.random.Generator | None = None) -> None:
        self.max_length = max_length
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: a text is not a fixed row of numbers."""
        return False

    def contains(self, x: Any) -> bool:
        """Return whether `x` is a string of at most `max_length` characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw a printable ASCII string of at most 32 characters; masks are ignored."""
        del mask, probability
        size = int(self.np_random.integers(0, min(self.max_length, 32) + 1))
        return "".join(_PRINTABLE[i] for i in self.np_random.integers(0, len(_PRINTABLE), size))

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_length == other.max_length

    __hash__ = None  # type: ignore[assignment]  # as in Gymnasium's own spaces: the generator changes


# ------------------------------------------------------------------------------------------------- shared memory
# `AsyncVectorEnv` reads observations from shared memory once and expects them to change in place, as arrays do. The
# strings of Gymnasium's `Text` never change.


class SharedTexts(Sequence[str]):
    """The texts now in shared memory; a deep copy, which `AsyncVectorEnv` returns, is a tuple of strings."""

    def __init__(self, rows: NDArray[np.uint8]) -> None:
        self._rows = rows
        """A row per text: its number of bytes, then its UTF-8 bytes."""

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """Return the text of one environment, or of a slice."""
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        row = self._rows[index]
        size = int(row[:_LENGTH_BYTES].view(np.int64)[0])
        return bytes(row[_LENGTH_BYTES : _LENGTH_BYTES + size]).decode("utf-8", "surrogatepass")

    def __len__(self) -> int:
        return len(self._rows)

    def __deepcopy__(self, memo: object) -> tuple[str, ...]:
        return tuple(self)

    def write(self, index: int, text: str) -> None:
        """Write the text of one environment."""
        raw = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        self._rows[index, :_LENGTH_BYTES].view(np.int64)[0] = len(raw)
        self._rows[index, _LENGTH_BYTES : _LENGTH_BYTES + len(raw)] = raw


def _row_bytes(space: UnicodeText) -> int:
    return _LENGTH_BYTES + _BYTES_PER_CHARACTER * space.max_length


@create_shared_memory.register(UnicodeText)
def _create(space: UnicodeText, n: int = 1, ctx: Any = None) -> Any:
    return ctx.Array("B", n * _row_bytes(space))


@read_from_shared_memory.register(UnicodeText)
def _read(space: UnicodeText, shared_memory: Any, n: int = 1) -> SharedTexts:
    return SharedTexts(np.frombuffer(shared_memory.get_obj(), np.uint8).reshape(n, _row_bytes(space)))


@write_to_shared_memory.register(UnicodeText)
def _write(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    memory = np.frombuffer(shared_memory.get_obj(), np.uint8)
    SharedTexts(memory.reshape(-1, _row_bytes(space))).write(index, value)
