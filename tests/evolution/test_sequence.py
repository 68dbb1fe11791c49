"""Worlds one after another: the schedule, the replay buffer, forgetting, and whole runs."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError
from agentgym_py.evolution import Evolution, EvolveConfig
from agentgym_py.evolution.config import require_cloner, require_sequence
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.evolution.sequence import (
    Schedule,
    draw_replay,
    forgetting,
    replay_buffer,
    sequence_metrics,
    success_matrix,
)
from agentgym_py.policy import Policy
from agentgym_py.report import comparison, page
from agentgym_py.report.model_card import round_origin
from agentgym_py.training import TrainReport
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.selectors import SelectConfig
from agentgym_trainers.dpo import DPO
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.weighted_bc import WeightedBC

WORLDS = [EnvSpec("maze", {"difficulty": "easy", "max_steps": 3}), EnvSpec("shop", {"max_steps": 3})]
SMALL = EvolveConfig(
    sequence=True, rounds=1, expert_tasks=2, explore_tasks=3, valid_tasks=2, test_tasks=2, max_new_tokens=4,
    prompt="none", select=SelectConfig(threshold=-1e9, success_only=False, dedupe=False, mask_invalid=False),
    replay_ratio=0.5, fisher_episodes=3,
)  # fmt: skip
TRAINER = FilteredBC(epochs=1, threshold=-1e9, batch_size=1, checkpoint_minutes=0.0, ewc_lambda=10.0)


class Reporter:
    """Notes what is trained, and interrupts a training after a number of its steps."""

    def __init__(self, kill: tuple[int, int] | None = None) -> None:
        self.trained: list[int] = []
        self.kill = kill

    def training(self, number: int, trajectories: int) -> Any:
        self.trained.append(trajectories)

        def step(done: int, total: int) -> None:
            if self.kill == (number, done):
                raise KeyboardInterrupt

        return step

    def phase(self, number: int, what: str, total: int) -> Any:
        return lambda _: None

    def round(self, number: int, metrics: dict[str, Any]) -> None:
        pass


def sequence(path: Path, policy: Policy, config: EvolveConfig = SMALL, **changes: Any) -> Evolution:
    """A run in `path`, new or resumed."""
    settings = {"env": ["maze", "shop"], "sequence": config.sequence, "rounds": config.rounds, "replay_ratio": 0.5}
    folder = RunFolder.open(path) if (path / "run.yaml").exists() else RunFolder.create(path, settings)

    def load(name: str | None) -> Policy:
        return Policy.load(name) if name else Policy(copy.deepcopy(policy.model), policy.tokenizer, "base")

    parts: dict[str, Any] = {"trainer": TRAINER, "reporter": Reporter(), **changes}
    return Evolution(folder, WORLDS, config, load_policy=load, **parts)


@pytest.fixture(scope="module")
def whole(tiny_policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> tuple[Evolution, dict[str, Any]]:
    """A run that nothing interrupts, and its result; only read it."""
    run = sequence(tmp_path_factory.mktemp("whole") / "run", tiny_policy)
    return run, run.run()


def test_rounds_are_numbered_through_the_stages() -> None:
    """Each stage has a round of demonstrations and those that explore; a run of one stage has them as ever."""
    schedule = Schedule(3, 2)
    assert [(schedule.stage(n), schedule.within(n)) for n in range(schedule.rounds)] == [
        (stage, within) for stage in range(3) for within in range(3)
    ]
    assert [(schedule.first(s), schedule.last(s)) for s in range(3)] == [(0, 2), (3, 5), (6, 8)]
    assert [Schedule(1, 3).within(n) for n in range(4)] == [0, 1, 2, 3] and Schedule(1, 3).rounds == 4


@given(st.lists(st.integers(0, 12), min_size=1, max_size=4), st.integers(1, 30), st.integers(0, 3))
def test_the_buffer_is_shared_equally(sizes: list[int], size: int, seed: int) -> None:
    """It is full if there are enough; no world has two more than another that has some left over."""
    by_stage: list[Sequence[Any]] = [[(stage, i) for i in range(n)] for stage, n in enumerate(sizes)]
    buffer: list[Any] = list(replay_buffer(by_stage, size, seed))
    assert len(buffer) == len(set(buffer)) == min(size, sum(sizes))
    counts = Counter(pair[0] for pair in buffer)
    for stage, number in enumerate(sizes):
        if counts[stage] < number:
            assert all(counts[other] <= counts[stage] + 1 for other in range(len(sizes)))
    assert set(buffer) <= set(replay_buffer(by_stage, size + 5, seed))
    before = replay_buffer(by_stage[:-1], size, seed)
    assert {pair for pair in buffer if pair[0] < len(sizes) - 1} <= set(before), "a stage only loses trajectories"
    assert buffer == replay_buffer(by_stage, size, seed)


def test_the_replayed_share_is_that_of_the_training() -> None:
    """Of new and replayed episodes together, as far as the buffer has them."""
    buffer: list[Any] = list(range(100))
    for new, ratio, number in ((70, 0.3, 30), (10, 0.5, 10), (10, 0.0, 0), (100, 0.9, 100), (1, 0.3, 0)):
        drawn = draw_replay(buffer, new, ratio, seed=1)
        assert len(drawn) == len(set(drawn)) == number
    assert draw_replay(buffer, 10, 0.5, seed=1) != draw_replay(buffer, 10, 0.5, seed=2)


def test_forgetting_is_the_fall_from_the_best() -> None:
    """Chaudhry's f_j by a loop; a world that was never measured has none."""
    matrix = [[0.8, 0.1, 0.0], [0.5, 0.9, 0.2], [0.6, 0.7, 0.7]]
    slow = []
    for j in range(2):
        slow.append(max(matrix[k][j] for k in range(j, 2)) - matrix[2][j])
    assert forgetting(matrix) == pytest.approx(slow) and slow == pytest.approx([0.2, 0.2])
    metrics = sequence_metrics(matrix, ["a", "b", "c"])
    assert metrics["average"] == pytest.approx(2 / 3) and metrics["success"] == matrix
    assert metrics["forgetting"] == {"mean": pytest.approx(0.2), "by_world": pytest.approx({"a": 0.2, "b": 0.2})}
    assert forgetting([[None, 0.1], [0.3, 0.2]]) == [None]
    summaries = [{"worlds": {"a": {"success": {"value": 0.1}}, "b": {"success": {"value": 0.2}}}}]
    assert success_matrix(summaries, ["b", "a"]) == [[0.2, 0.1]]


