"""Checks of what a world takes: no global generator, no memory for good, and how long it needs."""

from __future__ import annotations

import gc
import os
import random  # noqa: TID251  # to see that nobody else uses it
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from agentgym_py.rng import Rng
from agentgym_py.testing.subject import NONSENSE, NotApplicableError, Subject, any_action

_QUARTERS = 4
_STEPS = 12
_NOISE = 16 << 10
_RESIDENT_NOISE = 16 << 20
_REMEMBERED, _CACHES = 64 << 10, 64 << 20
"""Bytes that a world may keep of a task that it has met, or in all: its caches are its own affair, up to here."""
_MEASURED_SECONDS = 0.7


def global_generators(subject: Subject) -> None:
    """Neither `random`'s nor numpy's nor torch's global generator is used or seeded, from making to closing."""
    for seed in subject.seeds(subject.settings.few):
        before = _generators()
        play = subject.play(subject.make())
        play.reset(seed)
        play.wander(subject.rng("globals", seed), 10)
        if not play.ended:
            play.follow(play.expert())
        play.env.restore(play.snapshot())
        play.env.reset()
        play.env.close()
        changed = [name for name, state in _generators().items() if before.get(name, state) != state]
        play.need(not changed, f"the global generator of {' and '.join(changed)} is used in this episode")


def _generators() -> dict[str, Any]:
    states: dict[str, Any] = {"random": random.getstate(), "numpy.random": repr(np.random.get_state())}  # noqa: NPY002  # to see that nobody else uses it
    torch = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = bytes(torch.get_rng_state().numpy())
    return states


# -------------------------------------------------------------------------------------------------------------- memory


def memory(subject: Subject) -> None:
    """Over thousands of episodes in one instance memory stays flat.

    A quarter of the episodes is played four times, to the letter: the first time caches may fill, and in the last one,
    which tracemalloc has watched since the third began, nothing may remain. The resident size shows what Python does
    not know of. What is remembered of each new task, as the report says it, is a fault beyond `_REMEMBERED` and
    `_CACHES`.
    """
    quarter = subject.settings.memory_episodes // _QUARTERS
    if quarter < 1:
        raise NotApplicableError("memory_episodes is 0")
    player = _Player(subject, quarter)
    player.play_quarter()
    grown = _Growth()
    player.play_quarter()
    resident = grown.resident()
    with _traced():
        player.play_quarter()
        grown = _Growth()
        player.play_quarter()
        kept = grown.traced()
        resident = min(resident, grown.resident())
    remembered = player.first_growth / quarter
    subject.notes.append(
        f"{kept:+,} bytes in the last {quarter:,} episodes, {remembered / 1024:.1f} KiB for a new task"
    )
    subject.need(
        kept <= _NOISE, f"{kept / quarter:.1f} bytes an episode stay: {kept:,} in the last {quarter:,} episodes"
    )
    subject.need(resident <= _RESIDENT_NOISE, f"the process grows by {resident:,} bytes in {quarter:,} episodes")
    much = f"{remembered / 1024:.0f} KiB stay for each new task: a cache without bounds?"
    subject.need(player.first_growth <= max(_REMEMBERED * quarter, _CACHES), much)


class _Player:
    """The same episodes again and again, with all that costs memory."""

    def __init__(self, subject: Subject, quarter: int) -> None:
        self.subject, self.env, self.seeds = subject, subject.make(), subject.seeds(quarter)
        self._episode(self.seeds[0])  # loads what the world loads once
        self._before = _Growth()
        self.first_growth = -1
        """Bytes of the process that came with the first quarter."""

    def play_quarter(self) -> None:
        for seed in self.seeds:
            self._episode(seed)
        self.subject.counts["episodes"] += len(self.seeds)
        if self.first_growth < 0:
            self.first_growth = max(0, self._before.resident())

    def _episode(self, seed: int) -> None:
        env, rng = self.env, Rng("memory", seed)
        observation, _ = env.reset(seed=seed)
        for _ in range(_STEPS):
            if env.ended:
                break
            action = NONSENSE if rng.below(6) == 0 else any_action(env, rng, observation)
            observation = env.step(action)[0]
            self.subject.counts["steps"] += 1
        env.restore(env.snapshot())
        if seed % 10 == 0 and not env.ended:
            for action in env.expert():
                env.step(action)


class _Growth:
    """How much more memory is in use than when this was made."""

    def __init__(self) -> None:
        gc.collect()
        self._traced, self._resident = tracemalloc.get_traced_memory()[0], _resident()

    def traced(self) -> int:
        """Bytes that Python allocated, while it was traced, and has not freed."""
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - self._traced

    def resident(self) -> int:
        """Bytes of the process, 0 where the system does not tell."""
        gc.collect()
        return _resident() - self._resident


def _resident() -> int:
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


@contextmanager
def _traced() -> Iterator[None]:
    already = tracemalloc.is_tracing()
    if not already:
        tracemalloc.start()
    try:
        yield
    finally:
        if not already:
            tracemalloc.stop()


# --------------------------------------------------------------------------------------------------------------- speed


def speed(subject: Subject) -> None:
    """How fast it is here and now: a measurement, which never fails."""
    env = subject.make()
    rng = subject.rng("speed")
    env.reset(seed=subject.seeds(1)[0])
    text = env.reset()[0]

    def step() -> None:
        nonlocal text
        if env.ended:
            text = env.reset()[0]
        text = env.step(any_action(env, rng, text))[0]

    speeds = {"random steps a second": 1 / _seconds(step), "reset µs": 1e6 * _seconds(env.reset)}
    env.reset(seed=subject.seeds(1)[0])
    env.step(any_action(env, rng, text))
    if env.ended:
        env.reset()
    speeds["expert µs"] = 1e6 * _seconds(env.expert)
    speeds["snapshot + restore µs"] = 1e6 * _seconds(lambda: env.restore(env.snapshot()))
    speeds["snapshot bytes"] = len(env.snapshot())
    subject.measured.update(speeds)
    subject.notes.append(", ".join(f"{value:,.0f} {name}" for name, value in speeds.items()))


def _seconds(call: Callable[[], object]) -> float:
    """Mean seconds of a call, over a while; the first ones do not count."""
    for _ in range(3):
        call()
    calls, began = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        spent = time.perf_counter() - began
        if spent > _MEASURED_SECONDS:
            return spent / calls
