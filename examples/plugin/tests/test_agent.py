from __future__ import annotations

import pytest

from agentgym_py import registry
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError
from agentgym_py.evaluation import evaluate

Clumsy = registry.load("agentgym.agents", "clumsy")


def test_it_fails_as_often_as_it_slips() -> None:
    """Never without slips, nearly always with nothing else; the same again with the same seed."""
    rates = []
    for slips in (0.0, 0.1, 0.1, 1.0):
        found, _ = evaluate(Clumsy(slips), [EnvSpec("oddcoin")], "test", range(60))
        rates.append(found.success.value)
    assert rates[0] == 1.0 > rates[1] == rates[2] > rates[3]


def test_a_share_is_a_share() -> None:
    """More than always is refused."""
    with pytest.raises(ConfigError, match="slips"):
        Clumsy(1.5)
