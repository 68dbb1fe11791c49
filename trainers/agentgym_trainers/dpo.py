"""Direct preference optimisation (DPO): the better of two trajectories of one task becomes relatively more likely.

    h = (logp_w - ref_w) - (logp_l - ref_l)        logp: sum over a trajectory's agent tokens; ref: by the policy before
    loss = mean over pairs of (l - sft_weight logp_w / |w|)         |w|: the better one's agent tokens

    sigmoid:  l = - (1 - label_smoothing) log sigma(beta h) - label_smoothing log sigma(-beta h)
    hinge:    l = max(0, 1 - beta h)
    ipo:      l = (h' - 1 / (2 beta))^2                             h' as h, of means over a trajectory's agent tokens

arXiv:2305.18290; smoothing as in its authors' code ("conservative DPO"); hinge is SLiC's loss, arXiv:2305.10425, of the
same h; ipo arXiv:2310.12036, with means as in trl; the last term is iterative RPO's, arXiv:2404.19733 (its alpha), a
mean per pair, where trl's `sft` takes one over a batch. On successes against failures of one task, with `sft_weight` 0,
this is ETO's loss, arXiv:2403.02502. The loss equals that of trl's DPOTrainer, and the model's own dropout is off, as
in trl. Deviations: adapters keep `lora_dropout`; the head is applied at the agent's tokens only; observations are
context and have no loss; the reference's log-probabilities are computed once, beforehand, instead of by a frozen copy
at every step, which gives the same numbers without a second model (adapters that the policy has count); AdamW with
beta2 0.95; batches hold pairs of similar length; a mixture of experts gets no router loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from agentgym_py.checks import require_at_least, require_positive
from agentgym_py.errors import ConfigError
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.data import Pair, TrainingData, no_data_error, pair_size, prepare_pairs
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import PairSettings, Rates
from agentgym_py.training.trainer import LEARNS_FROM_COMPARISONS
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training.fit import Fit

LossType = Literal["sigmoid", "hinge", "ipo"]


class LogRatios(NamedTuple):
    """Log-ratios of the policy to the reference for B trajectories."""

    ratios_B: Tensor
    """logp - ref, summed over the agent's tokens."""
    tokens_B: Tensor
    """Number of agent tokens."""


def dpo_loss(
    chosen: LogRatios, rejected: LogRatios, beta: float, loss_type: LossType = "sigmoid", label_smoothing: float = 0.0
) -> Tensor:
    """Return the loss of each of B pairs, (B,)."""
    from torch.nn.functional import logsigmoid

    if loss_type == "ipo":
        chosen_B, rejected_B = (side.ratios_B / side.tokens_B for side in (chosen, rejected))
        return (chosen_B - rejected_B - 1 / (2 * beta)) ** 2
    margins_B = beta * (chosen.ratios_B - rejected.ratios_B)
    if loss_type == "hinge":
        return (1 - margins_B).relu()
    return -(1 - label_smoothing) * logsigmoid(margins_B) - label_smoothing * logsigmoid(-margins_B)


def sft_loss(logps_B: Tensor, tokens_B: Tensor) -> Tensor:
    """Return the negative mean log-probability of the tokens of B trajectories, (B,); `logps_B` are sums."""
    return -logps_B / tokens_B


@dataclass(frozen=True, slots=True)
class DPO(PairSettings):
    """Settings of DPO."""

    info: ClassVar = LEARNS_FROM_COMPARISONS

    rates: ClassVar = Rates(3e-4, 1e-6)
    beta: float = 0.1
    """Penalty on moving away from the reference, the policy before training; for ipo the paper's tau. The default is
    that of the paper and of trl, for pretrained models; for `tiny`, 1 with sft_weight 5 and match success is stronger
    (docs/reference/trainers/dpo.md)."""
    loss_type: LossType = "sigmoid"
    """`sigmoid` (DPO), `hinge` (SLiC) or `ipo`."""
    label_smoothing: float = 0.0
    """Assumed share of pairs in the wrong order, below 0.5; for `sigmoid` only."""
    sft_weight: float = 1.0
    """Weight of the better trajectory's negative log-probability per token: with 1 it cannot become less likely while
    the worse one falls faster (iterative RPO); 0 is DPO as published."""

    def __post_init__(self) -> None:
        PairSettings.__post_init__(self)
        require_positive(self, "beta")
        require_at_least(self, {"sft_weight": 0.0})
        if not 0 <= self.label_smoothing < 0.5:
            raise ConfigError(f"label_smoothing must be in [0, 0.5), got {self.label_smoothing}")
        if self.label_smoothing and self.loss_type != "sigmoid":
            raise ConfigError(f"label_smoothing needs the loss_type sigmoid (it is {self.loss_type})")

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
            raise no_data_error("dpo", data.dropped)
        rows = self.rows(policy, data)
        with Fit(
            "dpo", policy, self, rows, seed=seed, output_dir=output_dir, progress=progress, size_of=pair_size,
            dropout=False,
        ) as fit:  # fmt: skip
            for batch in fit.steps():
                for part in fit.microbatches(batch):
                    fit.backward(*self.loss(fit, part, len(batch)))
                fit.step()
        return fit.report(data, pairs=len(rows), ties=ties)

    def rows(self, policy: Policy, data: TrainingData) -> list[Pair]:
        """Return the pairs with the log-probabilities of the reference, the policy as it is now."""
        from agentgym_py.policy.logprobs import sample_logprobs

        refs = sample_logprobs(
            policy.model, data.samples, 2 * self.batch_size, self.bf16, max_tokens=self.microbatch_tokens
        )
        return [Pair(*pair) for pair in zip(data.samples[::2], data.samples[1::2], refs[::2], refs[1::2], strict=True)]

    def loss(self, fit: Fit[Pair], part: Sequence[Pair], pairs: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the part's share of the loss of a step of `pairs` pairs, and its logs (trl's names)."""
        sides = [pair.chosen for pair in part], [pair.rejected for pair in part]
        logps = fit.row_logprobs([*sides[0], *sides[1]]).chunk(2)
        refs = [pair.ref_chosen for pair in part], [pair.ref_rejected for pair in part]
        chosen, rejected = (
            LogRatios(logps_B - logps_B.new_tensor(ref), logps_B.new_tensor([sum(s.mask[1:]) for s in side]))
            for logps_B, ref, side in zip(logps, refs, sides, strict=True)
        )
        losses_B = dpo_loss(chosen, rejected, self.beta, self.loss_type, self.label_smoothing)
        rewards = self.beta * chosen.ratios_B.detach(), self.beta * rejected.ratios_B.detach()
        logged = {
            "rewards/chosen": rewards[0], "rewards/rejected": rewards[1], "rewards/margins": rewards[0] - rewards[1],
            "rewards/accuracies": rewards[0] > rewards[1], "logps/chosen": logps[0], "logps/rejected": logps[1],
        }  # fmt: skip
        if self.sft_weight:
            sft_B = sft_loss(logps[0], chosen.tokens_B)
            logged |= {"loss/pairs": losses_B, "loss/chosen": sft_B}
            losses_B = losses_B + self.sft_weight * sft_B
        return losses_B.sum() / pairs, logged
