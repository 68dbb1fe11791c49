"""Safety nets of a training that plays itself: what stops it, and what of its episodes says that it goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from agentgym_py.trajectory import Trajectory

_RUN = 4
"""Tokens that make a phrase."""
_LEAST = 8
"""A shorter reply has too few phrases to repeat itself."""


class StoppedEarly(Exception):  # noqa: N818  # no error: the training ends well, before its budget does
    """A net ends the training; `agentgym_py.rl.learner.training` catches it."""


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
