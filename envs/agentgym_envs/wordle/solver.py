"""The words, what a guess is answered with, and the guess that tells most."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LETTERS = 5
TRIES = 6
ABSENT, ELSEWHERE, RIGHT = 0, 1, 2
Marks = tuple[int, ...]
Tried = tuple[tuple[str, Marks], ...]
_CODES = 3**LETTERS
_TIMES = ("", "", " twice", " three times", " four times", " five times")


@cache
def words() -> tuple[str, ...]:
    """All words, sorted."""
    return tuple((files("agentgym_data") / "wordle" / "words.txt").read_text(encoding="utf-8").split())


@cache
def known() -> frozenset[str]:
    """All words, to look one up."""
    return frozenset(words())


def marks(guess: str, hidden: str) -> Marks:
    """A mark a letter; one guessed more often than it is hidden is marked as often as it is, right places first."""
    found = [RIGHT if a == b else ABSENT for a, b in zip(guess, hidden, strict=True)]
    left = [b for a, b in zip(guess, hidden, strict=True) if a != b]
    for place, letter in enumerate(guess):
        if not found[place] and letter in left:
            found[place] = ELSEWHERE
            left.remove(letter)
    return tuple(found)


def broken_hint(guess: str, tried: Tried) -> str:
    """Which hint of the tries a guess does not use, as the hard rules of the game want it; empty where it uses all."""
    for earlier, found in tried:
        for place, (letter, mark) in enumerate(zip(earlier, found, strict=True)):
            if mark == RIGHT and guess[place] != letter:
                return f"letter {place + 1} must be {letter}"
        for letter in sorted(set(earlier)):
            least = sum(mark != ABSENT for each, mark in zip(earlier, found, strict=True) if each == letter)
            if guess.count(letter) < least:
                return f"it must have {letter}{_TIMES[least]}"
    return ""


def allowed(tried: Tried) -> list[int]:
    """The numbers of the words that have no `broken_hint`."""
    fixed, least = dict[int, str](), Counter[str]()
    for earlier, found in tried:
        fixed |= {place: earlier[place] for place, mark in enumerate(found) if mark == RIGHT}
        least |= Counter(letter for letter, mark in zip(earlier, found, strict=True) if mark != ABSENT)
    left = [(number, word) for number, word in enumerate(words())]
    for place, letter in fixed.items():
        left = [each for each in left if each[1][place] == letter]
    for letter, times in least.items():
        left = [each for each in left if each[1].count(letter) >= times]
    return [number for number, _ in left]


def fits(word: str, shown: str, tried: Tried) -> bool:
    """Whether a word may be the hidden one; `shown` has its known letters, and dots."""
    if any(letter not in (".", word[place]) for place, letter in enumerate(shown)):
        return False
    return all(marks(guess, word) == found for guess, found in tried)


@lru_cache(maxsize=4096)
def best_guess(shown: str, tried: Tried, hard: bool) -> str:
    """The guess whose answer tells most in the mean (largest entropy over the words that may still be hidden).

    Of equals, a word that may be the hidden one, then the first; with one try left, or two such words, such a word.
    """
    every = words()
    may_be = [number for number, word in enumerate(every) if fits(word, shown, tried)]
    if len(may_be) <= 2 or len(tried) == TRIES - 1:
        return every[may_be[0]]
    guesses: Sequence[int] = range(len(every))
    if hard:
        guesses = allowed(tried)
    return every[_most_telling(guesses, may_be)]


def _most_telling(guesses: Sequence[int], may_be: Sequence[int]) -> int:
    import numpy as np

    rows, columns = np.asarray(guesses), np.asarray(may_be)
    codes = patterns()[np.ix_(rows, columns)] + _CODES * np.arange(len(rows))[:, None]
    sizes = np.bincount(codes.ravel(), minlength=_CODES * len(rows)).reshape(len(rows), _CODES)
    left = _bits(len(words()))[sizes].sum(axis=1) * 2 + ~np.isin(rows, columns)
    return int(rows[left.argmin()])


@cache
def _bits(most: int) -> NDArray[np.int64]:
    """Sums of n log2 n in whole millionths: sums of integers are equal on every machine, so that ties are too."""
    import numpy as np

    return np.asarray([0, *(round(1e6 * n * math.log2(n)) for n in range(1, most + 1))], np.int64)


@cache
def patterns() -> NDArray[np.uint8]:
    """The answer to each word (row) if each word (column) is hidden, its marks as digits of a number to base 3."""
    import numpy as np

    letters = np.asarray([list(word.encode()) for word in words()], np.uint8)
    right = [letters[:, None, place] == letters[None, :, place] for place in range(LETTERS)]  # each (guess, hidden)
    taken = [each.copy() for each in right]
    codes = np.zeros((len(letters), len(letters)), np.uint8)
    for place in range(LETTERS):
        elsewhere = np.zeros_like(right[place])
        for other in range(LETTERS):
            hit = letters[:, None, place] == letters[None, :, other]
            hit &= ~(right[place] | elsewhere | taken[other])
            elsewhere |= hit
            taken[other] |= hit
        codes += np.uint8(3**place) * (RIGHT * right[place].view(np.uint8) + elsewhere)
    return codes
