"""The data of offline trainers: trajectories in tokens, alone or in pairs, and why others are left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from agentgym_py.errors import NothingToTrainOnError
from agentgym_py.policy.tokens import (
    RowSize,
    Sample,
    TokenSequences,
    encode,
    from_other_tokenizer,
    mask_cut_replies,
    why_nothing_to_learn,
)
from agentgym_py.policy.vocabulary import embedding_rows
from agentgym_py.rng import seed_of, stable_order
from agentgym_py.training.settings import OfflineSettings, PairData
from agentgym_py.trajectory import Trajectory, preferences

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

OTHER_TOKENIZER = "in another tokenizer's tokens (agentgym data convert FILE OUT.json keeps the text alone)"
"""Reason to leave out a trajectory that another tokenizer wrote."""
_MEGABATCH_STEPS = 50
"""Optimizer steps whose rows are sorted by length together."""


class TrainingData(NamedTuple):
    """Trajectories in tokens, and why others are left out."""

    trajectories: list[Trajectory]
    samples: list[Sample]
    """One per trajectory; `prepare_pairs` gives two per pair, the better one first."""
    dropped: Counter[str]
    """Number of trajectories left out, by reason."""
    masked: float | None = None
    """Share of the agent tokens that are left out of the loss because their reply was cut; None if that is off."""

    @property
    def metrics(self) -> dict[str, float]:
        """What a report says of the data."""
        return {} if self.masked is None else {"masked": self.masked}


@dataclass(frozen=True, slots=True)
class Pair:
    """A better and a worse trajectory of one task, in tokens."""

    chosen: Sample
    rejected: Sample
    ref_chosen: float = 0.0
    """Log-probability of the better one's agent tokens under the reference, summed."""
    ref_rejected: float = 0.0


def pair_size(pair: Pair) -> RowSize:
    """Return the size of the two samples of a pair."""
    return RowSize.of(pair.chosen, pair.rejected)


def prepare(
    policy: Policy, trajectories: Sequence[Trajectory], max_length: int, threshold: float = -math.inf, *,
    mask_cut: bool = False,
) -> TrainingData:  # fmt: skip
    """Encode the trajectories that can be trained on; `mask_cut` leaves replies that were cut out of the loss.

    Left out are those that ended with an infrastructure error, that another tokenizer wrote, with a return below
    `threshold`, without a reply to learn, and longer than `max_length` or the policy's context.
    """
    data, longest = TrainingData([], [], Counter()), min(max_length, policy.max_length)
    rows, sampled = embedding_rows(policy.model), 0
    for complete in trajectories:
        trajectory = mask_cut_replies(complete) if mask_cut else complete
        sample = encode(trajectory, policy.chat)
        if not trajectory.is_evidence:
            data.dropped["ended by an infrastructure error"] += 1
        elif from_other_tokenizer(trajectory, policy.chat, rows):
            data.dropped[OTHER_TOKENIZER] += 1
        elif trajectory.reward < threshold:
            data.dropped[f"below the trainer's threshold {threshold:g}"] += 1
        elif not any(sample.mask):
            data.dropped[why_nothing_to_learn(trajectory)] += 1
        elif sample.longest > longest:
            data.dropped[f"longer than {longest} tokens"] += 1
        else:
            data.trajectories.append(trajectory)
            data.samples.append(sample)
            sampled += sum(encode(complete, policy.chat).mask) if mask_cut else 0
    trained = sum(sum(sample.mask) for sample in data.samples)
    return data._replace(masked=1 - trained / sampled if sampled else 0.0) if mask_cut else data


def prepare_pairs(
    policy: Policy, trajectories: Sequence[Trajectory], settings: PairData, seed: int
) -> tuple[TrainingData, int]:
    """Encode the preference pairs of the trajectories; also returns the number of ties."""
    data = prepare(policy, trajectories, settings.max_length, mask_cut=settings.mask_truncated_completions)
    built = preferences.build_pairs(
        data.trajectories, match=settings.match, level=settings.level, max_pairs=settings.max_pairs, seed=seed
    )
    samples, used, in_pairs = list[Sample](), set[int](), {i for pair in built.pairs for i in pair[:2]}
    for pair in built.pairs:
        sides = [encode(side, policy.chat) for side in preferences.pair_sides(data.trajectories, pair, settings.level)]
        if all(any(side.mask) for side in sides):
            samples += sides
            used |= {pair.chosen, pair.rejected}
    dropped = data.dropped + built.dropped
    dropped += Counter({"without a reply to learn after the fork": len(in_pairs - used)})  # + drops zero counts
    return TrainingData([data.trajectories[i] for i in sorted(used)], samples, dropped, data.masked), built.ties


def no_data_error(trainer: str, dropped: Counter[str]) -> NothingToTrainOnError:
    """Make the error of a trainer that left out every trajectory."""
    reasons = ", ".join(f"{number} {reason}" for reason, number in dropped.items())
    message = f"{trainer}: nothing left of {dropped.total()} trajectories"
    return NothingToTrainOnError(f"{message}: {reasons}" if reasons else message)


def row_key(row: Any) -> tuple[int, ...]:
    """Return what stays of a row of training data if its weight or its place changes: hashes of its token ids."""
    if isinstance(row, TokenSequences):
        return (seed_of(*map(int, row.input_ids)),)
    parts = (getattr(row, field.name) for field in fields(row)) if is_dataclass(row) else row
    if is_dataclass(row) or isinstance(row, (list, tuple)):
        return tuple(key for part in parts for key in row_key(part))
    return ()


def length_grouped(
    lengths: Sequence[int], keys: Sequence[Hashable], settings: OfflineSettings, seed: int
) -> list[list[int]]:
    """Draw the positions of each optimizer step's rows, rows of similar length together.

    Each epoch is a new permutation, cut into megabatches of up to 50 steps, within which rows are sorted by length, the
    longest first (as transformers' `LengthGroupedSampler`). The order of rows depends on their `keys`: see
    `stable_order`.
    """
    size, epochs = settings.step_size, count()
    megabatch = size * max(min(len(lengths) // (4 * size), _MEGABATCH_STEPS), 1)

    def epoch() -> Iterator[list[int]]:
        order = stable_order(keys, seed, "order of the training", next(epochs))
        for at in range(0, len(order), megabatch):
            order[at : at + megabatch] = sorted(order[at : at + megabatch], key=lambda i: -lengths[i])
        yield from (order[at : at + size] for at in range(0, len(order), size))

    return repeat_epochs(epoch, len(lengths), settings)


def sequential_batches(rows: int, settings: OfflineSettings) -> list[list[int]]:
    """Return the positions of each optimizer step's rows, in the same order in every epoch."""
    size = settings.step_size
    return repeat_epochs(lambda: (list(range(at, min(at + size, rows))) for at in range(0, rows, size)), rows, settings)


def repeat_epochs(epoch: Callable[[], Iterator[list[int]]], rows: int, settings: OfflineSettings) -> list[list[int]]:
    """Repeat `epoch` for the settings' number of epochs; a fraction of one ends early, at a whole step."""
    total, steps = math.ceil(settings.epochs * math.ceil(rows / settings.step_size)), list[list[int]]()
    while len(steps) < total:
        steps += epoch()
    return steps[:total]