def test_a_sequence_learns_worlds_in_turn(whole: tuple[Evolution, dict[str, Any]]) -> None:
    """Its rounds explore one world each and are evaluated in all; later ones replay; the result is a matrix."""
    run, result = whole
    rounds = [run.folder.metrics(number) for number in range(4)]
    explored = [{t.provenance.env_id for t in store.read(run.folder.round(n) / "trajectories.jsonl")} for n in range(4)]
    assert explored == [{"AgentMaze-v0"}] * 2 + [{"AgentShop-v0"}] * 2
    assert [m["stage"]["world"] for m in rounds] == ["maze", "maze", "shop", "shop"]
    assert [m["player"] for m in rounds] == ["the fair expert", "Agent_v0", "the fair expert", "Agent_v2"]
    assert all(set(m["valid"]["worlds"]) == {"maze", "shop"} for m in rounds)
    assert run.reporter.trained == [2, 3, 4, 6]  # type: ignore[attr-defined]  # as many replayed as new ones
    assert [m["training"]["metrics"].get("replay/trajectories") for m in rounds] == [None, None, 2, 3]
    penalties = [m["training"]["metrics"].get("ewc_penalty") for m in rounds]
    assert penalties[:2] == [None, None] and penalties[2] > 0 and penalties[3] > 0
    assert set(result["rounds"]) == {"1", "3"} and result["last"] == 3
    valid = [m["valid"]["success"]["value"] for m in rounds]
    assert result["best"] == valid.index(max(valid)), "of the rounds of all worlds"
    assert result["sequence"]["worlds"] == ["maze", "shop"] and result["sequence"]["split"] == "test"
    for row, number in zip(result["sequence"]["success"], (1, 3), strict=True):
        tested = list(store.read(run.folder.round(number) / "test.jsonl"))
        for value, world in zip(row, ("AgentMaze-v0", "AgentShop-v0"), strict=True):
            of_world = [t.success for t in tested if t.provenance.env_id == world]
            assert value == sum(of_world) / len(of_world)
    anchors = sorted((run.folder.path / "anchors").iterdir())
    assert [path.name for path in anchors] == ["00.safetensors", "01.safetensors"]
    ids = [{t.task_id for t in store.read(run.folder.round(n) / "trajectories.jsonl")} for n in range(4)]
    assert not ids[0] & ids[1] and not ids[2] & ids[3]
    assert comparison.matrix(run.folder)[0] == ["success in", "maze", "shop"]
    text = comparison.comparison(run.folder)[1]
    assert "success in all worlds after the last:" in text and "forgetting in points: maze" in text
    learnt = [round_origin(run.folder, number).rows.get("sequence") for number in (1, 3)]
    assert learnt == ["maze, of 2 worlds; replay ratio 0.5", "maze, then shop, of 2 worlds; replay ratio 0.5"]
    html = page.write_report(run.folder.path).read_text(encoding="utf-8")
    assert "A sequence of worlds" in html and "after shop (round 3)" in html


