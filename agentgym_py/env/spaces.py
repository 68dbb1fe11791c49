"""A text space that contains every string up to a length, and how Gymnasium carries its texts between processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory
from numpy.typing import NDArray

_PRINTABLE = "".join(map(chr, range(32, 127))) + "\n"
_LENGTH_BYTES = 8
_BYTES_A_CHARACTER = 4


class UnicodeText(Space[str]):
    """Any Unicode string of at most `max_length` characters; `gymnasium.spaces.Text` wants a list of characters."""

    def __init__(self, max_length: int, *, seed: int | np.random.Generator | None = None) -> None:
        self.max_length = max_length
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """No: a text is no row of numbers."""
        return False

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string that is short enough."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A printable ASCII string of at most 32 characters; masks make no sense here."""
        del mask, probability
        size = int(self.np_random.integers(0, min(self.max_length, 32) + 1))
        return "".join(_PRINTABLE[i] for i in self.np_random.integers(0, len(_PRINTABLE), size))

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_length == other.max_length

    __hash__ = None  # type: ignore[assignment]  # as Gymnasium's own spaces: their generator changes


# ------------------------------------------------------------------------------------------------- shared memory
# `AsyncVectorEnv` reads the observations from shared memory once and expects them to change with it, as arrays do.
# Gymnasium's `Text` gives it strings, which never change.


class SharedTexts(Sequence[str]):
    """The texts that stand in shared memory now; a deep copy, which `AsyncVectorEnv` returns, is a tuple of strings."""

    def __init__(self, rows: NDArray[np.uint8]) -> None:
        self._rows = rows
        """One a text: the number of its bytes, then its bytes in UTF-8."""

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """The text of one environment, or of some."""
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
        """Put a text there."""
        raw = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        self._rows[index, :_LENGTH_BYTES].view(np.int64)[0] = len(raw)
        self._rows[index, _LENGTH_BYTES : _LENGTH_BYTES + len(raw)] = raw


def _row_bytes(space: UnicodeText) -> int:
    return _LENGTH_BYTES + _BYTES_A_CHARACTER * space.max_length


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
