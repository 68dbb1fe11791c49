"""Kahneman-Tversky optimisation (KTO): learns from single good and bad trajectories, without pairs.

    r_i = beta (logp_i - ref_i)                  logp: sum over a trajectory's agent tokens; ref: by the policy before
    loss = mean over i of  desirable_weight (1 - sigma(r_i - beta z))    of a good trajectory
                           undesirable_weight (1 - sigma(beta z - r_i))  of a bad one
    z = max(0, mean over the batch of log pi(y_j | x_i) - log pi_ref(y_j | x_i)), without gradient

arXiv:2402.01306. z estimates how far the policy has moved overall, on mismatched rows: an episode y_j of the batch
after the opening x_i of another. The loss equals that of trl's KTOTrainer, and the model's own dropout is off, as in
trl. Deviations: adapters keep `lora_dropout`; the head is applied at the agent's tokens only; an opening is everything
before the first reply to learn, y the rest with its observations, which have no loss; the reference's log-probabilities
are computed once, beforehand; a mismatched row is cut at `max_length`; the order is drawn once, so that batches and
their mismatched rows are the same in every epoch; AdamW with beta2 0.95; a mixture of experts gets no router loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from agentgym_py.checks import require_at_least, require_positive
from agentgym_py.errors import ConfigError
from agentgym_py.policy.tokens import RowSize, Sample
from agentgym_py.policy.typing import Tensor
from agentgym_py.rng import Rng
from agentgym_py.training import TrainReport
from agentgym_py.training.data import TrainingData, no_data_error, prepare, sequential_batches
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import OfflineSettings, Rates, require_no_validation
from agentgym_py.training.trainer import KEEP_FAILURES, TrainerInfo
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training.fit import Fit


class KTORow(NamedTuple):
    """A good or bad trajectory in tokens, with its mismatched row."""

    sample: Sample
    good: bool
    ref: float
    """Log-probability of its agent tokens under the reference, summed."""
    mismatched: Sample
    """Another episode after this trajectory's opening."""
    ref_mismatched: float


def kto_size(row: KTORow) -> RowSize:
    """Return the larger size of a row's two samples, which have forward passes of their own."""
    first, second = RowSize.of(row.sample), RowSize.of(row.mismatched)
    return RowSize(max(first.sequences, second.sequences), max(first.longest, second.longest))


class KTOLoss(NamedTuple):
    """The loss of a batch and its rewards."""

    loss: Tensor
    """Mean over the batch, a scalar."""
    rewards_B: Tensor
    """beta (logp - ref), without gradient."""


def reference_point(logps_B: Tensor, ref_logps_B: Tensor) -> Tensor:
    """Estimate z from a batch's mismatched rows, a scalar without gradient."""
    return (logps_B - ref_logps_B).mean().clamp(min=0).detach()


def kto_loss(
    logps_B: Tensor, ref_logps_B: Tensor, good_B: Tensor, z: Tensor, beta: float, good_weight: float, bad_weight: float
) -> KTOLoss:
    """Return KTO's loss of B trajectories, of which `good_B` (bool) are good, at the reference point `z`."""
    ratios_B = logps_B - ref_logps_B
    is_good_B = good_B.to(ratios_B.dtype)
    weights_B = good_weight * is_good_B + bad_weight * (1 - is_good_B)
    losses_B = weights_B * (1 - ((2 * is_good_B - 1) * beta * (ratios_B - z)).sigmoid())
    return KTOLoss(losses_B.mean(), beta * ratios_B.detach())


