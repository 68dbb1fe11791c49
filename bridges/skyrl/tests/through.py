"""The scripted agent through SkyRL-Gym, in the loop of its generator: init, step until done, metrics, close."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import skyrl_gym
from agentgym_skyrl import NAME, register, rows
from scripted import SEED, Played, Script, World

from agentgym_py.env import StopReason


def rows_of(world: World, scripts: Sequence[Script]) -> list[dict[str, Any]]:
    """The rows of the scripts' tasks, without rules."""
    register()
    return rows(world.spec, range(len(scripts)), prompt="none", seed=SEED)


def make(row: dict[str, Any], **more: Any) -> Any:
    """Make the environment of a row as SkyRL's generator does: all other columns are its extras."""
    extras = {key: value for key, value in row.items() if key not in ("prompt", "env_class")}
    return skyrl_gym.make(NAME, env_config={}, extras=extras | more)


def follow(row: dict[str, Any], script: Script) -> Played:
    """Play a script; a limit of turns ends those that are given up."""
    with closing(make(row, max_turns=len(script.actions))) as env:
        messages, _ = env.init(row["prompt"])
        seen, rewards, about = [messages[-1]["content"]], list[float](), dict[str, Any]()
        for action in script.actions:
            output = env.step(action)
            about = output["metadata"]
            seen.append(about["observation"])
            rewards.append(output["reward"])
            assert [message["content"] for message in output["observations"]] == seen[-1:] * (not output["done"])
        assert output["done"] and env.get_metrics() == {"success": float(about["success"]), "steps": len(rewards)}
    return Played(row["task"], tuple(seen), tuple(rewards), about["success"], StopReason(about["stop_reason"]))


def play(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play the scripts."""
    return [follow(row, script) for row, script in zip(rows_of(world, scripts), scripts, strict=True)]


TIMED = {"through SkyRL-Gym's environment, which is made for each episode": play}
