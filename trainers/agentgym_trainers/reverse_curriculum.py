"""Reverse curriculum: episodes begin near the end of an expert's episode, then earlier and earlier.

A group begins in a state of the expert's episode at its task, `ceil(j T / stages)` steps before the end of its T steps
at stage j; stage `stages` is the task's own start. The only reward is the outcome: if some attempts from a state near
the goal succeed, that is a signal for each step, without a judge of steps (R3 of arXiv:2402.05808). The expert's
earlier steps are context, and not learnt from.

It builds on `grpo`, not on `ppo`: the attempts of a group begin in one snapshot, so their mean is the value of exactly
that state, and no critic has to learn rarely visited states; and groups in which all attempts fail, GRPO's weakness
with rare rewards, are rarer near the goal. GRPO's variants, settings and loss apply.

`order` chooses a group's stage. `frontier` takes the furthest stage at which at least `success_threshold` of the
attempts succeeded when it was last played, or the next one, with equal probability; a round's first iteration draws
from all. So the starts move back as the agent learns (arXiv:1812.03381 moves back one step whenever a fifth of the
attempts succeed), until it is plain GRPO. Deviation: R3's paper plays the stages in turn, then mixed; here these are
`in_turn`, by the budget that is spent, and `mixed`, drawn for each group. If the expert does not succeed, or its
episode does not replay, a group begins at the task's start.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar, Literal

from agentgym_py import distributed
from agentgym_py.agents import ExpertAgent
from agentgym_py.checks import require_at_least
from agentgym_py.collection import Job
from agentgym_py.collection.branching import or_none, snapshots_at
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.job import StateSnapshot
from agentgym_py.errors import ConfigError, SnapshotError
from agentgym_py.files import load_json
from agentgym_py.rng import Rng
from agentgym_py.training import TrainReport
from agentgym_py.training.progress import Progress
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.grpo import GRPO, GRPOSettings, run_grpo

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy


_RATES = "stages.json"


def start_of_stage(steps: int, stage: int, stages: int) -> int:
    """Return the number of an expert's `steps` before the start of a stage: from almost all at stage 1 to none."""
    return steps - math.ceil(stage * steps / stages)


@dataclass(frozen=True, slots=True)
class ReverseCurriculum(GRPOSettings):
    """GRPO whose groups begin within an expert's episodes."""

    info: ClassVar = replace(GRPO.info, evolve_defaults={**GRPO.info.evolve_defaults, "reward": "success"})

    stages: int = 5
    """Number of start states per task; 1 is plain GRPO."""
    order: Literal["frontier", "mixed", "in_turn"] = "frontier"
    """Stage of a group: `frontier`, the furthest one at which enough attempts succeed or the next; `mixed`, drawn; or
    `in_turn`, from the end, as the budget is spent."""
    success_threshold: float = 0.2
    """Success rate from which a stage is learnt well enough to begin earlier."""
    expert: Literal["exact", "fair"] = "fair"
    """Expert whose episodes are used; an agent can learn the fair expert's actions from its observations."""
    expert_thoughts: bool = True
    """Whether the expert writes its thought, if it has one, before an action."""

    def __post_init__(self) -> None:
        GRPOSettings.__post_init__(self)
        if self.branches:
            raise ConfigError(f"branches must be 0, because groups begin within expert episodes, got {self.branches}")
        require_at_least(self, {"stages": 1, "success_threshold": 0.0})
        if self.success_threshold > 1:
            raise ConfigError(f"success_threshold must be at most 1, got {self.success_threshold}")

    def improve(
        self, policy: Policy, rollouts: Rollouts, *, seed: int, output_dir: Path, progress: Progress | None = None
    ) -> TrainReport:
        """Train `policy` in place as GRPO; warn if no group began within an expert's episode, which is plain GRPO."""
        starts = ExpertStarts(self)
        report = run_grpo(self, policy, rollouts, seed=seed, output_dir=output_dir, progress=progress, starts=starts)
        if self.stages == 1 or any(row.get("starts_midway") for row in report.history):
            return report
        return report.with_note(
            "no group began within an expert's episode, so this was plain grpo: the expert did not succeed, its "
            "episodes did not replay, or all of them have one step"
        )


