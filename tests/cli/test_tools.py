"""`agentgym tools`: an index is trained, measured, searched and used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")
Run = Callable[..., tuple[int, str, str]]
SMALL = ("--tasks", "20", "--epochs", "1", "--measure_tasks", "5", "--rows", "1024", "--size", "8", "--threads", "1")


def test_an_index_is_trained_searched_and_used(agentgym: Run) -> None:
    """Its recall is printed beside that of word search, and as JSON; a world's search uses it."""
    pytest.importorskip("rank_bm25")
    status, out, err = agentgym("tools", "index", *SMALL, "--out", "index")
    assert status == 0, err
    assert "index: an index of 997 tools, from " in out and "recall@1" in out and "words (BM25)" in out
    assert {path.name for path in Path("index").iterdir()} == {"index.json", "features.npy", "tools.npy"}
    status, out, err = agentgym("tools", "index", *SMALL, "--out", "again", "--json")
    found = json.loads(out)
    assert status == 0 and found["tools"] == 997 and len(found["recall"]) == 8, err
    assert Path("again/tools.npy").read_bytes() == Path("index/tools.npy").read_bytes()
    status, out, err = agentgym("tools", "search", "cancel_order", "--index", "index", "--number", "2")
    assert status == 0 and out.startswith("cancel_order") and out.count("\n") == 2, err
    status, out, _ = agentgym("tools", "search", "cancel_order", "--index", "index", "--json")
    assert json.loads(out)["tools"][0] == "cancel_order"
    words = ("--env", "tools", "--env_kwargs.difficulty", "retrieval", "--env_kwargs.index", "index")
    status, out, err = agentgym("eval", *words, "--agent", "expert", "--tasks", "3", "--out", "e")
    assert status == 0 and "100.0 %" in out, err
    options = json.loads(Path("e/manifest.json").read_text())["options"]
    assert options["env_kwargs"]["index"] == str(Path("index").absolute())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("index", "--out DIR is needed"),
        ("index --out x --env maze", "--env maze has no tools to search"),
        ("index --out x --env tools,maze", "must be one world"),
        ("index --out x --tasks 0", "--tasks must be a number of at least 1"),
        ("index --out x --epochs 0", "--epochs must be a number of at least 1"),
        ("search text", "--index DIR is needed"),
        ("search 12 --index none", "the text '12' has no word"),
        ("search text --index none", "none holds no index of tools: there is no such folder"),
        ("search text --index none --number 0", "--number must be at least 1, got 0"),
        ("sarch", "did you mean search"),
    ],
)
def test_mistakes_are_one_line(agentgym: Run, words: str, message: str) -> None:
    """Before anything is written."""
    status, _, err = agentgym("tools", *words.split())
    assert status == 2 and message in err and err.count("\n") == 1 and not Path("x").exists(), err
