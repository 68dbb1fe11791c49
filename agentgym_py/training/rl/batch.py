"""Trajectories as tensors: a record per trajectory, and batches of records padded at their right end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from agentgym_py.errors import DataError
from agentgym_py.policy.tokens import IGNORED, TokenSequences, encode, mask_cut_replies
from agentgym_py.training.rl.guards import repetition_rate
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy.chat_format import ChatFormat


@dataclass(slots=True)
class Record(TokenSequences):
    """One trajectory in S tokens, of which the agent wrote n: one sequence, or several if it outgrew the context."""

    input_ids: Tensor  # (S,), the sequences one after another
    labels: Tensor  # (S,), IGNORED at other tokens than the agent's
    turns_n: Tensor
    """The turn of each agent token, from 0."""
    old_logps_n: Tensor
    """Log-probabilities as sampled, or read again by the trainer; see `Learner.annotate`."""
    tail: Tensor | None = None
    """Tokens of the observation after the last reply of a truncated episode, for the critic's bootstrap value."""
    bootstrap: float = 0.0
    """The critic's value after the tail, or before the last token if the tail does not fit; 0 without a tail."""
    sampler_logps_n: Tensor | None = None
    """As sampled, if the trainer has read `old_logps_n` again."""
    importance_n: Tensor | None = None
    """Weight of each token that corrects for the difference; None without a correction."""
    advantages_n: Tensor | None = None
    ref_logps_n: Tensor | None = None
    """Log-probabilities under the reference model."""
    values_n: Tensor | None = None
    """The critic's value of the state before each token."""
    returns_n: Tensor | None = None
    """Targets of the critic."""
    valued_n: Tensor | None = None
    """1 at the tokens at which the critic is trained."""
    starts: tuple[int, ...] = (0,)
    """Where each sequence begins."""
    process_rewards_n: Tensor | None = None
    """Rewards by a process reward model, at the tokens where they are paid."""

    @property
    def n(self) -> int:
        """Number of agent tokens."""
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
        """Return the record with its tail and one more agent token, whose value is that of the state after the tail."""
        if self.tail is None:
            return self
        ignored = torch.full_like(self.tail, IGNORED)
        extra = self.tail[-1:]  # any token: it is predicted, not read
        ids, labels = torch.cat([self.input_ids, self.tail, extra]), torch.cat([self.labels, ignored, extra])
        return Record(ids, labels, self.turns_n, torch.cat([self.old_logps_n, torch.zeros(1)]), starts=self.starts)


class TokenBatch(NamedTuple):
    """B records in R sequences, with their N agent tokens. A field that an algorithm does not fill is None."""

    input_ids: Tensor  # (R, S)
    labels: Tensor  # (R, S)
    row_N: Tensor
    """Record of each token, 0 to B - 1."""
    old_logps_N: Tensor
    weights_N: Tensor
    """Weight of each token in the loss of the optimizer step."""
    importance_N: Tensor | None = None
    advantages_N: Tensor | None = None
    ref_logps_N: Tensor | None = None
    values_N: Tensor | None = None
    returns_N: Tensor | None = None
    valued_N: Tensor | None = None


def encode_record(
    trajectory: Trajectory, chat: ChatFormat, *, tail: bool = False, mask_cut: bool = False
) -> Record | None:
    """Encode a trajectory; None if it has no sampled token to learn from.

    `tail` keeps the last observation. `mask_cut` leaves replies that were cut at the maximum length out of the loss.

    Raises:
        DataError: a reply to learn from has no token record, and so no log-probabilities.
    """
    trajectory = mask_cut_replies(trajectory) if mask_cut else trajectory
    sample = encode(trajectory, chat)
    turns: list[int] = []
    logps: list[float] = []
    for turn, step in enumerate(trajectory.steps):
        if not step.trained:
            continue
        if step.tokens is None:
            raise DataError(f"{trajectory.id}: step {turn + 1} has no token record")
        for record in step.token_records:
            sampled = [logp for logp, bit in zip(record.logprobs, record.mask, strict=True) if bit]
            logps += sampled
            turns += [turn] * len(sampled)
    if not turns:
        return None
    ids, labels = torch.tensor(sample.input_ids), torch.tensor(sample.labels)
    tail_ids = None
    if tail:
        forced = [] if ids[-1] == chat.end_of_turn else [chat.end_of_turn]
        tail_ids = torch.tensor(forced + chat.turn(trajectory.final_observation))
    return Record(ids, labels, torch.tensor(turns), torch.tensor(logps), tail_ids, starts=sample.starts)


def rewards_by_turn(record: Record, rewards_T: Sequence[float]) -> list[float]:
    """Return the reward of each of `record.turns`: its own, and those of the turns without agent tokens after it.

    A reply without agent tokens is part of what happens after the last one that has some. What is paid before the first
    one with some is no consequence of an agent token, and is left out.
    """
    ends = [*record.turns[1:], len(rewards_T)]
    return [sum(rewards_T[turn:end]) for turn, end in zip(record.turns, ends, strict=True)]


