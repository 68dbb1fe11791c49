"""Pure pieces of policy losses, over the N agent tokens of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from agentgym_py.training.settings import ImportanceMode

Weighting = Literal["token", "sequence", "constant"]


class Loss(NamedTuple):
    """The loss of a batch, token by token, and its logs; parts of the loss have names that end in _loss."""

    loss_N: Tensor
    logged_N: Mapping[str, Tensor]


class Surrogate(NamedTuple):
    """A clipped surrogate, token by token."""

    loss_N: Tensor
    ratio_N: Tensor
    clipped_N: Tensor
    """1 where clipping removes the gradient."""


def clipped_surrogate(logps_N: Tensor, old_logps_N: Tensor, advantages_N: Tensor, low: float, high: float) -> Surrogate:
    """Return -min(rho A, clip(rho, 1 - low, 1 + high) A) with rho = pi / pi_old (PPO, arXiv:1707.06347, eq. 7)."""
    return clipped_ratio((logps_N - old_logps_N).exp(), advantages_N, low, high)


def clipped_ratio(ratio_N: Tensor, advantages_N: Tensor, low: float, high: float) -> Surrogate:
    """As `clipped_surrogate`, from the ratio."""
    plain_N, clipped_N = ratio_N * advantages_N, ratio_N.clamp(1 - low, 1 + high) * advantages_N
    return Surrogate(-torch.minimum(plain_N, clipped_N), ratio_N, (clipped_N < plain_N).to(ratio_N.dtype))


def row_sum(x_N: Tensor, row_N: Tensor) -> Tensor:
    """Sum each row's tokens and repeat the sum at each of them, (N,)."""
    rows = int(row_N.max()) + 1
    return torch.zeros(rows, dtype=x_N.dtype, device=x_N.device).index_add(0, row_N, x_N)[row_N]


def row_mean(x_N: Tensor, row_N: Tensor) -> Tensor:
    """Average each row's tokens and repeat the mean at each of them, (N,)."""
    return row_sum(x_N, row_N) / torch.bincount(row_N)[row_N]


def k1(logps_N: Tensor, ref_logps_N: Tensor) -> Tensor:
    """Return log(pi / ref), at tokens drawn from pi an unbiased estimate of KL(pi | ref) that may be negative."""
    return logps_N - ref_logps_N


def k3(logps_N: Tensor, ref_logps_N: Tensor) -> Tensor:
    """Return ref / pi - 1 - log(ref / pi): unbiased, never negative, of lower variance near 0 (Schulman's k3)."""
    log_ratio_N = ref_logps_N - logps_N
    return log_ratio_N.exp() - 1 - log_ratio_N


def importance_weights(old_logps_n: Tensor, sampler_logps_n: Tensor, mode: ImportanceMode, cap: float) -> Tensor:
    """Return the weights pi_old / pi_sampler of one trajectory's n tokens, bounded by `cap`, (n,).

    `token_*` takes each token's ratio, `sequence_*` the product of all; `*_truncate` cuts a larger one to `cap`
    (truncated importance sampling), `*_mask` to 0, as trl's `vllm_importance_sampling_mode`.
    """
    log_ratio_n = old_logps_n - sampler_logps_n
    if mode.startswith("sequence"):
        log_ratio_n = log_ratio_n.sum().expand_as(log_ratio_n)
    ratio_n = log_ratio_n.exp()
    return ratio_n.clamp(max=cap) if mode.endswith("truncate") else ratio_n.masked_fill(ratio_n > cap, 0.0)


def token_weights(
    lengths_B: list[int], weighting: Weighting, constant: float = 1.0, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Return the weights of each token of B sequences in one step's loss, the weighted sum of token losses.

    `token`: 1 / all tokens (DAPO, arXiv:2503.14476); `sequence`: 1 / (B * the sequence's tokens) (GRPO); `constant`:
    1 / (B * constant) (Dr. GRPO). The losses of the step's parts add up.
    """
    total, rows = sum(lengths_B), len(lengths_B)
    divisors: dict[str, list[float]] = {"token": [total] * rows, "sequence": [rows * n for n in lengths_B]}
    divisors["constant"] = [rows * constant] * rows
    return [
        torch.full((n,), 1 / divisor, dtype=dtype) for n, divisor in zip(lengths_B, divisors[weighting], strict=True)
    ]
