"""The scripted agent through ART: `gather_trajectory_groups`, with a local server of chat completions as its model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import art
from agentgym_art import world_groups
from chat_server import Reply, chat_server, reply_of
from checks import play_rows
from scripted import SEED, Played, Script, World

from agentgym_py.env import StopReason


def run(
    world: World, reply: Reply, tasks: Sequence[int], attempts: int = 1, max_turns: int | None = None, **gather: Any
) -> list[art.TrajectoryGroup]:
    """Gather a group for each task."""

    async def groups(url: str) -> list[art.TrajectoryGroup]:
        model = art.Model(name="scripted", project="test", inference_api_key="none", inference_base_url=url)
        waiting = world_groups(
            world.spec, tasks, model, group_size=attempts, prompt="none", seed=SEED, max_turns=max_turns
        )
        return await art.gather_trajectory_groups(waiting, pbar_desc=None, **gather)

    with chat_server(reply) as url:
        return asyncio.run(groups(url))


def read(trajectory: art.Trajectory) -> Played:
    """Read a trajectory of ART."""
    messages, about = trajectory.messages(), trajectory.metadata
    assert [message["role"] for message in messages] == ["user", "assistant"] * int(trajectory.metrics["steps"])
    seen = [str(message["content"]) for message in messages if message["role"] == "user"]
    return Played(
        str(about["task"]), (*seen, str(about["final_observation"])), (trajectory.reward,),
        trajectory.metrics["success"] == 1, StopReason(about["stop_reason"]),
    )  # fmt: skip


def play(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play the scripts; those that are given up end at a limit of one turn."""

    def play_some(numbers: Sequence[int], limit: int | None) -> list[Played]:
        groups = run(world, reply_of(scripts), numbers, max_turns=limit)
        return [read(trajectory) for group in groups for trajectory in group]

    return play_rows(range(len(scripts)), scripts, play_some)


TIMED = {"through ART with a local server, which is in it": play}
