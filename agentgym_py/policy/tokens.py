"""Training samples: a trajectory as one token sequence, with a mask that is 1 on the agent's own tokens only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from agentgym_py.trajectory import Step, Trajectory
from agentgym_py.trajectory.types import opening_text

if TYPE_CHECKING:
    from agentgym_py.policy.chat_format import ChatFormat

IGNORED = -100
"""Label of a token that is not trained on (PyTorch's ignore_index)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One trajectory in tokens."""

    input_ids: list[int]  # (S,)
    mask: list[int]  # (S,), 1 on tokens that the agent wrote

    @property
    def labels(self) -> list[int]:
        """`input_ids` where the mask is 1, else `IGNORED`, shape (S,); not shifted."""
        return [token if kept else IGNORED for token, kept in zip(self.input_ids, self.mask, strict=True)]


def encode(trajectory: Trajectory, chat: ChatFormat) -> Sample:
    """Encode a trajectory: tokens as sampled where they are recorded, else the text, turn by turn."""
    return encode_steps(trajectory.rules, trajectory.steps, chat)


def encode_steps(rules: str, steps: Iterable[Step], chat: ChatFormat) -> Sample:
    """Encode an episode's first steps; the observation after the last one is not included."""
    ids: list[int] = []
    mask: list[int] = []
    for context, reply, kept in turns(rules, steps, chat):
        ids += context + reply
        mask += [0] * len(context) + kept
    return Sample(ids, mask)


class Turn(NamedTuple):
    """One turn in tokens."""

    context: list[int]
    reply: list[int]
    kept: list[int]
    """1 at each token of the reply that is learnt from."""


def turns(rules: str, steps: Iterable[Step], chat: ChatFormat) -> Iterator[Turn]:
    """The turns of an episode; concatenated they are the tokens of `encode_steps`."""
    for number, step in enumerate(steps):
        if step.tokens is not None:
            context, reply = list(step.tokens.context), list(step.tokens.ids)
            kept = [bit * step.trained for bit in step.tokens.mask]
        else:
            seen = step.observation
            context = chat.turn(seen) if number else chat.opening(opening_text(rules, seen))
            reply = chat.reply(step.reply)
            kept = [int(step.trained)] * len(reply)
        yield Turn(context, reply, kept)


def foreign(trajectory: Trajectory, chat: ChatFormat) -> bool:
    """Whether the recorded tokens are of another tokenizer: ids outside this vocabulary, or ids of another text.

    White space is not compared, because tokenizers change it between versions.
    """
    tokenizer = chat.tokenizer
    for step in trajectory.steps:
        if step.tokens is None:
            continue
        if max((*step.tokens.context, *step.tokens.ids), default=0) >= len(tokenizer):
            return True
        text = tokenizer.decode(list(step.tokens.ids), skip_special_tokens=True)
        if "".join(text.split()) != "".join(step.reply.split()):
            return True
    return False


def encode_all(trajectories: Iterable[Trajectory], chat: ChatFormat, max_length: int | None = None) -> list[Sample]:
    """Samples of all trajectories that have an agent's token and fit into `max_length` tokens."""
    samples = (encode(trajectory, chat) for trajectory in trajectories)
    return [s for s in samples if any(s.mask) and (max_length is None or len(s.input_ids) <= max_length)]


def passes(lengths: Sequence[int], tokens: float, sequences: Sequence[int] | None = None) -> Iterator[list[int]]:
    """Group rows of similar length into forward passes of at most `tokens` tokens, padding included.

    `sequences` holds the number of sequences in each row, by default 1; all of them are as long as the row's length.
    """
    part, held = list[int](), 0
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        number = sequences[i] if sequences else 1
        if part and (held + number) * lengths[i] > tokens:
            yield part
            part, held = [], 0
        part.append(i)
        held += number
    if part:
        yield part
