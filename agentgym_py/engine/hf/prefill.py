"""Compute prompts in slots, each from the longest prefix that any slot shares with it.

A prompt that continues its slot's content is computed from there. Prompts that share a beginning with each other (rules
text, attempts at one task) are computed in waves: one of them first, whose slot the others then copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agentgym_py.engine.hf.cache_slots import Ids, SlotBook, common_prefix
from agentgym_py.engine.hf.kvcache import Move
from agentgym_py.engine.hf.places import Places

_WORTH_WAITING = 32
"""A prompt waits for another one if they share at least this many more tokens than it shares with any slot."""


@dataclass(frozen=True, slots=True)
class Job:
    """Prompt tokens to compute before a row can be sampled."""

    row: int
    slot: int
    start: int
    ids: Ids


def prefill(
    prompts: Sequence[Ids], slots: Sequence[int], places: Places, compute: Callable[[Sequence[Job]], Tensor],
    most_tokens: int,
) -> Tensor:  # fmt: skip
    """Compute the prompt tokens that the slots lack; return the logits after each prompt's last token, (B, V).

    `compute` runs the model on jobs of at most `most_tokens` tokens, and returns the logits after the last token of
    each.
    """
    logits: dict[int, Tensor] = {}
    pending = list(range(len(prompts)))
    while pending:
        jobs, copies = _wave(prompts, slots, pending, places.book)
        places.cache.copy(copies)
        for pack in _packs(jobs, most_tokens):
            logits.update(zip((job.row for job in pack), compute(pack), strict=True))
        for job in jobs:
            places.book.contents[job.slot] = prompts[job.row]
        computed = {job.row for job in jobs}
        pending = [row for row in pending if row not in computed]
    return torch.stack([logits[row] for row in range(len(prompts))])


def _wave(
    prompts: Sequence[Ids], slots: Sequence[int], pending: Sequence[int], book: SlotBook
) -> tuple[list[Job], list[Move]]:
    """Return jobs for the pending rows that need not wait for another, and copies of the prefixes that they share."""
    jobs: list[Job] = []
    copies: list[Move] = []
    new: list[Ids] = []
    for row in pending:
        prompt, slot = prompts[row], slots[row]
        start = min(common_prefix(book.contents[slot], prompt), len(prompt) - 1)
        if start < len(book.contents[slot]) or not start:  # not the next turn of an episode
            source = book.source(prompt)
            if any(common_prefix(other, prompt) >= source.length + _WORTH_WAITING for other in new):
                continue
            new.append(prompt)
            if source.length > start:
                copies.append(Move(source.slot, slot, source.length))
                start = source.length
        jobs.append(Job(row, slot, start, prompt[start:]))
    return jobs, copies


def _packs(jobs: Sequence[Job], tokens: int) -> Iterator[list[Job]]:
    """Group jobs of at most `tokens` tokens; a long job is cut into pieces, in order."""
    pack: list[Job] = []
    room = tokens
    for job in jobs:
        start, ids = job.start, job.ids
        while len(ids):
            pack.append(Job(job.row, job.slot, start, ids[:room]))
            start, ids, room = start + len(pack[-1].ids), ids[room:], room - len(pack[-1].ids)
            if not room:
                yield pack
                pack, room = [], tokens
    if pack:
        yield pack
