"""Features of texts, the index of tools and word search."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_py.errors import ConfigError, DataError
from agentgym_py.retrieval import ToolIndex
from agentgym_py.retrieval.features import features_of, words_of
from agentgym_py.retrieval.index import embed

TEXTS = {
    "get_weather": "Get the weather of a city", "list_orders": "List the orders of a customer",
    "cancel_order": "Cancel an order", "add_event": "Add an event to the calendar",
}  # fmt: skip


def untrained(rows: int = 4096, size: int = 64) -> ToolIndex:
    """An index of random vectors: it compares features alone."""
    return ToolIndex.of(TEXTS, np.random.default_rng(0).normal(size=(rows, size)).astype(np.float32))


@given(text=st.text(max_size=60))
def test_any_text_has_features_in_the_table(text: str) -> None:
    """None without a letter; each word weighs 2 with its pieces, and each pair of neighbours 1."""
    rows, weights = features_of(text, 128)
    words = words_of(text)
    assert rows.shape == weights.shape and ((rows >= 0) & (rows < 128)).all()
    assert float(weights.sum()) == pytest.approx(2 * len(words) + max(len(words) - 1, 0), rel=1e-4)
    vector = embed([text], untrained(128, 8).features)
    assert vector.shape == (1, 8) and np.isfinite(vector).all()


def test_features_are_the_same_in_every_process() -> None:
    """Whatever Python's hash seed is; digits and case do not count."""
    code = "from agentgym_py.retrieval.features import features_of as f; print(f('Cancel order 7', 32768)[0].tolist())"
    rows = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert rows == {f"{features_of('cancel_ORDER #9', 32768).rows.tolist()}\n"}


def test_a_text_finds_what_shares_its_words() -> None:
    """A name or a text finds its own tool first, in any case."""
    index = untrained()
    found = index.search(
        ["weather in the city", "orders of a customer", "cancel_order", "ADD an event, to the calendar!"], 2
    )
    assert [names[0] for names in found] == ["get_weather", "list_orders", "cancel_order", "add_event"]
    assert index.search(["", "12"], 3) == [list(TEXTS)[:3]] * 2  # equal scores keep the order
    assert index.search(["weather"], 99)[0][0] == "get_weather" and len(index.search(["weather"], 99)[0]) == 4
    assert index.search([], 3) == []


def test_a_name_counts_before_a_text_and_the_earlier_tool_before_a_later_one() -> None:
    """A tool without words is found by none of the texts that have no words either."""
    texts = {"7": "12", "stop": "Stop the music", "halt": "stop", "pause": "Stop, the music!"}
    index = ToolIndex.of(texts, untrained().features)
    assert [names[0] for names in index.search(["stop", "stop the music", "pause"], 1)] == ["stop", "stop", "pause"]
    assert index.search(["99"], 4) == [list(texts)]
    last = ToolIndex.of({"stop": "Stop", "7": "12"}, index.features)
    assert last.search(["99"], 2) == [["stop", "7"]]


def test_a_score_is_the_cosine_of_weighted_sums() -> None:
    """Beside a slow sum over the features of both sides."""
    index = untrained()

    def slow(text: str) -> Any:
        total = np.zeros(index.features.shape[1])
        for row, weight in zip(*features_of(text, len(index.features)), strict=True):
            total = total + float(weight) * index.features[row].astype(np.float64)
        return total / np.linalg.norm(total)

    query = "is there weather for an order"
    scores = {name: float(slow(query) @ slow(f"{name} {text}")) for name, text in TEXTS.items()}
    assert index.search([query], 4)[0] == sorted(scores, key=lambda name: -scores[name])
    assert (embed([query], index.features) @ index.tools.T)[0] == pytest.approx(list(scores.values()), abs=1e-5)


def test_an_index_is_saved_and_read_once(tmp_path: Path) -> None:
    """With the same results; a new one in its place is read again."""
    index = untrained()
    index.save(tmp_path / "i")
    loaded = ToolIndex.load(tmp_path / "i")
    assert loaded.texts == TEXTS and (loaded.tools == index.tools).all() and ToolIndex.load(tmp_path / "i") is loaded
    assert loaded.digest == index.digest != ToolIndex.of(TEXTS, index.features + 1).digest
    assert index.digest != ToolIndex.of(TEXTS | {"add_event": "Add"}, index.features).digest
    os.utime(tmp_path / "i" / "index.json", ns=(1, 1))
    assert ToolIndex.load(tmp_path / "i") is not loaded
    with pytest.raises(ConfigError, match="at least one tool"):
        ToolIndex.of({}, index.features)


