"""Actors of Ray that play: the same episodes, whoever plays; actors that die, worlds that hang."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from agentgym_py.agents import ModelAgent, RandomAgent
from agentgym_py.collection import Collector, Job, PlayConfig, jobs_for
from agentgym_py.collection.processes import Workers
from agentgym_py.collection.ray import RayWorkers
from agentgym_py.engine import SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, UnknownNameError, WorkerError

ray = pytest.importorskip("ray")
pytest.importorskip("torch")

SHOP = EnvSpec("shop", {"max_steps": 3})
JOBS = jobs_for([SHOP], "train", range(20), attempts=2)


@pytest.fixture(scope="module")
def actors(faulty_env: Any) -> Iterator[RayWorkers]:
    """Two actors of a Ray of this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # by default actors yield to all other processes of a busy machine
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  # Ray's name
    with TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:  # sockets' names must be short
        ray.init(
            address="local", num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False,
            object_store_memory=100_000_000, _temp_dir=folder,
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},
        )  # fmt: skip
        with RayWorkers(2) as made:
            yield made
        ray.shutdown()


@pytest.fixture(scope="module")
def agent(tiny_policy: Any) -> ModelAgent:
    """A model that samples."""
    from agentgym_py.engine import HFEngine

    return ModelAgent(tiny_policy, HFEngine(tiny_policy, slots=16), SamplingParams(max_new_tokens=8))


def test_whoever_plays_the_episodes_are_the_same(actors: RayWorkers, agent: ModelAgent) -> None:
    """Actors, processes and this process: equal but for how sums round; two of either are equal bit for bit."""
    alone = Collector(agent, PlayConfig(slots=16, seed=3))
    expected = alone.collect_batch(JOBS)
    played = Collector(agent, replace(alone.play, executor=actors)).collect_batch(JOBS)
    assert len(actors._actors) == 2
    assert [each.id for each in played] == [each.id for each in expected]
    for one, other in zip(expected, played, strict=True):
        assert one.provenance == other.provenance
        for a, b in zip(one.steps, other.steps, strict=True):
            assert a.tokens and b.tokens and replace(a, tokens=None) == replace(b, tokens=None)
            assert a.tokens.ids == b.tokens.ids
            assert a.tokens.logprobs == pytest.approx(b.tokens.logprobs, abs=1e-5)
    with Workers(2) as processes:
        assert list(dict(sorted(processes.stream(agent, alone.play, JOBS))).values()) == played


def test_an_actor_that_dies_is_replaced(actors: RayWorkers, agent: ModelAgent) -> None:
    """Its share is played again, bit for bit, each episode is told once; one that dies each time is an error."""
    collector, played = Collector(agent, PlayConfig(slots=16, executor=actors)), dict[int, Any]()
    expected = collector.collect_batch(JOBS)
    for number, trajectory in collector.stream(JOBS):
        assert number not in played
        played[number] = trajectory
        if len(played) == 3:
            first = actors._actors[0]
            ray.kill(first)
    assert [played[i] for i in range(len(JOBS))] == expected
    assert actors._actors[0] is not first


@pytest.mark.slow
def test_actors_that_die_each_time_are_an_error(actors: RayWorkers, faulty_env: Any) -> None:
    """As processes are; the next jobs are played by fresh ones."""
    with pytest.raises(WorkerError, match=r"died .*, 2 times"):
        Collector(faulty_env.DyingAgent(), PlayConfig(executor=actors)).collect_batch(JOBS)
    assert len(Collector(RandomAgent(), PlayConfig(executor=actors)).collect_batch(JOBS)) == len(JOBS)


@pytest.mark.slow
def test_a_world_that_hangs_in_an_actor_is_no_evidence(actors: RayWorkers, faulty_env: Any) -> None:
    """The process beside the actor is ended; the others' episodes are as without it."""
    calm = Collector(faulty_env.FaultyAgent()).collect_batch(jobs_for(EnvSpec("Faulty-v0"), "train", range(6)))
    spec = EnvSpec("Faulty-v0", {"fault": "hangs"})
    collector = Collector(faulty_env.FaultyAgent(), PlayConfig(executor=actors, step_timeout=1.5))
    played = collector.collect_batch(jobs_for(spec, "train", range(6)))
    assert [i for i, each in enumerate(played) if each.error] == [1]
    assert "was not back after 1.5 s" in str(played[1].error)
    assert [each.steps for each in played if not each.error] == [each.steps for i, each in enumerate(calm) if i != 1]


