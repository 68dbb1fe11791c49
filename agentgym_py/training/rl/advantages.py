"""Advantages: of groups of returns, and of the tokens or turns of one trajectory."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

Scale = Literal["std", "none", "leave_one_out"]


def group_advantages(returns_G: Tensor, scale: Scale = "std", eps: float = 1e-4) -> Tensor:
    """How much better each of G trajectories from one start did than its group; (G,).

    `std`: (R - mean) / (std + eps), with the unbiased std (GRPO, arXiv:2402.03300); `none`: R - mean (Dr. GRPO,
    arXiv:2503.20783); `leave_one_out`: R minus the mean of the others (RLOO, arXiv:2402.14740).
    """
    centred_G = returns_G - returns_G.mean()
    if scale == "std":
        return centred_G / (returns_G.std() + eps) if len(returns_G) > 1 else centred_G
    if scale == "leave_one_out":
        return centred_G * (len(returns_G) / max(len(returns_G) - 1, 1))
    return centred_G


class GAE(NamedTuple):
    """What generalized advantage estimation gives for T successive choices."""

    advantages_T: Tensor
    returns_T: Tensor
    """Targets of the value function: advantage + value."""


def gae(rewards_T: Tensor, values_T: Tensor, bootstrap: float, gamma: float = 1.0, lam: float = 0.95) -> GAE:
    """Generalized advantage estimation (arXiv:1506.02438, eq. 16), T choices of one trajectory.

    `bootstrap` is the value of the state after the last: 0 where the episode terminated, the critic's where it was
    truncated. A choice is a token (its successor is the next *agent* token: observations are skipped) or a whole turn.
    """
    advantages_T = torch.zeros_like(rewards_T)
    following, carried = bootstrap, 0.0
    for t in range(len(rewards_T) - 1, -1, -1):
        delta = float(rewards_T[t]) + gamma * following - float(values_T[t])
        carried = delta + gamma * lam * carried
        advantages_T[t] = carried
        following = float(values_T[t])
    return GAE(advantages_T, advantages_T + values_T)


def whiten(advantages: list[Tensor], eps: float = 1e-4) -> list[Tensor]:
    """Advantages of several trajectories, shifted and scaled together: (A - mean) / (std + eps).

    `eps` keeps what is only rounding, where nothing was rewarded, from being blown up to a standard deviation of 1.
    """
    together = torch.cat(advantages)
    if len(together) < 2:
        return advantages
    mean, std = together.mean(), together.std()
    return [(each - mean) / (std + eps) for each in advantages]
