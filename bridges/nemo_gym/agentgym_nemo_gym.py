"""Any world of agentgym-py as a resources server of NeMo Gym, in text.

    # resources_servers/agentgym/app.py of a checkout of NeMo Gym
    from agentgym_nemo_gym import AgentGymServer

    if __name__ == "__main__":
        AgentGymServer.run_webserver()

NeMo Gym's `gymnasium_agent` plays it. A row is a task, so all its rollouts start in the same state. After an
infrastructure failure the server's status is 500: the rollout fails and has no reward.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Unpack

from fastapi import FastAPI, Request
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.server_utils import SESSION_ID_KEY
from resources_servers.gymnasium import GymnasiumServer, extract_text

from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.errors import InfrastructureError, ResetNeededError
from agentgym_py.serving.async_episode import AsyncEpisode
from agentgym_py.serving.task_rows import RowOptions, rows_with, start_row

AGENT = "agentgym_agent"
"""The agent of the rows: NeMo Gym's `gymnasium_agent` under this name."""


def rows(
    env: EnvSpec | str, tasks: Iterable[int], *, agent: str = AGENT, **options: Unpack[RowOptions]
) -> list[dict[str, Any]]:
    """Return rows of a data set, which are the lines of a JSONL file. The server tells the opening of a task itself.

    Args:
        env: The world.
        tasks: Numbers of the tasks.
        agent: Name of the agent in NeMo Gym's configuration.
        **options: `split`, `prompt` and `seed`, as in `RowOptions`.

    Raises:
        ConfigError, UnknownNameError: an argument is wrong, or there is no such world or task.
    """

    def columns(number: int, opening: str, row: Mapping[str, Any]) -> dict[str, Any]:
        del number, opening, row
        agent_ref = {"type": "responses_api_agents", "name": agent}
        return {"responses_create_params": {"input": []}, "agent_ref": agent_ref}

    return rows_with(columns, env, tasks, **options)


class AgentGymServer(GymnasiumServer):
    """Episodes by session; a reply of the model is a step."""

    def setup_webserver(self) -> FastAPI:
        """Add `/close`, which NeMo Gym's agent calls from version 0.6 on."""
        app = super().setup_webserver()

        @app.post("/close")
        async def close(request: Request) -> dict[str, bool]:
            await self.close_session(request.session.get(SESSION_ID_KEY))
            return {"closed": True}

        return app

    async def reset(self, metadata: Mapping[str, Any], session_id: str | None = None) -> tuple[str, dict[str, Any]]:
        """Start the task of a row and return its opening.

        Raises:
            ConfigError, UnknownNameError: a column of the row is missing or wrong.
            InfrastructureError: the world failed, or hangs.
        """
        await self.close_session(session_id)
        live = self.session_state[session_id] = await AsyncEpisode.start(partial(start_row, metadata))
        return live.episode.opening, {"task_id": live.episode.task.id, "supports_explicit_close": True}

    async def step(
        self, action: NeMoGymResponse, metadata: Mapping[str, Any], session_id: str | None = None
    ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
        """Do one step; after the last one the observation is in `info` only.

        Raises:
            InfrastructureError: the world failed, or hangs, and the episode is lost.
        """
        del metadata
        live = self.session_state.get(session_id)
        if live is None:
            raise ResetNeededError("there is no episode, or its world has failed: POST /reset first")
        try:
            turn = await live.step(extract_text(action))
        except InfrastructureError:
            await self.close_session(session_id)
            raise
        episode = live.episode
        info = {
            "success": bool(episode.env.succeeded), "steps": len(episode.steps), "valid_action": turn.valid,
            "stop_reason": str(turn.stop_reason or ""), "observation": turn.observation,
        }  # fmt: skip
        terminated = turn.stop_reason is StopReason.TERMINATED
        truncated = turn.stop_reason is not None and not terminated
        return None if turn.stop_reason else turn.observation, turn.reward, terminated, truncated, info

    async def close_session(self, session_id: str | None) -> None:
        """Close the world of a session."""
        live = self.session_state.pop(session_id, None)
        if live is not None:
            await live.close()
