"""A model and its tokens: loading, adapters, the chat format, tokens and log-probabilities."""

from agentgym_py.policy.policy import Policy

__all__ = ["Policy"]
