"""Turn logits into tokens: pure functions over a batch whose rows do not depend on each other."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from agentgym_py.engine.sampling import SamplingParams


class Drawn(NamedTuple):
    """One token per row, and its log-probability under the distribution it was drawn from."""

    tokens: Tensor  # (B,)
    logprobs: Tensor  # (B,)


def draw(logits: Tensor, uniforms: Tensor, params: SamplingParams) -> Drawn:
    """Draw one token per row from `logits` (B, V) by `uniforms` (B,) in [0, 1).

    Greedy rows record the log-probability at temperature 1. A row with non-finite logits gets a non-finite log-
    probability and an arbitrary token.
    """
    if params.greedy:
        best, tokens = logits.max(-1)
        return Drawn(tokens, best.float() - logits.float().logsumexp(-1))
    scaled = _scaled(logits, params)
    scaled = scaled - scaled.amax(-1, keepdim=True)
    weights = scaled.exp()
    tokens, totals = inverse_cdf(weights, uniforms)
    tokens = tokens.clamp(max=logits.shape[-1] - 1)  # non-finite cumulated weights put it behind the last token
    return Drawn(tokens, scaled.gather(-1, tokens[:, None])[:, 0] - totals.log())


def processed_logprobs(logits: Tensor, params: SamplingParams) -> Tensor:
    """Log-probabilities (…, V) after temperature, top-k and top-p; vLLM calls them `processed_logprobs`."""
    return _scaled(logits, params).log_softmax(-1)


def _scaled(logits: Tensor, params: SamplingParams) -> Tensor:
    scaled = logits.float() / params.temperature if params.temperature not in (0, 1) else logits.float()
    return _truncated(scaled, params) if params.top_k or params.top_p < 1 else scaled


def _truncated(logits: Tensor, params: SamplingParams) -> Tensor:
    ordered, order = logits.sort(stable=True, dim=-1, descending=True)
    if 0 < params.top_k < logits.shape[-1]:
        ordered[..., params.top_k :] = -torch.inf
    if params.top_p < 1:
        probs = ordered.softmax(-1)
        before = probs.cumsum(-1) - probs  # the mass of all likelier tokens; the first token is always kept
        before[..., 0] = 0
        ordered = ordered.masked_fill(before >= params.top_p, -torch.inf)
    return torch.empty_like(logits).scatter_(-1, order, ordered)


def inverse_cdf(weights: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens (B,) whose interval of the cumulated `weights` (B, V) holds `uniforms` (B,), and the sums (B,)."""
    cumulated = weights.cumsum(-1)
    totals = cumulated[:, -1:]
    below = totals.nextafter(torch.zeros_like(totals))  # rounding must not step over the last token with a weight
    target = torch.minimum(uniforms[:, None].to(totals.dtype) * totals, below)
    return torch.searchsorted(cumulated, target, right=True)[:, 0], totals[:, 0]