def test_a_killed_sequence_resumes_bit_identically(
    whole: tuple[Evolution, dict[str, Any]], tiny_policy: Policy, tmp_path: Path
) -> None:
    """In the middle of a training of the first world, and again of the second."""
    for kill in ((1, 2), (2, 3)):
        with pytest.raises(KeyboardInterrupt):
            sequence(tmp_path / "run", tiny_policy, reporter=Reporter(kill)).run()
    resumed = sequence(tmp_path / "run", tiny_policy)
    result = resumed.run()
    assert {**result, "seconds": 0} == {**whole[1], "seconds": 0}
    digests = [[run.folder.metrics(n)["policy_digest"] for n in range(4)] for run in (resumed, whole[0])]
    assert digests[0] == digests[1]


def test_the_last_world_remembers_by_replay_and_penalty(
    whole: tuple[Evolution, dict[str, Any]], tiny_policy: Policy, tmp_path: Path
) -> None:
    """Without both the first world's rounds are the same, and the second's are not; a cloner is penalized, too."""
    plain = sequence(
        tmp_path / "plain", tiny_policy, replace(SMALL, replay_ratio=0.0, test_tasks=0),
        trainer=replace(TRAINER, ewc_lambda=0.0),
    )  # fmt: skip
    result = plain.run()
    digests = [[run.folder.metrics(n)["policy_digest"] for n in range(4)] for run in (plain, whole[0])]
    assert [first == second for first, second in zip(*digests, strict=True)] == [True, True, False, False]
    assert result["rounds"] == {} and result["sequence"]["split"] == "valid"
    assert not (plain.folder.path / "anchors").exists()
    cloner = FilteredBC()
    cloned = sequence(whole[0].folder.path, tiny_policy, trainer=WeightedBC(ewc_lambda=10.0), cloner=cloner)
    first, second = (cloned._earlier_worlds.with_penalty(number, cloner) for number in (0, 2))
    assert isinstance(first, FilteredBC) and first == cloner
    anchor = whole[0].folder.path / "anchors" / "00.safetensors"
    assert second == replace(cloner, ewc_lambda=10.0, ewc_anchor=anchor)


def test_wrong_sequences_are_refused() -> None:
    """Settings without a sequence, of one world, or of a trainer that cannot have them."""
    for wrong, message in (
        ({"sequence": False, "replay_ratio": 0.3}, "replay_ratio needs"), ({"replay_ratio": 1.0}, "below 1"),
        ({"restart": "base"}, "restart must be previous"), ({"patience": 1}, "patience must be 0"),
        ({"explore_weights": {"shop": 2.0}}, "explore_weights must be empty"), ({"replay_size": 0}, "replay_size"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            replace(SMALL, **wrong)
    for worlds in (WORLDS[:1], [*WORLDS, WORLDS[0]]):
        with pytest.raises(ConfigError, match="needs several worlds, each once"):
            require_sequence(SMALL, FilteredBC(), worlds)
    with pytest.raises(ConfigError, match="DPO compares the attempts"):
        require_sequence(SMALL, DPO(), WORLDS)
    with pytest.raises(ConfigError, match="ewc_lambda needs"):
        require_sequence(replace(SMALL, sequence=False, replay_ratio=0.0), TRAINER, WORLDS)


@dataclass(frozen=True)
class Strange:
    """A stranger's trainer, with a setting that only looks like EWC's."""

    ewc_lambda: float = 1.0

    def train(self, policy: Policy, trajectories: Sequence[Trajectory], **_: Any) -> TrainReport:
        raise AssertionError("it is refused before")


def test_a_trainer_that_knows_no_ewc_is_named() -> None:
    """As the trainer of a sequence, and as the one that learns its demonstrations."""
    with pytest.raises(ConfigError, match=r"ewc_lambda needs a trainer .* OfflineSettings; Strange's do not"):
        require_sequence(SMALL, Strange(), WORLDS)
    with pytest.raises(ConfigError, match="Strange's do not"):
        require_cloner(SMALL, WeightedBC(ewc_lambda=1.0), Strange(0.0))
    require_sequence(SMALL, Strange(0.0), WORLDS)
    require_cloner(SMALL, WeightedBC(), Strange(0.0))
