"""Advantages of groups of returns, and of the tokens or turns of one trajectory."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

Scale = Literal["std", "none", "leave_one_out"]


def group_advantages(returns_G: Tensor, scale: Scale = "std", eps: float = 1e-4) -> Tensor:
    """Compare each of G trajectories from one start with its group, (G,).

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
    """Generalized advantage estimates of T successive choices."""

    advantages_T: Tensor
    returns_T: Tensor
    """Targets of the value function: advantage + value."""


def gae(rewards_T: Tensor, values_T: Tensor, bootstrap: float, gamma: float = 1.0, lam: float = 0.95) -> GAE:
    """Estimate the advantages of T choices of one trajectory (arXiv:1506.02438, eq. 16).

    `bootstrap` is the value of the state after the last choice: 0 if the episode terminated, the critic's if it was
    truncated. A choice is a token, whose successor is the next *agent* token, or a whole turn.
    """
    advantages_T = torch.zeros_like(rewards_T)
    next_value, advantage = bootstrap, 0.0
    for t in range(len(rewards_T) - 1, -1, -1):
        delta = float(rewards_T[t]) + gamma * next_value - float(values_T[t])
        advantage = delta + gamma * lam * advantage
        advantages_T[t] = advantage
        next_value = float(values_T[t])
    return GAE(advantages_T, advantages_T + values_T)


def whiten(advantages: list[Tensor], eps: float = 1e-4) -> list[Tensor]:
    """Shift and scale the advantages of several trajectories together: (A - mean) / (std + eps).

    If nothing was rewarded, `eps` keeps rounding errors from being scaled up to a standard deviation of 1.
    """
    all_N = torch.cat(advantages)
    if len(all_N) < 2:
        return advantages
    mean, std = all_N.mean(), all_N.std()
    return [(advantages_n - mean) / (std + eps) for advantages_n in advantages]
