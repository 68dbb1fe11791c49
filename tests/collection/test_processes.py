"""Processes that play side by side: the same episodes, errors that come through, nothing left running."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from agentgym_py.agents import ModelAgent, RandomAgent
from agentgym_py.collection import Collector, Job, PlayConfig, jobs_for
from agentgym_py.collection.executor import Assignment, deal
from agentgym_py.collection.processes import Workers
from agentgym_py.engine import SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, UnknownNameError, WorkerError
from agentgym_py.evaluation import summarise

pytest.importorskip("torch")

SHOP = EnvSpec("shop", {"max_steps": 3})
JOBS = jobs_for([SHOP], "train", range(35), attempts=2)
MAZE = EnvSpec("maze", {"max_steps": 3})
MAZE_JOBS = jobs_for([MAZE], "train", range(35), attempts=2)
"""Jobs of a world that each new process makes at once."""


@pytest.fixture(scope="module")
def workers(faulty_env: Any) -> Iterator[Workers]:
    """Two processes, which find that module, whichever test they are started for."""
    with Workers(2) as made:
        yield made


@pytest.fixture(scope="module")
def agent(tiny_policy: Any) -> ModelAgent:
    """A model that samples, with a hook such as libraries leave there, which cannot be pickled."""
    from agentgym_py.engine import HFEngine

    policy = copy.deepcopy(tiny_policy)
    policy.model.register_forward_hook(lambda *_: None)
    return ModelAgent(policy, HFEngine(policy, slots=16), SamplingParams(max_new_tokens=8))


def pids(workers: Workers) -> list[int]:
    """The processes that run."""
    return [each.process.pid for each in workers._running.values() if each.process.pid]


def test_two_processes_play_what_one_plays(workers: Workers, agent: ModelAgent) -> None:
    """Texts and token ids are equal, logprobs up to how sums round, all in the order of the jobs; heard as they end."""
    alone, heard = Collector(agent, PlayConfig(slots=16, seed=3)), list[str]()
    together = Collector(agent, replace(alone.play, executor=workers))
    expected = alone.collect_batch(JOBS)
    played = together.collect_batch(JOBS, lambda trajectory: heard.append(trajectory.id))
    assert len(pids(workers)) == 2
    assert [t.id for t in played] == [t.id for t in expected]
    assert sorted(heard) == sorted(t.id for t in played)
    for one, other in zip(expected, played, strict=True):
        assert one.provenance == other.provenance
        for a, b in zip(one.steps, other.steps, strict=True):
            assert a.tokens and b.tokens and replace(a, tokens=None) == replace(b, tokens=None)
            assert (a.tokens.context, a.tokens.ids) == (b.tokens.context, b.tokens.ids)
            assert a.tokens.logprobs == pytest.approx(b.tokens.logprobs, abs=1e-5)
    assert together.collect_batch(JOBS) == played  # bit for bit


def test_nobody_notices_that_a_process_died(workers: Workers, agent: ModelAgent) -> None:
    """A new one plays its share again, bit-identical, and each episode comes once."""
    collector, played = Collector(agent, PlayConfig(slots=16, executor=workers)), dict[int, Any]()
    expected = collector.collect_batch(JOBS)
    for number, trajectory in collector.stream(JOBS):
        assert number not in played
        played[number] = trajectory
        if len(played) == 9:
            first, other = pids(workers)
            os.kill(first, signal.SIGKILL)
    assert [played[i] for i in range(len(JOBS))] == expected
    assert other in pids(workers) and first not in pids(workers)


def test_a_process_that_dies_between_two_batches_is_replaced(workers: Workers) -> None:
    """By a new one, which plays the same."""
    collector = Collector(RandomAgent(), PlayConfig(executor=workers))
    expected = collector.collect_batch(MAZE_JOBS)
    first, other = pids(workers)
    os.kill(other, signal.SIGKILL)
    assert collector.collect_batch(MAZE_JOBS) == expected
    assert first in pids(workers) and other not in pids(workers)


def test_processes_that_die_again_and_again_are_an_error(workers: Workers, faulty_env: Any) -> None:
    """WorkerError says how they ended, as no world was at work; the next jobs are played by fresh ones."""
    workers.close()  # those that run do not know the module yet, and would die of that once
    with pytest.raises(WorkerError, match=r"died \(-9\), 2 times"):
        Collector(faulty_env.DyingAgent(), PlayConfig(executor=workers)).collect_batch(MAZE_JOBS)
    assert not pids(workers)
    assert len(Collector(RandomAgent(), PlayConfig(executor=workers)).collect_batch(MAZE_JOBS)) == len(MAZE_JOBS)


@pytest.mark.parametrize("begins", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("fault", "said"), [("hangs", "was not back after 1.5 s"), ("dies", "along (-9)")])
def test_a_faulty_world_is_no_evidence(
    workers: Workers, faulty_env: Any, tmp_path: Path, fault: str, said: str, begins: bool
) -> None:
    """Where it comes once nobody notices; else that episode has an error, and the others are as without it."""
    calm = jobs_for(EnvSpec("Faulty-v0"), "train", range(12))
    expected = Collector(faulty_env.FaultyAgent()).collect_batch(calm)
    steps = [each.steps for each in expected]
    assert len({each[0].reply for each in steps}) > 3 and all(len(each) == 3 for each in steps)
    collector = Collector(faulty_env.FaultyAgent(), PlayConfig(slots=8, executor=workers, step_timeout=1.5))
    once = {"fault": fault, "begins": begins, "mark": str(tmp_path / "mark")}
    played = collector.collect_batch(jobs_for(EnvSpec("Faulty-v0", once), "train", range(12)))
    assert (tmp_path / "mark").exists() and [each.steps for each in played] == steps
    assert all(each.success and each.error is None for each in played)
    always = EnvSpec("Faulty-v0", {"fault": fault, "begins": begins})
    played = collector.collect_batch(jobs_for(always, "train", range(12)))
    assert [each.steps for i, each in enumerate(played) if i != 1] == [*steps[:1], *steps[2:]]
    assert [i for i, each in enumerate(played) if each.error] == [1]
    assert said in str(played[1].error) and not played[1].success
    assert (summarise(played).errors, summarise(played).success.n) == (1, 11)


def test_a_world_that_hangs_as_it_is_closed_holds_up_nobody(workers: Workers, faulty_env: Any) -> None:
    """Its process is ended when all is played; nothing is lost, nobody is to blame, and the next jobs are played."""
    collector = Collector(faulty_env.FaultyAgent(), PlayConfig(executor=workers, step_timeout=1.5, retries=0))
    spec = EnvSpec("Faulty-v0", {"fault": "closes"})
    for _ in range(2):
        played = collector.collect_batch(jobs_for(spec, "train", range(6)))
        assert [(each.error, len(each.steps)) for each in played] == [(None, 3)] * 6
        assert not pids(workers)


def test_a_world_that_comes_back_as_it_is_ended_is_not_blamed() -> None:
    """Its episode is over, and its process gone: that is no death for which nobody can say why."""
    jobs = jobs_for("shop", "train", range(2))
    config = PlayConfig(step_timeout=1.5, retries=0)
    assignment = Assignment(RandomAgent(), config, list(enumerate(jobs)), late=0, finished={0})
    assert list(assignment.worker_died("(-9)")) == [] and assignment.share == [(1, jobs[1])]
    with pytest.raises(WorkerError, match=r"died \(-9\), 1 times"):
        list(assignment.worker_died("(-9)"))


def test_a_world_that_is_late_as_it_is_closed_is_forgotten() -> None:
    """The next crash is blamed on the job whose world was at work."""
    jobs = list(enumerate(jobs_for("shop", "train", range(6))))
    config = PlayConfig(step_threads=4, step_timeout=1.5, retries=0)
    assignment = Assignment(RandomAgent(), config, jobs)
    assert list(assignment.worker_died("(-9)", [1, 4])) == [] and assignment.share == [jobs[1], jobs[4]]
    assignment.finished |= {1, 4}
    assignment.late = 1
    assert list(assignment.worker_died("(-9)")) == [] and assignment.has_next()
    ((number, trajectory),) = assignment.worker_died("(-11)", [3])
    assert number == 5 and "took its process along (-11)" in str(trajectory.error)


def test_what_is_raised_there_is_raised_here(workers: Workers) -> None:
    """An unknown task of a job is the same error as in one process."""
    wrong = [*MAZE_JOBS, Job(MAZE, "maze/train/medium/none")]
    with pytest.raises(UnknownNameError, match="maze/train/medium/none"):
        Collector(RandomAgent(), PlayConfig(executor=workers)).collect_batch(wrong)


def test_who_leaves_a_stream_leaves_nothing_running(workers: Workers) -> None:
    """What the processes would still say of those jobs must not be taken for the next ones."""
    collector = Collector(RandomAgent(), PlayConfig(executor=workers))
    stream = collector.stream(MAZE_JOBS)
    next(iter(stream))
    running = pids(workers)
    stream.close()  # type: ignore[attr-defined]  # it is a generator
    assert len(running) == 2 and not pids(workers)
    assert [t.provenance.task_id for t in collector.collect_batch(MAZE_JOBS[:64])] == [
        t.provenance.task_id for t in Collector(RandomAgent()).collect_batch(MAZE_JOBS[:64])
    ]


def test_who_reads_as_many_episodes_as_jobs_leaves_no_stream_open(workers: Workers) -> None:
    """The workers are free when the last episode comes, and play the next jobs."""
    collector = Collector(RandomAgent(), PlayConfig(executor=workers))
    stream = collector.iter_ordered(MAZE_JOBS)
    played = [next(stream) for _ in MAZE_JOBS]
    before = pids(workers)
    assert collector.collect_batch(MAZE_JOBS) == played
    stream.close()
    assert len(before) == 2 and pids(workers) == before


def test_a_second_stream_beside_another_is_refused(workers: Workers) -> None:
    """The messages of one are never taken for those of the other, and the first one is not disturbed."""
    collector = Collector(RandomAgent(), PlayConfig(executor=workers))
    stream = collector.iter_ordered(MAZE_JOBS)
    played = [next(stream)]
    with pytest.raises(WorkerError, match="still play other jobs: read that stream to its end, or close it, first"):
        collector.collect_batch(MAZE_JOBS)
    assert [*played, *stream] == collector.collect_batch(MAZE_JOBS)


def test_ctrl_c_is_the_parents(workers: Workers) -> None:
    """The terminal sends it to every process of the group; those that play do not stop at it."""
    collector = Collector(RandomAgent(), PlayConfig(executor=workers))
    collector.collect_batch(MAZE_JOBS)
    before = pids(workers)
    for pid in before:
        os.kill(pid, signal.SIGINT)
    assert len(collector.collect_batch(MAZE_JOBS)) == len(MAZE_JOBS)
    assert pids(workers) == before


def test_few_jobs_start_no_process() -> None:
    """Starting one takes seconds."""
    with Workers(2) as idle:
        Collector(RandomAgent(), PlayConfig(executor=idle)).collect_batch(MAZE_JOBS[:8])
        assert not pids(idle)
    with pytest.raises(ConfigError, match="at least 1"):
        Workers(0)


def test_a_small_model_plays_in_as_many_processes_as_there_are_threads(tiny_policy: Any) -> None:
    """A large one in one, for its sums keep all threads busy."""
    import torch

    from agentgym_py.cli.runtime import executor_for

    large = Mock(num_parameters=135_000_000)
    large.model.device.type = "cpu"
    torch.set_num_threads(2)
    try:
        assert (executor_for(tiny_policy).number, executor_for(large).number) == (2, 1)
    finally:
        torch.set_num_threads(1)


def test_tries_at_a_task_stay_together() -> None:
    """Their beginnings are computed once where they are side by side; every job is dealt out once."""
    dealt = deal(JOBS, 3)
    assert sorted(number for share in dealt for number, _ in share) == list(range(len(JOBS)))
    tasks = [{job.task for _, job in share} for share in dealt]
    assert not (tasks[0] & tasks[1] or tasks[1] & tasks[2] or tasks[0] & tasks[2])
    assert [len(share) for share in dealt] == [24, 24, 22]


_PARENT = """
import os, signal
from agentgym_py.agents import RandomAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.collection.processes import Workers
from agentgym_py.env import EnvSpec
if __name__ == "__main__":
    workers = Workers(2)
    jobs = jobs_for([EnvSpec("maze", {"max_steps": 2})], "train", range(64))
    Collector(RandomAgent(), PlayConfig(executor=workers)).collect_batch(jobs)
    print(*(each.process.pid for each in workers._running.values()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_outlives_its_parent(tmp_path: Any) -> None:
    """After kill -9 of the parent its processes find nobody at the other end, and end."""
    script = tmp_path / "parent.py"
    script.write_text(_PARENT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = [int(pid) for pid in done.stdout.split()]
    assert len(left) == 2
    until = time.monotonic() + 60
    while any(_alive(pid) for pid in left) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(_alive(pid) for pid in left)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout[:1] != "Z"
