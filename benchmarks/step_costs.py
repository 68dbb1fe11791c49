"""What a step through MCP and through `gymnasium.make` costs beside one of `TextEnv.step`.

    python benchmarks/step_costs.py [--tasks 50] [--repeats 3]

The expert's calls of test tasks of AgentTools are repeated each way. The least CPU time of each way counts, so that
other programs disturb little. Bridges have the same by `python bridges/test.py NAME --time`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import closing

import anyio
import gymnasium
from mcp.client.client import Client

import agentgym_py as ag
from agentgym_py.env import EnvSpec
from agentgym_py.env.registration import env_id
from agentgym_py.serving.mcp_server import EpisodeServer
from agentgym_py.serving.tool_episode import EpisodeSettings
from agentgym_py.trajectory import Trajectory

WORLD = "tools"


def play_directly(episodes: list[Trajectory]) -> None:
    """Repeat the episodes in a `TextEnv`."""
    with closing(ag.make(WORLD)) as env:
        for episode in episodes:
            env.reset(options={"task": episode.task_id})
            for step in episode.steps:
                env.step(step.reply)


def play_by_gymnasium(episodes: list[Trajectory]) -> None:
    """Repeat them in the wrappers of `gymnasium.make`."""
    with closing(gymnasium.make(env_id(WORLD))) as env:
        for episode in episodes:
            env.reset(options={"task": episode.task_id})
            for step in episode.steps:
                env.step(step.reply)


def play_by_mcp(episodes: list[Trajectory]) -> None:
    """Repeat them by the official client, a session for each episode; client and server are in this process."""
    server = EpisodeServer(EpisodeSettings(EnvSpec(WORLD), "test"), lambda _: None)

    async def play() -> None:
        for episode in episodes:
            async with Client(server.single()) as client:
                for step in episode.steps:
                    await client.call_tool(step.action, json.loads(step.action_input or "{}"))

    anyio.run(play)


def cost(play: Callable[[list[Trajectory]], None], episodes: list[Trajectory], repeats: int) -> float:
    """Return the least CPU seconds of a step."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        play(episodes)
        times.append(time.process_time() - began)
    return min(times) / sum(len(episode.steps) for episode in episodes)


def main() -> None:
    """Print the costs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    episodes = ag.collect(WORLD, tasks=args.tasks, split="test")
    for name, play in (("TextEnv.step", play_directly), ("gymnasium.make", play_by_gymnasium), ("MCP", play_by_mcp)):
        print(f"{name}: {1e6 * cost(play, episodes, args.repeats):.0f} µs of CPU time a step, resets included")


if __name__ == "__main__":
    main()
