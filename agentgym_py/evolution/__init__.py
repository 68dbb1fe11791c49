"""AgentEvol: rounds of explore, select, evolve and evaluate, in a run folder."""

from agentgym_py.evolution.config import EvolveConfig
from agentgym_py.evolution.evolution import Evolution

__all__ = ["Evolution", "EvolveConfig"]
