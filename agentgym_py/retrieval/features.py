"""Features of a text for the bi-encoder: its words, pairs of neighbours and pieces of words, hashed into a table.

As in fastText (Bojanowski et al. 2017, arXiv:1607.04606), a word that no training text has is read by its pieces. The
pieces of a word weigh together as much as the word. Digits do not count, because they say nothing of a tool.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"[^\W\d_]+")
_PIECES = range(3, 6)
"""Lengths of the pieces of a word, with its ends marked."""


class Features(NamedTuple):
    """The F features of a text."""

    rows: NDArray[np.int64]  # (F,), rows of the table
    weights: NDArray[np.float32]  # (F,)


@lru_cache(maxsize=65_536)
def _of_word(word: str, rows: int) -> tuple[tuple[int, float], ...]:
    """Return the rows and weights of a word and its pieces."""
    marked = f"<{word}>"
    pieces = [marked[at : at + size] for size in _PIECES for at in range(len(marked) - size + 1)]
    return (_row("word", word, rows), 1.0), *((_row("piece", piece, rows), 1 / len(pieces)) for piece in pieces)


def _row(kind: str, text: str, rows: int) -> int:
    """Hash a feature; the same in every process and on every machine."""
    return zlib.crc32(f"{kind} {text}".encode()) % rows


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.casefold().replace("_", " "))


def features_of(text: str, rows: int) -> Features:
    """Return the features of a text in a table of `rows` rows."""
    words = words_of(text)
    found = [feature for word in words for feature in _of_word(word, rows)]
    found += [(_row("pair", " ".join(pair), rows), 1.0) for pair in pairwise(words)]
    return Features(
        np.array([row for row, _ in found], dtype=np.int64), np.array([weight for _, weight in found], dtype=np.float32)
    )
