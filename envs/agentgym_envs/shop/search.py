"""Full-text search in a shop's products: BM25, bit-identical to Lucene's float32 scores.

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
_LEAST = np.finfo(np.float32).tiny  # no term adds less

Number = TypeVar("Number", bound=np.generic)
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


def document(title: str, description: str, first_bullet: str, options: Mapping[str, Sequence[str]]) -> str:
    """Return the text under which WebShop indexes a product."""
    choices = ", and ".join(f"{name}: {', '.join(values)}" for name, values in options.items())
    return f"{title} {description} {first_bullet} {choices}".lower()


class SearchIndex:
    """An index of documents; the scores of each term are computed once, in the constructor.

    Args:
        ids: one id per document; documents of equal score are ordered by id.
        documents: their texts, see `document`.
    """

    def __init__(self, ids: Sequence[str], documents: Sequence[str]) -> None:
        order = sorted(range(len(ids)), key=ids.__getitem__)  # a smaller row then breaks a tie
        self._ids = np.array([ids[i] for i in order], object)  # (N,)
        self._terms: dict[str, int] = {}  # indexed term -> number
        self._words: dict[str, int] = {}  # written word -> number of its term, -1 for a stop word
        self._score_postings([self._numbers(documents[i]) for i in order])

    def search(self, query: str, k: int = 50) -> list[tuple[str, float]]:
        """Return the best `k` documents that share a term with the query and their scores, best first."""
        numbers = self._query_terms(query)
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

    def _query_terms(self, query: str) -> list[int]:
        """Return the numbers of a query's indexed terms, with repetitions."""
        query_words = words(query)
        numbers = list(map(self._words.get, query_words))
        if None in numbers:  # no document has this word, but its stem may be indexed
            numbers = [
                self._terms.get(term(word)) if number is None else number
                for word, number in zip(query_words, numbers, strict=True)
            ]
        return [number for number in numbers if number is not None and number >= 0]

    def _gain(self, number: int, count: int) -> Doubles:
        """Compute what a term that occurs `count` times in the query adds to each of its rows."""
        if count == 1:
            return self._gains[number]
        return _gain(np.float32(count) * self._idf[number], self._divisors[number])

    def _numbers(self, text: str) -> list[int]:
        """Return the numbers of a text's terms; new terms get the next numbers."""
        numbers = self._words
        text_words = words(text)
        for word in text_words:
            if word not in numbers:
                stemmed = term(word)
                numbers[word] = self._terms.setdefault(stemmed, len(self._terms)) if stemmed else -1
        return [number for word in text_words if (number := numbers[word]) >= 0]

    def _score_postings(self, documents: list[list[int]]) -> None:
        """Compute the rows of each of T terms and what it adds to their scores."""
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
    """Compute what a term adds to documents: in float32, returned as the float64 in which Lucene sums."""
    return (weight - weight / divisor).astype(np.float64)


def _idf(df: Ints, documents: int) -> Floats:
    """Compute the inverse document frequency of a term that occurs in `df` documents."""
    idf: Doubles = np.log(1 + (documents - df + 0.5) / (df + 0.5))
    return idf.astype(np.float32)


def _inverse_norms(lengths: Ints) -> Floats:
    """Compute 1 / (k1·(1 - b + b·|d| / avgdl)) of each document, with |d| in Lucene's one-byte precision."""
    average = np.float32(lengths.sum() / max(np.count_nonzero(lengths), 1))
    quantised = np.array([_quantised(length) for length in lengths.tolist()], np.float32)
    return np.float32(1) / (K1 * ((np.float32(1) - B) + B * quantised / max(average, np.float32(1))))


def _quantised(length: int) -> int:
    """Round a document's length as Lucene's `SmallFloat.intToByte4`: the excess over 24, to four bits."""
    if length < 24:
        return length
    shift = max((length - 24).bit_length() - 4, 0)
    return 24 + ((length - 24) >> shift << shift)


def _split(values: npt.NDArray[Number], sizes: Ints) -> list[npt.NDArray[Number]]:
    """Cut an array into consecutive pieces of these sizes."""
    ends = np.cumsum(sizes).tolist()
    return [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _best(scores: Floats, k: int) -> Ints:
    """Return the rows of the `k` largest scores above 0, largest first; equal scores are ordered by row."""
    least = _LEAST
    if len(scores) > k:
        partitioned = scores.copy()
        partitioned.partition(-k)
        least = max(partitioned[-k], least)
    rows = (scores >= least).nonzero()[0]
    return rows[(-scores[rows]).argsort(kind="stable")[:k]]
