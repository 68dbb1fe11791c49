"""What commit 58a3e36 wrote is still read; `fixtures/58a3e36/README.md` says how the files were made."""

from __future__ import annotations

import base64
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.collection.replay import replay_all
from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.errors import DataError, SnapshotError
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.formats import agenttraj, parquet
from agentgym_py.trajectory.json_values import from_json, to_json

FOLDER = Path(__file__).parent.parent / "fixtures" / "58a3e36"
STATES = [
    state
    for name in ("snapshots", "held_out_snapshots")
    for state in json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
]
"""Snapshots of training tasks, and of valid and test tasks."""
CHANGED = {"calculator", "maze", "shop", "sql", "textcraft", "todo", "tools", "wordle"}
"""Worlds whose training tasks, or what is a success in them, changed since."""
HELD_OUT_CHANGED = CHANGED - {"maze", "textcraft", "wordle"}
"""Those of them whose valid and test tasks changed too."""


def is_changed(task: str) -> bool:
    """Whether a task differs from that of the old commit."""
    return task.split("/")[0] in (CHANGED if "/train/" in task else HELD_OUT_CHANGED)


@pytest.fixture(scope="module")
def stored() -> list[Trajectory]:
    """The episodes of the store."""
    return list(store.read(FOLDER / "trajectories.jsonl"))


def test_an_old_line_says_how_its_episode_ended(stored: list[Trajectory]) -> None:
    """Its four keys `terminated`, `truncated`, `given_up` and `error` become one reason; the error's text is kept."""
    lines = [json.loads(line) for line in (FOLDER / "trajectories.jsonl").read_bytes().splitlines()]
    for line, trajectory in zip(lines, stored, strict=True):
        error, given_up = trajectory.stop_reason is StopReason.ERROR, trajectory.stop_reason is StopReason.GAVE_UP
        assert (error, given_up) == (line["error"] is not None, line["given_up"]) and trajectory.error == line["error"]
        assert trajectory.terminated is line["terminated"] and trajectory.is_evidence is not error
        assert trajectory.truncated is (line["truncated"] and not error and not given_up)
    assert Counter(each.stop_reason for each in stored) == {
        StopReason.TERMINATED: 11, StopReason.TRUNCATED: 9, StopReason.GAVE_UP: 1, StopReason.ERROR: 1,
    }  # fmt: skip
    assert {step.tokens is None for each in stored for step in each.steps} == {True, False}
    assert {step.usage is None for each in stored for step in each.steps} == {True, False}


def test_every_format_has_the_same_episodes(stored: list[Trajectory], tmp_path: Path) -> None:
    """Old parquet and old lines give equal trajectories, and so does what is written of them now."""
    pytest.importorskip("pyarrow")
    assert list(parquet.read_parquet(FOLDER / "trajectories.parquet")) == stored
    store.write(tmp_path / "new.jsonl", stored)
    parquet.write_parquet(tmp_path / "new.parquet", stored)
    assert list(store.read(tmp_path / "new.jsonl")) == list(parquet.read_parquet(tmp_path / "new.parquet")) == stored
    assert store.verify(tmp_path / "new.jsonl").ok and store.verify(FOLDER / "trajectories.jsonl").ok
    old = ("terminated", "truncated", "given_up")
    for line in map(json.loads, (tmp_path / "new.jsonl").read_bytes().splitlines()):
        assert "stop_reason" in line and not set(old) & line.keys()


def test_an_old_agenttraj_file_is_read(stored: list[Trajectory], tmp_path: Path) -> None:
    """Its episodes have the stored texts and rewards; how one without success ended, the format does not say."""
    result = list(agenttraj.read(FOLDER / "agenttraj.json"))
    expected = [each for each in stored if each.steps and each.is_evidence][: len(result)]
    for trajectory, whole in zip(result, expected, strict=True):
        for name in ("task_id", "rules", "final_observation", "reward", "success"):
            assert getattr(trajectory, name) == getattr(whole, name)
        assert [step.reply for step in trajectory.steps] == [step.reply for step in whole.steps]
        assert trajectory.stop_reason is (StopReason.TERMINATED if whole.success else None)
    agenttraj.write(tmp_path / "new.json", result, rollout=True)
    assert list(agenttraj.read(tmp_path / "new.json")) == result


def test_old_episodes_replay(stored: list[Trajectory]) -> None:
    """Every world does again what it did, unless its tasks changed; infrastructure failures are skipped."""
    results = list(replay_all(stored))
    skipped = [result for result in results if result.skipped]
    changed = [result.task_id for result in results if result.difference]
    assert len(skipped) == 1
    assert all(is_changed(task) for task in changed), results
    assert all(result.difference.what == "version of the world" for result in results if result.difference)
    assert sum(result.holds for result in results if not result.skipped) == 21 - len(changed) >= 7


@pytest.mark.parametrize("old", STATES, ids=lambda old: f"{old['env']}-{old['ended'] or len(old['plan'])}")
def test_an_old_snapshot_is_restored(old: dict[str, Any]) -> None:
    """What the expert does from there has the same results, unless the world's tasks changed."""
    env, snapshot = EnvSpec(old["env"]).make(), base64.b64decode(old["snapshot"])
    before = json.loads(snapshot)
    if is_changed(before["task"]):
        with pytest.raises(SnapshotError, match=f"version is {before['version']}, not {env.version}"):
            env.restore(snapshot)
        return
    env.restore(snapshot)
    assert json.loads(env.snapshot()) == before | {"version": env.version}
    assert (env.stop_reason or "") == old["ended"]
    assert env.expert() == old["plan"]
    assert [list(env.step(action)[:4]) for action in old["plan"]] == old["after"]
    env.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stop_reason": "lost"}, "stop_reason: expected one of terminated, truncated, gave_up, error, found 'lost'"),
        ({"stop_reason": 1}, "stop_reason: expected one of terminated, truncated, gave_up, error, found 1"),
        ({"terminated": True}, "unknown key 'terminated'"),
    ],
)
def test_a_wrong_reason_is_refused(stored: list[Trajectory], change: dict[str, Any], message: str) -> None:
    """The message names the key; an old key beside the new one is unknown."""
    with pytest.raises(DataError, match=message):
        from_json(to_json(stored[0]) | change)


def test_a_line_without_a_reason_is_refused(stored: list[Trajectory]) -> None:
    """Neither the new key nor an old one; an old key that is no bool is refused, too."""
    whole = to_json(stored[0])
    del whole["stop_reason"]
    with pytest.raises(DataError, match="missing key 'stop_reason'"):
        from_json(whole)
    with pytest.raises(DataError, match="truncated: expected true or false, found 1"):
        from_json(whole | {"terminated": False, "truncated": 1})


def test_an_error_is_always_the_reason(stored: list[Trajectory]) -> None:
    """A trajectory with an error has no other reason, so that no two fields can differ."""
    lost = replace(stored[0], error="lost")
    assert lost.stop_reason is StopReason.ERROR and not (lost.terminated or lost.is_evidence)
