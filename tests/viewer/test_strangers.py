"""A folder of a stranger in the viewer: nothing outside it changes, and one bad line spoils no other."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.agents import ExpertAgent
from agentgym_py.cli import main
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.errors import DataError, RunError
from agentgym_py.feedback import verdicts
from agentgym_py.feedback.verdicts import Ref
from agentgym_py.trajectory import store
from agentgym_py.trajectory.json_values import from_json, to_json
from agentgym_py.viewer import show
from agentgym_py.viewer.index import Index
from agentgym_py.viewer.show import TokenTexts, _load_tokenizer
from agentgym_py.viewer.source import Source

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links of POSIX")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of two episodes."""
    store.write(
        tmp_path / "theirs" / "a.jsonl", Collector(ExpertAgent()).collect_batch(jobs_for("maze", "train", [0, 1]))
    )
    return tmp_path / "theirs"


@pytest.mark.parametrize("target", ["bashrc", "created"])
def test_verdicts_are_not_written_through_a_link(target: str, theirs: Path) -> None:
    """Neither read nor written, also if it leads to nothing yet."""
    (theirs.parent / "bashrc").write_text("alias x=y")
    (theirs / verdicts.FILE).symlink_to(theirs.parent / target)
    for call in (lambda: verdicts.rate(theirs, Ref("a.jsonl", "x"), 1), lambda: verdicts.read(theirs)):
        with pytest.raises(RunError, match="leads out of"):
            call()
    assert (theirs.parent / "bashrc").read_text() == "alias x=y" and not (theirs.parent / "created").exists()


def test_a_file_that_is_no_store_is_not_cut(tmp_path: Path) -> None:
    """Its last line is no episode."""
    (tmp_path / "bashrc").write_text("alias a=b\nalias x=y")
    with pytest.raises(DataError, match="nothing was changed"):
        store.append(tmp_path / "bashrc", [])
    assert (tmp_path / "bashrc").read_text() == "alias a=b\nalias x=y"


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_the_index_is_not_written_through_a_link(end: str, link: Callable[[Path, Path], None], theirs: Path) -> None:
    """It then lies in a temporary folder."""
    other = theirs.parent / "other.sqlite"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE files (precious TEXT)")
        db.commit()
    before = other.read_bytes()
    link(theirs / f".view.sqlite{end}", other)
    with closing(Index(Source.from_paths([theirs]))) as index:
        index.update()
        assert index.find()[0] == 2
    assert other.read_bytes() == before


@pytest.mark.parametrize("page_size", [4096, 1024])
@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE broken; CREATE VIEW broken AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS file, i AS line, 'x' AS why FROM n",
        "CREATE TRIGGER t AFTER INSERT ON episodes BEGIN DELETE FROM episodes; END",
        "CREATE TABLE more (x)",
        "PRAGMA user_version = 99",
    ],
)
def test_a_prepared_index_is_built_again(sql: str, page_size: int, theirs: Path) -> None:
    """Views and triggers of a stranger never run."""
    with closing(Index(Source.from_paths([theirs]))) as index:
        index.update()
    with closing(sqlite3.connect(theirs / ".view.sqlite")) as db:
        db.executescript(f"PRAGMA journal_mode = DELETE; PRAGMA page_size = {page_size}; VACUUM; {sql}")
    with closing(Index(Source.from_paths([theirs]))) as index:
        index.update()
        assert index.find()[0] == 2 and index.broken() == []


def test_an_index_whose_names_are_no_text_is_built_again(theirs: Path) -> None:
    """SQLite names them in its error, which Python then cannot decode."""
    with closing(Index(Source.from_paths([theirs]))) as index:
        index.update()
    path = theirs / ".view.sqlite"
    path.write_bytes(path.read_bytes().replace(b"episodes_facets", b"\x80pisodes_facets", 1))
    with closing(Index(Source.from_paths([theirs]))) as index:
        index.update()
        assert index.find()[0] == 2


def test_a_journal_deletes_no_file(theirs: Path) -> None:
    """SQLite deletes the file that a journal of several databases names, to whomever it belongs."""
    with closing(Index(Source.from_paths([theirs]))) as index:
        index.update()
    with closing(sqlite3.connect(theirs / ".view.sqlite")) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    precious, other = theirs.parent / "precious", theirs.parent / "other.sqlite"
    precious.write_text("alias x=y\n")
    shutil.copy(theirs / ".view.sqlite", other)
    for database in (theirs / ".view.sqlite", other):
        database.with_name(f"{database.name}-journal").write_bytes(journal_that_names(precious))
    with closing(Index(Source.from_paths([theirs]))) as index:
        index.update()
        assert index.find()[0] == 2
    assert precious.read_text() == "alias x=y\n"
    with closing(sqlite3.connect(other)) as db, suppress(sqlite3.DatabaseError):
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    assert not precious.exists()  # so the journal is one, and SQLite alone would have obeyed


