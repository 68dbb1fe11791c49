"""Collection on a cluster: actors of Ray that play, wherever the cluster has room for them (the extra `ray`)."""

from __future__ import annotations

import gc
import logging
import os
import socket
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

from agentgym_py.collection.executor import Ongoing, Share, said_of, shares
from agentgym_py.collection.processes import Workers
from agentgym_py.errors import ConfigError
from agentgym_py.registry import install_advice

if TYPE_CHECKING:
    from agentgym_py.collection import Collector, Job
    from agentgym_py.trajectory import Trajectory

_PATIENCE = 60.0
"""Seconds without an episode after which it is said what the cluster has free."""
_ANSWER = 10.0
"""Seconds in which a cluster lets itself be connected to."""


class Player:
    """What an actor is: environments and an engine of its own, so that only jobs and trajectories go over the network.

    A world that may be late runs in a process beside it, which can be ended.
    """

    def __init__(self) -> None:
        self._beside = Workers(1)

    def play(self, collector: Collector, share: Share) -> Iterator[tuple[int, Trajectory] | Exception]:
        """What is to be said of a share, as it comes."""
        gc.collect()  # the last ones' model and engine, which hold each other
        yield from said_of(replace(collector, workers=self._beside), share)


class RayWorkers:
    """`number` actors of Ray, each of which plays a fixed share of the jobs with a copy of the agent.

    As `Workers` do: the same jobs come out the same to the bit with as many actors, and but for how sums round with
    any number. An actor that dies, or whose machine does, is replaced, and its share played again. Who has not called
    `ray.init` is connected to `address`, or to the cluster of the variable RAY_ADDRESS or of `ray start` on this
    machine, or else a Ray of this machine alone is started. This package and the worlds must be installed on all
    machines, in equal versions.

    Args:
        number: How many actors.
        address: The cluster, as `ray.init` takes it.
        cpus: Cores that each takes.
        gpus: GPUs that each takes; for an agent on a GPU.

    Raises:
        ConfigError: ray is not installed; a number below 1; the cluster has no room for so many.
    """

    def __init__(self, number: int, *, address: str | None = None, cpus: float = 1.0, gpus: float = 0.0) -> None:
        if find_spec("ray") is None:
            raise ConfigError(f"actors need ray, of the extra `ray`: {install_advice('ray')}")
        if number < 1:
            raise ConfigError(f"a number of actors must be at least 1, got {number}")
        self.number, self._address = number, address
        self._wanted = {"CPU": cpus, "GPU": gpus}
        self._actors: dict[int, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the actors, whatever they are doing; the cluster stays."""
        import ray

        for actor in self._actors.values():
            ray.kill(actor)
        self._actors = {}

    def worth(self, jobs: Sequence[Job]) -> bool:
        """Always: who asks for a cluster gets it."""
        return True

    def stream(self, collector: Collector, jobs: Sequence[Job]) -> Iterator[tuple[int, Trajectory]]:
        """Play every job; (number of the job, trajectory) as they end.

        Raises:
            WorkerError: actors died again and again.
            AgentGymError, or what else the collector raised there.
        """
        import ray

        self._connect()
        alone = replace(collector, workers=None, slots=-(-collector.slots // self.number))
        sent = ray.put(alone)  # once to each machine
        busy = {k: Ongoing(alone, given) for k, given in enumerate(shares(jobs, self.number)) if given}
        try:
            heard = {self._give(k, sent, share.given): k for k, share in busy.items()}
            patience: float | None = _PATIENCE
            while heard:
                there, _ = ray.wait(list(heard), num_returns=1, timeout=patience)
                patience = None
                if not there:
                    self._say_what_is_free()
                    continue
                (first,) = there
                k = heard[first]
                try:
                    said = ray.get(next(first))
                except StopIteration:
                    del heard[first]
                except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
                    del heard[first], self._actors[k]
                    yield from busy[k].died(f"({str(error).splitlines()[0]})")
                    if busy[k].given:
                        heard[self._give(k, sent, busy[k].given)] = k
                else:
                    yield from busy[k].heard(said)
        except BaseException:
            self.close()
            raise

    def _give(self, k: int, collector: Any, share: Share) -> Any:
        """Let actor `k` play a share; what it will say."""
        import ray

        if k not in self._actors:
            room = ray.remote(num_cpus=self._wanted["CPU"], num_gpus=self._wanted["GPU"])
            self._actors[k] = room(Player).remote()
        return self._actors[k].play.options(num_returns="streaming").remote(collector, share)

    def _say_what_is_free(self) -> None:
        """Ray waits for room without a word."""
        import ray

        free = ray.available_resources()
        wants = ", ".join(
            f"{each:g} {name}s, {free.get(name, 0):g} free" for name, each in self._wanted.items() if each
        )
        warnings.warn(
            f"no episode has ended in {_PATIENCE:g} s: actors wait for room in the cluster (each wants {wants}), or "
            "their episodes take long; to wait on costs nothing",
            stacklevel=2,
        )

    def _connect(self) -> None:
        import ray

        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if not ray.is_initialized():
            _check_somebody_answers(self._address or os.environ.get("RAY_ADDRESS", ""))
            try:
                ray.init(self._address, include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
            except (ConnectionError, ValueError, ray.exceptions.RayError) as error:
                raise ConfigError(f"no Ray cluster: {error}") from error
        there = ray.cluster_resources()
        for name, each in self._wanted.items():
            if self.number * each > there.get(name, 0):
                raise ConfigError(
                    f"{self.number} actors want {self.number * each:g} {name}s, the cluster has {there.get(name, 0):g}"
                )


def _check_somebody_answers(address: str) -> None:
    """Ray itself would try for minutes, without a word."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER).close()
        except (OSError, OverflowError, UnicodeError) as error:
            raise ConfigError(f"no Ray cluster answers at {address}: {error}") from error
