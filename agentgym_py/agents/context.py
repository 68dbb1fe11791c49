"""Episodes that outgrow the context: a new token sequence without the earliest turns.

An episode grows by appending tokens. When the next reply does not fit, a new sequence begins: the rules, the first
observation, a note in place of the turns that are left out, then the latest turns with their replies as sampled. Both
sequences are exact, and each reply is trained in the one in which it was sampled.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from agentgym_py.agents.base import Episode
from agentgym_py.policy.chat_format import ChatFormat
from agentgym_py.policy.tokens import encode_turns
from agentgym_py.trajectory.types import opening_text

SUMMARY_REQUEST = (
    "Your context is full. Write down in a few sentences what you have done and found out so far, as far as it matters "
    "for the rest of the task. Do not act now."
)


class NewSequence(NamedTuple):
    """The prompt that begins a new sequence."""

    ids: list[int]
    turns_dropped: int
    """Number of the episode's turns that it leaves out."""


def new_sequence(episode: Episode, chat: ChatFormat, limit: int, *, last: str, summary: str = "") -> NewSequence | None:
    """Encode an episode without its earliest turns, up to where the next reply begins.

    Args:
        episode: It has at least one step.
        chat: The policy's chat format.
        limit: Largest number of tokens; at most half of it is filled if one turn fits there, so that further turns fit
            into the sequence, because a new one cannot use the cached keys and values.
        last: The observation to reply to.
        summary: Stands in place of the turns that are left out; by default, their number does.

    Returns:
        As many of the latest turns as fit; None if not even `last` fits.
    """
    steps = episode.steps
    observations = [*(step.observation for step in steps[1:]), last]
    replies = [turn.reply for turn in encode_turns(episode.rules, steps, chat) if not turn.is_summary]
    later = [
        [*reply, *forced_end(reply, chat), *chat.turn(observation)]
        for reply, observation in zip(replies[1:], observations[1:], strict=True)
    ]
    first = opening_text(episode.rules, steps[0].observation)
    ids, left_out = list[int](), 0
    for left_out, observation in enumerate(observations, 1):
        note = f"Summary of the earlier turns: {summary}" if summary else f"[earlier turns left out: {left_out}]"
        ids = chat.opening(f"{first}\n\n{note}\n\n{observation}") + list(chain(*later[left_out - 1 :]))
        if len(ids) <= limit // 2:
            break
    return NewSequence(ids, left_out) if len(ids) <= limit else None


def forced_end(reply: list[int], chat: ChatFormat) -> list[int]:
    """Return the end of turn that follows a reply in the next context: none if the reply ended by it."""
    return [] if reply[-1:] == [chat.end_of_turn] else [chat.end_of_turn]
