"""Trajectories as tensors: one record each, and batches of them padded at the right end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from agentgym_py.errors import DataError
from agentgym_py.policy.tokens import IGNORED, encode
from agentgym_py.training.rl.guards import repeated
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy.chat_format import ChatFormat


@dataclass(slots=True)
class Record:
    """One trajectory in tokens: S of them, n the agent's."""

    input_ids: Tensor  # (S,)
    labels: Tensor  # (S,), IGNORED where the agent did not write
    turns_n: Tensor
    """The turn in which each agent token was written, from 0."""
    old_logps_n: Tensor
    """As sampled."""
    tail: Tensor | None = None
    """What a truncated episode showed after the last reply, from which a critic reads what was still to come."""
    bootstrap: float = 0.0
    """The critic's value there; 0 if the episode terminated."""
    advantages_n: Tensor | None = None
    ref_logps_n: Tensor | None = None
    """Log-probabilities under the reference model."""
    values_n: Tensor | None = None
    """The critic's value of the state before each token."""
    returns_n: Tensor | None = None
    """Targets of the critic."""
    valued_n: Tensor | None = None
    """1 at the tokens on which the critic is trained."""
    process_rewards_n: Tensor | None = None
    """Rewards of a process reward model, at the tokens where they are paid."""

    @property
    def n(self) -> int:
        """How many tokens the agent wrote."""
        return len(self.old_logps_n)

    @property
    def first_of_turn_n(self) -> Tensor:
        """Whether each agent token is the first of its turn."""
        return torch.cat([torch.tensor([True]), self.turns_n[1:] != self.turns_n[:-1]])

    @property
    def last_of_turn_n(self) -> Tensor:
        """Whether each agent token is the last of its turn."""
        return torch.cat([self.turns_n[1:] != self.turns_n[:-1], torch.tensor([True])])

    @property
    def turns(self) -> list[int]:
        """The turns that have agent tokens, in order."""
        return [int(turn) for turn in self.turns_n[self.first_of_turn_n]]

    def with_tail(self) -> Record:
        """The record and one more place: the state after the tail, where the next reply would begin."""
        if self.tail is None:
            return self
        unread = torch.full_like(self.tail, IGNORED)
        one = self.tail[-1:]  # whatever stands there is not read
        ids, labels = torch.cat([self.input_ids, self.tail, one]), torch.cat([self.labels, unread, one])
        return Record(ids, labels, self.turns_n, torch.cat([self.old_logps_n, torch.zeros(1)]))


class TokenBatch(NamedTuple):
    """B records, with their N agent tokens. A field that an algorithm does not fill is None."""

    input_ids: Tensor  # (B, S)
    labels: Tensor  # (B, S)
    row_N: Tensor
    """The record that each token is of, 0 to B - 1."""
    old_logps_N: Tensor
    weights_N: Tensor
    """Weight of each token in the loss of the optimizer step that the batch is a part of."""
    advantages_N: Tensor | None = None
    ref_logps_N: Tensor | None = None
    values_N: Tensor | None = None
    returns_N: Tensor | None = None
    valued_N: Tensor | None = None


def record_of(trajectory: Trajectory, chat: ChatFormat, *, tail: bool = False) -> Record | None:
    """The record of a trajectory; None where it has no token that a model sampled and may learn from.

    With `tail` what was shown after the last reply is kept beside it.

    Raises:
        DataError: a reply that is to be learnt from has no token record, so nobody knows how likely it was.
    """
    sample = encode(trajectory, chat)
    turns: list[int] = []
    logps: list[float] = []
    for turn, step in enumerate(trajectory.steps):
        if not step.trained:
            continue
        if step.tokens is None:
            raise DataError(f"{trajectory.id}: step {turn + 1} has no token record")
        sampled = [logp for logp, bit in zip(step.tokens.logprobs, step.tokens.mask, strict=True) if bit]
        logps += sampled
        turns += [turn] * len(sampled)
    if not turns:
        return None
    ids, labels = torch.tensor(sample.input_ids), torch.tensor(sample.labels)
    shown = None
    if tail:
        forced = [] if ids[-1] == chat.end_of_turn else [chat.end_of_turn]
        shown = torch.tensor(forced + chat.turn(trajectory.final_observation))
    return Record(ids, labels, torch.tensor(turns), torch.tensor(logps), shown)


def collate(records: Sequence[Record], weights: Sequence[Tensor], device: torch.device) -> TokenBatch:
    """Pad records to one batch; `weights` hold one number per agent token, record by record."""
    longest = max(len(record.input_ids) for record in records)
    ids = torch.zeros(len(records), longest, dtype=torch.long)
    labels = torch.full_like(ids, IGNORED)
    for b, record in enumerate(records):
        ids[b, : len(record.input_ids)] = record.input_ids
        labels[b, : len(record.labels)] = record.labels
    rows = torch.repeat_interleave(torch.arange(len(records)), torch.tensor([record.n for record in records]))
    added = {name: joined(records, name) for name in ("advantages", "ref_logps", "values", "returns", "valued")}
    old = torch.cat([record.old_logps_n for record in records])
    ids, labels, rows, old, counts = (x.to(device) for x in (ids, labels, rows, old, torch.cat(list(weights))))
    there = {f"{name}_N": values.to(device) for name, values in added.items() if values is not None}
    return TokenBatch(ids, labels, rows, old, counts, **there)


def joined(records: Sequence[Record], name: str) -> Tensor | None:
    """Concatenate one of the records' optional fields, by its name without the shape; None if a record lacks it."""
    values = [getattr(record, f"{name}_n") for record in records]
    return None if any(each is None for each in values) else torch.cat(values)


def mean_logs(steps: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of what was logged of several steps; the largest of what is a largest."""
    return {
        name: (max if name.endswith("_max") else fmean)([step[name] for step in steps])
        for name in (steps[0] if steps else ())
    }


def advantage_stats(records: Sequence[Record]) -> dict[str, float]:
    """What is logged of an iteration's estimates: its advantages, and how well a critic foresaw the returns.

    Where there is a critic, advantages are returns less values, as they were before anybody scaled them.
    """
    valued_n = joined(records, "valued")
    places = slice(None) if valued_n is None else valued_n > 0

    def double(name: str) -> Tensor | None:
        values_n = joined(records, name)
        return None if values_n is None else values_n[places].double()

    returns, values, advantages = double("returns"), double("values"), double("advantages")
    if returns is not None and values is not None:
        advantages = returns - values
    assert advantages is not None
    stats = {"advantage_mean": float(advantages.mean()), "advantage_std": float(advantages.std(correction=0))}
    if returns is not None and values is not None:
        spread = float(returns.var(correction=0))
        stats["explained_variance"] = 1 - stats["advantage_std"] ** 2 / spread if spread else 0.0
    return stats


def episode_stats(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """What an iteration logs of its episodes: success, return, steps, agent tokens a reply, what is said again."""
    sound = [each for each in trajectories if each.is_evidence]
    replies = [step.tokens for each in sound for step in each.steps if step.tokens and step.trained]
    if not replies:
        return {"episodes": float(len(trajectories))}
    return {
        "episodes": float(len(trajectories)), "success": fmean(each.success for each in sound),
        "return": fmean(each.reward for each in sound), "steps": fmean(len(each.steps) for each in sound),
        "truncated": fmean(not each.terminated for each in sound), "reply_tokens": fmean(len(t.ids) for t in replies),
        "repeated": repeated(sound),
    }  # fmt: skip
