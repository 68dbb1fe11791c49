"""Trajectory ranking: DPO on all ordered pairs of a task's trajectories, with one forward pass per trajectory.

    s_i = beta (logp_i - ref_i)                    logp: sum over a trajectory's agent tokens; ref: by the policy before
    loss = mean over tasks of (mean over the task's pairs i, j with R_i > R_j of (- log sigma(s_i - s_j))
                               + sft_weight (mean over the task's best b of (- logp_b / |b|)))   |b|: its agent tokens

Without a paper of its own, it is RankNet's loss (Burges et al., "Learning to rank using gradient descent", ICML 2005)
of DPO's implicit reward s (arXiv:2305.18290), which needs only the order of a task's returns. Imitating the best one is
from RRHF (arXiv:2304.05302; there a sum over its tokens, here their mean). With two trajectories per task it is `dpo`
with the sigmoid. Every task counts alike, however many pairs it has. DPO takes 2 rows per pair; here N trajectories
take N rows for up to N (N - 1) / 2 pairs. Deviations are as in `dpo`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from agentgym_py.checks import require_at_least, require_positive
from agentgym_py.policy.tokens import RowSize, Sample
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.data import TrainingData, no_data_error, prepare
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import OfflineSettings, Rates
from agentgym_py.training.trainer import LEARNS_FROM_COMPARISONS
from agentgym_py.trajectory import Trajectory, preferences
from agentgym_py.trajectory.selectors import best_first

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training.fit import Fit


class Ranked(NamedTuple):
    """The compared trajectories of one task, in tokens."""

    samples: list[Sample]
    returns: list[float]
    refs: list[float]
    """Log-probabilities of their agent tokens under the reference, summed."""


def ranked_size(row: Ranked) -> RowSize:
    """Return the size of a task's samples."""
    return RowSize.of(*row.samples)


class RankingLoss(NamedTuple):
    """The loss of a batch and its margins."""

    loss: Tensor
    """A scalar."""
    margins_P: Tensor
    """s_i - s_j of each of P pairs, without gradient."""


def ranking_loss(ratios_R: Tensor, returns_R: Tensor, tasks_R: Tensor, beta: float) -> RankingLoss:
    """Return the loss of R trajectories by their log-ratios, returns and task numbers.

    A task without two different returns does not count.
    """
    from torch.nn.functional import logsigmoid

    same_RR = tasks_R[:, None] == tasks_R
    pairs_RR = same_RR & (returns_R[:, None] > returns_R)
    task_pairs_R = same_RR.to(ratios_R.dtype) @ pairs_RR.sum(-1).to(ratios_R.dtype)  # pairs of each row's task
    shares_P = 1 / task_pairs_R[:, None].expand_as(pairs_RR)[pairs_RR]  # they add up to the number of tasks
    margins_P = beta * (ratios_R[:, None] - ratios_R)[pairs_RR]
    loss = -(shares_P * logsigmoid(margins_P)).sum() / shares_P.sum().clamp(min=1)
    return RankingLoss(loss, margins_P.detach())


def best_loss(logps_R: Tensor, tokens_R: Tensor, returns_R: Tensor, tasks_R: Tensor) -> Tensor:
    """Return the negative mean log-probability of the tokens of each task's best trajectories, averaged over tasks.

    For R trajectories: log-probabilities summed over agent tokens, numbers of these, returns and task numbers.
    """
    same_RR = tasks_R[:, None] == tasks_R
    best_R = (~(same_RR & (returns_R > returns_R[:, None])).any(-1)).to(logps_R.dtype)
    shares_R = best_R / (same_RR.to(logps_R.dtype) @ best_R)  # they add up to the number of tasks
    return -(shares_R * logps_R / tokens_R).sum() / shares_R.sum()


