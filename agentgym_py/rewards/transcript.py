"""Episodes as text for a judge: quoted as JSON, so that nothing in them can pose as a part of the question."""

from __future__ import annotations

import json

from agentgym_py.trajectory import Trajectory


def quote_episode(trajectory: Trajectory) -> list[str]:
    """Return the texts of the world and of the agent in their order, each as a line of JSON."""
    lines = list[str]()
    for step in trajectory.steps:
        lines += [quote("world", step.observation), quote("agent", step.reply)]
    return [*lines, quote("world", trajectory.final_observation)]


def quote_task(trajectory: Trajectory) -> str:
    """Return the rules and the task of an episode, two lines of JSON."""
    return f"{quote('rules', trajectory.rules)}\n{quote('task', trajectory.instruction)}"


def quote(name: str, text: str) -> str:
    """Return a named text as a line of JSON."""
    return json.dumps({name: text}, ensure_ascii=False).encode("utf-8", "replace").decode()
