"""What a proof changes to see whether a trainer notices: returns and ends of episodes, and global generators."""

from __future__ import annotations

import random  # noqa: TID251  # seeded, to catch a trainer that draws from it
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch

from agentgym_py.env import StopReason
from agentgym_py.proof.world import ACTIONS
from agentgym_py.trajectory import Trajectory


def shifted(episode: Trajectory) -> Trajectory:
    """Add a constant of the task to the return."""
    return _pay_last(episode, episode.reward + 3.0 * int(episode.task_id.rsplit("/", 1)[1]))


def stretched(episode: Trajectory) -> Trajectory:
    """Triple what a return has above 1."""
    return _pay_last(episode, 3 * episode.reward - 2) if episode.reward > 1 else episode


def outcome(episode: Trajectory) -> Trajectory:
    """Pay 1 at the end if the first action is one of the first three words, and nothing else."""
    win = episode.steps[0].action in ACTIONS[:3]
    steps = [replace(step, reward=0.0) for step in episode.steps]
    return replace(_pay_last(replace(episode, steps=tuple(steps), reward=0.0), float(win)), success=win)


def truncated(episode: Trajectory) -> Trajectory:
    """Let the step limit have ended the episode."""
    return replace(episode, stop_reason=StopReason.TRUNCATED)


def _pay_last(episode: Trajectory, reward: float) -> Trajectory:
    """Return the episode with its last reward changed so that the return is `reward`."""
    last = episode.steps[-1]
    paid = replace(last, reward=last.reward + reward - episode.reward)
    return replace(episode, steps=(*episode.steps[:-1], paid), reward=reward)


@contextmanager
def global_seeds(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, numpy and torch while the block runs."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002
