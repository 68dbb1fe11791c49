"""Weighted behaviour cloning: maximum likelihood, in which a trajectory counts as its return says.

    loss = - sum over trajectories i of w_i * log pi(agent tokens of i | everything before) / number of agent tokens

    softmax:    w = N softmax(R / T), of mean 1 over the N trajectories
    advantage:  w = min(exp((R - b) / T), max_weight), b the mean return, of all or of the trajectory's task
    agentevol:  w = R

`advantage` is advantage-weighted regression (AWR, arXiv:1910.00177) of whole episodes, `agentevol` the objective
E[R log pi] of AgentEvol (arXiv:2406.04151). With equal weights of 1 it is filtered behaviour cloning. Observations and
prompts carry no loss. Deviations:
the weights of a batch are not made to add up, so that those of all the data stay as they are; what weighs nothing, in
`agentevol` a return of 0 or less, is left out; and those of `filtered_bc`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from agentgym_py.checks import require_positive
from agentgym_py.policy.tokens import Sample
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.data import TrainingData, no_data_error, prepare
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import OfflineSettings
from agentgym_py.training.trainer import KEEP_FAILURES, TrainerInfo
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training.fit import Fit

Mode = Literal["softmax", "advantage", "agentevol"]
Baseline = Literal["mean", "task"]


class Weighted(NamedTuple):
    """A trajectory in tokens, and what it counts."""

    sample: Sample
    weight: float


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
class WeightedBC(OfflineSettings):
    """Settings of weighted behaviour cloning."""

    info: ClassVar = TrainerInfo(several_processes=True, warm_start="filtered_bc", evolve_defaults=KEEP_FAILURES)

    mode: Mode = "softmax"
    """What a return weighs: `softmax`, `advantage` or `agentevol`, whose weight is the return itself."""
    temperature: float = 1.0
    """Of softmax and advantage: the smaller, the less a worse trajectory counts."""
    baseline: Baseline = "mean"
    """Of advantage: the mean return of all trajectories, or of the `task`'s own (which wants several of each task)."""
    max_weight: float = 20.0
    """Of advantage: larger weights are clipped to this."""

    def __post_init__(self) -> None:
        OfflineSettings.__post_init__(self)
        require_positive(self, "temperature", "max_weight")

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
        from agentgym_py.training.fit import Fit

        data, weights_B = self._weighted(prepare(policy, trajectories, self.max_length))
        if not data.samples:
            raise no_data_error("weighted_bc", data.dropped)
        rows = [Weighted(sample, weight) for sample, weight in zip(data.samples, weights_B, strict=True)]
        with Fit(
            "weighted_bc", policy, self, rows, seed=seed, output_dir=output_dir, progress=progress,
            tokens_of=lambda row: len(row.sample.input_ids),
        ) as fit:  # fmt: skip
            for batch in fit.steps():
                tokens = sum(sum(row.sample.mask) for row in batch)
                for part in fit.microbatches(batch):
                    fit.backward(*self.loss(fit, part, tokens))
                fit.step()
        effective = math.fsum(weights_B) ** 2 / math.fsum(weight**2 for weight in weights_B)
        spread = {"weights/min": min(weights_B), "weights/max": max(weights_B), "weights/effective": effective}
        report = fit.report(data, **spread)
        if not (note := _all_failed_alike(data.trajectories)):
            return report
        warnings.warn(note, stacklevel=2)
        return replace(report, notes=(*report.notes, note))

    def loss(self, fit: Fit[Weighted], part: Sequence[Weighted], tokens: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The part's share of the loss of a step of `tokens` agent tokens, and what is logged of it."""
        from agentgym_py.policy.logprobs import agent_logprobs

        agent = fit.agent_logits([row.sample for row in part])
        counts = agent.targets_N.new_tensor([sum(row.sample.mask[1:]) for row in part])
        weights_N = agent.logits_NV.new_tensor([row.weight for row in part]).repeat_interleave(counts)
        return weighted_bc_loss(agent_logprobs(agent), weights_N, tokens), {"mean_token_accuracy": agent.hits_N}

    def _baselines(self, trajectories: Sequence[Trajectory]) -> list[float]:
        groups: dict[object, list[float]] = {}
        keys = [each.provenance.task_key if self.baseline == "task" else None for each in trajectories]
        for key, each in zip(keys, trajectories, strict=True):
            groups.setdefault(key, []).append(each.reward)
        means = {key: fmean(group) for key, group in groups.items()}
        return [means[key] for key in keys]

    def _weighted(self, data: TrainingData) -> tuple[TrainingData, list[float]]:
        """Keep what weighs something; the second value is the weights."""
        if not data.samples:
            return data, []
        weights_B = self.weights(data.trajectories)
        rest = [i for i, weight in enumerate(weights_B) if weight > 0]
        data.dropped["of weight 0"] += len(weights_B) - len(rest)
        left = TrainingData([data.trajectories[i] for i in rest], [data.samples[i] for i in rest], +data.dropped)
        return left, [weights_B[i] for i in rest]


def _all_failed_alike(trajectories: Sequence[Trajectory]) -> str:
    """What there is to say where nothing tells one from another and nothing is worth copying; else nothing."""
    if any(each.success for each in trajectories) or len(returns := {each.reward for each in trajectories}) > 1:
        return ""
    return (
        f"all {len(trajectories)} trajectories failed and returned {returns.pop():g}, so that each counts alike: "
        "failures were cloned as they are"
    )
