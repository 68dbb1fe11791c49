from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, cast, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_py.env import StopReason
from agentgym_py.env.registration import short_name
from agentgym_py.errors import AgentGymError, ConfigError, DataError, UnknownNameError
from agentgym_py.evaluation.failures import FAILURES, failure_kind
from agentgym_py.trajectory import Provenance, Step, Trajectory, store
from agentgym_py.viewer import database
from agentgym_py.viewer import index as index_module
from agentgym_py.viewer.index import Filter, Index, Order, Outcome, outcome_of, words
from agentgym_py.viewer.source import Source

Make = Callable[..., Trajectory]
TEXTS = st.text(st.sampled_from("ab_ -Éß日'\"%*\n\ud800\0"), max_size=12) | st.text(max_size=5)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    """Episodes of few worlds, rounds and rewards, with any text."""
    steps = tuple(
        Step(draw(TEXTS), draw(TEXTS), "", "", None, 0.0, draw(st.booleans()))
        for _ in range(draw(st.integers(0, 3)))
    )  # fmt: skip
    made = Provenance(
        draw(st.sampled_from(["AgentShop-v0", "AgentMaze-v0"])), 0, {}, draw(st.sampled_from(["t/1", "t/2"])), 0,
        draw(st.sampled_from(["expert", "Agent_v1"])),
    )  # fmt: skip
    return Trajectory(
        id=str(draw(st.integers(0, 1 << 60))), provenance=made, split=draw(st.sampled_from(["train", "test"])),
        kind=draw(st.sampled_from(["x", "y"])), difficulty="easy", instruction=draw(TEXTS), rules="", steps=steps,
        final_observation=draw(TEXTS), reward=draw(st.sampled_from([0.0, 0.5, 1.0])), success=draw(st.booleans()),
        stop_reason=StopReason.TERMINATED, error=draw(st.sampled_from([None, None, "broke"])),
    )  # fmt: skip


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    """Any filter, about half of its fields open."""

    def maybe(values: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | values)

    return Filter(
        env=maybe(st.sampled_from(["shop", "maze"])), split=maybe(st.sampled_from(["train", "test"])),
        round=maybe(st.integers(0, 2)), agent=maybe(st.sampled_from(["expert", "Agent_v1"])),
        kind=maybe(st.just("x")), failure_kind=maybe(st.sampled_from(FAILURES)),
        outcome=maybe(st.sampled_from(get_args(Outcome))),
        min_reward=maybe(st.sampled_from([0.0, 0.5, 1.0])), max_reward=maybe(st.sampled_from([0.0, 0.5, 1.0])),
        min_steps=maybe(st.integers(0, 3)), max_steps=maybe(st.integers(0, 3)), text=draw(st.just("") | TEXTS),
    )  # fmt: skip


def said(t: Trajectory) -> list[str]:
    """The words of an episode, by the definition."""
    texts = [t.task_id, t.instruction, t.final_observation, t.error or ""]
    texts += [text for step in t.steps for text in (step.observation, step.reply)]
    return [word for text in texts for word in words(text.encode("utf-8", "replace").decode())]


def passes(t: Trajectory, number: int, f: Filter) -> bool:
    """The filter, field by field."""
    asked = words(f.text.encode("utf-8", "replace").decode())
    facts = {
        "env": short_name(t.provenance.env_id), "split": t.split, "round": number, "agent": t.provenance.agent,
        "kind": t.kind, "difficulty": t.difficulty, "outcome": outcome_of(t),
        "failure_kind": failure_kind(t),
    }  # fmt: skip
    return (
        all(getattr(f, name) in (None, value) for name, value in facts.items())
        and (f.min_reward is None or t.reward >= f.min_reward)
        and (f.max_reward is None or t.reward <= f.max_reward)
        and (f.min_steps is None or len(t.steps) >= f.min_steps)
        and (f.max_steps is None or len(t.steps) <= f.max_steps)
        and all(any(word.startswith(each) for word in said(t)) for each in asked)
    )