def _expert_steps(trajectory: Trajectory) -> int:
    """Return the number of the expert's steps that an episode continues from."""
    return sum(not step.trained for step in trajectory.steps)


class ExpertStarts:
    """Start states within an expert's episodes, and the success rate of each stage when it was last played."""

    def __init__(self, settings: ReverseCurriculum) -> None:
        self.settings = settings
        self.rates: dict[int, float] = {}
        """Success rate by stage, when it was last played before this iteration."""
        self._successes: dict[int, list[bool]] = {}
        """Successes of this iteration by stage."""
        self._version = -1

    def play(self, rollouts: Rollouts, tasks: int) -> list[list[Trajectory]]:
        """Play a group of each of the next tasks from the start of its stage; the expert's episodes cost no budget."""
        settings = self.settings
        if rollouts.version != self._version:
            self._update_rates()
            self._version = rollouts.version
        jobs = rollouts.jobs(min(tasks, rollouts.remaining // settings.group_size), settings.group_size)
        agent = ExpertAgent(fair=settings.expert == "fair", thoughts=settings.expert_thoughts)
        demos = rollouts.collector(agent).collect_batch(jobs)  # in all processes, which share the episodes
        stages = [self.stage(rollouts, job) for job in jobs]
        starts = distributed.on_rank_zero(self._starts, jobs, demos, stages)
        groups = rollouts.continue_from(jobs, starts, settings.group_size)
        self._record(stages, demos, groups)
        return groups

    def stage(self, rollouts: Rollouts, job: Job) -> int:
        """Choose the stage at which a group begins."""
        stages, rng = self.settings.stages, Rng(rollouts.seed, "stage", job.env.key, job.task, job.attempt)
        if self.settings.order == "in_turn":
            return min(1 + int((1 - rollouts.remaining / rollouts.budget) * stages), stages)
        if self.settings.order == "mixed" or not self.rates:
            return 1 + rng.below(stages)
        learnt = [stage for stage, rate in self.rates.items() if rate >= self.settings.success_threshold]
        return min(max(learnt, default=1) + rng.below(2), stages)

    def stats(self, groups: Sequence[Sequence[Trajectory]]) -> dict[str, float]:
        """Return the share of groups that began within an expert's episode, and the mean of its skipped steps."""
        skipped = [_expert_steps(group[0]) for group in groups]
        return {"starts_midway": fmean(map(bool, skipped)), "steps_done": fmean(skipped)} if skipped else {}

    def save(self, folder: Path) -> None:
        """Write the success rates of the stages."""
        self._update_rates()
        if distributed.is_rank_zero():
            (folder / _RATES).write_text(json.dumps(self.rates), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Restore the rates that `save` wrote."""
        rates = load_json(folder / _RATES)
        self.rates = {int(stage): rate for stage, rate in rates.items()}

    def _record(
        self, stages: Sequence[int], demos: Sequence[Trajectory], groups: Sequence[Sequence[Trajectory]]
    ) -> None:
        """Record the successes of groups that began at their stage, and not at the task's start."""
        for stage, demo, group in zip(stages, demos, groups, strict=True):
            start = start_of_stage(len(demo.steps), stage, self.settings.stages)
            evidence = [trajectory for trajectory in group if trajectory.is_evidence]
            if demo.success and all(_expert_steps(trajectory) == start for trajectory in evidence):
                self._successes.setdefault(stage, []).extend(trajectory.success for trajectory in evidence)

    def _update_rates(self) -> None:
        """Turn the successes since the last update into rates."""
        self.rates |= {stage: fmean(successes) for stage, successes in self._successes.items() if successes}
        self._successes = {}

    def _starts(
        self, jobs: Sequence[Job], demos: Sequence[Trajectory], stages: Sequence[int]
    ) -> list[StateSnapshot | None]:
        with closing(EnvPool()) as pool:
            return [self._start(*of_job, pool) for of_job in zip(jobs, demos, stages, strict=True)]

    def _start(self, job: Job, demo: Trajectory, stage: int, pool: EnvPool) -> StateSnapshot | None:
        start = start_of_stage(len(demo.steps), stage, self.settings.stages) if demo.success else 0
        if not start:
            return None
        try:
            return or_none(lambda: snapshots_at(demo, [start], pool, job.env)[0])
        except SnapshotError:
            return None
