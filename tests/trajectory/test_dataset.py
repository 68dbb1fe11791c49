from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from agentgym_py.env import StopReason
from agentgym_py.errors import ConfigError, DataError
from agentgym_py.evaluation.describe import describe
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.dataset import AgentTrajDataset, filter_file
from agentgym_py.trajectory.formats import agenttraj, parquet
from agentgym_py.trajectory.reading import detect, read_any

Make = Callable[..., Trajectory]


@pytest.fixture
def mixed(episode: Make) -> AgentTrajDataset:
    """Four tasks, five tries each, rewards from 0 to 1, two kinds."""
    return AgentTrajDataset(
        episode(
            *"abcde"[: i + 1], id=f"{task}-{i}", reward=i / 4, success=i == 4, kind="buy" if task % 2 else "find",
            provenance=episode(task=f"shop/train/easy/{task}").provenance,
        )
        for task in range(4)
        for i in range(5)
    )  # fmt: skip


def test_it_is_a_sequence(mixed: AgentTrajDataset) -> None:
    """Length, index, slice, iteration and equality."""
    assert len(mixed) == 20 and mixed[0].id == "0-0" and mixed[-1] in mixed
    assert isinstance(mixed[2:4], AgentTrajDataset) and [each.id for each in mixed[2:4]] == ["0-2", "0-3"]
    assert mixed == AgentTrajDataset(list(mixed)) and mixed != mixed[1:]
    assert repr(mixed) == "AgentTrajDataset(20 trajectories)"


def test_load_tells_forms_apart_by_content(tmp_path: Path, mixed: AgentTrajDataset) -> None:
    """Our store, parquet and AgentTraj in both layouts, whatever the file is called, and several files at once."""
    mixed.save(tmp_path / "a.txt")
    parquet.write_parquet(tmp_path / "b.txt", mixed)
    agenttraj.write(tmp_path / "c.json", mixed[:2])
    agenttraj.write(tmp_path / "d.jsonl", mixed[:3])
    (tmp_path / "empty").touch()
    forms = [detect(tmp_path / name) for name in ("a.txt", "b.txt", "c.json", "d.jsonl", "empty")]
    assert forms == ["store", "parquet", "agenttraj", "agenttraj", "store"]
    assert AgentTrajDataset.load(tmp_path / "a.txt") == AgentTrajDataset.load(tmp_path / "b.txt") == mixed
    assert len(AgentTrajDataset.load(tmp_path / "c.json", tmp_path / "d.jsonl", tmp_path / "empty")) == 5


def test_load_refuses_what_it_does_not_know(tmp_path: Path, mixed: AgentTrajDataset) -> None:
    """A missing file, other JSON and texts without turns each end in a clear error; a torn first line is dropped."""
    path = tmp_path / "a.jsonl"
    for content, message in (
        ('{"x": 1}\n', "its first row has the keys x; docs/reference/formats.md"),
        ("3\n", "its first row is no JSON object with keys"),
        ('{"text": "x"}\n', "looks like texts without turns"),
        ("garbage\n", "no JSON"),
    ):
        path.write_text(content)
        with pytest.raises(DataError, match=message):
            AgentTrajDataset.load(path)
    with pytest.raises(DataError, match="no such file"):
        AgentTrajDataset.load(tmp_path / "none")
    path.write_bytes(store.to_line(mixed[0])[:300])
    with pytest.warns(UserWarning, match="torn"):
        assert len(AgentTrajDataset.load(path)) == 0
    path.write_text(json.dumps({"item_id": "x_1", "conversations": [1, 2]})[:30])
    with pytest.warns(UserWarning, match="torn"):
        assert len(AgentTrajDataset.load(path)) == 0


def test_filters(mixed: AgentTrajDataset) -> None:
    """By kind, by reward with both bounds included, by percentile and by any predicate; the order stays."""
    assert len(mixed.filter_by_type("buy")) == 10 and len(mixed.filter_by_type("buy", "find")) == 20
    assert {each.reward for each in mixed.filter_by_reward(0.25, 0.75)} == {0.25, 0.5, 0.75}
    assert len(mixed.filter_by_reward(high=0.0)) == 4
    assert [each.id for each in mixed.filter(lambda each: each.success)] == ["0-4", "1-4", "2-4", "3-4"]
    assert {each.reward for each in mixed.percentile(100)} == {1.0} and mixed.percentile(0) == mixed


def test_dedupe_and_apply(mixed: AgentTrajDataset) -> None:
    """The same task and actions count once."""
    from agentgym_py.trajectory.selectors import per_task

    assert AgentTrajDataset([*mixed, *mixed]).dedupe() == mixed
    assert {each.reward for each in mixed.apply(per_task(1))} == {1.0}


