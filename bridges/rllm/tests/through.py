"""The scripted agent through rLLM: its engine of agent flows, with a local server of chat completions as its model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agentgym_rllm import AgentGymFlow, outcome, rows
from chat_server import Reply, chat_server, reply_of
from checks import play_rows
from rllm.data.utils import interleave_tasks
from rllm.engine.agentflow_engine import AgentFlowEngine
from rllm.types import Episode
from rllm.workflows.workflow import TerminationReason
from scripted import SEED, Played, Script, World

from agentgym_py.env import StopReason


class Gateway:
    """In the place of rLLM's gateway, whose traces need the tokens of a vLLM server: it keeps none."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get_session_url(self, uid: str, public: bool = False) -> str:
        """Return the address of the model."""
        return self.url

    async def aget_traces(self, uid: str) -> list[Any]:
        """Return no traces."""
        return []

    async def adelete_session(self, uid: str) -> None:
        """Forget nothing."""

    async def adelete_sessions(self, uids: list[str]) -> None:
        """Forget nothing."""


def run(
    table: Sequence[dict[str, Any]], reply: Reply, attempts: int = 1, max_turns: int | None = None, **engine: Any
) -> list[Episode]:
    """Play rows by rLLM's engine, each in a group."""

    async def episodes(url: str) -> list[Episode]:
        flows = AgentFlowEngine(
            AgentGymFlow(max_turns), outcome, Gateway(url), model="scripted", n_parallel_tasks=8, **engine
        )
        tasks, ids = interleave_tasks(list(table), attempts)
        try:
            return await flows.execute_tasks(tasks, ids)
        finally:
            flows.shutdown()

    with chat_server(reply) as url:
        return asyncio.run(episodes(url))


def rows_of(world: World, scripts: Sequence[Script]) -> list[dict[str, Any]]:
    """The rows of the scripts' tasks, without rules."""
    return rows(world.spec, range(len(scripts)), prompt="none", seed=SEED)


def read(episode: Episode) -> Played:
    """Read an episode of rLLM; the rewards of its steps add up to its own."""
    (trajectory,), about = episode.trajectories, episode.artifacts
    assert sum(step.reward for step in trajectory.steps) == trajectory.reward
    assert episode.metrics["steps"] == len(trajectory.steps) == trajectory.signals["steps"]
    assert [step.done for step in trajectory.steps] == [False] * (len(trajectory.steps) - 1) + [True]
    reason = StopReason(about["stop_reason"])
    gave_up = episode.termination_reason is TerminationReason.MAX_TURNS_EXCEEDED
    assert gave_up is (reason is StopReason.GAVE_UP)
    seen = [step.input for step in trajectory.steps]
    rewards = tuple(step.reward for step in trajectory.steps)
    return Played(episode.task["task"], (*seen, about["final_observation"]), rewards, episode.is_correct, reason)


def play(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play the scripts; those that are given up end at a limit of one turn."""
    return play_rows(
        rows_of(world, scripts), scripts, lambda rows, limit: map(read, run(rows, reply_of(scripts), 1, limit))
    )


TIMED = {"through rLLM's engine with a local server, which is in it": play}
