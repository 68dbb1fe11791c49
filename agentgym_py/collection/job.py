"""What is to be played."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agentgym_py.env import EnvSpec, checked_split
from agentgym_py.trajectory import Step


@dataclass(frozen=True, slots=True)
class Fork:
    """A state of an episode from which others go on, and what led there."""

    snapshot: bytes
    """The world, as `TextEnv.snapshot` gives it."""
    rules: str
    steps: tuple[Step, ...]
    """The episode so far; none for a start. Who goes on from here does not learn from them."""
    observation: str
    """What is seen there."""
    env_seed: int
    """Seed of the world's generator at the reset."""


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to be played."""

    env: EnvSpec
    task: str | int
    """Task id, or number of a task of `split`."""
    split: str = "train"
    attempt: int = 0
    """Number of the try at this task; tries differ in their seed."""
    fork: Fork | None = None
    """Where the episode goes on from, instead of from a reset."""


def jobs_for(
    envs: Sequence[EnvSpec | str] | EnvSpec | str, split: str, tasks: Iterable[int], attempts: int = 1
) -> list[Job]:
    """Every task of every environment, by its spec or its name, `attempts` times; the tries at one stand side by side.

    Raises:
        UnknownNameError: no such split.
    """
    checked_split(split)
    each = [envs] if isinstance(envs, (EnvSpec, str)) else envs
    specs = [EnvSpec(env) if isinstance(env, str) else env for env in each]
    return [Job(env, task, split, k) for task in tasks for env in specs for k in range(attempts)]


def tries_of(jobs: Iterable[Job], agent: int, agents: int) -> list[Job]:
    """The jobs of one of several agents: its tries at a task have numbers, and so seeds, of their own."""
    return [replace(job, attempt=job.attempt * agents + agent) for job in jobs]
