"""Direct preference optimisation (DPO): of two trajectories of one task the better one becomes more likely than it was.

    h = (logp_w - ref_w) - (logp_l - ref_l)        logp: sum over a trajectory's agent tokens; ref: by the policy before
    sigmoid:  -(1 - e) log sigma(beta h) - e log sigma(-beta h)      e: label_smoothing
    hinge:    max(0, 1 - beta h)
    ipo:      (h' - 1 / (2 beta))^2                                  h' as h, of means over a trajectory's agent tokens
    and sft_weight times -logp_w / |w|                               |w|: the better one's agent tokens

arXiv:2305.18290; smoothing as in its authors' code ("conservative DPO"); hinge is SLiC's loss, arXiv:2305.10425, of the
same h; ipo arXiv:2310.12036, with means as trl has it; the last term is iterative RPO's, arXiv:2404.19733 (its alpha),
of each pair its own mean, where trl's `sft` takes one over a batch. On trajectories against failures of one task this
is ETO, arXiv:2403.02502. The work is done by trl's DPOTrainer: token ids and masks go straight in. Its loss is taken at
the agent's tokens only (equal to trl's own). Deviations: observations stand in the context of each trajectory and carry
no loss; the reference's log-probabilities are computed once, beforehand, instead of by a frozen copy at every step
(with LoRA: instead of the model with its adapters off), the same numbers without a second model; AdamW with beta2 0.95;
batches are made of pairs of similar length; a mixture of experts gets no router loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from agentgym_py.checks import check_least, check_positive
from agentgym_py.errors import ConfigError
from agentgym_py.policy.adapters import lora
from agentgym_py.policy.tokens import IGNORED, Sample
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.finetune import PairTuning, arguments, dealt, nothing_left, trained, usable_pairs
from agentgym_py.training.progress import Progress
from agentgym_py.training.trainer import CONTRASTS
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

LossType = Literal["sigmoid", "hinge", "ipo"]


class LogRatios(NamedTuple):
    """What the policy makes of B trajectories, against the reference."""

    ratios_B: Tensor
    """logp - ref, summed over the agent's tokens."""
    tokens_B: Tensor
    """How many those are."""


def dpo_loss(
    chosen: LogRatios, rejected: LogRatios, beta: float, loss_type: LossType = "sigmoid", label_smoothing: float = 0.0
) -> Tensor:
    """The loss of each of B pairs, (B,)."""
    from torch.nn.functional import logsigmoid

    if loss_type == "ipo":
        chosen_B, rejected_B = (each.ratios_B / each.tokens_B for each in (chosen, rejected))
        return (chosen_B - rejected_B - 1 / (2 * beta)) ** 2
    margins_B = beta * (chosen.ratios_B - rejected.ratios_B)
    if loss_type == "hinge":
        return (1 - margins_B).relu()
    return -(1 - label_smoothing) * logsigmoid(margins_B) - label_smoothing * logsigmoid(-margins_B)


def sft_loss(logps_B: Tensor, tokens_B: Tensor) -> Tensor:
    """The negative mean log-probability of the tokens of each of B trajectories, (B,); `logps_B` are sums."""
    return -logps_B / tokens_B


