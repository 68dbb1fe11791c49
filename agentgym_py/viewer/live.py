"""Going on from a stored episode: its state is rebuilt, then a person, an expert or a model acts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentgym_py.agents import Agent, AgentReply, Episode
from agentgym_py.collection import Collector, Job, PlayConfig
from agentgym_py.collection.branching import snapshots_at
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.job import StateSnapshot
from agentgym_py.env import Prompt, StopReason
from agentgym_py.env.actions import from_keyboard
from agentgym_py.errors import AgentGymError, UnknownNameError
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.engine import Engine
    from agentgym_py.policy import Policy

_LONGEST = 1000
"""Steps that an agent is let go on for, in worlds that end by nothing else."""


def plans(trajectory: Trajectory) -> list[list[str]]:
    """The expert's plan from the state before each step, as the replies done again lead there.

    Raises:
        AgentGymError: the world is not installed, or does not show what it showed then.
    """
    pool = EnvPool()
    try:
        states = snapshots_at(trajectory, range(len(trajectory.steps)), pool)
        env = pool.take(trajectory.env_spec())
        found = []
        for state in states:
            env.restore(state.snapshot)
            found.append(env.expert())
        return found
    finally:
        pool.close()


@dataclass(slots=True)
class Person:
    """An agent whose next reply was typed; what a world of tools reads in two lines may stand in one."""

    text: str
    name: str = "person"
    sampling: dict[str, Any] = field(default_factory=dict)
    policy_digest: str | None = None

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """The same reply for each."""
        return [AgentReply(from_keyboard(self.text, episode.env.tools())) for episode in episodes]


class Live:
    """A stored episode that continues from one of its steps."""

    def __init__(self, trajectory: Trajectory, at: int) -> None:
        """Go on from the state before step `at` (0 is the start).

        Raises:
            AgentGymError: the world is not installed, does not show what it showed then, or there is no such step.
        """
        self._spec, self._prompt = trajectory.env_spec(), cast(Prompt, trajectory.provenance.prompt)
        self._fork: StateSnapshot = snapshots_at(trajectory, [at])[0]
        self._task, self._split = trajectory.task_id, trajectory.split
        self._number = time.time_ns() // 1_000_000
        self._replies: list[AgentReply] = []
        self._agents: dict[str, Agent] = {}
        self._lock = threading.Lock()
        self.actions: list[str] | None = None
        """What can be done now, where the world lists it."""
        self.gave_up = False
        """Whether the agent that acted last had no reply: its context was full, or nothing was left to do."""
        self.trajectory = self._play(None)

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.trajectory.stop_reason is not StopReason.GAVE_UP

    def act(self, agent: Agent, steps: int = 1) -> Trajectory:
        """Let an agent act for a number of steps, or to the end of the episode; returns all of it so far."""
        with self._lock:
            self.gave_up = False
            more = min(steps, _LONGEST - len(self._replies))
            if not self.over and more > 0:
                self.trajectory = self._play(agent, more)
            return self.trajectory

    def _play(self, agent: Agent | None, steps: int = 0) -> Trajectory:
        """Do all replies so far again, from the state it began in, and up to `steps` more by `agent`."""
        acted = self._agents | ({agent.name: agent} if agent else {})
        alone = next(iter(acted.values())) if len(acted) == 1 else Person("")
        script = _Script(self, agent, steps, " and ".join(acted) or "nobody", alone.sampling, alone.policy_digest)
        job = Job(self._spec, self._task, self._split, self._number, self._fork)
        return Collector(script, PlayConfig(prompt=self._prompt)).collect(job)

    def said(self, agent: Agent, reply: AgentReply | None) -> None:
        """Keep what an agent replied."""
        self.gave_up = reply is None
        if reply is not None:
            self._replies.append(reply)
            self._agents[agent.name] = agent

    def reply(self, number: int) -> AgentReply | None:
        """The new reply at a step of the continued episode; None without one."""
        number -= len(self._fork.steps)
        return self._replies[number] if number < len(self._replies) else None


@dataclass(slots=True)
class _Script:
    """An agent that replies as before, then so often by another, then gives up, so that the state can be seen."""

    live: Live
    agent: Agent | None
    left: int
    """How many replies `agent` may still give."""
    name: str
    sampling: dict[str, Any]
    policy_digest: str | None

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        (episode,) = episodes
        reply = self.live.reply(len(episode.steps))
        if reply is None and self.agent is not None and self.left:
            reply = self.agent.act(episodes)[0]
            self.live.said(self.agent, reply)
            self.left -= 1
        self.live.actions = episode.env.actions() if reply is None else None
        return [reply]


class Models:
    """The models that may act: checkpoints beneath a folder, and what an evaluation there says it evaluated."""

    def __init__(self, root: Path, load: Callable[[str], Policy]) -> None:
        self._root, self._load = root, load
        self._engines: dict[str, tuple[Policy, Engine]] = {}
        self._lock = threading.Lock()

    def names(self) -> dict[str, str]:
        """By the name shown, what `Policy.load` takes."""
        found = {path.parent.relative_to(self._root).as_posix(): str(path.parent) for path in checkpoints(self._root)}
        evaluated = evaluated_model(self._root)
        return found | ({evaluated: evaluated} if evaluated else {})

    def act(self, live: Live, name: str, steps: int, temperature: float) -> Trajectory:
        """Let a model go on; one at a time.

        Raises:
            UnknownNameError: no model of that name.
            ConfigError, PolicyError: it cannot be loaded.
        """
        known = self.names()
        if name not in known:
            raise UnknownNameError(f"No model {name!r} here; there are {', '.join(known) or 'none'}.")
        with self._lock:
            return live.act(self._agent(name, known[name], temperature), steps)

    def _agent(self, name: str, folder: str, temperature: float) -> Agent:
        from agentgym_py.agents import ModelAgent
        from agentgym_py.engine import HFEngine, SamplingParams

        if name not in self._engines:
            self._engines.clear()  # one model in memory
            policy = self._load(folder)
            self._engines[name] = policy, HFEngine(policy, slots=1)
        return ModelAgent(*self._engines[name], SamplingParams(temperature=temperature, max_new_tokens=64), name)


def checkpoints(root: Path) -> list[Path]:
    """The `config.json` of every checkpoint beneath a folder."""
    return sorted(root.rglob("checkpoint/config.json"))


def evaluated_model(root: Path) -> str | None:
    """The model that played the evaluation in a folder: a built-in name or a folder that is still there.

    What another agent calls its model, such as an endpoint, is none.
    """
    from agentgym_py.evolution.run_folder import RunFolder
    from agentgym_py.policy.loading import BUILT_IN

    try:
        options: Any = RunFolder(root).read_json("result.json").get("options")
    except AgentGymError:
        return None
    played = isinstance(options, Mapping) and options.get("agent") in (None, "model")
    model = options.get("model") if played else None
    known = isinstance(model, str) and (model in BUILT_IN or (bool(model) and Path(model).is_dir()))
    return model if known else None
