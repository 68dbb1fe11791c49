"""`replay`: run a stored trajectory again in its world and say whether it still holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from agentgym_py.collect import EnvSpec
from agentgym_py.env import TextEnv
from agentgym_py.errors import AgentGymError
from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a replay first departs from what was stored."""

    step: int
    """Number of the step, from 1, before which (`observation`) or in which it departs; 0 before the first."""
    what: str
    """`observation`, `reward`, `valid`, `end`, ..."""
    stored: Any
    replayed: Any

    def __str__(self) -> str:
        return f"step {self.step}: {self.what} was {self.stored!r}, is {self.replayed!r}"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What came of one trajectory."""

    id: str
    task_id: str
    steps: int
    """Steps that agree."""
    difference: Difference | None = None
    skipped: str | None = None
    """Why it was not replayed: nothing can be said of it."""

    @property
    def holds(self) -> bool:
        """Whether it was replayed, and all of it agrees."""
        return self.difference is None and self.skipped is None


def replay(trajectory: Trajectory, env: TextEnv | None = None) -> ReplayResult:
    """Do the stored replies again and compare observations, validity, rewards and the end.

    `env` is a world to replay in; by default the one that the provenance names is made.
    """
    if trajectory.error is not None:
        return _result(trajectory, 0, skipped=f"ended by an infrastructure failure: {trajectory.error}")
    try:
        env = env or _spec(trajectory).make()
    except AgentGymError as error:
        return _result(trajectory, 0, skipped=str(error))
    try:
        observation, _ = env.reset(seed=0, options={"task": trajectory.task_id, "split": trajectory.split})
    except AgentGymError as error:
        return _result(trajectory, 0, Difference(0, "task", trajectory.task_id, str(error)))
    for done, difference in enumerate(_departures(trajectory, env, observation)):
        if difference:
            return _result(trajectory, max(done - 1, 0), difference)
    return _result(trajectory, len(trajectory.steps))


def replay_all(trajectories: Iterable[Trajectory]) -> Iterator[ReplayResult]:
    """Replay one after another; each world is made once."""
    envs: dict[str, TextEnv] = {}
    for trajectory in trajectories:
        spec = _spec(trajectory)
        key = f"{spec.name} {sorted(spec.kwargs.items())}"
        if key not in envs and trajectory.error is None:
            try:
                envs[key] = spec.make()
            except AgentGymError as error:
                yield _result(trajectory, 0, skipped=str(error))
                continue
        yield replay(trajectory, envs.get(key))


def _spec(trajectory: Trajectory) -> EnvSpec:
    return EnvSpec(trajectory.provenance.env_id, trajectory.provenance.env_kwargs)


def _result(
    trajectory: Trajectory, steps: int, difference: Difference | None = None, skipped: str | None = None
) -> ReplayResult:
    return ReplayResult(trajectory.id, trajectory.task_id, steps, difference, skipped)


def _departures(trajectory: Trajectory, env: TextEnv, observation: str) -> Iterator[Difference | None]:
    """None for the opening and for each step that agrees; the difference where one does not."""
    task = env.current
    assert task is not None
    rules = env.rules.get(trajectory.provenance.prompt, trajectory.rules)
    yield (
        _compare(0, "version of the world", trajectory.provenance.env_version, env.version)
        or _compare(0, "instruction", trajectory.instruction, task.instruction)
        or _compare(0, "rules", trajectory.rules, rules)
    )
    for number, step in enumerate(trajectory.steps, 1):
        difference = _compare(number, "observation", step.observation, observation)
        observation, reward, _, _, info = env.step(step.reply)
        yield (
            difference
            or _compare(number, "reward", step.reward, float(reward))
            or _compare(number, "valid", step.valid, bool(info["valid_action"]))
        )
    last = len(trajectory.steps)
    terminated = env.ended == "terminated"
    yield (
        _compare(last, "last observation", trajectory.final_observation, observation)
        or _compare(last, "success", trajectory.success, env.succeeded)
        or _compare(last, "terminated", trajectory.terminated, terminated)
    )


def _compare(step: int, what: str, stored: Any, replayed: Any) -> Difference | None:
    if isinstance(stored, float) and isinstance(replayed, float):
        same = math.isclose(stored, replayed, rel_tol=1e-9, abs_tol=1e-12)
    else:
        same = stored == replayed
    return None if same else Difference(step, what, stored, replayed)
