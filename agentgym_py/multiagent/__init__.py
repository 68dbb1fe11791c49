"""Worlds of several agents: games whose roles take turns and write to each other."""

from agentgym_py.multiagent.env import MultiAgentEnv
from agentgym_py.multiagent.game import Game, Match

__all__ = ["Game", "Match", "MultiAgentEnv"]
