"""Any world of agentgym-py as a text environment of SkyRL-Gym.

    register()                                # as environment class "agentgym"
    datasets.Dataset.from_list(rows("shop", range(1000))).to_parquet("train.parquet")

A row is a task, so all trajectories of a group start in the same state. After an infrastructure failure `step` raises
an error, and there is no reward.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Unpack

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, InfrastructureError, ResetNeededError
from agentgym_py.serving.task_rows import RowOptions, require_opening, rows_with, start_row
from agentgym_py.serving.tool_episode import ToolEpisode

NAME = "agentgym"
"""The environment class of the rows."""


def register() -> None:
    """Register the environment with SkyRL-Gym; a second call does nothing."""
    if NAME not in skyrl_gym.registry:
        skyrl_gym.register(id=NAME, entry_point="agentgym_skyrl:AgentGymEnv")


def rows(env: EnvSpec | str, tasks: Iterable[int], **options: Unpack[RowOptions]) -> list[dict[str, Any]]:
    """Return rows of a data set, whose prompt is the opening of a task; arguments and errors are as in `task_rows`."""
    return rows_with(_columns, env, tasks, **options)


def _columns(number: int, opening: str, row: Mapping[str, Any]) -> dict[str, Any]:
    del number
    return {"prompt": [{"role": "user", "content": opening}], "env_class": NAME, "data_source": row["world"]}


class AgentGymEnv(BaseTextEnv):
    """An episode of a world; a reply of the model is a step.

    Args:
        env_config: Not used.
        extras: The columns of the row, and `max_turns`, SkyRL's own limit.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        del env_config
        self._row = extras or {}
        self.max_turns = self._row.get("max_turns")
        self._episode: ToolEpisode | None = None

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Start the task; its opening is the prompt already.

        Raises:
            ConfigError: a column of the row is missing or wrong, or the prompt is not what the world says.
            UnknownNameError: there is no such world or task.
            InfrastructureError: the world failed.
        """
        self.close()
        self.turns, self._episode = 0, start_row(self._row)
        try:
            require_opening(self._row, prompt, self._episode)
        except ConfigError:
            self.close()
            raise
        return prompt, {"task_id": self._episode.task.id}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Do one step; after the last one the observation is in the metadata only.

        Raises:
            InfrastructureError: the world failed, and the episode is lost.
        """
        if self._episode is None:
            raise ResetNeededError("there is no episode, or its world has failed: call init first")
        try:
            turn = self._episode.step(action)
        except InfrastructureError:
            self.close()
            raise
        self.turns += 1
        done = turn.stop_reason is not None or (self.max_turns is not None and self.turns >= self.max_turns)
        about = {
            "observation": turn.observation, "valid_action": turn.valid, "success": bool(self._episode.env.succeeded),
            "stop_reason": str(turn.stop_reason or ("gave_up" if done else "")),
        }  # fmt: skip
        seen = [] if done else [{"role": "user", "content": turn.observation}]
        return BaseTextEnvStepOutput(observations=seen, reward=turn.reward, done=done, metadata=about)

    def get_metrics(self) -> dict[str, Any]:
        """Return success and the number of steps; nothing if the world has failed."""
        if self._episode is None:
            return {}
        return {"success": float(self._episode.env.succeeded), "steps": len(self._episode.steps)}

    def close(self) -> None:
        """Close the world."""
        episode, self._episode = self._episode, None
        if episode is not None:
            with suppress(InfrastructureError):
                episode.close()
