"""A reward model: learns from pairs which trajectory of a task is the better one. The policy stays as it is.

    loss = mean over pairs of  - log sigma(r_w - r_l)      r: a linear head's number at the trajectory's last token

Bradley-Terry, as in InstructGPT (arXiv:2203.02155). Several heads judge several outcomes: a head's pairs are those of
its own outcome, so that of two successes one may be the shorter; the score is the heads' weighted sum. An ensemble
(arXiv:2310.02743) has members that differ in their heads' first weights and in the order of the data; it says the mean,
the least, or the mean less k deviations, so that a policy gains nothing where the members disagree. With one head the
loss is that of trl's RewardTrainer. Deviations: the last token is found by the length, not by the padding's id, which
may end a turn; every pair counts alike, a task has at most `max_pairs`; afterwards a
head's bias makes its mean over the rows of the training 0, for the loss leaves it free and members must be comparable;
AdamW with beta2 0.95; batches are made of pairs of similar length; a mixture of experts gets no router loss.
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
from agentgym_py.policy.tokens import Sample, encode
from agentgym_py.policy.typing import Tensor
from agentgym_py.rewards.reward_model import OUTCOMES, Aggregate, Member, at_last_token, outcome, write
from agentgym_py.rng import seed_of
from agentgym_py.training import TrainReport
from agentgym_py.training.data import TrainingData, length_grouped, no_data_error, prepare
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import PairSettings
from agentgym_py.training.trainer import TrainerInfo
from agentgym_py.trajectory import Trajectory, preferences

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training.fit import Fit


def bradley_terry_loss(better_P: Tensor, worse_P: Tensor) -> Tensor:
    """The loss of P pairs by what the model says of the two, a scalar."""
    from torch.nn.functional import logsigmoid

    return -logsigmoid(better_P - worse_P).mean()


class Judged(NamedTuple):
    """A pair in tokens, and the number of the head that is to learn it."""

    better: Sample
    worse: Sample
    head: int


def judged_tokens(pair: Judged) -> int:
    """Tokens of the two rows of a pair, padded to one length."""
    return 2 * max(len(pair.better.input_ids), len(pair.worse.input_ids))


@dataclass(frozen=True, slots=True)
class RewardModelling(PairSettings):
    """Settings of a reward model's training."""

    info: ClassVar = TrainerInfo(output="reward_model", several_processes=True)

    learning_rate: float = 3e-4
    """Peak of the cosine schedule; 3e-4 suits the tiny model, 1e-5 a pretrained one."""
    checkpoint_minutes: float = 5.0
    """Without effect here: no states are kept, a killed training starts again."""
    heads: dict[str, float] = field(default_factory=lambda: {"reward": 1.0})
    """The outcomes that are judged, with their weights in the score: `reward`, `success`, `steps` (fewer are better),
    `valid` (share of valid actions), or the name of a reward's part."""
    members: int = 1
    """Models of the ensemble."""
    aggregate: Aggregate = "mean"
    """What the ensemble says: its members' `mean`, their `min`, or `mean-std`, less `std_weight` deviations."""
    std_weight: float = 1.0
    """Deviations that `mean-std` takes off."""

    def __post_init__(self) -> None:
        PairSettings.__post_init__(self)
        if self.match == "success":
            raise ConfigError("match must be best_worst or all; to learn from success use heads, {success: 1}")
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
            NothingToTrainOnError: a head finds no better and worse trajectory of one task.
        """
        kept, judged, ties = self._judged(policy, trajectories, seed)
        done: list[TrainReport] = []

        def members() -> Iterator[Member]:
            for number in range(self.members):
                member, said = self._member(
                    policy, judged, kept, seed_of(seed, "member", number) % (1 << 31), told(number)
                )
                done.append(said)
                yield member

        def told(number: int) -> Progress | None:
            return progress and (lambda step, steps: progress(number * steps + step, self.members * steps))

        write(output_dir, members(), self.heads, self.aggregate, self.std_weight)
        return replace(
            done[0],
            tokens=sum(each.tokens for each in done),
            agent_tokens=sum(each.agent_tokens for each in done),
            seconds=sum(each.seconds for each in done),
            loss=[fmean(step) for step in zip(*(each.loss for each in done), strict=True)],
            metrics={name: fmean(each.metrics[name] for each in done) for name in done[0].metrics}
            | {"pairs": len(judged), "ties": ties},
        )

    def _judged(
        self, policy: Policy, trajectories: Sequence[Trajectory], seed: int
    ) -> tuple[TrainingData, list[Judged], int]:
        """The trajectories in pairs, with all rows in tokens; the pairs of all heads; and how many were ties."""
        kept = prepare(policy, trajectories, self.max_length)
        judged, used, ties = list[Judged](), set[int](), 0
        require_heads(self.heads, kept.trajectories)
        for number, head in enumerate(self.heads):
            by_outcome = [replace(each, reward=outcome(each, head)) for each in kept.trajectories]
            found = preferences.build_pairs(
                by_outcome, match=self.match, level=self.level, max_pairs=self.max_pairs, seed=seed
            )
            if not found.pairs:
                raise _no_pair(head, kept, found, trajectories)
            for pair in found.pairs:
                better, worse = (
                    encode(each, policy.chat) for each in preferences.pair_sides(kept.trajectories, pair, self.level)
                )
                judged.append(Judged(better, worse, number))
                used |= {pair.chosen, pair.rejected}
            ties += found.ties
        if left := len(kept.trajectories) - len(used):
            kept.dropped["in no pair of a better and a worse one of their task"] += left
        rows = [_read_at_the_end(row) for each in judged for row in (each.better, each.worse)]
        return TrainingData([kept.trajectories[i] for i in sorted(used)], rows, kept.dropped), judged, ties

    def _member(
        self, policy: Policy, judged: list[Judged], data: TrainingData, seed: int, progress: Progress | None
    ) -> tuple[Member, TrainReport]:
        """Train one member; its heads' biases are then set so that its mean over the data is 0."""
        import torch

        member = _untrained(policy, len(self.heads), seed)
        with self.fit(member, judged, seed, progress) as fit:
            for batch in fit.steps(length_grouped([judged_tokens(pair) for pair in judged], self, seed)):
                for part in fit.microbatches(batch):
                    fit.backward(*self.loss(fit, part, len(batch)))
                fit.step()
        with torch.no_grad():
            member.heads.bias -= torch.tensor(member.read(data.samples).mean(0)).to(member.heads.bias)
        return member, fit.report(data)

    def fit(self, member: Member, judged: list[Judged], seed: int, progress: Progress | None = None) -> Fit[Judged]:
        """The training of one member, of which no state is kept."""
        from agentgym_py.training.fit import Fit

        return Fit(
            "reward_model", member.policy, self, judged, seed=seed, output_dir=None, progress=progress,
            tokens_of=judged_tokens, wrap=lambda model: _scorer(model, member.heads),
            heads=lambda net: [{"params": list(net.heads.parameters())}],
        )  # fmt: skip

    def loss(self, fit: Fit[Judged], part: Sequence[Judged], pairs: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The part's share of the loss of a step of `pairs` pairs, and what is logged of it."""
        import torch

        from agentgym_py.policy.logprobs import pad_samples

        samples = [pair.better for pair in part] + [pair.worse for pair in part]
        ids, _ = pad_samples(samples, fit.optimization.device)
        with fit.optimization.autocast():
            said_RH = fit.module(ids, torch.tensor([len(sample.input_ids) for sample in samples]))
        head_R = torch.tensor([pair.head for pair in part] * 2, device=said_RH.device)
        better_P, worse_P = said_RH.gather(1, head_R[:, None])[:, 0].chunk(2)
        margins_P = (better_P - worse_P).detach()
        loss = bradley_terry_loss(better_P, worse_P) * len(part) / pairs
        return loss, {"accuracy": margins_P > 0, "margin": margins_P}


def require_heads(heads: Iterable[str], trajectories: Sequence[Trajectory]) -> None:
    """ConfigError for a head that is no outcome of these trajectories; one of no trajectories is not looked at."""
    known = {*OUTCOMES, *(part for each in trajectories for step in each.steps for part in step.reward_parts)}
    if trajectories and (wrong := next((head for head in heads if head not in known), None)):
        raise ConfigError(f"heads: no outcome {wrong!r}.{did_you_mean(wrong, known, 'These trajectories have')}")


def _no_pair(
    head: str, kept: TrainingData, found: preferences.Pairs, trajectories: Sequence[Trajectory]
) -> NothingToTrainOnError:
    error = no_data_error("reward_model", kept.dropped + found.dropped)
    return NothingToTrainOnError(f"{error}; no pair for the head {head!r}, {found.ties} of them ties")


def _read_at_the_end(row: Sample) -> Sample:
    """The row with a mask that is 1 where its loss is."""
    return Sample(row.input_ids, [0] * (len(row.input_ids) - 1) + [1])


def _untrained(policy: Policy, heads: int, seed: int) -> Member:
    """A copy of the policy with new heads."""
    import torch

    from agentgym_py.policy import Policy

    model = copy.deepcopy(policy.model)
    size = model.config.get_text_config().hidden_size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = torch.nn.Linear(size, heads)
        torch.nn.init.normal_(made.weight, std=1 / math.sqrt(size + 1))
        torch.nn.init.zeros_(made.bias)
    made.to(model.device, torch.promote_types(model.dtype, torch.float32))
    return Member(Policy(model, copy.deepcopy(policy.tokenizer), policy.name), made)


def _scorer(model: Any, heads: Any) -> Any:
    """A module that says H numbers of B rows, read at their last tokens, (B, H)."""
    import torch

    class Scorer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.heads = model, heads
            self._no_split_modules = getattr(model, "_no_split_modules", None)  # FSDP's units

        def forward(self, input_ids: Tensor, lengths_B: Tensor) -> Tensor:
            return at_last_token(self.model, self.heads, input_ids, lengths_B)

    return Scorer()