@dataclass(frozen=True, slots=True)
class Ranking(OfflineSettings):
    """Settings of trajectory ranking."""

    info: ClassVar = LEARNS_FROM_COMPARISONS

    rates: ClassVar = Rates(1e-4, 1e-6)
    batch_size: int = 2
    """Tasks per batch, each with all its trajectories."""
    beta: float = 0.1
    """Penalty on moving away from the reference, the policy before training."""
    sft_weight: float = 1.0
    """Weight of the best trajectories' negative log-probability per token: with 1 they cannot become less likely while
    the worse ones fall faster."""
    max_per_task: int = 8
    """Largest number of trajectories per task, evenly spaced from the best to the worst."""

    def __post_init__(self) -> None:
        OfflineSettings.__post_init__(self)
        require_positive(self, "beta")
        require_at_least(self, {"max_per_task": 2, "sft_weight": 0.0})

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Train `policy` in place to rank the trajectories of each task by their returns.

        Raises:
            NothingToTrainOnError: no task has a better and a worse trajectory.
        """
        from agentgym_py.training.fit import Fit

        data = prepare(policy, trajectories, self.max_length, mask_cut=self.mask_truncated_completions)
        groups, counts = self._groups(data)
        if not groups:
            raise no_data_error("ranking", data.dropped)
        rows = self.rows(policy, data, groups)
        ranked = [i for group in groups for i in group]
        used = TrainingData(
            [data.trajectories[i] for i in ranked], [data.samples[i] for i in ranked], data.dropped, data.masked
        )
        with Fit(
            "ranking", policy, self, rows, seed=seed, output_dir=output_dir, progress=progress,
            size_of=ranked_size, dropout=False,
        ) as fit:  # fmt: skip
            for batch in fit.steps():
                for part in fit.microbatches(batch):
                    fit.backward(*self.loss(fit, part, len(batch)))
                fit.step()
        return fit.report(used, **counts)

    def rows(self, policy: Policy, data: TrainingData, groups: Sequence[Sequence[int]]) -> list[Ranked]:
        """Return the tasks with the log-probabilities of the reference, the policy as it is now."""
        from agentgym_py.policy.logprobs import sample_logprobs

        samples = [data.samples[i] for group in groups for i in group]
        refs = iter(
            sample_logprobs(policy.model, samples, 4 * self.batch_size, self.bf16, max_tokens=self.microbatch_tokens)
        )
        return [
            Ranked(
                [data.samples[i] for i in group],
                [data.trajectories[i].reward for i in group],
                [next(refs) for _ in group],
            )
            for group in groups
        ]

    def loss(self, fit: Fit[Ranked], part: Sequence[Ranked], tasks: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the part's share of the loss of a step of `tasks` tasks, and its logs."""
        import torch

        samples = [sample for row in part for sample in row.samples]
        logps_R = fit.row_logprobs(samples)
        refs_R = logps_R.new_tensor([ref for row in part for ref in row.refs])
        returns = [value for row in part for value in row.returns]
        ranks = {value: rank for rank, value in enumerate(sorted(set(returns)))}  # not every device has float64
        returns_R = torch.tensor([ranks[value] for value in returns], device=logps_R.device)
        tasks_R = torch.tensor([n for n, row in enumerate(part) for _ in row.samples], device=logps_R.device)
        loss, margins_P = ranking_loss(logps_R - refs_R, returns_R, tasks_R, self.beta)
        logged = {"rewards/margins": margins_P, "rewards/accuracies": margins_P > 0}
        if self.sft_weight:
            tokens_R = logps_R.new_tensor([sum(sample.mask[1:]) for sample in samples])
            best = best_loss(logps_R, tokens_R, returns_R, tasks_R)
            logged |= {"loss/ranking": loss.expand(len(part)), "loss/best": best.expand(len(part))}
            loss = loss + self.sft_weight * best
        return loss * len(part) / tasks, logged

    def _groups(self, data: TrainingData) -> tuple[list[list[int]], dict[str, float]]:
        """Return the positions of each task's ranked trajectories, and counts; the others are counted in `dropped`."""
        built = preferences.build_pairs(data.trajectories, match="all", max_pairs=None)
        tasks: dict[object, set[int]] = {}
        for pair in built.pairs:
            tasks.setdefault(preferences.opening_key(data.trajectories[pair.chosen]), set()).update(pair[:2])
        groups = [pick_evenly(best_first(data.trajectories, task), self.max_per_task) for task in tasks.values()]
        data.dropped.update(built.dropped)
        beyond = sum(map(len, tasks.values())) - sum(map(len, groups))
        data.dropped.update(Counter({f"beyond {self.max_per_task} of their task": beyond} if beyond else {}))
        return groups, {"tasks": len(groups), "ties": built.ties}


def pick_evenly(ranked: Sequence[int], limit: int) -> list[int]:
    """Pick at most `limit` items, evenly spaced, the first and the last included."""
    if len(ranked) <= limit:
        return list(ranked)
    return [ranked[i * (len(ranked) - 1) // (limit - 1)] for i in range(limit)]
