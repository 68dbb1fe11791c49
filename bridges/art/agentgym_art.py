"""Any world of agentgym-py as rollouts of ART, in text.

    groups = await art.gather_trajectory_groups(
        world_groups("shop", range(32), model, group_size=8, max_completion_tokens=256), max_exceptions=10
    )
    await backend.train(model, groups)

A group is one task, so its trajectories start in the same state. After an infrastructure failure `rollout` raises an
error: ART counts it among the group's exceptions, and there is no trajectory and no reward.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Any

import art

from agentgym_py.env import EnvSpec, Prompt
from agentgym_py.errors import ConfigError
from agentgym_py.serving.chat_play import Message, play_chat
from agentgym_py.serving.tool_episode import EpisodeSettings, ToolEpisode


async def rollout(
    settings: EpisodeSettings, task: str, model: art.Model[Any, Any], *, max_turns: int | None = None, **request: Any
) -> art.Trajectory:
    """Play one episode. The reward is its return; `success` and `steps` are metrics.

    Args:
        settings: The world and how its episodes start.
        task: Id of the task.
        model: A model of ART whose inference address is known.
        max_turns: Number of replies after which the model gives up; None: the world's own limit.
        **request: More arguments of a chat completion, such as `temperature` and `max_completion_tokens`.

    Raises:
        ConfigError, UnknownNameError: an argument is wrong, or there is no such world or task.
        InfrastructureError: the world failed.
        openai.OpenAIError: the model's endpoint failed.
    """
    client, name = model.openai_client(), model.get_inference_name()
    history: art.MessagesAndChoices = []

    async def reply(messages: list[Message]) -> str:
        completion = await client.chat.completions.create(model=name, messages=messages, **request)
        history.extend([messages[-1], completion.choices[0]])
        return completion.choices[0].message.content or ""

    episode = await play_chat(partial(ToolEpisode, settings, task), reply, name, max_turns)
    return art.Trajectory(
        messages_and_choices=history,
        reward=episode.reward,
        metrics={"success": float(episode.success), "steps": len(episode.steps)},
        metadata={
            "task": task, "stop_reason": str(episode.stop_reason), "final_observation": episode.final_observation,
        },
    ).finish()  # fmt: skip


def world_groups(
    env: EnvSpec | str, tasks: Iterable[int], model: art.Model[Any, Any], *, group_size: int, split: str = "train",
    prompt: Prompt = "full", seed: int = 0, max_turns: int | None = None, **request: Any,
) -> list[Awaitable[art.TrajectoryGroup]]:  # fmt: skip
    """Return a group of rollouts for each task, for `art.gather_trajectory_groups`.

    Args:
        env: The world.
        tasks: Numbers of the tasks.
        model: The model of ART.
        group_size: Attempts at each task.
        split: Split of the tasks.
        prompt: Which rules text opens an episode.
        seed: Seed of the worlds: the same seed and task start in the same state.
        max_turns: As for `rollout`.
        **request: As for `rollout`.

    Raises:
        ConfigError, UnknownNameError: an argument is wrong, or there is no such world or task.
    """
    if group_size < 1:
        raise ConfigError(f"group_size must be at least 1, got {group_size}")
    settings = EpisodeSettings.of_world(env, split=split, prompt=prompt, seed=seed)
    return [
        art.TrajectoryGroup(rollout(settings, task, model, max_turns=max_turns, **request) for _ in range(group_size))
        for task in settings.task_ids(tasks)
    ]
