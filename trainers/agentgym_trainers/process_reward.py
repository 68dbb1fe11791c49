"""A process reward model: learns what each step of a trajectory is worth. The policy stays as it is.

    loss = mean over labelled numbers of (said - label)^2
         + pair_weight * mean over pairs of  BCE(sigma(10 (said_g - said_b)), sigma(10 (label_g - label_b))) / 10

A step is read where its thought ends, by two layers on the backbone's last state and the step's number: relevance,
correctness, progress; see `agentgym_py.process` for what each means. Correctness and progress are labelled with the
values of states (`agentgym_py.values`): `outcome` traces the episode's success back (Math-Shepherd's hard estimate,
arXiv:2312.08935, with one continuation), `exact` replays the trajectory in its world and asks the expert, `monte_carlo`
continues from states of it by the policy itself (Math-Shepherd's soft estimate), and `judge` has a language model mark
each step (`agentgym_py.judging`). Relevance is always labelled by the trajectory: whether the world could do the
action, and whether it was new. The pairs are steps that differ in one and the same state, met in one step of the
optimizer; the second term is least where the difference is the labels', so the two terms do not pull against each
other.

Deviations: a value, not a class, is learnt (arXiv:2305.20050 has three classes of marks by people); the model is a copy
of the policy with heads of its own, no second language model, and is told the step's number; batches keep tries at one
task side by side.
"""

from __future__ import annotations

import copy
import hashlib
import math
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import combinations, groupby, pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args

from agentgym_py import ranks, tracking
from agentgym_py.errors import AgentGymError, ConfigError, TrainingError
from agentgym_py.finetune import FineTuning, lora, nothing_left, quiet, usable
from agentgym_py.judging import KEPT, OpenAIJudge
from agentgym_py.policy import input_hooks, stop_recomputing
from agentgym_py.process import (
    Floats,
    Marked,
    ProcessRewardModel,
    check_weights,
    marked_sample,
    new_heads,
    states_at_marks,
    step_labels,
)
from agentgym_py.rng import Rng, seed_of
from agentgym_py.trainer import Progress, Tensor, TrainReport
from agentgym_py.trajectory import Trajectory
from agentgym_py.values import Play, exact_values, monte_carlo, outcome_values

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

Labels = Literal["outcome", "exact", "monte_carlo", "judge"]
Values = Sequence[float | None]
"""Of the T + 1 states of a trajectory, None where nobody knows."""
_CORRECTNESS = 1
_SHARPNESS = 10.0
"""What a difference of two values is multiplied with before it is squashed: 0.1 is then one unit."""


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
    said_P, wanted_P = (each[better_P, _CORRECTNESS] - each[worse_P, _CORRECTNESS] for each in (said_MD, wanted_MD))
    crossed = binary_cross_entropy_with_logits(
        _SHARPNESS * said_P, torch.sigmoid(_SHARPNESS * wanted_P), reduction="sum"
    )
    pairwise = crossed / _SHARPNESS / max(len(said_P) if pairs is None else pairs, 1)
    return ProcessLoss(mse + pair_weight * pairwise, mse, pairwise)


class Labelled(NamedTuple):
    """A trajectory with what should be said of its steps."""

    row: Marked
    labels: Floats
    """(T, 3), NaN where nobody knows."""
    states: list[str]
    """What the state before each step is known by."""
    replies: list[str]


def labelled(trajectory: Trajectory, values: Values, policy: Policy) -> Labelled:
    """The trajectory in tokens and labels; of steps that must not be learned from there are none."""
    labels = step_labels(trajectory, values)
    labels[[not step.trained for step in trajectory.steps]] = math.nan
    return Labelled(
        marked_sample(trajectory, policy), labels, _states(trajectory), [step.reply for step in trajectory.steps]
    )


def _states(trajectory: Trajectory) -> list[str]:
    """The state before each step, by the world and all that was seen and said so far."""
    provenance, found = trajectory.provenance, list[str]()
    past = hashlib.sha256(repr((provenance.task_key, provenance.env_seed, trajectory.rules)).encode())
    for step in trajectory.steps:
        past.update(repr(step.observation).encode())
        found.append(past.hexdigest())
        past.update(repr(step.reply).encode())
    return found