def test_split_keeps_tasks_whole(mixed: AgentTrajDataset) -> None:
    """No task is in two parts, nothing is lost, and a seed repeats the split."""
    parts = mixed.split({"train": 0.5, "valid": 0.25, "test": 0.25}, seed=3)
    assert [len(part) for part in parts.values()] == [10, 5, 5]
    tasks = [{each.task_id for each in part} for part in parts.values()]
    assert sum(map(len, tasks)) == len(set().union(*tasks)) == 4
    assert mixed.split({"train": 0.5, "valid": 0.25, "test": 0.25}, seed=3) == parts
    assert any(mixed.split({"a": 0.5, "b": 0.5}, seed=s)["a"] != parts["train"] for s in range(9))
    for wrong in ({"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": math.nan, "b": 1.0}, {}):
        with pytest.raises(ConfigError, match="shares"):
            mixed.split(wrong)


def test_sample_follows_the_weights(mixed: AgentTrajDataset) -> None:
    """Weight 0 is never drawn, weight 3 about three times as often as 1; without replacement nothing twice."""
    assert Counter(each.id for each in mixed.sample(20)) == Counter(each.id for each in mixed)
    assert mixed.sample(5, seed=1) == mixed.sample(5, seed=1) != mixed.sample(5, seed=2)
    drawn = mixed.sample(8000, lambda each: 3.0 if each.reward == 1 else float(each.reward == 0), replace=True)
    share = sum(each.reward == 1 for each in drawn) / 8000
    assert share == pytest.approx(0.75, abs=0.03) and {each.reward for each in drawn} == {0.0, 1.0}
    firsts = [mixed.sample(1, [3.0] + [0.0] * 18 + [1.0], seed=s)[0].id for s in range(400)]
    assert Counter(firsts)["0-0"] == pytest.approx(300, abs=40)


@pytest.mark.parametrize("weights", [[1.0], [-1.0] * 20, [math.nan] * 20, [0.0] * 20])
def test_sample_refuses_bad_weights(mixed: AgentTrajDataset, weights: list[float]) -> None:
    """Wrong length, negative, not a number, or nothing to draw."""
    with pytest.raises(ConfigError, match=r"weight"):
        mixed.sample(1, weights)
    with pytest.raises(ConfigError, match="cannot draw 21 of 20"):
        mixed.sample(21)


def test_quality_reports_what_each_rule_dropped(mixed: AgentTrajDataset) -> None:
    """What each rule dropped of what the rules before it had left, in order; the numbers add up."""
    kept, report = AgentTrajDataset([*mixed, *mixed]).quality(
        min_reward=0.5, max_steps=4, min_steps=1, require_success=False, predicates={"odd task": _odd}, dedupe=True
    )
    assert list(report.dropped.items()) == [
        ("below reward 0.5", 16), ("over 4 steps", 8), ("odd task", 8), ("duplicates", 4)
    ]  # fmt: skip
    assert AgentTrajDataset(report.kept) == kept and len(kept) == 4
    assert report.line.startswith("kept 4 of 40; dropped: 16 below reward 0.5, 8 over 4 steps")
    assert mixed.quality(require_success=True, percentile=50)[1].dropped == {"without success": 16}
    assert mixed.quality() == (mixed, mixed.quality()[1])
    kept, report = AgentTrajDataset([*mixed, replace(mixed[0], reward=-9.0, error="timeout")]).quality(percentile=0)
    assert (kept, report.dropped) == (mixed, {"ended by an infrastructure error": 1})


def _odd(each: Trajectory) -> bool:
    return each.task_id.endswith(("1", "3"))


def test_to_sft_has_two_forms(mixed: AgentTrajDataset) -> None:
    """One row a trajectory, or one a reply; trajectories without steps give none."""
    assert len(mixed.to_sft()) == 20
    assert len(mixed.to_sft("prompt_completion")) == sum(len(each.steps) for each in mixed) == 60
    with pytest.raises(ConfigError, match="form"):
        mixed.to_sft("other")  # type: ignore[arg-type]  # wrong on purpose


def test_sft_rows_say_the_outcome(mixed: AgentTrajDataset) -> None:
    """All have the same keys; an infrastructure failure gives no row."""
    broken = replace(mixed[0], stop_reason=StopReason.ERROR, error="timeout")
    forms: tuple[Literal["messages"], Literal["prompt_completion"]] = ("messages", "prompt_completion")
    for form in forms:
        rows = AgentTrajDataset([*mixed, broken]).to_sft(form)
        assert rows == mixed.to_sft(form) and len({frozenset(row) for row in rows}) == 1
        outcomes = {(row["success"], row["reward"]) for row in rows}
        assert outcomes == {(t.success, t.reward) for t in mixed if t.steps}


