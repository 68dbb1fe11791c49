"""Full-text search in a shop's products: BM25 as Lucene computes it, to the last bit of its float32.

score(q, d) = Σ_t c·idf_t · tf / (tf + k1·(1 − b + b·|d| / avgdl)), where c counts t in q,
idf_t = ln(1 + (N − df + ½) / (df + ½)), k1 = 0.9 and b = 0.4 (Anserini's, which WebShop searches with).

Source: Lucene 8's `BM25Similarity` and `SmallFloat`, and Anserini's tie-breaking by id. bm25s has the formula but
neither the one-byte document lengths nor the float32 steps, and those decide ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from agentgym_envs.shop.tokens import term, words

K1 = np.float32(0.9)
B = np.float32(0.4)
_LEAST = np.finfo(np.float32).tiny  # no term gives less

Number = TypeVar("Number", bound=np.generic)
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


def document(title: str, description: str, first_bullet: str, options: Mapping[str, Sequence[str]]) -> str:
    """The text under which WebShop indexes a product."""
    choices = ", and ".join(f"{name}: {', '.join(values)}" for name, values in options.items())
    return f"{title} {description} {first_bullet} {choices}".lower()


class SearchIndex:
    """Documents to search in; the scores that a term gives are worked out once, when the index is made.

    Args:
        ids: one id a document; of two equal scores the smaller id comes first.
        documents: their texts, see `document`.
    """

    def __init__(self, ids: Sequence[str], documents: Sequence[str]) -> None:
        order = sorted(range(len(ids)), key=ids.__getitem__)  # a smaller row then breaks a tie
        self._ids = np.array([ids[i] for i in order], object)  # (N,)
        self._terms: dict[str, int] = {}  # what is indexed -> number
        self._words: dict[str, int] = {}  # a word as it is written -> number of its term, -1 for a stop word
        self._score_postings([self._numbers(documents[i]) for i in order])

    def search(self, query: str, k: int = 50) -> list[tuple[str, float]]:
        """The best `k` documents that share a term with the query, and their scores; best first."""
        numbers = self._known_terms(query)
        if not numbers or k < 1:
            return []
        if len(set(numbers)) == len(numbers):
            gains = [self._gains[number] for number in numbers]
        else:
            counts = Counter(numbers)
            numbers = list(counts)
            gains = [self._gain(number, count) for number, count in counts.items()]
        rows = np.concatenate([self._rows[number] for number in numbers])
        # bincount adds in float64, as Lucene does before it rounds
        scores = np.bincount(rows, np.concatenate(gains), len(self._ids)).astype(np.float32)
        best = _best(scores, k)
        return list(zip(self._ids[best].tolist(), scores[best].tolist(), strict=True))

    def _known_terms(self, query: str) -> list[int]:
        """The indexed terms of a query by number, repetitions included."""
        found = words(query)
        numbers = list(map(self._words.get, found))
        if None in numbers:  # not written so in any document, but its stem may be there
            numbers = [
                self._terms.get(term(word)) if number is None else number
                for word, number in zip(found, numbers, strict=True)
            ]
        return [number for number in numbers if number is not None and number >= 0]

    def _gain(self, number: int, count: int) -> Doubles:
        """What a term that stands `count` times in the query gives to each of its rows."""
        if count == 1:
            return self._gains[number]
        return _gain(np.float32(count) * self._idf[number], self._divisors[number])

    def _numbers(self, text: str) -> list[int]:
        """The terms of a text by number; unseen ones get the next numbers."""
        known = self._words
        found = words(text)
        for word in found:
            if word not in known:
                stemmed = term(word)
                known[word] = self._terms.setdefault(stemmed, len(self._terms)) if stemmed else -1
        return [number for word in found if (number := known[word]) >= 0]

    def _score_postings(self, documents: list[list[int]]) -> None:
        """Works out, for each of T terms, the rows it stands in and what it gives to the score there."""
        lengths = np.array([len(numbers) for numbers in documents], np.intp)  # (N,)
        flat = np.fromiter(chain.from_iterable(documents), np.intp, int(lengths.sum()))
        stride = max(len(documents), 1)
        keys, freqs = np.unique(flat * stride + np.repeat(np.arange(len(documents)), lengths), return_counts=True)
        terms, rows = np.divmod(keys, stride)  # (P,) postings, by term and then by row
        df = np.bincount(terms, minlength=len(self._terms))  # (T,)
        # w - w / divisor is w·tf / (tf + k1·(1 - b + b·|d| / avgdl)), rounded as Lucene rounds it
        divisors = 1 + freqs.astype(np.float32) * _inverse_norms(lengths)[rows]  # (P,)
        self._idf = _idf(df, int(np.count_nonzero(lengths)))  # (T,)
        self._rows = _split(rows, df)
        self._divisors = _split(divisors, df)
        self._gains = _split(_gain(np.repeat(self._idf, df), divisors), df)


def _gain(weight: Floats | np.float32, divisor: Floats) -> Doubles:
    """What a term of a weight gives to documents: computed in float32, kept in the float64 in which it is summed."""
    return (weight - weight / divisor).astype(np.float64)


def _idf(df: Ints, documents: int) -> Floats:
    """Inverse document frequency of a term that `df` of the documents hold."""
    idf: Doubles = np.log(1 + (documents - df + 0.5) / (df + 0.5))
    return idf.astype(np.float32)


def _inverse_norms(lengths: Ints) -> Floats:
    """1 / (k1·(1 - b + b·|d| / avgdl)) of each document, where |d| is as exact as one byte can hold it."""
    average = np.float32(lengths.sum() / max(np.count_nonzero(lengths), 1))
    quantised = np.array([_quantised(length) for length in lengths.tolist()], np.float32)
    return np.float32(1) / (K1 * ((np.float32(1) - B) + B * quantised / max(average, np.float32(1))))


def _quantised(length: int) -> int:
    """A document's length as Lucene's `SmallFloat.intToByte4` keeps it: what it exceeds 24 by, to four bits."""
    if length < 24:
        return length
    shift = max((length - 24).bit_length() - 4, 0)
    return 24 + ((length - 24) >> shift << shift)


def _split(values: npt.NDArray[Number], sizes: Ints) -> list[npt.NDArray[Number]]:
    """An array cut into consecutive pieces of given sizes."""
    ends = np.cumsum(sizes).tolist()
    return [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _best(scores: Floats, k: int) -> Ints:
    """The rows of the `k` largest scores above 0, largest first, the smaller row first among equals."""
    least = _LEAST
    if len(scores) > k:
        partitioned = scores.copy()
        partitioned.partition(-k)
        least = max(partitioned[-k], least)
    rows = (scores >= least).nonzero()[0]
    return rows[(-scores[rows]).argsort(kind="stable")[:k]]
