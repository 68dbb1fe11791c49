from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_py.collection import PlayConfig
from agentgym_py.env import StopReason
from agentgym_py.errors import ConfigError, DataError
from agentgym_py.files import require_few_values
from agentgym_py.trajectory import Provenance, Step, Tokens, Trajectory, store
from agentgym_py.trajectory.json_values import from_json, to_json

Make = Callable[..., Trajectory]
# a split pair of surrogates is one character in every JSON text, so only lone ones can come back as they were
text = st.text(max_size=20) | st.sampled_from(["\ud800", "\udfff x", "\x00", "\u2028", "日本語", "😀"])
real = st.floats(-1e15, 1e15)
whole, seeds = st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | real | text,
    lambda x: st.lists(x) | st.dictionaries(text, x),
)
mappings = st.dictionaries(text, values, max_size=3)
ids = st.lists(st.integers(0, 2**31), max_size=5).map(tuple)
replies = st.lists(st.tuples(st.integers(0, 2**31), real, st.integers(0, 1)), min_size=1, max_size=5)


def reply_tokens(context: tuple[int, ...], rows: list[tuple[int, float, int]]) -> Tokens:
    """Make a record from one row per token."""
    ids_T, logprobs_T, mask_T = zip(*rows, strict=True)
    return Tokens(context, ids_T, logprobs_T, mask_T)


tokens = st.builds(reply_tokens, ids, replies)
steps = st.builds(
    Step, text, text, text, text, st.none() | text, real, st.booleans(), st.dictionaries(text, real, max_size=2),
    st.none() | tokens, st.booleans(),
)  # fmt: skip
origins = st.builds(Provenance, text, whole, mappings, text, seeds, text, st.none() | text, mappings, text, text)
trajectories = st.builds(
    Trajectory, text, origins, text, text, text, text, text, st.lists(steps, max_size=3).map(tuple), text, real,
    st.booleans(), st.none() | st.sampled_from(StopReason), st.none() | whole, st.none() | text,
)  # fmt: skip


@given(trajectories)
@settings(max_examples=100, deadline=None)
def test_a_line_gives_the_episode_back(trajectory: Trajectory) -> None:
    """Every field comes back equal and of the same type, and the line is one line of standard JSON."""
    line = store.to_line(trajectory)
    assert store.from_line(line) == trajectory
    assert store.to_line(store.from_line(line)) == line
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    line.decode()
    assert "digest" in json.loads(line, parse_constant=lambda name: pytest.fail(name))


def test_types_survive(episode: Make) -> None:
    """Tuples are tuples again, None is None, and a whole reward is a float."""
    record = Tokens((1, 2), (3, 4), (-0.1, 0.0), (1, 0))
    one = replace(episode("a").steps[0], tokens=record, reward=1, reward_parts={"price": 1})
    back = store.from_line(store.to_line(episode("a", steps=(one,), reward=1)))
    assert back.steps[0].tokens == record and isinstance(back.steps, tuple)
    assert [type(x) for x in (back.reward, back.steps[0].reward, back.steps[0].reward_parts["price"])] == [float] * 3
    assert back.error is None and back.optimal_steps is None


def change_tokens(data: dict[str, Any], **wrong: Any) -> None:
    """Give the first step of a line one token, with these values."""
    data["steps"][0]["tokens"] = {"context": [1], "ids": [2], "logprobs": [-0.1], "mask": [1], **wrong}


