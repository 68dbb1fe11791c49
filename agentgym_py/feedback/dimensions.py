"""Scores made of dimensions: their weights, and the weighted mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agentgym_py.checks import is_finite
from agentgym_py.errors import ConfigError, did_you_mean


def require_weights(weights: Mapping[str, float], names: Mapping[str, object] | Sequence[str]) -> None:
    """Raise ConfigError unless these are weights of some of the names, none negative and not all of them 0."""
    for name, weight in weights.items():
        if name not in names:
            raise ConfigError(f"weights: no dimension {name!r}.{did_you_mean(name, names, 'There are')}")
        if not (is_finite(weight) and weight >= 0):
            raise ConfigError(f"weights: {name} must be a number of at least 0, got {weight}")
    if not any(weights.values()):
        raise ConfigError("weights must not all be 0")


def weighted_mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the weighted mean of the values; one without a weight does not count."""
    total = math.fsum(weights.get(name, 0.0) for name in values)
    mean = math.fsum(weights.get(name, 0.0) * value for name, value in values.items()) / total
    return min(1.0, max(0.0, mean))