@dataclass(frozen=True, slots=True)
class KTO(OfflineSettings):
    """Settings of KTO."""

    info: ClassVar = TrainerInfo(several_processes=True, warm_start="filtered_bc", evolve_defaults=KEEP_FAILURES)

    rates: ClassVar = Rates(1e-4, 1e-6)
    batch_size: int = 8
    """Trajectories per batch, at least 2, because the batch estimates the reference point."""
    threshold: float | None = None
    """Minimum return of a good trajectory; None: successes are good."""
    beta: float = 0.1
    """How fast the loss saturates as the policy moves away from the reference; smaller lets it move further."""
    desirable_weight: float = 1.0
    """Weight of good trajectories; the two weights can balance unequal numbers."""
    undesirable_weight: float = 1.0
    """Weight of bad trajectories."""

    def __post_init__(self) -> None:
        OfflineSettings.__post_init__(self)
        require_no_validation(self)
        if self.batch_size < 2:
            raise ConfigError(f"batch_size must be at least 2, got {self.batch_size}: KTO compares within a batch")
        if self.threshold is not None and math.isnan(self.threshold):
            raise ConfigError("threshold must be a number, got nan")
        require_positive(self, "beta")
        require_at_least(self, {"desirable_weight": 0.0, "undesirable_weight": 0.0})
        if not self.desirable_weight and not self.undesirable_weight:
            raise ConfigError("desirable_weight and undesirable_weight must not both be 0")

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Train `policy` in place towards the good trajectories and away from the bad ones.

        Raises:
            NothingToTrainOnError: fewer than two trajectories can be trained on.
        """
        from agentgym_py.training.fit import Fit

        data = prepare(policy, trajectories, self.max_length, mask_cut=self.mask_truncated_completions)
        if len(data.samples) == 1:
            data.dropped["without another one to estimate the reference point from"] += 1
        if len(data.samples) < 2:
            raise no_data_error("kto", data.dropped)
        rows = self.rows(policy, data, seed)
        with Fit(
            "kto", policy, self, rows, seed=seed, output_dir=output_dir, progress=progress, size_of=kto_size,
            dropout=False,
        ) as fit:  # fmt: skip
            for step in fit.steps(sequential_batches(len(rows), self)):
                for at in range(0, len(step), self.batch_size):
                    batch, last = step[at : at + self.batch_size], at + self.batch_size >= len(step)
                    z = self.reference_point(fit, batch)
                    for part in fit.microbatches(batch, last):
                        fit.backward(*self.loss(fit, part, z, len(step)))
                fit.step()
        good = sum(row.good for row in rows)
        report = fit.report(data, good=good, bad=len(rows) - good)
        if 0 < good < len(rows):
            return report
        return report.with_note(f"all {len(rows)} trajectories are {'good' if good else 'bad'}: there is no contrast")

    def rows(self, policy: Policy, data: TrainingData, seed: int) -> list[KTORow]:
        """Return the trajectories in training order, with the log-probabilities of the policy as it is now."""
        from agentgym_py.policy.logprobs import sample_logprobs

        bound = self.threshold
        good = [t.success if bound is None else t.reward >= bound for t in data.trajectories]
        order = Rng("kto", seed).sample(range(len(good)), len(good))
        samples = [data.samples[i] for i in order]
        mismatched = mismatched_samples(samples, self.batch_size, min(self.max_length, policy.max_length))
        refs, mismatched_refs = (
            sample_logprobs(policy.model, rows, self.batch_size, self.bf16, max_tokens=self.microbatch_tokens)
            for rows in (samples, mismatched)
        )
        columns = samples, [good[i] for i in order], refs, mismatched, mismatched_refs
        return [KTORow(*row) for row in zip(*columns, strict=True)]

    def reference_point(self, fit: Fit[KTORow], batch: Sequence[KTORow]) -> Tensor:
        """Estimate the batch's z from its mismatched rows."""
        logps_B = fit.compute(batch, lambda part: fit.row_logprobs([row.mismatched for row in part]))
        return reference_point(logps_B, logps_B.new_tensor([row.ref_mismatched for row in batch]))

    def loss(self, fit: Fit[KTORow], part: Sequence[KTORow], z: Tensor, rows: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the part's share of the loss of a step of `rows` trajectories, and its logs (trl's names)."""
        import torch

        logps_B = fit.row_logprobs([row.sample for row in part])
        good_B = torch.tensor([row.good for row in part], device=logps_B.device)
        refs_B = logps_B.new_tensor([row.ref for row in part])
        loss, rewards_B = kto_loss(
            logps_B, refs_B, good_B, z, self.beta, self.desirable_weight, self.undesirable_weight
        )
        logged = {
            "kl": z.expand(len(part)), "rewards/chosen": rewards_B[good_B], "rewards/rejected": rewards_B[~good_B],
            "logps/chosen": logps_B[good_B], "logps/rejected": logps_B[~good_B],
        }  # fmt: skip
        return loss * len(part) / rows, logged


def mismatched_samples(samples: Sequence[Sample], batch_size: int, max_length: int) -> list[Sample]:
    """Join each sample's opening with what follows the opening of the previous sample of its batch.

    In a batch of one it is the previous sample of all. An opening is everything before the first trained token. Of
    several sequences of a sample the first one counts that has such a token.
    """
    rows, samples = list[Sample](), [_first_trained(sample) for sample in samples]
    for i, sample in enumerate(samples):
        first = i - i % batch_size
        last = min(first + batch_size, len(samples)) - 1
        other = samples[last if i == first < last else i - 1]
        begin, end = other.mask.index(1), sample.mask.index(1)
        ids = sample.input_ids[:end] + other.input_ids[begin:]
        rows.append(Sample(ids[:max_length], (sample.mask[:end] + other.mask[begin:])[:max_length]))
    return rows


def _first_trained(sample: Sample) -> Sample:
    """Return a sample's first sequence with a trained token."""
    parts = (sample.sequence(number) for number in range(len(sample.starts)))
    return next(part for part in parts if any(part.mask))
