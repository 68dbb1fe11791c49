"""An env that hangs, dies, raises or is slow on request, importable by worker processes."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium

from agentgym_py.agents import AgentReply, Episode, RandomAgent
from agentgym_py.agents.base import ReplyStream
from agentgym_py.env import Outcome, Reply, Task, TextEnv


class FaultyEnv(TextEnv):
    """Count up to three; task `at` fails in its second step or, with `begins`, at its reset.

    With the path `mark` it fails once: the file is written at the failure.
    """

    name = "faulty"
    rules = {"full": "Count.", "brief": "Count.", "none": ""}  # noqa: RUF012  # nothing changes it

    def __init__(
        self, *, fault: str = "", at: int = 1, begins: bool = False, mark: str = "", max_steps: int = 9,
        split: str = "train", render_mode: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)
        self.fault, self.at, self.begins, self.mark, self.count = fault, at, begins, mark, 0

    def task(self, name: str | int, split: str | None = None) -> Task:
        """Task `faulty/split/n`."""
        full = f"faulty/{split or self.split}/{name}" if isinstance(name, int) else name
        return Task(full, full.split("/")[1], "count", "easy", "Count.")

    def begin(self, task: Task) -> str:
        """Start at 0."""
        self.count = 0
        if self.begins:
            self._trouble(task)
        return "0"

    def act(self, reply: Reply) -> Outcome:
        """Count one up and repeat the reply."""
        assert self.current_task is not None
        if self.count == 1 and not self.begins:
            self._trouble(self.current_task)
        self.count += 1
        over = self.count == 3
        return Outcome(f"{self.count} {reply.action} {self.rng.below(100)}", float(over), over, over)

    def actions(self) -> list[str]:
        """List ten words."""
        return [f"word{n}" for n in range(10)]

    def expert(self) -> list[str]:
        """Return any word for each step left."""
        return ["word0"] * (3 - self.count)

    def state(self) -> dict[str, Any]:
        """Return the count."""
        return {"count": self.count}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Restore the count."""
        self.count = int(state["count"])

    def close(self) -> None:
        """Hang if the fault is `closes`."""
        if self.fault == "closes":
            time.sleep(3600)

    def _trouble(self, task: Task) -> None:
        if not task.id.endswith(f"/{self.at}") or (self.mark and Path(self.mark).exists()):
            return
        if self.mark:
            Path(self.mark).touch()
        if self.fault == "hangs":
            ctypes.PyDLL(None).sleep(3600)  # holds the interpreter's lock: no thread and no signal's handler runs
        elif self.fault == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.fault == "raises":
            raise OSError("no world")
        elif self.fault == "slow":
            time.sleep(0.3)
        elif self.fault == "sleeps":
            time.sleep(3600)


class SlowEnv(FaultyEnv):
    """An env of four steps that take `seconds` each."""

    name = "slow"

    def __init__(
        self, *, seconds: float = 0.5, max_steps: int = 4, split: str = "train", render_mode: str | None = None
    ) -> None:
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)
        self.seconds = seconds

    def act(self, reply: Reply) -> Outcome:
        """Sleep, as an env does that waits for a browser."""
        time.sleep(self.seconds)
        self.count += 1
        return Outcome(f"{self.count} {reply.action} {self.rng.below(100)}")


class StreamedAgent(RandomAgent):
    """Reply to one episode after another, as a model does whose replies end at different times."""

    def reply_stream(self) -> ReplyStream:
        """Reply to the episode that waits longest."""
        return lambda live: [(number, self.act([episode])[0]) for number, episode in list(live.items())[:1]]


class ServedAgent(RandomAgent):
    """Reply asynchronously, as a server does."""

    is_async = True

    async def areply(self, episode: Episode) -> AgentReply | None:
        """Reply after 10 ms."""
        await asyncio.sleep(0.01)
        return self.act([episode])[0]


class FaultyAgent(RandomAgent):
    """A random agent; unpickling it imports this file and so registers the env."""


class DyingAgent(RandomAgent):
    """An agent that kills its process."""

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Kill the process."""
        os.kill(os.getpid(), signal.SIGKILL)
        return super().act(episodes)


faulty: Any = FaultyEnv
gymnasium.register(id="Faulty-v0", entry_point=faulty)
slow: Any = SlowEnv
gymnasium.register(id="Slow-v0", entry_point=slow)
