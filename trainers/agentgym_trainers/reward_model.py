"""A reward model: learns from pairs which trajectory of a task is the better one. The policy stays as it is.

    loss = mean over pairs of  - log sigma(r_w - r_l)      r: a linear head's number at the trajectory's last token

Bradley-Terry, as in InstructGPT (arXiv:2203.02155). Several heads judge several outcomes: a head's pairs are those of
its own outcome, so that of two successes one may be the shorter; the score is the heads' weighted sum. An ensemble
(arXiv:2310.02743) has members that differ in their heads' first weights and in the order of the data; it says the mean,
the least, or the mean less k deviations, so that a policy gains nothing where the members disagree. The work is done by
trl's RewardTrainer. Deviations: with one head the loss is trl's own, but its model finds the last token by the length,
not by the padding's id, which may end a turn; every pair counts alike, a task has at most `max_pairs`; afterwards a
head's bias makes its mean over the rows of the training 0, for the loss leaves it free and members must be comparable;
AdamW with beta2 0.95; batches are made of pairs of similar length; a mixture of experts gets no router loss.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from agentgym_py.checks import check_least
from agentgym_py.errors import ConfigError, NothingToTrainOnError, did_you_mean
from agentgym_py.policy.adapters import merged, with_adapters
from agentgym_py.policy.quiet import quiet
from agentgym_py.policy.tokens import Sample, encode
from agentgym_py.policy.typing import Tensor
from agentgym_py.rewards.reward_model import OUTCOMES, Aggregate, Member, at_last_token, outcome, write
from agentgym_py.rng import seed_of
from agentgym_py.training import TrainReport
from agentgym_py.training.finetune import (
    Kept,
    PairTuning,
    arguments,
    dealt,
    fit,
    nothing_left,
    recomputed,
    report,
    usable,
)
from agentgym_py.training.progress import Progress
from agentgym_py.trajectory import Trajectory, preferences

if TYPE_CHECKING:
    from agentgym_py.policy import Policy


def bradley_terry_loss(better_P: Tensor, worse_P: Tensor) -> Tensor:
    """The loss of P pairs by what the model says of the two, a scalar."""
    from torch.nn.functional import logsigmoid

    return -logsigmoid(better_P - worse_P).mean()


class _Judged(NamedTuple):
    """A pair in tokens, and the number of the head that is to learn it."""

    better: Sample
    worse: Sample
    head: int


@dataclass(frozen=True, slots=True)
class RewardModelling(PairTuning):
    """Settings of a reward model's training."""

    shared: ClassVar = True
    produces: ClassVar[str] = "reward_model"

    learning_rate: float = 3e-4
    """Peak of the cosine schedule; 3e-4 suits the tiny model, 1e-5 a pretrained one."""
    checkpoint_minutes: float = 5.0
    """Without effect here: no state is kept, a training that is killed begins anew."""
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
        PairTuning.__post_init__(self)
        if self.match == "success":
            raise ConfigError("match must be best_worst or all; to learn from success use heads, {success: 1}")
        if not any(self.heads.values()) or not all(math.isfinite(weight) for weight in self.heads.values()):
            raise ConfigError(f"heads must be names with weights, not all of them 0, got {self.heads}")
        check_least(self, {"members": 1})
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

    def _judged(self, policy: Policy, trajectories: Sequence[Trajectory], seed: int) -> tuple[Kept, list[_Judged], int]:
        """The trajectories in pairs, with all rows in tokens; the pairs of all heads; and how many were ties."""
        kept = usable(policy, trajectories, self.max_length)
        judged, used, ties = list[_Judged](), set[int](), 0
        require_heads(self.heads, kept.trajectories)
        for number, head in enumerate(self.heads):
            by_outcome = [replace(each, reward=outcome(each, head)) for each in kept.trajectories]
            found = preferences.build(
                by_outcome, match=self.match, level=self.level, max_pairs=self.max_pairs, seed=seed
            )
            if not found.pairs:
                raise _no_pair(head, kept, found, trajectories)
            for pair in found.pairs:
                better, worse = (
                    encode(each, policy.chat) for each in preferences.sides(kept.trajectories, pair, self.level)
                )
                judged.append(_Judged(better, worse, number))
                used |= {pair.chosen, pair.rejected}
            ties += found.ties
        if left := len(kept.trajectories) - len(used):
            kept.dropped["in no pair of a better and a worse one of their task"] += left
        rows = [_read_at_the_end(row) for each in judged for row in (each.better, each.worse)]
        return Kept([kept.trajectories[i] for i in sorted(used)], rows, kept.dropped), judged, ties

    def _member(
        self, policy: Policy, judged: list[_Judged], kept: Kept, seed: int, progress: Progress | None
    ) -> tuple[Member, TrainReport]:
        import torch

        began = time.monotonic()
        member = _untrained(policy, len(self.heads), seed)
        with (
            TemporaryDirectory(prefix="agentgym") as scratch,
            recomputed(member.policy),
        ):  # trl makes a folder at once, and saves nothing there
            with quiet():
                adapters = with_adapters(member.policy.model, self.lora_rank, seed)
                trainer = self._reward(member, judged, seed, Path(scratch))
            fit(trainer, member.policy, progress, keep=False)
        if adapters:
            member.policy.model = merged(adapters)
        with torch.no_grad():
            member.heads.bias -= torch.tensor(member.read(kept.samples).mean(0)).to(member.heads.bias)
        return member, report(trainer, kept, self.epochs, began)

    def _reward(self, member: Member, judged: list[_Judged], seed: int, output_dir: Path) -> Any:
        import datasets
        from trl import RewardConfig

        args = arguments(
            RewardConfig, self, member.policy, seed, output_dir,
            remove_unused_columns=False, train_sampling_strategy="group_by_length",
        )  # fmt: skip
        rows = [
            {
                "chosen_ids": each.better.input_ids, "rejected_ids": each.worse.input_ids, "head": each.head,
                "length": max(len(each.better.input_ids), len(each.worse.input_ids)),
            }
            for each in judged
        ]  # fmt: skip
        return _several_heads_trainer()(
            model=_module(member), args=args, processing_class=member.policy.tokenizer,
            train_dataset=datasets.Dataset.from_list(rows), data_collator=_collate,
        )  # fmt: skip


