"""What a family of tasks defines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.planner import Planner
from agentgym_envs.lab.site import Goal, Site


@dataclass(frozen=True, slots=True)
class Family:
    """Task kinds that share things, rules and a way to solve them."""

    points: Mapping[str, Mapping[str, int]]
    """For each kind the subgoals and their points, 100 in all; the last one solves the task and gives all 100."""
    draw: Callable[[Site, str], Goal]
    """Furnishes a laboratory for a kind and returns the goal."""
    progress: Callable[[Lab], Sequence[bool]]
    """Tells which subgoals hold now, in the order of `points`; a subgoal once reached counts until the end."""
    accepts: Callable[[Lab, str], bool]
    """Tells whether it is right to focus on a name now; a wrong focus ends the episode."""
    advise: Callable[[Planner], str]
    """Returns the next command towards the goal; LostError if the fair expert cannot go on."""


def count_right(lab: Lab, names: Sequence[str]) -> int:
    """Return how many names of a sequence the agent has focused on, in their order."""
    return sum(a == b for a, b in zip(lab.focused, names, strict=False))
