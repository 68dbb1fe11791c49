"""ScienceWorld's engines, each a Java process, which serve one episode after another."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

_SECONDS = 20
"""Seconds in which a Java process must end."""


class Engines:
    """The engines of an environment, and what it knows of its task.

    Args:
        package: the module `scienceworld`.
        task: name of the task.
        simplifications: names of ScienceWorld's simplifications, with commas.
    """

    def __init__(self, package: Any, task: str, simplifications: str) -> None:
        self._package, self._task, self._simplifications = package, task, simplifications
        self._waiting = list[Any]()
        self._gold = dict[int, list[str]]()

    def take(self) -> Any:
        """Return an engine that waits, or start one."""
        return self._waiting.pop() if self._waiting else self._package.ScienceWorldEnv()

    def put_back(self, engine: Any) -> None:
        """Keep an engine for the next episode."""
        if engine._gateway.java_process.poll() is None:
            self._waiting.append(engine)

    def load(self, engine: Any, variation: int, gold: bool = False) -> None:
        """Load a variation of the task into an engine, with or without its gold path."""
        engine.load(self._task, variation, self._simplifications, gold)

    @cached_property
    def variations(self) -> Mapping[str, list[int]]:
        """The variations of each split."""
        engine = self.take()
        self.load(engine, 0)
        found = {
            "train": engine.get_variations_train(), "valid": engine.get_variations_dev(),
            "test": engine.get_variations_test(),
        }  # fmt: skip
        self.put_back(engine)
        return found

    def gold_path(self, variation: int) -> list[str]:
        """Return ScienceWorld's solution of a variation."""
        if variation not in self._gold:
            engine = self.take()
            self.load(engine, variation, gold=True)
            self._gold[variation] = engine.get_gold_action_sequence()
            self.put_back(engine)
        return self._gold[variation]

    def close(self) -> None:
        """End the processes."""
        while self._waiting:
            engine = self._waiting.pop()
            engine.close()
            engine._gateway.java_process.wait(_SECONDS)
