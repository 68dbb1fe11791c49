from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentgym_py.agents import Agent, ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, Job, PlayConfig, jobs_for
from agentgym_py.collection.branching import branch_jobs, collect_with_branches, snapshots_at
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.job import StateSnapshot
from agentgym_py.collection.processes import Workers
from agentgym_py.collection.replay import replay_all
from agentgym_py.env import EnvSpec
from agentgym_py.errors import InfrastructureError, SnapshotError
from agentgym_py.trajectory import Trajectory

WORLDS = [EnvSpec("shop"), EnvSpec("household"), EnvSpec("maze", {"difficulty": "easy"}), EnvSpec("todo")]


def episode(spec: EnvSpec, agent: Agent | None = None, task: int = 1) -> Trajectory:
    """One by the expert, or by who is asked for."""
    return Collector(agent or ExpertAgent(), PlayConfig(seed=3)).collect(Job(spec, task))


@pytest.mark.parametrize("spec", WORLDS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("agent", [ExpertAgent(), RandomAgent()], ids=["expert", "random"])
def test_from_each_step_an_episode_goes_on_exactly(spec: EnvSpec, agent: Agent) -> None:
    """Who replies the same from a fork sees, gets and ends the same; a fork's bytes are those of the live world."""
    whole = episode(spec, agent)
    count = min(len(whole.steps), 12)
    found = snapshots_at(whole, range(count))
    live, other = spec.make(), spec.make()
    live.reset(seed=whole.provenance.env_seed, options={"task": whole.task_id})
    for number, fork in enumerate(found):
        assert fork.snapshot == live.snapshot() and fork.steps == whole.steps[:number]
        assert (fork.rules, fork.env_seed) == (whole.rules, whole.provenance.env_seed)
        assert fork.observation == whole.steps[number].observation
        other.restore(fork.snapshot)
        for step, after in zip(whole.steps[number:], [*whole.steps[number + 1 :], None], strict=True):
            observation, reward, terminated, truncated, info = other.step(step.reply)
            assert observation == (after.observation if after else whole.final_observation)
            assert (reward, info["valid_action"]) == (step.reward, step.valid)
        assert (terminated, truncated, info["success"]) == (whole.terminated, whole.truncated, whole.success)
        live.step(whole.steps[number].reply)


def test_a_collector_goes_on_from_a_fork() -> None:
    """The prefix stands in the new trajectory and is not learnt; the whole can be replayed, and forked again."""
    whole = episode(WORLDS[0])
    (fork,) = snapshots_at(whole, [1])
    went = Collector(ExpertAgent(), PlayConfig(seed=9)).collect(Job(WORLDS[0], whole.task_id, start=fork))
    assert [replace(step, trained=True) for step in went.steps] == list(whole.steps)
    assert [step.trained for step in went.steps] == [False] + [True] * (len(whole.steps) - 1)
    assert (went.reward, went.success, went.final_observation) == (whole.reward, True, whole.final_observation)
    assert went.provenance.env_seed == whole.provenance.env_seed and went.id == f"{whole.task_id}#0+1"
    assert [each.holds for each in replay_all([went])] == [True]
    assert snapshots_at(went, [1])[0].snapshot == fork.snapshot


@pytest.mark.parametrize(
    ("play", "note"),
    [
        (PlayConfig(prompt="full"), None),
        (PlayConfig(prompt_template="Shop.\n{rules}"), None),
        (PlayConfig(), "Lesson: be fast."),
    ],
    ids=["prompt", "template", "note"],
)
def test_a_branch_has_the_opening_of_its_trunk(play: PlayConfig, note: str | None) -> None:
    """It records it, so that its replay holds, whatever its own settings are."""
    trunk = Collector(ExpertAgent(), play).collect(Job(WORLDS[0], 1, note=note))
    (state,) = snapshots_at(trunk, [1])
    branch = Collector(ExpertAgent()).collect(Job(WORLDS[0], 1, attempt=1, start=state, note="Another."))
    assert branch.rules == trunk.rules
    assert [result.difference for result in replay_all([trunk, branch])] == [None, None]


def test_a_state_of_another_task_is_refused() -> None:
    """Its episode would have the task of the state, and the name of another."""
    (state,) = snapshots_at(episode(WORLDS[0], task=3), [1])
    with pytest.raises(SnapshotError, match=r"is to play shop/train/\S*7\S*, but its start is a state of shop/train/"):
        Collector(ExpertAgent()).collect(Job(WORLDS[0], 7, start=state))


def test_what_is_no_step_or_not_that_world_is_refused() -> None:
    """A step that is not there, and a trajectory that shows something else than its world."""
    whole = episode(WORLDS[0])
    for at in (-1, len(whole.steps)):
        with pytest.raises(SnapshotError, match=f"no state before \\[{at}\\]"):
            snapshots_at(whole, [at])
    changed = replace(whole, steps=(whole.steps[0], replace(whole.steps[1], observation="A page."), *whole.steps[2:]))
    assert len(snapshots_at(changed, [0])) == 1, "what is not looked at is not compared"
    with pytest.raises(SnapshotError, match="the observation of step 2 differs on replay"):
        snapshots_at(changed, [1])


def test_worlds_come_from_a_pool_and_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """One world serves many trajectories; without a pool it is closed."""
    made: list[Any] = []
    make = EnvSpec.make

    def noted(self: EnvSpec) -> Any:
        made.append(make(self))
        return made[-1]

    monkeypatch.setattr(EnvSpec, "make", noted)
    whole = episode(WORLDS[0])
    made.clear()
    pool = EnvPool()
    assert snapshots_at(whole, [2, 0, 2], pool) == snapshots_at(whole, [0, 2], pool) and len(made) == 1
    pool.close()
    closed: list[int] = []
    monkeypatch.setattr(type(made[0]), "close", lambda self: closed.append(id(self)))
    assert snapshots_at(whole, []) == [] and closed == [id(made[-1])]
    closed.clear()
    pool = EnvPool()
    monkeypatch.setattr(type(made[0]), "step", lambda self, action: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        snapshots_at(whole, [2], pool)
    assert closed == [id(made[-1])], "one that raised is nobody's any more"


@pytest.mark.parametrize("slots", [1, 64])
def test_episodes_go_on_from_states_in_the_midst_of_others(slots: int) -> None:
    """All of a group from one state, byte by byte; no two have a name or a seed in common; slots change nothing."""
    jobs = jobs_for(WORLDS[1:3], "train", range(2), 2)
    families = list(
        collect_with_branches(Collector(RandomAgent(), PlayConfig(slots=slots, seed=3)), jobs, 2, 3, first_attempt=2)
    )
    assert [family[0] for family in families] == Collector(RandomAgent(), PlayConfig(seed=3)).collect_batch(jobs)
    every = [each for family in families for each in family]
    assert len({each.id for each in every}) == len({each.provenance.seed for each in every}) == 8 * (1 + 2 * 3)
    for trunk, *others in families:
        depths = []
        for group in (others[:3], others[3:]):
            done = {sum(not step.trained for step in each.steps) for each in group}
            (depth,) = done
            (state,) = snapshots_at(trunk, [depth])
            assert depth and all(
                each.steps[depth:] and snapshots_at(each, [depth])[0].snapshot == state.snapshot for each in group
            )
            assert len({tuple(step.reply for step in each.steps) for each in group}) > 1
            depths.append(depth)
        assert depths[0] != depths[1]
    assert len({sum(not step.trained for step in each.steps) for each in every}) > 4, "each has states of its own"


def test_branches_in_a_worker_process_are_those_of_this_process() -> None:
    """Also with more jobs than one part holds: no part reads messages of the one before."""
    jobs, alone = jobs_for("maze", "train", range(6)), PlayConfig(slots=1, seed=3)
    with Workers(1) as workers:
        families, expected = (
            list(collect_with_branches(Collector(RandomAgent(), play), jobs, 1, 2, first_attempt=1))
            for play in (replace(alone, executor=workers, step_timeout=60.0), alone)
        )
        assert len(workers._running) == 1
    assert families == expected


def test_an_episode_has_as_many_forks_as_states() -> None:
    """Beside its start; one that failed by infrastructure has none. What is drawn depends on the seed."""
    whole, jobs = episode(WORLDS[0]), [Job(WORLDS[0], 1)]
    last = len(whole.steps) - 1
    short = replace(whole, steps=whole.steps[:2])

    def depths(played: Trajectory, states: int, seed: int = 0) -> list[int]:
        (found,) = branch_jobs(jobs, [played], states, 2, seed=seed, first_attempt=1)
        assert [job.attempt for job in found] == list(range(1, 1 + len(found)))
        return [len(job.start.steps) for job in found[::2] if job.start]

    assert sorted(depths(whole, 99)) == list(range(1, last + 1)) and depths(short, 3) == [1]
    assert depths(replace(whole, error="gone"), 3) == depths(whole, 0) == []
    assert len({tuple(depths(whole, 1, seed)) for seed in range(9)}) > 1


def test_an_episode_whose_states_are_not_found_again_ends_a_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store holds as many continuations as were asked for, or is none: a world that fails at a state is an error."""
    whole = episode(WORLDS[0])

    def fails(tried: Trajectory, at: list[int], *given: object) -> list[StateSnapshot]:
        if at == [1]:
            raise OSError("no world")
        return snapshots_at(tried, at)

    monkeypatch.setattr("agentgym_py.collection.branching.snapshots_at", fails)
    states = len(whole.steps) - 1
    with (
        pytest.warns(UserWarning, match="OSError: no world"),
        pytest.raises(InfrastructureError, match="fails while its states are rebuilt"),
    ):
        branch_jobs([Job(WORLDS[0], 1)], [whole], states, 2, seed=0, first_attempt=1)
