"""Agents: a model, the expert, a random agent, a person, or a model behind an API."""

from agentgym_py.agents.base import Agent, AgentReply, Episode
from agentgym_py.agents.expert import ExpertAgent
from agentgym_py.agents.model import ModelAgent
from agentgym_py.agents.random import RandomAgent

__all__ = ["Agent", "AgentReply", "Episode", "ExpertAgent", "ModelAgent", "RandomAgent"]
