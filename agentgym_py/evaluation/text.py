"""Estimates as text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from agentgym_py.evaluation.stats import LEAST_SAMPLE, Estimate
from agentgym_py.trajectory import Trajectory


def interval(estimate: Estimate) -> str:
    """`41.3 % [36, 47]`, or a dash where no episode counted."""
    if not estimate.n:
        return "–"
    return f"{100 * estimate.value:.1f} % [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"


def few(estimate: Estimate) -> str:
    """`only 4 tasks`, or nothing where there are enough."""
    return f"only {estimate.n} task{'' if estimate.n == 1 else 's'}" if estimate.small else ""


def left(given_up: int) -> str:
    """`3 episodes given up`, or nothing where there is none."""
    return f"{given_up} episode{'' if given_up == 1 else 's'} given up" if given_up else ""


def lost(played: Iterable[Trajectory]) -> str:
    """How many episodes an infrastructure failure ended, and the most frequent reason; nothing where there is none."""
    why = Counter(each.error or "no reason given" for each in played if not each.is_evidence)
    if not why:
        return ""
    (reason, number), episodes = why.most_common(1)[0], f"{why.total()} episode{'s' * (why.total() > 1)}"
    return f"{episodes} ended by an infrastructure failure and left out; {number} of them: {reason}"


def percent(estimate: Estimate) -> str:
    """`41.3 % [36, 47]`, and `(only 4 tasks)` behind it where there are few."""
    return interval(estimate) + (f" ({few(estimate)})" if estimate.small else "")


def decimal(estimate: Estimate) -> str:
    """`0.612 [0.54, 0.67]`, or why there is no interval."""
    if not estimate.n:
        return "–"
    if math.isnan(estimate.low):
        return f"{estimate.value:.3f} ({'n too small' if estimate.n < LEAST_SAMPLE else 'all equal'})"
    return f"{estimate.value:.3f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def decoding(sampling: Mapping[str, Any]) -> str:
    """`, greedy` or `, sampled at temperature 0.7` of a model: different questions; nothing of others."""
    temperature = sampling.get("temperature")
    if temperature is None:
        return ""
    return f", sampled at temperature {temperature:g}" if temperature else ", greedy"
