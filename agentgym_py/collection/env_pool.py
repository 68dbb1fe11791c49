"""Environments that are used again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from agentgym_py.collection.watchdog import Watch
from agentgym_py.env import TextEnv

if TYPE_CHECKING:
    from agentgym_py.env import EnvSpec


class EnvPool:
    """Environments that wait to be used again, by what makes them; `watch` times how long one takes to be closed."""

    def __init__(self, watch: Watch | None = None) -> None:
        self._free: dict[str, list[TextEnv]] = defaultdict(list)
        self._made: set[TextEnv] = set()
        self._watch = watch or Watch()

    def take(self, spec: EnvSpec) -> TextEnv:
        """A free environment, or a fresh one."""
        free = self._free[spec.key]
        if free:
            return free.pop()
        env = spec.make()
        self._made.add(env)
        return env

    def give(self, spec: EnvSpec, env: TextEnv) -> None:
        """Keep an environment for the next who wants one like it."""
        self._free[spec.key].append(env)

    @contextmanager
    def lent(self, spec: EnvSpec) -> Iterator[TextEnv]:
        """An environment that comes back, unless something is raised."""
        env = self.take(spec)
        try:
            yield env
        except BaseException:
            self.drop(env)
            raise
        self.give(spec, env)

    def drop(self, env: TextEnv) -> None:
        """Close an environment that failed: nobody knows what state it is in."""
        self._made.discard(env)
        with suppress(Exception), self._watch:  # it is broken: that it cannot be closed either is no news
            env.close()

    def close(self) -> None:
        """Close every environment, those in use too."""
        self._free.clear()
        for env in tuple(self._made):
            self.drop(env)