def change_usage(data: dict[str, Any], **wrong: Any) -> None:
    """Give the first step of a line a usage with these values."""
    data["steps"][0]["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, **wrong}


def test_a_new_sequence_is_stored_and_older_lines_lack_it(episode: Make) -> None:
    """A line holds `starts_sequence` only where it is true, so that other lines are those of earlier versions."""
    records = [Tokens((1,), (2,), (-0.1,), (1,), starts_sequence=flag) for flag in (False, True)]
    stored = episode("a", steps=tuple(replace(episode("a").steps[0], tokens=record) for record in records))
    steps = to_json(stored)["steps"]
    assert "starts_sequence" not in steps[0]["tokens"] and steps[1]["tokens"]["starts_sequence"] is True
    assert store.from_line(store.to_line(stored)) == stored


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("reward"), "missing key 'reward'"),
        (lambda d: d["provenance"].pop("seed"), "missing key 'provenance.seed'"),
        (lambda d: d["steps"][1].pop("action"), r"missing key 'steps\[1\].action'"),
        (lambda d: d.update(rewrad=1), "unknown key 'rewrad'"),
        (lambda d: d.update(success=1), "success: expected true or false, found 1"),
        (lambda d: d.update(reward=True), "reward: expected a finite number, found True"),
        (lambda d: d.update(reward="1"), "reward: expected a finite number, found '1'"),
        (lambda d: d.update(reward=10**400), "reward: expected a finite number, found 1000"),
        (lambda d: d.update(reward=1.7e308), r"reward: expected a number of at most 1e\+15, found 1.7e\+308"),
        (lambda d: d.update(steps={}), "steps: expected a list"),
        (lambda d: d["steps"].append(3), r"steps\[2\]: expected an object, found 3"),
        (lambda d: d["provenance"].update(seed=1.5), "provenance.seed: expected a whole number, found 1.5"),
        (lambda d: d["steps"][0].update(tokens={"context": [1, "x"]}), "missing key 'steps.0..tokens.ids'"),
        (lambda d: d["provenance"].update(seed=-1), r"provenance.seed: expected a whole number from 0 to 2\^64 - 1"),
        (lambda d: d["provenance"].update(env_seed=2**64), "provenance.env_seed: expected a whole number from 0"),
        (lambda d: d["provenance"].update(env_version=2**100), "provenance.env_version: a number of more than 64 bits"),
        (lambda d: d.update(optimal_steps=2**63), "optimal_steps: a number of more than 64 bits"),
        (
            lambda d: change_tokens(d, turns_dropped=2**63),
            r"steps\[0\].tokens.turns_dropped: a number of more than 64 bits",
        ),
        (lambda d: change_tokens(d, mask=[2]), r"steps\[0\].tokens.mask: expected 0 and 1 only"),
        (lambda d: change_tokens(d, mask=[-1]), r"steps\[0\].tokens.mask: expected 0 and 1 only"),
        (lambda d: change_usage(d, prompt_tokens=2**120), r"steps\[0\].usage.prompt_tokens: "),
        (
            lambda d: change_usage(d, completion_tokens=-1),
            r"steps\[0\].usage.completion_tokens: expected a number from 0",
        ),
        (lambda d: change_usage(d, cost=-1e15), r"steps\[0\].usage.cost: expected a number from 0 to 1e\+09"),
    ],
)
def test_a_wrong_object_names_its_key(episode: Make, change: Callable[[dict[str, Any]], Any], message: str) -> None:
    """A missing or unknown key, or a value of the wrong type, ends in one error that says where."""
    data = to_json(episode("a", "b"))
    change(data)
    with pytest.raises(DataError, match=message):
        from_json(data)


def test_a_wrong_token_names_its_place(episode: Make) -> None:
    """One string or boolean among thousands of ids is found and its index named."""
    data = to_json(episode("a"))
    data["steps"][0]["tokens"] = {"context": [1, True], "ids": [], "logprobs": [], "mask": []}
    with pytest.raises(DataError, match=r"steps\[0\]\.tokens\.context\[1\]: expected a whole number, found True"):
        from_json(data)


def test_a_template_repeats_the_rules_a_hundred_times_at_most(episode: Make) -> None:
    """On replay it would fill the memory: 7 bytes of a file stand for all rules of a world."""
    line = to_json(episode("a"))
    line["provenance"]["prompt_template"] = "{rules}" * 100
    assert from_json(line).provenance.prompt_template == "{rules}" * 100
    line["provenance"]["prompt_template"] += "{rules}"
    with pytest.raises(DataError, match=r"^provenance: prompt_template may name \{rules\} at most 100 times"):
        from_json(line)
    with pytest.raises(ConfigError, match="prompt_template may name"):
        PlayConfig(prompt_template="{rules}" * 101)


def test_a_key_with_a_default_may_be_missing(episode: Make) -> None:
    """Files of an older version, which knew fewer fields, are still read."""
    trajectory = episode("a")
    data = to_json(trajectory)
    del data["error"], data["optimal_steps"], data["steps"][0]["trained"], data["provenance"]["prompt"]
    assert from_json(data) == trajectory


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reward": float("nan")}, "reward: expected a finite number"),
        ({"reward": True}, "reward: expected a finite number, found True"),
        ({"success": 1}, "success: expected true or false"),
        ({"optimal_steps": Path("x")}, "optimal_steps: JSON cannot hold a PosixPath"),
    ],
)
def test_nothing_is_written_that_cannot_be_read(tmp_path: Path, episode: Make, fields: Any, message: str) -> None:
    """A value that JSON or the reader would refuse is refused before it reaches the file."""
    with store.TrajectoryWriter(tmp_path / "a.jsonl") as writer:
        writer.append(episode("a"))
        with pytest.raises(DataError, match=message):
            writer.append(episode("b", **fields))
        writer.append(episode("c"))
    assert [each.steps[0].action for each in store.read(tmp_path / "a.jsonl")] == ["a", "c"]


