"""What happened in an episode: its types, the store, selection, preferences and the formats read and written."""

from agentgym_py.env import StopReason
from agentgym_py.trajectory.types import Provenance, Step, Tokens, Trajectory

__all__ = ["Provenance", "Step", "StopReason", "Tokens", "Trajectory"]
