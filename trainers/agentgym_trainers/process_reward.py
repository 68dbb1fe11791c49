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
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from agentgym_py import distributed
from agentgym_py.checks import check_least
from agentgym_py.errors import ConfigError
from agentgym_py.policy.adapters import input_hooks, merged, require_trainable, stop_recomputing, with_adapters
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
from agentgym_py.training import TrainReport, tracking
from agentgym_py.training.checkpoints import Checkpoints, digest_of
from agentgym_py.training.descent import descend
from agentgym_py.training.finetune import FineTuning, nothing_left, usable
from agentgym_py.training.progress import Progress
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

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
    said_MD: Tensor, wanted_MD: Tensor, better_P: Tensor, worse_P: Tensor, *,
    pair_weight: float, entries: int | None = None, pairs: int | None = None,
) -> ProcessLoss:  # fmt: skip
    """The loss of M steps; a label that is NaN does not count, P pairs are the positions of steps.

    `entries` and `pairs` are how many labels and pairs there are in all, where these M steps are only a part of them:
    the losses of the parts add up.
    """
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    known_MD = ~torch.isnan(wanted_MD)
    off_MD = torch.where(known_MD, said_MD - torch.nan_to_num(wanted_MD), torch.zeros_like(said_MD))
    mse = (off_MD**2).sum() / max(int(known_MD.sum()) if entries is None else entries, 1)
    said_P, wanted_P = (each[better_P, CORRECTNESS] - each[worse_P, CORRECTNESS] for each in (said_MD, wanted_MD))
    crossed = binary_cross_entropy_with_logits(
        _SHARPNESS * said_P, torch.sigmoid(_SHARPNESS * wanted_P), reduction="sum"
    )
    pairwise = crossed / _SHARPNESS / max(len(said_P) if pairs is None else pairs, 1)
    return ProcessLoss(mse + pair_weight * pairwise, mse, pairwise)


