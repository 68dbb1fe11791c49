"""Train an index of tools on requests: a bi-encoder with the InfoNCE loss (van den Oord et al. 2018, arXiv:1807.03748).

    loss = mean over queries q of  - log  exp(s(q, t) / tau) / sum over candidates c of  exp(s(q, c) / tau)

t is a tool that q needs, and s the cosine of their vectors (see `retrieval.index`). The candidates of a batch are the
tools of all its queries (in-batch negatives), and for each query the tools that it does not need and that score best at
the beginning of the epoch (hard negatives, as ANCE has them, arXiv:2007.00808). Other tools that q needs are no
candidates of it. Both sides share one table of vectors, so equal words are alike before the training. Each tool's own
text is a query, too, so that a tool is found by what it is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym_py.checks import require_at_least, require_field_types
from agentgym_py.errors import ConfigError, DataError
from agentgym_py.retrieval.features import Features, features_of
from agentgym_py.retrieval.index import Floats, ToolIndex, embed
from agentgym_py.retrieval.types import ToolQuery, document_of
from agentgym_py.rng import Rng

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class IndexTraining:
    """Settings of an index's training."""

    epochs: int = 6
    """Passes over the queries."""
    batch_size: int = 256
    """Queries of an optimizer step."""
    learning_rate: float = 0.01
    """Learning rate of Adam."""
    temperature: float = 0.07
    """tau of the loss."""
    hard_negatives: int = 8
    """Tools per query that score best and are not needed; 0 has in-batch negatives only."""
    size: int = 128
    """D, numbers of a vector."""
    rows: int = 32768
    """R, rows of the table into which features are hashed."""
    seed: int = 0
    """Seed of the first vectors and of the order."""

    def __post_init__(self) -> None:
        require_field_types(self)
        positive = ("epochs", "batch_size", "size", "rows")
        require_at_least(self, dict.fromkeys(positive, 1.0) | {"hard_negatives": 0.0})
        for name in ("learning_rate", "temperature"):
            if not (math.isfinite(value := getattr(self, name)) and value > 0):
                raise ConfigError(f"{name} must be a number above 0, got {value:g}")


def info_nce(scores_QC: Tensor, positives_Q: Tensor, excluded_QC: Tensor, temperature: float) -> Tensor:
    """Return the mean loss of Q queries over C candidates, a scalar.

    `positives_Q` is the place of a query's positive candidate; candidates in `excluded_QC` are no negatives of it.
    """
    from torch.nn.functional import cross_entropy

    logits_QC = (scores_QC / temperature).masked_fill(excluded_QC, -math.inf)
    return cross_entropy(logits_QC, positives_Q)


class _Pair(NamedTuple):
    """A query with one of the tools that it needs."""

    query: int
    tool: int


class _Data(NamedTuple):
    """The Q queries, among them the text of each of the N tools, and what is known of both."""

    queries: Sequence[ToolQuery]
    documents: Sequence[str]
    needed_QN: NDArray[np.bool_]
    pairs: Sequence[_Pair]
    query_features: Sequence[Features]
    tool_features: Sequence[Features]

    @classmethod
    def of(cls, texts: Mapping[str, str], queries: Sequence[ToolQuery], rows: int) -> _Data:
        """Compute it; ConfigError if there is no tool, DataError for a query without a known tool."""
        if not texts:
            raise ConfigError("an index needs at least one tool")
        places = {name: place for place, name in enumerate(texts)}
        queries = [*queries, *(ToolQuery(text, (name,)) for name, text in texts.items())]
        _require_tools(queries, places)
        needed_QN = np.zeros((len(queries), len(places)), dtype=bool)
        for number, query in enumerate(queries):
            needed_QN[number, [places[name] for name in query.tools]] = True
        pairs = [_Pair(int(query), int(tool)) for query, tool in np.argwhere(needed_QN)]
        documents = [document_of(*tool) for tool in texts.items()]
        return cls(
            queries, documents, needed_QN, pairs, [features_of(query.text, rows) for query in queries],
            [features_of(document, rows) for document in documents],
        )  # fmt: skip


