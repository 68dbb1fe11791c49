"""Training samples: a trajectory as one token sequence, with a mask that is 1 on the agent's own tokens only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from agentgym_py.trajectory import Step, Trajectory
from agentgym_py.trajectory.types import opening_text

if TYPE_CHECKING:
    from agentgym_py.policy.chat_format import ChatFormat

IGNORED = -100
"""Label of a token that is not trained on (PyTorch's ignore_index)."""
PASS_TOKENS = 4096
"""Tokens of a forward pass without gradient, if no setting bounds them."""


class TokenSequences:
    """Tokens in one sequence, or in several that stand one after another."""

    __slots__ = ()

    input_ids: Any
    starts: tuple[int, ...]

    @property
    def sequences(self) -> list[slice]:
        """Where each sequence stands among the tokens."""
        return [slice(*ends) for ends in pairwise((*self.starts, len(self.input_ids)))]

    @property
    def longest(self) -> int:
        """Number of tokens of the longest sequence."""
        return max(end - start for start, end in pairwise((*self.starts, len(self.input_ids))))


class RowSize(NamedTuple):
    """What a row of training data takes in a forward pass."""

    sequences: int
    longest: int
    """Tokens of the longest sequence, to which the others are padded."""

    @classmethod
    def of(cls, *parts: TokenSequences) -> RowSize:
        """Return the size of a row that holds the sequences of all these."""
        return cls(sum(len(part.starts) for part in parts), max(part.longest for part in parts))

    @property
    def tokens(self) -> int:
        """Number of tokens, padding included."""
        return self.sequences * self.longest


@dataclass(frozen=True, slots=True)
class Sample(TokenSequences):
    """One trajectory in tokens: one sequence, or several if it outgrew the context."""

    input_ids: list[int]  # (S,), the sequences one after another
    mask: list[int]  # (S,), 1 on tokens that the agent wrote
    starts: tuple[int, ...] = (0,)
    """Where each sequence begins."""
    prompt: int | None = None
    """Number of tokens before the first reply, trained or not; None: those before the first 1 of the mask."""

    @property
    def labels(self) -> list[int]:
        """`input_ids` where the mask is 1, else `IGNORED`; (S,), not shifted."""
        return [token if bit else IGNORED for token, bit in zip(self.input_ids, self.mask, strict=True)]

    def sequence(self, number: int) -> Sample:
        """Return one of its sequences alone; the last one, -1, is what the episode's next turn would continue."""
        place = self.sequences[number]
        return Sample(self.input_ids[place], self.mask[place])


def encode(trajectory: Trajectory, chat: ChatFormat) -> Sample:
    """Encode a trajectory: the sampled tokens of recorded turns, the text of the others."""
    return encode_steps(trajectory.rules, trajectory.steps, chat)


def encode_steps(rules: str, steps: Iterable[Step], chat: ChatFormat) -> Sample:
    """Encode an episode's first steps; the observation after the last one is not included."""
    ids: list[int] = []
    mask: list[int] = []
    starts, prompt = [0], None
    for turn in encode_turns(rules, steps, chat):
        prompt = len(turn.context) if prompt is None else prompt
        if turn.starts_sequence:
            starts.append(len(ids))
        ids += turn.context + turn.reply
        mask += [0] * len(turn.context) + turn.mask
    return Sample(ids, mask, tuple(starts), prompt)


class Turn(NamedTuple):
    """One turn in tokens."""

    context: list[int]
    reply: list[int]
    mask: list[int]
    """1 at each token of the reply that is trained on."""
    starts_sequence: bool = False
    """Whether the context is a whole prompt."""
    is_summary: bool = False
    """Whether the reply is a summary of the turns before, which the env does not see."""


def encode_turns(rules: str, steps: Iterable[Step], chat: ChatFormat) -> Iterator[Turn]:
    """Yield the turns of an episode; concatenated, they are the tokens of `encode_steps`."""
    for number, step in enumerate(steps):
        for record in step.token_records:
            mask = [
                bit * step.trained * (token < chat.vocab_size)  # an id behind the last token is never sampled
                for token, bit in zip(record.ids, record.mask, strict=True)
            ]
            is_summary = record is step.summary
            yield Turn(list(record.context), list(record.ids), mask, record.starts_sequence, is_summary)
        if step.tokens is not None:
            continue
        context = chat.turn(step.observation) if number else chat.opening(opening_text(rules, step.observation))
        reply = chat.reply(step.reply)
        yield Turn(context, reply, [int(step.trained)] * len(reply))


def agent_tokens_by_step(trajectory: Trajectory, chat: ChatFormat) -> list[int]:
    """Count the agent tokens of each step in the sample of `encode`, in which they stand in this order."""
    return [sum(sum(turn.mask) for turn in encode_turns("", [step], chat)) for step in trajectory.steps]


def mask_cut_replies(trajectory: Trajectory) -> Trajectory:
    """Return the trajectory with no token to train on in replies that were cut at the maximum length."""
    return replace(trajectory, steps=tuple(map(_mask_cut, trajectory.steps)))


def why_nothing_to_learn(trajectory: Trajectory) -> str:
    """Say why a trajectory is left out that has no token to train on."""
    reasons = {
        "cut at max_new_tokens": any(step.cut for step in trajectory.steps),
        "refused by the world": any(not step.valid and not step.trained for step in trajectory.steps),
    }
    told = " or ".join(reason for reason, holds in reasons.items() if holds)
    return "without a reply to learn" + (f" that was not {told}" if told else "")


def _mask_cut(step: Step) -> Step:
    if not any(record.cut for record in step.token_records):
        return replace(step, trained=False) if step.cut else step
    summary, tokens = (
        replace(record, mask=(0,) * len(record.mask)) if record and record.cut else record
        for record in (step.summary, step.tokens)
    )
    return replace(step, summary=summary, tokens=tokens)


def from_other_tokenizer(trajectory: Trajectory, chat: ChatFormat, rows: int = 0) -> bool:
    """Return whether another tokenizer wrote the recorded tokens: ids outside this vocabulary, or of another text.

    A model with more `rows` than tokens may have sampled an id behind the last token. White space is not compared,
    because tokenizers change it between versions.
    """
    for step in trajectory.steps:
        ids = (token for record in step.token_records for token in (*record.context, *record.ids))
        if max(ids, default=0) >= max(chat.vocab_size, rows):
            return True
        if step.tokens is None:
            continue
        text = chat.decode(step.tokens.ids)
        if "".join(text.split()) != "".join(step.reply.removeprefix(chat.opened).split()):
            return True
    return False


def pack_rows(sizes: Sequence[RowSize], tokens: float, rows: float = math.inf) -> Iterator[list[int]]:
    """Group rows of similar length into forward passes of at most `tokens` tokens, padding included, and `rows` rows.

    A row with more tokens has a pass of its own.
    """
    part, sequences = list[int](), 0
    for i in sorted(range(len(sizes)), key=lambda i: sizes[i].longest):
        if part and (len(part) >= rows or (sequences + sizes[i].sequences) * sizes[i].longest > tokens):
            yield part
            part, sequences = [], 0
        part.append(i)
        sequences += sizes[i].sequences
    if part:
        yield part
