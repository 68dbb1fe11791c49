"""An episode that a client plays by tool calls or replies, and its trajectory."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, Self

from agentgym_py.agents.chat import call_text, offered_tools
from agentgym_py.checks import require_field_types
from agentgym_py.collection.env_turn import (
    EnvTurn,
    flag,
    read_digest,
    read_partner,
    read_reply,
    read_start,
    read_task,
    read_turn,
    read_version,
)
from agentgym_py.env import EnvSpec, Prompt, StopReason, TextEnv, require_split
from agentgym_py.env.arguments import require_prompt, require_seed
from agentgym_py.env.tracebacks import contained
from agentgym_py.errors import ConfigError
from agentgym_py.files import canonical_json
from agentgym_py.rng import seed_of
from agentgym_py.trajectory import Provenance, Step, Trajectory
from agentgym_py.trajectory.formats.openai import ACT_TOOL
from agentgym_py.trajectory.types import opening_text, tool_rules
from agentgym_py.version import __version__

HAS_ENDED = "The episode has ended."


@dataclass(frozen=True, slots=True)
class EpisodeSettings:
    """What all episodes of a server have in common."""

    spec: EnvSpec
    split: str = "train"
    """Split of tasks that are given by number."""
    seed: int = 0
    """Seed of the worlds, as in `agentgym collect`: the same seed and task start in the same state."""
    prompt: Prompt = "full"
    """Which rules text opens an episode."""
    tools: bool = True
    """Whether to offer the world's tools; False: only `act`, which takes an action's text."""
    calls: bool = False
    """Whether the agent is offered these tools, as its opening then says; False: it acts by replies."""

    def __post_init__(self) -> None:
        require_split(self.split)
        require_prompt(self.prompt)
        require_field_types(self)
        require_seed(self.seed)

    @classmethod
    def of_world(
        cls, env: EnvSpec | str, env_kwargs: Mapping[str, Any] | None = None, *, split: str = "train", seed: int = 0,
        prompt: Prompt = "full",
    ) -> Self:  # fmt: skip
        """Return the settings of a world that can be made.

        Args:
            env: The world; a name with the arguments `env_kwargs`.
            env_kwargs: Arguments of the world.
            split: Split of tasks that are given by number.
            seed: Seed of the worlds.
            prompt: Which rules text opens an episode.

        Raises:
            ConfigError: an argument is wrong.
            UnknownNameError: there is no such world or split.
        """
        settings = cls(EnvSpec(env, dict(env_kwargs or {})) if isinstance(env, str) else env, split, seed, prompt)
        settings.spec.make().close()
        return settings

    def task_ids(self, numbers: Iterable[int]) -> list[str]:
        """Return the ids of the split's tasks with these numbers; UnknownNameError if it has none of one."""
        return self.spec.task_ids(self.split, numbers)

    def opening(self, world: TextEnv, task: str) -> str:
        """Start a task in a world of `spec`, and return what opens its episode: the rules and the first observation."""
        observation, _ = world.reset(seed=seed_of(self.seed, "world", task), options={"task": task})
        return self.opening_text(world.rules[self.prompt], observation)

    def opening_text(self, rules: str, observation: str) -> str:
        """Return what opens an episode whose world has said these rules and this observation."""
        return opening_text(tool_rules(rules) if self.calls else rules, observation)


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The limits of a server's sessions."""

    sessions: int = 100
    """Number of simultaneous sessions (http)."""
    idle: float = 600.0
    """Seconds without a request after which a session is closed (http); its episode is an infrastructure failure."""
    longest: float = 30.0
    """Seconds after which a call of the world counts as hanging, and its episode as an infrastructure failure."""
    request_bytes: int = 1 << 20
    """Longest request in bytes (http)."""
    threads: int = 8
    """Threads that run worlds."""

    def __post_init__(self) -> None:
        for limit in fields(SessionLimits):
            if not getattr(self, limit.name) > 0:
                raise ConfigError(f"{limit.name} must be above 0, got {getattr(self, limit.name)}")


