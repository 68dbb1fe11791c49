"""A process reward model: learns the value of each step of a trajectory. The policy does not change.

    loss = mean over labelled numbers of (prediction - label)^2
         + pair_weight (mean over pairs of BCE(sigma(10 (p_g - p_b)), sigma(10 (label_g - label_b))) / 10)

A step is scored where its thought ends, by two layers on the backbone's last hidden state and the step's number; see
`rewards.process_reward_model` for the dimensions relevance, correctness and progress. The values of states
(`rewards.state_values`) label correctness and progress: `outcome` traces the episode's success back (Math-Shepherd's
hard estimate, arXiv:2312.08935, with one continuation), `exact` replays the trajectory and uses the expert,
`monte_carlo` continues from its states with the policy (Math-Shepherd's soft estimate), and `judge` has a language
model mark each step (`rewards.llm_judge`). The trajectory itself labels relevance: whether the action was valid and
new. A pair is two different steps from the same state, in one optimizer step; its term is least where the predictions
differ as the labels do, so the two terms do not conflict.

Deviations: the model learns a value, not a class (arXiv:2305.20050 has three classes, marked by people); it is a copy
of the policy with its own heads, not a second language model, and reads the step's number; batches keep attempts at one
task together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from agentgym_py import distributed
from agentgym_py.checks import require_at_least
from agentgym_py.errors import ConfigError
from agentgym_py.policy.tokens import RowSize
from agentgym_py.policy.typing import Tensor
from agentgym_py.rewards.llm_judge import MARKS_FILE, OpenAIJudge
from agentgym_py.rewards.process_reward_model import (
    CORRECTNESS,
    LabelledTrajectory,
    ProcessRewardModel,
    init_process_reward_model,
    label_trajectory,
    require_weights,
    state_pairs,
    states_at_steps,
)
from agentgym_py.rewards.state_values import (
    Play,
    Values,
    exact_values_of_all,
    monte_carlo,
    outcome_values,
    policy_player,
    replayable,
)
from agentgym_py.rng import Rng
from agentgym_py.training import TrainReport
from agentgym_py.training.checkpoints import keep_states_until_exit
from agentgym_py.training.data import TrainingData, no_data_error, prepare, repeat_epochs
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import OfflineSettings, Rates, require_no_mask, require_no_validation
from agentgym_py.training.trainer import TrainerInfo
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training.fit import Fit

Labels = Literal["outcome", "exact", "monte_carlo", "judge"]
_SHARPNESS = 10.0
"""Factor of a difference of two values before the sigmoid: a difference of 0.1 becomes 1."""


class StateValues(NamedTuple):
    """Trajectories with the values of their states."""

    trajectories: list[Trajectory]
    values: list[Values]
    stderr: float = math.nan
    """Mean standard error of the values that are estimates from several continuations; NaN if none is."""


class ProcessLoss(NamedTuple):
    """The loss of M steps and its two parts."""

    loss: Tensor
    mse: Tensor
    pairwise: Tensor


def process_loss(
    predicted_MD: Tensor, target_MD: Tensor, better_P: Tensor, worse_P: Tensor, *,
    pair_weight: float, entries: int | None = None, pairs: int | None = None,
) -> ProcessLoss:  # fmt: skip
    """Return the loss of M steps with P pairs of them, given as positions; a label that is NaN does not count.

    If the steps are a part of an optimizer step, `entries` and `pairs` are its numbers of labels and pairs, so that the
    losses of the parts add up.
    """
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    labelled_MD = ~torch.isnan(target_MD)
    error_MD = torch.where(labelled_MD, predicted_MD - torch.nan_to_num(target_MD), torch.zeros_like(predicted_MD))
    mse = (error_MD**2).sum() / max(int(labelled_MD.sum()) if entries is None else entries, 1)
    predicted_P, target_P = (x[better_P, CORRECTNESS] - x[worse_P, CORRECTNESS] for x in (predicted_MD, target_MD))
    cross_entropy = binary_cross_entropy_with_logits(
        _SHARPNESS * predicted_P, torch.sigmoid(_SHARPNESS * target_P), reduction="sum"
    )
    pairwise = cross_entropy / _SHARPNESS / max(len(predicted_P) if pairs is None else pairs, 1)
    return ProcessLoss(mse + pair_weight * pairwise, mse, pairwise)


@dataclass(frozen=True, slots=True)
class ProcessReward(OfflineSettings):
    """Settings of a process reward model's training."""

    info: ClassVar = TrainerInfo(output="process_reward", several_processes=True)

    epochs: float = 4.0
    """Passes over the data."""
    rates: ClassVar = Rates(7e-4, 1e-5)
    batch_size: int = 16
    """Trajectories a batch."""
    labels: Labels = "outcome"
    """Where the values of states come from: the episode's `outcome`, the expert (`exact`; trajectories are replayed in
    their worlds), continuations by the policy (`monte_carlo`), or a language model's marks (`judge`)."""
    discount: float = 0.9
    """Factor of a state's value for each step that success is away; with 1 a value is only whether it is reached."""
    weights: dict[str, float] = field(default_factory=lambda: {"progress": 1.0})
    """Weights of relevance, correctness and progress in the score."""
    hidden: int = 128
    """Width of the heads' hidden layer."""
    train_backbone: bool = True
    """Whether the copy of the policy is trained too, or only the heads."""
    pair_weight: float = 0.1
    """Weight of the pairs of steps from one state; 0 leaves them out."""
    attempts: int = 8
    """Continuations per state, for `monte_carlo`."""
    states: int = 4
    """States per trajectory that are continued from, for `monte_carlo`."""
    temperature: float = 1.0
    """Sampling temperature of continuations."""
    max_new_tokens: int = 64
    """Longest reply of continuations."""
    judge: dict[str, Any] = field(default_factory=dict)
    """For labels `judge`, the model that marks: --trainer.judge.model NAME, --trainer.judge.base_url the address of its
    endpoint, by default OpenAI's; its key is the environment variable OPENAI_API_KEY. Others, such as concurrency:
    docs/reference/trainers/process_reward.md."""

    def __post_init__(self) -> None:
        OfflineSettings.__post_init__(self)
        require_no_validation(self)
        require_no_mask(self)
        require_weights(self.weights)
        if self.labels == "judge":
            OpenAIJudge.from_settings(self.judge)  # raises for invalid settings, before any request
        elif self.judge:
            raise ConfigError(f"judge needs labels judge (they are {self.labels})")
        if not 0 < self.discount <= 1:
            raise ConfigError(f"discount must be above 0 and at most 1, got {self.discount}")
        counted = {name for name, weight in self.weights.items() if weight}
        if self.labels == "outcome" and self.discount == 1 and counted == {"progress"}:
            raise ConfigError("labels outcome need a discount below 1: at 1 the progress of every step is 0")
        require_at_least(self, {"hidden": 1, "attempts": 1, "states": 1, "max_new_tokens": 1, "pair_weight": 0})
        if self.lora_rank and not self.train_backbone:
            raise ConfigError("lora_rank needs train_backbone true, because adapters train the backbone")

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Label the steps, train a copy of `policy` on them, and write it; `ProcessRewardModel.load` reads it.

        Raises:
            NothingToTrainOnError: no step could be labelled.
            EndpointError: the judge's endpoint refuses, or is broken; its marks so far are kept in `output_dir`.
            TrainingError: a gradient was not finite; nothing is written.
        """
        data = prepare(policy, trajectories, self.max_length)
        play = policy_player(policy, self.temperature, self.max_new_tokens, seed)
        valued, values, stderr = self.values(data.trajectories, data.dropped, play, seed, folder=output_dir)
        report = self._train(policy, valued, values, data.dropped, seed, output_dir, progress)
        if not math.isnan(stderr):
            report = replace(report, metrics={**report.metrics, "label_stderr": stderr})
        if unmarked := self.unmarked(values):
            steps = sum(map(len, values)) - len(values)
            report = report.with_note(
                f"the judge gave {unmarked} of {steps} steps no mark that can be read: they have no label"
            )
        return report

    def train_on(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        values: Sequence[Values],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """As `train`, with given values of the trajectories' states, such as `state_values.values_from_marks`."""
        values_of = {id(trajectory): row for trajectory, row in zip(trajectories, values, strict=True)}
        data = prepare(policy, trajectories, self.max_length)
        rows = [values_of[id(trajectory)] for trajectory in data.trajectories]
        return self._train(policy, data.trajectories, rows, data.dropped, seed, output_dir, progress)

    # ---- labels -----------------------------------------------------------------------------------------------------

    def values(
        self, trajectories: Sequence[Trajectory], dropped: Counter[str], play: Play, seed: int, first_attempt: int = 0,
        folder: Path | None = None,
    ) -> StateValues:  # fmt: skip
        """Return the values of the states of each trajectory that has some; the others are counted in `dropped`.

        A judge's marks are kept in `folder`.
        """
        if self.labels == "outcome":
            values = [outcome_values(trajectory, self.discount) for trajectory in trajectories]
            return StateValues(list(trajectories), list(values))
        if self.labels == "judge":
            judge, marks_file = OpenAIJudge.from_settings(self.judge), folder / MARKS_FILE if folder else None
            return StateValues(
                list(trajectories), list(distributed.on_rank_zero(judge.values, trajectories, marks_file))
            )
        if self.labels == "exact":  # once, because a world that fails must fail for all processes
            exact, reasons = distributed.on_rank_zero(exact_values_of_all, trajectories, self.discount)
            dropped.update(reasons)
            pairs = [(t, values) for t, values in zip(trajectories, exact, strict=True) if values is not None]
            return StateValues([trajectory for trajectory, _ in pairs], [values for _, values in pairs])
        replays, reasons = distributed.on_rank_zero(replayable, trajectories)
        dropped.update(reasons)
        valued = [trajectory for trajectory, replayed in zip(trajectories, replays, strict=True) if replayed]
        estimates = monte_carlo(
            valued, play, attempts=self.attempts, states=self.states, discount=self.discount, seed=seed,
            first_attempt=first_attempt,
        )  # fmt: skip
        errors = [value.stderr for row in estimates for value in row if value and value.attempts > 1]
        means = [[None if value is None else value.mean for value in row] for row in estimates]
        return StateValues(valued, list(means), fmean(errors) if errors else math.nan)

    def unmarked(self, values: Sequence[Values]) -> int:
        """Return the number of steps to which the judge gave no mark; 0 for other labels."""
        return sum(value is None for row in values for value in row[1:]) if self.labels == "judge" else 0

    # ---- training ---------------------------------------------------------------------------------------------------

    def _train(
        self, policy: Policy, trajectories: Sequence[Trajectory], values: Sequence[Values], dropped: Counter[str],
        seed: int, output_dir: Path, progress: Progress | None,
    ) -> TrainReport:  # fmt: skip
        rows = [label_trajectory(t, row, policy) for t, row in zip(trajectories, values, strict=True)]
        if not rows:
            raise no_data_error("process_reward", dropped)
        model = self.init_model(policy, rows, seed)
        with keep_states_until_exit():
            with self.fit(model, rows, seed=seed, output_dir=output_dir, progress=progress) as fit:
                self.run(fit, rows, seed)
            model.save(output_dir)
        data = TrainingData(list(trajectories), [row.encoded.sample for row in rows], dropped)
        steps = sum(len(row.encoded.positions) for row in rows)
        report = fit.report(data, loss=fit.history[-1]["loss"], steps=steps)
        return replace(report, agent_tokens=int(self.epochs * steps))

    def init_model(self, policy: Policy, rows: Sequence[LabelledTrajectory], seed: int) -> ProcessRewardModel:
        """Copy the policy and give it new heads that begin with the labels' means."""
        return init_process_reward_model(policy, [row.labels for row in rows], self.hidden, self.weights, seed)

    def fit(
        self, model: ProcessRewardModel, rows: Sequence[LabelledTrajectory], *, seed: int,
        output_dir: Path | None = None, progress: Progress | None = None,
    ) -> Fit[LabelledTrajectory]:  # fmt: skip
        """Make the training of a model on labelled steps; the states of a frozen backbone are computed once.

        Raises:
            ConfigError: all weights would be trained and some are quantized.
        """
        from agentgym_py.training.fit import Fit

        frozen = None if self.train_backbone else frozen_states(model.policy.model, rows, self.bf16)
        return Fit(
            "process reward model", model.policy, self, list(rows), seed=seed, output_dir=output_dir, progress=progress,
            track=output_dir is not None, size_of=group_size, train_backbone=self.train_backbone,
            wrap=lambda backbone: _step_scorer(backbone, model.heads, frozen, self.bf16),
            heads=lambda net: [{"params": list(net.heads.parameters())}],
        )  # fmt: skip

    def run(self, fit: Fit[LabelledTrajectory], rows: Sequence[LabelledTrajectory], seed: int) -> None:
        """Train; attempts at one task are in one microbatch, because steps are paired within a task."""
        for batch in fit.steps(self._batches(rows, seed)):
            entries = sum(int((~np.isnan(row.labels)).sum()) for row in batch)
            pairs = len(state_pairs(batch))
            groups = [list(group) for _, group in groupby(batch, lambda row: row.state_ids[0])]
            for part in fit.microbatches(groups):
                fit.backward(*self.loss(fit, [row for group in part for row in group], entries, pairs))
            fit.step()

    def loss(
        self, fit: Fit[LabelledTrajectory], part: Sequence[LabelledTrajectory], entries: int, pairs: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the part's share of the loss of a step with these numbers of labels and pairs, and its logs."""
        import torch

        predicted_MD = fit.module(part)
        target_MD = torch.cat([torch.tensor(row.labels, dtype=torch.float32) for row in part]).to(predicted_MD.device)
        pairs_P2 = torch.tensor(state_pairs(part), dtype=torch.long, device=predicted_MD.device).reshape(-1, 2)
        loss, mse, pairwise = process_loss(
            predicted_MD, target_MD, *pairs_P2.T, pair_weight=self.pair_weight, entries=entries, pairs=pairs
        )
        return loss, {"mse": mse, "pairwise": pairwise, "pairs": torch.tensor(len(pairs_P2))}

    def _batches(self, rows: Sequence[LabelledTrajectory], seed: int) -> list[list[int]]:
        """Draw the positions of each optimizer step's rows: tasks at random, with a task's attempts together."""
        rng, tasks = Rng(seed, "order of the trajectories"), dict[str, list[int]]()
        for i, row in enumerate(rows):
            tasks.setdefault(row.state_ids[0], []).append(i)

        def epoch() -> Iterator[list[int]]:
            order = [i for task in rng.sample(list(tasks.values()), len(tasks)) for i in task]
            yield from (order[at : at + self.step_size] for at in range(0, len(order), self.step_size))

        return repeat_epochs(epoch, len(rows), self)


def group_size(group: Sequence[LabelledTrajectory]) -> RowSize:
    """Return the size of the attempts at one task."""
    return RowSize.of(*(row.encoded.sample for row in group))


def frozen_states(backbone: Any, rows: Sequence[LabelledTrajectory], bf16: bool) -> dict[int, Tensor]:
    """Compute the features of each row's steps, by the row's identity."""
    import torch

    backbone.eval()
    with torch.no_grad():
        return {id(row): states_at_steps(backbone, [row.encoded], bf16) for row in rows}


def _step_scorer(backbone: Any, heads: Any, frozen: Mapping[int, Tensor] | None, bf16: bool) -> Any:
    """Make the module that is trained: the three dimensions of the rows' M steps, (M, 3)."""
    import torch

    class StepScorer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = heads
            self.model = backbone if frozen is None else None
            self._no_split_modules = getattr(backbone, "_no_split_modules", None)  # FSDP's units

        def forward(self, rows: Sequence[LabelledTrajectory]) -> Tensor:
            if frozen is not None:
                return self.heads(torch.cat([frozen[id(row)] for row in rows]))  # type: ignore[no-any-return]
            encoded = [row.encoded for row in rows]
            states = states_at_steps(self.model, encoded, bf16, math.inf)  # one pass: FSDP's processes wait for each
            return self.heads(states)  # type: ignore[no-any-return]

    return StepScorer()
