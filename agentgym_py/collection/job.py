"""Jobs: the episodes to play."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, replace

from agentgym_py.env import EnvSpec, require_split
from agentgym_py.errors import ConfigError
from agentgym_py.trajectory import Step

MAX_JOBS = 10_000_000
"""Most episodes of a collection: their list takes some gigabytes."""


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A state of an episode from which others continue, and the steps before it."""

    snapshot: bytes
    """The env's own state, from `TextEnv.snapshot`."""
    rules: str
    """The text that opened the episode, made of `prompt`, `prompt_template` and `note`."""
    steps: tuple[Step, ...]
    """The episode so far, empty at its start. An episode that continues from here does not train on them."""
    observation: str
    """The observation in this state."""
    env_seed: int
    """Seed of the env's generator at the reset."""
    prompt: str
    prompt_template: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to play."""

    env: EnvSpec
    task: str | int
    """Task id, or number of a task of `split`."""
    split: str = "train"
    attempt: int = 0
    """Number of the attempt at this task; attempts differ in their seed."""
    start: StateSnapshot | None = None
    """The state that the episode continues from; None resets the env."""
    note: str | None = None
    """Text that follows the rules in the episode's opening, if it begins at a reset."""


def jobs_for(
    envs: Sequence[EnvSpec | str] | EnvSpec | str, split: str, tasks: Iterable[int], attempts: int = 1
) -> list[Job]:
    """List every task of every env, given by spec or name, `attempts` times; attempts at one task are adjacent.

    Raises:
        UnknownNameError: no such split.
        ConfigError: more than `MAX_JOBS` episodes.
    """
    require_split(split)
    listed = [envs] if isinstance(envs, EnvSpec | str) else envs
    specs = [EnvSpec(env) if isinstance(env, str) else env for env in listed]
    if isinstance(tasks, Sized):
        require_listable(_length(tasks) * len(specs) * attempts)
    return [Job(env, task, split, k) for task in tasks for env in specs for k in range(attempts)]


def require_listable(episodes: float) -> None:
    """Raise ConfigError for more than `MAX_JOBS` episodes."""
    if episodes > MAX_JOBS:
        raise ConfigError(
            f"more than {MAX_JOBS:,} episodes: ask for fewer tasks, because the list alone takes gigabytes"
        )


def _length(tasks: Sized) -> float:
    try:
        return len(tasks)
    except OverflowError:  # a range beyond the largest index
        return math.inf


def attempts_for_agent(jobs: Iterable[Job], agent: int, agents: int) -> list[Job]:
    """Renumber the attempts for one of several agents, so that no two agents share a seed."""
    return [replace(job, attempt=job.attempt * agents + agent) for job in jobs]
