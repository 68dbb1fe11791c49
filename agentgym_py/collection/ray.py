"""Collection on a cluster: actors of Ray that play, wherever the cluster has room for them (the extra `ray`)."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Self

from agentgym_py.agents import Agent
from agentgym_py.collection.executor import Assignment, Message, Share, deal, portable
from agentgym_py.collection.job import Job
from agentgym_py.collection.play_config import PlayConfig
from agentgym_py.collection.processes import Workers, stream_near
from agentgym_py.errors import ConfigError
from agentgym_py.policy.memory import release_memory
from agentgym_py.registry import install_advice
from agentgym_py.trajectory import Trajectory

_PATIENCE = 60.0
"""Seconds without an episode after which a warning says what the cluster has free."""
_ANSWER = 10.0
"""Seconds in which a cluster must accept a connection."""


class Player:
    """An actor with its own envs and engine, so that only jobs and trajectories cross the network.

    Envs that may be late, or that may have ended an earlier actor, run in a process beside it, which can be killed.
    """

    def __init__(self) -> None:
        self._beside = Workers(1)

    def play(self, local: tuple[Agent, PlayConfig], share: Share, has_died: bool = False) -> Iterator[Message]:
        """Play a share and yield what to report; `has_died`: an actor died at it."""
        release_memory()  # of the last model and engine
        try:
            for at, trajectory in stream_near(*local, [job for _, job in share], self._beside, has_died):
                yield share[at][0], trajectory
        except Exception as error:
            yield portable(error)


class RayWorkers:
    """`number` actors of Ray, each of which plays a fixed share of the jobs with a copy of the agent.

    As with `Workers`, the same jobs give bit-identical trajectories with the same number of actors; another number
    changes rounding. An actor that dies, or whose machine does, is replaced, and its share is played again.
    Unless `ray.init` was called, the cluster is `address`, else that of the variable RAY_ADDRESS or of `ray start` on
    this machine, else a Ray of this machine alone is started. This package and the envs must be installed on all
    machines in equal versions.

    Args:
        number: How many actors.
        address: The cluster, as `ray.init` takes it.
        cpus: Cores that each takes.
        gpus: GPUs that each takes; for an agent on a GPU.

    Raises:
        ConfigError: ray is not installed; a number below 1; the cluster has no room for the actors.
    """

    def __init__(self, number: int, *, address: str | None = None, cpus: float = 1.0, gpus: float = 0.0) -> None:
        if find_spec("ray") is None:
            raise ConfigError(f"actors need ray, of the extra `ray`: {install_advice('ray')}")
        if number < 1:
            raise ConfigError(f"a number of actors must be at least 1, got {number}")
        self.number, self._address = number, address
        self._needs = {"CPU": cpus, "GPU": gpus}
        self._actors: dict[int, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the actors, whatever they are doing; the cluster stays."""
        import ray

        for actor in self._actors.values():
            ray.kill(actor)
        self._actors = {}

    def is_worthwhile(self, jobs: Sequence[Job]) -> bool:
        """Return True: a cluster was asked for."""
        return True

    def stream(self, agent: Agent, config: PlayConfig, jobs: Sequence[Job]) -> Iterator[tuple[int, Trajectory]]:
        """Play every job; yield (index of the job, trajectory) as episodes end.

        Raises:
            WorkerError: actors died again and again.
            AgentGymError, or whatever else was raised there.
        """
        import ray

        self._connect()
        local = config.per_process(self.number)
        sent = ray.put((agent, local))  # once to each machine
        busy = {k: Assignment(agent, local, share) for k, share in enumerate(deal(jobs, self.number)) if share}
        try:
            streams = {self._send(k, sent, assignment): k for k, assignment in busy.items()}
            patience: float | None = _PATIENCE
            while streams:
                ready, _ = ray.wait(list(streams), num_returns=1, timeout=patience)
                patience = None
                if not ready:
                    self._warn_of_waiting()
                    continue
                (first,) = ready
                k = streams[first]
                try:
                    message = ray.get(next(first))
                except StopIteration:
                    del streams[first]
                except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
                    del streams[first], self._actors[k]
                    yield from busy[k].worker_died(f"({str(error).splitlines()[0]})")
                    if busy[k].share:
                        streams[self._send(k, sent, busy[k])] = k
                else:
                    yield from busy[k].receive(message)
        except BaseException:
            self.close()
            raise

    def _send(self, k: int, local: Any, assignment: Assignment) -> Any:
        """Let actor `k` play a share; return the stream of its messages."""
        import ray

        if k not in self._actors:
            room = ray.remote(num_cpus=self._needs["CPU"], num_gpus=self._needs["GPU"])
            self._actors[k] = room(Player).remote()
        has_died = bool(assignment.deaths)
        return self._actors[k].play.options(num_returns="streaming").remote(local, assignment.share, has_died)

    def _warn_of_waiting(self) -> None:
        """Warn, because Ray waits for room silently."""
        import ray

        free = ray.available_resources()
        needs = ", ".join(
            f"{number:g} {name}s, {free.get(name, 0):g} free" for name, number in self._needs.items() if number
        )
        warnings.warn(
            f"no episode has ended in {_PATIENCE:g} s: actors wait for room in the cluster (each needs {needs}), or "
            "their episodes take long; waiting costs nothing",
            stacklevel=2,
        )

    def _connect(self) -> None:
        import ray

        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if not ray.is_initialized():
            _require_answer(self._address or os.environ.get("RAY_ADDRESS", ""))
            try:
                with _own_sigterm_handler():
                    ray.init(self._address, include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
            except (ConnectionError, ValueError, ray.exceptions.RayError) as error:
                raise ConfigError(f"no Ray cluster: {error}") from error
        resources = ray.cluster_resources()
        for name, needed in self._needs.items():
            if (total := self.number * needed) > (room := resources.get(name, 0)):
                raise ConfigError(f"{self.number} actors want {total:g} {name}s, the cluster has {room:g}")


@contextmanager
def _own_sigterm_handler() -> Iterator[None]:
    """Keep the process's own handler of SIGTERM, which `ray.init` replaces by one that exits with status 15."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _require_answer(address: str) -> None:
    """Raise ConfigError when no cluster answers; Ray itself would try for minutes, silently."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER).close()
        except (OSError, OverflowError, UnicodeError) as error:
            raise ConfigError(f"no Ray cluster answers at {address}: {error}") from error
