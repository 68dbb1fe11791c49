"""How replies are sampled from a policy; without torch, because a command line builds these before it loads a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from agentgym_py.checks import is_finite, require_field_types
from agentgym_py.errors import ConfigError

MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-4, 10.0
"""Below the least one, other than 0, logits may overflow; above the largest one tokens are drawn almost uniformly."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one reply is sampled. Truncation is applied in the order temperature, `top_k`, `top_p`, as vLLM does."""

    temperature: float = 1.0
    """Divides the logits; 0 takes the likeliest token (greedy)."""
    top_p: float = 1.0
    """Keep the fewest likeliest tokens whose probabilities reach this sum; 1 keeps all."""
    top_k: int = 0
    """Keep this many likeliest tokens; 0 keeps all."""
    max_new_tokens: int = 64
    """Largest number of tokens of a reply; a longer one is cut."""

    def __post_init__(self) -> None:
        require_field_types(self)
        if not (is_finite(self.temperature) and self.temperature >= 0):
            raise ConfigError(f"temperature must be 0 (greedy) or more, got {self.temperature!r}")
        if 0 < self.temperature < MIN_TEMPERATURE:
            raise ConfigError(
                f"temperature must be 0 (greedy) or at least {MIN_TEMPERATURE:g}, got {self.temperature!r}"
            )
        if self.temperature > MAX_TEMPERATURE:
            raise ConfigError(f"temperature must be at most {MAX_TEMPERATURE:g}, got {self.temperature!r}")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be above 0 and at most 1, got {self.top_p!r}")
        if self.top_k < 0:
            raise ConfigError(f"top_k must be 0 (off) or more, got {self.top_k!r}")
        if self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens must be at least 1, got {self.max_new_tokens!r}")

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature == 0

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON, for a trajectory's provenance."""
        return asdict(self)


def seeds_for(prompts: Sequence[Any], seeds: Sequence[int] | None, generator: np.random.Generator) -> Sequence[int]:
    """Return one seed per prompt: the given ones, or else new ones of the generator."""
    if seeds is None:
        return [int(seed) for seed in generator.integers(2**63, size=len(prompts))]
    if len(seeds) != len(prompts):
        raise ConfigError(f"{len(prompts)} prompts need as many seeds, got {len(seeds)}")
    return seeds