def ordered(found: list[Trajectory], order: Order) -> list[Trajectory]:
    """A stable sort of what stands in the order of the files."""
    keys: dict[str, Callable[[Trajectory], float]] = {
        "file": lambda t: 0, "best": lambda t: -t.reward, "worst": lambda t: t.reward,
        "longest": lambda t: -len(t.steps), "shortest": lambda t: len(t.steps),
    }  # fmt: skip
    return sorted(found, key=keys[order])


def looked(folder: Path) -> Index:
    """An index of a folder, up to date."""
    index = Index(Source.from_paths([folder]))
    index.update()
    return index


@pytest.mark.parametrize("full_text", [database._FULL_TEXT, "CREATE VIRTUAL TABLE text USING no_such_module(words)"])
def test_a_list_is_what_a_slow_look_finds(full_text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every filter, order and page, over several rounds, with SQLite's full-text search and without it."""
    monkeypatch.setattr(database, "_FULL_TEXT", full_text)

    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(st.lists(trajectories(), max_size=6), min_size=1, max_size=3),
        st.lists(
            st.tuples(filters(), st.sampled_from(get_args(Order)), st.integers(0, 4), st.integers(0, 5)), max_size=6
        ),
    )
    def check(rounds: list[list[Trajectory]], asked: list[tuple[Filter, Order, int, int]]) -> None:
        with tempfile.TemporaryDirectory() as name:
            for number, played in enumerate(rounds):
                store.write(Path(name) / "rounds" / f"{number:02d}" / "trajectories.jsonl", played)
            index = looked(Path(name))
            assert index._database.has_fts == ("fts5" in full_text)
            everything = [(t, number) for number, played in enumerate(rounds) for t in played]
            for wanted, order, offset, limit in [(Filter(), "file", 0, 99), *asked]:
                fits = ordered([t for t, number in everything if passes(t, number, wanted)], order)
                total, rows = index.find(wanted, order, offset, limit)
                assert total == len(fits)
                assert [row["id"] for row in rows] == [t.id for t in fits[offset : offset + limit]]
                assert [index.read(row["n"]) for row in rows] == fits[offset : offset + limit]
                numbers = [row["n"] for row in index.find(wanted, order)[1]]
                ends = [None, *numbers, None]
                beside = list(zip(ends, ends[2:], strict=False))
                assert [index.neighbours(n, wanted, order) for n in numbers] == beside
                out = [row["n"] for row in index.find()[1] if row["n"] not in numbers]
                assert [index.neighbours(n, wanted, order) for n in out] == [None] * len(out)

    check()


def slow(path: Path) -> tuple[list[str], list[int]]:
    """Ids of the whole lines of a file, and the numbers of the broken ones, the torn last one left out."""
    ids, broken = [], []
    lines = path.read_bytes().splitlines(keepends=True)
    for number, raw in enumerate(lines, 1):
        try:
            if raw.strip():
                ids.append(store.from_line(raw).id)
        except DataError:
            if raw.endswith(b"\n"):
                broken.append(number)
    return ids, broken


