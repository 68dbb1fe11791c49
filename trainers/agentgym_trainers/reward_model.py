"""A reward model: learns from pairs which trajectory of a task is better. The policy does not change.

    loss = mean over pairs of  - log sigma(r_w - r_l)      r: a linear head's output at the trajectory's last token

Bradley-Terry, as in InstructGPT (arXiv:2203.02155). Each head judges one outcome, by pairs of that outcome; the score
is the heads' weighted sum. The members of an ensemble (arXiv:2310.02743) differ in their heads' first weights and in
the order of the data; its score is their mean, minimum, or mean less k standard deviations, so that a policy gains
nothing where they disagree. With one head the loss equals that of trl's RewardTrainer, and the model's own dropout is
off, as in trl. Deviations: adapters keep `lora_dropout`; the last token is found by the length, not by the padding's
id, which may end a turn; every pair counts alike, and a task has at most `max_pairs`; after training, each head's bias
is set so that its mean over the training rows is 0, because the loss leaves it free and members must be comparable;
AdamW with beta2 0.95; batches hold pairs of similar length; a mixture of experts gets no router loss.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from agentgym_py.checks import require_at_least
from agentgym_py.errors import ConfigError, NothingToTrainOnError, did_you_mean
from agentgym_py.policy.tokens import RowSize, Sample, encode
from agentgym_py.policy.typing import Tensor
from agentgym_py.rewards.reward_model import (
    OUTCOMES,
    Aggregate,
    Member,
    outcome,
    outputs_at_last_token,
    save_reward_model,
)
from agentgym_py.rng import seed_of
from agentgym_py.training import TrainReport
from agentgym_py.training.data import TrainingData, no_data_error, prepare
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import PairSettings, Rates, require_no_mask
from agentgym_py.training.trainer import TrainerInfo
from agentgym_py.trajectory import Trajectory, preferences

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training.fit import Fit


def bradley_terry_loss(better_P: Tensor, worse_P: Tensor) -> Tensor:
    """Return the mean loss of P pairs, a scalar, by the scores of their two trajectories."""
    from torch.nn.functional import logsigmoid

    return -logsigmoid(better_P - worse_P).mean()


class HeadPair(NamedTuple):
    """A pair in tokens, and the number of the head that learns it."""

    better: Sample
    worse: Sample
    head: int


def head_pair_size(pair: HeadPair) -> RowSize:
    """Return the size of the two samples of a pair."""
    return RowSize.of(pair.better, pair.worse)


@dataclass(frozen=True, slots=True)
class RewardModelling(PairSettings):
    """Settings of a reward model's training."""

    info: ClassVar = TrainerInfo(output="reward_model", several_processes=True, feedback=("comparisons", "scores"))

    rates: ClassVar = Rates(3e-4, 1e-5)
    checkpoint_minutes: float = 5.0
    """No effect here: no states are saved, and a killed training starts again."""
    heads: dict[str, float] = field(default_factory=lambda: {"reward": 1.0})
    """The outcomes that are judged, with their weights in the score: `reward`, `success`, `steps` (fewer are better),
    `valid` (share of valid actions), or the name of a reward part."""
    members: int = 1
    """Models of the ensemble."""
    aggregate: Aggregate = "mean"
    """Score of the ensemble: its members' `mean`, `min`, or `mean-std`, the mean less `std_weight` deviations."""
    std_weight: float = 1.0
    """Standard deviations that `mean-std` subtracts."""

    def __post_init__(self) -> None:
        PairSettings.__post_init__(self)
        require_no_mask(self)
        if self.match == "success":
            raise ConfigError("match must be best_worst or all; to learn from success, set heads to {success: 1}")
        if not any(self.heads.values()) or not all(math.isfinite(weight) for weight in self.heads.values()):
            raise ConfigError(f"heads must be names with weights, not all of them 0, got {self.heads}")
        require_at_least(self, {"members": 1})
        if not math.isfinite(self.std_weight):
            raise ConfigError(f"std_weight must be a number, got {self.std_weight}")

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Train copies of `policy` to judge, and write them to `output_dir`; `RewardModel.load` reads them.

        Raises:
            NothingToTrainOnError: a head has no better and worse trajectory of one task.
        """
        data, pairs, ties = self._prepare(policy, trajectories, seed)
        reports: list[TrainReport] = []

        def members() -> Iterator[Member]:
            for number in range(self.members):
                member_seed = seed_of(seed, "member", number) % (1 << 31)
                member, report = self._train_member(policy, pairs, data, member_seed, member_progress(number))
                reports.append(report)
                yield member

        def member_progress(number: int) -> Progress | None:
            return progress and (lambda step, steps: progress(number * steps + step, self.members * steps))

        save_reward_model(output_dir, members(), self.heads, self.aggregate, self.std_weight)
        means = {name: fmean(report.metrics[name] for report in reports) for name in reports[0].metrics}
        return replace(
            reports[0],
            tokens=sum(report.tokens for report in reports),
            agent_tokens=sum(report.agent_tokens for report in reports),
            seconds=sum(report.seconds for report in reports),
            loss=[
                fmean(step) for step in zip(*(report.loss for report in reports), strict=False)
            ],  # one may stop early
            metrics=means | {"pairs": len(pairs), "ties": ties},
        )

    def _prepare(
        self, policy: Policy, trajectories: Sequence[Trajectory], seed: int
    ) -> tuple[TrainingData, list[HeadPair], int]:
        """Encode the pairs of all heads; returns the data in them, the pairs, and the number of ties."""
        data = prepare(policy, trajectories, self.max_length)
        pairs, used, ties = list[HeadPair](), set[int](), 0
        require_heads(self.heads, data.trajectories)
        for number, head in enumerate(self.heads):
            by_outcome = [replace(trajectory, reward=outcome(trajectory, head)) for trajectory in data.trajectories]
            built = preferences.build_pairs(
                by_outcome, match=self.match, level=self.level, max_pairs=self.max_pairs, seed=seed
            )
            if not built.pairs:
                error = no_data_error("reward_model", data.dropped + built.dropped)
                raise NothingToTrainOnError(f"{error}; no pair for the head {head!r}, {built.ties} of them ties")
            for pair in built.pairs:
                sides = preferences.pair_sides(data.trajectories, pair, self.level)
                better, worse = (encode(side, policy.chat).sequence(-1) for side in sides)
                pairs.append(HeadPair(better, worse, number))
                used |= {pair.chosen, pair.rejected}
            ties += built.ties
        if unpaired := len(data.trajectories) - len(used):
            data.dropped["in no pair of a better and a worse one of their task"] += unpaired
        samples = [_last_token_sample(side) for pair in pairs for side in (pair.better, pair.worse)]
        return TrainingData([data.trajectories[i] for i in sorted(used)], samples, data.dropped), pairs, ties

    def _train_member(
        self, policy: Policy, pairs: list[HeadPair], data: TrainingData, seed: int, progress: Progress | None
    ) -> tuple[Member, TrainReport]:
        """Train one member, then set its heads' biases so that its mean over the data is 0."""
        import torch

        member = _new_member(policy, len(self.heads), seed)
        with self.fit(member, pairs, seed, progress) as fit:
            for batch in fit.steps():
                for part in fit.microbatches(batch):
                    fit.backward(*self.loss(fit, part, len(batch)))
                fit.step()
        with torch.no_grad():
            member.heads.bias -= torch.tensor(member.predict(data.samples).mean(0)).to(member.heads.bias)
        return member, fit.report(data)

    def fit(self, member: Member, pairs: list[HeadPair], seed: int, progress: Progress | None = None) -> Fit[HeadPair]:
        """Make the training of one member, which saves no states."""
        from agentgym_py.training.fit import Fit

        return Fit(
            "reward_model", member.policy, self, pairs, seed=seed, output_dir=None, progress=progress,
            size_of=head_pair_size, dropout=False, wrap=lambda model: _scorer(model, member.heads),
            heads=lambda net: [{"params": list(net.heads.parameters())}],
        )  # fmt: skip

    def loss(self, fit: Fit[HeadPair], part: Sequence[HeadPair], pairs: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the part's share of the loss of a step of `pairs` pairs, and its logs."""
        import torch

        from agentgym_py.policy.logprobs import pad_samples

        samples = [pair.better for pair in part] + [pair.worse for pair in part]
        ids, _ = pad_samples(samples, fit.optimization.device)
        with fit.optimization.autocast():
            outputs_RH = fit.module(ids, torch.tensor([len(sample.input_ids) for sample in samples]))
        head_R = torch.tensor([pair.head for pair in part] * 2, device=outputs_RH.device)
        better_P, worse_P = outputs_RH.gather(1, head_R[:, None])[:, 0].chunk(2)
        margins_P = (better_P - worse_P).detach()
        loss = bradley_terry_loss(better_P, worse_P) * len(part) / pairs
        return loss, {"accuracy": margins_P > 0, "margin": margins_P}


def require_heads(heads: Iterable[str], trajectories: Sequence[Trajectory]) -> None:
    """Raise ConfigError if a head is not an outcome of these trajectories; without trajectories all heads pass."""
    parts = (part for trajectory in trajectories for step in trajectory.steps for part in step.reward_parts)
    outcomes = {*OUTCOMES, *parts}
    if trajectories and (wrong := next((head for head in heads if head not in outcomes), None)):
        raise ConfigError(f"heads: no outcome {wrong!r}.{did_you_mean(wrong, outcomes, 'These trajectories have')}")


def _last_token_sample(sample: Sample) -> Sample:
    """Return the sample with a mask that is 1 at the last token, where the loss is."""
    return Sample(sample.input_ids, [0] * (len(sample.input_ids) - 1) + [1])


def _new_member(policy: Policy, heads: int, seed: int) -> Member:
    """Copy the policy and give it new heads."""
    import torch

    from agentgym_py.policy import Policy

    model = copy.deepcopy(policy.model)
    size = model.config.get_text_config().hidden_size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        linear = torch.nn.Linear(size, heads)
        torch.nn.init.normal_(linear.weight, std=1 / math.sqrt(size + 1))
        torch.nn.init.zeros_(linear.bias)
    linear.to(model.device, torch.promote_types(model.dtype, torch.float32))
    copied = Policy(model, copy.deepcopy(policy.tokenizer), policy.name, max_context=policy.max_context)
    return Member(copied, linear)


def _scorer(model: Any, heads: Any) -> Any:
    """Make the module that is trained: the outputs of H heads at the last tokens of B rows, (B, H)."""
    import torch

    class Scorer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.heads = model, heads
            self._no_split_modules = getattr(model, "_no_split_modules", None)  # FSDP's units

        def forward(self, input_ids: Tensor, lengths_B: Tensor) -> Tensor:
            return outputs_at_last_token(self.model, self.heads, input_ids, lengths_B)

    return Scorer()
