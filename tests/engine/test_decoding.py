from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentgym_py.engine import SamplingParams  # torch first, or skip
from agentgym_py.engine.decoding import draw, inverse_cdf, processed_logprobs


def test_truncation_keeps_what_it_says() -> None:
    """top-k keeps k tokens, top-p the fewest that reach p after top-k, and the rest is renormalised."""
    logits = torch.tensor([[0.5, 0.1, 0.3, 0.1]]).log()
    kept = processed_logprobs(logits, SamplingParams(top_k=2)).exp()
    np.testing.assert_allclose(kept, [[0.625, 0, 0.375, 0]], atol=1e-6)
    kept = processed_logprobs(logits, SamplingParams(top_p=0.75)).exp()
    np.testing.assert_allclose(kept, [[0.625, 0, 0.375, 0]], atol=1e-6)
    kept = processed_logprobs(logits, SamplingParams(top_p=0.6, top_k=2)).exp()
    np.testing.assert_allclose(kept, [[1, 0, 0, 0]], atol=1e-6)
    kept = processed_logprobs(logits, SamplingParams(top_p=1e-9)).exp()
    np.testing.assert_allclose(kept, [[1, 0, 0, 0]], atol=1e-6)
    hot = processed_logprobs(logits, SamplingParams(temperature=0.5)).exp()
    np.testing.assert_allclose(hot, np.array([[25, 1, 9, 1]]) / 36, atol=1e-6)


def test_inverse_cdf_never_takes_an_impossible_token() -> None:
    """Uniforms at both ends of [0, 1) take the first and last token of positive probability."""
    probs = torch.tensor([[0.0, 0.3, 0.0, 0.7, 0.0]]).expand(4, 5)
    uniforms = torch.tensor([0.0, 0.29, 0.31, 1 - 1e-12], dtype=torch.float64)
    assert inverse_cdf(probs, uniforms)[0].tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_are_drawn_from_without_harm(wrong: float, temperature: float) -> None:
    """Their log-probability is no number either; the rows beside them are drawn as ever."""
    logits = torch.zeros(3, 5)
    logits[1, 2] = wrong
    params = SamplingParams(temperature=temperature)
    found = draw(logits, torch.full((3,), 0.5, dtype=torch.float64), params)
    alone = draw(logits[:1], torch.full((1,), 0.5, dtype=torch.float64), params)
    assert found.logprobs.isfinite().tolist() == [True, False, True] and found.tokens.max() < 5
    assert found.tokens[0] == alone.tokens[0] and found.logprobs[0] == alone.logprobs[0]
