"""First faults: by an expert's plans against a slow reference, and by forks at their level."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym_py as ag
from agentgym_py.agents import AgentReply, Episode, ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, Job, jobs_for
from agentgym_py.env import EnvSpec, StopReason, TextEnv
from agentgym_py.errors import ConfigError
from agentgym_py.evaluation.first_fault import (
    DEAD_END,
    DETOUR,
    FAULTS,
    GAVE_UP,
    LOWER_CHANCE,
    NO_FALL,
    TOO_FEW_FORKS,
    TOO_FEW_STEPS,
    UNSOLVED,
    WASTED_STEP,
    WRONG_END,
    Fault,
    fault_notes,
    fault_of_values,
    fault_rows,
    find_first_fault,
    first_faults,
    first_faults_by_forks,
    tool_label,
)
from agentgym_py.evaluation.stats import fisher_greater
from agentgym_py.rewards.state_values import CHANGED, DISCOUNT, FAILED, NO_PLAN, Value, estimate, exact_values
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory

EASY_MAZE = EnvSpec("maze", {"difficulty": "easy"})


class Script:
    """Says its lines, and then gives up; `right` is the chance to go right where the line is a question mark."""

    name, policy_digest = "script", None

    def __init__(self, *lines: str, right: float = 0.5) -> None:
        self.lines, self.right, self.sampling = lines, right, dict[str, object]()

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """The line of the episode's step."""
        return [self._line(episode) for episode in episodes]

    def _line(self, episode: Episode) -> AgentReply | None:
        number = len(episode.steps)
        if number >= len(self.lines):
            return None
        throw = Rng(episode.seed, number).uniform() < self.right
        return AgentReply(self.lines[number].replace("?", "right" if throw else "left"))


def played(agent: Any, spec: EnvSpec, task: int = 0) -> Trajectory:
    """One episode."""
    return Collector(agent).collect(Job(spec, task))


# ---- by an expert ---------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(moves=st.lists(st.booleans(), max_size=12), min_regret=st.integers(1, 3), most=st.integers(3, 12))
def test_the_fault_of_a_walk_is_that_of_the_definition(
    toy_envs: Any, moves: list[bool], min_regret: int, most: int
) -> None:
    """In a chain, where five steps right are the goal and costs can be counted on the fingers."""
    spec = EnvSpec("ToyChain-v0", {"max_steps": most})
    walk = played(Script(*("right" if right else "left" for right in moves)), spec)
    expected, at = None, 0
    for number, right in enumerate(moves[: len(walk.steps)], 1):
        before, at = at, at + 1 if right else max(at - 1, 0)
        if most < 5 or at == 5:
            break
        possible, regret = 5 - at <= most - number, 1 + before - at
        if not possible or regret >= min_regret:
            expected = number, TOO_FEW_STEPS if not possible else DETOUR if regret > 1 else WASTED_STEP
            break
    found = find_first_fault(walk, min_regret=min_regret)
    assert (found and (found.step, found.kind)) == expected


def test_the_fault_is_that_of_a_search_of_all_ways() -> None:
    """In the maze: distances by a breadth-first search over forks, which asks no expert."""
    found = 0
    for task in range(4):
        walk = played(RandomAgent(), EASY_MAZE, task)
        env = walk.env_spec().make()
        env.reset(seed=walk.provenance.env_seed, options={"task": walk.task_id})
        distances = [distance(env)]
        for step in walk.steps[:8]:
            env.step(step.reply)
            distances.append(distance(env))
        falls = [n for n, (a, b) in enumerate(pairwise(distances), 1) if b is None or (a is not None and b > a)]
        fault = find_first_fault(walk)
        if falls:
            assert fault and fault.step == falls[0]
            found += 1
        else:
            assert fault is None or fault.step > 8
    assert found >= 2, "else it is no test"


def distance(env: TextEnv) -> int | None:
    """Steps to success by breadth-first search; None if it is out of reach."""
    if env.stop_reason:
        return 0 if env.succeeded else None
    start = env.snapshot()
    seen, waiting = {essence(env)}, deque([(start, 0)])
    try:
        while waiting:
            state, steps = waiting.popleft()
            env.restore(state)
            for action in env.actions() or ():
                env.restore(state)
                env.step(action)
                if env.stop_reason and env.succeeded:
                    return steps + 1
                if not env.stop_reason and essence(env) not in seen:
                    seen.add(essence(env))
                    waiting.append((env.snapshot(), steps + 1))
        return None
    finally:
        env.restore(start)


