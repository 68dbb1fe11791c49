"""A world in trouble, for processes that import it: it hangs where nothing can stop it, dies, raises or is slow."""

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


class TroubledEnv(TextEnv):
    """Count up to three; in the second step of task `at` the `trouble` comes, or at its beginning.

    With a `mark`, a file, it comes once: the file is written then.
    """

    name = "troubled"
    rules = {"full": "Count.", "brief": "Count.", "none": ""}  # noqa: RUF012  # nothing changes it

    def __init__(
        self, *, trouble: str = "", at: int = 1, begins: bool = False, mark: str = "", max_steps: int = 9,
        split: str = "train", render_mode: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)
        self.trouble, self.at, self.begins, self.mark, self.count = trouble, at, begins, mark, 0

    def task(self, name: str | int, split: str | None = None) -> Task:
        """Task `troubled/split/n`."""
        full = f"troubled/{split or self.split}/{name}" if isinstance(name, int) else name
        return Task(full, full.split("/")[1], "count", "easy", "Count.")

    def begin(self, task: Task) -> str:
        """At 0."""
        self.count = 0
        if self.begins:
            self._trouble(task)
        return "0"

    def act(self, reply: Reply) -> Outcome:
        """One more; what was said is repeated."""
        assert self.current_task is not None
        if self.count == 1 and not self.begins:
            self._trouble(self.current_task)
        self.count += 1
        over = self.count == 3
        return Outcome(f"{self.count} {reply.action} {self.rng.below(100)}", float(over), over, over)

    def actions(self) -> list[str]:
        """Any of ten words."""
        return [f"word{n}" for n in range(10)]

    def expert(self) -> list[str]:
        """Anything."""
        return ["word0"] * (3 - self.count)

    def state(self) -> dict[str, Any]:
        """The count."""
        return {"count": self.count}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Take it up."""
        self.count = int(state["count"])

    def close(self) -> None:
        """Hang here where that is the trouble."""
        if self.trouble == "closes":
            time.sleep(3600)

    def _trouble(self, task: Task) -> None:
        if not task.id.endswith(f"/{self.at}") or (self.mark and Path(self.mark).exists()):
            return
        if self.mark:
            Path(self.mark).touch()
        if self.trouble == "hangs":
            ctypes.PyDLL(None).sleep(3600)  # holds the interpreter's lock: no thread and no signal's handler runs
        elif self.trouble == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.trouble == "raises":
            raise OSError("no world")
        elif self.trouble == "slow":
            time.sleep(0.3)
        elif self.trouble == "sleeps":
            time.sleep(3600)


class SlowEnv(TroubledEnv):
    """Four steps, each of which takes `seconds`."""

    name = "slow"

    def __init__(
        self, *, seconds: float = 0.5, max_steps: int = 4, split: str = "train", render_mode: str | None = None
    ) -> None:
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)
        self.seconds = seconds

    def act(self, reply: Reply) -> Outcome:
        """Sleep, as one does who waits for a browser."""
        time.sleep(self.seconds)
        self.count += 1
        return Outcome(f"{self.count} {reply.action} {self.rng.below(100)}")


class StreamedAgent(RandomAgent):
    """Replies to one episode after the other, as a model does whose replies end at different times."""

    def reply_stream(self) -> ReplyStream:
        """The episode that waits longest."""
        return lambda live: [(number, self.act([episode])[0]) for number, episode in list(live.items())[:1]]


class ServedAgent(RandomAgent):
    """Replies as a server does."""

    is_async = True

    async def areply(self, episode: Episode) -> AgentReply | None:
        """After a moment."""
        await asyncio.sleep(0.01)
        return self.act([episode])[0]


class TroubledAgent(RandomAgent):
    """Who unpickles it has imported this file, and so registered the world."""


class DyingAgent(RandomAgent):
    """It takes its process along."""

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Never replies."""
        os.kill(os.getpid(), signal.SIGKILL)
        return super().act(episodes)


world: Any = TroubledEnv
gymnasium.register(id="Troubled-v0", entry_point=world)
slow: Any = SlowEnv
gymnasium.register(id="Slow-v0", entry_point=slow)
