from __future__ import annotations

from dataclasses import replace
from functools import partialmethod
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import Episode, ExpertAgent, ModelAgent
from agentgym_py.collection import Collector
from agentgym_py.collection.branching import snapshots_at
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, InfrastructureError, PolicyError, SnapshotError
from agentgym_py.trajectory import Trajectory


@pytest.fixture(scope="module")
def policy(toy_envs: Any) -> Any:
    """A policy that nothing trains."""
    return toy_envs.word_policy()


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes, int]]:
    """Task, snapshot and seed of every episode as its agent first meets it."""
    met: list[tuple[str, bytes, int]] = []
    replying = ModelAgent._replying

    def noted(self: ModelAgent, episode: Episode) -> Any:
        if not episode.ids:
            met.append((episode.task.id, episode.env.snapshot(), episode.seed))
        return replying(self, episode)

    monkeypatch.setattr(ModelAgent, "_replying", noted)
    return met


@pytest.mark.parametrize("world", ["ToyChain-v0", "shop", "household"])
def test_a_groups_tries_start_from_the_same_bytes(
    toy_envs: Any, tiny_policy: Any, starts: list[tuple[str, bytes, int]], world: str
) -> None:
    """The worlds of all tries at a task are equal to the byte, those of two tasks are not; no two tries draw alike."""
    groups = toy_envs.rollouts(tiny_policy, EnvSpec(world, {"max_steps": 2}), 12, tokens=2).groups(3, 4)
    assert [len(group) for group in groups] == [4, 4, 4]
    by_task = {task: {bytes_ for other, bytes_, _ in starts if other == task} for task, _, _ in starts}
    assert len(by_task) == 3 and all(len(found) == 1 for found in by_task.values())
    assert len(set().union(*by_task.values())) == 3 and len({seed for *_, seed in starts}) == 12
    for group in groups:
        assert len({each.task_id for each in group}) == 1 and len({each.steps[0].observation for each in group}) == 1
        assert len({each.provenance.env_seed for each in group}) == 1
        assert len({each.provenance.seed for each in group}) == 4


def test_the_budget_is_kept_and_tasks_come_again(
    toy_envs: Any, policy: Any, starts: list[tuple[str, bytes, int]]
) -> None:
    """Whole groups only, tasks in their order, then again with fresh tries: ids and seeds are unique forever."""
    told: list[Trajectory] = []
    rollouts = toy_envs.rollouts(policy, toy_envs.BANDIT, 23, tasks=3)
    rollouts.progress = told.append
    sizes = []
    while rollouts.remaining >= 4:
        sizes.append([{each.task_id for each in group} for group in rollouts.groups(2, 4)])
    names = [f"bandit/train/{n}" for n in (0, 1, 2, 0, 1)]
    assert [task for group in sizes for (task,) in group] == names
    assert rollouts.remaining == 3 and len(rollouts.episodes) == 20 == len(told)
    assert len({each.id for each in rollouts.episodes}) == 20 == len({seed for *_, seed in starts})
    assert rollouts.groups(2, 4) == [] and rollouts.remaining == 3


def test_the_seed_alone_decides(toy_envs: Any, policy: Any) -> None:
    """Not the slots, nor in how many calls the groups are asked for."""
    whole = toy_envs.rollouts(policy, toy_envs.CHAIN, 16, seed=5).groups(4, 4)
    narrow = toy_envs.rollouts(policy, toy_envs.CHAIN, 16, seed=5)
    narrow.play_config = replace(narrow.play_config, slots=3)
    parts = narrow.groups(1, 4) + narrow.groups(3, 4)
    said = [[[s.reply for s in each.steps] for group in run for each in group] for run in (whole, parts)]
    assert said[0] == said[1]
    other = [
        [s.reply for s in e.steps]
        for g in toy_envs.rollouts(policy, toy_envs.CHAIN, 16, seed=6).groups(4, 4)
        for e in g
    ]
    assert other != said[0]