def collate(records: Sequence[Record], weights: Sequence[Tensor], device: torch.device) -> TokenBatch:
    """Pad records to one batch; `weights` holds one number per agent token, record by record."""
    sequences = [(record, place) for record in records for place in record.sequences]
    ids = torch.zeros(len(sequences), max(record.longest for record in records), dtype=torch.long)
    labels = torch.full_like(ids, IGNORED)
    for r, (record, place) in enumerate(sequences):
        ids[r, : place.stop - place.start] = record.input_ids[place]
        labels[r, : place.stop - place.start] = record.labels[place]
    rows = torch.repeat_interleave(torch.arange(len(records)), torch.tensor([record.n for record in records]))
    names = ("importance", "advantages", "ref_logps", "values", "returns", "valued")
    fields = {name: concat_field(records, name) for name in names}
    old = torch.cat([record.old_logps_n for record in records])
    ids, labels, rows, old, weights_N = (x.to(device) for x in (ids, labels, rows, old, torch.cat(list(weights))))
    optional = {f"{name}_N": values.to(device) for name, values in fields.items() if values is not None}
    return TokenBatch(ids, labels, rows, old, weights_N, **optional)


def concat_field(records: Sequence[Record], name: str) -> Tensor | None:
    """Concatenate a field of the records, by its name without the shape; None if a record lacks it."""
    values = [getattr(record, f"{name}_n") for record in records]
    return None if any(x_n is None for x_n in values) else torch.cat(values)


def even_parts(records: Sequence[Record], size: int) -> list[list[Record]]:
    """Cut records, in order, into as few parts of at most `size` as possible, whose sizes differ by at most 1."""
    number = -(-len(records) // size)
    ends = [len(records) * part // number for part in range(number + 1)] if number else []
    return [list(records[start:end]) for start, end in pairwise(ends)]


def sampling_stats(records: Sequence[Record]) -> dict[str, float]:
    """Compare the trainer's log-probabilities with the sampler's, by trl's names; empty if they are the same."""
    old_N, sampler_N = concat_field(records, "old_logps"), concat_field(records, "sampler_logps")
    if old_N is None or sampler_N is None:
        return {}
    difference_N = (old_N - sampler_N).abs()
    stats = {
        "sampling_logp_difference/mean": float(difference_N.mean()),
        "sampling_logp_difference/max": float(difference_N.max()),
    }
    if (importance_N := concat_field(records, "importance")) is not None:
        stats |= {
            "importance_sampling_ratio/min": float(importance_N.min()),
            "importance_sampling_ratio/mean": float(importance_N.mean()),
            "importance_sampling_ratio/max": float(importance_N.max()),
        }
    return stats


def mean_logs(steps: Sequence[dict[str, float]]) -> dict[str, float]:
    """Average the logs of several steps; of names that end in `_max` take the maximum."""
    return {
        name: (max if name.endswith("_max") else fmean)([step[name] for step in steps])
        for name in (steps[0] if steps else ())
    }


def advantage_stats(records: Sequence[Record]) -> dict[str, float]:
    """Summarize an iteration's advantages, and with a critic how much of the returns' variance it explains.

    With a critic, advantages are returns less values, before any scaling.
    """
    valued_n = concat_field(records, "valued")
    selected = slice(None) if valued_n is None else valued_n > 0

    def double(name: str) -> Tensor | None:
        values_n = concat_field(records, name)
        return None if values_n is None else values_n[selected].cpu().double()

    returns, values, advantages = double("returns"), double("values"), double("advantages")
    if returns is not None and values is not None:
        advantages = returns - values
    assert advantages is not None
    stats = {"advantage_mean": float(advantages.mean()), "advantage_std": float(advantages.std(correction=0))}
    if returns is not None and values is not None:
        variance = float(returns.var(correction=0))
        stats["explained_variance"] = 1 - stats["advantage_std"] ** 2 / variance if variance else 0.0
    return stats


def episode_stats(trajectories: Sequence[Trajectory], mask_cut: bool = False) -> dict[str, float]:
    """Summarize an iteration's episodes; those that ended with an infrastructure error count only in `episodes`.

    `mask_cut` says whether replies that were cut are left out of the loss.
    """
    evidence = [trajectory for trajectory in trajectories if trajectory.is_evidence]
    replies = [step.tokens for t in evidence for step in t.steps if step.tokens and step.trained]
    records = [record for t in evidence for step in t.steps if step.trained for record in step.token_records]
    if not replies:
        return {"episodes": float(len(trajectories))}
    return {
        "episodes": float(len(trajectories)), "success": fmean(t.success for t in evidence),
        "return": fmean(t.reward for t in evidence), "steps": fmean(len(t.steps) for t in evidence),
        "truncated": fmean(t.truncated for t in evidence), "given_up": fmean(t.given_up for t in evidence),
        "reply_tokens": fmean(len(reply.ids) for reply in replies), "repeated": repetition_rate(evidence),
        "cut": fmean(reply.cut for reply in replies), "turns_dropped": fmean(t.turns_dropped for t in evidence),
        "summary_tokens": fmean(t.summary_tokens for t in evidence),
        "masked": mask_cut * sum(len(r.ids) for r in records if r.cut) / sum(len(r.ids) for r in records),
    }  # fmt: skip