class ToolEpisode:
    """A live episode. Its calls may come from any thread, one at a time.

    Args:
        settings: The world and how episodes start.
        task: Id of the task, or its number within the split.
        env: An environment of `settings.spec` to use again; None makes one.

    Raises:
        UnknownNameError: there is no such task.
        InfrastructureError: the world failed.
    """

    def __init__(self, settings: EpisodeSettings, task: str | int, env: TextEnv | None = None) -> None:
        self.settings = settings
        self.env = settings.spec.make() if env is None else env
        try:
            with contained(f"{settings.spec.name} fails at its first observation"):
                self._begin(task)
        except BaseException:
            with suppress(Exception):
                self.env.close()
            raise
        self.opening = settings.opening_text(self.rules, self.observation)
        """Rules and first observation: what the model must read before its first call."""
        self.steps: list[Step] = []
        self.stop_reason: StopReason | None = None
        """How the world ended the episode; None while it runs."""

    def _begin(self, name: str | int) -> None:
        settings, env = self.settings, self.env
        self.task = read_task(env.task(name, settings.split if isinstance(name, int) else None))
        self.env_seed = seed_of(settings.seed, "world", self.task.id)  # that of the collector
        start = env.reset(seed=self.env_seed, options={"task": self.task.id})
        self.rules, self.observation = read_start(start, settings.prompt, env)
        self.files_digest, self.version = read_digest(env), read_version(env)
        self.tools = self._offered_tools()

    def _offered_tools(self) -> list[dict[str, Any]]:
        return offered_tools(self.env) if self.settings.tools else [ACT_TOOL]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> EnvTurn:
        """Do one call. After the end of the episode it does nothing and is not recorded.

        Raises:
            InfrastructureError: the world failed.
        """
        if self.stop_reason:
            return self.step("")
        with contained(f"{self.settings.spec.name} failed"):
            text = call_text(self.env, self.tools, tool, json.dumps(arguments, ensure_ascii=False))
        return self.step(text)

    def step(self, text: str) -> EnvTurn:
        """Do one step, given as a whole reply; otherwise as `call`."""
        if self.stop_reason:
            return EnvTurn(HAS_ENDED, 0.0, self.stop_reason, False, {}, {})
        with contained(f"{self.settings.spec.name} failed"):
            turn = read_turn(self.env.step(text))
            flag(self.env.succeeded, "success")
            reading = read_reply(self.env.last_reply or self.env.read(text))
            self.tools = self._offered_tools()
        self.steps.append(Step(self.observation, text, *reading, turn.reward, turn.valid, turn.parts, costs=turn.costs))
        self.observation, self.stop_reason = turn.observation, turn.stop_reason
        return turn

    def trajectory(self, agent: str, error: str | None = None) -> Trajectory:
        """Return the episode so far; the agent has given up one that has not ended. `error` is what failed.

        Raises:
            InfrastructureError: the world has no record of its partner's moves.
        """
        with contained(f"{self.settings.spec.name} failed"):
            partner = None if error else read_partner(self.env)
        spec, task = self.settings.spec.local_spec, self.task
        digest = "@" + hashlib.sha256(canonical_json(spec.kwargs).encode()).hexdigest()[:8] if spec.kwargs else ""
        return Trajectory(
            id=f"{task.id}{digest}#{uuid.uuid4().hex[:12]}",
            provenance=Provenance(
                env_id=spec.name, env_version=self.version, env_kwargs=dict(spec.kwargs), task_id=task.id,
                seed=self.settings.seed, agent=agent, sampling={"tools": True} if self.settings.calls else {},
                prompt=self.settings.prompt, package_version=__version__, env_seed=self.env_seed,
                files_digest=self.files_digest,
            ),
            split=task.split, kind=task.kind, difficulty=task.difficulty, instruction=task.instruction,
            rules=self.rules, steps=tuple(self.steps), final_observation=self.observation,
            reward=sum(step.reward for step in self.steps), success=error is None and bool(self.env.succeeded),
            stop_reason=self.stop_reason or StopReason.GAVE_UP, optimal_steps=task.optimal_steps, error=error,
            partner=partner,
        )  # fmt: skip

    def close(self) -> None:
        """Close the world."""
        with contained(f"{self.settings.spec.name} fails as it is closed"):
            self.env.close()