def train_index(
    texts: Mapping[str, str], queries: Sequence[ToolQuery], settings: IndexTraining | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ToolIndex:  # fmt: skip
    """Train an index of tools.

    Args:
        texts: The text of each tool by name.
        queries: What the tools are needed for.
        settings: The settings; by default the usual ones.
        progress: Called with the number of steps done and the total.

    Raises:
        ConfigError: there is no tool.
        DataError: a query needs no tool, or one without a text.
    """
    import torch
    from torch import nn

    settings = settings or IndexTraining()
    data = _Data.of(texts, queries, settings.rows)
    generator = torch.Generator().manual_seed(settings.seed)  # EmbeddingBag's own weights are of torch's global one
    weight = torch.empty(settings.rows, settings.size)
    weight.normal_(0.0, 1 / math.sqrt(settings.size), generator=generator)
    table = nn.EmbeddingBag.from_pretrained(weight, freeze=False, mode="sum")
    optimizer = torch.optim.Adam(table.parameters(), lr=settings.learning_rate)
    rng, step = Rng(settings.seed, "index"), 0
    steps = settings.epochs * math.ceil(len(data.pairs) / settings.batch_size)
    for _ in range(settings.epochs):
        vectors = table.weight.detach().numpy()
        hard_QH = hard_negatives(data.queries, data.documents, data.needed_QN, vectors, settings.hard_negatives)
        order = rng.sample(data.pairs, len(data.pairs))
        for start in range(0, len(order), settings.batch_size):
            loss = _loss(table, data, order[start : start + settings.batch_size], hard_QH, settings.temperature)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if progress:
                progress(step, steps)
    return ToolIndex.of(texts, table.weight.detach().numpy().copy())


def _loss(
    table: torch.nn.EmbeddingBag, data: _Data, batch: Sequence[_Pair], hard_QH: NDArray[np.int64], temperature: float
) -> Any:
    """Return the loss of a batch, whose candidates are all of its tools and the hard negatives of its queries."""
    import torch

    numbers, tools_Q = np.array(batch).T
    candidates_C = np.unique(np.concatenate([tools_Q, hard_QH[numbers].ravel()]))
    positives_Q = np.searchsorted(candidates_C, tools_Q)
    excluded_QC = data.needed_QN[np.ix_(numbers, candidates_C)]
    excluded_QC[np.arange(len(batch)), positives_Q] = False
    queries_QD = _encode(table, [data.query_features[number] for number in numbers])
    tools_CD = _encode(table, [data.tool_features[tool] for tool in candidates_C])
    places_Q, masked_QC = torch.from_numpy(positives_Q), torch.from_numpy(excluded_QC)
    return info_nce(queries_QD @ tools_CD.T, places_Q, masked_QC, temperature)


def hard_negatives(
    queries: Sequence[ToolQuery], documents: Sequence[str], needed_QN: NDArray[np.bool_], features: Floats, number: int
) -> NDArray[np.int64]:  # fmt: skip
    """Return the places of the tools that score best for each of Q queries and are not needed, (Q, H)."""
    number = min(number, len(documents) - int(needed_QN.sum(1).max()))
    scores_QN = embed([query.text for query in queries], features) @ embed(documents, features).T
    scores_QN[needed_QN] = -math.inf
    return np.argsort(-scores_QN, axis=1, kind="stable")[:, :number]


def _encode(table: torch.nn.EmbeddingBag, features: Sequence[Features]) -> Tensor:
    """Return the vectors of B texts, (B, D), each of length 1."""
    import torch
    from torch.nn.functional import normalize

    sizes = [len(rows) for rows, _ in features]
    offsets_B = torch.tensor([0, *np.cumsum(sizes)[:-1]])
    rows = torch.from_numpy(np.concatenate([rows for rows, _ in features]))
    weights = torch.from_numpy(np.concatenate([weights for _, weights in features]))
    return normalize(table(rows, offsets_B, per_sample_weights=weights), dim=-1)


def _require_tools(queries: Sequence[ToolQuery], places: Mapping[str, int]) -> None:
    for query in queries:
        if not query.tools:
            raise DataError(f"the query {query.text!r:.80} needs no tool; leave it out")
        if unknown := [name for name in query.tools if name not in places]:
            raise DataError(f"the query {query.text!r:.80} needs {unknown[0]!r}, which is no tool of the index")
