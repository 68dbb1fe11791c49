"""Guards: signs of a collapse in a model's episodes, and the bounds at which an on-policy training stops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Protocol, runtime_checkable

from agentgym_py.trajectory import Trajectory

_PHRASE = 4
"""Tokens of a phrase."""
_MIN_REPLY = 8
"""A shorter reply has too few phrases to be repetitive."""
_MIN_ENTROPY, _MAX_REPEATED = 0.001, 0.5
"""Bounds of a collapse for trainers without their own. At temperature 0.5, healthy agents of the shop had at least
0.014 nats per token and repeated less than 0.4 of their replies; one that `ranking` had ruined repeated 0.6."""
MAX_DRIFT = 1.0
"""Drift within an iteration, in nats per token from the policy that sampled, above which a warning is due."""


@runtime_checkable
class CollapseBounds(Protocol):
    """A trainer with its own bounds of a collapse, as `OnPolicySettings`."""

    min_entropy: float
    """Entropy (nats per token) below which a collapse is reported."""
    max_repeated: float
    """Share of repetitive replies above which a collapse is reported."""


class StoppedEarly(Exception):  # noqa: N818  # no error: the training ends well, before its budget does
    """A guard ended the training; `Learner.__exit__` catches it."""


def is_repetitive(ids: Sequence[int]) -> bool:
    """Whether more than half of a reply's four-token phrases repeat earlier ones."""
    phrases = [tuple(ids[at : at + _PHRASE]) for at in range(len(ids) - _PHRASE + 1)]
    return len(ids) >= _MIN_REPLY and len(set(phrases)) < len(phrases) / 2


def repetition_rate(trajectories: Sequence[Trajectory]) -> float:
    """Return the share of a model's replies that are repetitive, or repeat a reply to the same observation."""
    repeats = list[bool]()
    for trajectory in trajectories:
        earlier = set[tuple[str, str]]()
        for step in trajectory.steps:
            if step.tokens is not None and step.trained:
                repeats.append(is_repetitive(step.tokens.ids) or (step.observation, step.reply) in earlier)
            earlier.add((step.observation, step.reply))
    return fmean(repeats) if repeats else 0.0


def entropy_and_repetition(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Measure `entropy` and `repeated` of a model's replies; empty if there are none.

    `entropy`, in nats per token at the sampling temperature, is the mean of -log p over the sampled tokens; `repeated`
    is the `repetition_rate`.
    """
    records = [record for t in trajectories for step in t.steps if step.trained for record in step.token_records]
    sampled = [logp for record in records for logp, bit in zip(record.logprobs, record.mask, strict=True) if bit]
    return {"entropy": -fmean(sampled), "repeated": repetition_rate(trajectories)} if sampled else {}


def detect_collapse(logged: Mapping[str, float], min_entropy: float, max_repeated: float) -> dict[str, str]:
    """Return what `entropy` and `repeated`, if logged, show of a collapse, by their names."""
    texts, entropy, repeated = dict[str, str](), logged.get("entropy", math.inf), logged.get("repeated", 0.0)
    if entropy < min_entropy:
        texts["entropy"] = (
            f"collapse: entropy {entropy:.2g} nats per token, below {min_entropy:g}: the policy hardly tries other "
            "replies; a higher temperature, a lower learning_rate or, in a trainer that has it, kl_coef keeps it up"
        )
    if repeated > max_repeated:
        texts["repeated"] = (
            f"collapse: {100 * repeated:.0f} % of the replies repeat themselves, or an earlier one to the same "
            f"observation, more than {100 * max_repeated:g} %"
        )
    return texts


def collapse_notes(trainer: object, logged: Mapping[str, float], notes: Sequence[str]) -> list[str]:
    """Return what a round's episodes show of a collapse, by the trainer's bounds; none if `notes` has one already."""
    if any(note.startswith("collapse") for note in notes):
        return []
    bounds = _MIN_ENTROPY, _MAX_REPEATED
    if isinstance(trainer, CollapseBounds):
        bounds = trainer.min_entropy, trainer.max_repeated
    return list(detect_collapse(logged, *bounds).values())
