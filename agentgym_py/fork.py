"""Forks: the states that an episode went through, found again by replaying it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, nullcontext

from agentgym_py.collect import EnvSpec, Fork
from agentgym_py.env import TextEnv
from agentgym_py.errors import SnapshotError
from agentgym_py.pool import EnvPool
from agentgym_py.trajectory import Trajectory


def forks(trajectory: Trajectory, at: Iterable[int], pool: EnvPool | None = None) -> list[Fork]:
    """The states before steps `at` (0 is the start) of a trajectory, in rising order; worlds come from `pool`.

    Worlds run so fast that the states need not be kept: the replies are done again, up to the last state wanted.

    Raises:
        SnapshotError: the world does not show what it showed then, or the trajectory has no such step.
    """
    wanted = sorted(set(at))
    if wanted and not 0 <= wanted[0] <= wanted[-1] < len(trajectory.steps):
        raise SnapshotError(f"{trajectory.id} has {len(trajectory.steps)} steps: no fork at {wanted}")
    spec = EnvSpec.of(trajectory)
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
