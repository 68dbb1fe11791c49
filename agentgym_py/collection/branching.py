"""Forks: the states that an episode went through, found again by replaying it, and episodes that go on from some."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import TypeVar

from agentgym_py.collection import Collector, Job
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.job import Fork
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.tracebacks import own_line
from agentgym_py.errors import AgentGymError, InfrastructureError, SnapshotError
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory

T = TypeVar("T")
_FAILURES = 3
"""After so many states in a row at which a world fails, no more of these tries are asked for."""


def unless_it_fails(ask: Callable[[], T]) -> T | None:
    """What a world is asked for; None where the world fails at it, as a stranger's may anyhow."""
    try:
        return ask()
    except Exception as error:
        if isinstance(error, AgentGymError) and not isinstance(error, InfrastructureError):
            raise
        said_failing(error)
        return None


def said_failing(error: Exception) -> None:
    """Warn of a world that failed as a state was found again: what it raised would be lost, a defect of its own too."""
    where = own_line(error)
    said = f"{type(error).__name__}: {error}" + f" ({where})" * bool(where)
    warnings.warn(f"a world failed as a state was found again: {said}", stacklevel=3)


def forks(
    trajectory: Trajectory, at: Iterable[int], pool: EnvPool | None = None, spec: EnvSpec | None = None
) -> list[Fork]:
    """The states before steps `at` (0 is the start) of a trajectory, in rising order; worlds come from `pool`.

    Worlds run so fast that the states need not be kept: the replies are done again, up to the last state wanted, in the
    world that the trajectory names, or in one made by `spec`.

    Raises:
        SnapshotError: the world does not show what it showed then, or the trajectory has no such step.
    """
    wanted = sorted(set(at))
    if wanted and not 0 <= wanted[0] <= wanted[-1] < len(trajectory.steps):
        raise SnapshotError(f"{trajectory.id} has {len(trajectory.steps)} steps: no fork at {wanted}")
    spec = spec or trajectory.env_spec()
    with nullcontext(pool) if pool else closing(EnvPool()) as own, own.lent(spec) as env:
        return _along(trajectory, wanted, env)


def _along(trajectory: Trajectory, wanted: list[int], env: TextEnv) -> list[Fork]:
    env_seed = trajectory.provenance.env_seed
    observation, _ = env.reset(seed=env_seed, options={"task": trajectory.task_id})
    found = []
    for number, step in enumerate(trajectory.steps[: wanted[-1] + 1] if wanted else ()):
        if observation != step.observation:
            raise SnapshotError(f"{trajectory.id}: step {number + 1} showed something else than it shows now")
        if number in wanted:
            found.append(Fork(env.snapshot(), trajectory.rules, trajectory.steps[:number], observation, env_seed))
        observation, *_ = env.step(step.reply)
    return found


def midway(
    tries: Sequence[Trajectory], wanted: int, rng: Rng, pool: EnvPool | None = None, spec: EnvSpec | None = None
) -> list[Fork]:
    """States in which tries at a task were, drawn from all but their starts; fewer where there are fewer.

    One at which the world fails is passed over; after a few of them in a row, all others are.

    Raises:
        SnapshotError: a world does not show what it showed in the try.
    """
    states = [(n, at) for n, each in enumerate(tries) if each.error is None for at in range(1, len(each.steps))]
    drawn = rng.sample(states, len(states))
    found, failed = list[Fork](), 0
    for n, at in drawn:
        if len(found) == wanted or failed == _FAILURES:
            break
        fork = unless_it_fails(partial(forks, tries[n], [at], pool, spec))
        failed = 0 if fork else failed + 1
        found += fork or ()
    return found


def continuations(
    jobs: Sequence[Job], played: Sequence[Trajectory], states: int, tries: int, *, seed: int, first_try: int
) -> list[list[Job]]:
    """Of each job, what goes on from `states` states in the midst of what it came to, `tries` times from each.

    The states are drawn by `seed`. `first_try` is above the tries at a task that `jobs` are.

    Raises:
        SnapshotError: a world does not show what it showed then.
        InfrastructureError: a world fails at so many states that too few are left.
    """
    found = []
    with closing(EnvPool()) as pool:
        for job, each in zip(jobs, played, strict=True):
            drawn = midway([each], states, Rng("forks", seed, each.id), pool, job.env)
            if len(drawn) < min(states, len(each.steps) - 1 if each.error is None else 0):
                raise InfrastructureError(f"{each.id}: the world fails as its states are found again")
            first = first_try + job.attempt * states * tries
            found.append([replace(job, fork=drawn[k // tries], attempt=first + k) for k in range(len(drawn) * tries)])
    return found


def with_forks(
    collector: Collector, jobs: Sequence[Job], states: int, tries: int, first_try: int
) -> Iterator[list[Trajectory]]:
    """Play every job; of each in order its trajectory, and those of its `continuations`, as soon as they are over."""
    if not states:
        yield from ([each] for each in collector.in_order(jobs))
        return
    size = 4 * collector.slots
    for part in (jobs[at : at + size] for at in range(0, len(jobs), size)):
        played = collector.collect_batch(part)
        later = continuations(part, played, states, tries, seed=collector.seed, first_try=first_try)
        went_on = collector.in_order([job for each in later for job in each])
        for trunk, each in zip(played, later, strict=True):
            yield [trunk, *(next(went_on) for _ in each)]
