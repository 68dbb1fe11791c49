from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.training.rl.advantages import Scale, gae, group_advantages, whiten


def slow_group(returns: list[float], scale: Scale) -> list[float]:
    """The papers' formulas, one try at a time."""
    size, found = len(returns), []
    mean = sum(returns) / size
    for i, own in enumerate(returns):
        if scale == "std":
            std = math.sqrt(sum((other - mean) ** 2 for other in returns) / (size - 1))
            found.append((own - mean) / (std + 1e-4))
        elif scale == "none":
            found.append(own - mean)
        else:
            found.append(own - sum(other for j, other in enumerate(returns) if j != i) / (size - 1))
    return found


@pytest.mark.parametrize("scale", ["std", "none", "leave_one_out"])
@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_groups_advantages_are_the_formulas(scale: Scale, size: int) -> None:
    """Of random returns, to 1e-9; they sum to nothing."""
    returns_G = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(size))
    found_G = group_advantages(returns_G, scale)
    expected_G = torch.tensor(slow_group(returns_G.tolist(), scale), dtype=torch.float64)
    torch.testing.assert_close(found_G, expected_G, rtol=0, atol=1e-9)
    assert abs(float(found_G.sum())) < 1e-9
    order = torch.randperm(size, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(group_advantages(returns_G[order], scale), found_G[order], rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", ["std", "none", "leave_one_out"])
def test_equal_returns_and_a_group_of_one_have_no_advantage(scale: Scale) -> None:
    """Nothing is divided by nothing."""
    assert group_advantages(torch.full((4,), 0.7), scale).abs().max() < 1e-3
    assert group_advantages(torch.tensor([0.7]), scale).tolist() == [0.0]


def closed_form(rewards: list[float], values: list[float], bootstrap: float, gamma: float, lam: float) -> list[float]:
    """Equation 16: the sum over k of (gamma lam)^k delta_{t + k}, each delta by its definition."""
    after = [*values[1:], bootstrap]
    deltas = [r + gamma * v_after - v for r, v, v_after in zip(rewards, values, after, strict=True)]
    return [
        sum((gamma * lam) ** k * deltas[t + k] for k in range(len(rewards) - t))
        for t in range(len(rewards))
    ]  # fmt: skip


@pytest.mark.parametrize("bootstrap", [0.0, 0.8])
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.7), (0.99, 0.0), (0.97, 1.0), (0.0, 0.5)])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_gae_is_its_closed_form(length: int, gamma: float, lam: float, bootstrap: float) -> None:
    """Terminated (bootstrap 0) or truncated, to 1e-9; returns are advantage and value."""
    generator = torch.Generator().manual_seed(length)
    rewards_T, values_T = (torch.randn(length, dtype=torch.float64, generator=generator) for _ in range(2))
    found = gae(rewards_T, values_T, bootstrap, gamma, lam)
    expected = closed_form(rewards_T.tolist(), values_T.tolist(), bootstrap, gamma, lam)
    torch.testing.assert_close(found.advantages_T, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)
    torch.testing.assert_close(found.returns_T, found.advantages_T + values_T, rtol=0, atol=1e-12)


def test_with_lambda_one_the_target_is_the_discounted_return() -> None:
    """Whatever the critic says meanwhile: what came, and the bootstrap after it."""
    rewards_T = torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)
    values_T = torch.tensor([5.0, -3.0, 0.1], dtype=torch.float64)
    found = gae(rewards_T, values_T, 4.0, gamma=0.5, lam=1.0)
    expected = torch.tensor([1 + 0.25 * 2 + 0.125 * 4, 0.5 * 2 + 0.25 * 4, 2 + 0.5 * 4], dtype=torch.float64)
    torch.testing.assert_close(found.returns_T, expected)


def test_whitening_is_over_all_together() -> None:
    """Mean 0 and deviation 1 over all trajectories, not of each; a lone number is left alone, equal ones become 0.

    So, nearly, do those that differ by rounding. Neither their order nor where one ends matters.
    """
    generator = torch.Generator().manual_seed(0)
    parts = [3 + 2 * torch.randn(n, dtype=torch.float64, generator=generator) for n in (1, 4, 7)]
    found, flat = whiten(parts), torch.cat(parts).tolist()
    mean = sum(flat) / len(flat)
    std = math.sqrt(sum((x - mean) ** 2 for x in flat) / (len(flat) - 1))
    expected = torch.tensor([(x - mean) / (std + 1e-4) for x in flat], dtype=torch.float64)
    torch.testing.assert_close(torch.cat(found), expected, rtol=0, atol=1e-9)
    assert [len(part) for part in found] == [1, 4, 7]
    torch.testing.assert_close(torch.cat(whiten(parts[::-1])[::-1]), expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(torch.cat(whiten(list(torch.cat(parts).split(3)))), expected, rtol=0, atol=1e-9)
    assert whiten([torch.tensor([2.0])])[0].tolist() == [2.0]
    assert torch.cat(whiten([torch.ones(2), torch.ones(3)])).tolist() == [0.0] * 5
    assert torch.cat(whiten([1e-7 * part for part in parts])).abs().max() < 0.01
