"""Prove a trainer: its gradients and its learning, against exact truth on a table."""

from agentgym_py.proof.checks import ALPHA, CHECKS, MIN_GAIN
from agentgym_py.proof.proof import CurvePoint, Proof, Result, prove

__all__ = ["ALPHA", "CHECKS", "MIN_GAIN", "CurvePoint", "Proof", "Result", "prove"]
