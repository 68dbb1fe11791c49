"""Group-relative policy optimization and its variants: a group of attempts at one task is its own baseline.

    A_i = (R_i - mean(R)) / (std(R) + 1e-4)                       over G trajectories from the same start state
    loss = sum_i sum_t w_it (- min(rho_it A_i, clip(rho_it, 1 - clip_low, 1 + clip_high) A_i) + kl_coef k3_it)
    k3_it = ref_it / pi_it - 1 - log(ref_it / pi_it)

with rho = pi / pi_old the probability ratio of an agent token to the policy that sampled it, ref its probability by the
reference, and w the token's weight. One trajectory, with all its turns, is one sequence; observations have no loss. The
variants:

============  ===============================  ==================  ============================================
variant       advantage                        w                   ratio
============  ===============================  ==================  ============================================
`grpo`        (R - mean) / std                 1 / (B len)         clipped, a token (arXiv:2402.03300)
`dr_grpo`     R - mean                         1 / (B max_tokens)  clipped, a token (arXiv:2503.20783)
`dapo`        (R - mean) / std                 1 / all tokens      clip-higher, a token; dynamic sampling and
                                                                   overlong shaping if set (arXiv:2503.14476)
`gspo`        (R - mean) / std                 1 / (B len)         of the whole sequence: the geometric mean of its
                                                                   tokens' (arXiv:2507.18071)
`cispo`       (R - mean) / std                 1 / all tokens      a weight on log pi, clipped above and detached
                                                                   (arXiv:2506.13585)
`rloo`        R - mean of the others           1 / (B len)         of the whole sequence: the product of its tokens'
                                                                   (arXiv:2402.14740; clipped as in trl)
============  ===============================  ==================  ============================================

Deviations: the standard deviation is that of a sample (over G - 1, as in trl); DAPO's "all tokens" are those of an
optimizer step; CISPO's weight is at most 1 + clip_high (trl's epsilon_high is that sum); GRPO's KL is off by default
(the paper's beta is 0.04); AdamW with beta2 0.95; B counts the trajectories of an optimizer step, without groups whose
returns are all identical (only DAPO drops these; the other papers count them, with an advantage of 0, and their KL);
the clip is `clip_low`, `clip_high`, by default DAPO's 0.2 and 0.28 (GSPO's paper has 3e-4 and 4e-4, GRPO's 0.2 on both
sides); the reference of the KL is the policy at the start of training, and the KL is k3 in the loss for all variants,
while RLOO's paper and trl's RLOOTrainer subtract k1 of the whole reply from its return. With `branches` the attempts at
a task form a tree: further groups continue from states within them, each with its own mean and deviation, and learn
only what follows that state. Replies that were cut at the maximum length have no loss (`mask_truncated_completions`,
DAPO's overlong filtering), each by itself, while trl masks the whole completion; a trajectory whose replies were all
cut is left out of B. With `constraint` returns are penalized by costs, with a multiplier for each (`rl.constraints`);
`dynamic_sampling` still compares groups by the multipliers before their update, which needs all episodes of the
iteration.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

from agentgym_py.checks import require_at_least
from agentgym_py.errors import ConfigError
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.progress import Progress
from agentgym_py.training.rl.constraints import ConstraintSettings, Multipliers
from agentgym_py.training.rl.loop import Checkpointable
from agentgym_py.training.settings import OnPolicySettings
from agentgym_py.training.trainer import TrainerInfo
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.scores import mean_parts

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy
    from agentgym_py.training.rl.actor_critic import Output
    from agentgym_py.training.rl.advantages import Scale
    from agentgym_py.training.rl.batch import Record, TokenBatch
    from agentgym_py.training.rl.losses import Loss, Weighting

Variant = Literal["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo"]
_ROUNDING = 1e-9
"""Returns that differ by no more are identical, because sums of rewards round."""


class Recipe(NamedTuple):
    """What distinguishes a variant besides its ratio."""

    scale: Scale
    weighting: Weighting


VARIANTS: dict[Variant, Recipe] = {
    "grpo": Recipe("std", "sequence"),
    "dr_grpo": Recipe("none", "constant"),
    "dapo": Recipe("std", "token"),
    "gspo": Recipe("std", "sequence"),
    "cispo": Recipe("std", "token"),
    "rloo": Recipe("leave_one_out", "sequence"),
}


def grpo_loss(
    logps_N: Tensor, old_logps_N: Tensor, advantages_N: Tensor, row_N: Tensor, *,
    variant: Variant = "grpo", low: float = 0.2, high: float = 0.2, ref_logps_N: Tensor | None = None,
    kl_coef: float = 0.0, importance_N: Tensor | None = None,
) -> Loss:  # fmt: skip
    """Return the loss of each of N agent tokens, unweighted; `row_N` is each token's trajectory.

    `importance_N` weighs it, other than its KL, by how much likelier a token is to the trainer than to the sampler.
    """
    from agentgym_py.training.rl.losses import Loss, clipped_ratio, k3, row_mean, row_sum

    log_ratio_N = logps_N - old_logps_N
    if variant == "gspo":
        log_ratio_N = row_mean(log_ratio_N, row_N)
    elif variant == "rloo":
        log_ratio_N = row_sum(log_ratio_N, row_N)
    ratio_N = log_ratio_N.exp()
    if variant == "cispo":
        loss_N = -ratio_N.clamp(max=1 + high).detach() * advantages_N * logps_N
        clipped_N = (ratio_N > 1 + high).to(ratio_N.dtype)
    else:
        loss_N, _, clipped_N = clipped_ratio(ratio_N, advantages_N, low, high)
    if importance_N is not None:
        loss_N = loss_N * importance_N
    logged = {"policy_loss": loss_N, "clip_fraction": clipped_N}
    if ref_logps_N is not None:  # a KL that is only logged may be infinite
        logged["kl_loss"] = kl_coef * k3(logps_N, ref_logps_N) if kl_coef else loss_N.new_zeros(loss_N.shape)
        loss_N = loss_N + logged["kl_loss"]
    return Loss(loss_N, logged)


def overlong_penalty(tokens: int, limit: int, buffer: int) -> float:
    """Return DAPO's soft penalty (its eq. 13): 0 up to limit - buffer agent tokens, then falling to -1 at the limit."""
    return max(-1.0, min(0.0, (limit - buffer - tokens) / buffer)) if buffer else 0.0


