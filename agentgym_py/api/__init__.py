"""The public functions of `import agentgym_py as ag`; each imports what it needs when called."""

from agentgym_py.api.episodes import (
    Result,
    certify,
    collect,
    compare,
    compare_anytime,
    evaluate,
    first_faults,
    make,
    measure_credit,
)
from agentgym_py.api.learning import evolve, fork, judge, prove, train

__all__ = [
    "Result", "certify", "collect", "compare", "compare_anytime", "evaluate", "evolve", "first_faults", "fork",
    "judge", "make", "measure_credit", "prove", "train",
]  # fmt: skip
