"""The public functions of `import agentgym_py as ag`; each imports what it needs when called."""

from agentgym_py.api.episodes import Result, collect, compare, credit, evaluate, first_faults, make
from agentgym_py.api.learning import evolve, fork, judge, train

__all__ = [
    "Result", "collect", "compare", "credit", "evaluate", "evolve", "first_faults", "fork", "judge", "make", "train",
]  # fmt: skip
