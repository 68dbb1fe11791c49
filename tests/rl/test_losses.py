from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.rl.losses import Weighting, clipped_surrogate, k1, k3, row_mean, token_weights


def drawn(*size: int, seed: int = 0) -> Any:
    """Normal numbers in double precision."""
    return torch.randn(*size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_the_surrogate_is_the_formula() -> None:
    """Token by token: minus the smaller of rho A and clip(rho) A; a token counts as clipped where its gradient is 0."""
    logps_N, old_N, advantages_N = drawn(200, seed=1).requires_grad_(), drawn(200, seed=2), drawn(200, seed=3)
    found = clipped_surrogate(logps_N, old_N, advantages_N, 0.2, 0.28)
    for n in range(200):
        ratio, advantage = math.exp(float(logps_N[n]) - float(old_N[n])), float(advantages_N[n])
        bounded = min(max(ratio, 0.8), 1.28)
        assert abs(float(found.loss_N[n]) + min(ratio * advantage, bounded * advantage)) < 1e-9
        assert abs(float(found.ratio_N[n]) - ratio) < 1e-9
        assert bool(found.clipped_N[n]) == (ratio > 1.28 if advantage > 0 else ratio < 0.8)
    (gradient_N,) = torch.autograd.grad(found.loss_N.sum(), logps_N)
    assert torch.equal(gradient_N == 0, found.clipped_N > 0) and 0.2 < found.clipped_N.mean() < 0.8


def test_gradients_are_those_of_the_functions() -> None:
    """Numerically, of the surrogate, the estimators of KL and the mean of rows."""
    old_N, advantages_N, rows_N = drawn(12, seed=2), drawn(12, seed=3), torch.tensor([0] * 3 + [1] + [2] * 8)
    for function in (
        lambda x_N: clipped_surrogate(x_N, old_N, advantages_N, 0.2, 0.28).loss_N,
        lambda x_N: k1(x_N, old_N),
        lambda x_N: k3(x_N, old_N),
        lambda x_N: row_mean(x_N, rows_N),
    ):
        assert torch.autograd.gradcheck(function, drawn(12, seed=5).requires_grad_())


def test_row_means_are_those_of_each_row() -> None:
    """Given back at each token, whatever the lengths and the order of the tokens."""
    lengths = [3, 1, 8]
    rows_N = torch.repeat_interleave(torch.arange(3), torch.tensor(lengths))[
        torch.randperm(12, generator=torch.Generator().manual_seed(0))
    ]
    x_N = drawn(12)
    found_N = row_mean(x_N, rows_N)
    for n in range(12):
        own = [float(x_N[m]) for m in range(12) if rows_N[m] == rows_N[n]]
        assert len(own) == lengths[rows_N[n]] and abs(float(found_N[n]) - sum(own) / len(own)) < 1e-12


def test_the_estimators_of_kl_are_unbiased() -> None:
    """By simulation: means over draws from pi are KL(pi | ref) within four standard errors; k3 is never negative."""
    generator = torch.Generator().manual_seed(0)
    pi, ref = (torch.softmax(0.5 * drawn(10, seed=seed), -1) for seed in (1, 2))
    kl = float((pi * (pi / ref).log()).sum())
    draws = torch.multinomial(pi, 200_000, replacement=True, generator=generator)
    spread = []
    for estimator in (k1, k3):
        found = estimator(pi.log()[draws], ref.log()[draws])
        error = float(found.std()) / math.sqrt(len(draws))
        assert abs(float(found.mean()) - kl) < 4 * error and error < kl / 50
        spread.append(float(found.std()))
    assert found.min() >= 0 and k1(pi.log()[draws], ref.log()[draws]).min() < 0
    assert spread[1] < spread[0], "k3 varies less, near 0"


@pytest.mark.parametrize("how", ["token", "sequence", "constant"])
def test_what_a_token_counts(how: Weighting) -> None:
    """By each weighting's formula; the weighted sum of anything is that weighting's mean."""
    lengths, constant = [3, 1, 8], 16.0
    expected = {"token": [1 / 12] * 3, "sequence": [1 / (3 * n) for n in lengths], "constant": [1 / 48] * 3}[how]
    found = token_weights(lengths, how, constant)
    assert [len(each) for each in found] == lengths
    for weights, each in zip(found, expected, strict=True):
        torch.testing.assert_close(weights, torch.full_like(weights, each))
    assert abs(float(torch.cat(found).sum()) - {"token": 1, "sequence": 1, "constant": 12 / 48}[how]) < 1e-6
