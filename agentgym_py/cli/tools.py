"""`agentgym tools`: train an index of a world's tools, which finds them by meaning, and search it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py.checks import Basic, require_at_least, require_field_types
from agentgym_py.cli.argv import peek_envs
from agentgym_py.cli.env_options import add_env_options, env_specs
from agentgym_py.cli.interrupts import require_not_interrupted
from agentgym_py.cli.parser import JSON_HELP, Parser, UsageError, Values, read_options
from agentgym_py.cli.runtime import console, print_json
from agentgym_py.env.registration import short_name
from agentgym_py.errors import setting
from agentgym_py.files import claimed, new_folder
from agentgym_py.registry import install_advice
from agentgym_py.retrieval import Searcher, ToolIndex, ToolQuery, ToolSource
from agentgym_py.retrieval.features import words_of
from agentgym_py.retrieval.training import IndexTraining, train_index

if TYPE_CHECKING:
    from agentgym_py.env import EnvSpec
    from agentgym_py.evaluation.recall import Recall

_SPLITS = ("valid", "test")
"""Splits of the measurement, whose wordings no training has."""


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """The index."""

    out: Basic[str | None] = None
    """Folder (required) for the index."""
    tasks: Basic[int] = 4000
    """Training tasks of the world whose requests are learnt."""
    measure_tasks: Basic[int] = 300
    """Valid and test tasks, each, on which recall is measured; 0 measures nothing."""
    threads: int | None = None
    """CPU threads."""
    json: Basic[bool] = False
    """Print the recall as JSON, for a program."""

    def __post_init__(self) -> None:
        require_field_types(self)
        require_at_least(self, {"tasks": 1.0, "measure_tasks": 0.0})


def options(parser: Parser) -> None:
    """Add the options of `tools`."""
    index = parser.add_command("index", "Train an index of a world's tools on its training requests.")
    add_env_options(index)
    index.add_dataclass(IndexOptions)
    index.add_dataclass(IndexTraining, title="The training", basic=False)
    of_tools = peek_envs(parser.argv) in ([], ["tools"])
    index.set_defaults({"env": ["tools"], "env_kwargs": {"difficulty": "retrieval"} if of_tools else {}})
    search = parser.add_command("search", "Show the tools that an index finds for a text.")
    search.add_positional("text", "What a tool should do, in quotes.")
    search.add("index", str, None, "Folder of the index (required).", metavar="DIR")
    search.add("number", int, 5, "Number of tools.")
    search.add("json", bool, False, JSON_HELP)


def run(args: Values) -> int:
    """Train or search."""
    if args["what"] == "search":
        _search(args)
    else:
        _train(args)
    return 0


def _search(args: Values) -> None:
    if not args["index"]:
        raise UsageError(f"{setting('index', 'DIR')} is needed: the folder of an index")
    if args["number"] < 1:
        raise UsageError(f"{setting('number')} must be at least 1, got {args['number']}")
    if not words_of(args["text"]):
        raise UsageError(f"the text {args['text']!r:.80} has no word; say what a tool should do")
    index = ToolIndex.load(args["index"])
    (found,) = index.search([args["text"]], args["number"])
    if args["json"]:
        print_json({"text": args["text"], "tools": found})
        return
    width = max(map(len, found))
    for name in found:
        print(f"{name:<{width}}  {index.texts[name]}")


# ---- training --------------------------------------------------------------------------------------------------------


def _train(args: Values) -> None:
    from agentgym_py.report.terminal import Phases

    chosen, settings = read_options(IndexOptions, args), read_options(IndexTraining, args)
    if chosen.out is None:
        raise UsageError(f"{setting('out', 'DIR')} is needed")
    specs = env_specs(args)
    if len(specs) > 1:
        raise UsageError(f"{setting('env')} must be one world, because an index holds the tools of one")
    new_folder(chosen.out)
    if chosen.threads:
        import torch

        torch.set_num_threads(chosen.threads)
    began = time.monotonic()
    with claimed(Path(chosen.out)), Phases(console(chosen.json)) as phases:
        new_folder(chosen.out)  # again: another process may have written it meanwhile
        texts, queries = _read(specs[0], "train", chosen.tasks)
        show = phases.training(f"train on {len(queries)} texts of {chosen.tasks} tasks", "steps")

        def progress(done: int, total: int) -> None:
            require_not_interrupted()
            show(done, total)

        index = train_index(texts, queries, settings, progress)
        index.save(chosen.out)
    seconds = time.monotonic() - began
    found = _measure(specs[0], index, texts, chosen.measure_tasks) if chosen.measure_tasks else {}
    if chosen.json:
        rows = [
            {"split": split, "texts": kind, "search": name, **asdict(recall)}
            for (split, kind, name), recall in found.items()
        ]
        print_json({"folder": chosen.out, "tools": len(texts), "queries": len(queries), "recall": rows})
        return
    print(f"{chosen.out}: an index of {len(texts)} tools, from {len(queries)} texts, {seconds:.0f} s")
    _print_recall(found)


def _read(spec: EnvSpec, split: str, tasks: int) -> tuple[Mapping[str, str], list[ToolQuery]]:
    """Return the texts of a world's tools, and what tasks of a split ask for.

    Raises:
        UsageError: the world has no tools to search, or too few tasks.
    """
    with closing(spec.make()) as env:
        if not isinstance(env, ToolSource):
            world = short_name(spec.local_spec.name)
            raise UsageError(f"{setting('env', world)} has no tools to search: it lacks tool_texts and tool_queries")
        if (available := spec.count(split, tasks)) < tasks:
            raise UsageError(f"the world has {available} {split} tasks, fewer than {tasks}")
        return env.tool_texts(), list(_watched(env.tool_queries(split, range(tasks))))


def _watched(queries: Iterator[ToolQuery]) -> Iterator[ToolQuery]:
    for query in queries:
        require_not_interrupted()
        yield query


def _measure(
    spec: EnvSpec, index: ToolIndex, texts: Mapping[str, str], tasks: int
) -> dict[tuple[str, str, str], Recall]:
    """Return the recall by split, kind of text and search."""
    from agentgym_py.evaluation.recall import recall

    searches: dict[str, Searcher] = {"index": index}
    if find_spec("rank_bm25"):
        from agentgym_py.retrieval.words import WordSearch

        searches["words (BM25)"] = WordSearch(texts)
    found = {}
    for split in _SPLITS:
        queries = _read(spec, split, tasks)[1]
        for kind, of_kind in (("requests", False), ("parts", True)):
            chosen = [query for query in queries if query.is_part == of_kind]
            for name, search in searches.items() if chosen else ():
                found[split, kind, name] = recall(search, chosen)
    return found


def _print_recall(found: Mapping[tuple[str, str, str], Recall]) -> None:
    from agentgym_py.evaluation.text import format_interval
    from agentgym_py.report.terminal import print_table

    if not found:
        return
    ks = list(next(iter(found.values())).at)
    rows: list[Sequence[Any]] = [
        [split, f"{recall.queries} {kind}", name, *(format_interval(recall.at[k]) for k in ks)]
        for (split, kind, name), recall in found.items()
    ]
    print()
    print_table(console(), ["split", "texts", "search", *(f"recall@{k}" for k in ks)], rows)
    if not find_spec("rank_bm25"):
        print(f"To compare with word search: {install_advice('retrieval')}")
