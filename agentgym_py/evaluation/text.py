"""Format estimates and notes on them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from agentgym_py.evaluation.stats import MIN_BOOTSTRAP, Estimate
from agentgym_py.trajectory import Trajectory


def format_interval(rate: Estimate) -> str:
    """Return `41.3 % [36, 47]`, or a dash without data."""
    if not rate.n:
        return "–"
    return f"{100 * rate.value:.1f} % [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def format_rate(rate: Estimate) -> str:
    """Return `41.3 % [36, 47]`, with the note of a small sample: `(only 4 tasks)`."""
    return format_interval(rate) + (f" ({small_sample_note(rate)})" if rate.small else "")


def format_mean(mean: Estimate) -> str:
    """Return `0.612 [0.54, 0.67]`, or the reason why there is no interval."""
    if not mean.n:
        return "–"
    if math.isnan(mean.low):
        return f"{mean.value:.3f} ({'n too small' if mean.n < MIN_BOOTSTRAP else 'all equal'})"
    return f"{mean.value:.3f} [{mean.low:.2f}, {mean.high:.2f}]"


def small_sample_note(estimate: Estimate) -> str:
    """Return `only 4 tasks`, or nothing if there are enough."""
    return f"only {estimate.n} task{'' if estimate.n == 1 else 's'}" if estimate.small else ""


def given_up_note(number: int) -> str:
    """Return `3 episodes given up`, or nothing."""
    return f"{number} episode{'' if number == 1 else 's'} given up" if number else ""


def failure_note(trajectories: Iterable[Trajectory]) -> str:
    """Return how many episodes infrastructure failures ended, with the most frequent reason; or nothing."""
    reasons = Counter(t.error or "no reason given" for t in trajectories if not t.is_evidence)
    if not reasons:
        return ""
    (reason, number), total = reasons.most_common(1)[0], reasons.total()
    episodes = f"{total} episode{'s' * (total > 1)}"
    return f"{episodes} ended by an infrastructure failure and left out; {number} of them: {reason}"


def decoding_label(sampling: Mapping[str, Any]) -> str:
    """Return `, greedy` or `, sampled at temperature 0.7` for a model, nothing for other agents."""
    temperature = sampling.get("temperature")
    if temperature is None:
        return ""
    return f", sampled at temperature {temperature:g}" if temperature else ", greedy"