def test_episodes_go_on_from_forks(toy_envs: Any, policy: Any, starts: list[tuple[str, bytes, int]]) -> None:
    """Each continuation begins in its fork's state, byte by byte, and draws for itself; the budget counts them."""
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 20)
    expert = Collector(ExpertAgent()).collect(rollouts.tasks[0])
    found = snapshots_at(expert, [1, 3])
    branches = rollouts.continue_from([rollouts.tasks[0]] * 2, found, 3)
    assert [[len([s for s in e.steps if not s.trained]) for e in branch] for branch in branches] == [[1] * 3, [3] * 3]
    assert [bytes_ for _, bytes_, _ in starts] == [found[0].snapshot] * 3 + [found[1].snapshot] * 3
    assert len({seed for *_, seed in starts}) == 6 and len({e.id for e in rollouts.episodes}) == 6
    assert rollouts.remaining == 14
    for fork, branch in zip(found, branches, strict=True):
        for each in branch:
            assert [s.reply for s in each.steps[: len(fork.steps)]] == [s.reply for s in fork.steps]
            assert each.reward == pytest.approx(sum(step.reward for step in each.steps))


@pytest.mark.parametrize("world", ["ToyChain-v0", "shop"])
def test_a_trees_branches_start_in_the_midst_of_its_tries(
    toy_envs: Any, tiny_policy: Any, starts: list[tuple[str, bytes, int]], world: str
) -> None:
    """All of a branch in one state of one of its task's tries, byte by byte; no two draw alike, whole trees only."""
    rollouts = toy_envs.rollouts(tiny_policy, EnvSpec(world, {"max_steps": 4}), 20, tokens=2)
    groups = rollouts.branching_groups(5, 3, 2)
    assert (
        [len(group) for group in groups] == [3] * 6
        and rollouts.remaining == 2
        and rollouts.branching_groups(5, 3, 2) == []
    )
    trunks, branches, depths = groups[:2], groups[2:], set[int]()
    assert [group[0].task_id for group in branches] == [trunk[0].task_id for trunk in trunks for _ in range(2)]
    met = [starts[6 + 3 * n : 9 + 3 * n] for n in range(4)]
    for number, (branch, begun) in enumerate(zip(branches, met, strict=True)):
        done = [sum(not step.trained for step in each.steps) for each in branch]
        assert len(set(done)) == 1 and done[0] > 0 and [step.trained for step in branch[0].steps[: done[0]]].count(0)
        before = [step.reply for step in branch[0].steps[: done[0]]]
        tries = [t for t in trunks[number // 2] if [s.reply for s in t.steps[: done[0]]] == before]
        assert len(tries) > 0 and len(tries[0].steps) > done[0]
        assert [bytes_ for _, bytes_, _ in begun] == [snapshots_at(tries[0], done[:1])[0].snapshot] * 3
        depths.add(done[0])
    assert len({seed for *_, seed in starts}) == 18 == len({each.id for each in rollouts.episodes})
    assert len(depths) > 1 and {len({bytes_ for _, bytes_, _ in starts[:6]})} == {2}


def test_branches_keep_the_worlds_rewards_and_skip_what_has_no_midst(
    toy_envs: Any, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scorer's scores stand in what is learnt from alone; episodes of one step are no trees."""
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 12)
    rollouts.scorer = lambda played: [7.0] * len(played)
    groups = rollouts.branching_groups(2, 2, 2)
    assert all(each.reward == 7.0 for group in groups for each in group) and len(rollouts.episodes) == 12
    assert all(step.reward < 1 and step.reward for each in rollouts.episodes for step in each.steps)
    alone = toy_envs.rollouts(policy, toy_envs.BANDIT, 12)
    assert [len(group) for group in alone.branching_groups(2, 2, 2)] == [2, 2] and alone.remaining == 8


def test_states_at_which_a_world_fails_are_no_branches(
    toy_envs: Any, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are drawn in their place while there are some; it ends no training, but is warned of.

    A world that fails again and again is not asked at every state.
    """
    calls = list[int]()

    def fails(tried: Any, at: Any, *given: Any) -> Any:
        calls.append(1)
        if len(calls) % 3 != 0:
            raise TimeoutError("no world")
        return snapshots_at(tried, at, *given)

    monkeypatch.setattr("agentgym_py.collection.branching.snapshots_at", fails)
    with pytest.warns(UserWarning, match="a world failed while a state was rebuilt: TimeoutError: no world"):
        groups = toy_envs.rollouts(policy, toy_envs.CHAIN, 12).branching_groups(2, 2, 2)
    assert [len(group) for group in groups] == [2] * 6 and len(calls) == 12
    calls.clear()

    def gone(*given: Any) -> Any:
        calls.append(1)
        raise OSError("none")

    monkeypatch.setattr("agentgym_py.collection.branching.snapshots_at", gone)
    assert [len(group) for group in toy_envs.rollouts(policy, toy_envs.CHAIN, 12).branching_groups(2, 2, 2)] == [2, 2]
    assert len(calls) == 2 * 3


def test_weights_that_changed_need_a_sync(toy_envs: Any) -> None:
    """Else nobody plays; then the new weights play, and are in the provenance."""
    policy = toy_envs.word_policy()
    rollouts = toy_envs.rollouts(policy, toy_envs.BANDIT, 8)
    ((before,),) = rollouts.groups(1, 1)
    with torch.no_grad():
        policy.model.model.norm.weight += 0.1
    with pytest.raises(PolicyError, match="changed since"):
        rollouts.groups(1, 1)
    rollouts.sync()
    ((after,),) = rollouts.groups(1, 1)
    assert after.provenance.policy_digest == policy.digest() != before.provenance.policy_digest
    assert rollouts.version == 1


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"top_p": 0.9}, {"top_k": 5}])
def test_only_whole_distributions_are_learnt_from(toy_envs: Any, policy: Any, wrong: dict[str, float]) -> None:
    """Greedy and truncated replies have other probabilities than the learner gives them."""
    assert toy_envs.rollouts(policy, toy_envs.BANDIT, 1, temperature=0.7).temperature == 0.7
    with pytest.raises(ConfigError, match="whole distribution"):
        _ = toy_envs.rollouts(policy, toy_envs.BANDIT, 1, **wrong).temperature


def test_a_world_that_does_not_begin_is_its_groups_failure_alone(
    toy_envs: Any, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in any collection; the other groups are played."""
    begin = toy_envs.Chain.begin

    for error in (TimeoutError("it hangs"), InfrastructureError("no server")):

        def fails(self: Any, task: Any, error: Exception = error) -> str:
            if task.id.endswith("/1"):
                raise error
            return str(begin(self, task))

        monkeypatch.setattr(toy_envs.Chain, "begin", fails)
        groups = toy_envs.rollouts(policy, toy_envs.CHAIN, 6).groups(3, 2)
        assert [[each.error is None for each in group] for group in groups] == [[True] * 2, [False] * 2, [True] * 2]
        assert all(str(each.error).startswith(repr(error)) for each in groups[1])


def test_tries_that_begin_by_themselves_begin_alike(
    toy_envs: Any, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when an env fails once at its start: the group is complete, or an error says that it is none."""
    begin, begun = toy_envs.Chain.begin, list[str]()

    def fails_once(self: Any, task: Any, alike: bool) -> str:
        begun.append(task.id)
        if len(begun) == 1:
            raise TimeoutError("it hangs")
        return f"{begin(self, task)} {'' if alike else len(begun)}"

    monkeypatch.setattr(toy_envs.Chain, "begin", partialmethod(fails_once, alike=True))
    (group,) = toy_envs.rollouts(policy, toy_envs.CHAIN, 2).groups(1, 2)
    assert [each.error for each in group] == [None, None] and len(begun) == 3
    begun.clear()
    monkeypatch.setattr(toy_envs.Chain, "begin", partialmethod(fails_once, alike=False))
    with pytest.raises(SnapshotError, match="two attempts at 0 did not start alike"):
        toy_envs.rollouts(policy, toy_envs.CHAIN, 2).groups(1, 2)


def test_states_are_found_again_in_the_world_of_the_job(toy_envs: Any, policy: Any, worlds_made: list[EnvSpec]) -> None:
    """Not in the one that the trajectory names: what a server runs is found on the server."""
    toy_envs.rollouts(policy, EnvSpec("toychain", {"max_steps": 5}), 12).branching_groups(2, 2, 2)
    assert {spec.name for spec in worlds_made} == {"toychain"}
