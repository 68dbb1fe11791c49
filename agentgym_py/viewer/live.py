"""Continue a stored episode: its state is rebuilt, then a person, an expert or a model acts."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import trust
from agentgym_py.agents import Agent, AgentReply, Episode
from agentgym_py.agents.human import PersonAgent
from agentgym_py.collection import Collector, Job
from agentgym_py.collection.branching import snapshots_at
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.job import StateSnapshot
from agentgym_py.env import StopReason, reply_tokens
from agentgym_py.env.actions import from_keyboard
from agentgym_py.errors import AgentGymError, UnknownNameError
from agentgym_py.files import walk
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.engine import Engine
    from agentgym_py.policy import Policy

_MAX_STEPS = 1000
"""Steps after which no agent continues an episode, for envs without an end of their own."""


def plans(trajectory: Trajectory) -> list[list[str]]:
    """Return the expert's plan before each step; the states are rebuilt by replaying the episode.

    Raises:
        AgentGymError: the env is not installed, or behaves differently on replay.
    """
    pool = EnvPool()
    try:
        states = snapshots_at(trajectory, range(len(trajectory.steps)), pool)
        env = pool.take(trajectory.replay_spec())
        state_plans = []
        for state in states:
            env.restore(state.snapshot)
            state_plans.append(env.expert())
        return state_plans
    finally:
        pool.close()


class TypedAgent(PersonAgent):
    """A person whose next reply was typed in the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Return the reply; a tool call may be typed in one line."""
        return [AgentReply(from_keyboard(self._text, episode.env.tools())) for episode in episodes]


class LiveEpisode:
    """A stored episode that continues from one of its steps."""

    def __init__(self, trajectory: Trajectory, at: int) -> None:
        """Continue from the state before step `at` (0 is the start).

        Raises:
            AgentGymError: the env is not installed or behaves differently on replay, or there is no such step.
        """
        self.spec = trajectory.env_spec()
        self._start: StateSnapshot = snapshots_at(trajectory, [at])[0]
        self._task, self._split = trajectory.task_id, trajectory.split
        self._number = secrets.randbits(48)
        self._replies: list[AgentReply] = []
        self._agents: dict[str, Agent] = {}
        self._lock = threading.Lock()
        self.actions: list[str] | None = None
        """The admissible actions, if the env lists them."""
        self.gave_up = False
        """Whether the last agent had no reply, for example because its context was full."""
        self.trajectory = self._replay(None)

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.trajectory.stop_reason is not StopReason.GAVE_UP

    def act(self, agent: Agent, steps: int = 1) -> Trajectory:
        """Let an agent act for a number of steps, or to the end; return the episode so far."""
        with self._lock:
            self.gave_up = False
            steps = min(steps, _MAX_STEPS - len(self._replies))
            if not self.over and steps > 0:
                self.trajectory = self._replay(agent, steps)
            return self.trajectory

    def _replay(self, agent: Agent | None, steps: int = 0) -> Trajectory:
        """Repeat all replies from the first state, followed by up to `steps` of `agent`."""
        agents = self._agents | ({agent.name: agent} if agent else {})
        script = _Script(self, agent, steps, " and ".join(agents) or "nobody")
        if len(agents) == 1:
            (only,) = agents.values()
            script.sampling, script.policy_digest = dict(only.sampling), only.policy_digest
        job = Job(self.spec, self._task, self._split, self._number, self._start)
        return Collector(script).collect(job)

    def record(self, agent: Agent, reply: AgentReply | None) -> None:
        """Record what an agent replied."""
        self.gave_up = reply is None
        if reply is not None:
            self._replies.append(reply)
            self._agents[agent.name] = agent

    def recorded_reply(self, number: int) -> AgentReply | None:
        """Return the recorded reply at a step, or None."""
        number -= len(self._start.steps)
        return self._replies[number] if number < len(self._replies) else None


@dataclass(slots=True)
class _Script:
    """An agent that repeats recorded replies, lets another agent act, and then gives up to show the state."""

    live: LiveEpisode
    agent: Agent | None
    remaining: int
    """Replies that `agent` may still give."""
    name: str
    sampling: dict[str, Any] = field(default_factory=dict)
    policy_digest: str | None = None

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        (episode,) = episodes
        reply = self.live.recorded_reply(len(episode.steps))
        if reply is None and self.agent is not None and self.remaining:
            reply = self.agent.act(episodes)[0]
            self.live.record(self.agent, reply)
            self.remaining -= 1
        self.live.actions = episode.env.actions() if reply is None else None
        return [reply]


class Models:
    """The models that can act: checkpoints below a folder, and the model of an evaluation in it."""

    def __init__(self, root: Path, load: Callable[[str], Policy]) -> None:
        self._root, self._load = root, load
        self._engines: dict[str, tuple[Policy, Engine]] = {}
        self._lock = threading.Lock()

    def names(self) -> dict[str, str]:
        """Return what `Policy.load` takes, by the name that the page shows."""
        names = {path.parent.relative_to(self._root).as_posix(): str(path.parent) for path in checkpoints(self._root)}
        evaluated = evaluated_model(self._root)
        return names | ({evaluated: evaluated} if evaluated else {})

    def act(self, live: LiveEpisode, name: str, steps: int, temperature: float) -> Trajectory:
        """Let a model act; one model at a time.

        Raises:
            UnknownNameError: no model of that name.
            ConfigError, PolicyError: it cannot be loaded.
        """
        names = self.names()
        if name not in names:
            raise UnknownNameError(f"No model {name!r} here; there are {', '.join(names) or 'none'}.")
        with self._lock:
            return live.act(self._agent(live, name, names[name], temperature), steps)

    def _agent(self, live: LiveEpisode, name: str, folder: str, temperature: float) -> Agent:
        from agentgym_py.agents import ModelAgent
        from agentgym_py.engine import HFEngine, SamplingParams

        if name not in self._engines:
            self._engines.clear()  # one model in memory
            policy = self._load(folder)
            self._engines[name] = policy, HFEngine(policy, slots=1)
        params = SamplingParams(temperature=temperature, max_new_tokens=reply_tokens([live.spec]))
        return ModelAgent(*self._engines[name], params, name)


def checkpoints(root: Path) -> list[Path]:
    """Return the configuration file of every checkpoint below a folder."""
    names = ("config.json", "adapter_config.json")
    found = sorted(path for path in walk(root) if path.parent.name == "checkpoint" and path.name in names)
    return [path for path in found if path.resolve().is_relative_to(root.resolve())]


def evaluated_model(root: Path) -> str | None:
    """Return the model of the evaluation in a folder: a built-in name, or a folder if it still exists.

    The model of another agent, such as an API endpoint, does not count, nor a folder elsewhere that the user has not
    named: the evaluation may come from a stranger.
    """
    from agentgym_py.evolution.run_folder import RunFolder
    from agentgym_py.policy.loading import BUILT_IN

    try:
        options: Any = RunFolder(root).read_json("result.json").get("options")
    except AgentGymError:
        return None
    is_model = isinstance(options, Mapping) and options.get("agent") in (None, "model")
    model = options.get("model") if is_model else None
    if not isinstance(model, str) or not model:
        return None
    is_ours = model in BUILT_IN or (Path(model).is_dir() and trust.is_place_named(model))
    return model if is_ours else None
