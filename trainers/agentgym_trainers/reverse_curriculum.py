"""Reverse curriculum: episodes begin near the end of what an expert did, then earlier and earlier.

A group begins in a state of the expert's episode at its task, `ceil(j T / stages)` steps before the end of its T steps
at stage j: stage `stages` is the task's own beginning. The reward is the outcome alone; where an episode begins so near
to the goal that some tries succeed, that says of each step what otherwise a judge of steps would have to (R3 of
arXiv:2402.05808). The expert's steps before are seen, and not learnt from.

It stands on `grpo`, not on `ppo`: the tries of a group begin in one snapshot, so their mean is the value of just that
state, and no critic has to learn states that it has hardly seen; and groups whose tries all fail, GRPO's weakness where
rewards are rare, become fewer near the goal. GRPO's variants, settings and loss are all here.

Which stage a group begins at is `order`. By `frontier` it is the furthest one at which a share of `success_threshold`
of the tries succeeded when it was last played, or the one after it, half of the groups each; a round's first iteration
draws from all. So the beginnings go back as the agent learns (arXiv:1812.03381 goes one step back whenever a fifth of
the tries succeed), and where enough tries succeed from the beginning it is GRPO. Deviation: R3's paper has the stages
in turn, then mixed; that is `in_turn`, by the budget that is spent, or `mixed`, drawn for each group. Where the expert
does not succeed, or its way cannot be gone again, a group begins as usual.
"""

from __future__ import annotations

import json
import math
import warnings
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
    """How many of an expert's `steps` are done when stage 1, ..., `stages` begins: from all but some to none."""
    return steps - math.ceil(stage * steps / stages)


@dataclass(frozen=True, slots=True)
class ReverseCurriculum(GRPOSettings):
    """GRPO whose groups begin on an expert's way."""

    info: ClassVar = GRPO.info

    reward: Literal["return", "success"] = "success"
    """What a group's trajectories are compared by."""
    stages: int = 5
    """How many beginnings a task has; 1 is plain GRPO."""
    order: Literal["frontier", "mixed", "in_turn"] = "frontier"
    """Which of them a group takes: the furthest one at which enough tries succeed and the one after it; any, drawn; or
    in turn, from the end, as the budget is spent."""
    success_threshold: float = 0.2
    """Share of successes from which a stage is learnt well enough to begin further from the end."""
    expert: Literal["exact", "fair"] = "fair"
    """Whose episodes are gone along; what the fair expert does can be learnt from what is seen."""
    expert_thoughts: bool = True
    """Whether the expert says its thought, where it has one, before an action."""

    def __post_init__(self) -> None:
        GRPOSettings.__post_init__(self)
        if self.branches:
            raise ConfigError(f"branches is grpo's: groups begin on the expert's way here, got {self.branches}")
        require_at_least(self, {"stages": 1, "success_threshold": 0.0})
        if self.success_threshold > 1:
            raise ConfigError(f"success_threshold is a share, at most 1, got {self.success_threshold}")

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
        way = ExpertStarts(self)
        report = run_grpo(self, policy, rollouts, seed=seed, output_dir=output_dir, progress=progress, starts=way)
        if self.stages == 1 or any(row.get("starts_midway") for row in report.history):
            return report
        note = (
            "no group began on the expert's way, so this was plain grpo: the expert did not succeed, its way could not "
            "be gone again, or all its episodes have one step"
        )
        warnings.warn(note, stacklevel=2)
        return replace(report, notes=(*report.notes, note))


def _before(trajectory: Trajectory) -> int:
    """Steps of the expert's that it went on from."""
    return sum(not step.trained for step in trajectory.steps)


class ExpertStarts:
    """Where groups begin on the way of an expert, and how well each stage went when it was last played."""

    def __init__(self, settings: ReverseCurriculum) -> None:
        self.settings = settings
        self.rates: dict[int, float] = {}
        """Share of successes by stage, when it was last played before this iteration."""
        self._now: dict[int, list[bool]] = {}
        """Successes of this iteration, which may play several times."""
        self._version = -1

    def play(self, rollouts: Rollouts, tasks: int) -> list[list[Trajectory]]:
        """A group of each of the next tasks, from the state of its stage; the expert's episodes cost no budget."""
        how = self.settings
        if rollouts.version != self._version:
            self._settle()
            self._version = rollouts.version
        jobs = rollouts.jobs(min(tasks, rollouts.remaining // how.group_size), how.group_size)
        agent = ExpertAgent(fair=how.expert == "fair", thoughts=how.expert_thoughts)
        shown = rollouts.collector(agent).collect_batch(jobs)  # in all processes: they share the episodes out
        stages = [self.stage(rollouts, job) for job in jobs]
        starts = distributed.on_rank_zero(self._starts, jobs, shown, stages)
        groups = rollouts.continue_from(jobs, starts, how.group_size)
        self._note(stages, shown, groups)
        return groups

    def stage(self, rollouts: Rollouts, job: Job) -> int:
        """The stage that a group begins at."""
        stages, rng = self.settings.stages, Rng(rollouts.seed, "stage", job.env.key, job.task, job.attempt)
        if self.settings.order == "in_turn":
            return min(1 + int((1 - rollouts.remaining / rollouts.budget) * stages), stages)
        if self.settings.order == "mixed" or not self.rates:
            return 1 + rng.below(stages)
        learnt = [stage for stage, rate in self.rates.items() if rate >= self.settings.success_threshold]
        return min(max(learnt, default=1) + rng.below(2), stages)

    def stats(self, groups: Sequence[Sequence[Trajectory]]) -> dict[str, float]:
        """Share of the groups that began on the expert's way, and how many of its steps they skipped on average."""
        done = [_before(group[0]) for group in groups]
        return {"starts_midway": fmean(map(bool, done)), "steps_done": fmean(done)} if done else {}

    def save(self, folder: Path) -> None:
        """Write how well each stage went."""
        self._settle()
        if distributed.is_rank_zero():
            (folder / _RATES).write_text(json.dumps(self.rates), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Be as `save` left it."""
        held = json.loads((folder / _RATES).read_text(encoding="utf-8"))
        self.rates = {int(stage): rate for stage, rate in held.items()}

    def _note(self, stages: Sequence[int], shown: Sequence[Trajectory], groups: Sequence[Sequence[Trajectory]]) -> None:
        for stage, expert, group in zip(stages, shown, groups, strict=True):
            done = start_of_stage(len(expert.steps), stage, self.settings.stages)
            sound = [each for each in group if each.is_evidence]
            if expert.success and all(_before(each) == done for each in sound):  # else it began at the beginning
                self._now.setdefault(stage, []).extend(each.success for each in sound)

    def _settle(self) -> None:
        """What was played counts from here on."""
        self.rates |= {stage: fmean(successes) for stage, successes in self._now.items() if successes}
        self._now = {}

    def _starts(
        self, jobs: Sequence[Job], shown: Sequence[Trajectory], stages: Sequence[int]
    ) -> list[StateSnapshot | None]:
        with closing(EnvPool()) as pool:
            return [self._start(*each, pool) for each in zip(jobs, shown, stages, strict=True)]

    def _start(self, job: Job, shown: Trajectory, stage: int, pool: EnvPool) -> StateSnapshot | None:
        done = start_of_stage(len(shown.steps), stage, self.settings.stages) if shown.success else 0
        if not done:
            return None
        try:
            return or_none(lambda: snapshots_at(shown, [done], pool, job.env)[0])
        except SnapshotError:
            return None