def journal_that_names(path: Path) -> bytes:
    """Return an empty rollback journal with the name of a super-journal (https://sqlite.org/fileformat.html)."""
    magic, name, page = bytes.fromhex("d9d505f920a163d7"), str(path).encode(), 4096
    header = magic + struct.pack(">5I", 0, 0, 2, 512, page)
    record = struct.pack(">I", (1 << 30) // page + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    return header.ljust(512, b"\0") + record


def test_stores_outside_are_not_shown(theirs: Path) -> None:
    """Those behind a link."""
    (theirs / "a.jsonl").rename(theirs.parent / "mine.jsonl")
    (theirs / "b.jsonl").symlink_to("../mine.jsonl")
    with pytest.raises(DataError, match="no trajectories"):
        Source.from_paths([theirs])


def nested(depth: int) -> Any:
    """Return lists within lists."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


TOKENS = {"context": [1], "ids": [2, 3], "logprobs": [0.0, 0.0], "mask": [1, 1]}
BAD_TOKENS: list[dict[str, Any]] = [
    {"ids": [-1, 3]}, {"context": [1 << 40]}, {"mask": [1]}, {"logprobs": []}, {"ids": [10**30, 1]},
]  # fmt: skip
BAD: list[dict[str, Any]] = [
    *({"tokens": TOKENS | change} for change in BAD_TOKENS),
    *({"sampling": {"x": value}} for value in (nested(900), "INFINITE", [{"y": "INFINITE"}])),
    {"seed": 10**400}, {"env_kwargs": {"x": "INFINITE"}},
]  # fmt: skip


def test_one_bad_line_spoils_no_other(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`data verify` refuses what a reader would stumble over, and the page shows the rest."""
    monkeypatch.chdir(theirs.parent)
    row = json.loads((theirs / "a.jsonl").read_bytes().splitlines()[0])
    del row["digest"]
    lines = []
    for change in BAD:
        changed = json.loads(json.dumps(row))
        (changed["steps"][0] if "tokens" in change else changed["provenance"]).update(change)
        lines.append(json.dumps(changed).replace('"INFINITE"', "1e400"))
    with (theirs / "a.jsonl").open("a") as file:
        file.write("\n".join(lines) + "\n")
    report = store.verify(theirs / "a.jsonl")
    assert (report.episodes, list(report.bad)) == (2, list(range(3, 3 + len(BAD))))
    assert main(["view", "theirs", "--export", "page.html"]) == 0


@pytest.mark.parametrize("text", ["", "{", '{"model": {"type": "Nothing"}}', "hollow"])
def test_a_broken_tokenizer_shows_ids(text: str, theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its library raises."""
    pytest.importorskip("tokenizers")
    place = theirs / "rounds" / "01" / "checkpoint"
    place.mkdir(parents=True)
    (place / "config.json").write_text("{}")
    (place / "tokenizer.json").write_text(text)
    if text == "hollow":
        os.truncate(place / "tokenizer.json", 1 << 40)
    (episode, _) = store.read(theirs / "a.jsonl")
    data = to_json(episode)
    data["steps"][0]["tokens"] = TOKENS
    shown = TokenTexts(theirs).to_json(from_json(data))
    assert shown["steps"][0]["tokens"]["ids"] == [2, 3]


def regex(pattern: str, new: str = "") -> dict[str, Any]:
    """Return a decoder that searches a pattern."""
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": new}


DECODERS: list[dict[str, Any]] = [
    regex("(.*)*(.*)*\0$"),
    {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}] * 7},
    {"type": "Sequence", "decoders": [{"type": "Sequence", "decoders": [regex("(a+)+b")]}]},
    {"type": "Strip", "content": "a", "start": 10**9, "stop": 10**9},
    {"type": "Sequence", "decoders": [{"type": "Fuse"}] * 1000},
]


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_tokenizer_with_a_slow_decoder_shows_ids(decoder: dict[str, Any], tmp_path: Path) -> None:
    """One that searches patterns, adds text, or panics."""
    assert _load_tokenizer(saved_tokenizer(tmp_path, decoder)) is None
    for known in ({"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}, None):
        fine = saved_tokenizer(tmp_path / "fine", known and {"type": "Sequence", "decoders": [known]})
        _load_tokenizer.cache_clear()
        assert _load_tokenizer(fine) is not None


def test_a_tokenizer_that_panics_as_it_decodes_shows_ids(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A panic of its library is no Exception."""

    class Panics:
        def decode(self, ids: list[int], **options: bool) -> str:
            if ids == [2, 3]:
                return reply
            raise BaseException("panicked")  # as pyo3's is

    (episode, _) = store.read(theirs / "a.jsonl")
    data = to_json(episode)
    data["steps"] = data["steps"][:1]
    data["steps"][0]["tokens"] = TOKENS
    reply = str(data["steps"][0]["reply"])
    monkeypatch.setattr(show, "_load_tokenizer", lambda path: Panics())
    (step,) = TokenTexts(theirs).to_json(from_json(data))["steps"]
    assert step["tokens"]["ids"] == [2, 3] and "texts" not in step["tokens"]
    reply = "another"
    assert "texts" not in TokenTexts(theirs).to_json(from_json(data))["steps"][0]["tokens"]


def saved_tokenizer(folder: Path, decoder: Any) -> Path:
    """Write a tokenizer of two words."""
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    folder.mkdir(exist_ok=True)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(words.to_str()) | {"decoder": decoder}))
    return path


