"""Worlds that something else runs."""

from __future__ import annotations

import json
from contextlib import closing
from typing import ClassVar, cast

import pytest

from agentgym_py.env import Reply, StopReason
from agentgym_py.env.foreign import ForeignEnv, ForeignTurn
from agentgym_py.errors import ConfigError, InfrastructureError, ResetNeededError, SnapshotError, UnknownNameError


class Server:
    """A counter to 3 that may change, fail, or have no room."""

    step_size, fails, full, opened = 1, False, False, 0


class Session:
    """A session of it."""

    def __init__(self, server: Server) -> None:
        if server.full:
            raise InfrastructureError("no room")
        self.server, self.total = server, 0
        server.opened += 1

    def reset(self, split: str, number: int) -> str:
        if self.server.fails:
            raise InfrastructureError("the server is gone")
        self.total = 0
        return f"{split} {number}"

    def step(self, reply: Reply, text: str) -> ForeignTurn:
        if self.server.fails:
            raise InfrastructureError("the server is gone")
        assert text.strip().endswith(reply.action)
        if reply.action == "stop":
            return ForeignTurn("stopped", truncated=True)
        self.total += self.server.step_size
        over = self.total >= 3
        return ForeignTurn(str(self.total), float(over), terminated=over, success=over, valid=reply.action == "more")

    def close(self) -> None:
        self.server.opened -= 1


class CounterEnv(ForeignEnv):
    """The counter."""

    name: ClassVar[str] = "counter"

    def __init__(self, server: Server, max_steps: int = 10) -> None:
        super().__init__(max_steps=max_steps)
        self.server = server

    def connect(self) -> Session:
        return Session(self.server)

    def task_count(self, split: str) -> int | None:
        return 5 if split == "test" else None


def test_an_episode_is_that_of_the_session() -> None:
    """Observation, reward, validity, success and both ends."""
    with closing(CounterEnv(Server())) as env:
        with pytest.raises(ResetNeededError):
            env.step("more")
        assert env.reset(options={"task": 4, "split": "test"})[0] == "test 4"
        assert env.step("less")[:4] == ("1", 0.0, False, False)
        assert not env.step("less")[4]["valid_action"] and not env.succeeded
        observation, reward, terminated, truncated, info = env.step("more")
        assert (observation, reward, terminated, truncated, info["success"]) == ("3", 1.0, True, False, True)
        assert env.step("more")[0] == "The episode has ended." and env.steps == 3
        env.reset()
        assert env.step("stop")[2:4] == (False, True) and env.stop_reason is StopReason.TRUNCATED
    with closing(CounterEnv(Server(), max_steps=1)) as env:
        env.reset()
        assert env.step("more")[2:4] == (False, True)


def test_tasks_are_numbered_by_split() -> None:
    """Their ids name split and number; a number beyond the split is an error."""
    env = CounterEnv(Server())
    assert env.task(7).id == "counter/train/any/7" and env.task("counter/test/any/4").split == "test"
    assert all(env.task(env.sample_task("test").id).split == "test" for _ in range(20))
    wrong = [-1, "counter/test/any/5", "other/test/any/1", "counter/test/hard/1", "counter/test/any/01"]
    for name in cast("list[str | int]", wrong):
        with pytest.raises(UnknownNameError):
            env.task(name)
    with pytest.raises(UnknownNameError, match="5 tasks"):
        env.task(5, "test")
    with pytest.raises(ConfigError, match="no expert"):
        env.expert()


def test_a_snapshot_is_restored_by_repeating_the_replies() -> None:
    """In another environment and in the same one, also after the end; each environment has one session."""
    server = Server()
    with closing(CounterEnv(server)) as one, closing(CounterEnv(server)) as other:
        one.reset(options={"task": 3})
        one.step("more")
        one.step('{"name": broken')  # a reply that may not reach the session
        middle = one.snapshot()
        one.step("more")
        one.step("more")
        one.step("more")
        end = one.snapshot()
        other.restore(middle)
        assert other.snapshot() == middle and server.opened == 2
        while other.stop_reason is None:
            other.step("more")
        assert other.succeeded
        other.restore(end)
        assert other.snapshot() == end and other.step("more")[0] == "The episode has ended."
        one.restore(middle)
        assert one.step("more") is not None and server.opened == 2
    assert server.opened == 0


def test_a_world_that_answers_differently_is_not_restored() -> None:
    """Nor one without a second session, and nor broken replies; nothing changes."""
    server = Server()
    with closing(CounterEnv(server)) as env:
        env.reset(options={"task": 3})
        env.step("more")
        snapshot = env.snapshot()
        broken = json.loads(snapshot)
        broken["state"]["replies"] = [1]
        with pytest.raises(SnapshotError, match="replies"):
            env.restore(json.dumps(broken).encode())
        server.step_size = 2
        with pytest.raises(SnapshotError, match="differently"):
            env.restore(snapshot)
        server.full = True
        with pytest.raises(InfrastructureError, match="no room"):
            env.restore(snapshot)
        assert env.snapshot() == snapshot and server.opened == 1
        assert env.step("more")[0] == "3"


def test_a_lost_session_is_no_evidence() -> None:
    """A step raises, further steps too, and a reset opens another session."""
    server = Server()
    with closing(CounterEnv(server)) as env:
        env.reset()
        server.fails = True
        with pytest.raises(InfrastructureError, match="gone"):
            env.step("more")
        assert env.steps == 0 and server.opened == 0
        with pytest.raises(InfrastructureError, match="reset"):
            env.step("more")
        with pytest.raises(InfrastructureError, match="gone"):
            env.reset()
        server.fails = False
        env.reset()
        assert env.step("more")[0] == "1"


def test_an_answer_of_another_form_is_no_evidence_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever reading it raises: of a step, of a start, and of the replies that are repeated."""
    with closing(CounterEnv(Server())) as env, closing(CounterEnv(Server())) as copy:
        env.reset(options={"task": 1})
        env.step("more")
        state = env.snapshot()
        answer: dict[str, ForeignTurn] = {}
        monkeypatch.setattr(Session, "step", lambda self, reply, text: answer["observation"])
        with pytest.raises(InfrastructureError, match="counter failed: KeyError"):
            copy.restore(state)
        with pytest.raises(InfrastructureError, match="counter failed: KeyError"):
            env.step("more")
        assert env.server.opened == copy.server.opened == 0
        monkeypatch.setattr(Session, "reset", lambda self, split, number: [][number])
        with pytest.raises(InfrastructureError, match="first observation: IndexError"):
            env.reset()
        assert env.server.opened == 0
