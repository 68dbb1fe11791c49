"""A process reward model: learns what each step of a trajectory is worth. The policy stays as it is.

    loss = mean over labelled numbers of (said - label)^2
         + pair_weight * mean over pairs of  BCE(sigma(10 (said_g - said_b)), sigma(10 (label_g - label_b))) / 10

A step is read where its thought ends, by two layers on the backbone's last state and the step's number: relevance,
correctness, progress; see `rewards.process_reward_model` for what each means. Correctness and progress are labelled
with the values of states (`rewards.state_values`): `outcome` traces the episode's success back (Math-Shepherd's hard
estimate, arXiv:2312.08935, with one continuation), `exact` replays the trajectory in its world and asks the expert,
`monte_carlo` continues from states of it by the policy itself (Math-Shepherd's soft estimate), and `judge` has a
language model mark each step (`rewards.llm_judge`). Relevance is always labelled by the trajectory: whether the world
could do the action, and whether it was new. The pairs are steps that differ in one and the same state, met in one step
of the optimizer; the second term is least where the difference is the labels', so the two terms do not pull against
each other.

Deviations: a value, not a class, is learnt (arXiv:2305.20050 has three classes of marks by people); the model is a copy
of the policy with heads of its own, no second language model, and is told the step's number; batches keep tries at one
task side by side.
"""

from __future__ import annotations

import math
import warnings
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
from agentgym_py.policy.typing import Tensor
from agentgym_py.rewards.llm_judge import KEPT, OpenAIJudge
from agentgym_py.rewards.process_reward_model import (
    CORRECTNESS,
    Labelled,
    ProcessRewardModel,
    check_weights,
    labelled,
    paired,
    states_at_marks,
    untrained,
)
from agentgym_py.rewards.state_values import (
    Play,
    Values,
    exact_of_all,
    monte_carlo,
    outcome_values,
    played_again,
    player,
)
from agentgym_py.rng import Rng
from agentgym_py.training import TrainReport
from agentgym_py.training.checkpoints import until_saved
from agentgym_py.training.data import TrainingData, epochs_of, no_data_error, prepare
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import OfflineSettings
from agentgym_py.training.trainer import TrainerInfo
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training.fit import Fit

Labels = Literal["outcome", "exact", "monte_carlo", "judge"]
_SHARPNESS = 10.0
"""What a difference of two values is multiplied with before it is squashed: 0.1 is then one unit."""


class Valued(NamedTuple):
    """What the states of trajectories are worth."""

    trajectories: list[Trajectory]
    """Those that have values."""
    values: list[Values]
    stderr: float = math.nan
    """Mean standard error of the values that are estimates from several continuations; NaN where none is."""


class ProcessLoss(NamedTuple):
    """The loss of M steps and its two parts."""

    loss: Tensor
    mse: Tensor
    pairwise: Tensor


def process_loss(
    predicted_MD: Tensor, target_MD: Tensor, better_P: Tensor, worse_P: Tensor, *,
    pair_weight: float, entries: int | None = None, pairs: int | None = None,
) -> ProcessLoss:  # fmt: skip
    """The loss of M steps; a label that is NaN does not count, P pairs are the positions of steps.

    `entries` and `pairs` are how many labels and pairs there are in all, where these M steps are only a part of them:
    the losses of the parts add up.
    """
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    known_MD = ~torch.isnan(target_MD)
    off_MD = torch.where(known_MD, predicted_MD - torch.nan_to_num(target_MD), torch.zeros_like(predicted_MD))
    mse = (off_MD**2).sum() / max(int(known_MD.sum()) if entries is None else entries, 1)
    said_P, wanted_P = (each[better_P, CORRECTNESS] - each[worse_P, CORRECTNESS] for each in (predicted_MD, target_MD))
    crossed = binary_cross_entropy_with_logits(
        _SHARPNESS * said_P, torch.sigmoid(_SHARPNESS * wanted_P), reduction="sum"
    )
    pairwise = crossed / _SHARPNESS / max(len(said_P) if pairs is None else pairs, 1)
    return ProcessLoss(mse + pair_weight * pairwise, mse, pairwise)


