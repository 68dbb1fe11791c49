"""Weighted behaviour cloning: maximum likelihood, with trajectories weighted by their returns.

    loss = - sum over trajectories i of w_i * log pi(agent tokens of i | everything before) / number of agent tokens

    softmax:    w = N softmax(R / temperature), of mean 1 over the N trajectories
    advantage:  w = min(exp((R - b) / temperature), max_weight), b the mean return, of all or of the task
    agentevol:  w = R

With `kind_weights`, the tokens of a step of kind k are weighted by

    v_k = (share of k) / (share of k's tokens, each counted w_i times)

too, so that each kind has its given share of the weights, however many steps there are of it.

`advantage` is advantage-weighted regression (AWR, arXiv:1910.00177) of whole episodes, `agentevol` the objective E[R
log pi] of AgentEvol (arXiv:2406.04151). With weights of 1 it is filtered behaviour cloning. Observations and prompts
have no loss. Deviations: AWR's baseline is a learned value function, its returns are TD(lambda)'s from a replay buffer;
weights are not normalized within a batch; trajectories of weight 0, in `agentevol` with a return of 0 or less, are left
out; and those of `filtered_bc`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from agentgym_py.checks import require_positive
from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.policy.tokens import RowSize, Sample, agent_tokens_by_step
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.data import TrainingData, no_data_error, prepare
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import OfflineSettings
from agentgym_py.training.trainer import KEEP_FAILURES, TrainerInfo
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.step_kinds import load_step_kind
from agentgym_py.trajectory.types import OMIT_DEFAULT

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training.fit import Fit

Mode = Literal["softmax", "advantage", "agentevol"]
Baseline = Literal["mean", "task"]


class Weighted(NamedTuple):
    """A trajectory in tokens, with its weight."""

    sample: Sample
    weight: float
    by_step: tuple[tuple[int, float], ...] = ()
    """Agent tokens of each step and the factor of their weight, one step after another; empty: no factors."""

    @property
    def token_weights(self) -> list[float]:
        """The weight of each agent token."""
        if not self.by_step:
            return [self.weight] * sum(self.sample.mask[1:])
        return [self.weight * factor for tokens, factor in self.by_step for _ in range(tokens)]


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


def kind_factors(tokens: Mapping[str, float], shares: Mapping[str, float]) -> dict[str, float]:
    """Return the factor of each kind's weight; kinds that do not occur leave their shares to the others.

    Args:
        tokens: Number of agent tokens of each kind, each counted with the weight of its trajectory.
        shares: The relative share that each kind has; a kind without one has none.
    """
    present = {kind: shares.get(kind, 0.0) for kind, number in tokens.items() if number > 0}
    total, every = math.fsum(present.values()), math.fsum(tokens.values())
    return {kind: (share / total) / (tokens[kind] / every) if total else 0.0 for kind, share in present.items()}


@dataclass(frozen=True, slots=True)
class WeightedBC(OfflineSettings):
    """Settings of weighted behaviour cloning."""

    info: ClassVar = TrainerInfo(several_processes=True, warm_start="filtered_bc", evolve_defaults=KEEP_FAILURES)

    mode: Mode = "softmax"
    """How a return becomes a weight: `softmax`, `advantage`, or `agentevol`, the return itself."""
    temperature: float = 0.1
    """For softmax and advantage, in units of the return: the smaller, the less a worse trajectory counts. With 1 and
    returns in [0, 1] a failure counts 37 % of a success, and the policy clones failures."""
    baseline: Baseline = "mean"
    """For advantage: the mean return of all trajectories, or of the `task`'s own (which needs several per task)."""
    max_weight: float = 20.0
    """For advantage: larger weights are clipped to this."""
    kind_weights: dict[str, float] | None = field(default=None, metadata=OMIT_DEFAULT)
    """Share of the weights that each kind of step has, such as {tool_selection: 0.35, planning: 0.3, timing: 0.2,
    retrieval: 0.15}; kinds that are not named have none. By default every token weighs as its trajectory."""
    step_kind: str = field(default="by_action", metadata=OMIT_DEFAULT)
    """Function from a trajectory and the number of a step to its kind: `by_action`, or a source (FILE.py:NAME)."""

    def __post_init__(self) -> None:
        OfflineSettings.__post_init__(self)
        require_positive(self, "temperature", "max_weight")
        shares = [] if self.kind_weights is None else list(self.kind_weights.values())
        if self.kind_weights is not None and not (all(0 <= share < math.inf for share in shares) and any(shares)):
            raise ConfigError(
                f"kind_weights must be numbers of at least 0, not all of them 0, got {dict(self.kind_weights)}"
            )
        if self.step_kind != "by_action" and self.kind_weights is None:
            raise ConfigError("step_kind needs kind_weights")

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
        rows, kinds = self._rows(policy, data, weights_B)
        with Fit(
            "weighted_bc", policy, self, rows, seed=seed, output_dir=output_dir, progress=progress,
            size_of=lambda row: RowSize.of(row.sample),
        ) as fit:  # fmt: skip
            for batch in fit.steps():
                tokens = sum(sum(row.sample.mask) for row in batch)
                for part in fit.microbatches(batch):
                    fit.backward(*self.loss(fit, part, tokens))
                fit.step()
        effective = math.fsum(weights_B) ** 2 / math.fsum(weight**2 for weight in weights_B)
        spread = {"weights/min": min(weights_B), "weights/max": max(weights_B), "weights/effective": effective}
        report = fit.report(data, **spread, **kinds)
        note = _no_contrast_note(data.trajectories)
        return report.with_note(note) if note else report

    def loss(self, fit: Fit[Weighted], part: Sequence[Weighted], tokens: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the part's share of the loss of a step of `tokens` agent tokens, and its logs."""
        from agentgym_py.policy.logprobs import agent_logprobs_and_hits

        agent = fit.agent_logits([row.sample for row in part])
        logprobs_N, hits_N = agent_logprobs_and_hits(agent)
        weights_N = logprobs_N.new_tensor([weight for row in part for weight in row.token_weights])
        return weighted_bc_loss(logprobs_N, weights_N, tokens), {"mean_token_accuracy": hits_N}

    def _rows(
        self, policy: Policy, data: TrainingData, weights_B: Sequence[float]
    ) -> tuple[list[Weighted], dict[str, float]]:
        """Weigh the samples, and the kinds of their steps; also returns the share of the agent tokens of each kind.

        Raises:
            NothingToTrainOnError: no step is of a kind with a share.
        """
        weighted = list(zip(data.samples, weights_B, strict=True))
        if self.kind_weights is None:
            return [Weighted(sample, weight) for sample, weight in weighted], {}
        kind_of, tokens, sums = load_step_kind(self.step_kind), Counter[str](), defaultdict[str, float](float)
        steps = list[list[tuple[int, str]]]()
        for trajectory, (_, weight) in zip(data.trajectories, weighted, strict=True):
            counts = agent_tokens_by_step(trajectory, policy.chat)
            steps.append([(count, kind_of(trajectory, number)) for number, count in enumerate(counts)])
            for count, kind in steps[-1]:
                tokens[kind] += count
                sums[kind] += weight * count
        factors = kind_factors(sums, self.kind_weights)
        if not any(factors.values()):
            raise NothingToTrainOnError(
                f"weighted_bc: no step is of a kind in kind_weights; there are {', '.join(sorted(tokens))}"
            )
        rows = [
            Weighted(sample, weight, tuple((count, factors.get(kind, 0.0)) for count, kind in of_steps))
            for (sample, weight), of_steps in zip(weighted, steps, strict=True)
        ]
        return rows, {f"kinds/{kind}": tokens[kind] / tokens.total() for kind in sorted(tokens)}

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
        used = TrainingData([data.trajectories[i] for i in positive], samples, +data.dropped, data.masked)
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
