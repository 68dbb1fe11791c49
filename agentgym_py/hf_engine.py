"""An engine on a Hugging Face model that keeps every live episode's keys and values from turn to turn.

A prompt that continues what a slot holds is computed from there; a new one starts from the longest beginning that any
slot shares with it (rules text, a group of tries at one task). Rows of one forward are the first slots of the cache,
so that decoding reads it in place; when half of the rows have ended, the others are moved to the front.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from agentgym_py.decoding import draw
from agentgym_py.engine import Generation
from agentgym_py.errors import ConfigError
from agentgym_py.forward import forward_of
from agentgym_py.kvcache import CausalBand, DecodePlan, PrefillPlan, Segment, SlotCache
from agentgym_py.policy import Policy
from agentgym_py.sampling import SamplingParams
from agentgym_py.slots import Ids, SlotBook, common_prefix

_WORTH_WAITING = 32
"""A prompt waits for another that shares so many more tokens with it than any slot does."""


@dataclass(frozen=True, slots=True)
class _Job:
    """Tokens to compute before a row can be drawn from."""

    row: int
    slot: int
    start: int
    ids: Ids


@dataclass
class _Rows:
    """The rows of one decoding batch; row r stands in slot r."""

    calls: list[int]
    """Which prompt of the call each row answers."""
    logits: Tensor  # (B, V)
    uniforms: Tensor  # (B, max_new_tokens)
    positions: Tensor  # (B,) where the token drawn next will stand
    limits: list[int]
    """How long each reply may get."""
    ended: list[bool]
    replies: list[list[int]] = field(default_factory=list)
    logprobs: list[list[float]] = field(default_factory=list)


class HFEngine:
    """Batches all live episodes on one model. A prompt needs no handle: its slot is found by what it begins with."""

    def __init__(self, policy: Policy, slots: int = 64, *, prefill_tokens: int = 1024, seed: int = 0) -> None:
        if slots < 1 or prefill_tokens < 1:
            raise ConfigError(f"slots and prefill_tokens must be at least 1, got {slots!r} and {prefill_tokens!r}")
        self.slots, self.prefill_tokens = slots, prefill_tokens
        self.version = 0
        self.prefilled = 0
        """Prompt tokens computed so far; what a cache saved is not among them."""
        self._seeds = np.random.default_rng(seed)
        self.sync(policy, 0)

    def sync(self, policy: Policy, version: int) -> None:
        """Use these weights from now on and forget everything computed with the old ones."""
        self.policy, self.version = policy, version
        self._model: Any = policy.model
        self._forward = forward_of(policy.model)
        self._device = next(self._model.parameters()).device
        self._band = CausalBand(self._model.dtype, self._device)
        self._cache = SlotCache(self.slots)
        self._book = SlotBook(self.slots)

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """One reply a prompt, in order; without `seeds` they are drawn from the engine's own generator."""
        if seeds is None:
            seeds = [int(seed) for seed in self._seeds.integers(2**63, size=len(prompts))]
        if len(seeds) != len(prompts):
            raise ConfigError(f"{len(prompts)} prompts need as many seeds, got {len(seeds)}")
        arrays = [self._checked(prompt) for prompt in prompts]
        was_training = self._model.training
        self._model.eval()
        try:
            with torch.inference_mode():
                chunks = range(0, len(prompts), self.slots)
                return [
                    reply
                    for at in chunks
                    for reply in self._chunk(arrays[at : at + self.slots], params, seeds[at : at + self.slots])
                ]
        finally:
            self._model.train(was_training)

    def _checked(self, prompt: Sequence[int]) -> Ids:
        if not prompt:
            raise ConfigError("a prompt needs at least one token")
        if len(prompt) >= self.policy.max_length:
            raise ConfigError(
                f"a prompt of {len(prompt)} tokens leaves no room in {self.policy.name!r}'s {self.policy.max_length}"
            )
        return np.asarray(prompt, np.int64)

    def _chunk(self, prompts: Sequence[Ids], params: SamplingParams, seeds: Sequence[int]) -> list[Generation]:
        seats = self._book.claim(prompts)
        limits = [min(params.max_new_tokens, self.policy.max_length - len(prompt)) for prompt in prompts]
        self._cache.reserve(max(len(prompt) + limit for prompt, limit in zip(prompts, limits, strict=True)))
        logits = self._prefill(prompts, seats)
        uniforms = torch.from_numpy(np.stack([np.random.default_rng(s).random(params.max_new_tokens) for s in seeds]))
        calls = self._to_front(seats)
        rows = _Rows(
            calls=calls,
            logits=logits[calls],
            uniforms=uniforms[calls].to(self._device),
            positions=torch.tensor([len(prompts[call]) for call in calls], device=self._device),
            limits=limits,
            ended=[False] * len(calls),
            replies=[[] for _ in prompts],
            logprobs=[[] for _ in prompts],
        )
        self._decode(rows, prompts, params)
        return [self._generation(ids, logprobs) for ids, logprobs in zip(rows.replies, rows.logprobs, strict=True)]

    def _generation(self, ids: list[int], logprobs: list[float]) -> Generation:
        reason: Literal["stop", "length"] = "stop" if ids[-1] == self.policy.chat.end_of_turn else "length"
        return Generation(tuple(ids), tuple(logprobs), reason)

    # ---- prefill -------------------------------------------------------------------------------------------------

    def _prefill(self, prompts: Sequence[Ids], seats: Sequence[int]) -> Tensor:
        """Compute what the slots lack of the prompts; the logits after each prompt's last token, (B, V)."""
        logits: dict[int, Tensor] = {}
        pending = list(range(len(prompts)))
        while pending:
            wave = self._wave(prompts, seats, pending)
            for pack in _packs(wave, self.prefill_tokens):
                segments = [Segment(job.slot, job.start, len(job.ids)) for job in pack]
                after = self._forward_new(segments, np.concatenate([job.ids for job in pack]))
                logits.update(zip((job.row for job in pack), after, strict=True))
            for job in wave:
                self._book.held[job.slot] = prompts[job.row]
            computed = {job.row for job in wave}
            pending = [row for row in pending if row not in computed]
        return torch.stack([logits[row] for row in range(len(prompts))])

    def _wave(self, prompts: Sequence[Ids], seats: Sequence[int], pending: Sequence[int]) -> list[_Job]:
        """The pending rows that gain nothing by waiting for another, with their shared beginnings copied in place."""
        jobs: list[_Job] = []
        copies: list[tuple[int, int, int]] = []
        new: list[Ids] = []
        for row in pending:
            prompt, slot = prompts[row], seats[row]
            start = min(common_prefix(self._book.held[slot], prompt), len(prompt) - 1)
            if start < len(self._book.held[slot]) or start == 0:  # not a continued episode
                source = self._book.source(prompt)
                if any(common_prefix(other, prompt) >= source.length + _WORTH_WAITING for other in new):
                    continue
                new.append(prompt)
                if source.length > start:
                    copies.append((source.slot, slot, source.length))
                    start = source.length
            jobs.append(_Job(row, slot, start, prompt[start:]))
        if copies:
            sources, targets, lengths = zip(*copies, strict=True)
            self._cache.copy(sources, targets, max(lengths))
        return jobs

    def _forward_new(self, segments: Sequence[Segment], ids: Ids) -> Tensor:
        """Compute packed new tokens; the logits after each segment's last."""
        self.prefilled += len(ids)
        plan = PrefillPlan(segments, self._band, self._device)
        return self._forward(
            torch.from_numpy(ids).to(self._device), plan.positions_N, plan.ends_B, self._cache, plan
        )

    # ---- decode --------------------------------------------------------------------------------------------------

    def _decode(self, rows: _Rows, prompts: Sequence[Ids], params: SamplingParams) -> None:
        mask = self._decode_mask(rows)
        for step in range(params.max_new_tokens):
            drawn = draw(rows.logits, rows.uniforms[:, step], params)
            tokens = drawn.tokens
            self._record(rows, prompts, tokens.tolist(), drawn.logprobs.tolist())
            live = rows.ended.count(False)
            if not live:
                return
            if 2 * live <= len(rows.calls):
                tokens = self._compact(rows, tokens)
                mask = self._decode_mask(rows)
            plan = DecodePlan(rows.positions, self._seen(rows, prompts), mask)
            rows.logits = self._forward(tokens, rows.positions, plan.all_B, self._cache, plan)
            rows.positions = rows.positions + torch.tensor([not ended for ended in rows.ended], device=self._device)
            mask.scatter_(1, rows.positions[:, None], 0.0)

    def _record(self, rows: _Rows, prompts: Sequence[Ids], tokens: list[int], logprobs: list[float]) -> None:
        end = self.policy.chat.end_of_turn
        for r, (call, token, logprob) in enumerate(zip(rows.calls, tokens, logprobs, strict=True)):
            if rows.ended[r]:
                continue
            reply = rows.replies[call]
            reply.append(token)
            rows.logprobs[call].append(logprob)
            if token == end or len(reply) == rows.limits[call]:
                rows.ended[r] = True
                self._book.held[r] = np.concatenate([prompts[call], np.asarray(reply[:-1], np.int64)])

    def _compact(self, rows: _Rows, tokens: Tensor) -> Tensor:
        """Keep the rows that have not ended, in the first slots; returns their tokens."""
        kept = [r for r, ended in enumerate(rows.ended) if not ended]
        order = [kept[i] for i in self._to_front(kept)]
        rows.calls = [rows.calls[r] for r in order]
        rows.ended = [False] * len(order)
        rows.uniforms, rows.positions = rows.uniforms[order], rows.positions[order]
        return tokens[order]

    def _to_front(self, seats: Sequence[int]) -> list[int]:
        """Move these slots to 0 … n-1; returns for each of those which of `seats` it came from."""
        place = {slot: i for i, slot in enumerate(seats)}
        holes = [slot for slot in range(len(seats)) if slot not in place]
        outside = [slot for slot in seats if slot >= len(seats)]
        if holes:
            self._cache.swap(outside, holes, self._cache.capacity)
            self._book.swap(outside, holes)
        place.update({hole: place[slot] for slot, hole in zip(outside, holes, strict=True)})
        return [place[slot] for slot in range(len(seats))]

    def _decode_mask(self, rows: _Rows) -> Tensor:
        places = torch.arange(self._cache.capacity, device=self._device)
        hidden = places > rows.positions[:, None]
        return torch.zeros(hidden.shape, dtype=self._model.dtype, device=self._device).masked_fill_(hidden, -torch.inf)

    def _seen(self, rows: _Rows, prompts: Sequence[Ids]) -> int:
        longest = max(len(prompts[call]) + len(rows.replies[call]) for call in rows.calls)
        return min(self._cache.capacity, -(-longest // 16) * 16)


def _packs(jobs: Sequence[_Job], tokens: int) -> Iterator[list[_Job]]:
    """Jobs that are computed together, at most `tokens` of them; a long one is cut, its pieces in order."""
    pack: list[_Job] = []
    room = tokens
    for job in jobs:
        start, ids = job.start, job.ids
        while len(ids) > room:
            pack.append(_Job(job.row, job.slot, start, ids[:room]))
            start, ids = start + room, ids[room:]
            yield pack
            pack, room = [], tokens
        pack.append(_Job(job.row, job.slot, start, ids))
        room -= len(ids)
        if not room:
            yield pack
            pack, room = [], tokens
    if pack:
        yield pack
