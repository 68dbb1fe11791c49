"""Reverse curriculum: episodes begin near the end of what an expert did, then earlier and earlier.

A group begins in a state of the expert's episode at its task, `ceil(j T / stages)` steps before the end of its T steps
at stage j: stage `stages` is the task's own beginning. The reward is the outcome alone; where an episode begins so near
to the goal that some tries succeed, that says of each step what otherwise a judge of steps would have to (R3 of
arXiv:2402.05808). The expert's steps before are seen, and not learnt from.

It stands on `grpo`, not on `ppo`: the tries of a group begin in one snapshot, so their mean is the value of just that
state, and no critic has to learn states that it has hardly seen; and groups whose tries all fail, GRPO's weakness where
rewards are rare, become fewer near the goal. GRPO's variants, settings and loss are all here.

Deviations: the paper starts with the stages in turn, then mixes them; `mixed` draws a stage for each group from the
start (False: in turn, by the budget that is spent). Where the expert does not succeed, or its way cannot be
gone again, a group begins as usual.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from agentgym_py import ranks
from agentgym_py.agents import ExpertAgent
from agentgym_py.collect import Fork, Job
from agentgym_py.errors import ConfigError, SnapshotError
from agentgym_py.fork import forks, unless_it_fails
from agentgym_py.pool import EnvPool
from agentgym_py.rng import Rng
from agentgym_py.trainer import Progress, TrainReport
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.grpo import GRPO

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.rollouts import Rollouts


def start_of_stage(steps: int, stage: int, stages: int) -> int:
    """How many of an expert's `steps` are done when stage 1, ..., `stages` begins: from all but some to none."""
    return steps - math.ceil(stage * steps / stages)


@dataclass(frozen=True, slots=True)
class ReverseCurriculum(GRPO):
    """Settings of the reverse curriculum; those of GRPO among them."""

    reward: Literal["return", "success"] = "success"
    """What a group's trajectories are compared by."""
    stages: int = 5
    """How many beginnings a task has; 1 is plain GRPO."""
    mixed: bool = True
    """Whether each group draws its stage; False goes through them in turn, from the end, as the budget is spent."""
    expert: Literal["exact", "fair"] = "fair"
    """Whose episodes are gone along; what the fair expert does can be learnt from what is seen."""
    expert_thoughts: bool = True
    """Whether the expert says its thought, where it has one, before an action."""

    def __post_init__(self) -> None:
        GRPO.__post_init__(self)
        if self.branches:
            raise ConfigError(f"branches is grpo's: groups begin on the expert's way here, got {self.branches}")
        if self.stages < 1:
            raise ConfigError(f"stages must be at least 1, got {self.stages}")

    def improve(
        self,
        policy: Policy,
        rollouts: Rollouts,
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """As GRPO does; warned of is a training none of whose groups began on the expert's way, which is just that."""
        report = GRPO.improve(self, policy, rollouts, seed=seed, output_dir=output_dir, progress=progress)
        if self.stages == 1 or any(row.get("starts_midway") for row in report.history):
            return report
        note = (
            "no group began on the expert's way, so this was plain grpo: the expert did not succeed, its way could not "
            "be gone again, or all its episodes have one step"
        )
        warnings.warn(note, stacklevel=2)
        return replace(report, notes=(*report.notes, note))

    def stage(self, rollouts: Rollouts, job: Job) -> int:
        """The stage that a group begins at."""
        if self.mixed:
            return 1 + Rng(rollouts.seed, "stage", job.env.key, job.task, job.attempt).below(self.stages)
        spent = 1 - rollouts.left / rollouts.budget
        return min(1 + int(spent * self.stages), self.stages)

    def _play(self, rollouts: Rollouts, tasks: int) -> list[list[Trajectory]]:
        """A group of each of the next tasks, from the state of its stage; the expert's episodes cost no budget."""
        jobs = rollouts.jobs(min(tasks, rollouts.left // self.group_size), self.group_size)
        agent = ExpertAgent(fair=self.expert == "fair", thoughts=self.expert_thoughts)
        shown = rollouts.collector(agent).collect_batch(jobs)  # in all processes: they share the episodes out
        return rollouts.go_on(jobs, ranks.once(self._starts, rollouts, jobs, shown), self.group_size)

    def _starts(self, rollouts: Rollouts, jobs: Sequence[Job], shown: Sequence[Trajectory]) -> list[Fork | None]:
        with closing(EnvPool()) as pool:
            return [self._start(rollouts, job, each, pool) for job, each in zip(jobs, shown, strict=True)]

    def _start(self, rollouts: Rollouts, job: Job, shown: Trajectory, pool: EnvPool) -> Fork | None:
        done = 0
        if shown.success:
            done = start_of_stage(len(shown.steps), self.stage(rollouts, job), self.stages)
        if not done:
            return rollouts.start(job)
        try:
            found = unless_it_fails(lambda: forks(shown, [done], pool, job.env)[0])
        except SnapshotError:
            found = None
        return found or rollouts.start(job)

    def _of(self, groups: Sequence[Sequence[Trajectory]]) -> dict[str, float]:
        done = [sum(not step.trained for step in group[0].steps) for group in groups]
        midway = {"starts_midway": fmean(map(bool, done)), "steps_done": fmean(done)} if done else {}
        return GRPO._of(self, groups) | midway
