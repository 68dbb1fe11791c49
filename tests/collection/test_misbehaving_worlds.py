"""Worlds that misbehave: their episode is an infrastructure error with its reason; all others are untouched."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.agents import Agent, Episode, ExpertAgent, RandomAgent
from agentgym_py.agents.mixed import MixedAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.collection.branching import snapshots_at
from agentgym_py.collection.episode import EpisodeLoop
from agentgym_py.collection.executor import Assignment, portable
from agentgym_py.collection.processes import Workers
from agentgym_py.collection.ray import Player
from agentgym_py.collection.replay import replay_all
from agentgym_py.collection.torchrun import Ranks
from agentgym_py.collection.watchdog import Watchdog
from agentgym_py.env import EnvSpec, PartnerRecord
from agentgym_py.errors import ConfigError, InfrastructureError, WorkerError
from agentgym_py.evaluation import summarise
from agentgym_py.trajectory import Trajectory, store

sys.path.append(str(Path(__file__).parent.parent))  # where worker processes find the worlds
worlds: Any = import_module("misbehaving_env")
HERE = worlds.VALUES | worlds.ERRORS | worlds.PLANS | worlds.ACTIONS
"""Faults from which episodes in this process are protected."""


def collect(fault: str, agent: Agent, play: PlayConfig, tasks: int = 3) -> list[Trajectory]:
    """Play one episode at each task; task 1 has the fault."""
    return Collector(agent, play).collect_batch(
        jobs_for(EnvSpec("Misbehaving-v0", {"fault": fault}), "train", range(tasks))
    )


def require_contained(fault: str, trajectories: list[Trajectory], honest: list[Trajectory], path: Path) -> None:
    """Require that task 1 alone ended with the fault's reason, and that statistics and store are as without it."""
    assert [number for number, t in enumerate(trajectories) if t.error is not None] == [1]
    error = str(trajectories[1].error)
    assert worlds.FAULTS[fault].reason in error and len(error) < 1000
    assert [(t.task_id, t.steps, t.reward) for t in trajectories if not t.error] == [
        (t.task_id, t.steps, t.reward) for number, t in enumerate(honest) if number != 1
    ]
    summary = summarise(trajectories)
    assert (summary.errors, summary.success.n) == (1, len(honest) - 1)
    assert summary.reward.value == summarise([honest[0], *honest[2:]]).reward.value
    assert store.write(path / "t.jsonl", trajectories) == len(honest)
    assert list(store.read(path / "t.jsonl")) == trajectories


@pytest.mark.parametrize("step_threads", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fault", HERE)
def test_a_misbehaving_world_is_an_infrastructure_error(fault: str, step_threads: int, tmp_path: Path) -> None:
    """In this process: a value that no record holds, an error of any kind, a wrong plan or list of actions."""
    agent = ExpertAgent() if fault in worlds.PLANS else RandomAgent()
    play = PlayConfig(slots=2, step_threads=step_threads)
    require_contained(fault, collect(fault, agent, play), collect("", agent, play), tmp_path)


def test_a_world_whose_texts_fill_a_line_is_an_infrastructure_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is short enough, but all together are more than a store takes."""
    honest = collect("", RandomAgent(), PlayConfig())
    sizes = [len(store.to_line(trajectory)) for trajectory in honest]
    monkeypatch.setattr("agentgym_py.collection.episode._LONG", 3)
    monkeypatch.setattr(store, "MOST_BYTES", max(sizes) - 1)
    trajectories = collect("", RandomAgent(), PlayConfig())
    assert [bool(t.error) for t in trajectories] == [size == max(sizes) for size in sizes]
    assert any("its world says too much" in str(t.error) for t in trajectories)


def test_a_partner_whose_moves_fill_a_line_is_an_infrastructure_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moves count as the other texts do."""
    monkeypatch.setattr(worlds.MisbehavingEnv, "partner_record", PartnerRecord("4f", ("x" * 50_000,) * 2))
    monkeypatch.setattr("agentgym_py.collection.episode._LONG", 90_000)
    monkeypatch.setattr(store, "MOST_BYTES", 90_000)
    for trajectory in collect("", RandomAgent(), PlayConfig()):
        assert "its world says too much" in str(trajectory.error)


def test_a_text_of_a_worlds_own_class_is_a_plain_one() -> None:
    """Another process need not know the class."""
    (_, trajectory, _) = collect("text of its own", RandomAgent(), PlayConfig())
    assert trajectory.error is None and type(trajectory.final_observation) is str
    assert {type(step.observation) for step in trajectory.steps} == {str}


def test_a_world_that_exits_as_it_is_closed_ends_nothing() -> None:
    """Its episode is over, and the others are played."""
    assert [t.error for t in collect("exit in close", RandomAgent(), PlayConfig())] == [None] * 3


def test_a_copy_of_the_process_ends_as_it_returns(tmp_path: Path) -> None:
    """A world that forks returns twice; the copy would play, write and report every later episode again."""
    pid, written = os.getpid(), tmp_path / "pids"
    honest = collect("", RandomAgent(), PlayConfig())
    try:
        trajectories = collect("forks", RandomAgent(), PlayConfig())
    finally:
        with written.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if os.getpid() != pid:
            os._exit(1)
    os.wait()
    assert [t.steps for t in trajectories] == [t.steps for t in honest]
    assert written.read_text().split() == [str(pid)]


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """One process beside this one."""
    with Workers(1) as made:
        yield made


LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="limits are set as on Linux")
IN_ANOTHER_PROCESS = [
    pytest.param(fault, marks=pytest.mark.slow if fault == "exits cleanly" else ()) for fault in worlds.DEADLY
]


