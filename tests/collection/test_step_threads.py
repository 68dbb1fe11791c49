"""Envs on threads beside the loop: the cost of slow envs, and blame for a faulty env only."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_py import registry
from agentgym_py.agents import ExpertAgent, ModelAgent, RandomAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.collection.executor import Assignment
from agentgym_py.collection.processes import Workers
from agentgym_py.collection.watchdog import Watchdog
from agentgym_py.engine import SamplingParams
from agentgym_py.env import EnvSpec, Reply, Task, TextEnv
from agentgym_py.errors import ConfigError, InfrastructureError, UnknownNameError
from agentgym_py.trajectory import Trajectory

THREADS = PlayConfig(step_threads=16)
LATE = "was not back after 0.5 s"


@pytest.fixture(scope="module")
def slow(faulty_env: Any) -> EnvSpec:
    """An env that sleeps a quarter second a step, for 4 steps."""
    return EnvSpec("Slow-v0", {"seconds": 0.25})


@pytest.fixture(scope="module")
def workers(faulty_env: Any) -> Iterator[Workers]:
    """Two processes, which find the module of the slow env."""
    with Workers(2) as running:
        yield running


@pytest.fixture
def envs(monkeypatch: pytest.MonkeyPatch, faulty_env: Any) -> list[Any]:
    """All faulty envs of a test; they count how often they are closed, and raise when they are used afterwards."""
    envs: list[Any] = []
    make, act = faulty_env.FaultyEnv.__init__, faulty_env.FaultyEnv.act

    def make_counted(env: Any, **kwargs: Any) -> None:
        make(env, **kwargs)
        env.closings = 0
        envs.append(env)

    def act_if_open(env: Any, reply: Reply) -> Any:
        if env.closings:
            raise RuntimeError("used after close")
        return act(env, reply)

    def close(env: Any) -> None:
        env.closings += 1

    monkeypatch.setattr(faulty_env.FaultyEnv, "__init__", make_counted)
    monkeypatch.setattr(faulty_env.FaultyEnv, "act", act_if_open)
    monkeypatch.setattr(faulty_env.FaultyEnv, "close", close)
    return envs


@pytest.fixture
def may_return(monkeypatch: pytest.MonkeyPatch, faulty_env: Any) -> Iterator[threading.Event]:
    """Until this event is set, the faulty call of task 2 does not return."""
    event = threading.Event()

    def wait_in_task_2(env: TextEnv, task: Task) -> None:
        if task.id.endswith("/2"):
            event.wait(60)

    monkeypatch.setattr(faulty_env.FaultyEnv, "_trouble", wait_in_task_2)
    yield event
    event.set()


def timed(collector: Collector, spec: EnvSpec) -> tuple[list[Trajectory], float]:
    """Play 16 episodes; return them and the seconds that it took."""
    began = time.monotonic()
    return collector.collect_batch(jobs_for(spec, "train", range(16))), time.monotonic() - began


@pytest.mark.parametrize("agent", ["FaultyAgent", "StreamedAgent", "ServedAgent"])
def test_sixteen_slow_episodes_take_as_long_as_one(faulty_env: Any, slow: EnvSpec, agent: str) -> None:
    """64 steps of a quarter second: 1 s, whichever way the agent replies, and not 16 s one after the other."""
    played, seconds = timed(Collector(getattr(faulty_env, agent)(), THREADS), slow)
    print(f"{agent}: {seconds:.2f} s")
    assert [len(each.steps) for each in played] == [4] * 16 and not any(each.error for each in played)
    assert 1 <= seconds < 8


def test_threads_of_two_workers_share_the_waiting(faulty_env: Any, slow: EnvSpec, workers: Workers) -> None:
    """Each process waits for its own envs; none of them is late."""
    play = PlayConfig(step_threads=8, executor=workers, step_timeout=60.0)
    collector = Collector(faulty_env.FaultyAgent(), play)
    timed(collector, EnvSpec("Slow-v0", {"seconds": 0.0}))  # starts the processes
    played, seconds = timed(collector, slow)
    print(f"2 workers: {seconds:.2f} s")
    assert [len(each.steps) for each in played] == [4] * 16 and not any(each.error for each in played)
    assert 1 <= seconds < 8


@pytest.mark.parametrize("threads", [1, 3, 16])
@pytest.mark.parametrize("agent", ["FaultyAgent", "StreamedAgent", "ServedAgent"])
def test_threads_change_no_trajectory(faulty_env: Any, agent: str, threads: int) -> None:
    """With fewer threads than episodes too, and however the agent replies."""
    jobs = jobs_for(["Faulty-v0", "shop"], "train", range(6), attempts=2)
    player = getattr(faulty_env, agent)()
    expected = Collector(player, PlayConfig(slots=5, seed=3)).collect_batch(jobs)
    assert Collector(player, PlayConfig(slots=5, seed=3, step_threads=threads)).collect_batch(jobs) == expected


def test_every_world_runs_on_threads() -> None:
    """Also with an agent that asks the env from the main thread."""
    for name in registry.names("agentgym.envs"):
        jobs = jobs_for(name, "train", range(3))
        for agent in (RandomAgent(), ExpertAgent()):
            expected = Collector(agent, PlayConfig(slots=2)).collect_batch(jobs)
            assert Collector(agent, PlayConfig(slots=2, step_threads=2)).collect_batch(jobs) == expected, name
            assert not any(each.error for each in expected)


def test_a_model_says_the_same(tiny_policy: Any) -> None:
    """Its replies stream; what is batched with what is up to timing, so that sums round otherwise."""
    from agentgym_py.engine import HFEngine

    agent = ModelAgent(tiny_policy, HFEngine(tiny_policy, slots=16), SamplingParams(max_new_tokens=8))
    jobs = jobs_for(EnvSpec("shop", {"max_steps": 3}), "train", range(12))
    expected = Collector(agent, PlayConfig(slots=6)).collect_batch(jobs)
    for one, other in zip(expected, Collector(agent, replace(THREADS, slots=6)).collect_batch(jobs), strict=True):
        assert one.provenance == other.provenance
        for a, b in zip(one.steps, other.steps, strict=True):
            assert a.tokens and b.tokens and a.tokens.ids == b.tokens.ids and a.observation == b.observation
            assert a.tokens.logprobs == pytest.approx(b.tokens.logprobs, abs=1e-5)


def test_an_env_stays_on_one_thread(monkeypatch: pytest.MonkeyPatch, faulty_env: Any) -> None:
    """It is made, reset, stepped and closed there; every env is closed when the collection is over."""
    calls: dict[int, set[int]] = {}
    open_envs: list[TextEnv] = []

    def noted(name: str) -> None:
        whole = getattr(faulty_env.FaultyEnv, name)

        def call(self: TextEnv, *given: Any, **more: Any) -> Any:
            calls.setdefault(id(self), set()).add(threading.get_ident())
            if name == "__init__":
                open_envs.append(self)
            if name == "close":
                open_envs.remove(self)
            return whole(self, *given, **more)

        monkeypatch.setattr(faulty_env.FaultyEnv, name, call)

    for name in ("__init__", "begin", "act", "close"):
        noted(name)
    kept = open_envs  # so that no id is given twice
    played = Collector(RandomAgent(), PlayConfig(slots=6, step_threads=3)).collect_batch(
        jobs_for("Faulty-v0", "train", range(20))
    )
    assert len(played) == 20 and len(calls) == 6 and not kept
    assert all(len(threads) == 1 for threads in calls.values())
    assert len(set.union(*calls.values())) == 3 and threading.get_ident() not in set.union(*calls.values())


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize(("fault", "said"), [("raises", "OSError('no world')"), ("sleeps", LATE)])
@pytest.mark.parametrize("agent", ["FaultyAgent", "StreamedAgent", "ServedAgent"])
def test_a_faulty_env_is_blamed_alone(faulty_env: Any, agent: str, fault: str, said: str, begins: bool) -> None:
    """One that hangs is abandoned with its thread; the other episodes of the thread go on as without it."""
    player = getattr(faulty_env, agent)()
    expected = Collector(player).collect_batch(jobs_for("Faulty-v0", "train", range(8)))
    spec = EnvSpec("Faulty-v0", {"fault": fault, "begins": begins})
    play = PlayConfig(step_threads=2, step_timeout=0.5, retries=1)
    played = Collector(player, play).collect_batch(jobs_for(spec, "train", range(8)))
    assert [each.steps for i, each in enumerate(played) if i != 1] == [
        each.steps for i, each in enumerate(expected) if i != 1
    ]
    assert [i for i, each in enumerate(played) if each.error] == [1] and said in str(played[1].error)


def test_an_env_that_is_late_and_returns_is_blamed_alone(faulty_env: Any) -> None:
    """As one that hangs, if it returns before anybody looks or not."""
    spec = EnvSpec("Faulty-v0", {"fault": "slow"})
    play = PlayConfig(step_threads=2, step_timeout=0.2)
    played = Collector(RandomAgent(), play).collect_batch(jobs_for(spec, "train", range(8)))
    assert [i for i, each in enumerate(played) if each.error] == [1]
    assert "was not back after 0.2 s" in str(played[1].error) or "took longer" in str(played[1].error)


@pytest.mark.parametrize(("fault", "said"), [("hangs", "was not back after 1.5 s"), ("dies", "along (-9)")])
def test_a_faulty_env_on_a_workers_thread_is_blamed_alone(
    faulty_env: Any, workers: Workers, fault: str, said: str
) -> None:
    """The process is killed from outside, or gone; envs that were at work beside it are not to blame."""
    agent = faulty_env.FaultyAgent()
    expected = [each.steps for each in Collector(agent).collect_batch(jobs_for("Faulty-v0", "train", range(12)))]
    play = PlayConfig(slots=12, executor=workers, step_timeout=1.5, step_threads=6)
    played = Collector(agent, play).collect_batch(jobs_for(EnvSpec("Faulty-v0", {"fault": fault}), "train", range(12)))
    assert [each.steps for i, each in enumerate(played) if i != 1] == [*expected[:1], *expected[2:]]
    assert [i for i, each in enumerate(played) if each.error] == [1] and said in str(played[1].error)


def test_of_several_envs_at_work_the_one_that_crashes_is_found() -> None:
    """The suspects are played alone, one after another, then the others on threads as before."""
    jobs, config = list(enumerate(jobs_for("shop", "train", range(6)))), PlayConfig(retries=0, step_threads=4)
    assignment = Assignment(RandomAgent(), config, jobs, finished={0})
    assert list(assignment.worker_died("(-11)", [1, 2, 3])) == []
    assert [index for index, _ in assignment.share] == [1, 2, 3] and assignment.config.step_threads == 0
    ((index, trajectory),) = assignment.worker_died("(-11)", [1])
    assert index == 2 and "took its process along (-11)" in str(trajectory.error)
    assert [index for index, _ in assignment.share] == [1, 3]
    assert assignment.has_next() and assignment.config == config
    assert [index for index, _ in assignment.share] == [4, 5] and not assignment.has_next()


def test_an_env_that_hangs_as_it_is_closed_holds_up_nobody(faulty_env: Any) -> None:
    """It is left to its thread."""
    spec, began = EnvSpec("Faulty-v0", {"fault": "closes"}), time.monotonic()
    played = Collector(RandomAgent(), PlayConfig(step_threads=2, step_timeout=0.5)).collect_batch(
        jobs_for(spec, "train", range(6))
    )
    assert [(each.error, len(each.steps)) for each in played] == [(None, 3)] * 6
    assert time.monotonic() - began < 10


@pytest.mark.timeout(60)
@pytest.mark.parametrize("agent", ["FaultyAgent", "StreamedAgent", "ServedAgent"])
def test_a_retry_moves_on_when_the_first_env_hangs_in_close(
    monkeypatch: pytest.MonkeyPatch, faulty_env: Any, tmp_path: Path, agent: str
) -> None:
    """The late close carries the index of the retried episode, which waits on the same thread."""
    spec = EnvSpec("Faulty-v0", {"fault": "raises", "mark": str(tmp_path / "mark")})
    monkeypatch.setattr(faulty_env.FaultyEnv, "close", lambda env: time.sleep(3600 if env.count == 1 else 0))
    play = PlayConfig(step_threads=1, step_timeout=0.5, retries=1)
    trajectories = Collector(getattr(faulty_env, agent)(), play).collect_batch(jobs_for(spec, "train", range(3)))
    assert [(trajectory.error, len(trajectory.steps)) for trajectory in trajectories] == [(None, 3)] * 3


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("begins", [False, True])
def test_a_late_call_costs_no_other_episode_its_env(
    monkeypatch: pytest.MonkeyPatch, faulty_env: Any, envs: list[Any], may_return: threading.Event, begins: bool,
    returns: bool,
) -> None:  # fmt: skip
    """The others keep their envs, also if they have just begun; the late call returns during their steps or never."""
    act = faulty_env.FaultyEnv.act

    def act_slowly(env: Any, reply: Reply) -> Any:
        if begins and returns:
            may_return.set()
            time.sleep(0.1)
        return act(env, reply)

    monkeypatch.setattr(faulty_env.FaultyEnv, "act", act_slowly)
    play = PlayConfig(step_threads=1, step_timeout=0.5, retries=0)
    spec = EnvSpec("Faulty-v0", {"begins": begins})
    trajectories = Collector(faulty_env.FaultyAgent(), play).collect_batch(jobs_for(spec, "train", range(4)))
    assert [bool(trajectory.error) for trajectory in trajectories] == [False, False, True, False]
    assert LATE in str(trajectories[2].error)
    assert [env.closings for env in envs if not env.current_task.id.endswith("/2")] == [1] * 3
    may_return.set()
    _wait_until(lambda: [env.closings for env in envs] == [1] * 4)


def test_a_late_call_may_return_while_its_thread_is_replaced(
    monkeypatch: pytest.MonkeyPatch, faulty_env: Any, envs: list[Any], may_return: threading.Event
) -> None:
    """Its thread closes no env of the others."""

    def error(watchdog: Watchdog) -> InfrastructureError:
        may_return.set()
        time.sleep(0.2)  # the call returns now
        return InfrastructureError("late")

    monkeypatch.setattr(Watchdog, "error", property(error))
    play = PlayConfig(step_threads=1, step_timeout=0.5, retries=0)
    trajectories = Collector(faulty_env.FaultyAgent(), play).collect_batch(jobs_for("Faulty-v0", "train", range(4)))
    assert [trajectory.error for trajectory in trajectories] == [None, None, "InfrastructureError('late')", None]
    _wait_until(lambda: [env.closings for env in envs] == [1] * 4)


@pytest.mark.parametrize("agent", ["FaultyAgent", "StreamedAgent", "ServedAgent"])
def test_ctrl_c_and_who_leaves_do_not_wait_for_a_sleeping_env(faulty_env: Any, agent: str) -> None:
    """Also without a limit: the thread ends with the process, or closes its envs when it returns."""
    spec = EnvSpec("Faulty-v0", {"fault": "sleeps"})
    began = time.monotonic()
    collector = Collector(getattr(faulty_env, agent)(), PlayConfig(slots=3, step_threads=3))
    interrupt = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        collector.collect_batch(jobs_for(spec, "train", range(6)))
    assert time.monotonic() - began < 10
    short = jobs_for(EnvSpec("Faulty-v0", {"max_steps": 1}), "train", [0])
    stream = collector.iter_ordered([*short, *jobs_for(spec, "train", range(6))])
    next(stream)
    stream.close()
    assert time.monotonic() - began < 10


def test_what_is_raised_on_a_thread_is_raised_here() -> None:
    """An unknown task is the programmer's error, not an episode."""
    jobs = jobs_for("shop", "train", range(3))
    with pytest.raises(UnknownNameError):
        Collector(RandomAgent(), THREADS).collect_batch([*jobs, replace(jobs[0], task="shop/train/medium/x")])


@pytest.mark.parametrize("wrong", [-1, 1025])
def test_a_wrong_number_of_threads_is_refused(wrong: int) -> None:
    """With the range in the message."""
    with pytest.raises(ConfigError, match=f"^step_threads must be from 0 to 1024, got {wrong}$"):
        PlayConfig(step_threads=wrong)


def _wait_until(holds: Callable[[], bool]) -> None:
    """Wait up to 10 seconds for a condition, because an abandoned thread ends after the collection."""
    deadline = time.monotonic() + 10
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert holds()
