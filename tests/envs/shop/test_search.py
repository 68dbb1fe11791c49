from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_envs.shop.search import SearchIndex, document
from agentgym_envs.shop.tokens import term, words

WORDS = st.sampled_from(
    ["red", "red's", "blue", "dress", "dresses", "6.76", "us-8", "snake_case", "café", "★", "中文", "the"]
)
TEXTS = st.lists(WORDS, max_size=60).map(" ".join)


@pytest.fixture(scope="module")
def index(golden: dict[str, Any]) -> SearchIndex:
    """The index of the recorded catalogue."""
    documents = golden["search"]["documents"]
    return SearchIndex([doc["id"] for doc in documents], [doc["contents"] for doc in documents])


def test_rankings_and_scores_are_lucenes(index: SearchIndex, golden: dict[str, Any]) -> None:
    """Every recorded ranking comes out hit by hit, ties included, with its score to the four places recorded."""
    for recorded in golden["search"]["queries"]:
        hits = [[asin, round(score, 4)] for asin, score in index.search(recorded["query"])]
        assert hits == recorded["hits"], recorded["query"]


def test_the_indexed_text_is_webshops(golden: dict[str, Any]) -> None:
    """A product's document is made of its title, description, first bullet and options as WebShop makes it."""
    documents = {doc["id"]: doc["contents"] for doc in golden["search"]["documents"]}
    for item in golden["items"]:
        options = {
            name.lower(): [value["value"].strip().replace("/", " | ").lower() for value in values]
            for name, values in (item["customization_options"] or {}).items()
            if values is not None
        }
        bullets = item["small_description"]
        first = bullets if isinstance(bullets, str) else bullets[0]
        assert document(item["name"], item["full_description"], first, options) == documents[item["asin"]]


def test_equal_scores_come_in_the_order_of_ids() -> None:
    """Of documents that score alike the smaller id comes first, wherever it stood when the index was made."""
    index = SearchIndex(["b", "c", "a", "d"], ["red dress", "red dress", "red dress", "blue dress"])
    assert [asin for asin, _ in index.search("red")] == ["a", "b", "c"]
    assert [asin for asin, _ in index.search("red", k=2)] == ["a", "b"]


def test_a_word_of_the_query_is_found_by_its_stem() -> None:
    """A form that no document holds finds those with another form of the word."""
    assert SearchIndex(["a"], ["women's dresses"]).search("dressed woman's women")[0][0] == "a"


@pytest.mark.parametrize("query", ["", "the of", "xyzzy", "_ ' .", "\ud800"])
def test_a_query_that_shares_no_term_finds_nothing(query: str) -> None:
    """Nothing is found for blanks, stop words and unknown words."""
    assert SearchIndex(["a"], ["the red dress"]).search(query) == []
    assert SearchIndex([], []).search("red") == SearchIndex(["a"], [""]).search("red") == []


@given(st.text())
def test_any_query_has_an_answer(query: str) -> None:
    """Search never fails, whatever is typed; no score is nought or worse."""
    index = SearchIndex(["a", "b"], ["red dress a b c 1 2", "blue shoes d e f 3 4"])
    assert all(score > 0 for _, score in index.search(query))


@given(st.lists(TEXTS, min_size=1, max_size=12), TEXTS, st.integers(0, 15))
def test_scores_are_the_formula(documents: list[str], query: str, k: int) -> None:
    """The hits are the k best by a plain reading of the formula, sorted, and the same whenever asked."""
    ids = [f"{i:02}" for i in range(len(documents))]
    index = SearchIndex(ids, documents)
    hits = index.search(query, k)
    assert hits == index.search(query, k) == SearchIndex(ids, documents).search(query, k)
    assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))
    expected = {asin: score for asin, score in zip(ids, slow_scores(documents, query), strict=True) if score > 0}
    assert len(hits) == min(k, len(expected))
    assert all(score == pytest.approx(expected[asin], rel=1e-5) for asin, score in hits)


def slow_scores(documents: list[str], query: str) -> list[float]:
    """BM25 term by term, each length cut to four bits of what it exceeds 24 by."""
    bags = [[stem for word in words(text) if (stem := term(word))] for text in documents]
    filled = [bag for bag in bags if bag]
    average = sum(map(len, filled)) / max(len(filled), 1)
    scores = [0.0] * len(bags)
    for wanted in filter(None, map(term, words(query))):
        df = sum(wanted in bag for bag in bags)
        idf = math.log(1 + (len(filled) - df + 0.5) / (df + 0.5))
        for i, bag in enumerate(bags):
            if tf := bag.count(wanted):
                step = next(size for size in (1, 2, 4, 8, 16) if len(bag) - 24 < 16 * size)
                length = 24 + (len(bag) - 24) // step * step
                scores[i] += idf * tf / (tf + 0.9 * (0.6 + 0.4 * length / average))
    return scores
