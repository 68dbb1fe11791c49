from __future__ import annotations

import pytest

from agentgym_py.engine import SamplingParams
from agentgym_py.engine.sampling import MIN_TEMPERATURE
from agentgym_py.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("temperature", 1e-39),
        ("temperature", 9e-5),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -1),
        ("max_new_tokens", 0),
        ("max_new_tokens", 2.5),
        ("max_new_tokens", True),
        ("top_k", 1.5),
        ("top_k", True),
        ("top_p", True),
        ("temperature", True),
        ("temperature", "1"),
    ],
)
def test_sampling_params_are_checked(name: str, value: object) -> None:
    """A value out of range or of another type is refused by name."""
    with pytest.raises(ConfigError, match=name):
        SamplingParams(**{name: value})  # type: ignore[arg-type]  # the point of the test


def test_the_least_temperature_gives_finite_logprobs() -> None:
    """Large logits do not overflow; it draws the likeliest token, as 0 does."""
    torch = pytest.importorskip("torch")
    from agentgym_py.engine.decoding import draw

    params = SamplingParams(temperature=MIN_TEMPERATURE)
    tokens, logprobs = draw(torch.tensor([[1e4, -1e4, 9e3]]), torch.tensor([0.5]), params)
    assert tokens.tolist() == [0] and logprobs.tolist() == [0.0]