@dataclass(frozen=True, slots=True)
class DPO(PairTuning):
    """Settings of DPO."""

    shared: ClassVar = True
    evolve_defaults: ClassVar = CONTRASTS
    cloner: ClassVar = "filtered_bc"

    learning_rate: float = 3e-4
    """Peak of the cosine schedule; 3e-4 suits the tiny model, 5e-7 to 5e-6 a pretrained one."""
    beta: float = 0.1
    """How dear it is to move away from the reference, the policy as it was before; for ipo the paper's tau."""
    loss_type: LossType = "sigmoid"
    """`sigmoid` (DPO), `hinge` (SLiC) or `ipo`."""
    label_smoothing: float = 0.0
    """Share of the pairs that are taken to be the wrong way round, below 0.5; of `sigmoid` only."""
    sft_weight: float = 1.0
    """Weight of the better one's own negative log-probability, a token: with 1 it cannot become less likely while the
    worse one falls faster (iterative RPO); 0 is DPO as published."""

    def __post_init__(self) -> None:
        PairTuning.__post_init__(self)
        check_positive(self, "beta")
        check_least(self, {"sft_weight": 0.0})
        if not 0 <= self.label_smoothing < 0.5:
            raise ConfigError(f"label_smoothing must be in [0, 0.5), got {self.label_smoothing}")
        if self.label_smoothing and self.loss_type != "sigmoid":
            raise ConfigError(f"label_smoothing belongs to the loss_type sigmoid, not to {self.loss_type}")

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Train `policy` in place on pairs of trajectories of one task; of what it was, `beta` keeps it near.

        Nothing stays in `output_dir`; who wants to keep the policy calls its `save`.

        Raises:
            NothingToTrainOnError: no task has a better and a worse trajectory.
        """
        kept, ties = usable_pairs(policy, trajectories, self, seed)
        if not kept.samples:
            raise nothing_left("dpo", kept.dropped)
        make = partial(self._dpo, policy, kept.samples, seed)
        done = trained(make, policy, kept, self.epochs, output_dir, progress)
        return replace(done, metrics={**done.metrics, "pairs": len(kept.samples) // 2, "ties": ties})

    def _dpo(self, policy: Policy, samples: list[Sample], seed: int, output_dir: Path) -> Any:
        import datasets
        from trl import DPOConfig

        from agentgym_py.policy.logprobs import sample_logprobs

        refs = sample_logprobs(policy.model, samples, 2 * self.batch_size, self.bf16)
        rows = [
            {
                "chosen_ids": good.input_ids, "chosen_labels": good.labels, "ref_chosen_logps": ref_good,
                "rejected_ids": bad.input_ids, "rejected_labels": bad.labels, "ref_rejected_logps": ref_bad,
                "length": max(len(good.input_ids), len(bad.input_ids)),
            }
            for good, bad, ref_good, ref_bad in zip(samples[::2], samples[1::2], refs[::2], refs[1::2], strict=True)
        ]  # fmt: skip
        args = arguments(
            DPOConfig, self, policy, seed, output_dir,
            beta=self.beta, loss_type=[self.loss_type], label_smoothing=self.label_smoothing,
            precompute_ref_log_probs=True, remove_unused_columns=False, train_sampling_strategy="group_by_length",
        )  # fmt: skip
        return _agent_token_trainer(self.sft_weight)(
            model=policy.model, args=args, processing_class=policy.tokenizer, peft_config=lora(self.lora_rank),
            train_dataset=datasets.Dataset.from_list(rows), data_collator=_collate,
        )  # fmt: skip


def _collate(rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """A batch as trl's loss reads it, the better ones before the worse ones; `completion_mask` is 1 on agent tokens."""
    import torch

    from agentgym_py.policy.logprobs import agent_mask, padded_ids

    sides = ("chosen", "rejected")
    ids, labels = ([row[f"{side}_{name}"] for side in sides for row in rows] for name in ("ids", "labels"))
    refs = {f"ref_{side}_logps": torch.tensor([row[f"ref_{side}_logps"] for row in rows]) for side in sides}
    return {**padded_ids(ids), "completion_mask": agent_mask(labels), **refs}


def _agent_token_trainer(sft_weight: float) -> Any:
    """The DPOTrainer whose loss is `dpo_loss`, and `sft_weight` times the better one's `sft_loss`."""
    from trl import DPOTrainer

    from agentgym_py.policy.logprobs import row_logprobs

    class AgentTokenTrainer(dealt(DPOTrainer)):  # type: ignore[misc]  # trl is untyped here
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            ids, agent = inputs["input_ids"], inputs["completion_mask"]
            logps = row_logprobs(model, ids, ids.masked_fill(agent == 0, IGNORED)).chunk(2)
            tokens = agent[:, 1:].sum(-1).chunk(2)
            refs = inputs["ref_chosen_logps"], inputs["ref_rejected_logps"]
            chosen, rejected = (LogRatios(a - b, n) for a, b, n in zip(logps, refs, tokens, strict=True))
            self._tell(chosen.ratios_B.detach() * self.beta, rejected.ratios_B.detach() * self.beta, logps, inputs)
            losses_B = dpo_loss(chosen, rejected, self.beta, self.loss_types[0], self.label_smoothing)
            if sft_weight:
                sft_B = sft_loss(logps[0], tokens[0])
                self.tell({"loss/pairs": losses_B.detach(), "loss/chosen": sft_B.detach()}, inputs["share"])
                losses_B = losses_B + sft_weight * sft_B
            return losses_B.mean() * inputs["share"]

        def _tell(self, chosen_B: Any, rejected_B: Any, logps: Any, inputs: Any) -> None:
            """Log what trl's own does, under its names."""
            told = {
                "rewards/chosen": chosen_B, "rewards/rejected": rejected_B, "rewards/margins": chosen_B - rejected_B,
                "rewards/accuracies": chosen_B > rejected_B,
                "logps/chosen": logps[0].detach(), "logps/rejected": logps[1].detach(),
            }  # fmt: skip
            self.tell(told, inputs["share"])

    return AgentTokenTrainer
