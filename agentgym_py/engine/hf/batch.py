"""Decode many replies at a time.

An ended reply frees its place for the next prompt, most often for its own env's answer. If no prompt waits and half of
the rows have ended, the other rows are compacted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentgym_py.engine.base import Generation
from agentgym_py.engine.decoding import draw
from agentgym_py.engine.hf.cache_slots import Ids
from agentgym_py.engine.hf.kvcache import round_up
from agentgym_py.engine.hf.places import Seat
from agentgym_py.engine.hf.runner import ModelRunner
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.errors import ConfigError, NonFiniteError, PolicyError

_SHARE = 8
"""New prompts join when one of this many replies in progress has ended, because a prefill costs a forward pass."""

Floats = npt.NDArray[np.float64]


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

    def seat(self, row: int) -> Seat:
        """The seat of this reply in its row."""
        return Seat(row, self.length, self.length, self.need)


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


class HFBatch:
    """Replies in progress; each is returned as soon as it ends, and its place goes to the next prompt.

    A sync or an interrupt of the engine drops its content. An engine answers one batch at a time: two batches in turn
    recompute what the other one overwrote.
    """

    def __init__(self, runner: ModelRunner, params: SamplingParams) -> None:
        self._runner, self._params = runner, params
        self._waiting: deque[_Reply] = deque()
        self._rows: _Rows | None = None
        self._book = runner.places.book

    def add(self, key: Hashable, prompt: Sequence[int], seed: int) -> None:
        """Add a prompt to be answered.

        Raises:
            ConfigError: it is empty, fills the policy's context, or exceeds the memory of the KV cache.
        """
        policy, places = self._runner.policy, self._runner.places
        if not len(prompt):
            raise ConfigError("a prompt needs at least one token")
        if len(prompt) >= policy.max_length:
            raise ConfigError(
                f"a prompt of {len(prompt)} tokens leaves no room in {policy.name!r}'s {policy.max_length}"
            )
        limit = min(self._params.max_new_tokens, policy.max_length - len(prompt))
        if not places.has_room([len(prompt) + limit]):
            raise ConfigError(
                f"a prompt of {len(prompt)} tokens and a reply of {limit} do not fit the KV cache, which has memory "
                f"for {places.most_tokens:.0f}: raise kv_cache_gib"
            )
        draws = np.random.default_rng(seed).random(self._params.max_new_tokens)
        self._waiting.append(_Reply(key, np.asarray(prompt, np.int64), limit, draws))

    def take_ended(self) -> list[tuple[Hashable, Generation]]:
        """Return ended replies by key, as soon as an eighth of those in progress has ended.

        Raises:
            PolicyError: the policy's weights are not those of the last sync, or there was a sync during a reply.
            NonFiniteError: the policy's logits are not finite.
        """
        runner = self._runner
        if self._rows is None:
            runner.require_synced()
            self._book = runner.places.book
        elif runner.places.book is not self._book:
            raise PolicyError("the engine was synced or interrupted while replies were in progress")
        with runner.inference_mode():
            if runner.acquire(self):
                self._requeue_live()
            self._fill_places()
            return [(reply.key, self._generation(reply)) for reply in self._decode()]

    def _generation(self, reply: _Reply) -> Generation:
        stopped = reply.ids[-1] in self._runner.ends
        return Generation(tuple(reply.ids), tuple(reply.logprobs), "stop" if stopped else "length")

    # ---- prompts join ------------------------------------------------------------------------------------------------

    def _requeue_live(self) -> None:
        """Requeue replies in progress whose slots another batch has used."""
        if self._rows:
            self._waiting.extendleft(reversed([self._rows.replies[b] for b in self._rows.live]))
            self._rows = None

    def _fill_places(self) -> None:
        """Give free places to waiting prompts, and compute the tokens that their slots lack."""
        places, rows = self._runner.places, self._rows
        live = rows.live if rows else []
        new = self._admitted([rows.replies[b] for b in live] if rows else [])
        if not new:
            return
        texts = [reply.text for reply in new]
        claimed = places.book.claim(texts, live)
        replies = [rows.replies[b] for b in live] + new if rows else new
        seats = [reply.seat(b) for b, reply in zip(live, replies, strict=False)]
        for slot, reply in zip(claimed, new, strict=True):
            seats.append(Seat(slot, reply.length, len(places.book.contents[slot]), reply.need))
        order = places.to_front(seats)
        place_of = {i: slot for slot, i in enumerate(order)}
        logits = self._runner.prefill(texts, [place_of[len(live) + i] for i in range(len(new))])
        if rows:
            logits = torch.cat([rows.logits[live], logits])
        self._rows = self._make_rows([replies[i] for i in order], logits[order])

    def _admitted(self, live: Sequence[_Reply]) -> list[_Reply]:
        """Take the prompts from the queue that have a place, and for whose replies the cache has room."""
        new: list[_Reply] = []
        places = self._runner.places
        while self._waiting and len(live) + len(new) < places.slots:
            if not places.has_room([reply.need for reply in [*live, *new, self._waiting[0]]]):
                break
            new.append(self._waiting.popleft())
        return new

    def _make_rows(self, replies: list[_Reply], logits: Tensor) -> _Rows:
        dtype, device = self._runner.dtype, self._runner.device
        positions_B = torch.tensor([reply.length for reply in replies], device=device)
        drawn_B = torch.tensor([len(reply.ids) for reply in replies], device=device)
        longest = round_up(max(reply.need for reply in replies))
        hidden = torch.arange(longest, device=device) > positions_B[:, None]
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, -torch.inf)
        uniforms = torch.from_numpy(np.stack([reply.uniforms for reply in replies])).float().to(device)
        return _Rows(replies, logits, uniforms, drawn_B, positions_B, mask)

    # ---- decoding ----------------------------------------------------------------------------------------------------

    def _decode(self) -> list[_Reply]:
        """Sample tokens until enough replies have ended; return those."""
        runner, rows, ended = self._runner, self._rows, list[_Reply]()
        if rows is None:
            return ended
        enough = math.ceil(len(rows.live) / _SHARE)
        while len(ended) < enough:
            uniforms_B = rows.uniforms.gather(1, rows.drawn[:, None])[:, 0]
            tokens_B, logprobs_B = draw(rows.logits, uniforms_B, self._params)
            logprobs = logprobs_B.tolist()
            if not all(map(math.isfinite, logprobs)):
                raise NonFiniteError(f"the model {runner.policy.name!r} gives nan or infinity: its weights are damaged")
            ended += self._record(rows.replies, tokens_B.tolist(), logprobs)
            live = rows.live
            if not live:
                self._rows = None
                break
            if 2 * len(live) <= len(rows.replies) and runner.places.has_room([rows.replies[b].need for b in live]):
                order = [live[i] for i in runner.places.to_front([rows.replies[b].seat(b) for b in live])]
                rows.choose(order)
                tokens_B = tokens_B[order]
            lengths = [reply.length for reply in rows.replies]
            rows.logits = runner.decode(tokens_B, rows.positions, lengths, rows.mask)
            # an ended row recomputes its last token until its place is taken
            advance = torch.tensor([not reply.ended for reply in rows.replies], device=runner.device)
            rows.positions, rows.drawn = rows.positions + advance, rows.drawn + advance
            rows.mask.scatter_(1, rows.positions[:, None], 0.0)
        return ended

    def _record(self, replies: Sequence[_Reply], tokens: Sequence[int], logprobs: Sequence[float]) -> list[_Reply]:
        """Add a token to each reply; return the replies that it ended."""
        ends, ended = self._runner.ends, list[_Reply]()
        for slot, (reply, token, logprob) in enumerate(zip(replies, tokens, logprobs, strict=True)):
            if reply.ended:
                continue
            reply.ids.append(token)
            reply.logprobs.append(logprob)
            if token in ends or len(reply.ids) == reply.limit:
                reply.ended = True
                ended.append(reply)
                self._runner.places.book.contents[slot] = reply.text[:-1]  # the last token was never computed
        return ended
