"""Odds ratio preference optimisation (ORPO): cloning the better trajectory, with odds against the worse one.

    p = exp(mean over a trajectory's agent tokens of log pi(a_t | everything before))      odds = p / (1 - p)
    loss = mean over pairs of (- log p_w - odds_weight log sigma(log odds_w - log odds_l))

arXiv:2403.07691; there is no reference model. The model's own dropout is off, as in trl. Deviations: adapters keep
`lora_dropout`; the first term is a mean over each trajectory's agent tokens and then over pairs, where trl takes one
mean over all tokens of the better trajectories, prompts and observations included; the second term is trl's, but 1 - p
is at least the number format's epsilon, so that the gradient stays finite for p near 1; AdamW with beta2 0.95; batches
hold pairs of similar length; a mixture of experts gets no router loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from agentgym_py.checks import require_at_least
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.data import Pair, no_data_error, pair_size, prepare_pairs
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import PairSettings
from agentgym_py.training.trainer import LEARNS_FROM_COMPARISONS
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training.fit import Fit


class ORPOLoss(NamedTuple):
    """The loss of a batch and its log-odds."""

    loss: Tensor
    """Mean over the B pairs, a scalar."""
    log_odds_B: Tensor
    """log odds_w - log odds_l, without gradient."""


def log1mexp(x: Tensor) -> Tensor:
    """Return log(1 - exp(x)) for x <= 0, accurate near 0 and far from it; x is at most -epsilon."""
    import torch

    half = -math.log(2)  # above it, 1 - exp(x) would lose digits
    x = x.clamp(max=-torch.finfo(x.dtype).eps)
    near = x > half  # each branch gets only its own values, because its gradient is nan for the others
    return torch.where(
        near,
        (-torch.expm1(torch.where(near, x, half))).log(),
        torch.log1p(-torch.where(near, half, x).exp()),
    )


def orpo_loss(chosen_B: Tensor, rejected_B: Tensor, weight: float) -> ORPOLoss:
    """Return ORPO's loss of B pairs from the mean log-probabilities of their agent tokens; `weight` is lambda."""
    from torch.nn.functional import logsigmoid

    log_odds_B = (chosen_B - log1mexp(chosen_B)) - (rejected_B - log1mexp(rejected_B))
    return ORPOLoss((-chosen_B - weight * logsigmoid(log_odds_B)).mean(), log_odds_B.detach())


@dataclass(frozen=True, slots=True)
class ORPO(PairSettings):
    """Settings of ORPO."""

    info: ClassVar = LEARNS_FROM_COMPARISONS

    odds_weight: float = 0.1
    """lambda, the weight of the odds against the worse trajectory; 0 only clones the better one."""

    def __post_init__(self) -> None:
        PairSettings.__post_init__(self)
        require_at_least(self, {"odds_weight": 0.0})

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Train `policy` in place on pairs of trajectories of one task.

        Raises:
            NothingToTrainOnError: no task has a better and a worse trajectory.
        """
        from agentgym_py.training.fit import Fit

        data, ties = prepare_pairs(policy, trajectories, self, seed)
        if not data.samples:
            raise no_data_error("orpo", data.dropped)
        rows = [Pair(*pair) for pair in zip(data.samples[::2], data.samples[1::2], strict=True)]
        with Fit(
            "orpo", policy, self, rows, seed=seed, output_dir=output_dir, progress=progress, size_of=pair_size,
            dropout=False,
        ) as fit:  # fmt: skip
            for batch in fit.steps():
                for part in fit.microbatches(batch):
                    fit.backward(*self.loss(fit, part, len(batch)))
                fit.step()
        return fit.report(data, pairs=len(rows), ties=ties)

    def loss(self, fit: Fit[Pair], part: Sequence[Pair], pairs: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the part's share of the loss of a step of `pairs` pairs, and its logs (trl's names)."""
        samples = [pair.chosen for pair in part] + [pair.rejected for pair in part]
        logps_R = fit.row_logprobs(samples)
        tokens_R = logps_R.new_tensor([sum(sample.mask[1:]) for sample in samples])
        chosen_B, rejected_B = (logps_R / tokens_R).chunk(2)
        loss, log_odds_B = orpo_loss(chosen_B, rejected_B, self.odds_weight)
        logged = {
            "logps/chosen": chosen_B, "logps/rejected": rejected_B, "log_odds_chosen": log_odds_B,
            "rewards/accuracies": chosen_B > rejected_B,
        }  # fmt: skip
        return loss * len(part) / pairs, logged
