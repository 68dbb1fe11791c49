from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import Episode, ExpertAgent, ModelAgent
from agentgym_py.collection import Collector, PlayConfig
from agentgym_py.collection.branching import snapshots_at
from agentgym_py.collection.processes import Workers
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, InfrastructureError, SnapshotError
from agentgym_py.rewards.functions import build_reward
from agentgym_trainers.grpo import GRPO
from agentgym_trainers.reverse_curriculum import ExpertStarts, ReverseCurriculum, start_of_stage


def test_where_a_stage_begins() -> None:
    """The last one at the beginning, the first a stage's share before the end, one step at least; never later again."""
    assert [start_of_stage(10, stage, 5) for stage in range(1, 6)] == [8, 6, 4, 2, 0]
    assert [start_of_stage(3, stage, 5) for stage in range(1, 6)] == [2, 1, 1, 0, 0]
    for steps in range(1, 20):
        for stages in range(1, 8):
            found = [start_of_stage(steps, stage, stages) for stage in range(1, stages + 1)]
            assert found == sorted(found, reverse=True) and found[-1] == 0 and found[0] < steps


@pytest.mark.parametrize("world", ["ToyChain-v0", "shop"])
def test_groups_begin_on_the_experts_way(
    toy_envs: Any, tiny_policy: Any, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tries of a group in the state, byte by byte, of the expert at its stage; what was before is not learnt."""
    met: list[tuple[str, int, bytes]] = []
    replying = ModelAgent._replying

    def noted(self: ModelAgent, episode: Episode) -> Any:
        if not episode.ids:
            met.append((episode.task.id, len(episode.steps), episode.env.snapshot()))
        return replying(self, episode)

    monkeypatch.setattr(ModelAgent, "_replying", noted)
    rollouts = toy_envs.rollouts(tiny_policy, EnvSpec(world, {"max_steps": 8}), 18, tokens=2, seed=4)
    way = ExpertStarts(ReverseCurriculum(group_size=3, stages=3))
    drawn = [way.stage(rollouts, job) for job in rollouts.tasks[:6]]
    groups = way.play(rollouts, 6)
    assert [len(group) for group in groups] == [3] * 6 and len(rollouts.episodes) == 18
    expert, starts = Collector(ExpertAgent(fair=True), PlayConfig(seed=4)), set[int]()
    for job, stage, group in zip(rollouts.tasks, drawn, groups, strict=False):
        shown = expert.collect(job)
        done = start_of_stage(len(shown.steps), stage, 3)
        begun = [(steps, bytes_) for task, steps, bytes_ in met if task == shown.task_id]
        assert begun == [(done, snapshots_at(shown, [done])[0].snapshot)] * 3
        for each in group:
            assert [step.trained for step in each.steps] == [i >= done for i in range(len(each.steps))]
            assert [step.reply for step in each.steps[:done]] == [step.reply for step in shown.steps[:done]]
        starts.add(done)
    assert len(starts) > 1, "the stages are mixed"


def test_stages_in_turn_follow_the_budget(toy_envs: Any) -> None:
    """From the end backwards; the last share of the budget begins at the beginning."""
    rollouts = toy_envs.rollouts(toy_envs.word_policy(), toy_envs.CHAIN, 100)
    way, found = ExpertStarts(ReverseCurriculum(order="in_turn")), []
    for spent in (0, 19, 21, 59, 81, 99):
        rollouts.episodes = [None] * spent
        found.append(way.stage(rollouts, rollouts.tasks[0]))
    assert found == [1, 1, 2, 3, 5, 5]


def test_the_frontier_goes_back_as_the_agent_learns(toy_envs: Any) -> None:
    """From all stages at first, then the furthest one that was good enough and the next; at last the beginning alone.

    A stage counts as it was when it was last played.
    """
    rollouts = toy_envs.rollouts(toy_envs.word_policy(), toy_envs.CHAIN, 100)
    way = ExpertStarts(ReverseCurriculum(success_threshold=0.25))

    def drawn(**rates: float) -> list[int]:
        way.rates |= {int(stage[1:]): rate for stage, rate in rates.items()}
        return sorted({way.stage(rollouts, job) for job in rollouts.tasks[:40]})

    assert drawn() == [1, 2, 3, 4, 5]
    assert drawn(s1=0.0, s2=0.0, s3=0.0, s4=0.0, s5=0.0) == [1, 2]
    assert drawn(s1=0.25) == [1, 2] and drawn(s2=0.5) == [2, 3]
    assert drawn(s4=0.3) == [4, 5] and drawn(s5=0.25) == [5]
    assert drawn(s5=0.2) == [4, 5] and drawn(s4=0.1) == [2, 3]


def test_how_well_a_stage_went_is_known(toy_envs: Any, tmp_path: Path) -> None:
    """By stage the share of its tries that succeeded, of tasks that the expert solved; a state brings it back."""
    rollouts = toy_envs.rollouts(toy_envs.word_policy(), EnvSpec("ToyChain-v0", {"max_steps": 6}), 200)
    way = ExpertStarts(ReverseCurriculum(group_size=4))
    stages = [way.stage(rollouts, job) for job in rollouts.tasks[:20]]
    groups = way.play(rollouts, 20)
    assert not way.rates, "of this iteration: what it plays besides draws its stages as it did"
    again = ExpertStarts(way.settings)
    way.save(tmp_path)
    assert {stage for stage in stages if stage in way.rates} == {1, 2, 3, 4, 5} == set(way.rates)
    for stage, rate in way.rates.items():
        of_it = [each.success for at, group in zip(stages, groups, strict=True) if at == stage for each in group]
        assert rate == pytest.approx(sum(of_it) / len(of_it))
    assert way.rates[1] > way.rates[5]
    again.load(tmp_path)
    assert again.rates == way.rates
    failed = toy_envs.rollouts(toy_envs.word_policy(), EnvSpec("ToyChain-v0", {"max_steps": 3}), 8)
    nobody = ExpertStarts(ReverseCurriculum(group_size=4))
    nobody.play(failed, 2)
    nobody.save(tmp_path)
    assert not nobody.rates


def test_a_group_that_could_not_begin_there_says_nothing_of_its_stage(
    toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began at the beginning, where it is harder; of the last stage that is the place."""

    def fails(*given: Any) -> Any:
        raise SnapshotError("it shows something else")

    monkeypatch.setattr("agentgym_trainers.reverse_curriculum.snapshots_at", fails)
    way = ExpertStarts(ReverseCurriculum(group_size=4))
    way.play(toy_envs.rollouts(toy_envs.word_policy(), toy_envs.CHAIN, 80), 20)
    way.save(tmp_path)
    assert set(way.rates) == {5}


def test_one_that_is_taken_up_again_knows_how_far_it_was(toy_envs: Any, tmp_path: Path) -> None:
    """Bit for bit as one that was not interrupted, by the stages that were drawn after it."""
    trainer = ReverseCurriculum(group_size=4, tasks_per_iteration=8, learning_rate=0.01, checkpoint_minutes=0.0)

    def tell(done: int, total: int) -> None:
        if done == 64:
            raise KeyboardInterrupt

    ended = []
    for folder, progress in (("whole", None), ("cut", tell), ("cut", None)):
        policy = toy_envs.word_policy()
        rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 5 * 32)
        with nullcontext() if progress is None else pytest.raises(KeyboardInterrupt):
            trainer.improve(policy, rollouts, seed=0, output_dir=tmp_path / folder, progress=progress)
        ended.append((policy.digest(), [sum(not s.trained for s in each.steps) for each in rollouts.episodes]))
    assert ended[0] == ended[2] and len(set(ended[0][1])) > 1


