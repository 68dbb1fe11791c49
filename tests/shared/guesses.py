"""Guesses of answers that read only the request's text."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

Asked = tuple[Hashable, str, str]
"""The board or database of a task, its request and its answer."""


def best_guess(asked: Sequence[Asked]) -> float:
    """Return the share of right answers of the best guess: one answer forever, or what a word of the request suggests.

    The word whose tasks on other boards have one answer most often is chosen for each request.
    """
    total: defaultdict[str, Counter[str]] = defaultdict(Counter)
    own: defaultdict[tuple[Hashable, str], Counter[str]] = defaultdict(Counter)
    words = [sorted(set(re.findall(r"\w+", request.casefold()))) for _, request, _ in asked]
    for (board, _, answer), found in zip(asked, words, strict=True):
        for word in found:
            total[word][answer] += 1
            own[board, word][answer] += 1
    right = 0
    for (board, _, answer), found in zip(asked, words, strict=True):
        others = [total[word] - own[board, word] for word in found]
        tops = [(*each.most_common(1)[0], each.total()) for each in others if each]
        guess = max(tops, key=lambda top: top[1] / (top[2] + 2), default=("", 0, 0))[0]
        right += guess == answer
    ((_, constant),) = Counter(answer for *_, answer in asked).most_common(1)
    return max(right, constant) / len(asked)
