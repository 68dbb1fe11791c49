"""Every registered environment keeps the contract of `TextEnv`; a new plugin is tested without being listed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym_py
from agentgym_py import registry
from agentgym_py.agents import ExpertAgent
from agentgym_py.collect import Collector, EnvSpec, jobs_for
from agentgym_py.env import SPLITS, TextEnv
from agentgym_py.errors import ActionError, ResetNeededError, SnapshotError, UnknownNameError
from agentgym_py.rng import Rng

ENVS = registry.names("agentgym.envs")


def make(env_id: str, **kwargs: Any) -> TextEnv:
    """The environment without Gymnasium's wrappers."""
    made = gymnasium.make(env_id, disable_env_checker=True, **kwargs).unwrapped
    assert isinstance(made, TextEnv)
    return made


@pytest.fixture(params=ENVS)
def env(request: pytest.FixtureRequest) -> Iterator[TextEnv]:
    """One environment of each registered kind."""
    made = make(request.param)
    yield made
    made.close()


def walk(env: TextEnv, rng: Rng, steps: int) -> list[tuple[object, ...]]:
    """Random admissible actions, with what came of them."""
    seen: list[tuple[object, ...]] = []
    for _ in range(steps):
        if env.ended:
            break
        seen.append(env.step(rng.choice(env.actions() or ["nonsense"])))
    return seen


@pytest.mark.parametrize("env_id", ENVS)
def test_gymnasium_accepts_it(env_id: str) -> None:
    """Gymnasium's own checker finds nothing to say, and `module:id` makes the environment too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(env_id, disable_env_checker=True).unwrapped, skip_render_check=True)
    assert gymnasium.make(f"agentgym_py:{env_id}").spec is not None


@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.parametrize(
    ("mode", "kwargs"),
    [
        ("sync", {}),
        ("async", {}),
        ("async", {"shared_memory": False}),
        ("async", {"context": "spawn"}),
        ("async", {"copy": False}),
    ],
)
def test_it_vectorises(env_id: str, mode: str, kwargs: dict[str, object]) -> None:
    """Two copies under `make_vec`, in this process or in others, see what they see alone."""
    alone = make(env_id)
    said = ("nonsense", "mehr davon: 🎉")
    vector = gymnasium.make_vec(env_id, num_envs=2, vectorization_mode=mode, vector_kwargs=kwargs)
    observations, infos = vector.reset(seed=3)
    firsts = [alone.reset(seed=3 + i) for i in range(2)]
    assert list(observations) == [first for first, _ in firsts]
    assert list(infos["task_id"]) == [info["task_id"] for _, info in firsts]
    observations = vector.step(said)[0]
    for i in range(2):
        alone.reset(seed=3 + i)
        assert observations[i] == alone.step(said[i])[0] and alone.observation_space.contains(observations[i])
    vector.close()


def test_info_always_says_success_task_and_validity(env: TextEnv) -> None:
    """`info` of reset and step holds `success`, `task_id` and `valid_action`; rewards are floats, ends are bools."""
    _, info = env.reset(seed=1)
    assert env.current and info["task_id"] == env.current.id
    assert info["success"] is False and info["valid_action"] is True
    _, reward, terminated, truncated, info = env.step("\x00 no such action")
    assert info["valid_action"] is False and info["success"] is False
    assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)


def test_a_seed_gives_the_same_episode_twice(env: TextEnv) -> None:
    """Task, observations and rewards follow from the seed and the actions."""
    runs = []
    for _ in range(2):
        first = env.reset(seed=11)
        runs.append((first, walk(env, Rng("walk"), 8)))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("env_id", ENVS)
def test_a_seed_gives_the_same_task_in_another_process(env_id: str) -> None:
    """Nothing depends on hash seeds, addresses or the clock."""
    code = f"import gymnasium, agentgym_py; print(repr(gymnasium.make({env_id!r}).reset(seed=5)))"
    flags = {"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"}
    out = [
        subprocess.run([sys.executable, "-c", code], env=os.environ | f, capture_output=True, text=True).stdout
        for f in flags
    ]
    assert out[0] and out[0] == out[1]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("env_id", ENVS)
def test_any_string_is_a_step(env_id: str, data: st.DataObject) -> None:
    """No string raises, and each gives a string, a float and two bools."""
    env = make(env_id)
    env.reset(seed=data.draw(st.integers(0, 5)))
    walk(env, Rng("before", data.draw(st.integers(0, 50))), data.draw(st.integers(0, 4)))
    text = data.draw(st.text() | st.sampled_from(["search[", "]", "click[]", "Action:", '{"name": 1}', "<tool_call>{"]))
    observation, reward, *_ = env.step(text)
    assert isinstance(observation, str) and reward == reward


@pytest.mark.parametrize("wrong", [None, 3, b"search[cup]", {"name": "search"}])
def test_what_is_no_string_is_no_step(env: TextEnv, wrong: Any) -> None:
    """It is a programmer's mistake: an error that says what `step` takes, and nothing has happened."""
    env.reset(seed=1)
    before = env.snapshot()
    with pytest.raises(ActionError, match=f"step takes a string, .* got a {type(wrong).__name__}$"):
        env.step(wrong)
    assert env.snapshot() == before


@pytest.mark.parametrize("env_id", ENVS)
def test_a_fork_goes_on_exactly(env_id: str) -> None:
    """A snapshot taken at any moment and restored in another instance has the same future, however often."""
    env, other = make(env_id), make(env_id)
    for seed in range(12):
        rng = Rng("fork", seed)
        env.reset(seed=seed)
        walk(env, rng, rng.below(8))
        snapshot = env.snapshot()
        assert json.loads(snapshot)["env"] == env.name
        state = rng.state
        future = walk(env, rng, 8)
        for _ in range(2):
            other.restore(snapshot)
            assert other.snapshot() == snapshot
            rng.state = state
            assert walk(other, rng, 8) == future


