"""Experts' plans for the task of an episode, with which the episode is compared."""

from __future__ import annotations

import re
from typing import NamedTuple

from agentgym_py.env import TextEnv
from agentgym_py.trajectory import Trajectory


class ExpertPlan(NamedTuple):
    """An expert's plan for a task, executed."""

    reward: float
    tools: tuple[str, ...]
    """The name of the tool that each step calls."""
    repeated: int = 0
    """Number of actions that repeat an earlier one after the same observation."""


def play_expert(env: TextEnv, trajectory: Trajectory, fair: bool) -> ExpertPlan:
    """Let an expert play the episode's task from its start."""
    observation, _ = env.reset(seed=trajectory.provenance.env_seed, options={"task": trajectory.task_id})
    reward, tools, calls = 0.0, list[str](), list[tuple[str, str]]()
    while not env.stop_reason and (action := next_action(env, fair)) is not None:
        tools.append(tool_name(env.parse(action).action))
        calls.append((observation, action))
        observation, gained, *_ = env.step(action)
        reward += gained
    return ExpertPlan(reward, tuple(tools), len(calls) - len(set(calls)))


def next_action(env: TextEnv, fair: bool) -> str | None:
    """Return an expert's action in the current state; None if it has none."""
    return env.fair_expert() if fair else next(iter(env.expert()), None)


def tool_name(action: str) -> str:
    """Return the tool's name, or the first word of an action such as `click[back]`."""
    word = re.search(r"\w+", action)
    return word[0] if word else ""
