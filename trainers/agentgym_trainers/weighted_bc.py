"""Weighted behaviour cloning: maximum likelihood, in which a trajectory counts as its return says.

    loss = - sum over trajectories i of w_i * log pi(agent tokens of i | everything before) / number of agent tokens

    softmax:    w = N softmax(R / T), of mean 1 over the N trajectories
    advantage:  w = min(exp((R - b) / T), max_weight), b the mean return, of all or of the trajectory's task
    agentevol:  w = R

`advantage` is advantage-weighted regression (AWR, arXiv:1910.00177) of whole episodes, `agentevol` the objective
E[R log pi] of AgentEvol (arXiv:2406.04151). With equal weights of 1 it is filtered behaviour cloning. Observations and
prompts carry no loss. The work is done by trl's SFTTrainer: token ids, labels and weights go straight in. Deviations:
the weights of a batch are not made to add up, so that those of all the data stay as they are; what weighs nothing, in
`agentevol` a return of 0 or less, is left out; and those of `filtered_bc`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from agentgym_py.checks import check_positive
from agentgym_py.policy.adapters import lora
from agentgym_py.policy.tokens import IGNORED, Sample
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.finetune import FineTuning, Kept, agent_trainer, arguments, nothing_left, trained, usable
from agentgym_py.training.progress import Progress
from agentgym_py.training.trainer import WEIGHS
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

Mode = Literal["softmax", "advantage", "agentevol"]
Baseline = Literal["mean", "task"]


def weighted_bc_loss(logprobs_N: Tensor, weights_N: Tensor, tokens: Tensor | int | None = None) -> Tensor:
    """Negative weighted mean log-probability of N agent tokens; `tokens` as for `filtered_bc.bc_loss`."""
    return -(weights_N * logprobs_N).sum() / (logprobs_N.numel() if tokens is None else tokens)


def softmax_weights(returns_B: Sequence[float], temperature: float) -> list[float]:
    """Softmax of the B returns, times B."""
    best = max(returns_B)
    raised_B = [math.exp((each - best) / temperature) for each in returns_B]
    return [len(raised_B) * each / math.fsum(raised_B) for each in raised_B]


def advantage_weights(
    returns_B: Sequence[float], baselines_B: Sequence[float], temperature: float, max_weight: float
) -> list[float]:
    """exp((R - b) / T), clipped at `max_weight`."""
    most = math.log(max_weight)  # clipped before exp, which overflows
    pairs = zip(returns_B, baselines_B, strict=True)
    return [math.exp(min((each - baseline) / temperature, most)) for each, baseline in pairs]


@dataclass(frozen=True, slots=True)
class WeightedBC(FineTuning):
    """Settings of weighted behaviour cloning."""

    shared: ClassVar = True
    evolve_defaults: ClassVar = WEIGHS
    cloner: ClassVar = "filtered_bc"  # so that Agent_v0 is the same

    mode: Mode = "softmax"
    """What a return weighs: `softmax`, `advantage` or `agentevol`, whose weight is the return itself."""
    temperature: float = 1.0
    """Of softmax and advantage: the smaller, the less a worse trajectory counts."""
    baseline: Baseline = "mean"
    """Of advantage: the mean return of all trajectories, or of the `task`'s own (which wants several of each task)."""
    max_weight: float = 20.0
    """Of advantage: larger weights are clipped to this."""

    def __post_init__(self) -> None:
        FineTuning.__post_init__(self)
        check_positive(self, "temperature", "max_weight")

    def weights(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """What each of the trajectories counts; at least 0."""
        returns_B = [each.reward for each in trajectories]
        if self.mode == "softmax":
            return softmax_weights(returns_B, self.temperature)
        if self.mode == "agentevol":
            return [max(each, 0.0) for each in returns_B]
        return advantage_weights(returns_B, self._baselines(trajectories), self.temperature, self.max_weight)

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Train `policy` in place on all trajectories, each weighted by its return.

        Nothing stays in `output_dir`; who wants to keep the policy calls its `save`.

        Raises:
            NothingToTrainOnError: there is none, or none of a weight above 0.
        """
        kept, weights_B = self._weighted(usable(policy, trajectories, self.max_length))
        if not kept.samples:
            raise nothing_left("weighted_bc", kept.dropped)
        make = partial(self._sft, policy, kept.samples, weights_B, seed)
        done = trained(make, policy, kept, self.epochs, output_dir, progress)
        effective = math.fsum(weights_B) ** 2 / math.fsum(each**2 for each in weights_B)
        spread = {"weights/min": min(weights_B), "weights/max": max(weights_B), "weights/effective": effective}
        done = replace(done, metrics={**done.metrics, **spread})
        if not (note := _all_failed_alike(kept.trajectories)):
            return done
        warnings.warn(note, stacklevel=2)
        return replace(done, notes=(*done.notes, note))

    def _baselines(self, trajectories: Sequence[Trajectory]) -> list[float]:
        groups: dict[object, list[float]] = {}
        keys = [each.provenance.task_key if self.baseline == "task" else None for each in trajectories]
        for key, each in zip(keys, trajectories, strict=True):
            groups.setdefault(key, []).append(each.reward)
        means = {key: fmean(group) for key, group in groups.items()}
        return [means[key] for key in keys]

    def _weighted(self, kept: Kept) -> tuple[Kept, list[float]]:
        """What weighs something, and how much."""
        if not kept.samples:
            return kept, []
        weights_B = self.weights(kept.trajectories)
        rest = [i for i, weight in enumerate(weights_B) if weight > 0]
        kept.dropped["of weight 0"] += len(weights_B) - len(rest)
        left = Kept([kept.trajectories[i] for i in rest], [kept.samples[i] for i in rest], +kept.dropped)
        return left, [weights_B[i] for i in rest]

    def _sft(self, policy: Policy, samples: list[Sample], weights_B: list[float], seed: int, output_dir: Path) -> Any:
        import datasets
        from trl import SFTConfig

        args = arguments(
            SFTConfig, self, policy, seed, output_dir,
            dataset_kwargs={"skip_prepare_dataset": True}, train_sampling_strategy="group_by_length",
        )  # fmt: skip
        rows = [
            {"input_ids": each.input_ids, "labels": each.labels, "weight": weight}
            for each, weight in zip(samples, weights_B, strict=True)
        ]
        return agent_trainer(_loss, ["weight"])(
            model=policy.model, args=args, processing_class=policy.tokenizer, peft_config=lora(self.lora_rank),
            train_dataset=datasets.Dataset.from_list(rows), data_collator=_collate,
        )  # fmt: skip


def _all_failed_alike(trajectories: Sequence[Trajectory]) -> str:
    """What there is to say where nothing tells one from another and nothing is worth copying; else nothing."""
    if any(each.success for each in trajectories) or len(returns := {each.reward for each in trajectories}) > 1:
        return ""
    return (
        f"all {len(trajectories)} trajectories failed and returned {returns.pop():g}, so that each counts alike: "
        "failures were cloned as they are"
    )


def _collate(rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """A batch as trl's own collator makes it, and the rows' weights."""
    import torch
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    batch: dict[str, Tensor] = DataCollatorForLanguageModeling(pad_token_id=0)(rows)
    return batch | {"weight": torch.tensor([row["weight"] for row in rows])}


def _loss(logprobs_N: Tensor, batch: dict[str, Tensor], tokens: Tensor | int | None) -> Tensor:
    """`weighted_bc_loss` of a batch."""
    wanted = batch["labels"][:, 1:] != IGNORED
    return weighted_bc_loss(logprobs_N, batch["weight"][:, None].expand(wanted.shape)[wanted], tokens)
