"""Word search: BM25 (Robertson et al. 1994) over the texts of tools, by the library rank-bm25; the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from agentgym_py.errors import ConfigError
from agentgym_py.registry import install_advice
from agentgym_py.retrieval.features import words_of
from agentgym_py.retrieval.types import document_of

_LEAST_WEIGHT = 1e-3
"""Weight of a word that most tools have: tools that share it are found, after those that share rarer words."""


class WordSearch:
    """Finds tools that share words with a text.

    Raises:
        ConfigError: rank-bm25 is missing, there is no tool, or no tool has a word.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        try:
            from rank_bm25 import BM25Okapi
        except ImportError:
            raise ConfigError(f"word search needs rank-bm25: {install_advice('retrieval')}") from None
        if not texts:
            raise ConfigError("word search needs at least one tool")
        self._names = list(texts)
        documents = [words_of(document_of(name, text)) for name, text in texts.items()]
        if not any(documents):
            raise ConfigError("word search needs a tool whose name or text has letters")
        self._bm25 = BM25Okapi(documents)
        for word, weight in self._bm25.idf.items():  # 0 or less for a word in half of the tools or more
            self._bm25.idf[word] = max(weight, _LEAST_WEIGHT)

    def search(self, texts: Sequence[str], k: int) -> list[list[str]]:
        """Return the names of the k best tools for each text; those that share no word are left out."""
        found = list[list[str]]()
        for text in texts:
            scores_N = np.asarray(self._bm25.get_scores(words_of(text)))
            order = np.argsort(-np.round(scores_N, 9), kind="stable")[:k]
            found.append([self._names[place] for place in order if scores_N[place] > 0])
        return found
