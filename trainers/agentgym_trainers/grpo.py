"""Group-relative policy optimization and its kin: a group of tries at one task is its own baseline.

    A_i = (R_i - mean(R)) / (std(R) + 1e-4)                       over G trajectories from the same start state
    loss = - sum_i sum_t w_it min(rho_it A_i, clip(rho_it, 1 - eps_low, 1 + eps_high) A_i) + beta k3_it

with rho the ratio of the probability of an agent token to that under the policy that sampled it, and w what a token
counts. One trajectory, with all its turns, is one sequence; observations carry no loss. The variants:

============  ===============================  ==================  ============================================
variant       advantage                        w                   ratio
============  ===============================  ==================  ============================================
`grpo`        (R - mean) / std                 1 / (B len)         clipped, a token (arXiv:2402.03300)
`dr_grpo`     R - mean                         1 / (B max_tokens)  clipped, a token (arXiv:2503.20783)
`dapo`        (R - mean) / std                 1 / all tokens      clip-higher, a token; dynamic sampling and
                                                                   overlong shaping if set (arXiv:2503.14476)
`gspo`        (R - mean) / std                 1 / (B len)         of the whole sequence: the geometric mean of its
                                                                   tokens' (arXiv:2507.18071)
`cispo`       (R - mean) / std                 1 / all tokens      a weight on log pi, cut off above and detached
                                                                   (arXiv:2506.13585)
`rloo`        R - mean of the others           1 / (B len)         of the whole sequence: the product of its tokens'
                                                                   (arXiv:2402.14740; clipped as in trl)
============  ===============================  ==================  ============================================

Deviations: B is an optimizer step's number of trajectories, those of groups whose tries all came to the same left out
(the other kinds' papers than DAPO's count them, with an advantage of 0, and their KL); the clip is `clip_low`,
`clip_high` as they are set, by default DAPO's 0.2 and 0.28 (gspo's paper has 3e-4, 4e-4, grpo's 0.2 on both sides);
the reference of the KL term is the policy as the training began, and the term is k3 in the loss for all kinds, where
RLOO's paper and trl's RLOOTrainer take k1 of the whole reply from its return. With `branches` the tries of a task are a
tree: further groups go on from states in the midst of them, each with its own mean and deviation, and learn only what
comes after that state.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

from agentgym_py.checks import check_least
from agentgym_py.errors import ConfigError
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.progress import Progress
from agentgym_py.training.rl.loop import Kept
from agentgym_py.training.rl.settings import LearnerSettings
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy
    from agentgym_py.training.rl.advantages import Scale
    from agentgym_py.training.rl.batch import Batch, Record
    from agentgym_py.training.rl.learner import Learner, Loss, Output
    from agentgym_py.training.rl.losses import Weighting

Play = Callable[["Rollouts", int], list[list[Trajectory]]]
"""Plays a group of each of the next tasks."""
Kind = Literal["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo"]
_ROUNDING = 1e-9
"""Returns that are no further apart are the same: sums of rewards round."""


class Variant(NamedTuple):
    """What tells a variant from the others."""

    scale: Scale
    weighting: Weighting


VARIANTS: dict[Kind, Variant] = {
    "grpo": Variant("std", "sequence"),
    "dr_grpo": Variant("none", "constant"),
    "dapo": Variant("std", "token"),
    "gspo": Variant("std", "sequence"),
    "cispo": Variant("std", "token"),
    "rloo": Variant("leave_one_out", "sequence"),
}


def grpo_loss(
    logps_N: Tensor, old_logps_N: Tensor, advantages_N: Tensor, row_N: Tensor, *,
    kind: Kind = "grpo", low: float = 0.2, high: float = 0.2, ref_logps_N: Tensor | None = None, kl: float = 0.0,
) -> Loss:  # fmt: skip
    """The loss of each of N agent tokens, before they are weighted; `row_N` says of which trajectory each one is."""
    from agentgym_py.training.rl.learner import Loss
    from agentgym_py.training.rl.losses import clipped_ratio, k3, row_mean, row_sum

    log_ratio_N = logps_N - old_logps_N
    if kind == "gspo":
        log_ratio_N = row_mean(log_ratio_N, row_N)
    elif kind == "rloo":
        log_ratio_N = row_sum(log_ratio_N, row_N)
    ratio_N = log_ratio_N.exp()
    if kind == "cispo":
        loss_N = -ratio_N.clamp(max=1 + high).detach() * advantages_N * logps_N
        clipped_N = (ratio_N > 1 + high).to(ratio_N.dtype)
    else:
        loss_N, _, clipped_N = clipped_ratio(ratio_N, advantages_N, low, high)
    logged = {"policy_loss": loss_N, "clip_fraction": clipped_N}
    if ref_logps_N is not None:  # one that is only logged may be infinite
        logged["kl_loss"] = kl * k3(logps_N, ref_logps_N) if kl else loss_N.new_zeros(loss_N.shape)
        loss_N = loss_N + logged["kl_loss"]
    return Loss(loss_N, logged)


def overlong_penalty(tokens: int, limit: int, buffer: int) -> float:
    """DAPO's soft punishment (its eq. 13): 0 up to limit - buffer agent tokens, then falling to -1 at the limit."""
    return max(-1.0, min(0.0, (limit - buffer - tokens) / buffer)) if buffer else 0.0


