"""An engine on a Hugging Face model that keeps the keys and values of every live episode from turn to turn.

A prompt that continues a slot's content is computed from there. A new prompt starts from the longest prefix that any
slot shares with it (rules text, attempts at one task). The rows of a decoding batch are the first slots of the cache,
which is read in place. An ended reply frees its place for the next prompt, most often for its own env's answer. If no
prompt waits and half of the rows have ended, the other rows are compacted.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentgym_py.engine.base import Generation
from agentgym_py.engine.cache_slots import Ids, SlotBook, common_prefix
from agentgym_py.engine.decoding import draw
from agentgym_py.engine.forward import forward_of
from agentgym_py.engine.kvcache import CausalBand, DecodePlan, Move, PrefillPlan, Segment, SlotCache, positions_read
from agentgym_py.engine.sampling import SamplingParams, seeds_for
from agentgym_py.errors import ConfigError, NonFiniteError, PolicyError
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import weight_sums

_WORTH_WAITING = 32
"""A prompt waits for another one if they share at least this many more tokens than it shares with any slot."""
_WORTH_SORTING = 1.15
"""Rows are sorted by length if attention would otherwise read more by this factor."""
_SHARE = 8
"""New prompts join when one of this many replies in progress has ended, because a prefill costs a forward pass."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Job:
    """Prompt tokens to compute before a row can be sampled."""

    row: int
    slot: int
    start: int
    ids: Ids


@dataclass(eq=False)
class _Reply:
    """A reply in progress."""

    key: Hashable
    prompt: Ids
    limit: int
    uniforms: Floats
    """One random number per token."""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: bool = False

    @property
    def text(self) -> Ids:
        """The prompt and the reply so far."""
        return np.append(self.prompt, np.asarray(self.ids, np.int64))

    @property
    def length(self) -> int:
        """Number of tokens of the whole episode, including the last one of this reply."""
        return len(self.prompt) + len(self.ids)


@dataclass
class _Rows:
    """A decoding batch: row b stands in slot b."""

    replies: list[_Reply]
    logits: Tensor  # (B, V)
    uniforms: Tensor  # (B, max_new_tokens)
    drawn: Tensor  # (B,) tokens of each reply
    positions: Tensor  # (B,) where the token drawn next will stand
    mask: Tensor  # (B, capacity), additive

    @property
    def live(self) -> list[int]:
        """The rows whose replies have not ended."""
        return [b for b, reply in enumerate(self.replies) if not reply.ended]

    def choose(self, order: Sequence[int]) -> None:
        """Keep these rows, in this order; their logits have already been sampled."""
        self.replies = [self.replies[b] for b in order]
        self.uniforms, self.drawn = self.uniforms[order], self.drawn[order]
        self.positions, self.mask = self.positions[order], self.mask[order]


