"""What the adapters of originals have in common: the package is imported late, and its engine lists actions and plans.

An adapter is one file: `agentgym_babyai.py` is the shortest.
"""

from __future__ import annotations

from abc import abstractmethod
from importlib import import_module
from typing import Any, Protocol

from agentgym_py.env import SPLITS, StopReason
from agentgym_py.env.foreign import ForeignEnv, ForeignSession
from agentgym_py.env.tracebacks import contained
from agentgym_py.errors import ConfigError, InfrastructureError


class OriginalSession(ForeignSession, Protocol):
    """An engine with one episode at a time."""

    def actions(self) -> list[str]:
        """List the actions that can be done now."""

    def plan(self) -> list[str]:
        """Return what the original's expert would do from here; empty if it knows nothing."""


class OriginalEnv(ForeignEnv):
    """A world that another package runs on this machine.

    Snapshots repeat the actions of an episode, as in every `ForeignEnv`, so their time grows with the episode.
    """

    @abstractmethod
    def connect(self) -> OriginalSession:
        """Start an engine, or take one that waits."""

    def actions(self) -> list[str]:
        """List the actions that the original admits now."""
        return self._ask("lists no actions", "actions")

    def expert(self) -> list[str]:
        """Return what the original's expert would do from here; empty if it knows nothing."""
        return self._ask("has no plan", "plan")

    def _ask(self, failure: str, question: str) -> list[str]:
        self._require_reset()
        if self.stop_reason is StopReason.TERMINATED:
            return []
        if self._session is None:
            raise InfrastructureError("the session is lost or closed; reset() opens a new one")
        with contained(f"{self.name} {failure}"):
            answer: list[str] = getattr(self._session, question)()
        return answer


def import_original(world: str, package: str, module: str) -> Any:
    """Import a module of an original; ConfigError if its package is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"{world} needs the original, {package}: pip install {package} ({error})") from error


def seed_of_task(split: str, number: int) -> int:
    """Return the seed of a task, for an original without splits; no seed is of two splits."""
    return len(SPLITS) * number + SPLITS.index(split)