@dataclass(frozen=True, slots=True)
class ProcessReward(OfflineSettings):
    """Settings of a process reward model's training."""

    info: ClassVar = TrainerInfo(output="process_reward", several_processes=True)

    epochs: float = 4.0
    """Passes over the data."""
    learning_rate: float = 7e-4
    """Peak of the cosine schedule; 7e-4 suits the tiny model, 1e-5 a pretrained one (1e-3 with a frozen backbone)."""
    batch_size: int = 16
    """Trajectories a batch."""
    labels: Labels = "outcome"
    """Where the values of states come from: the episode's `outcome`, the expert (`exact`; the trajectories are replayed
    in their worlds), continuations by the policy (`monte_carlo`), or a language model's marks (`judge`)."""
    discount: float = 0.9
    """What a state is worth less for each step that success is away; 1 tells only whether it is reached."""
    weights: dict[str, float] = field(default_factory=lambda: {"progress": 1.0})
    """What relevance, correctness and progress count in the score."""
    hidden: int = 128
    """Width of the heads' layer."""
    train_backbone: bool = True
    """Whether the copy of the policy learns, too, or only the heads."""
    pair_weight: float = 0.1
    """Weight of the pairs of steps from one state; 0 leaves them out."""
    tries: int = 8
    """Continuations of a state, of `monte_carlo`."""
    states: int = 4
    """States of a trajectory that are continued from, of `monte_carlo`."""
    temperature: float = 1.0
    """Sampling temperature of continuations."""
    max_new_tokens: int = 64
    """Longest reply of continuations."""
    judge: dict[str, Any] = field(default_factory=dict)
    """Of labels `judge`, the model that marks: --trainer.judge.model NAME, --trainer.judge.base_url the address of its
    endpoint, by default OpenAI's; its key is the environment variable OPENAI_API_KEY. Others, such as concurrency:
    docs/trainers/process_reward.md."""

    def __post_init__(self) -> None:
        OfflineSettings.__post_init__(self)
        check_weights(self.weights)
        if self.labels == "judge":
            OpenAIJudge.of(self.judge)  # complains of a wrong one before anything is asked
        elif self.judge:
            raise ConfigError("judge is of labels judge")
        if not 0 < self.discount <= 1:
            raise ConfigError(f"discount must be above 0 and at most 1, got {self.discount}")
        counted = {name for name, weight in self.weights.items() if weight}
        if self.labels == "outcome" and self.discount == 1 and counted == {"progress"}:
            raise ConfigError("labels outcome make no progress at discount 1: every step would score 0")
        require_at_least(self, {"hidden": 1, "tries": 1, "states": 1, "max_new_tokens": 1, "pair_weight": 0})
        if self.lora_rank and not self.train_backbone:
            raise ConfigError("lora_rank trains the backbone: train_backbone must be true")

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Label the steps, train a copy of `policy` to say it, and write that; `ProcessRewardModel.load` reads it.

        Raises:
            NothingToTrainOnError: no step could be labelled.
            EndpointError: the judge's endpoint refuses, or is broken; its marks so far are kept in `output_dir`.
            TrainingError: a gradient was not finite; nothing is written.
        """
        kept = prepare(policy, trajectories, self.max_length)
        play = player(policy, self.temperature, self.max_new_tokens, seed)
        sound, values, stderr = self.values(kept.trajectories, kept.dropped, play, seed, folder=output_dir)
        report = self._train_on(policy, sound, values, kept.dropped, seed, output_dir, progress)
        if not math.isnan(stderr):
            report = replace(report, metrics={**report.metrics, "label_stderr": stderr})
        if not (without := self.unmarked(values)):
            return report
        note = f"the judge gave {without} of {sum(map(len, values)) - len(values)} steps no mark that can be read"
        warnings.warn(f"{note}: what they are worth is not learnt", stacklevel=2)
        return replace(report, notes=(note,))

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
        """As `train`, with values of one's own: of a judge (`values.marked`), or of whatever else knows them."""
        of = {id(each): values for each, values in zip(trajectories, values, strict=True)}
        kept = prepare(policy, trajectories, self.max_length)
        known = [of[id(each)] for each in kept.trajectories]
        return self._train_on(policy, kept.trajectories, known, kept.dropped, seed, output_dir, progress)

    # ---- labels -----------------------------------------------------------------------------------------------------

    def values(
        self, trajectories: Sequence[Trajectory], dropped: Counter[str], play: Play, seed: int, first_try: int = 0,
        folder: Path | None = None,
    ) -> Valued:  # fmt: skip
        """The values of the states of each trajectory that has some; the others are counted in `dropped`.

        A judge's marks are kept in `folder`.
        """
        if self.labels == "outcome":
            return Valued(list(trajectories), [outcome_values(each, self.discount) for each in trajectories])
        if self.labels == "judge":
            judge, kept = OpenAIJudge.of(self.judge), folder / KEPT if folder else None
            return Valued(list(trajectories), list(distributed.on_rank_zero(judge.values, trajectories, kept)))
        if self.labels == "exact":
            exact, without = distributed.on_rank_zero(
                exact_of_all, trajectories, self.discount
            )  # worlds that fail must fail for all
            dropped.update(without)
            sound = [each for each, known in zip(trajectories, exact, strict=True) if known is not None]
            return Valued(sound, [known for known in exact if known is not None])
        again, without = distributed.on_rank_zero(played_again, trajectories)
        dropped.update(without)
        sound = [each for each, same in zip(trajectories, again, strict=True) if same]
        found = monte_carlo(
            sound, play, tries=self.tries, states=self.states, discount=self.discount, seed=seed, first_try=first_try
        )
        estimates = [value for values in found for value in values if value and value.tries > 1]
        return Valued(
            sound, [[None if value is None else value.mean for value in values] for values in found],
            fmean(each.stderr for each in estimates) if estimates else math.nan,
        )  # fmt: skip

    def unmarked(self, values: Sequence[Values]) -> int:
        """Of how many steps the judge gave no mark; 0 of other labels."""
        return sum(value is None for each in values for value in each[1:]) if self.labels == "judge" else 0

    # ---- training ---------------------------------------------------------------------------------------------------

    def _train_on(
        self, policy: Policy, trajectories: Sequence[Trajectory], values: Sequence[Values], dropped: Counter[str],
        seed: int, output_dir: Path, progress: Progress | None,
    ) -> TrainReport:  # fmt: skip
        data = [labelled(each, known, policy) for each, known in zip(trajectories, values, strict=True)]
        if not data:
            raise no_data_error("process_reward", dropped)
        model = self.untrained(policy, data, seed)
        with until_saved():
            with self.fit(model, data, seed=seed, output_dir=output_dir, progress=progress) as fit:
                self.run(fit, data, seed)
            model.save(output_dir)
        read = TrainingData(list(trajectories), [row.row.sample for row in data], dropped)
        steps = sum(len(row.row.marks) for row in data)
        report = fit.report(read, loss=fit.history[-1]["loss"], steps=steps)
        return replace(report, agent_tokens=int(self.epochs * steps))

    def untrained(self, policy: Policy, data: Sequence[Labelled], seed: int) -> ProcessRewardModel:
        """A copy of the policy with new heads, that begin with the labels' means."""
        return untrained(policy, [row.labels for row in data], self.hidden, self.weights, seed)

    def fit(
        self, model: ProcessRewardModel, data: Sequence[Labelled], *, seed: int, output_dir: Path | None = None,
        progress: Progress | None = None,
    ) -> Fit[Labelled]:  # fmt: skip
        """The training of a model on labelled steps; with a frozen backbone its states are read once.

        Raises:
            ConfigError: every weight is to be trained and some are quantized.
        """
        from agentgym_py.training.fit import Fit

        frozen = None if self.train_backbone else frozen_states(model.policy.model, data, self.bf16)
        return Fit(
            "process reward model", model.policy, self, list(data), seed=seed, output_dir=output_dir, progress=progress,
            track=output_dir is not None, tokens_of=tries_tokens, sequences_of=len, train_backbone=self.train_backbone,
            wrap=lambda backbone: _marker(backbone, model.heads, frozen, self.bf16),
            heads=lambda net: [{"params": list(net.heads.parameters())}],
        )  # fmt: skip

    def run(self, fit: Fit[Labelled], data: Sequence[Labelled], seed: int) -> None:
        """Train: tries at one task are in one microbatch, because steps are paired within a task."""
        for batch in fit.steps(self._batches(data, seed)):
            entries = sum(int((~np.isnan(row.labels)).sum()) for row in batch)
            pairs = len(paired(batch))
            tries = [list(group) for _, group in groupby(batch, lambda row: row.states[0])]
            for part in fit.microbatches(tries):
                fit.backward(*self.loss(fit, [row for group in part for row in group], entries, pairs))
            fit.step()

    def loss(
        self, fit: Fit[Labelled], part: Sequence[Labelled], entries: int, pairs: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The part's share of the loss of a step with these numbers of labels and pairs, and what is logged of it."""
        import torch

        predicted_MD = fit.module(part)
        target_MD = torch.cat([torch.tensor(row.labels, dtype=torch.float32) for row in part]).to(predicted_MD.device)
        couples = torch.tensor(paired(part), dtype=torch.long, device=predicted_MD.device).reshape(-1, 2)
        loss, mse, pairwise = process_loss(
            predicted_MD, target_MD, *couples.T, pair_weight=self.pair_weight, entries=entries, pairs=pairs
        )
        return loss, {"mse": mse, "pairwise": pairwise, "pairs": torch.tensor(len(couples))}

    def _batches(self, data: Sequence[Labelled], seed: int) -> list[list[int]]:
        """Positions, a list for each optimizer step; tries at one task stand side by side, tasks at random."""
        rng, tasks = Rng(seed, "order of the trajectories"), dict[str, list[int]]()
        for i, row in enumerate(data):
            tasks.setdefault(row.states[0], []).append(i)

        def epoch() -> Iterator[list[int]]:
            order = [i for task in rng.sample(list(tasks.values()), len(tasks)) for i in task]
            yield from (order[at : at + self.step_size] for at in range(0, len(order), self.step_size))

        return epochs_of(epoch, len(data), self)


def tries_tokens(tries: Sequence[Labelled]) -> int:
    """Tokens of the tries at one task, padded to one length."""
    return len(tries) * max(len(row.row.sample.input_ids) for row in tries)


def frozen_states(backbone: Any, data: Sequence[Labelled], bf16: bool) -> dict[int, Tensor]:
    """The states at the marks of each row, by the row's identity."""
    import torch

    backbone.eval()
    with torch.no_grad():
        return {id(row): states_at_marks(backbone, [row.row], bf16) for row in data}


def _marker(backbone: Any, heads: Any, frozen: Mapping[int, Tensor] | None, bf16: bool) -> Any:
    """A module that predicts the three dimensions of the rows' M steps, (M, 3)."""
    import torch

    class Marker(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = heads
            self.model = backbone if frozen is None else None
            self._no_split_modules = getattr(backbone, "_no_split_modules", None)  # FSDP's units

        def forward(self, rows: Sequence[Labelled]) -> Tensor:
            if frozen is not None:
                return self.heads(torch.cat([frozen[id(row)] for row in rows]))  # type: ignore[no-any-return]
            marked = [row.row for row in rows]
            states = states_at_marks(self.model, marked, bf16, math.inf)  # one pass: FSDP's processes wait for each
            return self.heads(states)  # type: ignore[no-any-return]

    return Marker()