def test_with_one_stage_it_is_grpo(toy_envs: Any) -> None:
    """Byte-equal weights, for everything begins at the beginning; an expert who fails changes nothing either."""
    digests, same = [], {"group_size": 4, "tasks_per_iteration": 8, "learning_rate": 0.01}
    for trainer in (GRPO(**same), ReverseCurriculum(**same, stages=1)):  # type: ignore[arg-type]  # of several types
        policy = toy_envs.word_policy()
        trainer.improve(policy, toy_envs.rollouts(policy, toy_envs.CHAIN, 96), seed=0, output_dir=Path("unused"))
        digests.append(policy.digest())
    assert digests[0] == digests[1] != toy_envs.word_policy().digest()


def test_where_groups_began_is_logged(toy_envs: Any) -> None:
    """The share that began on the expert's way and how far along it; a training without any is warned of."""
    how: dict[str, Any] = {"group_size": 4, "tasks_per_iteration": 8}
    _, report, rollouts = toy_envs.improved(toy_envs.CHAIN, ReverseCurriculum(**how), 64)
    starts = [[s.trained for s in each.steps].count(False) for each in rollouts.episodes[::4]]
    for row, done in zip(report.history, (starts[:8], starts[8:]), strict=True):
        assert row["steps_done"] == pytest.approx(sum(done) / 8) and 0 < row["starts_midway"] < 1
        assert row["starts_midway"] == pytest.approx(sum(map(bool, done)) / 8)
    assert not [note for note in report.notes if "plain grpo" in note]
    with pytest.warns(UserWarning, match="no group began within an expert's episode, so this was plain grpo"):
        _, report, _ = toy_envs.improved(toy_envs.BANDIT, ReverseCurriculum(**how), 32)  # episodes of one step
    assert report.history[0]["starts_midway"] == 0 and "plain grpo" in report.notes[-1]


