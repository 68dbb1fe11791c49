"""Any world of agentgym-py as environments of tinker-cookbook, in text.

    dataset = WorldDataset("shop", renderer, tasks=range(1000), group_size=8, batch_size=32)

A group is one task, so all its episodes start in the same state. After an infrastructure failure the rollout raises an
error and has no reward: tinker-cookbook's `RetryOnFailure` repeats it. The worlds of a group are closed at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from tinker_cookbook.renderers import Renderer
from tinker_cookbook.renderers.base import Message, get_text_content
from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, RLDataset

from agentgym_py.env import EnvSpec, Prompt
from agentgym_py.env.registration import short_name
from agentgym_py.errors import ConfigError, InfrastructureError
from agentgym_py.serving.async_episode import AsyncEpisode
from agentgym_py.serving.tool_episode import EpisodeSettings, ToolEpisode
from agentgym_py.trajectory.formats.foreign import ToolCall, reply_text


def _text(message: Message) -> str:
    """Return a reply without its thinking, and with the calls that the renderer took out of it."""
    calls = [ToolCall(call.function.name, call.function.arguments) for call in message.get("tool_calls", ())]
    broken = [call.raw_text for call in message.get("unparsed_tool_calls", ())]
    return "\n".join([reply_text(get_text_content(message), calls=calls), *broken])


class WorldMessages(MessageEnv):
    """An episode as messages: a reply of the model is a step, and the observation is the next user turn."""

    def __init__(self, settings: EpisodeSettings, task: str) -> None:
        self._settings, self._task = settings, task
        self._messages: list[Message] = []
        self._live: AsyncEpisode | None = None
        self._is_closed = False

    async def initial_observation(self) -> list[Message]:
        """Start the task; InfrastructureError if the world fails, or the group has ended."""
        self._live = await AsyncEpisode.start(partial(ToolEpisode, self._settings, self._task))
        if self._is_closed:
            await self.close()
        self._messages = [Message(role="user", content=self._episode().episode.opening)]
        return list(self._messages)

    async def step(self, message: Message) -> MessageStepResult:
        """Do one step; InfrastructureError if the world fails, and the episode is lost."""
        live = self._episode()
        try:
            turn = await live.step(_text(message))
        except InfrastructureError:
            await self.close()
            raise
        self._messages += [message, Message(role="user", content=turn.observation)]
        done = turn.stop_reason is not None
        metrics = {"valid_action": float(turn.valid)}
        if done:
            metrics |= {"success": float(live.episode.env.succeeded), f"stop/{turn.stop_reason}": 1.0}
            await self.close()
        logs = {"task": self._task, "observation": turn.observation}
        return MessageStepResult(turn.reward, done, list(self._messages), metrics, logs)

    def _episode(self) -> AsyncEpisode:
        if self._live is None:
            raise InfrastructureError("the world has been closed, because its group has ended")
        return self._live

    async def close(self) -> None:
        """Close the world; no later call opens it again."""
        self._is_closed, live, self._live = True, self._live, None
        if live is not None:
            await live.close()


@dataclass(frozen=True)
class WorldGroupBuilder(EnvGroupBuilder):
    """Builds the environments of a group: attempts at one task. It can be pickled."""

    settings: EpisodeSettings
    """The world and how its episodes start."""
    task: str
    """Id of the task."""
    group_size: int
    """Number of attempts."""
    renderer: Renderer
    """Turns messages into tokens and back."""
    max_trajectory_tokens: int | None = None
    """Length at which an episode is given up; what was gained until then counts."""
    _worlds: list[WorldMessages] = field(default_factory=list, init=False, repr=False, compare=False)
    """Those of `make_envs` that `cleanup` has not closed."""

    async def make_envs(self) -> Sequence[Env]:
        """Make one environment for each attempt."""
        worlds = [WorldMessages(self.settings, self.task) for _ in range(self.group_size)]
        self._worlds.extend(worlds)
        return [
            EnvFromMessageEnv(
                self.renderer, world, failed_parse_reward=0.0, context_overflow_reward=0.0,
                max_trajectory_tokens=self.max_trajectory_tokens,
            )
            for world in worlds
        ]  # fmt: skip

    async def cleanup(self) -> None:
        """Close the worlds, also those whose episode ended by its length or was left."""
        while self._worlds:
            await self._worlds.pop().close()

    def logging_tags(self) -> list[str]:
        """Return the world's name."""
        return [short_name(self.settings.spec.local_spec.name)]


class WorldDataset(RLDataset):
    """Batches of groups, by task.

    Args:
        env: The world.
        renderer: Turns messages into tokens and back.
        tasks: Numbers of the tasks.
        group_size: Attempts at each task.
        batch_size: Groups in a batch; the last batch may have fewer.
        split: Split of the tasks.
        prompt: Which rules text opens an episode.
        seed: Seed of the worlds: the same seed and task start in the same state.
        max_trajectory_tokens: Length at which an episode is given up; None: no limit.

    Raises:
        ConfigError, UnknownNameError: an argument is wrong, or there is no such world or task.
    """

    def __init__(
        self, env: EnvSpec | str, renderer: Renderer, *, tasks: Iterable[int], group_size: int, batch_size: int,
        split: str = "train", prompt: Prompt = "full", seed: int = 0, max_trajectory_tokens: int | None = None,
    ) -> None:  # fmt: skip
        if min(group_size, batch_size) < 1:
            raise ConfigError(f"group_size and batch_size must be at least 1, got {group_size} and {batch_size}")
        settings = EpisodeSettings.of_world(env, split=split, prompt=prompt, seed=seed)
        self._batch_size = batch_size
        self.builders = [
            WorldGroupBuilder(settings, task, group_size, renderer, max_trajectory_tokens)
            for task in settings.task_ids(tasks)
        ]

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        """Return the groups of a batch."""
        return self.builders[index * self._batch_size : (index + 1) * self._batch_size]

    def __len__(self) -> int:
        return -(-len(self.builders) // self._batch_size)