def essence(env: TextEnv) -> str:
    """The state without the count of steps."""
    return repr(sorted(env.state().items()))


@pytest.mark.parametrize("spec", [EnvSpec("shop"), EnvSpec("household"), EASY_MAZE], ids=lambda spec: spec.name)
def test_the_fault_is_where_the_exact_value_first_falls(spec: EnvSpec) -> None:
    """The curve of the viewer and the report's mark say the same; experts have none."""
    for task in range(3):
        lost = played(RandomAgent(), spec, task)
        values = exact_values(lost, DISCOUNT)
        falls = [n for n, (before, after) in enumerate(pairwise(values), 1) if after < before - 1e-9]
        fault = find_first_fault(lost)
        assert fault is not None and fault.step == falls[0]
        assert (fault.before, fault.after) == pytest.approx((values[fault.step - 1], values[fault.step]))
        assert find_first_fault(played(ExpertAgent(), spec, task)) is None


def test_an_answer_at_once_is_a_wrong_end() -> None:
    """With what the expert would have done, and the tool that was called."""
    rash = played(Script("finish[0.123456]"), EnvSpec("calculator", {"difficulty": "easy"}))
    fault = find_first_fault(rash)
    assert fault is not None and (fault.step, fault.kind, fault.tool, fault.after) == (1, WRONG_END, "finish", 0.0)
    assert fault.better and fault.better.startswith("calculate[") and fault.regret is None
    assert str(fault) == f"step 1, finish[0.123456]; the expert: {fault.better}" and fault.wasted is None