class Starts(Kept, Protocol):
    """Where an iteration's groups begin, in place of their tasks' own beginnings."""

    def play(self, rollouts: Rollouts, tasks: int) -> list[list[Trajectory]]:
        """A group of each of the next tasks."""
        ...


@dataclass(frozen=True, slots=True)
class GRPO(LearnerSettings):
    """Settings of group-relative policy optimization."""

    shared: ClassVar = True
    evolve_defaults: ClassVar = {"temperature": 1.0}
    cloner: ClassVar = "filtered_bc"

    kind: Kind = "grpo"
    """Which of the variants."""
    group_size: int = 8
    """Tries at a task, all from one start state."""
    batch_tasks: int = 16
    """Tasks an iteration."""
    branches: int = 0
    """Further groups of each task, each from a state in the midst of one of its tries (tree rollouts)."""
    epochs: int = 1
    """Passes over an iteration's trajectories."""
    clip_low: float = 0.2
    clip_high: float = 0.28
    """The ratio's bounds are 1 - clip_low and 1 + clip_high."""
    kl: float = 0.0
    """Weight of the KL to the policy as the training began; 0 keeps no reference."""
    reward: Literal["return", "success"] = "return"
    """What a group's trajectories are compared by."""
    max_tokens: int = 1024
    """dr_grpo's constant, and the limit of overlong shaping: agent tokens of a trajectory."""
    overlong_buffer: int = 0
    """Width in tokens of DAPO's soft punishment below `max_tokens`; 0 punishes nothing."""
    dynamic_sampling: bool = False
    """Play more tasks for groups whose tries all came to the same, until the batch is full (DAPO)."""

    def __post_init__(self) -> None:
        LearnerSettings.__post_init__(self)
        least = {"group_size": 2, "batch_tasks": 1, "epochs": 1, "clip_low": 0.0, "clip_high": 0.0, "kl": 0.0}
        check_least(self, least | {"branches": 0, "max_tokens": 1, "overlong_buffer": 0})
        if self.overlong_buffer > self.max_tokens:
            raise ConfigError(
                f"overlong_buffer must be at most max_tokens {self.max_tokens}, or every reply would be punished, got "
                f"{self.overlong_buffer}"
            )

    @property
    def by_return(self) -> bool:
        """Whether a reward model's scores would be learnt from."""
        return self.reward == "return"

    def check_round(self, episodes: int) -> None:
        """ConfigError where a round of so many episodes has not one group."""
        if episodes < self._episodes:
            tree = f" with branches {self.branches}" if self.branches else ""
            raise ConfigError(
                f"group_size {self.group_size}{tree} takes {self._episodes} episodes of a task, and there are "
                f"{episodes}"
            )

    def improve(
        self,
        policy: Policy,
        rollouts: Rollouts,
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Iterate: play `batch_tasks` groups, compare within each, take steps; until the budget of episodes is spent.

        Raises:
            ConfigError: replies are not sampled from the whole distribution, or the budget has not one group.
            NothingToTrainOnError: in no group did one try differ from another.
            TrainingError: the loss was not finite.
        """
        return self._improve(policy, rollouts, seed, output_dir, progress)

    def _improve(
        self, policy: Policy, rollouts: Rollouts, seed: int, output_dir: Path, progress: Progress | None,
        starts: Starts | None = None,
    ) -> TrainReport:  # fmt: skip
        from agentgym_py.training.rl.learner import Learner, training
        from agentgym_py.training.rl.loop import Loop

        self.check_round(rollouts.budget)
        made = Learner(
            policy, self, seed=seed, temperature=rollouts.temperature, reference=self.kl > 0, entropy_gradient=False
        )
        loop = Loop(made, rollouts, output_dir, progress, [seed], [starts] if starts else [])
        play = starts.play if starts else self._play
        with training(made) as learner:
            for _ in loop.iterations(self._episodes):
                groups = self._groups(rollouts, play)
                records = [each for group in groups for each in self._records(group, policy, loop.tally.dropped)]
                loop.count(records, self.epochs, self._iterate(learner, records, groups))
        return loop.report(any("loss" in row for row in loop.tally.history))

    def _groups(self, rollouts: Rollouts, play: Play) -> list[list[Trajectory]]:
        """An iteration's groups; with dynamic sampling, until a batch of them differs or the budget is spent."""
        groups = play(rollouts, self.batch_tasks)
        while self.dynamic_sampling and rollouts.remaining >= self._episodes:
            missing = self.batch_tasks * (1 + self.branches) - sum(self._differ(group) for group in groups)
            if missing <= 0:
                break
            groups += play(rollouts, math.ceil(missing / (1 + self.branches)))
        return groups

    def _play(self, rollouts: Rollouts, tasks: int) -> list[list[Trajectory]]:
        """A group of each of the next tasks, and its branches."""
        if self.branches:
            return rollouts.branching_groups(tasks, self.group_size, self.branches)
        return rollouts.groups(tasks, self.group_size)

    @property
    def _episodes(self) -> int:
        """Of a task in an iteration."""
        return self.group_size * (1 + self.branches)

    def _differ(self, group: Sequence[Trajectory]) -> bool:
        returns = [self._return(trajectory) for trajectory in group if trajectory.is_evidence]
        return bool(returns) and max(returns) - min(returns) > _ROUNDING

    def _return(self, trajectory: Trajectory) -> float:
        gained = trajectory.reward if self.reward == "return" else float(trajectory.success)
        written = sum(sum(step.tokens.mask) for step in trajectory.steps if step.tokens and step.trained)
        return gained + overlong_penalty(written, self.max_tokens, self.overlong_buffer)

    def _records(self, group: Sequence[Trajectory], policy: Policy, dropped: Counter[str]) -> list[Record]:
        """The group's records with their advantages; none where all tries came to the same."""
        import torch

        from agentgym_py.training.rl.advantages import group_advantages
        from agentgym_py.training.rl.batch import record_of

        sound = [trajectory for trajectory in group if trajectory.is_evidence]
        dropped.update(["ended by an infrastructure error"] * (len(group) - len(sound)))
        records = [record_of(trajectory, policy.chat) for trajectory in sound]
        if not self._differ(sound):
            dropped["in a group whose tries all came to the same"] += len(sound)
            return []
        returns_G = torch.tensor([self._return(trajectory) for trajectory in sound], dtype=torch.float64)
        found = []
        for record, advantage in zip(records, group_advantages(returns_G, VARIANTS[self.kind].scale), strict=True):
            if record is None:
                dropped["without a reply to learn"] += 1
                continue
            record.extra["advantages"] = torch.full((record.n,), float(advantage))
            found.append(record)
        return found

    def _iterate(
        self, learner: Learner, records: list[Record], groups: Sequence[Sequence[Trajectory]]
    ) -> dict[str, float]:
        """Steps on an iteration's records; what was logged of them, and of the groups."""
        from agentgym_py.training.rl.batch import averaged

        steps = []
        if records:
            learner.evaluate(records)
            weighting = VARIANTS[self.kind].weighting
            for _ in range(self.epochs):
                steps += list(learner.epoch(records, self._loss, weighting, self.max_tokens))
        logged = self._of(groups)
        if not records:
            failed, won = (round(logged[name] * len(groups)) for name in ("groups_all_failed", "groups_all_won"))
            learner.note(
                "signal", f"no step was taken in an iteration: of its {len(groups)} groups none had tries that came to "
                f"different ends ({failed} always failed, {won} always succeeded); a higher temperature or group_size, "
                "or dynamic_sampling, makes tries differ",
            )  # fmt: skip
        return averaged(steps) | logged

    def _loss(self, out: Output, batch: Batch) -> Loss:
        return grpo_loss(
            out.logps_N, batch.old_logps_N, batch.extra["advantages"], batch.row_N, kind=self.kind,
            low=self.clip_low, high=self.clip_high, ref_logps_N=batch.extra.get("ref_logps"), kl=self.kl,
        )  # fmt: skip

    def _of(self, groups: Sequence[Sequence[Trajectory]]) -> dict[str, float]:
        from agentgym_py.training.rl.batch import played

        same, most = [group for group in groups if not self._differ(group)], max(len(groups), 1)
        ends = [{each.success for each in group if each.is_evidence} for group in same]
        failed, won = ends.count({False}), ends.count({True})
        return {
            "groups": float(len(groups)), "groups_all_the_same": len(same) / most,
            "groups_all_failed": failed / most, "groups_all_won": won / most,
            **played([each for group in groups for each in group]),
        }  # fmt: skip