class HFEngine:
    """Batch all live episodes on one model.

    The slot of a prompt is found by its prefix. `slots` episodes are cached; further prompts wait for a place.
    `prefill_tokens` bounds the prompt tokens of one forward pass. Call `sync` after the weights change.
    """

    def __init__(self, policy: Policy, slots: int = 64, *, prefill_tokens: int = 1024, seed: int = 0) -> None:
        if slots < 1 or prefill_tokens < 1:
            raise ConfigError(f"slots and prefill_tokens must be at least 1, got {slots!r} and {prefill_tokens!r}")
        self.slots, self.prefill_tokens = slots, prefill_tokens
        self.prefilled = 0
        """Number of prompt tokens computed so far; cached ones do not count."""
        self._seeds = np.random.default_rng(seed)
        self.sync(policy, 0)

    def __reduce__(self) -> tuple[Any, ...]:
        """Give another process the weights and an empty cache."""
        return _rebuild, (self.policy, self.version, self.slots, self.prefill_tokens, self._seeds)

    def sync(self, policy: Policy, version: int) -> None:
        """Use these weights from now on, and drop everything computed with the old ones."""
        self.policy, self.version = policy, version
        self._model: Any = policy.model
        self._forward = forward_of(policy.model)
        self._weights = weight_sums(policy.model.parameters())
        self._digest: str | None = None
        self._ends = policy.ends
        self._device = next(self._model.parameters()).device
        self._band = CausalBand(self._model.dtype, self._device)
        self._owner: weakref.ref[HFBatch] | None = None  # weak: a cycle would keep the weights until a collection
        self.release()

    def release(self) -> None:
        """Drop the cached keys and values, so that a training has their memory."""
        self._cache, self._book, self._owner = SlotCache(self.slots), SlotBook(self.slots), None

    @property
    def digest(self) -> str:
        """SHA-256 of the weights in use, as `Policy.digest`."""
        if self._digest is None:
            self._require_synced()
            self._digest = self.policy.digest()
        return self._digest

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """Return one reply per prompt, in order; without `seeds` they come from the engine's own generator."""
        batch = self.batch(params)
        for i, (prompt, seed) in enumerate(zip(prompts, seeds_for(prompts, seeds, self._seeds), strict=True)):
            batch.add(i, prompt, seed)
        replies: dict[Hashable, Generation] = {}
        while len(replies) < len(prompts):
            replies.update(batch.take_ended())
        return [replies[i] for i in range(len(prompts))]

    def batch(self, params: SamplingParams) -> HFBatch:
        """Return a batch that prompts can join at any time and leave when answered."""
        return HFBatch(self, params)

    def _require_synced(self) -> None:
        if self.policy.model is not self._model or weight_sums(self._model.parameters()) != self._weights:
            raise PolicyError("the policy's weights changed since the engine's last sync: call sync(policy, version)")

    def _require_room(self, prompt: Sequence[int]) -> Ids:
        if not len(prompt):
            raise ConfigError("a prompt needs at least one token")
        if len(prompt) >= self.policy.max_length:
            raise ConfigError(
                f"a prompt of {len(prompt)} tokens leaves no room in {self.policy.name!r}'s {self.policy.max_length}"
            )
        return np.asarray(prompt, np.int64)

    @contextmanager
    def _inference_mode(self) -> Iterator[None]:
        """Run the model in inference mode; drop the cache after an error, because it may be half written."""
        was_training = self._model.training
        self._model.eval()
        try:
            with torch.inference_mode():
                yield
        except BaseException:
            self._book = SlotBook(self.slots)
            raise
        finally:
            self._model.train(was_training)

    # ---- prefill -----------------------------------------------------------------------------------------------------

    def _prefill(self, prompts: Sequence[Ids], seats: Sequence[int]) -> Tensor:
        """Compute the prompt tokens that the slots lack; return the logits after each prompt's last token, (B, V)."""
        logits: dict[int, Tensor] = {}
        pending = list(range(len(prompts)))
        while pending:
            wave = self._wave(prompts, seats, pending)
            for pack in _packs(wave, self.prefill_tokens):
                logits.update(zip((job.row for job in pack), self._compute(pack), strict=True))
            for job in wave:
                self._book.contents[job.slot] = prompts[job.row]
            computed = {job.row for job in wave}
            pending = [row for row in pending if row not in computed]
        return torch.stack([logits[row] for row in range(len(prompts))])

    def _wave(self, prompts: Sequence[Ids], seats: Sequence[int], pending: Sequence[int]) -> list[_Job]:
        """Return jobs for the pending rows that need not wait for another, and copy their shared prefixes."""
        jobs: list[_Job] = []
        copies: list[Move] = []
        new: list[Ids] = []
        for row in pending:
            prompt, slot = prompts[row], seats[row]
            start = min(common_prefix(self._book.contents[slot], prompt), len(prompt) - 1)
            if start < len(self._book.contents[slot]) or not start:  # not the next turn of an episode
                source = self._book.source(prompt)
                if any(common_prefix(other, prompt) >= source.length + _WORTH_WAITING for other in new):
                    continue
                new.append(prompt)
                if source.length > start:
                    copies.append(Move(source.slot, slot, source.length))
                    start = source.length
            jobs.append(_Job(row, slot, start, prompt[start:]))
        self._cache.copy(copies)
        return jobs

    def _compute(self, pack: Sequence[_Job]) -> Tensor:
        """Compute packed new tokens; return the logits after each job's last token, (jobs, V)."""
        ids_N = torch.from_numpy(np.concatenate([job.ids for job in pack])).to(self._device)
        self.prefilled += len(ids_N)
        segments = [Segment(job.slot, job.start, len(job.ids)) for job in pack]
        plan = PrefillPlan(segments, self._band, self._device)
        return self._forward(ids_N, plan.positions_N, plan.ends_B, self._cache, plan)

    # ---- places ------------------------------------------------------------------------------------------------------

    def _to_front(self, seats: Sequence[int], lengths: Sequence[int]) -> list[int]:
        """Move these slots to 0 … n-1, sorted by length if that pays; return the old position in `seats` of each."""
        n = len(seats)
        at = {slot: i for i, slot in enumerate(seats)}
        outside = [i for i, slot in enumerate(seats) if slot >= n]
        order = [at[slot] if slot in at else outside.pop() for slot in range(n)]
        by_length = sorted(range(n), key=lengths.__getitem__)
        if positions_read([lengths[i] for i in order]) > _WORTH_SORTING * positions_read(
            [lengths[i] for i in by_length]
        ):
            order = by_length
        sources = [seats[i] for i in order]
        displaced = sorted(set(range(n)) - set(sources))
        vacated = sorted(set(sources) - set(range(n)))
        moves = [(s, t) for s, t in zip(sources + displaced, [*range(n), *vacated], strict=True) if s != t]
        if moves:
            used = {slot: len(ids) for slot, ids in enumerate(self._book.contents)} | dict(
                zip(seats, lengths, strict=True)
            )
            self._cache.copy([Move(source, target, used[source]) for source, target in moves])
            self._book.move(moves)
        return order


