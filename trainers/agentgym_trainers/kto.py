"""Kahneman-Tversky optimisation (KTO): good and bad trajectories, each judged alone, without pairs.

    r_i = beta (logp_i - ref_i)                  logp: sum over a trajectory's agent tokens; ref: by the policy before
    loss = mean of  w_good (1 - sigma(r_i - beta z))  over good i,  w_bad (1 - sigma(beta z - r_i))  over bad i
    z = max(0, mean over the batch of log pi(y_j | x_i) - log pi_ref(y_j | x_i)), without gradient

arXiv:2402.01306. z estimates how far the policy has moved in general: a batch's episodes y_j stand after the openings
x_i of others. The work is done by trl's KTOTrainer: token ids and masks go straight in. Its loss is taken at the
agent's tokens only (equal to trl's own). Deviations: an opening is all before the first reply to learn, y all after it,
the observations included, which carry no loss; the reference's log-probabilities are computed once, beforehand; a
mismatched row is cut at `max_length`; the order is drawn once, so that batches and their mismatched rows are the same
in every epoch; AdamW with beta2 0.95; a mixture of experts gets no router loss.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from agentgym_py import distributed
from agentgym_py.checks import check_least, check_positive
from agentgym_py.errors import ConfigError
from agentgym_py.policy.adapters import lora
from agentgym_py.policy.tokens import IGNORED, Sample
from agentgym_py.policy.typing import Tensor
from agentgym_py.rng import Rng
from agentgym_py.training import TrainReport
from agentgym_py.training.finetune import FineTuning, arguments, dealt, nothing_left, trained, usable
from agentgym_py.training.progress import Progress
from agentgym_py.training.trainer import WEIGHS
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy


class KTOLoss(NamedTuple):
    """The loss of a batch, and what it was made of."""

    loss: Tensor
    """Mean over the batch, a scalar."""
    rewards_B: Tensor
    """beta (logp - ref), without gradient."""


def reference_point(logps_B: Tensor, ref_logps_B: Tensor) -> Tensor:
    """The estimate z of a batch from its mismatched rows, a scalar without gradient."""
    return (logps_B - ref_logps_B).mean().clamp(min=0).detach()


def kto_loss(
    logps_B: Tensor, ref_logps_B: Tensor, good_B: Tensor, z: Tensor, beta: float, good_weight: float, bad_weight: float
) -> KTOLoss:
    """KTO's loss of B trajectories, of which `good_B` (bool) are good, at the reference point `z`."""
    ratios_B = logps_B - ref_logps_B
    is_good_B = good_B.to(ratios_B.dtype)
    weights_B = good_weight * is_good_B + bad_weight * (1 - is_good_B)
    losses_B = weights_B * (1 - ((2 * is_good_B - 1) * beta * (ratios_B - z)).sigmoid())
    return KTOLoss(losses_B.mean(), beta * ratios_B.detach())