@pytest.mark.slow
def test_a_world_that_ends_its_actor_is_no_evidence(actors: RayWorkers, faulty_env: Any) -> None:
    """Without a step_timeout: the second actor plays in a process beside it, whose death is the world's."""
    calm = Collector(faulty_env.FaultyAgent()).collect_batch(jobs_for(EnvSpec("Faulty-v0"), "train", range(6)))
    spec = EnvSpec("Faulty-v0", {"fault": "dies"})
    played = Collector(faulty_env.FaultyAgent(), PlayConfig(executor=actors)).collect_batch(
        jobs_for(spec, "train", range(6))
    )
    assert [i for i, each in enumerate(played) if each.error] == [1]
    assert "took its process along (-9)" in str(played[1].error)
    assert [each.steps for each in played if not each.error] == [each.steps for i, each in enumerate(calm) if i != 1]


def test_a_full_cluster_is_said(actors: RayWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would wait in silence; when there is room, all is played."""
    actors.close()
    with RayWorkers(1, cpus=2) as others, RayWorkers(1, cpus=1) as late:
        first = Collector(RandomAgent(), PlayConfig(executor=others))
        assert len(first.collect_batch(JOBS)) == len(JOBS)
        monkeypatch.setattr("agentgym_py.collection.ray._PATIENCE", 1.0)
        threading.Timer(3, others.close).start()
        with pytest.warns(UserWarning, match=r"each needs 1 CPUs, 0 free"):
            assert len(Collector(RandomAgent(), PlayConfig(executor=late)).collect_batch(JOBS)) == len(JOBS)


@pytest.mark.slow
def test_what_is_raised_in_an_actor_is_raised_here(actors: RayWorkers) -> None:
    """An unknown task of a job is the same error as in one process."""
    with pytest.raises(UnknownNameError, match="shop/train/easy/none"):
        Collector(RandomAgent(), PlayConfig(executor=actors)).collect_batch([*JOBS, Job(SHOP, "shop/train/easy/none")])


def test_more_actors_than_there_is_room_for_are_refused(actors: RayWorkers) -> None:
    """They would wait forever."""
    with pytest.raises(ConfigError, match=r"3 actors want 3 CPUs, the cluster has 2"):
        Collector(RandomAgent(), PlayConfig(executor=RayWorkers(3))).collect_batch(JOBS)
    with pytest.raises(ConfigError, match="2 GPUs, the cluster has 0"):
        Collector(RandomAgent(), PlayConfig(executor=RayWorkers(2, gpus=1))).collect_batch(JOBS)
    with pytest.raises(ConfigError, match="at least 1"):
        RayWorkers(0)


def test_without_ray_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is played."""
    monkeypatch.setattr("agentgym_py.collection.ray.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"actors need ray, of the extra `ray`"):
        RayWorkers(2)


def test_a_cluster_that_is_gone_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would try for minutes."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda *_, **__: pytest.fail("it was tried"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = f"127.0.0.1:{taken.getsockname()[1]}"
    play = (RandomAgent(), PlayConfig(), JOBS)
    with pytest.raises(ConfigError, match=f"no Ray cluster answers at {gone}"):
        list(RayWorkers(1, address=gone).stream(*play))
    monkeypatch.setenv("RAY_ADDRESS", f"ray://{gone}")
    with pytest.raises(ConfigError, match=f"no Ray cluster answers at ray://{gone}"):
        list(RayWorkers(1).stream(*play))


def test_ray_leaves_the_handler_of_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line ends with 143 on SIGTERM; `ray.init` installs a handler that would end it with 15."""
    handlers = [lambda *_: None for _ in range(2)]

    def init(*_: Any, **__: Any) -> None:
        signal.signal(signal.SIGTERM, handlers[1])

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 1.0})
    before = signal.signal(signal.SIGTERM, handlers[0])
    try:
        RayWorkers(1)._connect()
        assert signal.getsignal(signal.SIGTERM) is handlers[0]
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        RayWorkers(1)._connect()
        assert signal.getsignal(signal.SIGTERM) is handlers[1]
    finally:
        signal.signal(signal.SIGTERM, before)