class HFBatch:
    """Replies in progress; each is returned as soon as it ends, and its place goes to the next prompt.

    A sync or an interrupt of the engine drops its content. An engine answers one batch at a time: two batches in turn
    recompute what the other one overwrote.
    """

    def __init__(self, engine: HFEngine, params: SamplingParams) -> None:
        self._engine, self._params = engine, params
        self._waiting: deque[_Reply] = deque()
        self._rows: _Rows | None = None
        self._book = engine._book

    def add(self, key: Hashable, prompt: Sequence[int], seed: int) -> None:
        """Add a prompt to be answered.

        Raises:
            ConfigError: it is empty, or fills the policy's context.
        """
        ids = self._engine._require_room(prompt)
        limit = min(self._params.max_new_tokens, self._engine.policy.max_length - len(ids))
        draws = np.random.default_rng(seed).random(self._params.max_new_tokens)
        self._waiting.append(_Reply(key, ids, limit, draws))

    def take_ended(self) -> list[tuple[Hashable, Generation]]:
        """Return ended replies by key, as soon as an eighth of those in progress has ended.

        Raises:
            PolicyError: the policy's weights are not those of the last sync, or there was a sync during a reply.
            NonFiniteError: the policy's logits are not finite.
        """
        engine = self._engine
        if self._rows is None:
            engine._require_synced()
            self._book = engine._book
        elif engine._book is not self._book:
            raise PolicyError("the engine was synced or interrupted while replies were in progress")
        with engine._inference_mode():
            if engine._owner is None or engine._owner() is not self:
                self._requeue_live()
                engine._owner = weakref.ref(self)
            self._fill_places()
            return [(reply.key, self._generation(reply)) for reply in self._decode()]

    def _generation(self, reply: _Reply) -> Generation:
        stopped = reply.ids[-1] in self._engine._ends
        return Generation(tuple(reply.ids), tuple(reply.logprobs), "stop" if stopped else "length")

    def _requeue_live(self) -> None:
        """Requeue replies in progress whose slots another batch has used."""
        if self._rows:
            self._waiting.extendleft(reversed([self._rows.replies[b] for b in self._rows.live]))
            self._rows = None

    def _fill_places(self) -> None:
        """Give free places to waiting prompts, and compute the tokens that their slots lack."""
        engine, rows = self._engine, self._rows
        live = rows.live if rows else []
        new = [self._waiting.popleft() for _ in range(min(len(self._waiting), engine.slots - len(live)))]
        if not new:
            return
        engine._cache.reserve(max(len(reply.prompt) + reply.limit for reply in new))
        texts = [reply.text for reply in new]
        seats = engine._book.claim(texts, live)
        logits = engine._prefill(texts, seats)
        replies = [rows.replies[b] for b in live] + new if rows else new
        if rows:
            logits = torch.cat([rows.logits[live], logits])
        order = engine._to_front([*live, *seats], [reply.length for reply in replies])
        self._rows = self._make_rows([replies[i] for i in order], logits[order])

    def _make_rows(self, replies: list[_Reply], logits: Tensor) -> _Rows:
        model, device = self._engine._model, self._engine._device
        positions_B = torch.tensor([reply.length for reply in replies], device=device)
        drawn_B = torch.tensor([len(reply.ids) for reply in replies], device=device)
        hidden = torch.arange(self._engine._cache.capacity, device=device) > positions_B[:, None]
        mask = torch.zeros(hidden.shape, dtype=model.dtype, device=device).masked_fill_(hidden, -torch.inf)
        uniforms = torch.from_numpy(np.stack([reply.uniforms for reply in replies])).to(device)
        return _Rows(replies, logits, uniforms, drawn_B, positions_B, mask)

    def _decode(self) -> list[_Reply]:
        """Sample tokens until enough replies have ended; return those."""
        engine, rows, ended = self._engine, self._rows, list[_Reply]()
        if rows is None:
            return ended
        enough = math.ceil(len(rows.live) / _SHARE)
        while len(ended) < enough:
            uniforms_B = rows.uniforms.gather(1, rows.drawn[:, None])[:, 0]
            tokens_B, logprobs_B = draw(rows.logits, uniforms_B, self._params)
            logprobs = logprobs_B.tolist()
            if not all(map(math.isfinite, logprobs)):
                raise NonFiniteError(f"the model {engine.policy.name!r} gives nan or infinity: its weights are damaged")
            ended += self._record(rows.replies, tokens_B.tolist(), logprobs)
            live = rows.live
            if not live:
                self._rows = None
                break
            if 2 * len(live) <= len(rows.replies):
                order = [live[i] for i in engine._to_front(live, [rows.replies[b].length for b in live])]
                rows.choose(order)
                tokens_B = tokens_B[order]
            plan = DecodePlan(rows.positions, [reply.length for reply in rows.replies], rows.mask)
            rows.logits = engine._forward(tokens_B, rows.positions, plan.all_B, engine._cache, plan)
            # an ended row recomputes its last token until its place is taken
            advance = torch.tensor([not reply.ended for reply in rows.replies], device=engine._device)
            rows.positions, rows.drawn = rows.positions + advance, rows.drawn + advance
            rows.mask.scatter_(1, rows.positions[:, None], 0.0)
        return ended

    def _record(self, replies: Sequence[_Reply], tokens: Sequence[int], logprobs: Sequence[float]) -> list[_Reply]:
        """Add a token to each reply; return the replies that it ended."""
        ends, ended = self._engine._ends, list[_Reply]()
        for slot, (reply, token, logprob) in enumerate(zip(replies, tokens, logprobs, strict=True)):
            if reply.ended:
                continue
            reply.ids.append(token)
            reply.logprobs.append(logprob)
            if token in ends or len(reply.ids) == reply.limit:
                reply.ended = True
                ended.append(reply)
                self._engine._book.contents[slot] = reply.text[:-1]  # the last token was never computed
        return ended


def _rebuild(policy: Policy, version: int, slots: int, prefill_tokens: int, seeds: np.random.Generator) -> HFEngine:
    engine = HFEngine(policy, slots, prefill_tokens=prefill_tokens)
    engine.version, engine._seeds = version, seeds
    return engine


def _packs(jobs: Sequence[_Job], tokens: int) -> Iterator[list[_Job]]:
    """Group jobs of at most `tokens` tokens; a long job is cut into pieces, in order."""
    pack: list[_Job] = []
    room = tokens
    for job in jobs:
        start, ids = job.start, job.ids
        while len(ids):
            pack.append(_Job(job.row, job.slot, start, ids[:room]))
            start, ids, room = start + len(pack[-1].ids), ids[room:], room - len(pack[-1].ids)
            if not room:
                yield pack
                pack, room = [], tokens
    if pack:
        yield pack
