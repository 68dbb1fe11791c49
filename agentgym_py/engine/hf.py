"""An engine on a Hugging Face model that keeps the keys and values of every live episode from turn to turn.

A prompt that continues a slot's content is computed from there. A new prompt starts from the longest prefix that any
slot shares with it (rules text, attempts at one task). The rows of a decoding batch are the first slots of the cache,
which is read in place. An ended reply frees its place for the next prompt, most often for its own env's answer. If no
prompt waits and half of the rows have ended, the other rows are compacted. If the memory for keys and values is
bounded, prompts wait until it has room for them, and idle slots are dropped, the least recently used first.
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
from agentgym_py.engine.kvcache import (
    CausalBand,
    DecodePlan,
    Move,
    PrefillPlan,
    Segment,
    SlotCache,
    count_tokens,
    grown,
    positions_read,
    round_up,
    sizes_of,
)
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


@dataclass(frozen=True, slots=True)
class _Seat:
    """A slot that is to become a row of a decoding batch."""

    slot: int
    length: int
    """Tokens that a decoding step reads."""
    held: int
    """Tokens in the cache."""
    need: int
    """Tokens when the reply has its longest length."""


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

    @property
    def need(self) -> int:
        """Number of tokens of the whole episode when this reply has its longest length."""
        return len(self.prompt) + self.limit


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
    `prefill_tokens` bounds the prompt tokens of one forward pass. `kv_cache_gib` bounds the memory of keys and values,
    in GiB; None is half of a GPU's free memory, and no bound on a CPU. Call `sync` after the weights change.
    """

    def __init__(
        self,
        policy: Policy,
        slots: int = 64,
        *,
        prefill_tokens: int = 1024,
        seed: int = 0,
        kv_cache_gib: float | None = None,
    ) -> None:
        if slots < 1 or prefill_tokens < 1:
            raise ConfigError(f"slots and prefill_tokens must be at least 1, got {slots!r} and {prefill_tokens!r}")
        if kv_cache_gib is not None and not 0 < kv_cache_gib < math.inf:
            raise ConfigError(f"kv_cache_gib must be above 0, got {kv_cache_gib!r}")
        self.slots, self.prefill_tokens, self.kv_cache_gib = slots, prefill_tokens, kv_cache_gib
        self.prefilled = 0
        """Number of prompt tokens computed so far; cached ones do not count."""
        self._seeds = np.random.default_rng(seed)
        self.sync(policy, 0)

    def __reduce__(self) -> tuple[Any, ...]:
        """Give another process the weights and an empty cache."""
        return _rebuild, (self.policy, self.version, self.slots, self.prefill_tokens, self._seeds, self.kv_cache_gib)

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
        self._most_tokens = most_tokens(policy.model, self.kv_cache_gib)

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

    def _has_room(self, needs: Sequence[int]) -> bool:
        """Whether replies of these lengths can be decoded at the same time, sorted by length."""
        return count_tokens(sizes_of(sorted(needs))) <= self._most_tokens

    def _to_front(self, seats: Sequence[_Seat]) -> list[int]:
        """Move these slots to 0 … n-1, sorted by length if that pays; return the old position in `seats` of each."""
        order, n = self._order(seats), len(seats)
        sources = [seats[i].slot for i in order]
        displaced = sorted(set(range(n)) - set(sources))
        vacated = sorted(set(sources) - set(range(n)))
        moved = [(s, t) for s, t in zip(sources + displaced, [*range(n), *vacated], strict=True) if s != t]
        held = [len(ids) for ids in self._book.contents]
        for seat in seats:
            held[seat.slot] = seat.held
        source_of = {target: source for source, target in moved}
        self._book.move(moved)
        self._arrange(
            [Move(source_of.get(slot, slot), slot, held[source_of.get(slot, slot)]) for slot in range(self.slots)],
            [seats[i].need for i in order],
        )
        return order

    def _order(self, seats: Sequence[_Seat]) -> list[int]:
        """Choose the order of rows: as they are, unless the cache would read or hold too much."""
        n = len(seats)
        at = {seat.slot: i for i, seat in enumerate(seats)}
        outside = [i for i, seat in enumerate(seats) if seat.slot >= n]
        order = [at[slot] if slot in at else outside.pop() for slot in range(n)]
        if count_tokens(sizes_of([seats[i].need for i in order])) > self._most_tokens:
            return sorted(range(n), key=lambda i: seats[i].need)
        by_length = sorted(range(n), key=lambda i: seats[i].length)
        read, sorted_read = (positions_read([seats[i].length for i in rows]) for rows in (order, by_length))
        fits = count_tokens(sizes_of([seats[i].need for i in by_length])) <= self._most_tokens
        return by_length if fits and read > _WORTH_SORTING * sorted_read else order

    def _arrange(self, moves: Sequence[Move], rows: Sequence[int]) -> None:
        """Give the first slots room for the tokens of `rows`, and each slot the prefix that `moves` names.

        Beyond the bound, rows keep only as much as they need, and the idle slots behind them are dropped, the least
        recently used first.
        """
        needs = [max(move.length, need) for move, need in zip(moves, [*rows, *[0] * len(moves)], strict=False)]
        if count_tokens(grown(self._cache.sizes, needs)) <= self._most_tokens:
            self._cache.reserve(needs)
            self._cache.copy(moves)
            return
        needs[: len(rows)] = rows
        for slot in self._book.by_use(range(len(rows), self.slots)):
            if count_tokens(sizes_of(needs)) <= self._most_tokens:
                break
            needs[slot] = 0
        self._book.shorten(needs)
        self._cache.rebuild(needs, [move._replace(length=min(move.length, needs[move.target])) for move in moves])


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
            ConfigError: it is empty, fills the policy's context, or exceeds the memory of the KV cache.
        """
        ids = self._engine._require_room(prompt)
        limit = min(self._params.max_new_tokens, self._engine.policy.max_length - len(ids))
        if not self._engine._has_room([len(ids) + limit]):
            raise ConfigError(
                f"a prompt of {len(ids)} tokens and a reply of {limit} do not fit the KV cache, which has memory for "
                f"{self._engine._most_tokens:.0f}: raise kv_cache_gib"
            )
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
        new = self._admitted([rows.replies[b] for b in live] if rows else [])
        if not new:
            return
        texts = [reply.text for reply in new]
        claimed = engine._book.claim(texts, live)
        replies = [rows.replies[b] for b in live] + new if rows else new
        seats = [_seat(b, reply) for b, reply in zip(live, replies, strict=False)]
        for slot, reply in zip(claimed, new, strict=True):
            seats.append(_Seat(slot, reply.length, len(engine._book.contents[slot]), reply.need))
        order = engine._to_front(seats)
        place_of = {i: slot for slot, i in enumerate(order)}
        logits = engine._prefill(texts, [place_of[len(live) + i] for i in range(len(new))])
        if rows:
            logits = torch.cat([rows.logits[live], logits])
        self._rows = self._make_rows([replies[i] for i in order], logits[order])

    def _admitted(self, live: Sequence[_Reply]) -> list[_Reply]:
        """Take the prompts from the queue that have a place, and for whose replies the cache has room."""
        new: list[_Reply] = []
        while self._waiting and len(live) + len(new) < self._engine.slots:
            if not self._engine._has_room([reply.need for reply in [*live, *new, self._waiting[0]]]):
                break
            new.append(self._waiting.popleft())
        return new

    def _make_rows(self, replies: list[_Reply], logits: Tensor) -> _Rows:
        model, device = self._engine._model, self._engine._device
        positions_B = torch.tensor([reply.length for reply in replies], device=device)
        drawn_B = torch.tensor([len(reply.ids) for reply in replies], device=device)
        longest = round_up(max(reply.need for reply in replies))
        hidden = torch.arange(longest, device=device) > positions_B[:, None]
        mask = torch.zeros(hidden.shape, dtype=model.dtype, device=device).masked_fill_(hidden, -torch.inf)
        uniforms = torch.from_numpy(np.stack([reply.uniforms for reply in replies])).float().to(device)
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
            if 2 * len(live) <= len(rows.replies) and engine._has_room([rows.replies[b].need for b in live]):
                order = [live[i] for i in engine._to_front([_seat(b, rows.replies[b]) for b in live])]
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


def _seat(row: int, reply: _Reply) -> _Seat:
    """The seat of a reply in progress."""
    return _Seat(row, reply.length, reply.length, reply.need)


def most_tokens(model: Any, gib: float | None) -> float:
    """Count the tokens whose keys and values fit a bound; without one, half of a GPU's free memory is the bound."""
    device = next(model.parameters()).device
    if gib is None and device.type != "cuda":
        return math.inf
    size = _free_memory(device) / 2 if gib is None else gib * 2**30
    return size // kv_bytes_per_token(model.config, model.dtype)


def _free_memory(device: torch.device) -> int:
    """Count a GPU's bytes that tensors can take, those that torch keeps for later included."""
    free: int = torch.cuda.mem_get_info(device)[0]
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def kv_bytes_per_token(config: Any, dtype: torch.dtype) -> int:
    """Bytes of one token's keys and values in all layers."""
    config = config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * size * dtype.itemsize)


def _rebuild(
    policy: Policy,
    version: int,
    slots: int,
    prefill_tokens: int,
    seeds: np.random.Generator,
    kv_cache_gib: float | None,
) -> HFEngine:
    engine = HFEngine(policy, slots, prefill_tokens=prefill_tokens, kv_cache_gib=kv_cache_gib)
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
