from __future__ import annotations

import pytest

from agentgym_py.engine import SamplingParams
from agentgym_py.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -1),
        ("max_new_tokens", 0),
    ],
)
def test_sampling_params_are_checked(name: str, value: float) -> None:
    """A value out of range is refused by name."""
    with pytest.raises(ConfigError, match=name):
        SamplingParams(**{name: value})  # type: ignore[arg-type]  # the point of the test