@dataclass(frozen=True, slots=True)
class KTO(FineTuning):
    """Settings of KTO."""

    shared: ClassVar = True
    evolve_defaults: ClassVar = WEIGHS
    cloner: ClassVar = "filtered_bc"

    learning_rate: float = 1e-4
    """Peak of the cosine schedule; 1e-4 suits the tiny model, 5e-7 to 5e-6 a pretrained one."""
    batch_size: int = 8
    """Trajectories a batch, at least 2: the reference point is estimated over it."""
    threshold: float | None = None
    """Least return of a good trajectory, the others are bad; None: those that succeeded are good."""
    beta: float = 0.1
    """How soon a loss is saturated as the policy moves away from where it began; smaller lets it move further."""
    desirable_weight: float = 1.0
    """Weight of the good ones' losses; together with the other one it makes up for unequal numbers."""
    undesirable_weight: float = 1.0
    """Weight of the bad ones' losses."""

    def __post_init__(self) -> None:
        FineTuning.__post_init__(self)
        if self.batch_size < 2:
            raise ConfigError(f"batch_size must be at least 2, got {self.batch_size}: KTO compares within a batch")
        if self.threshold is not None and math.isnan(self.threshold):
            raise ConfigError("threshold must be a number, got nan")
        check_positive(self, "beta")
        check_least(self, {"desirable_weight": 0.0, "undesirable_weight": 0.0})
        if not self.desirable_weight and not self.undesirable_weight:
            raise ConfigError("desirable_weight and undesirable_weight must not both be 0: nothing would be learnt")

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

        Nothing stays in `output_dir`; who wants to keep the policy calls its `save`.

        Raises:
            NothingToTrainOnError: fewer than two can be trained on.
        """
        kept = usable(policy, trajectories, self.max_length)
        if len(kept.samples) == 1:
            kept.dropped["without another one to estimate the reference point from"] += 1
        if len(kept.samples) < 2:
            raise nothing_left("kto", kept.dropped)
        bound = self.threshold
        good = [each.success if bound is None else each.reward >= bound for each in kept.trajectories]
        make = partial(self._kto, policy, kept.samples, good, seed)
        done = trained(make, policy, kept, self.epochs, output_dir, progress)
        done = replace(done, metrics={**done.metrics, "good": sum(good), "bad": len(good) - sum(good)})
        if len(set(good)) > 1:
            return done
        note = f"all {len(good)} trajectories are {'good' if good[0] else 'bad'}: there are none to set against them"
        warnings.warn(note, stacklevel=2)
        return replace(done, notes=(*done.notes, note))

    def _kto(self, policy: Policy, samples: list[Sample], good: list[bool], seed: int, output_dir: Path) -> Any:
        import datasets
        from trl import KTOConfig

        from agentgym_py.policy.logprobs import sample_logprobs

        args = arguments(
            KTOConfig, self, policy, seed, output_dir,
            beta=self.beta, desirable_weight=self.desirable_weight, undesirable_weight=self.undesirable_weight,
            remove_unused_columns=False, precompute_ref_log_probs=True,
        )  # fmt: skip
        order = Rng("kto", seed).sample(range(len(samples)), len(samples))
        room = min(self.max_length, policy.max_length)
        others = mismatched([samples[i] for i in order], self.batch_size, room)
        refs = sample_logprobs(policy.model, samples, self.batch_size, self.bf16)
        other_refs = sample_logprobs(policy.model, others, self.batch_size, self.bf16)
        rows = [
            {
                "input_ids": samples[i].input_ids, "labels": samples[i].labels, "label": good[i],
                "KL_input_ids": other.input_ids, "KL_labels": other.labels,
                "ref_logps": refs[i], "ref_KL_logps": other_ref,
            }
            for i, other, other_ref in zip(order, others, other_refs, strict=True)
        ]  # fmt: skip
        return _agent_token_trainer()(
            model=policy.model, args=args, processing_class=policy.tokenizer, peft_config=lora(self.lora_rank),
            train_dataset=datasets.Dataset.from_list(rows), data_collator=_collate,
        )  # fmt: skip


def mismatched(samples: Sequence[Sample], batch_size: int, max_length: int) -> list[Sample]:
    """What follows the opening of the sample before it in its batch, after each one's own opening.

    In a batch of one it is the sample before it in all. An opening is all before the first trained token.
    """
    made = []
    for i, sample in enumerate(samples):
        first = i - i % batch_size
        last = min(first + batch_size, len(samples)) - 1
        other = samples[last if i == first < last else i - 1]
        begin, end = other.mask.index(1), sample.mask.index(1)
        ids = sample.input_ids[:end] + other.input_ids[begin:]
        made.append(Sample(ids[:max_length], (sample.mask[:end] + other.mask[begin:])[:max_length]))
    return made


def _collate(rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """A batch as trl's loss reads it; the masks are 1 on agent tokens."""
    import torch

    from agentgym_py.policy.logprobs import agent_mask, padded_ids

    batch = {"label": torch.tensor([row["label"] for row in rows])}
    for prefix in ("", "KL_"):
        ids, labels = ([row[f"{prefix}{name}"] for row in rows] for name in ("input_ids", "labels"))
        batch |= {f"{prefix}{name}": each for name, each in padded_ids(ids).items()}
        batch[f"{prefix}completion_mask"] = agent_mask(labels)
        batch[f"ref_{prefix}logps"] = torch.tensor([row[f"ref_{prefix}logps"] for row in rows])
    return batch


def _agent_token_trainer() -> Any:
    """The KTOTrainer whose loss is `kto_loss`."""
    import torch
    from trl import KTOTrainer

    from agentgym_py.policy.logprobs import row_logprobs

    def logps_of(model: Any, batch: Any, prefix: str) -> Any:
        ids, agent = batch[f"{prefix}input_ids"], batch[f"{prefix}completion_mask"]
        return row_logprobs(model, ids, ids.masked_fill(agent == 0, IGNORED))

    class AgentTokenTrainer(dealt(KTOTrainer)):  # type: ignore[misc]  # trl is untyped here
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            good_B, share = inputs["label"], inputs["share"]
            with torch.no_grad():
                others = torch.stack([logps_of(model, inputs, "KL_"), inputs["ref_KL_logps"]])
            own = others[:, : len(good_B) if share > 0 else 0].cpu()
            z = reference_point(*torch.cat(distributed.gather(own), 1)).to(share)
            logps_B = logps_of(model, inputs, "")
            loss, rewards_B = kto_loss(
                logps_B, inputs["ref_logps"], good_B, z, self.beta, self.desirable_weight, self.undesirable_weight
            )
            told = {"kl": z[None], "rewards/chosen": rewards_B[good_B], "rewards/rejected": rewards_B[~good_B]}
            told |= {"logps/chosen": logps_B.detach()[good_B], "logps/rejected": logps_B.detach()[~good_B]}
            self.tell(told, share)
            return loss * share

    return AgentTokenTrainer