PIECES = st.sampled_from(["whole", "broken", "blank", "torn", "unended", "mended"])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(PIECES, trajectories(), st.booleans()), max_size=12))
def test_a_growing_file_is_read_on(pieces: list[tuple[str, Trajectory, bool]]) -> None:
    """Whatever is appended (whole, broken, blank and torn lines, line feeds that come late), looked at in between."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "trajectories.jsonl"
        path.touch()
        for kind, trajectory, look in pieces:
            line = store.to_line(trajectory)
            added = {
                "whole": line, "broken": line.replace(b'"reward"', b'"rewrd"'), "blank": b"\n",
                "torn": line[:40], "unended": line[:-1], "mended": b"\n" + line,
            }[kind]  # fmt: skip
            with path.open("ab") as file:
                file.write(added)
            if look:
                looked(Path(name))
        index = looked(Path(name))
        ids, broken = slow(path)
        assert [row["id"] for row in index.find(limit=99)[1]] == ids
        assert [each.line for each in index.broken() if not each.torn] == broken
        assert all(index.read(row["n"]).id == row["id"] for row in index.find(limit=99)[1])


def test_broken_and_torn_lines_are_said(tmp_path: Path, episode: Make) -> None:
    """By file, number and reason; a torn one that is finished later is an episode."""
    line = store.to_line(episode("search[cup]"))
    path = tmp_path / "trajectories.jsonl"
    path.write_bytes(line + b"{}\n" + line[:50])
    index = looked(tmp_path)
    bad, torn = index.broken()
    assert (bad.path, bad.line, bad.torn) == ("trajectories.jsonl", 2, False)
    assert "missing key" in bad.why
    assert (torn.line, torn.torn) == (3, True)
    with path.open("ab") as file:
        file.write(line[50:])
    index.update()
    assert (index.find()[0], len(index.broken())) == (2, 1)


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, episode: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a second time reads no line, and lists the same."""
    store.write(tmp_path / "a.jsonl", [episode("x", id=str(i)) for i in range(5)])
    before = looked(tmp_path).find()
    monkeypatch.setattr(index_module, "_index_lines", None)
    assert looked(tmp_path).find() == before


@pytest.mark.parametrize("change", ["other", "shorter", "inside", "gone"])
def test_a_rewritten_file_is_read_again(change: str, tmp_path: Path, episode: Make) -> None:
    """Other episodes, fewer of them, one changed in the middle with the size kept, or no file any more."""
    path, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    played = [episode(f"action{i}", id=f"e{i}") for i in range(4)]
    store.write(path, played)
    store.write(other, [episode("there", id="other")])
    looked(tmp_path)
    now = {
        "other": [episode("new", id=f"n{i}") for i in range(9)], "shorter": played[:2],
        "inside": [*played[:2], replace(played[2], id="x2"), played[3]], "gone": [],
    }[change]  # fmt: skip
    store.write(path, now)
    os.utime(path, ns=(1, 1))
    if change == "gone":
        path.unlink()
    index = looked(tmp_path)
    assert {row["id"] for row in index.find()[1]} == {"other", *(t.id for t in now)}
    assert index.find(Filter(text="action1"))[0] == sum(t.id == "e1" for t in now)


def test_reading_what_was_changed_meanwhile_is_an_error(tmp_path: Path, episode: Make) -> None:
    """No other episode is ever shown in its place."""
    path = tmp_path / "a.jsonl"
    store.write(path, [episode("x", id="aa"), episode("x", id="bb")])
    index = looked(tmp_path)
    path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(DataError, match="was changed"):
        index.read(1)


