"""The words, the marks of a guess, and the most informative guess."""

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
Hints = tuple[tuple[str, Marks], ...]
_CODES = 3**LETTERS
_TIMES = ("", "", " twice", " three times", " four times", " five times")


@cache
def words() -> tuple[str, ...]:
    """Return all words, sorted."""
    return tuple((files("agentgym_data") / "wordle" / "words.txt").read_text(encoding="utf-8").split())


@cache
def word_set() -> frozenset[str]:
    """Return all words as a set."""
    return frozenset(words())


def marks(guess: str, hidden: str) -> Marks:
    """Mark each letter of a guess; a letter is marked as often as it is hidden, right places first."""
    result = [RIGHT if a == b else ABSENT for a, b in zip(guess, hidden, strict=True)]
    unmatched = [b for a, b in zip(guess, hidden, strict=True) if a != b]
    for place, letter in enumerate(guess):
        if not result[place] and letter in unmatched:
            result[place] = ELSEWHERE
            unmatched.remove(letter)
    return tuple(result)


def broken_hint(guess: str, hints: Hints) -> str:
    """Return a hint that a guess does not use, by the game's hard rules; empty if it uses all."""
    for earlier, signs in hints:
        for place, (letter, mark) in enumerate(zip(earlier, signs, strict=True)):
            if mark == RIGHT and guess[place] != letter:
                return f"letter {place + 1} must be {letter}"
        for letter in sorted(set(earlier)):
            least = sum(mark != ABSENT for other, mark in zip(earlier, signs, strict=True) if other == letter)
            if guess.count(letter) < least:
                return f"it must have {letter}{_TIMES[least]}"
    return ""


def allowed_words(hints: Hints) -> list[int]:
    """Return the numbers of the words that have no `broken_hint`."""
    fixed, least = dict[int, str](), Counter[str]()
    for earlier, signs in hints:
        fixed |= {place: earlier[place] for place, mark in enumerate(signs) if mark == RIGHT}
        least |= Counter(letter for letter, mark in zip(earlier, signs, strict=True) if mark != ABSENT)
    candidates = list(enumerate(words()))
    for place, letter in fixed.items():
        candidates = [(number, word) for number, word in candidates if word[place] == letter]
    for letter, times in least.items():
        candidates = [(number, word) for number, word in candidates if word.count(letter) >= times]
    return [number for number, _ in candidates]


def may_be_hidden(word: str, pattern: str, hints: Hints) -> bool:
    """Return whether a word may be the hidden one; `pattern` has the revealed letters, and dots."""
    if any(letter not in (".", word[place]) for place, letter in enumerate(pattern)):
        return False
    return all(marks(guess, word) == signs for guess, signs in hints)


@lru_cache(maxsize=4096)
def best_guess(pattern: str, hints: Hints) -> str:
    """Return the most informative word that may be hidden: its marks have the largest entropy over all such words.

    Ties go to the first. Other words may tell more, but a guess that fits all hints can be learnt.
    """
    candidates = [number for number, word in enumerate(words()) if may_be_hidden(word, pattern, hints)]
    return words()[candidates[0] if len(candidates) <= 2 else _most_informative(candidates)]


def describe_letters(pattern: str, hints: Hints) -> str:
    """Say what is known: `. r a . e, with n, not l s`.

    These are the word with dots for unknown letters, the letters that belong elsewhere and the absent ones. Letters
    keep their order and new ones come last, so that the next description begins as this one.
    """
    places = list(pattern)
    present, absent = dict[str, None](), dict[str, None]()  # as sets in the order of their first marks
    for guess, signs in hints:
        for place, (letter, mark) in enumerate(zip(guess, signs, strict=True)):
            if mark == RIGHT:
                places[place] = letter
            (absent if mark == ABSENT else present).setdefault(letter)
    elsewhere = [letter for letter in present if letter not in places]
    missing = [letter for letter in absent if letter not in present and letter not in places]
    named = (("with", elsewhere), ("not", missing))
    return ", ".join([" ".join(places), *(" ".join([word, *letters]) for word, letters in named if letters)])


def _most_informative(candidates: Sequence[int]) -> int:
    import numpy as np

    rows = np.asarray(candidates)
    codes = patterns()[np.ix_(rows, rows)] + _CODES * np.arange(len(rows))[:, None]
    sizes = np.bincount(codes.ravel(), minlength=_CODES * len(rows)).reshape(len(rows), _CODES)
    return int(rows[_bits(len(words()))[sizes].sum(axis=1).argmin()])


@cache
def _bits(most: int) -> NDArray[np.int64]:
    """N log2 n in integer millionths, because sums of integers, and so ties, are equal on every machine."""
    import numpy as np

    return np.asarray([0, *(round(1e6 * n * math.log2(n)) for n in range(1, most + 1))], np.int64)


@cache
def patterns() -> NDArray[np.uint8]:
    """Return the marks of each guess (row) for each hidden word (column), as digits of a base-3 number."""
    import numpy as np

    letters = np.asarray([list(word.encode()) for word in words()], np.uint8)
    right = [letters[:, None, place] == letters[None, :, place] for place in range(LETTERS)]  # (guess, hidden) by place
    taken = [match.copy() for match in right]
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