class Starts(Checkpointable, Protocol):
    """The start states of an iteration's groups, in place of the reset of their tasks."""

    def play(self, rollouts: Rollouts, tasks: int) -> list[list[Trajectory]]:
        """Play a group of each of the next tasks."""
        ...

    def stats(self, groups: Sequence[Sequence[Trajectory]]) -> dict[str, float]:
        """Return the logs of the groups' start states."""
        ...


@dataclass(frozen=True, slots=True)
class GRPOSettings(OnPolicySettings, ConstraintSettings):
    """Settings of group-relative policy optimization."""

    variant: Variant = "grpo"
    """Variant of the algorithm; see docs/reference/trainers/grpo.md."""
    group_size: int = 8
    """Attempts per task, all from one start state."""
    tasks_per_iteration: int = 16
    """Tasks per iteration."""
    branches: int = 0
    """Further groups per task, each from a state within one of its attempts (tree rollouts)."""
    epochs: int = 1
    """Passes over an iteration's trajectories."""
    clip_low: float = 0.2
    """The ratio is clipped to [1 - clip_low, 1 + clip_high]; CISPO's weight has the upper bound alone."""
    clip_high: float = 0.28
    """See clip_low."""
    kl_coef: float = 0.0
    """Weight of the KL to the policy at the start of training; 0 keeps no reference model."""
    max_tokens: int = 1024
    """dr_grpo's constant, and the limit of overlong shaping: agent tokens of a trajectory."""
    overlong_buffer: int = 0
    """Width in tokens of DAPO's soft penalty below `max_tokens`; 0 turns it off."""
    dynamic_sampling: bool = False
    """Replace groups with identical returns by groups of further tasks, until the batch is full (DAPO)."""

    def __post_init__(self) -> None:
        OnPolicySettings.__post_init__(self)
        ConstraintSettings.__post_init__(self)
        least = {"group_size": 2, "tasks_per_iteration": 1, "epochs": 1, "clip_low": 0.0, "clip_high": 0.0}
        require_at_least(self, least | {"kl_coef": 0.0, "branches": 0, "max_tokens": 1, "overlong_buffer": 0})
        if self.overlong_buffer > self.max_tokens:
            raise ConfigError(
                f"overlong_buffer must be at most max_tokens {self.max_tokens}, got {self.overlong_buffer}"
            )

    @property
    def episodes_per_task(self) -> int:
        """Episodes per task in an iteration."""
        return self.group_size * (1 + self.branches)

    def check_round(self, episodes: int) -> None:
        """Raise ConfigError if a round of this many episodes has no complete group."""
        if episodes < self.episodes_per_task:
            branches = f" with branches {self.branches}" if self.branches else ""
            raise ConfigError(
                f"group_size {self.group_size}{branches} takes {self.episodes_per_task} episodes per task, and there "
                f"are {episodes}"
            )