def _about(**about: Any) -> Callable[[Path], object]:
    return lambda folder: (folder / "index.json").write_text(json.dumps(about))


def _without(path: Path) -> Path:
    """Remove a file and return its path."""
    path.unlink()
    return path


DAMAGES: dict[str, Callable[[Path], object]] = {
    "Expecting property name": lambda folder: (folder / "index.json").write_text("{"),
    "its version is 2": _about(version=2, texts=TEXTS),
    "for 1 tools": _about(version=1, texts={"a": "b"}),
    "for 0 tools": _about(version=1, texts={}),
    "has no attribute": _about(version=1, texts=[]),
    "No such file": lambda folder: (folder / "tools.npy").unlink(),
    "allow_pickle": lambda folder: np.save(folder / "tools.npy", np.array([{}], dtype=object), allow_pickle=True),
    "not finite": lambda folder: np.save(folder / "tools.npy", np.full((4, 64), np.nan)),
    "has numbers that are not": lambda folder: np.save(folder / "tools.npy", np.full((4, 64), 1e300)),
    "features.npy is no table": lambda folder: np.save(folder / "features.npy", np.zeros((0, 64))),
    "tools.npy is no table": lambda folder: np.save(folder / "tools.npy", np.zeros((4, 64), complex)),
    "nested too deeply": lambda folder: (folder / "index.json").write_text("[" * 100_000),
    "no ordinary file": lambda folder: os.mkfifo(_without(folder / "tools.npy")),
    "leads out of": lambda folder: _without(folder / "tools.npy").symlink_to("/etc/hosts"),
    "tools.npy has more than": lambda folder: os.truncate(folder / "tools.npy", 1 << 36),
}


@pytest.mark.parametrize("problem", DAMAGES)
def test_a_damaged_index_is_refused(problem: str, tmp_path: Path) -> None:
    """In one line with the reason; nothing in it is run."""
    untrained().save(tmp_path / "i")
    DAMAGES[problem](tmp_path / "i")
    with pytest.raises(DataError, match="holds no index of tools that opens") as error:
        ToolIndex.load(tmp_path / "i")
    assert problem in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(DataError, match="did you mean"):
        ToolIndex.load(tmp_path)


def test_word_search_needs_a_shared_word() -> None:
    """Without any in common nothing is found."""
    pytest.importorskip("rank_bm25")
    from agentgym_py.retrieval.words import WordSearch

    weather, cancel, nothing = WordSearch(TEXTS).search(["the weather", "cancel it", "sunshine"], 2)
    assert weather[0] == "get_weather" and cancel == ["cancel_order"] and nothing == []
    with pytest.raises(ConfigError, match="at least one tool"):
        WordSearch({})
    with pytest.raises(ConfigError, match="a tool whose name or text has letters"):
        WordSearch({"1": "2", "3": ""})


def test_word_search_finds_in_few_tools() -> None:
    """A word that most of them share counts little, and still more than none."""
    pytest.importorskip("rank_bm25")
    from agentgym_py.retrieval.words import WordSearch

    texts = {"weather": "weather in a city", "translate": "translate a text"}
    assert WordSearch(texts).search(["weather", "a"], 2)[0] == ["weather"]
    assert WordSearch({"weather": "weather in a city"}).search(["weather", "sun"], 2) == [["weather"], []]
    more = WordSearch(texts | {"forecast": "weather tomorrow"})
    assert set(more.search(["weather"], 3)[0]) == {"weather", "forecast"}


def test_tools_that_differ_in_digits_are_found_by_their_names() -> None:
    """A name as it is written comes before one with the same words."""
    index = ToolIndex.of({"send_v1": "old sender", "send_v2": "new sender", "7": "x"}, np.ones((8, 4), np.float32))
    best = [names[0] for names in index.search(["send_v2", "SEND_V1", "send v", "new sender", "7", "8"], 1)]
    assert best == ["send_v2", "send_v1", "send_v1", "send_v2", "7", "send_v1"]


def test_an_index_that_cannot_be_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the older index is whole; a new one leaves nothing."""
    index = untrained()
    index.save(tmp_path / "i")
    before = {path.name: path.read_bytes() for path in (tmp_path / "i").iterdir()}
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.name.startswith("features"):
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    for folder in ("i", "new"):
        with pytest.raises(OSError, match=r"No space left on device: .*features\.npy"):
            ToolIndex.of(TEXTS, index.features + 1).save(tmp_path / folder)
    assert {path.name: path.read_bytes() for path in (tmp_path / "i").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["i"]
