"""Envs that are used again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentgym_py.collection.watchdog import Watchdog
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.errors import InfrastructureError


class EnvPool:
    """Idle envs by their spec, for one thread; `watchdog` times how long an env takes to close."""

    def __init__(self, watchdog: Watchdog | None = None) -> None:
        self._free: dict[str, list[TextEnv]] = defaultdict(list)
        self._owned: set[TextEnv] = set()
        self._at_work: TextEnv | None = None
        self._watchdog = watchdog or Watchdog()

    def take(self, spec: EnvSpec) -> TextEnv:
        """Return an idle env, or make one."""
        free = self._free[spec.key]
        if free:
            return free.pop()
        env = spec.make()
        self._owned.add(env)
        return env

    def give(self, spec: EnvSpec, env: TextEnv) -> None:
        """Keep an env for the next episode with the same spec."""
        self._free[spec.key].append(env)

    @contextmanager
    def lent(self, spec: EnvSpec) -> Iterator[TextEnv]:
        """Lend an env; it returns to the pool unless an error is raised."""
        env = self.take(spec)
        try:
            yield env
        except SystemExit as error:
            self.drop(env)
            raise InfrastructureError(f"the world raised {error!r}") from error
        except BaseException:
            self.drop(env)
            raise
        self.give(spec, env)

    def drop(self, env: TextEnv) -> None:
        """Close an env that failed, because its state is unknown."""
        self._owned.discard(env)
        with suppress(Exception), self._watchdog:  # it is broken: a failing close is no news
            env.close()
        self._watchdog.require_descriptors()

    @contextmanager
    def at_work(self, env: TextEnv) -> Iterator[None]:
        """Mark an env of this pool as at work."""
        self._at_work = env
        try:
            yield
        finally:
            self._at_work = None

    def movable(self) -> set[TextEnv]:
        """Return the envs, in use or idle, that are not at work."""
        return self._owned - {self._at_work}

    def split_off(self, envs: set[TextEnv], watchdog: Watchdog) -> EnvPool:
        """Move envs, among them all idle ones, to a new pool for another thread."""
        pool = EnvPool(watchdog)
        pool._owned, pool._free = envs, self._free
        self._owned -= envs
        self._free = defaultdict(list)
        return pool

    def close(self) -> None:
        """Close every env, including those in use."""
        self._free.clear()
        for env in tuple(self._owned):
            self.drop(env)