@dataclass(frozen=True, slots=True)
class GRPO(GRPOSettings):
    """Group-relative policy optimization."""

    info: ClassVar = TrainerInfo(
        several_processes=True, compares_attempts=True, warm_start="filtered_bc", evolve_defaults={"temperature": 1.0}
    )

    def improve(
        self, policy: Policy, rollouts: Rollouts, *, seed: int, output_dir: Path, progress: Progress | None = None
    ) -> TrainReport:
        """Train `policy` in place until the budget of episodes is spent.

        Raises:
            ConfigError: replies are not sampled from the whole distribution, or the budget has no complete group.
            NothingToTrainOnError: no group had different returns.
            TrainingError: the loss was not finite.
        """
        return run_grpo(self, policy, rollouts, seed=seed, output_dir=output_dir, progress=progress)


def run_grpo(
    settings: GRPOSettings, policy: Policy, rollouts: Rollouts, *, seed: int, output_dir: Path,
    progress: Progress | None = None, starts: Starts | None = None,
) -> TrainReport:  # fmt: skip
    """Iterate: play groups (from `starts`, if given), compare within each, take steps."""
    from agentgym_py.training.rl.learner import Learner
    from agentgym_py.training.rl.loop import Loop

    settings.check_round(rollouts.budget)
    scale, weighting = VARIANTS[settings.variant]
    multipliers = Multipliers(settings)
    learner = Learner(
        policy, settings, seed=seed, temperature=rollouts.temperature, reference=settings.kl_coef > 0,
        entropy_gradient=False, remote_sampler=rollouts.is_remote,
    )  # fmt: skip
    parts = [part for part in (starts, multipliers) if part]
    with Loop(learner, rollouts, output_dir, progress, [seed], parts) as loop:
        for _ in loop.iterations(settings.episodes_per_task):
            groups = play_groups(settings, rollouts, starts, multipliers)  # P groups of G trajectories
            multipliers.update(trajectory for group in groups for trajectory in group)
            records = [
                record
                for group in groups
                for record in encode_group(settings, group, scale, policy, loop.dropped, multipliers)
            ]
            rollouts.release_cache()
            learner.annotate(records)  # log-probabilities of the reference model
            for minibatch in learner.minibatches(
                records, weighting, epochs=settings.epochs, constant=settings.max_tokens
            ):
                for batch in learner.microbatches(minibatch):  # N agent tokens of B trajectories
                    out = learner.forward(batch)
                    learner.backward(settings_loss(settings, out, batch), out, batch)
                learner.step()
            if not records:
                learner.warn_once("signal", no_signal(settings, groups, multipliers))
            stats = group_stats(settings, groups, multipliers) | (starts.stats(groups) if starts else {})
            stats |= mean_parts([t for group in groups for t in group]) if rollouts.scorer else {}
            stats |= multipliers.logged
            loop.finish_iteration(records, settings.epochs, learner.logged | stats)
    multipliers.save(output_dir)
    return loop.report(any("loss" in row for row in loop.totals.history))


def settings_loss(settings: GRPOSettings, out: Output, batch: TokenBatch) -> Loss:
    """Return the loss of a batch's N agent tokens by the settings."""
    assert batch.advantages_N is not None
    return grpo_loss(
        out.logps_N, batch.old_logps_N, batch.advantages_N, batch.row_N, variant=settings.variant,
        low=settings.clip_low, high=settings.clip_high, ref_logps_N=batch.ref_logps_N, kl_coef=settings.kl_coef,
        importance_N=batch.importance_N,
    )  # fmt: skip