def require_heads(heads: Iterable[str], trajectories: Sequence[Trajectory]) -> None:
    """ConfigError for a head that is no outcome of these trajectories; one of no trajectories is not looked at."""
    known = {*OUTCOMES, *(part for each in trajectories for step in each.steps for part in step.reward_parts)}
    if trajectories and (wrong := next((head for head in heads if head not in known), None)):
        raise ConfigError(f"heads: no outcome {wrong!r}.{did_you_mean(wrong, known, 'These trajectories have')}")


def _no_pair(
    head: str, kept: Kept, found: preferences.Pairs, trajectories: Sequence[Trajectory]
) -> NothingToTrainOnError:
    error = nothing_left("reward_model", kept.dropped + found.dropped)
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


def _module(member: Member) -> Any:
    """The member as trl's RewardTrainer wants a model; it says H numbers where trl's says one."""
    import torch
    from transformers.modeling_outputs import SequenceClassifierOutput

    class Scorer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.heads = member.policy.model, member.heads
            self.config = copy.deepcopy(member.policy.model.config)
            self.config.num_labels = 1  # trl refuses others
            self.gradient_checkpointing_enable = self.backbone.gradient_checkpointing_enable

        def add_model_tags(self, tags: Any) -> None:
            """Nothing is uploaded."""

        def forward(self, input_ids: Tensor, attention_mask: Tensor, use_cache: bool = False) -> Any:
            return SequenceClassifierOutput(
                logits=at_last_token(self.backbone, self.heads, input_ids, attention_mask.sum(-1))
            )

    return Scorer()


def _collate(rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """A batch as trl's loss reads it, the better ones before the worse ones; and the head of each row."""
    import torch

    from agentgym_py.policy.logprobs import padded_ids

    ids = [row[f"{side}_ids"] for side in ("chosen", "rejected") for row in rows]
    return {**padded_ids(ids), "head": torch.tensor([row["head"] for row in rows] * 2)}


def _several_heads_trainer() -> Any:
    """The RewardTrainer in which a pair is learnt by one of several heads."""
    from trl import RewardTrainer

    class SeveralHeadsTrainer(dealt(RewardTrainer)):  # type: ignore[misc]  # trl is untyped here
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            said_RH = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
            better_P, worse_P = said_RH.gather(1, inputs["head"][:, None])[:, 0].chunk(2)
            margins_P = (better_P - worse_P).detach()
            self.tell({"accuracy": margins_P > 0, "margin": margins_P}, inputs["share"])
            return bradley_terry_loss(better_P, worse_P) * inputs["share"]

    return SeveralHeadsTrainer
