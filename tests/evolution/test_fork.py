from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.errors import ConfigError, RunError
from agentgym_py.evolution import fork as fork_module
from agentgym_py.evolution.fork import Change, Fork, fork_lines, origin_of
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.policy.saving import BASE_FILE


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run of which the rounds 0 to 2 are over; round 1 is the best."""
    folder = RunFolder.create(tmp_path / "run", {"rounds": 3, "patience": 0, "env": ["shop"]})
    for number, rate in enumerate((0.1, 0.5, 0.2)):
        folder.begin_round(number)
        folder.finish_round(number, {"valid": {"success": {"value": rate}}, "policy_digest": f"d{number}"})
        (folder.round(number) / "checkpoint").mkdir()
        (folder.round(number) / "checkpoint" / "model.safetensors").write_bytes(b"weights")
    folder.begin_round(3)
    return folder


@pytest.mark.parametrize(
    ("point", "error", "message"),
    [
        ("", ConfigError, "names no round"),
        ("@", ConfigError, "names no round"),
        ("@-1", ConfigError, "names no round"),
        ("@3", RunError, "round 3 is not finished; finished: 0, 1, 2"),
        ("x@1", RunError, "no such folder"),
    ],
)
def test_a_fork_begins_after_a_finished_round(run: RunFolder, point: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        Fork.parse(f"{run.path}{point}")
    assert Fork.parse(f"{run.path}@2").after == 2


@pytest.mark.parametrize(
    ("name", "after", "message"),
    [
        ("trainer.kl_coef", 2, None),
        ("select.threshold", 2, None),
        ("attempts", 0, None),
        ("curriculum.name", 0, None),
        ("attempts", 1, "cannot be changed after round 1, because the shared rounds explored with it"),
        ("critic.name", 2, "cannot be changed after round 2"),
        ("seed", 0, "cannot be changed in a fork, because the shared rounds were made with it"),
        ("env_kwargs.difficulty", 2, "cannot be changed in a fork"),
        ("valid_tasks", 0, "cannot be changed in a fork"),
        ("cloner.epochs", 0, "cannot be changed in a fork"),
    ],
)
def test_the_past_cannot_be_changed(run: RunFolder, name: str, after: int, message: str | None) -> None:
    """Settings of the rounds to come are free; those that the shared rounds were made or explored with are not."""
    fork = Fork(run, after, {name: Change(1, 2)})
    if message is None:
        fork.require_changeable()
    else:
        with pytest.raises(ConfigError, match=message):
            fork.require_changeable()


def test_every_setting_is_free_or_fixed_on_purpose() -> None:
    """The names in fork.py are options of evolve."""
    from agentgym_py.cli import build_parser

    groups = {name.partition(".")[0] for name in build_parser("evolve", []).options}
    assert groups >= fork_module._ALWAYS | fork_module._BEFORE_EXPLORATION


@pytest.mark.parametrize(
    ("config", "last", "message"),
    [
        ({"rounds": 3, "patience": 0}, 3, None),
        ({"rounds": 3, "patience": 2}, 3, None),
        ({"rounds": 2, "patience": 0}, 2, "set rounds=3"),
        ({"rounds": 3, "patience": 1}, 3, "patience 1 would have stopped .* after round 2"),
    ],
)
def test_a_fork_has_rounds_of_its_own(run: RunFolder, config: Any, last: int, message: str | None) -> None:
    if message is None:
        Fork(run, 2).require_future(config, last)
    else:
        with pytest.raises(ConfigError, match=message):
            Fork(run, 2).require_future(config, last)


def test_a_fork_appears_whole_or_not_at_all(run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill while rounds are copied leaves nothing; the next start makes it; a third one is refused."""
    fork, target = Fork(run, 1, {"temperature": Change(0.5, 1.0)}), tmp_path / "forks" / "one"

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fork_module, "sync_to_disk", stopped)
        with pytest.raises(KeyboardInterrupt), fork.start(target, {"rounds": 3}, {}):
            pass
    assert not target.exists() and not list(target.parent.iterdir())
    with fork.start(target, {"rounds": 3}, {"preset": "default"}) as folder:
        assert folder.finished_rounds() == [0, 1] and not folder.has_begun(2)
        with pytest.raises(RunError, match="in use"), RunFolder(target).locked():
            pass
    assert RunFolder.open(target).config() == {"rounds": 3}
    for number in (0, 1):
        for name in ("metrics.json", "checkpoint/model.safetensors"):
            assert (folder.round(number) / name).read_bytes() == (run.round(number) / name).read_bytes()
    with pytest.raises(RunError, match="already holds a run"), fork.start(target, {}, {}):
        pass


@pytest.mark.parametrize(
    ("change", "kept"), [("reward", False), ("reward_kwargs.alpha", False), ("reward_model", True), ("horizon", True)]
)
def test_a_changed_reward_leaves_the_old_scores_behind(run: RunFolder, change: str, kept: bool, tmp_path: Path) -> None:
    for name in ("rewards.jsonl", "rewards-retries.jsonl"):
        (run.round(1) / name).write_text("")
    with Fork(run, 1, {change: Change(None, 1)}).start(tmp_path / "fork", {}, {}) as fork:
        assert bool(list(fork.round(1).glob("rewards*"))) is kept


def test_provenance_names_the_whole_line_of_forks(run: RunFolder, tmp_path: Path) -> None:
    """A fork of a fork knows both origins, what each changed, and the weights that it began with."""
    first = Fork(run, 1, {"trainer.kl_coef": Change(0.0, 0.1)})
    with first.start(tmp_path / "first", {"rounds": 3}, {"command": ["agentgym", "fork"]}) as folder:
        second = replace(Fork.parse(f"{folder.path}@0"), changes={"reward": Change(None, "agent")})
    with second.start(tmp_path / "second", {"rounds": 3}, {}) as folder:
        origin = origin_of(folder)
    assert origin and (origin["after_round"], origin["policy_digest"]) == (0, "d0")
    assert origin["changes"] == {"reward": {"before": None, "after": "agent"}}
    assert origin["provenance"]["command"] == ["agentgym", "fork"]
    assert fork_lines(folder) == [
        f"A fork of {tmp_path}/first after round 0 with reward agent (was not given), "
        f"which is a fork of {tmp_path}/run after round 1 with trainer.kl_coef 0.1 (was 0)."
    ]
    assert fork_lines(run) == [] and origin_of(run) is None


def test_copied_adapters_find_their_base(run: RunFolder, tmp_path: Path) -> None:
    """A base beside the run has another relative path from a deeper folder; one within the run is copied."""
    (tmp_path / "base").mkdir()
    places = {0: "../../../../base", 1: "../../00/checkpoint"}
    for number, name in places.items():
        (run.round(number) / "checkpoint" / BASE_FILE).write_text(json.dumps({"name": name}))
    with Fork(run, 1).start(tmp_path / "deep" / "er" / "fork", {"rounds": 3}, {}) as folder:
        bases = [folder.round(n) / "checkpoint" / json.loads(
            (folder.round(n) / "checkpoint" / BASE_FILE).read_text())["name"] for n in places]  # fmt: skip
    assert bases[0].resolve() == tmp_path / "base" and bases[1].resolve() == folder.round(0) / "checkpoint"