def play_groups(
    settings: GRPOSettings, rollouts: Rollouts, starts: Starts | None = None, multipliers: Multipliers | None = None
) -> list[list[Trajectory]]:
    """Play an iteration's groups; with dynamic sampling, until enough have different returns or the budget is spent."""

    def play(tasks: int) -> list[list[Trajectory]]:
        if starts:
            return starts.play(rollouts, tasks)
        if settings.branches:
            return rollouts.branching_groups(tasks, settings.group_size, settings.branches)
        return rollouts.groups(tasks, settings.group_size)

    groups, per_task = play(settings.tasks_per_iteration), 1 + settings.branches
    while settings.dynamic_sampling and rollouts.remaining >= settings.episodes_per_task:
        apart = sum(returns_differ(settings, group, multipliers) for group in groups)
        missing = settings.tasks_per_iteration * per_task - apart
        if missing <= 0:
            break
        groups += play(math.ceil(missing / per_task))
    return groups


def shaped_return(settings: GRPOSettings, trajectory: Trajectory, multipliers: Multipliers | None = None) -> float:
    """Return what a trajectory is compared by: its return, penalized by its costs, with its overlong penalty."""
    tokens = sum(sum(record.mask) for step in trajectory.steps if step.trained for record in step.token_records)
    reward = multipliers.penalize(trajectory.reward, trajectory.costs) if multipliers else trajectory.reward
    return reward + overlong_penalty(tokens, settings.max_tokens, settings.overlong_buffer)


def returns_differ(settings: GRPOSettings, group: Sequence[Trajectory], multipliers: Multipliers | None = None) -> bool:
    """Whether the group has different returns."""
    returns = [shaped_return(settings, trajectory, multipliers) for trajectory in group if trajectory.is_evidence]
    return bool(returns) and max(returns) - min(returns) > _ROUNDING


def encode_group(
    settings: GRPOSettings, group: Sequence[Trajectory], scale: Scale, policy: Policy, dropped: Counter[str],
    multipliers: Multipliers | None = None,
) -> list[Record]:  # fmt: skip
    """Return the group's records with their advantages; none if all returns are identical."""
    import torch

    from agentgym_py.policy.tokens import why_nothing_to_learn
    from agentgym_py.training.rl.advantages import group_advantages
    from agentgym_py.training.rl.batch import encode_record

    evidence = [trajectory for trajectory in group if trajectory.is_evidence]
    dropped.update(["ended by an infrastructure error"] * (len(group) - len(evidence)))
    if not returns_differ(settings, evidence, multipliers):
        dropped["in a group with identical returns"] += len(evidence)
        return []
    returns = [shaped_return(settings, trajectory, multipliers) for trajectory in evidence]
    returns_G = torch.tensor(returns, dtype=torch.float64)
    records = []
    for trajectory, advantage in zip(evidence, group_advantages(returns_G, scale), strict=True):
        record = encode_record(trajectory, policy.chat, mask_cut=settings.mask_truncated_completions)
        if record is None:
            dropped[why_nothing_to_learn(trajectory)] += 1
            continue
        record.advantages_n = torch.full((record.n,), float(advantage))
        records.append(record)
    return records


def group_stats(
    settings: GRPOSettings, groups: Sequence[Sequence[Trajectory]], multipliers: Multipliers | None = None
) -> dict[str, float]:
    """Summarize an iteration's groups and episodes."""
    from agentgym_py.training.rl.batch import episode_stats

    ties = [group for group in groups if not returns_differ(settings, group, multipliers)]
    number = max(len(groups), 1)
    outcomes = [{trajectory.success for trajectory in group if trajectory.is_evidence} for group in ties]
    return {
        "groups": float(len(groups)), "groups_all_the_same": len(ties) / number,
        "groups_all_failed": outcomes.count({False}) / number, "groups_all_won": outcomes.count({True}) / number,
        **episode_stats(
            [trajectory for group in groups for trajectory in group], settings.mask_truncated_completions
        ),
    }  # fmt: skip


def no_signal(
    settings: GRPOSettings, groups: Sequence[Sequence[Trajectory]], multipliers: Multipliers | None = None
) -> str:
    """Say why an iteration had nothing to learn from."""
    if not any(trajectory.is_evidence for group in groups for trajectory in group):
        return "no step was taken in an iteration: all of its episodes ended by an error"
    stats = group_stats(settings, groups, multipliers)
    failed, won = (round(stats[name] * len(groups)) for name in ("groups_all_failed", "groups_all_won"))
    return (
        f"no step was taken in an iteration: none of its {len(groups)} groups had different returns ({failed} always "
        f"failed, {won} always succeeded); a higher temperature or group_size, or dynamic_sampling, makes them differ"
    )