@dataclass(frozen=True, slots=True)
class ProcessReward(FineTuning):
    """Settings of a process reward model's training."""

    shared: ClassVar = True
    produces: ClassVar[str] = "process_reward"

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
        FineTuning.__post_init__(self)
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
        check_least(self, {"hidden": 1, "tries": 1, "states": 1, "max_new_tokens": 1, "pair_weight": 0})
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
        kept = usable(policy, trajectories, self.max_length)
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
        kept = usable(policy, trajectories, self.max_length)
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
            return Valued(list(trajectories), list(distributed.once(judge.values, trajectories, kept)))
        if self.labels == "exact":
            exact, without = distributed.once(
                exact_of_all, trajectories, self.discount
            )  # worlds that fail must fail for all
            dropped.update(without)
            sound = [each for each, known in zip(trajectories, exact, strict=True) if known is not None]
            return Valued(sound, [known for known in exact if known is not None])
        again, without = distributed.once(played_again, trajectories)
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
        began = time.monotonic()
        data = [labelled(each, known, policy) for each, known in zip(trajectories, values, strict=True)]
        if not data:
            raise nothing_left("process_reward", dropped)
        model = self.untrained(policy, data, seed)
        rows = [[each.row.sample.input_ids, each.row.marks, each.labels.tolist(), each.states] for each in data]
        states = Checkpoints(
            output_dir / "states", digest_of(self, seed, policy.digest(), rows), self.checkpoint_minutes
        )
        history = self.fit(model, data, seed=seed, progress=progress, states=states)
        for row in history:
            tracking.log(row)
        model.save(output_dir)
        states.clear()
        read = self.epochs * sum(len(each.row.sample.input_ids) for each in data)
        steps = sum(len(each.row.marks) for each in data)
        tenths = _tenths(history)
        return TrainReport(
            len(data), dict(dropped), int(read), int(self.epochs * steps), time.monotonic() - began,
            [each["loss"] for each in tenths], {**tenths[-1], "steps": steps},
        )  # fmt: skip

    def untrained(self, policy: Policy, data: Sequence[Labelled], seed: int) -> ProcessRewardModel:
        """A copy of the policy with new heads, that begin with the labels' means."""
        return untrained(policy, [each.labels for each in data], self.hidden, self.weights, seed)

    def fit(
        self, model: ProcessRewardModel, data: Sequence[Labelled], *, seed: int, progress: Progress | None = None,
        states: Checkpoints | None = None,
    ) -> list[dict[str, float]]:  # fmt: skip
        """Train the model in place, from the last one of `states` where there is one; what was logged of each step.

        Raises:
            ConfigError: every weight is to be trained and some are quantized.
            TrainingError: a gradient was not finite; the model is as it was before that step.
        """
        import torch

        if self.train_backbone:
            require_trainable(model.policy.model, self.lora_rank)
        before = input_hooks(model.policy.model)
        adapters = with_adapters(model.policy.model, self.lora_rank, seed)
        if adapters is None:
            model.policy.model.requires_grad_(self.train_backbone)  # merged adapters leave it frozen
        frozen = list[Tensor]()
        trained = list(model.heads.parameters())
        if self.train_backbone:
            trained += [each for each in model.policy.model.parameters() if each.requires_grad]
        else:
            model.policy.model.eval()
            with torch.no_grad():  # read once for all epochs
                frozen = [states_at_marks(model.policy.model, [each.row], self.bf16) for each in data]
        model.policy.model.train(self.train_backbone)
        if self.gradient_checkpointing:
            model.policy.model.gradient_checkpointing_enable({"use_reentrant": False})

        def backward(batch: list[int]) -> dict[str, float]:
            return self._backward(model, [data[i] for i in batch], [frozen[i] for i in batch] if frozen else [])

        batches = list(self._batches(data, seed))
        history = descend("process reward model", trained, batches, backward, self, seed, progress, states)
        if adapters is not None:
            model.policy.model = merged(adapters)
        model.policy.model.eval()
        stop_recomputing(model.policy.model, before)
        return history

    def _batches(self, data: Sequence[Labelled], seed: int) -> Iterator[list[int]]:
        """Positions, a list for each step of the optimizer; tries at one task stand side by side, tasks at random."""
        rng, size = Rng(seed, "order of the trajectories"), self.batch_size * self.gradient_accumulation
        tasks: dict[str, list[int]] = defaultdict(list)
        for i, each in enumerate(data):
            tasks[each.states[0]].append(i)
        left = math.ceil(self.epochs * math.ceil(len(data) / size))
        while left > 0:
            order = [i for task in rng.sample(list(tasks.values()), len(tasks)) for i in task]
            for at in range(0, len(order), size)[:left]:
                yield order[at : at + size]
            left -= math.ceil(len(data) / size)

    def _backward(
        self, model: ProcessRewardModel, batch: Sequence[Labelled], frozen: Sequence[Tensor]
    ) -> dict[str, float]:
        """This process's part of the gradient of one step, in parts of `batch_size` trajectories; what is logged of it.

        Tries at one task are one process's, and in one part, for steps are paired within a task only.
        """
        import torch

        parts = list[list[int]]()
        for number, (_, tries) in enumerate(groupby(range(len(batch)), lambda i: batch[i].states[0])):
            own = list(tries) if number % distributed.world() == distributed.rank() else []
            if parts and len(parts[-1]) + len(own) <= self.batch_size:
                parts[-1] += own
            else:
                parts.append(own)
        wanted = [torch.tensor(each.labels, dtype=torch.float32) for each in batch]
        entries, many = sum(int((~torch.isnan(each)).sum()) for each in wanted), len(paired(batch))
        logged, pairs = defaultdict[str, float](float), 0
        for part in filter(None, parts):
            some = [batch[i] for i in part]
            if frozen:
                said_MD = model.heads(torch.cat([frozen[i] for i in part]))
            else:
                said_MD = model.heads(states_at_marks(model.policy.model, [each.row for each in some], self.bf16))
            couples = torch.tensor(paired(some), dtype=torch.long, device=said_MD.device).reshape(-1, 2)
            found = process_loss(
                said_MD, torch.cat([wanted[i] for i in part]).to(said_MD.device), *couples.T,
                pair_weight=self.pair_weight, entries=entries, pairs=many,
            )  # fmt: skip
            torch.autograd.backward(found.loss)
            for name, value in found._asdict().items():
                logged[name] += float(value.detach())
            pairs += len(couples)
        return {**logged, "pairs": float(pairs)}


def _tenths(history: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """The means of what was logged in each tenth of the steps, or of each step where there are fewer."""
    many = min(len(history), 10)
    parts = [history[len(history) * k // many : len(history) * (k + 1) // many] for k in range(many)]
    return [{name: fmean(each[name] for each in part) for name in part[0]} for part in parts]
