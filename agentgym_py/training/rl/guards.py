"""Safety nets: what stops a training that plays itself, and what of any model's episodes says that it went wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Protocol, runtime_checkable

from agentgym_py.trajectory import Trajectory

_RUN = 4
"""Tokens that make a phrase."""
_LEAST = 8
"""A shorter reply has too few phrases to repeat itself."""
_MIN_ENTROPY, _MAX_REPEATED = 0.001, 0.5
"""Bounds of what a round calls a collapse, where its trainer has none: at temperature 0.5 sound agents of the shop had
0.014 nats a token or more, and repeated less than 0.4 of their replies; one that `ranking` had ruined repeated 0.6."""


MAX_DRIFT = 1.0
"""Nats a token from the policy that played at which an iteration has gone too far to be sound."""


@runtime_checkable
class CollapseBounds(Protocol):
    """A trainer with its own bounds of a collapse, as `OnPolicySettings` has them."""

    min_entropy: float
    """Entropy (nats per token) below which a collapse is reported."""
    max_repeated: float
    """Share of repetitive replies above which a collapse is reported."""


class StoppedEarly(Exception):  # noqa: N818  # no error: the training ends well, before its budget does
    """A guard ends the training; `Learner.__exit__` catches it."""


def repeats_itself(ids: Sequence[int]) -> bool:
    """Whether more than half of a reply's runs of four tokens stood in it before."""
    runs = [tuple(ids[at : at + _RUN]) for at in range(len(ids) - _RUN + 1)]
    return len(ids) >= _LEAST and len(set(runs)) < len(runs) / 2


def repeated(trajectories: Sequence[Trajectory]) -> float:
    """Share of a model's replies that say again what was said.

    A reply does that which repeats itself, or which was given before to the same observation of its episode.
    """
    found = list[bool]()
    for trajectory in trajectories:
        given = set[tuple[str, str]]()
        for step in trajectory.steps:
            if step.tokens is not None and step.trained:
                found.append(repeats_itself(step.tokens.ids) or (step.observation, step.reply) in given)
            given.add((step.observation, step.reply))
    return fmean(found) if found else 0.0


def diversity(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """How much a model's replies vary, at the temperature that they were sampled at; nothing where there are none.

    `entropy`, nats a token, is estimated by the mean of -log p over the tokens that were sampled; `repeated` is above.
    """
    replies = [step.tokens for each in trajectories for step in each.steps if step.tokens and step.trained]
    sampled = [logprob for each in replies for logprob, m in zip(each.logprobs, each.mask, strict=True) if m]
    return {"entropy": -fmean(sampled), "repeated": repeated(trajectories)} if sampled else {}


def collapses(logged: Mapping[str, float], min_entropy: float, max_repeated: float) -> dict[str, str]:
    """The collapses that `entropy` and `repeated`, where they are logged, show, each with what to do about it."""
    found, entropy, again = dict[str, str](), logged.get("entropy", math.inf), logged.get("repeated", 0.0)
    if entropy < min_entropy:
        found["entropy"] = (
            f"collapse: entropy {entropy:.2g} nats a token, below {min_entropy:g}: hardly any other reply is tried; a "
            "higher temperature or kl_coef, or a lower learning_rate, keeps it up"
        )
    if again > max_repeated:
        found["repeated"] = (
            f"collapse: {100 * again:.0f} % of the replies repeat themselves, or an earlier one to the same "
            f"observation, more than {100 * max_repeated:g} %"
        )
    return found


def noticed(trainer: object, logged: Mapping[str, float], notes: Sequence[str]) -> list[str]:
    """What a round's episodes show of a collapse, by the trainer's own bounds where it has any; once it is enough."""
    if any(note.startswith("collapse") for note in notes):
        return []
    bounds = _MIN_ENTROPY, _MAX_REPEATED
    if isinstance(trainer, CollapseBounds):
        bounds = trainer.min_entropy, trainer.max_repeated
    return list(collapses(logged, *bounds).values())