def test_the_expert_plays_as_the_policy_does(
    toy_envs: Any, worlds_made: list[EnvSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same time for a step and by the same workers; its way is gone again in the world of the job."""
    players: list[Collector] = []
    batch = Collector.collect_batch

    def noted(self: Collector, *given: Any) -> Any:
        players.append(self)
        return batch(self, *given)

    monkeypatch.setattr(Collector, "collect_batch", noted)
    rollouts = toy_envs.rollouts(toy_envs.word_policy(), EnvSpec("toychain", {"max_steps": 8}), 8, seed=3)
    with Workers(1) as workers:
        rollouts.play_config = replace(rollouts.play_config, executor=workers)
        ExpertStarts(ReverseCurriculum(group_size=4, stages=3)).play(rollouts, 2)
    expert, policy = players
    assert isinstance(expert.agent, ExpertAgent) and isinstance(policy.agent, ModelAgent)
    assert expert.play == policy.play and expert.play.executor is workers
    assert {spec.name for spec in worlds_made} == {"toychain"}


def test_where_the_expert_fails_a_group_begins_at_the_beginning(toy_envs: Any) -> None:
    """In a world too short for its plan."""
    rollouts = toy_envs.rollouts(toy_envs.word_policy(), EnvSpec("ToyChain-v0", {"max_steps": 3}), 8)
    groups = ExpertStarts(ReverseCurriculum(group_size=4)).play(rollouts, 2)
    assert all(all(step.trained for step in each.steps) for group in groups for each in group)


@pytest.mark.parametrize(
    "error",
    [OSError("no world"), InfrastructureError("no server"), SnapshotError("it shows something else")],
    ids=["raises", "is gone", "changed"],
)
def test_where_the_way_cannot_be_gone_again_a_group_begins_at_the_beginning(
    toy_envs: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A world that fails at it ends no training."""

    def fails(*given: Any) -> Any:
        raise error

    monkeypatch.setattr("agentgym_trainers.reverse_curriculum.snapshots_at", fails)
    rollouts = toy_envs.rollouts(toy_envs.word_policy(), toy_envs.CHAIN, 8)
    groups = ExpertStarts(ReverseCurriculum(group_size=4)).play(rollouts, 2)
    assert [len(group) for group in groups] == [4, 4]
    assert all(step.trained for group in groups for each in group for step in each.steps)


@pytest.mark.parametrize(
    "order", ["frontier", *(pytest.param(order, marks=pytest.mark.slow) for order in ("mixed", "in_turn"))]
)
def test_it_solves_a_chain_by_its_outcome_alone(toy_envs: Any, order: Any) -> None:
    """Within 5 steps of 5, where nothing but success is rewarded and chance succeeds in one of 32."""
    spec = EnvSpec("ToyChain-v0", {"max_steps": 5})
    policy = toy_envs.word_policy()
    trainer = ReverseCurriculum(tasks_per_iteration=8, group_size=8, learning_rate=0.01, order=order)
    rollouts = toy_envs.rollouts(policy, spec, 25 * 64)
    rollouts.scorer = build_reward("success")
    report = trainer.improve(policy, rollouts, seed=0, output_dir=Path("unused"))
    fresh = toy_envs.rollouts(policy, spec, 64, seed=9).groups(64, 1)
    assert sum(group[0].success for group in fresh) > 55 and report.history


def test_wrong_settings_are_refused() -> None:
    """Each by its name."""
    wrong: dict[str, Any] = {"stages": 0, "order": "any", "success_threshold": 1.1, "expert": "fairy", "branches": 1}
    for name, value in (wrong | {"group_size": 1}).items():
        with pytest.raises(ConfigError, match=name):
            ReverseCurriculum(**{name: value})