@pytest.mark.parametrize("env_id", ENVS)
def test_a_corrupt_snapshot_is_refused_whole(env_id: str) -> None:
    """Values that cannot be are a SnapshotError and change nothing; what is accepted can be played on."""
    env = make(env_id)
    env.reset(seed=1)
    walk(env, Rng("corrupt"), 2)
    good = json.loads(env.snapshot())
    wrongs: tuple[Any, ...] = (None, 5.5, [])
    outer = [{key: wrong} for key in good for wrong in (*wrongs, "x" if key != "last" else 1)]
    outer += [{"steps": -1}, {"steps": True}, {"rng": -1}, {"rng": 1 << 64}, {"success": 1}, {"task": 0}]
    state = good["state"]
    inner = [{"state": {**state, key: wrong}} for key in state for wrong in (*wrongs, -5, {}, "x")]
    inner += [{"state": {k: v for k, v in state.items() if k != key}} for key in state]
    before = env.snapshot()
    for change in outer + inner:
        try:
            env.restore(json.dumps(good | change).encode())
        except SnapshotError:
            assert env.snapshot() == before, change
        else:
            assert change in inner, change
            env.step("anything")
            assert all(isinstance(action, str) for action in env.expert() + (env.actions() or []))
            env.restore(before)


@pytest.mark.parametrize("env_id", ENVS)
def test_an_expert_that_is_asked_anew_solves_too(env_id: str) -> None:
    """`ExpertAgent` plans before each step and needs no more steps than a plan from the start."""
    for trajectory in Collector(ExpertAgent()).collect_batch(jobs_for([EnvSpec(env_id)], "test", range(10))):
        assert trajectory.success and trajectory.optimal_steps in (None, len(trajectory.steps)), trajectory.task_id


@pytest.mark.parametrize("split", SPLITS)
def test_the_expert_solves_every_task(env: TextEnv, split: str) -> None:
    """From reset the expert reaches success, and in `optimal_steps` where the task knows them."""
    for number in range(25):
        env.reset(seed=0, options={"task": number, "split": split})
        plan = env.expert()
        assert env.current and env.current.optimal_steps in (None, len(plan)), env.current
        steps = [env.step(action) for action in plan]
        assert steps[-1][2] and steps[-1][4]["success"], (env.current, plan)
        assert all(step[4]["valid_action"] for step in steps)


def test_the_expert_solves_from_where_a_random_agent_left_off(env: TextEnv) -> None:
    """From any state that is not over the expert's plan still succeeds."""
    roomy = make(env.spec.id, max_steps=200) if env.spec else env
    for seed in range(25):
        rng = Rng("wander", seed)
        roomy.reset(seed=seed)
        walk(roomy, rng, rng.below(12))
        if roomy.ended:
            continue
        last = [roomy.step(action) for action in roomy.expert()][-1]
        assert last[4]["success"], roomy.current


def test_splits_are_disjoint_and_ids_stable(env: TextEnv) -> None:
    """No instruction stands in two splits, an id gives its task again, and numbers name tasks of their split."""
    by_split = {split: [env.task(n, split) for n in range(150)] for split in SPLITS}
    for split, tasks in by_split.items():
        assert all(task.split == split for task in tasks)
        assert all(env.task(task.id) == task for task in tasks[:20])
    told = [{task.instruction for task in tasks} for tasks in by_split.values()]
    assert not told[0] & told[1] and not told[0] & told[2] and not told[1] & told[2]


def test_wrong_use_says_what_was_meant(env: TextEnv) -> None:
    """Unknown tasks, splits and options, foreign snapshots and a missing reset are named errors."""
    with pytest.raises(ResetNeededError):
        env.step("anything")
    with pytest.raises(UnknownNameError):
        env.reset(options={"task": "no/such/task"})
    with pytest.raises(UnknownNameError, match="test"):
        env.reset(options={"split": "tset"})
    with pytest.raises(UnknownNameError, match="split"):
        env.reset(options={"spilt": "test"})
    for broken in (b"", b"[]", b'{"format": 1}', b"\xff"):
        with pytest.raises(SnapshotError):
            env.restore(broken)


def test_nothing_happens_after_the_end(env: TextEnv) -> None:
    """After an episode's end each step is refused, gives no reward and repeats the end."""
    env.reset(seed=2)
    for action in env.expert():
        env.step(action)
    before = env.steps
    _, reward, terminated, truncated, info = env.step("anything")
    assert (reward, terminated, truncated, info["valid_action"], info["success"]) == (0.0, True, False, False, True)
    assert env.steps == before


def test_the_limit_truncates_and_does_not_terminate(env: TextEnv) -> None:
    """At `max_steps` an unfinished episode is truncated, not terminated."""
    short = make(env.spec.id, max_steps=2) if env.spec else env
    short.reset(seed=0)
    ends = [short.step("\x00 no such action")[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, True), (False, True)]


def test_rules_come_in_three_lengths(env: TextEnv) -> None:
    """The rules text is longest when full and empty when none."""
    assert len(env.rules["full"]) > len(env.rules["brief"]) > len(env.rules["none"]) == 0


@pytest.mark.parametrize("env_id", ENVS)
def test_every_world_has_a_card(env_id: str) -> None:
    """The class docstring tells task, actions, observation, reward and end."""
    card = (type(make(env_id)).__doc__ or "").lower()
    assert all(word in card for word in ("task", "action", "observation", "reward", "end", env_id.lower())), env_id


def test_there_is_something_to_test() -> None:
    """At least the shop is registered."""
    assert "AgentShop-v0" in ENVS and agentgym_py.__version__