def test_preferences_pair_best_with_worst(mixed: AgentTrajDataset, episode: Make) -> None:
    """One task, one opening, a gap in reward; broken episodes and equal rewards make no pair."""
    pairs = mixed.preferences()
    assert [(pair.chosen.reward, pair.rejected.reward) for pair in pairs] == [(1.0, 0.0)] * 4
    assert [pair.id for pair in mixed[:5].preferences(per_task=5)] == ["shop/train/easy/0", "shop/train/easy/0#2"]
    assert len(mixed[:5].preferences(per_task=5, min_gap=0.6)) == 1
    assert AgentTrajDataset([episode("a"), episode("b")]).preferences() == []
    broken = episode("b", reward=0.0, error="timeout")
    assert AgentTrajDataset([episode("a"), broken]).preferences() == []
    assert [set(row) for row in mixed.to_preferences()] == [{"prompt", "chosen", "rejected"}] * 4
    assert AgentTrajDataset([episode("a", "b"), episode("a", reward=0.0)]).to_preferences(level="turn") == []


def test_to_stepwise(mixed: AgentTrajDataset) -> None:
    """As many labels as completions; a label function decides."""
    rows = mixed.to_stepwise(lambda whole, step: step.action == "a")
    assert [row["labels"] for row in rows[:2]] == [[True], [True, False]]
    broken = AgentTrajDataset([mixed[0], replace(mixed[1], error="timeout")])
    assert broken.to_stepwise() == mixed[:1].to_stepwise()


def test_stats_count_and_estimate(mixed: AgentTrajDataset) -> None:
    """Counts by kind and agent, success clustered by task; an infrastructure failure is no failure of the agent."""
    stats = describe(mixed)
    assert (stats.trajectories, stats.tasks, stats.kinds) == (20, 4, {"find": 10, "buy": 10})
    assert stats.agents == {"expert": 20}
    outcome = stats.outcome
    assert outcome.success.value == 0.2 and outcome.success.n == 4 and outcome.reward.value == 0.5
    assert (outcome.steps, outcome.invalid, outcome.errors, stats.tokens) == (3.0, 0.0, 0, 0)
    assert describe(mixed.filter(lambda trajectory: trajectory.reward == 0)).outcome.success.n == 4
    broken = [replace(trajectory, success=False, error="timeout") for trajectory in mixed]
    half = describe([*mixed, *broken])
    assert half.trajectories == 40 and half.outcome == replace(outcome, errors=20)
    counts = AgentTrajDataset([*mixed, *broken]).stats()
    assert (counts.trajectories, counts.tasks, counts.successes, counts.errors) == (40, 4, 4, 20)
    assert (counts.kinds, counts.agents, counts.tokens) == ({"find": 20, "buy": 20}, {"expert": 40}, 0)
    empty = describe([])
    assert math.isnan(empty.outcome.success.value) and empty.tasks == 0


def test_filter_file_streams(tmp_path: Path, mixed: AgentTrajDataset) -> None:
    """One at a time from any form into a store or parquet; the file may be filtered onto itself."""
    path = tmp_path / "a.jsonl"
    mixed.save(path)
    assert filter_file(path, tmp_path / "b.parquet", lambda each: each.success) == (4, 20)
    assert filter_file(tmp_path / "b.parquet", tmp_path / "c.jsonl", _odd) == (2, 4)
    assert filter_file(path, path, _odd) == (10, 20)
    assert list(read_any(path)) == [each for each in mixed if _odd(each)]


def test_filter_file_holds_no_more_than_one(tmp_path: Path, episode: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An episode is written before the next one is read."""
    path, events = tmp_path / "a.jsonl", list[str]()
    AgentTrajDataset(episode("a", id=str(i)) for i in range(5)).save(path)
    append = store.TrajectoryWriter.append

    def written(self: store.TrajectoryWriter, each: Trajectory) -> None:
        events.append(f"w{each.id}")
        append(self, each)

    def read(each: Trajectory) -> bool:
        events.append(f"r{each.id}")
        return True

    monkeypatch.setattr(store.TrajectoryWriter, "append", written)
    filter_file(path, tmp_path / "b.jsonl", read)
    assert events == [f"{kind}{i}" for i in range(5) for kind in "rw"]


def test_a_failed_filter_leaves_the_target(tmp_path: Path, mixed: AgentTrajDataset) -> None:
    """An error in the middle of the source leaves what was there before."""
    path, target = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    mixed[:1].save(target)
    path.write_bytes(store.to_line(mixed[0]) + b"broken\n" + store.to_line(mixed[1]))
    with pytest.raises(DataError, match=":2:"):
        filter_file(path, target, lambda each: True)
    assert AgentTrajDataset.load(target) == mixed[:1]
