"""Any world of agentgym-py as a taskset and environment of verifiers v1, in text.

    vf-eval agentgym-verifiers --env.taskset.env shop -n 100 -m MODEL --client.base-url URL --no-push

The world is the user of the conversation: each reply of the model is a step, and the observation is the next turn. The
trace has the reward `return`, and `success` and `steps` as metrics. After an infrastructure failure the episode has an
error and no reward.
"""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Iterator
from contextlib import closing
from functools import cache, partial
from typing import Any

import httpx
import verifiers.v1 as vf
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError
from pydantic import Field
from verifiers.v1.dialects.chat import message_to_wire

from agentgym_py.env import EnvSpec, Prompt
from agentgym_py.errors import UnknownNameError
from agentgym_py.serving.async_episode import AsyncEpisode
from agentgym_py.serving.tool_episode import EpisodeSettings, ToolEpisode

__all__ = [
    "AgentGymConfig", "AgentGymData", "AgentGymEnv", "AgentGymEnvConfig", "AgentGymTask", "AgentGymTaskset",
    "ChatHarness", "ChatHarnessConfig",
]  # fmt: skip


class AgentGymConfig(vf.TasksetConfig):
    """Settings of the taskset, as `--env.taskset.NAME`."""

    env: str = "shop"
    """Name of the world."""
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Its arguments."""
    split: str = "train"
    """Split of the tasks."""
    prompt: Prompt = "full"
    """Which rules text opens an episode."""
    seed: int = 0
    """Seed of the worlds: the same seed and task start in the same state."""


class AgentGymData(vf.TaskData):
    """One task of a world; `id` is the task's, and with the other fields it determines the start of an episode."""

    env: str
    env_kwargs: dict[str, Any]
    prompt_rules: Prompt
    seed: int
    calls: bool = False
    """Whether tools play it, as its rules then say."""


class AgentGymTask(vf.Task[AgentGymData, vf.State, vf.TaskConfig]):
    """A task, whose prompt is the rules and the first observation."""


class AgentGymTaskset(vf.Taskset[AgentGymTask, AgentGymConfig]):
    """The tasks of a split, in the order of their numbers; it ends only if the world has no more."""

    INFINITE = True

    def load(self) -> Iterator[AgentGymTask]:
        """Yield the tasks; errors as `load_data`."""
        return (AgentGymTask(data, self.config.task) for data in load_data(self.config))


def load_data(config: AgentGymConfig, *, calls: bool = False) -> Iterator[AgentGymData]:
    """Yield the data of a split's tasks, which replies or, with `calls`, tools play.

    Raises:
        ConfigError, UnknownNameError: a setting is wrong.
    """
    settings = EpisodeSettings(
        EnvSpec(config.env, config.env_kwargs), config.split, config.seed, config.prompt, calls=calls
    )
    with closing(settings.spec.make()) as world:
        for number in itertools.count():
            try:
                task = world.task(number, config.split)
            except UnknownNameError:
                return
            yield AgentGymData(
                id=task.id, name=task.id, prompt=settings.opening(world, task.id), env=config.env,
                env_kwargs=config.env_kwargs, prompt_rules=config.prompt, seed=config.seed, calls=calls,
            )  # fmt: skip


def settings_of(data: AgentGymData) -> EpisodeSettings:
    """Return how an episode of this task starts."""
    spec = EnvSpec(data.env, data.env_kwargs)
    return EpisodeSettings(spec, seed=data.seed, prompt=data.prompt_rules, calls=data.calls)


class AgentGymEnvConfig(vf.EnvConfig):
    """One agent, the player. Its harness runs in this process, so it needs no sandbox."""

    player: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class AgentGymEnv(vf.Env[AgentGymEnvConfig]):
    """An episode of a world with one player."""

    async def run(self, task: AgentGymTask, agents: vf.Agents) -> None:
        """Play until the world or a limit of the player ends the episode."""
        live = await AsyncEpisode.start(partial(ToolEpisode, settings_of(task.data), task.data.id))
        try:
            async with agents.player.interaction(task) as interaction:
                segment = await interaction.turn()
                while not segment.terminated:
                    turn = await live.step(segment.last_reply)
                    if turn.stop_reason:
                        break
                    segment = await interaction.turn(turn.observation)
        finally:
            await live.close()
        if interaction.trace.ok:  # else the model's endpoint has failed: no evidence about the model
            _record(interaction.trace, live.episode)


def _record(trace: vf.Trace, episode: ToolEpisode) -> None:
    """Record the outcome of an episode."""
    trace.record_reward("return", sum(step.reward for step in episode.steps), 1.0)
    trace.record_metric("success", float(episode.env.succeeded))
    trace.record_metric("steps", len(episode.steps))
    trace.info["stop_reason"] = str(episode.stop_reason or "gave_up")
    trace.info["final_observation"] = episode.observation


@cache
def _certificates() -> ssl.SSLContext:
    """Read the certificates once: 30 ms, which each client would take again."""
    return httpx.create_ssl_context()


class ChatHarnessConfig(vf.HarnessConfig):
    """Settings of the harness."""


class ChatHarness(vf.Harness[ChatHarnessConfig]):
    """One chat completion a turn, asked for in this process: no sandbox, no program, no tools."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: vf.Trace, runtime: Any, endpoint: str, secret: str, mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:  # fmt: skip
        """Ask for the reply to the conversation; verifiers records it."""
        system, prompt = self.resolve_prompt(data)
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or ()]
        try:
            connection = DefaultAsyncHttpxClient(verify=_certificates())
            async with AsyncOpenAI(
                base_url=endpoint, api_key=secret, max_retries=0, timeout=None, http_client=connection
            ) as client:
                await client.chat.completions.create(model=ctx.model, messages=messages)
        except OpenAIError as error:  # verifiers knows the cause, such as a limit or a provider's failure
            return vf.ProgramResult(1, "", str(error))
        return vf.ProgramResult(0, "", "")