def paired(batch: Sequence[Labelled]) -> list[tuple[int, int]]:
    """The pairs of a better and a worse step from one state, as positions among all steps of a batch."""
    by_state: dict[str, list[tuple[int, str, float]]] = defaultdict(list)
    at = 0
    for each in batch:
        for state, reply, label in zip(each.states, each.replies, each.labels[:, _CORRECTNESS], strict=True):
            if not math.isnan(label):
                by_state[state].append((at, reply, float(label)))
            at += 1
    found = []
    for steps in by_state.values():
        for (one, said, first), (other, answered, second) in combinations(steps, 2):
            if said != answered and abs(first - second) > 1e-6:
                found.append((one, other) if first > second else (other, one))
    return found


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
        if self.labels not in get_args(Labels):
            raise ConfigError(f"labels must be one of {', '.join(get_args(Labels))}, got {self.labels!r}")
        if self.labels == "judge":
            OpenAIJudge.of(self.judge)  # complains of a wrong one before anything is asked
        elif self.judge:
            raise ConfigError("judge is of labels judge")
        if not 0 < self.discount <= 1:
            raise ConfigError(f"discount must be above 0 and at most 1, got {self.discount}")
        for name in ("hidden", "tries", "states", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not (math.isfinite(self.pair_weight) and self.pair_weight >= 0):
            raise ConfigError(f"pair_weight must be a number of at least 0, got {self.pair_weight}")
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
        sound, values = self.values(
            kept.trajectories, kept.dropped, self._player(policy, seed), seed, folder=output_dir
        )  # fmt: skip
        report = self._train_on(policy, sound, values, kept.dropped, seed, output_dir, progress)
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
    ) -> tuple[list[Trajectory], list[Values]]:  # fmt: skip
        """The values of the states of each trajectory that has some; the others are counted in `dropped`.

        A judge's marks are kept in `folder`.
        """
        if self.labels == "outcome":
            return list(trajectories), [outcome_values(each, self.discount) for each in trajectories]
        if self.labels == "judge":
            judge, kept = OpenAIJudge.of(self.judge), folder / KEPT if folder else None
            return list(trajectories), list(ranks.once(judge.values, trajectories, kept))
        exact = ranks.once(self._exact, trajectories)  # worlds that fail must fail for all
        sound = [each for each, known in zip(trajectories, exact, strict=True) if known is not None]
        if lost := len(exact) - len(sound):
            dropped["whose world does not play it again"] += lost
        if self.labels == "exact":
            return sound, [known for known in exact if known is not None]
        found = monte_carlo(
            sound, play, tries=self.tries, states=self.states, discount=self.discount, seed=seed, first_try=first_try
        )
        return sound, [[None if value is None else value.mean for value in values] for values in found]

    def unmarked(self, values: Sequence[Values]) -> int:
        """Of how many steps the judge gave no mark; 0 of other labels."""
        return sum(value is None for each in values for value in each[1:]) if self.labels == "judge" else 0

    def _exact(self, trajectories: Sequence[Trajectory]) -> list[Values | None]:
        """The values by the expert; None for a trajectory that its world does not play again."""
        from agentgym_py.pool import EnvPool

        found = list[Values | None]()
        with closing(EnvPool()) as pool:
            for each in trajectories:
                try:
                    found.append(exact_values(each, self.discount, pool))
                except AgentGymError:
                    found.append(None)
        return found

    def _player(self, policy: Policy, seed: int) -> Play:
        """The policy itself goes on from states."""

        def play(jobs: Any) -> list[Trajectory]:
            from agentgym_py.agents import ModelAgent
            from agentgym_py.collect import Collector
            from agentgym_py.engine import HFEngine, SamplingParams

            params = SamplingParams(temperature=self.temperature, max_new_tokens=self.max_new_tokens)
            agent = ModelAgent(policy, HFEngine(policy, slots=64), params)
            with ranks.Ranks() as workers:
                collector = Collector(agent, slots=64, seed=seed_of(seed, "continuations"), workers=workers)
                return collector.collect_batch(jobs)

        return play

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
        history = self.fit(model, data, seed=seed, progress=progress)
        for row in history:
            tracking.log(row)
        model.save(output_dir)
        read = self.epochs * sum(len(each.row.sample.input_ids) for each in data)
        steps = sum(len(each.row.marks) for each in data)
        return TrainReport(
            len(data), dict(dropped), int(read), int(self.epochs * steps), time.monotonic() - began,
            [each["loss"] for each in _tenths(history)], {**_tenths(history)[-1], "steps": steps}, (),
        )  # fmt: skip

    def untrained(self, policy: Policy, data: Sequence[Labelled], seed: int) -> ProcessRewardModel:
        """A copy of the policy with new heads, that begin with the labels' means."""
        import numpy as np
        import torch

        from agentgym_py.policy import Policy

        model = copy.deepcopy(policy.model)
        if hasattr(model, "peft_config"):  # in the midst of a training of adapters
            model = model.merge_and_unload()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            heads = new_heads(model.config.get_text_config().hidden_size, self.hidden)
        labels_MD = np.concatenate([each.labels for each in data])
        counts_D = np.maximum((~np.isnan(labels_MD)).sum(0), 1)
        with torch.no_grad():
            heads[-1].bias.copy_(torch.tensor(np.nansum(labels_MD, 0) / counts_D))
        copied = Policy(model, copy.deepcopy(policy.tokenizer), policy.name)
        return ProcessRewardModel(copied, heads.to(model.device), self.weights)

    def fit(
        self, model: ProcessRewardModel, data: Sequence[Labelled], *, seed: int, progress: Progress | None = None
    ) -> list[dict[str, float]]:
        """Train the model in place; what was logged of each step.

        Raises:
            TrainingError: a gradient was not finite; the model is as it was before that step.
        """
        import torch

        hooks = input_hooks(model.policy.model)
        with quiet():
            adapters = self._adapters(model, seed)
        frozen = None if self.train_backbone else self._frozen(model, data)
        trained = list(model.heads.parameters())
        if self.train_backbone:
            trained += [each for each in model.policy.model.parameters() if each.requires_grad]
        optimizer = torch.optim.AdamW(
            trained, lr=self.learning_rate, weight_decay=self.weight_decay, betas=(0.9, 0.95)
        )  # fmt: skip
        batches = list(self._batches(data, seed))
        warm = min(int(self.warmup_ratio * len(batches)), len(batches) - 1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _cosine(step, warm, len(batches)))
        history = []
        model.policy.model.train(self.train_backbone)
        if self.gradient_checkpointing:
            model.policy.model.gradient_checkpointing_enable({"use_reentrant": False})
        for number, batch in enumerate(batches):
            optimizer.zero_grad()
            read = [frozen[i] for i in batch] if frozen else []
            history.append(ranks.summed(self._backward(model, [data[i] for i in batch], read)))
            ranks.sum_gradients(trained)
            norm = float(torch.nn.utils.clip_grad_norm_(trained, self.max_grad_norm or math.inf))
            if not math.isfinite(norm):
                raise TrainingError(
                    f"process reward model: gradient norm {norm} at step {number + 1} of {len(batches)}: the step was "
                    "not taken, and the model is not written; a lower learning_rate may help"
                )
            optimizer.step()
            schedule.step()
            if progress:
                progress(number + 1, len(batches))
        if adapters is not None:
            model.policy.model = adapters.merge_and_unload()
        model.policy.model.eval()
        stop_recomputing(model.policy.model, hooks)
        return history

    def _adapters(self, model: ProcessRewardModel, seed: int) -> Any:
        """The backbone with adapters, where they are asked for."""
        import torch

        if not self.lora_rank:
            model.policy.model.requires_grad_(self.train_backbone)  # merged adapters leave it frozen
            return None
        from peft import get_peft_model

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return get_peft_model(model.policy.model, lora(self))

    def _frozen(self, model: ProcessRewardModel, data: Sequence[Labelled]) -> list[Tensor]:
        """The states at each row's marks, read once for all epochs."""
        import torch

        model.policy.model.eval()
        with torch.no_grad(), torch.autocast(model.policy.model.device.type, torch.bfloat16, enabled=self.bf16):
            return [states_at_marks(model.policy.model, [each.row]) for each in data]

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
            own = list(tries) if number % ranks.world() == ranks.rank() else []
            if parts and len(parts[-1]) + len(own) <= self.batch_size:
                parts[-1] += own
            else:
                parts.append(own)
        pairs, many = [paired([batch[i] for i in part]) for part in parts], len(paired(batch))
        wanted = [torch.tensor(each.labels, dtype=torch.float32) for each in batch]
        entries, logged = sum(int((~torch.isnan(each)).sum()) for each in wanted), defaultdict[str, float](float)
        for part, couples in zip(parts, pairs, strict=True):
            if not part:
                continue
            rows = [batch[i].row for i in part]
            with torch.autocast(model.policy.model.device.type, torch.bfloat16, enabled=self.bf16):
                read = torch.cat([frozen[i] for i in part]) if frozen else states_at_marks(model.policy.model, rows)
            said_MD = model.heads(read)
            better_P, worse_P = torch.tensor(couples, dtype=torch.long, device=said_MD.device).reshape(-1, 2).T
            found = process_loss(
                said_MD, torch.cat([wanted[i] for i in part]).to(said_MD.device), better_P, worse_P,
                pair_weight=self.pair_weight, entries=entries, pairs=many,
            )  # fmt: skip
            torch.autograd.backward(found.loss)
            for name, value in found._asdict().items():
                logged[name] += float(value.detach())
        return {**logged, "pairs": float(sum(map(len, pairs)))}


def _cosine(step: int, warm: int, steps: int) -> float:
    """Share of the learning rate at a step."""
    if step < warm:
        return (step + 1) / (warm + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(steps - warm, 1)))


def _tenths(history: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """The means of what was logged in each tenth of the steps, or of each step where there are fewer."""
    many = min(len(history), 10)
    cuts = [len(history) * k // many for k in range(many + 1)]
    parts = [history[a:b] for a, b in pairwise(cuts)]
    return [{name: fmean(each[name] for each in part) for name in part[0]} for part in parts]
