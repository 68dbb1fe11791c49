from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest

from agentgym_py.agents import AgentReply, Episode, ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, Job, PlayConfig
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ExpertError, SnapshotError
from agentgym_py.rewards.state_values import (
    CHANGED,
    DISCOUNT,
    FAILED,
    NO_PLAN,
    Value,
    exact_value,
    exact_values,
    exact_values_of_all,
    monte_carlo,
    outcome_values,
    replayable,
    values_from_marks,
)
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory

WORLDS = [EnvSpec("shop"), EnvSpec("household"), EnvSpec("maze", {"difficulty": "easy"}), EnvSpec("todo")]


class Coin:
    """Goes right with a known chance, else left."""

    name = "coin"
    policy_digest: str | None = None

    def __init__(self, right: float) -> None:
        self.right = right
        self.sampling: dict[str, Any] = {}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """A throw an episode."""
        throws = [Rng(episode.seed, len(episode.steps)).uniform() for episode in episodes]
        return [AgentReply("right" if throw < self.right else "left") for throw in throws]


# ---- exact --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", WORLDS, ids=lambda spec: spec.name)
def test_along_an_experts_episode_each_state_is_one_step_nearer(spec: EnvSpec) -> None:
    """0.9 to the power of the steps that are left, 1 at the end."""
    whole = Collector(ExpertAgent(thoughts=False)).collect(Job(spec, 1))
    last = len(whole.steps)
    assert exact_values(whole, 0.9) == pytest.approx([0.9 ** (last - i) for i in range(last + 1)])
    assert exact_values(whole) == [1.0] * (last + 1)


@pytest.mark.parametrize("spec", WORLDS[1:3], ids=lambda spec: spec.name)
def test_no_step_gains_more_than_a_step(spec: EnvSpec) -> None:
    """Where plans are shortest, a state is worth at least the discount times what any step leads to."""
    values = []
    for task in range(8):
        found = exact_values(Collector(RandomAgent()).collect(Job(spec, task)), 0.9)
        assert all(after <= before / 0.9 + 1e-12 for before, after in pairwise(found))
        values += found
    assert len(set(values)) > 5, "else it is no test"


def test_what_cannot_succeed_any_more_is_worth_nothing() -> None:
    """A wrong purchase, and too few steps for the plan; until then it is worth something."""
    bought = Collector(RandomAgent()).collect_batch([Job(WORLDS[0], task) for task in range(30)])
    wrong = [exact_values(each, 0.9) for each in bought if each.terminated and not each.success]
    assert wrong and all(values[-1] == 0 for values in wrong) and any(values[-2] > 0 for values in wrong)
    whole = Collector(ExpertAgent(thoughts=False)).collect(Job(WORLDS[0], 1))
    needed = len(whole.steps)
    for most, worth in ((needed, 0.9**needed), (needed - 1, 0.0)):
        env = EnvSpec("shop", {"max_steps": most}).make()
        env.reset(options={"task": whole.task_id})
        assert exact_value(env, 0.9) == pytest.approx(worth)


def test_a_live_world_is_left_as_it_was() -> None:
    """To the byte, before, during and after an episode."""
    env = WORLDS[0].make()
    env.reset(seed=3, options={"task": 1})
    while True:
        before = env.snapshot()
        exact_value(env)
        assert env.snapshot() == before
        if env.stop_reason:
            break
        env.step(env.expert()[0])
    assert exact_value(env, 0.5) == 1.0


def test_a_world_that_shows_something_else_is_refused() -> None:
    """On the way, and at the end; worlds go back to the pool."""
    whole = Collector(RandomAgent()).collect(Job(WORLDS[0], 1))
    with pytest.raises(SnapshotError, match="its last observation differs on replay"):
        exact_values(replace(whole, final_observation="Thanks."))
    steps = (whole.steps[0], replace(whole.steps[1], observation="A page."), *whole.steps[2:])
    with pytest.raises(SnapshotError, match="the observation of step 2 differs on replay"):
        exact_values(replace(whole, steps=steps))
    pool = EnvPool()
    assert exact_values(whole, 0.9, pool) == exact_values(whole, 0.9, pool) and len(pool._owned) == 1
    pool.close()


def test_values_have_one_discount() -> None:
    """The viewer, the report, and the defaults of process rewards and of the potential; the viewer's texts say it."""
    from agentgym_py import registry
    from agentgym_py.rewards.potential import Potential

    root = Path(__file__).parents[2]
    assert registry.load("agentgym.trainers", "process_reward")().discount == Potential().discount == DISCOUNT
    for text in ("agentgym_py/viewer/static/viewer.js", "docs/guides/viewer.md"):
        assert f"{DISCOUNT} to the power of the steps" in (root / text).read_text(encoding="utf-8")


