"""Branches: the states that an episode went through, rebuilt by replaying it, and episodes that continue from some."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import TypeVar

from agentgym_py.collection.collector import Collector
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.job import Job, StateSnapshot
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.tracebacks import env_line
from agentgym_py.errors import AgentGymError, InfrastructureError, SnapshotError
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory

T = TypeVar("T")
_FAILURES = 3
"""After this many failed states in a row, the states of these episodes are given up."""


def or_none(call: Callable[[], T]) -> T | None:
    """Return the result of `call`, or None with a warning if the env fails."""
    try:
        return call()
    except Exception as error:
        if isinstance(error, AgentGymError) and not isinstance(error, InfrastructureError):
            raise
        warn_env_failure(error)
        return None


def warn_env_failure(error: Exception) -> None:
    """Warn about an env that failed during a replay, because its error would otherwise be lost."""
    where = env_line(error)
    text = f"{type(error).__name__}: {error}" + (f" ({where})" if where else "")
    warnings.warn(f"a world failed while a state was rebuilt: {text}", stacklevel=3)


def snapshots_at(
    trajectory: Trajectory, at: Iterable[int], pool: EnvPool | None = None, spec: EnvSpec | None = None
) -> list[StateSnapshot]:
    """Return the states before steps `at` (0 is the start) of a trajectory, in rising order; envs come from `pool`.

    States are not stored, because envs are fast: the replies are replayed up to the last of these states, in the env
    that the trajectory names or in one made by `spec`.

    Raises:
        SnapshotError: the env behaves differently on replay, or the trajectory has no such step.
    """
    places = sorted(set(at))
    if places and not 0 <= places[0] <= places[-1] < len(trajectory.steps):
        raise SnapshotError(f"{trajectory.id} has {len(trajectory.steps)} steps: no state before {places}")
    spec = spec or trajectory.replay_spec()
    with nullcontext(pool) if pool else closing(EnvPool()) as envs, envs.lent(spec) as env:
        return _replay_to(trajectory, places, env)


def _replay_to(trajectory: Trajectory, places: list[int], env: TextEnv) -> list[StateSnapshot]:
    provenance = trajectory.provenance
    observation = trajectory.restart(env)
    states = []
    for number, step in enumerate(trajectory.steps[: places[-1] + 1] if places else ()):
        if observation != step.observation:
            raise SnapshotError(f"{trajectory.id}: the observation of step {number + 1} differs on replay")
        if number in places:
            done = trajectory.steps[:number]
            states.append(
                StateSnapshot(
                    env.snapshot(), trajectory.rules, done, observation, provenance.env_seed, provenance.prompt,
                    provenance.prompt_template, provenance.note,
                )
            )  # fmt: skip
        observation, *_ = env.step(step.reply)
    return states


def sample_states(
    episodes: Sequence[Trajectory], count: int, rng: Rng, pool: EnvPool | None = None, spec: EnvSpec | None = None
) -> list[StateSnapshot]:
    """Sample up to `count` states from episodes of one task, their starts excluded.

    A state at which the env fails is skipped. After a few failures in a row the sampling stops.

    Raises:
        SnapshotError: an env behaves differently on replay.
    """
    places = [(n, at) for n, t in enumerate(episodes) if t.is_evidence for at in range(1, len(t.steps))]
    states, failures = list[StateSnapshot](), 0
    for n, at in rng.sample(places, len(places)):
        if len(states) == count or failures == _FAILURES:
            break
        state = or_none(partial(snapshots_at, episodes[n], [at], pool, spec))
        failures = 0 if state else failures + 1
        states += state or ()
    return states


def branch_jobs(
    jobs: Sequence[Job], trunks: Sequence[Trajectory], states: int, attempts: int, *, seed: int, first_attempt: int
) -> list[list[Job]]:
    """For each job and its episode, return the jobs that continue from `states` of its states, `attempts` from each.

    The states are drawn by `seed`. `first_attempt` is above the attempts per task in `jobs`.

    Raises:
        SnapshotError: an env behaves differently on replay.
        InfrastructureError: an env fails at too many states.
    """
    branches = []
    with closing(EnvPool()) as pool:
        for job, trunk in zip(jobs, trunks, strict=True):
            drawn = sample_states([trunk], states, Rng("forks", seed, trunk.id), pool, job.env)
            if len(drawn) < min(states, len(trunk.steps) - 1 if trunk.is_evidence else 0):
                raise InfrastructureError(f"{trunk.id}: the world fails while its states are rebuilt")
            first = first_attempt + job.attempt * states * attempts
            count = len(drawn) * attempts
            branches.append([replace(job, start=drawn[k // attempts], attempt=first + k) for k in range(count)])
    return branches


def collect_with_branches(
    collector: Collector, jobs: Sequence[Job], states: int, attempts: int, first_attempt: int
) -> Iterator[list[Trajectory]]:
    """Play every job and its `branch_jobs`; yield each job's trajectory with its branches, in the order of `jobs`."""
    if not states:
        yield from ([trunk] for trunk in collector.iter_ordered(jobs))
        return
    size = 4 * collector.play.slots
    for part in (jobs[at : at + size] for at in range(0, len(jobs), size)):
        trunks = collector.collect_batch(part)
        families = branch_jobs(part, trunks, states, attempts, seed=collector.play.seed, first_attempt=first_attempt)
        branches = collector.iter_ordered([job for family in families for job in family])
        for trunk, family in zip(trunks, families, strict=True):
            yield [trunk, *(next(branches) for _ in family)]
