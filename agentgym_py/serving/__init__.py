"""Worlds over HTTP: the sessions of a server, and a client that is an environment."""

from agentgym_py.serving.client import RemoteEnv

__all__ = ["RemoteEnv"]