@LINUX
@pytest.mark.parametrize("fault", IN_ANOTHER_PROCESS)
def test_a_world_that_ends_or_exhausts_its_process_is_an_infrastructure_error(
    fault: str, workers: Workers, tmp_path: Path
) -> None:
    """In workers: the process is replaced, and the other episodes are played."""
    asks_expert = worlds.FAULTS[fault].method == "expert"
    agent = worlds.MisbehavingExpert() if asks_expert else worlds.MisbehavingAgent()
    play = PlayConfig(executor=workers, step_timeout=60.0, retries=0)
    require_contained(fault, collect(fault, agent, play), collect("", agent, PlayConfig()), tmp_path)
    (worker,) = workers._running.values()
    assert int(Path(f"/proc/{worker.process.pid}/oom_score_adj").read_text()) >= 500  # it is killed before its parent


@pytest.mark.parametrize("step_threads", [0, 2])
@pytest.mark.parametrize(("fault", "agent"), [("expert error", ExpertAgent()), ("actions error", RandomAgent())])
def test_what_an_agent_asks_of_a_world_is_shown_as_a_call_into_it(
    fault: str, agent: Agent, step_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its job, in a lane of its own: a parent process ends a world that does not return."""
    beats, calls = [0.0] * 6, list[list[int]]()

    def look(env: Any, result: Any) -> Any:
        calls.append([int(beats[2 * lane + 1]) for lane in range(3) if beats[2 * lane]])
        return result

    monkeypatch.setitem(worlds.FAULTS, fault, worlds.Fault(worlds.FAULTS[fault].method, look, ""))
    play = PlayConfig(step_threads=step_threads)
    jobs = jobs_for(EnvSpec("Misbehaving-v0", {"fault": fault}), "train", range(3))
    trajectories = dict(EpisodeLoop(agent, play).stream(jobs, Watchdog(None, beats)))
    assert [t.error for t in trajectories.values()] == [None] * 3
    assert calls == [[1]] * 3 and beats[::2] == [0.0] * 3


@LINUX
@pytest.mark.parametrize("fault", ["reward nan", "info set", "reset none", "system exit", "long-winded"])
def test_a_fault_is_the_same_error_wherever_episodes_are_played(fault: str, workers: Workers, tmp_path: Path) -> None:
    """In a worker, in a rank, in a Ray actor."""
    agent, honest = worlds.MisbehavingAgent(), collect("", RandomAgent(), PlayConfig())
    jobs = list(enumerate(jobs_for(EnvSpec("Misbehaving-v0", {"fault": fault}), "train", range(3))))
    with Ranks() as ranks:
        found = [
            collect(fault, agent, PlayConfig(executor=workers, step_timeout=60.0, retries=0)),
            collect(fault, agent, PlayConfig(executor=ranks, retries=0)),
        ]
    messages: Any = Player().play((agent, PlayConfig(retries=0)), jobs, has_died=False)
    reported = dict(messages)
    for number, trajectories in enumerate([*found, [reported[k] for k in range(3)]]):
        (tmp_path / str(number)).mkdir()
        require_contained(fault, trajectories, honest, tmp_path / str(number))


@LINUX
def test_what_a_world_prints_in_a_worker_is_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    """As in the command's own process."""
    with Workers(1) as workers:
        collect("prints an escape", worlds.MisbehavingAgent(), PlayConfig(executor=workers, step_timeout=60.0))
    assert r"\x1b]0;title\x07" in capfd.readouterr().out


@LINUX
def test_an_actor_after_a_death_plays_in_a_process_beside_it(tmp_path: Path) -> None:
    """On Ray: an actor cannot say which world ended it, but one whose process beside it dies can."""
    agent, play = worlds.MisbehavingAgent(), PlayConfig(retries=0)
    share = list(enumerate(jobs_for(EnvSpec("Misbehaving-v0", {"fault": "exits"}), "train", range(3))))
    assignment = Assignment(agent, replace(play, retries=1), share)
    player = Player()
    try:
        assert list(assignment.worker_died("(gone)")) == [] and assignment.deaths
        messages: Any = player.play((agent, play), assignment.share, has_died=bool(assignment.deaths))
        reported = dict(messages)
    finally:
        player._beside.close()
    require_contained("exits", [reported[k] for k in range(3)], collect("", RandomAgent(), PlayConfig()), tmp_path)


@LINUX
def test_a_rank_plays_in_a_process_beside_it(tmp_path: Path) -> None:
    """With a `step_timeout`: a world that ends its process does not end one that trains."""
    with Ranks() as ranks:
        play = PlayConfig(executor=ranks, step_timeout=60.0, retries=0)
        trajectories = collect("exits", worlds.MisbehavingAgent(), play)
    require_contained("exits", trajectories, collect("", RandomAgent(), PlayConfig()), tmp_path)


def test_an_expert_that_fails_in_place_of_a_model_is_an_infrastructure_error() -> None:
    """A model's stream of replies to other episodes continues."""
    agent = object.__new__(MixedAgent)
    agent.expert, agent.expert_share = ExpertAgent(), 1.0
    env = EnvSpec("Misbehaving-v0", {"fault": "expert error"}).make()
    observation, _ = env.reset(seed=0, options={"task": 1})
    assert env.current_task
    reply = agent._expert_reply(Episode(env, env.current_task, 0, "", observation))
    assert reply and "IndexError('no plan')" in str(reply.error)


class StrangeError(Exception):
    """An error that no other process can build again."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def test_an_error_that_cannot_be_sent_is_told_in_words() -> None:
    """A process that died of sending it would be started again, and then named as the failure."""
    sent = portable(StrangeError(1, 2))
    assert isinstance(sent, WorkerError) and "StrangeError('1 and 2')" in str(sent)
    error = ConfigError("no slots")
    assert portable(error) is error


@pytest.mark.parametrize("fault", ["error", "system exit", "exit in reset", "observation none"])
def test_a_world_that_fails_on_replay_is_a_difference(fault: str) -> None:
    """Other episodes are replayed."""
    honest = [replace(t, provenance=replace(t.provenance, env_kwargs={"fault": fault})) for t in
              collect("", RandomAgent(), PlayConfig())]  # fmt: skip
    results = list(replay_all(honest))
    assert [result.holds for result in results] == [True, False, True]
    assert results[1].difference and results[1].difference.what in ("error", "observation", "last observation")


def test_a_world_that_fails_as_it_is_made_is_skipped_on_replay() -> None:
    """With its error; other episodes are replayed."""
    honest = collect("", RandomAgent(), PlayConfig())
    kwargs = {"fault": "error as it is made"}
    changed = [replace(t, provenance=replace(t.provenance, env_kwargs=kwargs)) for t in honest[1:2]]
    skipped, *others = replay_all([*changed, honest[0], honest[2]])
    assert "RuntimeError('no licence')" in str(skipped.skipped) and all(result.holds for result in others)


def test_a_world_that_exits_while_states_are_rebuilt_is_an_infrastructure_error() -> None:
    """As branches and labels of an expert do."""
    honest = collect("", RandomAgent(), PlayConfig())[1]
    with pytest.raises(InfrastructureError, match="the world raised SystemExit"):
        snapshots_at(honest, [2], spec=EnvSpec("Misbehaving-v0", {"fault": "system exit"}))


def test_a_world_that_exits_as_it_is_made_is_one_line() -> None:
    """Its arguments, or itself, are wrong."""
    with pytest.raises(ConfigError, match=r"cannot be made with .*: SystemExit\(4\)"):
        EnvSpec("Misbehaving-v0", {"fault": "exit as it is made"}).make()
