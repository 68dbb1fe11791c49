"""Environments over HTTP: a server with sessions, and a client that is an environment."""

from agentgym_py.serving.client import RemoteEnv

__all__ = ["RemoteEnv"]