def test_a_state_without_a_way_out_is_a_dead_end(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The expert has no plan there, although steps are left."""
    world = type(toy_envs.CHAIN.make())
    monkeypatch.setattr(
        world, "expert", lambda env: [] if env.at == 2 else ["right", "right", "right", "right", "right"]
    )
    fault = find_first_fault(played(Script("right", "left", "east", "east"), toy_envs.CHAIN), min_regret=3)
    assert fault is not None and (fault.step, fault.kind) == (4, DEAD_END)


def test_an_expert_that_plans_better_later_is_asked_again(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first plan has a way round; what a step costs is measured by the plan that it has before that step."""
    world = type(toy_envs.CHAIN.make())
    straight = world.expert
    monkeypatch.setattr(world, "expert", lambda env: straight(env) if env.steps else ["right", "left", *["right"] * 5])
    fault = find_first_fault(played(Script("right", "west"), toy_envs.CHAIN))
    assert fault is not None and (fault.step, fault.kind, fault.regret) == (2, DETOUR, 2)


def test_exploration_is_no_fault_of_the_fair_expert() -> None:
    """Along its own episodes it has none; the exact expert, who knows the maze, finds some."""
    walks = [played(ExpertAgent(fair=True), EnvSpec("maze"), task) for task in range(4)]
    assert [find_first_fault(walk, "fair") for walk in walks] == [None] * 4
    assert any(find_first_fault(walk, "exact") for walk in walks)
    lost = played(RandomAgent(), EnvSpec("maze"))
    fault = find_first_fault(lost, "fair")
    assert fault is not None and first_faults([lost], by="fair").by == "the fair expert"


def test_failures_without_a_fault_have_a_reason(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Successes and infrastructure failures are left out; whatever a world raises, the others are located."""
    chain, short = toy_envs.CHAIN, EnvSpec("ToyChain-v0", {"max_steps": 4})
    stays = played(Script("right", "right"), chain)
    lost = played(Script("right", "left"), chain)
    assert stays.given_up and played(ExpertAgent(), chain).success
    episodes = [stays, lost, played(ExpertAgent(), chain), replace(lost, error="disk"), replace(lost, id="x"),
                played(Script(*["right"] * 4), short), replace(lost, final_observation="?")]  # fmt: skip
    faults = first_faults(episodes)
    assert faults.failures == 5 and [(t.id, f.step, f.kind) for t, f in faults.located] == [
        (lost.id, 2, DETOUR), ("x", 2, DETOUR),
    ]  # fmt: skip
    assert faults.without == {GAVE_UP: 1, UNSOLVED: 1, CHANGED: 1} and faults.unsearched == 1
    assert first_faults([replace(stays, stop_reason=StopReason.TRUNCATED)]).without == {NO_FALL: 1}
    assert first_faults([]).located == [] and first_faults([]).failures == 0


@pytest.mark.parametrize(("error", "reason"), [(SystemExit(3), FAILED), (RuntimeError("no expert"), NO_PLAN)])
def test_a_world_that_fails_ends_no_search(
    toy_envs: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, reason: str
) -> None:
    """Whatever its expert raises, a report is still written."""
    lost = played(Script("right", "left"), toy_envs.CHAIN)

    def fails(env: Any) -> Any:
        raise error

    monkeypatch.setattr(type(toy_envs.CHAIN.make()), "expert", fails)
    with pytest.warns(UserWarning, match="a world failed") if reason == FAILED else nullwarns():
        assert first_faults([lost]).without == {reason: 1}
        assert find_first_fault(lost) is None


def test_text_that_is_no_call_has_no_tool() -> None:
    """A call has one, also of a tool that does not exist, and so has a word with which the expert's action begins."""
    maze = EnvSpec("maze", {"difficulty": "easy", "max_steps": 20})
    tools = {
        "I cannot say.": "", "fly[home]": "fly", "go nowhere": "go", "Note [1] says so.": "",
        "I (the agent) cannot.": "", "fly(home)": "fly", "fly {home}": "fly",
    }  # fmt: skip
    for reply, tool in tools.items():
        lost = played(Script(*[reply] * 20), maze)
        assert not any(step.valid for step in lost.steps)
        ((_, fault),) = first_faults([lost]).located
        assert (fault.tool, fault.action) == (tool, reply)
    ((_, alone),) = first_faults([played(Script(*["I cannot say."] * 20), maze)]).located
    assert tool_label(alone.tool) == "(no known action)"


def test_the_threshold_of_detours_is_named(toy_envs: Any) -> None:
    """With the option that raises it, if there are detours; steps that lost success are faults at any threshold."""
    lost = played(Script("right", "left"), toy_envs.CHAIN)
    faults = first_faults([lost])
    advice = "agentgym faults FILE --min_regret 100 only steps after which the expert cannot succeed are faults"
    assert f"a detour costs at least 2 steps; with {advice}" in str(faults) and faults.as_dict()["min_regret"] == 2
    assert "min_regret" not in str(first_faults([lost], min_regret=100))


def nullwarns() -> Any:
    """No warning is expected."""
    from contextlib import nullcontext

    return nullcontext()


@pytest.mark.parametrize(("arguments", "message"), [({"by": "me"}, "exact or fair"), ({"min_regret": 0}, "at least 1")])
def test_wrong_settings_are_refused(arguments: dict[str, Any], message: str) -> None:
    """In words."""
    with pytest.raises(ConfigError, match=message):
        first_faults([], **arguments)


# ---- by forks -------------------------------------------------------------------------------------------------------


def test_forks_find_the_step_that_lost_a_bet(toy_envs: Any) -> None:
    """Pulling the wrong arm loses all of a chance of 0.9; an agent that never had a chance loses none."""
    good = Collector(Script("?", right=0.9))
    lost = next(e for k in range(99) if not (e := good.collect(Job(toy_envs.BANDIT, 1, attempt=k))).success)
    faults = first_faults_by_forks([lost], good.collect_batch)
    ((_, fault),) = faults.located
    assert (fault.step, fault.kind, fault.better, fault.after) == (1, WRONG_END, None, 0.0)
    assert fault.before > 0.6 and fault.p is not None and fault.p < 0.01 and faults.by == "16 forks per state"
    assert str(fault).startswith("step 1, left; success of its forks ")
    bad = Collector(Script("left"))
    assert first_faults_by_forks([bad.collect(Job(toy_envs.BANDIT, 1))], bad.collect_batch).without == {NO_FALL: 1}
    assert ag.first_faults([lost], Script("?", right=0.9), attempts=16).located


def test_a_fall_beyond_chance_is_a_fault_and_one_within_is_none(episode: Any) -> None:
    """One-sided, with the level shared by the steps; unknown states are skipped."""
    lost = episode("a", "b", "c", success=False)
    high, near, low = (estimate([1.0] * k + [0.0] * (16 - k)) for k in (14, 8, 6))
    assert fisher_greater(14, 16, 6, 16) < 0.05 / 3 < fisher_greater(14, 16, 8, 16)
    found = fault_of_values(lost, [high, high, low, low])
    assert isinstance(found, Fault) and (found.step, found.kind) == (2, LOWER_CHANCE)
    assert (found.before, found.after, found.p) == (14 / 16, 6 / 16, fisher_greater(14, 16, 6, 16))
    assert fault_of_values(lost, [high, near, near, near]) == NO_FALL
    assert fault_of_values(lost, [high, None, low, low]) == NO_FALL
    ended = fault_of_values(lost, [high, high, high, Value(0.0, 0.0, 0)])
    assert isinstance(ended, Fault) and (ended.step, ended.kind) == (3, WRONG_END)
    given_up = replace(lost, stop_reason=StopReason.GAVE_UP)
    assert fault_of_values(given_up, [high] * 4) == GAVE_UP
    assert fault_of_values(replace(given_up, steps=()), [high]) == GAVE_UP


def test_too_few_forks_are_a_reason_of_their_own(episode: Any) -> None:
    """Four of four and none of four have p 1/70: enough for one step, too little for five."""
    high, low = estimate([1.0] * 4), estimate([0.0] * 4)
    assert isinstance(fault_of_values(episode("a", success=False), [high, low]), Fault)
    assert fault_of_values(episode(*"abcde", success=False), [high, *[low] * 5]) == TOO_FEW_FORKS


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_values_that_do_not_fall_seldom_show_a_fault(episode: Any, rate: float) -> None:
    """In at most the level's share of episodes, within three standard errors."""
    lost, simulations = episode(*"abcdefghij", success=False), 400
    outcomes = np.random.default_rng(1).random((simulations, 11, 16)) < rate
    found = sum(
        isinstance(fault_of_values(lost, [estimate(state.tolist()) for state in states]), Fault) for states in outcomes
    )
    assert found <= simulations * 0.05 + 3 * math.sqrt(simulations * 0.05 * 0.95)


@pytest.mark.parametrize("arguments", [{"attempts": 1}, {"level": 0.0}, {"level": 0.5}])
def test_forks_need_attempts_and_a_level(arguments: dict[str, Any]) -> None:
    """Else there is no standard error, or no threshold."""
    with pytest.raises(ConfigError, match=next(iter(arguments))):
        first_faults_by_forks([], lambda jobs: [], **arguments)


# ---- profiles -------------------------------------------------------------------------------------------------------


def test_a_profile_groups_by_kind_tool_and_task() -> None:
    """With counts, shares that sum to one, medians and examples; as text and as JSON values."""
    spec = EnvSpec("calculator")
    rash = Collector(Script("calculate[1 + 1]", "finish[0.123456]")).collect_batch(jobs_for(spec, "test", range(3)))
    slow = Collector(Script(*["calculate[1 + 1]"] * 50)).collect_batch(jobs_for(spec, "test", range(3, 5)))
    faults = first_faults([*rash, *slow])
    assert {kind: group.count for kind, group in faults.by_kind.items()} == {WRONG_END: 3, TOO_FEW_STEPS: 2}
    assert list(faults.by_kind) == sorted(faults.by_kind, key=FAULTS.index)
    wrong = faults.by_kind[WRONG_END]
    assert (wrong.step, wrong.share.value, wrong.example) == (2, 0.6, rash[0].id)
    assert list(faults.by_tool) == ["finish", "calculate"]
    assert sum(group.count for group in faults.by_task_kind.values()) == 5
    data = faults.as_dict()
    assert data["located"] == data["failures"] == 5 and data["without"] == {}
    assert data["faults"][0] == {
        "trajectory": rash[0].id, "task": rash[0].task_id, "steps": 2, "step": 2, "kind": WRONG_END, "tool": "finish",
        "action": "finish[0.123456]", "better": data["faults"][0]["better"], "before": data["faults"][0]["before"],
        "after": 0.0, "regret": None, "p": None, "wasted": 1,
    }  # fmt: skip
    text = str(faults)
    assert text.startswith(
        "first faults of 5 failures by the exact expert: 5 located\nby fault: wrong end: 3, 60.0 % ["
    )
    assert f"wrong end, for example {rash[0].id}: step 2, finish[0.123456]; the expert: " in text
    assert "3 of 3 wrong ends come after a wasted step, the first of them at step 1 in the median" in text
    rows = fault_rows(faults)
    assert [row[0] for row in rows[:4]] == ["fault", "", "tool", ""] and rows[0][4] == "2"
    assert [row[1] for row in rows[:4]] == [WRONG_END, TOO_FEW_STEPS, "finish", "calculate"]
    assert len(fault_notes(faults)) == 4 and "agentgym faults FILE --by fair" in fault_notes(faults)[-1]
