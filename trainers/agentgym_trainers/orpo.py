"""Odds ratio preference optimisation (ORPO): cloning of the better trajectory, and odds against the worse one.

    p = exp(mean over a trajectory's agent tokens of log pi(a_t | everything before))      odds = p / (1 - p)
    loss = mean over pairs of  - log p_w - lambda log sigma(log odds_w - log odds_l)

arXiv:2403.07691; there is no reference model. The work is done by trl's experimental ORPOTrainer: token ids and masks
go straight in. Deviations: the first term is the mean over agent tokens, of each trajectory and then of the pairs,
where trl takes the mean over all the better ones' tokens, prompts and observations included; the second term is trl's
own, but 1 - p is at least the number format's epsilon, and its gradient stays finite where p is near 1; AdamW with
beta2 0.95; batches are made of pairs of similar length; a mixture of experts gets no router loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from agentgym_py.checks import check_least
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


class ORPOLoss(NamedTuple):
    """The loss of a batch, and what it was made of."""

    loss: Tensor
    """Mean over the B pairs, a scalar."""
    log_odds_B: Tensor
    """log odds_w - log odds_l, without gradient."""


def log1mexp(x: Tensor) -> Tensor:
    """log(1 - exp(x)) for x <= 0, exact near 0 and far from it; x nearer to 0 than its epsilon is taken as that."""
    import torch

    half = -math.log(2)  # from here on 1 - exp(x) would lose digits; each branch sees only what suits it, or its
    x = x.clamp(max=-torch.finfo(x.dtype).eps)  # gradient would be nan where the other one is taken
    near = x > half
    return torch.where(
        near,
        (-torch.expm1(torch.where(near, x, half))).log(),
        torch.log1p(-torch.where(near, half, x).exp()),
    )


def orpo_loss(chosen_B: Tensor, rejected_B: Tensor, weight: float) -> ORPOLoss:
    """ORPO's loss of B pairs by the mean log-probabilities of their agent tokens; `weight` is lambda."""
    from torch.nn.functional import logsigmoid

    log_odds_B = (chosen_B - log1mexp(chosen_B)) - (rejected_B - log1mexp(rejected_B))
    return ORPOLoss((-chosen_B - weight * logsigmoid(log_odds_B)).mean(), log_odds_B.detach())


@dataclass(frozen=True, slots=True)
class ORPO(PairTuning):
    """Settings of ORPO."""

    shared: ClassVar = True
    evolve_defaults: ClassVar = CONTRASTS
    cloner: ClassVar = "filtered_bc"

    odds_weight: float = 0.1
    """lambda, the weight of the odds against the worse trajectory; at 0 it is cloning of the better one."""

    def __post_init__(self) -> None:
        PairTuning.__post_init__(self)
        check_least(self, {"odds_weight": 0.0})

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

        Nothing stays in `output_dir`; who wants to keep the policy calls its `save`.

        Raises:
            NothingToTrainOnError: no task has a better and a worse trajectory.
        """
        kept, ties = usable_pairs(policy, trajectories, self, seed)
        if not kept.samples:
            raise nothing_left("orpo", kept.dropped)
        make = partial(self._orpo, policy, kept.samples, seed)
        done = trained(make, policy, kept, self.epochs, output_dir, progress)
        return replace(done, metrics={**done.metrics, "pairs": len(kept.samples) // 2, "ties": ties})

    def _orpo(self, policy: Policy, samples: list[Sample], seed: int, output_dir: Path) -> Any:
        import datasets
        from trl.experimental.orpo import ORPOConfig

        class Ready(datasets.Dataset):  # type: ignore[misc]  # untyped here
            def map(self, *args: Any, **kwargs: Any) -> Any:
                return self  # trl would tokenize text

        args = arguments(
            ORPOConfig, self, policy, seed, output_dir,
            beta=self.odds_weight, remove_unused_columns=False, train_sampling_strategy="group_by_length",
        )  # fmt: skip
        args.max_length = self.max_length  # for None trl takes 512, with a warning; nothing is cut here
        rows = [
            {
                "chosen_input_ids": good.input_ids, "chosen_labels": good.labels,
                "rejected_input_ids": bad.input_ids, "rejected_labels": bad.labels,
                "length": max(len(good.input_ids), len(bad.input_ids)),
            }
            for good, bad in zip(samples[::2], samples[1::2], strict=True)
        ]  # fmt: skip
        return _agent_token_trainer()(
            model=policy.model, args=args, processing_class=policy.tokenizer, peft_config=lora(self.lora_rank),
            train_dataset=Ready.from_list(rows), data_collator=_collate,
        )  # fmt: skip


def _collate(rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """A batch as trl's loss reads it, the two sides apart but of one width."""
    from agentgym_py.policy.logprobs import padded_ids, padded_rows

    sides = ("chosen", "rejected")
    ids, labels = ([row[f"{side}_{name}"] for side in sides for row in rows] for name in ("input_ids", "labels"))
    batch = {**padded_ids(ids), "labels": padded_rows(labels, IGNORED)}
    halves = {name: each.chunk(2) for name, each in batch.items()}
    return {f"{side}_{name}": half[i] for name, half in halves.items() for i, side in enumerate(sides)}


def _agent_token_trainer() -> Any:
    """The ORPOTrainer whose loss is `orpo_loss`."""
    import torch
    from trl.experimental.orpo import ORPOTrainer

    from agentgym_py.policy.logprobs import row_logprobs

    class AgentTokenTrainer(dealt(ORPOTrainer)):  # type: ignore[misc]  # trl is untyped here
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            ids, labels = (
                torch.cat([inputs[f"chosen_{name}"], inputs[f"rejected_{name}"]]) for name in ("input_ids", "labels")
            )
            means = row_logprobs(model, ids, labels) / (labels[:, 1:] != IGNORED).sum(-1)
            chosen_B, rejected_B = means.chunk(2)
            loss, log_odds_B = orpo_loss(chosen_B, rejected_B, self.beta)
            told = {"logps/chosen": chosen_B.detach(), "logps/rejected": rejected_B.detach()}
            told |= {"log_odds_chosen": log_odds_B, "rewards/accuracies": chosen_B > rejected_B}
            self.tell(told, inputs["share"])
            return loss * inputs["share"]

        def log_mean(self, name: str, mean: float) -> None:
            self.store_metrics({name: mean}, train_eval="train")

    return AgentTokenTrainer
