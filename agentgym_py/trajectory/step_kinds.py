"""Kinds of steps: what a step of an episode teaches, for trainers that weigh kinds differently."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache

from agentgym_py import registry
from agentgym_py.env.registration import stored_env_class
from agentgym_py.errors import AgentGymError, ConfigError
from agentgym_py.trajectory.types import Trajectory

StepKind = Callable[[Trajectory, int], str]
"""A function of the group `agentgym.step_kinds`: the kind of the step with this number, from 0."""


def by_action(trajectory: Trajectory, number: int) -> str:
    """Return the kind of a step, by the first of these rules that holds.

    - `timing`: the world ended the episode with it, so the agent chose when to stop.
    - `retrieval`: its action only reads, as the world declares it (`TextEnv.reading_actions`).
    - `planning`: it has a thought.
    - `tool_selection`: all others.

    It is a convention: a step with a thought that chooses a tool counts as planning alone.
    """
    step = trajectory.steps[number]
    if trajectory.terminated and number == len(trajectory.steps) - 1:
        return "timing"
    name = re.match(r"\s*(\w*)", step.action)
    if name and any(fnmatchcase(name[1], pattern) for pattern in _reading_actions(trajectory.provenance.env_id)):
        return "retrieval"
    return "planning" if step.thought.strip() else "tool_selection"


@cache
def _reading_actions(env_id: str) -> tuple[str, ...]:
    """Return the patterns of a world; none if it is not installed here."""
    try:
        return tuple(stored_env_class(env_id).reading_actions)
    except AgentGymError:
        return ()


def load_step_kind(name: str) -> StepKind:
    """Return the function of a name or source (`FILE.py:NAME`), which raises ConfigError if it returns no text."""
    function: StepKind = registry.load("agentgym.step_kinds", name)

    def kind_of(trajectory: Trajectory, number: int) -> str:
        try:
            kind = function(trajectory, number)
        except Exception as error:  # a stranger's function may raise anything
            raise ConfigError(
                f"the kind function {name} failed for step {number} of {trajectory.id}: "
                f"{registry.describe_error(error)}"
            ) from error
        if not isinstance(kind, str):
            raise ConfigError(f"the kind function {name} must return a text, and returned {kind!r:.60}")
        return kind

    return kind_of