def test_nothing_is_written_that_is_too_large_to_be_read(episode: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commas of a text are none of JSON; values, and bytes with those of the digest, are counted as the reader does."""
    commas = episode("a", instruction="," * 10_000_010)
    assert store.from_line(store.to_line(commas)) == commas
    line = store.to_line(episode("a"))
    monkeypatch.setattr(store, "MOST_BYTES", len(line))
    assert store.to_line(episode("a")) == line
    monkeypatch.setattr(store, "MOST_BYTES", len(line) - 1)
    with pytest.raises(DataError, match="an episode of more than"):
        store.to_line(episode("a"))
    monkeypatch.undo()
    monkeypatch.setattr(store, "require_few_values", partial(require_few_values, most=100))
    assert store.to_line(episode("a", instruction="," * 200))
    tokens = Tokens((0,) * 30, (0,) * 30, (0.0,) * 30, (0,) * 30)
    with pytest.raises(DataError, match="more than 100 values"):
        store.to_line(episode("a", steps=(replace(episode("a").steps[0], tokens=tokens),)))


def test_a_file_streams(tmp_path: Path, episode: Make) -> None:
    """Episodes come one at a time, in order; folders on the way are made, and a second writer appends."""
    path = tmp_path / "deep" / "a.jsonl"
    assert store.append(path, [episode("a"), episode("b")]) == 2
    assert store.append(path, [episode("c")]) == 1
    stream = store.read(path)
    assert next(stream) == episode("a")
    assert len(list(stream)) == 2
    assert store.verify(path).episodes == 3
    assert store.verify(path).ok and store.verify(path).episodes == 3


@pytest.mark.parametrize("cut", [1, 2, 40, -1])
def test_a_torn_last_line_is_dropped_and_cut_off(tmp_path: Path, episode: Make, cut: int) -> None:
    """The reader warns and stops before it; the next writer truncates it and continues."""
    path, line = tmp_path / "a.jsonl", store.to_line(episode("torn"))
    store.append(path, [episode("a"), episode("b")])
    whole = path.read_bytes()
    path.write_bytes(whole + (line[:-2] if cut < 0 else line[:cut]))
    with pytest.warns(UserWarning, match=r"a\.jsonl:3: torn last line dropped"):
        assert len(list(store.read(path))) == 2
    assert len(list(store.read(path, warn=False))) == 2
    assert store.verify(path).episodes == 2
    report = store.verify(path)
    assert report.torn == 3 and not report.ok and report.episodes == 2
    with pytest.warns(UserWarning, match="cut off"):
        store.append(path, [episode("c")])
    assert path.read_bytes() == whole + store.to_line(episode("c"))


def test_a_line_that_lacks_only_its_line_feed_is_whole(tmp_path: Path, episode: Make) -> None:
    """A digest that holds is no guess: the episode counts, and a writer adds the line feed."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(store.to_line(episode("a"))[:-1])
    assert len(list(store.read(path))) == store.verify(path).episodes == 1
    store.append(path, [episode("b")])
    assert [each.steps[0].action for each in store.read(path)] == ["a", "b"]


def test_only_a_torn_line_leaves_an_empty_store(tmp_path: Path, episode: Make) -> None:
    """A writer that was killed in its first write leaves nothing to read and a file that can be appended to."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(store.to_line(episode("a"))[:100])
    assert list(store.read(path, warn=False)) == []
    with pytest.warns(UserWarning, match="cut off"):
        store.append(path, [episode("b")])
    assert store.verify(path).episodes == 1


def test_a_long_torn_line_is_cut_off(tmp_path: Path, episode: Make) -> None:
    """The start of the last line is found across several blocks of reading."""
    path = tmp_path / "a.jsonl"
    store.append(path, [episode("a")])
    good = path.read_bytes()
    path.write_bytes(good + store.to_line(episode("a", rules="x" * 300_000))[:-5])
    with pytest.warns(UserWarning, match="cut off"):
        store.append(path, [])
    assert path.read_bytes() == good


@pytest.mark.parametrize("line", [b"{]\n", b'{"a": 1}\n', b"[]\n", b"\xff\n", b"[" * 100_000 + b"\n", b"NaN\n"])
def test_a_broken_line_in_the_middle_is_an_error(tmp_path: Path, episode: Make, line: bytes) -> None:
    """It names the file and the line; what stands before it has been read."""
    path, good = tmp_path / "a.jsonl", store.to_line(episode("a"))
    path.write_bytes(good + line + good)
    stream = store.read(path)
    assert next(stream) == episode("a")
    with pytest.raises(DataError, match=r"a\.jsonl:2: "):
        next(stream)
    assert list(store.verify(path).bad) == [2]


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_flipped_byte_is_found(data: st.DataObject) -> None:
    """Whatever byte of a line changes, the line is refused, or says the very same."""
    one = Step("page é", "Action: a", "", "a", None, 0.5, True, {"price": 1.0}, Tokens((1,), (2,), (-0.5,), (1,)))
    origin = Provenance("AgentShop-v0", 0, {}, "shop/1", 7, "tiny")
    trajectory = Trajectory(
        "t", origin, "train", "buy", "easy", "x", "", (one,), "end", 1.0, True, StopReason.TERMINATED
    )
    line = bytearray(store.to_line(trajectory)[:-1])
    at = data.draw(st.integers(0, len(line) - 1))
    line[at] ^= data.draw(st.integers(1, 255))
    with suppress(DataError):
        assert store.from_line(bytes(line)) == trajectory


def test_verify_finds_a_changed_reward(tmp_path: Path, episode: Make) -> None:
    """A reward that was edited by hand is still good JSON; the digest tells."""
    path = tmp_path / "a.jsonl"
    store.append(path, [episode("a"), episode("b", reward=0.5), episode("c")])
    path.write_bytes(path.read_bytes().replace(b'"reward":0.5', b'"reward":1.0'))
    assert "changed after it was written" in store.verify(path).bad[2]
    with pytest.raises(DataError, match=":2: the digest"):
        list(store.read(path))


def test_another_program_may_lay_the_line_out_anew(tmp_path: Path, episode: Make) -> None:
    """Key order, spaces and escapes are not part of the digest; a line without one is read and counted as unsigned."""
    data = json.loads(store.to_line(episode("é")))
    backwards = dict(reversed(list(data.items())))
    del data["digest"]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(backwards) + "\r\n\n" + json.dumps(data, ensure_ascii=False))
    assert list(store.read(path)) == [episode("é")] * 2
    report = store.verify(path)
    assert (report.episodes, report.unsigned, report.ok) == (2, 1, True)


def test_write_replaces_a_file_when_it_is_whole(tmp_path: Path, episode: Make) -> None:
    """An error half way leaves the old file, and nothing beside it."""
    path = tmp_path / "a.jsonl"
    store.write(path, [episode("a")])
    with pytest.raises(DataError):
        store.write(path, [episode("b"), episode("c", reward=float("inf"))])
    assert list(store.read(path)) == [episode("a")]
    assert os.listdir(tmp_path) == ["a.jsonl"]  # noqa: PTH208  # names only


def test_a_missing_file_and_a_closed_writer_are_clear_errors(tmp_path: Path, episode: Make) -> None:
    """Both raise at once, not at the first episode."""
    with pytest.raises(DataError, match="no such file"):
        store.read(tmp_path / "none.jsonl")
    writer = store.TrajectoryWriter(tmp_path / "a.jsonl")
    writer.close()
    writer.close()
    with pytest.raises(DataError, match="closed"):
        writer.append(episode("a"))


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, episode: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that stops half way is rolled back, and the same writer can go on."""
    path, real_write = tmp_path / "a.jsonl", os.write
    with store.TrajectoryWriter(path) as writer:
        writer.append(episode("a"))

        def short(file: int, line: bytes) -> int:
            if len(line) < 50:
                raise OSError(28, "No space left on device")
            return real_write(file, line[: len(line) // 2])

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", short)
            with pytest.raises(OSError, match=r"No space left on device: '.*a\.jsonl'"):
                writer.append(episode("b"))
        writer.append(episode("c"))
    assert [each.steps[0].action for each in store.read(path)] == ["a", "c"]


_ENDLESS = """
import sys
from agentgym_py.trajectory import store
line = next(store.read(sys.argv[1]))
with store.TrajectoryWriter(sys.argv[2]) as writer:
    while True:
        writer.append(line)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_writer_leaves_a_file_that_reads(tmp_path: Path, episode: Make) -> None:
    """After SIGKILL every whole line is there, at most the last is torn, and the next writer continues."""
    source, path = tmp_path / "one.jsonl", tmp_path / "a.jsonl"
    store.append(source, [episode("a", rules="x" * 1_000_000)])
    child = subprocess.Popen([sys.executable, "-c", _ENDLESS, source, path])
    try:
        deadline = time.monotonic() + 30
        while not (path.is_file() and path.stat().st_size > 3_000_000):
            assert child.poll() is None and time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    result = len(list(store.read(path, warn=False)))
    assert result >= 3 and result == store.verify(path).episodes
    assert not store.verify(path).bad
    with store.TrajectoryWriter(path) as writer:
        writer.append(episode("b"))
    assert store.verify(path).ok and store.verify(path).episodes == result + 1
