"""Trajectories: types, the store, selection, preference pairs and file formats."""

from agentgym_py.env import StopReason
from agentgym_py.trajectory.types import Provenance, Step, Tokens, Trajectory

__all__ = ["Provenance", "Step", "StopReason", "Tokens", "Trajectory"]
