"""Weighted behaviour cloning: maximum likelihood, with trajectories weighted by their returns.

    loss = - sum over trajectories i of w_i * log pi(agent tokens of i | everything before) / number of agent tokens

    softmax:    w = N softmax(R / T), of mean 1 over the N trajectories
    advantage:  w = min(exp((R - b) / T), max_weight), b the mean return, of all or of the trajectory's task
    agentevol:  w = R

`advantage` is advantage-weighted regression (AWR, arXiv:1910.00177) of whole episodes, `agentevol` the objective E[R
log pi] of AgentEvol (arXiv:2406.04151). With weights of 1 it is filtered behaviour cloning. Observations and prompts
have no loss. Deviations: weights are not normalized within a batch; trajectories of weight 0, in `agentevol` with a
return of 0 or less, are left out; and those of `filtered_bc`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
    """A trajectory in tokens, with its weight."""

    sample: Sample
    weight: float


def weighted_bc_loss(logprobs_N: Tensor, weights_N: Tensor, tokens: Tensor | int | None = None) -> Tensor:
    """Return the negative weighted mean log-probability of N agent tokens; `tokens` as for `filtered_bc.bc_loss`."""
    return -(weights_N * logprobs_N).sum() / (logprobs_N.numel() if tokens is None else tokens)


def softmax_weights(returns_B: Sequence[float], temperature: float) -> list[float]:
    """Return the softmax of the B returns, times B."""
    best = max(returns_B)
    exps_B = [math.exp((value - best) / temperature) for value in returns_B]
    return [len(exps_B) * x / math.fsum(exps_B) for x in exps_B]


def advantage_weights(
    returns_B: Sequence[float], baselines_B: Sequence[float], temperature: float, max_weight: float
) -> list[float]:
    """Return exp((R - b) / T), clipped at `max_weight`."""
    limit = math.log(max_weight)  # clipped before exp, which overflows
    pairs = zip(returns_B, baselines_B, strict=True)
    return [math.exp(min((value - baseline) / temperature, limit)) for value, baseline in pairs]


@dataclass(frozen=True, slots=True)
class WeightedBC(OfflineSettings):
    """Settings of weighted behaviour cloning."""

    info: ClassVar = TrainerInfo(several_processes=True, warm_start="filtered_bc", evolve_defaults=KEEP_FAILURES)

    mode: Mode = "softmax"
    """How a return becomes a weight: `softmax`, `advantage`, or `agentevol`, the return itself."""
    temperature: float = 1.0
    """For softmax and advantage: the smaller, the less a worse trajectory counts."""
    baseline: Baseline = "mean"
    """For advantage: the mean return of all trajectories, or of the `task`'s own (which needs several per task)."""
    max_weight: float = 20.0
    """For advantage: larger weights are clipped to this."""

    def __post_init__(self) -> None:
        OfflineSettings.__post_init__(self)
        require_positive(self, "temperature", "max_weight")

    def weights(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """Return the trajectories' weights, at least 0."""
        returns_B = [trajectory.reward for trajectory in trajectories]
        if self.mode == "softmax":
            return softmax_weights(returns_B, self.temperature)
        if self.mode == "agentevol":
            return [max(value, 0.0) for value in returns_B]
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

        Raises:
            NothingToTrainOnError: there are none, or all weights are 0.
        """
        from agentgym_py.training.fit import Fit

        data, weights_B = self._prepare(policy, trajectories)
        if not data.samples:
            raise no_data_error("weighted_bc", data.dropped)
        rows = [Weighted(sample, weight) for sample, weight in zip(data.samples, weights_B, strict=True)]
        with Fit(
            "weighted_bc", policy, self, rows, seed=seed, output_dir=output_dir, progress=progress,
            tokens_of=lambda row: row.sample.padded_size,
        ) as fit:  # fmt: skip
            for batch in fit.steps():
                tokens = sum(sum(row.sample.mask) for row in batch)
                for part in fit.microbatches(batch):
                    fit.backward(*self.loss(fit, part, tokens))
                fit.step()
        effective = math.fsum(weights_B) ** 2 / math.fsum(weight**2 for weight in weights_B)
        spread = {"weights/min": min(weights_B), "weights/max": max(weights_B), "weights/effective": effective}
        report = fit.report(data, **spread)
        note = _no_contrast_note(data.trajectories)
        return report.with_note(note) if note else report

    def loss(self, fit: Fit[Weighted], part: Sequence[Weighted], tokens: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the part's share of the loss of a step of `tokens` agent tokens, and its logs."""
        from agentgym_py.policy.logprobs import agent_logprobs_and_hits

        agent = fit.agent_logits([row.sample for row in part])
        logprobs_N, hits_N = agent_logprobs_and_hits(agent)
        counts = agent.targets_N.new_tensor([sum(row.sample.mask[1:]) for row in part])
        weights_N = logprobs_N.new_tensor([row.weight for row in part]).repeat_interleave(counts)
        return weighted_bc_loss(logprobs_N, weights_N, tokens), {"mean_token_accuracy": hits_N}

    def _baselines(self, trajectories: Sequence[Trajectory]) -> list[float]:
        groups: dict[object, list[float]] = {}
        keys = [trajectory.provenance.task_key if self.baseline == "task" else None for trajectory in trajectories]
        for key, trajectory in zip(keys, trajectories, strict=True):
            groups.setdefault(key, []).append(trajectory.reward)
        means = {key: fmean(group) for key, group in groups.items()}
        return [means[key] for key in keys]

    def _prepare(self, policy: Policy, trajectories: Sequence[Trajectory]) -> tuple[TrainingData, list[float]]:
        """Encode the trajectories with weights above 0; also returns the weights."""
        data = prepare(policy, trajectories, self.max_length, mask_cut=self.mask_truncated_completions)
        weights_B = self.weights(data.trajectories) if data.samples else []
        positive = [i for i, weight in enumerate(weights_B) if weight > 0]
        data.dropped["of weight 0"] += len(weights_B) - len(positive)
        samples = [data.samples[i] for i in positive]
        used = TrainingData([data.trajectories[i] for i in positive], samples, +data.dropped)
        return used, [weights_B[i] for i in positive]


def _no_contrast_note(trajectories: Sequence[Trajectory]) -> str:
    """Return a note if all trajectories failed with equal returns, and so with equal weights; else an empty text."""
    returns = {trajectory.reward for trajectory in trajectories}
    if len(returns) > 1 or any(trajectory.success for trajectory in trajectories):
        return ""
    return (
        f"all {len(trajectories)} trajectories failed and returned {returns.pop():g}, so they have equal weights: the "
        "policy cloned failures"
    )
