from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.training.rl.losses import Weighting, clipped_surrogate, k1, k3, row_mean, row_sum, token_weights


def test_the_surrogate_is_the_formula(loss_checks: Any) -> None:
    """Token by token: minus the smaller of rho A and clip(rho) A; a token counts as clipped where its gradient is 0."""
    logps_N, old_N, advantages_N = (loss_checks.drawn(200, seed=seed) for seed in (1, 2, 3))

    def slow(x_N: Any) -> Any:
        found = []
        for x, old, advantage in zip(x_N, old_N, advantages_N, strict=True):
            ratio = torch.exp(x - old)
            bounded = ratio if 0.8 <= ratio <= 1.28 else ratio.new_tensor(0.8 if ratio < 0.8 else 1.28)
            found.append(-min(ratio * advantage, bounded * advantage))
        return torch.stack(found)

    loss_checks.check_formula(lambda x_N: clipped_surrogate(x_N, old_N, advantages_N, 0.2, 0.28).loss_N, slow, logps_N)
    found = clipped_surrogate(logps_N.requires_grad_(), old_N, advantages_N, 0.2, 0.28)
    torch.testing.assert_close(found.ratio_N, (logps_N - old_N).exp(), rtol=0, atol=1e-9)
    for ratio, advantage, clipped in zip(found.ratio_N, advantages_N, found.clipped_N, strict=True):
        assert bool(clipped) == bool(ratio > 1.28 if advantage > 0 else ratio < 0.8)
    (gradient_N,) = torch.autograd.grad(found.loss_N.sum(), logps_N)
    assert torch.equal(gradient_N == 0, found.clipped_N > 0) and 0.2 < found.clipped_N.mean() < 0.8


def test_the_estimators_of_kl_are_the_formulas(loss_checks: Any) -> None:
    """Token by token, with their gradients."""
    ref_N, logps_N = loss_checks.drawn(30, seed=1), loss_checks.drawn(30, seed=2)
    for fast, slow in (
        (k1, lambda x, ref: torch.log(x.exp() / ref.exp())),
        (k3, lambda x, ref: ref.exp() / x.exp() - 1 - torch.log(ref.exp() / x.exp())),
    ):
        loss_checks.check_formula(
            lambda x_N, fast=fast: fast(x_N, ref_N),
            lambda x_N, slow=slow: torch.stack([slow(x, ref) for x, ref in zip(x_N, ref_N, strict=True)]), logps_N,
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_sums_and_means_of_rows_are_those_of_each_row(loss_checks: Any, seed: int) -> None:
    """Given back at each token, whatever the lengths and the order of the tokens; with their gradients."""
    lengths = [3, 1, 8]
    order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
    rows_N = torch.repeat_interleave(torch.arange(3), torch.tensor(lengths))[order]

    def own(x_N: Any, n: int) -> list[Any]:
        return [x_N[m] for m in range(12) if rows_N[m] == rows_N[n]]

    x_N = loss_checks.drawn(12, seed=seed)
    loss_checks.check_formula(
        lambda x: row_sum(x, rows_N), lambda x: torch.stack([sum(own(x, n)) for n in range(12)]), x_N
    )
    loss_checks.check_formula(
        lambda x: row_mean(x, rows_N),
        lambda x: torch.stack([sum(own(x, n)) / lengths[rows_N[n]] for n in range(12)]), x_N,
    )  # fmt: skip


def test_the_estimators_of_kl_are_unbiased(loss_checks: Any) -> None:
    """By simulation: means over draws from pi are KL(pi | ref) within four standard errors; k3 is never negative."""
    generator = torch.Generator().manual_seed(0)
    pi, ref = (torch.softmax(0.5 * loss_checks.drawn(10, seed=seed), -1) for seed in (1, 2))
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