@pytest.mark.parametrize(
    "change",
    [
        "size = 'x'",
        "start = 'x'",
        "instruction = x'ff'",
        "agent = x'41'",
        "reward = 9e999",
        "round = 'x'",
        "steps = NULL",
    ],
)
def test_an_index_of_other_types_is_built_again(change: str, theirs: Path) -> None:
    """Its files are unchanged."""
    with closing(Index(Source.from_paths([theirs]))) as index:
        index.update()
        before = index.find()
    with closing(sqlite3.connect(theirs / ".view.sqlite")) as db:
        db.executescript(f"UPDATE episodes SET {change}")  # noqa: S608  # fixed parts
    with closing(Index(Source.from_paths([theirs]))) as index:
        index.update()
        assert index.find() == before and index.facets()["env"] == [("maze", 2)]
        assert index.read(1).id


@pytest.mark.parametrize(
    "change",
    [
        "files SET torn = x'00ff'",
        "files SET lines = 9223372036854775807, size = 1",
        "files SET end = -5, size = 1",
        "files SET size = 'a'",
        "files SET mtime = 'a'",
        "files SET head = x'00'",
        "files SET tail = NULL",
        "episodes SET n = 9223372036854775807 WHERE n = 2",
        "sqlite_sequence SET seq = 9223372036854775807",
        "sqlite_sequence SET seq = 'abc'",
    ],
)
def test_an_index_with_other_counts_is_built_again(change: str, theirs: Path) -> None:
    """SQLite and the page count up from them, also after a new episode."""
    with closing(Index(Source.from_paths([theirs]))) as index:
        index.update()
    with closing(sqlite3.connect(theirs / ".view.sqlite")) as db:
        db.executescript(f"UPDATE {change}")  # fixed parts
    with closing(Index(Source.from_paths([theirs]))) as index:
        assert index.find()[0] == 0  # as it is new
        index.update()
        store.append(theirs / "a.jsonl", [from_json(to_json(index.read(1)) | {"id": "another"})])
        index.update()
        assert index.find()[0] == 3 and index.broken() == []
    assert main(["view", str(theirs), "--export", str(theirs.parent / "x.html")]) == 0


@pytest.mark.parametrize("end", ["-wal", "-shm"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_no_folder_or_pipe_beside_the_index_is_opened(end: str, make: Callable[[Path], None], theirs: Path) -> None:
    """The index moves to a temporary folder."""
    make(theirs / f".view.sqlite{end}")
    assert main(["view", str(theirs), "--export", str(theirs.parent / "x.html")]) == 0
    assert not (theirs / ".view.sqlite").exists()


@pytest.mark.parametrize(
    "change",
    [
        "size = -1",
        "size = 1 << 60",
        "start = -1",
        "start = 7",
        "id = 'other'",
        "agent = 'gpt-9'",
        "reward = 1.5",
        "steps = 9",
    ],
)
def test_an_index_that_lies_is_found(change: str, theirs: Path) -> None:
    """Its files are unchanged, so it is not built again."""
    with closing(Index(Source.from_paths([theirs]))) as index:
        index.update()
    with closing(sqlite3.connect(theirs / ".view.sqlite")) as db:
        db.executescript(f"UPDATE episodes SET {change}")  # noqa: S608  # fixed parts
    with closing(Index(Source.from_paths([theirs]))) as index:
        index.update()
        with pytest.raises(DataError):
            index.read(1)
    assert main(["view", str(theirs), "--export", str(theirs.parent / "x.html")]) == 0