@pytest.mark.parametrize("error", [NotImplementedError("no expert here"), SnapshotError("it lost its way")])
def test_an_expert_that_fails_is_said_to_have_failed(
    toy_envs: Any, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    """Trajectory by trajectory, whatever it raises, and not that the world has changed; who asks none is spared."""
    played = Collector(Coin(0.5)).collect_batch([Job(toy_envs.CHAIN, task) for task in range(3)])
    changed = replace(played[2], final_observation="?")
    world, failed = type(toy_envs.CHAIN.make()), list[bool]()
    expert = world.expert

    def fails_once(env: Any) -> Any:
        if not failed:
            failed.append(True)
            raise error
        return expert(env)

    whole = exact_values(played[1])
    monkeypatch.setattr(world, "expert", fails_once)
    assert exact_values_of_all([*played[:2], changed]) == ([None, whole, None], {NO_PLAN: 1, CHANGED: 1})
    failed.clear()
    with pytest.raises(ExpertError, match=f"expert gave no plan: {type(error).__name__}"):
        exact_values(played[0])
    failed.clear()
    assert replayable([*played[:2], changed]) == ([True, True, False], {CHANGED: 1}) and not failed


def test_a_world_that_fails_has_no_values(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trajectory by trajectory, whatever a stranger's world raises: it ends nothing, and is said."""
    played = Collector(Coin(0.5)).collect_batch([Job(toy_envs.CHAIN, task) for task in range(3)])
    whole, world = exact_values(played[0]), type(toy_envs.CHAIN.make())
    begin = world.begin

    def fails(env: Any, task: Any) -> str:
        if task.id == played[1].task_id:
            raise TimeoutError("no world")
        return str(begin(env, task))

    monkeypatch.setattr(world, "begin", fails)
    with pytest.warns(UserWarning, match=r"a world failed while a state was rebuilt: TimeoutError: no world"):
        found, without = exact_values_of_all(played)
    assert found[0] == whole and found[1] is None and found[2] is not None and without == {FAILED: 1}
    assert replayable(played) == ([True, False, True], {FAILED: 1})
    asked = list[int]()

    def play(jobs: Any) -> Any:
        asked.append(len(jobs))
        return Collector(Coin(0.5)).collect_batch(jobs)

    first, second, third = monte_carlo(played, play, attempts=2, states=2)
    assert asked == [8] and all(value is None for value in second[:-1])
    assert all(sum(value is not None for value in each[:-1]) == 2 for each in (first, third))


# ---- by continuations ---------------------------------------------------------------------------------------------


def reached(at: int, left: int, right: float, discount: float) -> float:
    """The chain's value of place `at` with `left` steps for who goes right with that chance, by recursion."""
    if at == 5:
        return 1.0
    if not left:
        return 0.0
    on, back = reached(at + 1, left - 1, right, discount), reached(max(at - 1, 0), left - 1, right, discount)
    return discount * (right * on + (1 - right) * back)


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_continuations_estimate_the_policys_value_without_bias(toy_envs: Any, discount: float) -> None:
    """Within 4 standard errors of the known value at every state, and the errors are as large as they say."""
    collector = Collector(Coin(0.6), PlayConfig(seed=1, slots=512))
    whole = next(e for k in range(9) if not (e := collector.collect(Job(toy_envs.CHAIN, 0, attempt=k))).success)
    (found,) = monte_carlo([whole], collector.collect_batch, attempts=400, discount=discount)
    at = [int(step.observation) for step in whole.steps]
    known = [reached(place, 12 - i, 0.6, discount) for i, place in enumerate(at)]
    for value, expected in zip(found, known, strict=False):
        assert value is not None and value.attempts == 400
        assert abs(value.mean - expected) <= 4 * max(value.stderr, 1e-9)
    assert any(0.05 < value.mean < 0.95 for value in found if value), "else it is no test"
    assert found[-1] == Value(0.0, 0.0, 0)
    begun = replace(whole, steps=whole.steps[:1])  # where chance has most to say
    again = [
        monte_carlo([begun], collector.collect_batch, attempts=10, first_attempt=1000 + 10 * k, discount=discount)
        for k in range(60)
    ]
    small, state = [value for ((value, _),) in again if value], 0
    assert len(small) == 60 and 0.1 < known[state] < 0.9 and abs(fmean(v.mean for v in small) - known[state]) < 0.1
    assert pstdev([v.mean for v in small]) == pytest.approx(fmean(v.stderr for v in small), rel=0.35, abs=0.02)


def test_all_states_of_all_episodes_are_one_batch_within_the_budget(toy_envs: Any) -> None:
    """`states` of each, `tries` times, from that state; fresh tries differ, the same are the same."""
    collector, asked = Collector(Coin(0.5), PlayConfig(seed=2)), list[list[Job]]()

    def play(jobs: Sequence[Job]) -> list[Trajectory]:
        asked.append(list(jobs))
        return collector.collect_batch(jobs)

    played = collector.collect_batch([Job(toy_envs.CHAIN, task) for task in range(3)])
    found = monte_carlo(played, play, attempts=5, states=2)
    assert len(asked) == 1 and len(asked[0]) == 3 * 2 * 5
    assert [sum(value is not None for value in values) for values in found] == [3, 3, 3]
    for job in asked[0]:
        assert job.start is not None and job.task in {each.task_id for each in played}
        (source,) = (each for each in played if each.task_id == job.task)
        assert job.start.steps == source.steps[: len(job.start.steps)]
    assert monte_carlo(played, play, attempts=5, states=2) == found
    assert monte_carlo(played, play, attempts=5, states=2, first_attempt=5) != found
    assert len({job.attempt for job in asked[-1]} | {job.attempt for job in asked[0]}) == 10


def test_returns_are_valued_too(toy_envs: Any) -> None:
    """What is still to come, discounted: for who always goes right a sum that can be written down."""
    collector = Collector(Coin(1.0))
    whole = collector.collect(Job(toy_envs.CHAIN, 0))
    (found,) = monte_carlo([whole], collector.collect_batch, attempts=2, target="return", discount=0.9)
    left = [sum(-0.05 * 0.9**k for k in range(n)) + 0.9 ** (n - 1) for n in (5, 4, 3, 2, 1)]
    assert [value and value.mean for value in found] == pytest.approx([*left, 0.0])
    assert all(value and value.stderr == 0 for value in found)


def test_continuations_that_fail_by_infrastructure_do_not_count(toy_envs: Any) -> None:
    """A mean is of the others; where all failed nothing is known."""
    collector = Collector(Coin(1.0))
    whole = collector.collect(Job(toy_envs.CHAIN, 0))

    def play(jobs: Sequence[Job]) -> list[Trajectory]:
        lost = [job.attempt or not (job.start and job.start.steps) for job in jobs]
        played = collector.collect_batch(jobs)
        return [replace(e, error="lost") if gone else e for gone, e in zip(lost, played, strict=True)]

    (found,) = monte_carlo([whole], play, attempts=2)
    assert found == [None, *[Value(1.0, math.nan, 1)] * 4, Value(1.0, 0.0, 0)], "one try says nothing of chance"


def test_tries_that_all_came_to_the_same_leave_an_error(toy_envs: Any) -> None:
    """None of eight, or all, is no certainty: Agresti and Coull's error, of one more try that half succeeds."""
    collector = Collector(Coin(0.0))
    (found,) = monte_carlo([collector.collect(Job(toy_envs.CHAIN, 0))], collector.collect_batch, attempts=8)
    share = 0.5 / 9
    expected = (share * (1 - share) / 9) ** 0.5
    assert all(value and value.mean == 0 and value.stderr == pytest.approx(expected) for value in found[:-1])
    collector = Collector(Coin(1.0))
    (sure,) = monte_carlo([collector.collect(Job(toy_envs.CHAIN, 0))], collector.collect_batch, attempts=8)
    assert all(value and value.mean == 1 and value.stderr == pytest.approx(expected) for value in sure[:-1])


# ---- what came of it, and what a judge says -----------------------------------------------------------------------


def test_an_outcome_is_traced_back(episode: Any) -> None:
    """To each state before it, less for each step that it is away; a failure is worth nothing anywhere."""
    assert outcome_values(episode("a", "b"), 0.5) == [0.25, 0.5, 1.0]
    assert outcome_values(episode("a", "b", success=False), 0.5) == [0.0, 0.0, 0.0]


def test_a_judges_marks_are_of_what_a_step_led_to(episode: Any) -> None:
    """Each step is shown once; the first state has no mark."""
    assert values_from_marks(episode("a", "b"), lambda t, i: len(t.steps[i].reply) / 100 + i) == [None, 0.21, 1.21]