def test_several_may_index_at_once(tmp_path: Path, episode: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each episode stands there once, though several bring the index up to date together."""
    monkeypatch.setattr(index_module, "_BATCH_BYTES", 2000)
    store.write(tmp_path / "a.jsonl", [episode("x", id=str(i)) for i in range(60)])
    indices = [Index(Source.from_paths([tmp_path])) for _ in range(4)]
    threads = [Thread(target=each.update) for each in indices]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [row["id"] for row in indices[0].find()[1]] == [str(i) for i in range(60)]


def test_an_index_of_another_version_is_made_anew(
    tmp_path: Path, episode: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an older program left is no obstacle, nor what is no index at all."""
    store.write(tmp_path / "a.jsonl", [episode("x")])
    looked(tmp_path)
    monkeypatch.setattr(database, "_VERSION", 99)
    assert looked(tmp_path).find()[0] == 1
    for path in tmp_path.glob(".view.sqlite*"):
        path.unlink()
    (tmp_path / ".view.sqlite").write_bytes(b"no database, but long enough to be taken for one" * 99)
    assert looked(tmp_path).find()[0] == 1


def test_a_damaged_index_is_made_anew(tmp_path: Path, episode: Make) -> None:
    """Pages inside of it that are no longer what they were: that is said once, and then it is whole again."""
    store.write(tmp_path / "a.jsonl", [episode("x" * 300, id=str(i)) for i in range(200)])
    looked(tmp_path).close()
    path = tmp_path / ".view.sqlite"
    whole = path.read_bytes()
    for kept in (4096, 5 * 4096):
        path.write_bytes(whole[:kept] + b"\xff" * (len(whole) - kept))
        index = Index(Source.from_paths([tmp_path]))
        with suppress(DataError):
            index.update()
            index.find(Filter(text="x"))
            index.facets()
        index.update()
        assert index.find()[0] == index.find(Filter(text="x"))[0] == 200
        index.close()


def test_who_renews_a_damaged_index_does_not_wait_for_ever(
    tmp_path: Path, episode: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process that writes into it meanwhile, and does not end, is an error."""
    monkeypatch.setattr(database, "_LOCK_TIMEOUT", 0.3)
    store.write(tmp_path / "a.jsonl", [episode("x" * 300, id=str(i)) for i in range(200)])
    index, path = looked(tmp_path), tmp_path / ".view.sqlite"
    index.close()
    path.write_bytes(path.read_bytes()[: 5 * 4096] + b"\xff" * (path.stat().st_size - 5 * 4096))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            index.find(order="best", limit=500)
    with pytest.raises(DataError, match="is being rebuilt"):
        index.find(order="best", limit=500)
    assert index.find()[0] == 0


def test_damage_is_noticed_while_it_is_looked_at(tmp_path: Path, episode: Make) -> None:
    """By several processes at once, which rebuild the index once."""
    store.write(tmp_path / "a.jsonl", [episode("x" * 300, id=str(i)) for i in range(200)])
    looked(tmp_path).close()
    index = Index(Source.from_paths([tmp_path]))
    path = tmp_path / ".view.sqlite"
    path.write_bytes(path.read_bytes()[: 5 * 4096] + b"\xff" * (path.stat().st_size - 5 * 4096))
    said = list[str]()

    def ask() -> None:
        try:
            index.find(order="best", limit=500)
        except DataError as error:
            said.append(str(error))

    threads = [Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert said
    assert index.find()[0] == 0
    assert all("was damaged and is being rebuilt" in each for each in said)
    index.update()
    assert index.find()[0] == 200
    index.close()


@pytest.mark.skipif(sys.platform != "linux", reason="names are UTF-8 or UTF-16 there")
def test_a_name_that_is_no_utf_8_is_a_name(tmp_path: Path, episode: Make) -> None:
    """Its episodes are listed, read, found by file, and forgotten with it; those of others too."""
    odd = tmp_path / os.fsdecode(b"b\xff.jsonl")
    store.write(odd, [episode("x", id="odd")])
    store.write(tmp_path / "c.jsonl", [episode("x", id="even")])
    index = looked(tmp_path)
    n = index.find_number(odd.name, "odd")
    assert index.row(n)["path"] == odd.name
    assert index.read(n).id == "odd"
    assert index.find()[0] == 2
    store.append(odd, [episode("x", id="more")])
    index.update()
    assert index.find()[0] == 3
    odd.unlink()
    index.update()
    assert [row["id"] for row in index.find()[1]] == ["even"]


def test_a_round_of_any_number_is_indexed(tmp_path: Path, episode: Make) -> None:
    """One that SQLite cannot hold is none."""
    store.write(tmp_path / "rounds" / ("9" * 30) / "a.jsonl", [episode("x")])
    assert [row["round"] for row in looked(tmp_path).find()[1]] == [None]


def test_a_folder_that_cannot_be_written_is_viewed(tmp_path: Path, episode: Make) -> None:
    """The index is then elsewhere, for as long as the program runs."""
    store.write(tmp_path / "a.jsonl", [episode("x")])
    (tmp_path / ".view.sqlite").mkdir()  # stands for a folder without the right to write
    assert looked(tmp_path).find()[0] == 1


def test_siblings_are_all_tries_at_a_task(tmp_path: Path, episode: Make) -> None:
    """Of the same world with the same arguments, in whatever file."""
    store.write(tmp_path / "a.jsonl", [episode("x", id="a1"), episode("x", id="a2", task="shop/train/easy/2")])
    other = episode("x", id="b2")
    other = replace(other, provenance=replace(other.provenance, env_kwargs={"max_steps": 3}))
    store.write(tmp_path / "b.jsonl", [episode("x", id="b1"), other])
    index = looked(tmp_path)
    assert [row["id"] for row in index.siblings(index.find_number("a.jsonl", "a1"))] == ["a1", "b1"]


def test_facets_count_the_values(tmp_path: Path, episode: Make) -> None:
    """Of every field to choose from; a file outside of a round has none."""
    store.write(tmp_path / "rounds" / "07" / "a.jsonl", [episode("x", id="1"), episode("x", id="2", split="test")])
    store.write(tmp_path / "b.jsonl", [episode("x", id="3")])
    facets = looked(tmp_path).facets()
    assert facets["split"] == [("test", 1), ("train", 2)]
    assert facets["round"] == [(7, 2)]
    assert facets["env"] == [("shop", 3)]
    lost = [episode("x", id="4", stop_reason=reason) for reason in (StopReason.GAVE_UP, StopReason.TERMINATED)]
    store.write(tmp_path / "c.jsonl", [replace(lost[0], success=True), *(replace(t, success=False) for t in lost)])
    assert {("gave up", 1), ("wrong goal", 1)} <= set(looked(tmp_path).facets()["failure_kind"])
    store.write(tmp_path / "d.jsonl", [episode("x", id="5", kind=""), episode("x", id="6", kind="y")])
    assert {"", "y"} <= {value for value, _ in looked(tmp_path).facets()["kind"]}, "an empty value is one, too"


def test_what_can_be_viewed(tmp_path: Path, episode: Make) -> None:
    """A folder or files of one folder; other things are refused in words, and what is no store is passed over."""
    for name in ("one/a.jsonl", "one/b.jsonl", "two/c.jsonl"):
        store.write(tmp_path / name, [episode("x")])
    (tmp_path / "one" / "feedback.jsonl").write_text('{"episode": 1}\n')
    assert [path.name for path in Source.from_paths([tmp_path / "one"]).files()] == ["a.jsonl", "b.jsonl"]
    named = Source.from_paths([tmp_path / "one" / "b.jsonl"])
    assert [path.name for path in named.files()] == ["b.jsonl"]
    assert named.index != Source.from_paths([tmp_path / "one" / "a.jsonl"]).index
    (tmp_path / "empty").mkdir()
    (tmp_path / "rows.jsonl").write_text('{"item_id": "x_1", "conversations": []}\n')
    for paths, kind, message in (
        (["empty"], DataError, "no trajectories"), (["none"], DataError, "no such file"),
        (["one", "two/c.jsonl"], ConfigError, "viewed alone"),
        (["one/a.jsonl", "two/c.jsonl"], ConfigError, "2 folders"),
        (["rows.jsonl"], DataError, "convert"), (["one/feedback.jsonl"], DataError, "not a trajectory file"),
    ):  # fmt: skip
        with pytest.raises(kind, match=message):
            Source.from_paths([tmp_path / each for each in paths])


def test_wrong_questions_are_refused(tmp_path: Path, episode: Make) -> None:
    """A number that no episode has, an order or an outcome that there is not."""
    store.write(tmp_path / "a.jsonl", [episode("x")])
    index = looked(tmp_path)
    for ask in (
        lambda: index.read(9),
        lambda: index.row(9),
        lambda: index.siblings(9),
        lambda: index.find_number("a", "b"),
    ):
        with pytest.raises(UnknownNameError):
            ask()
    with pytest.raises(ConfigError, match="order"):
        index.find(order=cast(Order, "n; DROP TABLE episodes"))
    with pytest.raises(AgentGymError, match="outcome"):
        Filter(outcome=cast(Outcome, "won"))
