"""The training of an index: its loss beside a slow reference, its negatives, and that it learns other words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from agentgym_py.errors import ConfigError, DataError
from agentgym_py.retrieval import ToolQuery

torch = pytest.importorskip("torch")

from agentgym_py.evaluation.recall import recall
from agentgym_py.retrieval.index import embed
from agentgym_py.retrieval.training import IndexTraining, hard_negatives, info_nce, train_index

TEXTS = {"weather": "Get the forecast of a city", "orders": "List purchases", "cancel": "Stop a purchase", "add": "Sum"}
WORDS = {
    "weather": ("sky", "rain", "sunshine"), "orders": ("bought", "parcels", "history"), "cancel": ("revoke", "undo"),
    "add": ("plus", "altogether"),
}  # fmt: skip
QUERIES = [
    ToolQuery(f"please {frame} {word} number {n}", (tool,))
    for tool, words in WORDS.items() for word in words for n, frame in enumerate(("tell me the", "I want"))
]  # fmt: skip
SMALL = IndexTraining(epochs=20, batch_size=8, learning_rate=0.03, size=32, rows=4096, hard_negatives=2)


def test_the_loss_is_the_formula() -> None:
    """Row by row, over the candidates that are not excluded."""
    generator = torch.Generator().manual_seed(0)
    scores_QC = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    positives = [0, 3, 6, 2, 2]
    excluded = torch.rand(5, 7, generator=generator) < 0.4
    for row, positive in enumerate(positives):
        excluded[row, positive] = False
    total = 0.0
    for row, positive in enumerate(positives):
        parts = [math.exp(float(s) / 0.3) for s, out in zip(scores_QC[row], excluded[row], strict=True) if not out]
        total -= math.log(math.exp(float(scores_QC[row, positive]) / 0.3) / sum(parts))
    loss = info_nce(scores_QC, torch.tensor(positives), excluded, 0.3)
    assert float(loss) == pytest.approx(total / 5)


def test_hard_negatives_are_the_best_tools_that_are_not_needed() -> None:
    """Beside a slow search; never more than every query has."""
    features = np.random.default_rng(1).normal(size=(512, 8)).astype(np.float32)
    documents = [f"{name} {text}" for name, text in TEXTS.items()]
    needed_QN = np.zeros((len(QUERIES), 4), dtype=bool)
    for number, query in enumerate(QUERIES):
        needed_QN[number, list(TEXTS).index(query.tools[0])] = True
    needed_QN[0] = [True, True, False, False]
    scores = embed([query.text for query in QUERIES], features) @ embed(documents, features).T
    for number in (0, 1, 2, 9):
        found = hard_negatives(QUERIES, documents, needed_QN, features, number)
        assert found.shape == (len(QUERIES), min(number, 2))
        for row, places in enumerate(found):
            others = [n for n in np.argsort(-scores[row], kind="stable") if not needed_QN[row, n]]
            assert list(places) == others[: len(places)]


def test_it_learns_words_that_no_tool_has() -> None:
    """In frames of no training query; the same seed gives the same index."""
    steps, chance = list[tuple[int, int]](), torch.get_rng_state()
    index = train_index(TEXTS, QUERIES, SMALL, lambda done, total: steps.append((done, total)))
    held_out = [ToolQuery(f"could you show {word} today", (tool,)) for tool, words in WORDS.items() for word in words]
    assert recall(index, held_out, ks=[1]).at[1].value >= 0.9
    assert [names[0] for names in index.search(list(TEXTS.values()), 1)] == list(TEXTS)
    assert steps == [(done, 60) for done in range(1, 61)]
    assert torch.get_rng_state().equal(chance), "torch's own generator is not used"
    again, other = train_index(TEXTS, QUERIES, SMALL), train_index(TEXTS, QUERIES, replace(SMALL, seed=1))
    assert (again.tools == index.tools).all() and not np.allclose(other.tools, index.tools)


def test_queries_with_several_tools_and_no_hard_negatives() -> None:
    """Another needed tool is no negative; in-batch negatives alone learn, too."""
    both = [ToolQuery("revoke what I bought", ("orders", "cancel")), *QUERIES]
    index = train_index(TEXTS, both, replace(SMALL, hard_negatives=0))
    assert {*index.search(["revoke what I bought"], 2)[0]} == {"orders", "cancel"}


def test_what_cannot_be_learnt_is_refused() -> None:
    """With the text of the query, or the name of the setting."""
    for query, message in (
        (ToolQuery("hello", ()), "the query 'hello' needs no tool"),
        (ToolQuery("hello", ("fly",)), "needs 'fly', which is no tool of the index"),
    ):
        with pytest.raises(DataError, match=message):
            train_index(TEXTS, [query], SMALL)
    with pytest.raises(ConfigError, match="at least one tool"):
        train_index({}, [], SMALL)
    wrong = {"epochs": 0, "rows": 0, "hard_negatives": -1, "temperature": 0.0, "learning_rate": math.inf}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=name):
            IndexTraining(**{name: value})  # type: ignore[arg-type]  # wrong on purpose
