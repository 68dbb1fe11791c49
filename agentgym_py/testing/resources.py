"""Checks of what a world takes: no global generator, no memory for good, and how long it needs."""

from __future__ import annotations

import ctypes
import gc
import os
import random  # noqa: TID251  # to see that nobody else uses it
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from agentgym_py.rng import Rng
from agentgym_py.testing.harness import (
    NONSENSE,
    SEEDED,
    BrokenContractError,
    Moves,
    NotApplicableError,
    Subject,
    any_action,
    raising,
    seeded,
    shown_raising,
)

_BEFORE = """
def generators():
    return random.getstate(), repr(numpy.random.get_state())
before = generators()"""
_AFTER = """env.restore(env.snapshot())
env.reset()
env.close()
print("the global generators are", "the same" if generators() == before else "OTHERS")"""
_QUARTERS = 4
_STEPS = 12
_NOISE = 16 << 10
_RESIDENT_NOISE = 16 << 20
_CACHES = 64 << 20
"""Bytes that a world may keep of tasks that it has met: its caches are its own affair, up to here."""
_FILLED, _FULL_NOISE = 1_000, 4 << 20
"""Tasks after which a cache with bounds is full, and bytes of the process by which it may still grow then."""
_CANDIDATES = 20
_FURTHER, _FADES, _LASTS = 12, 0.9, 2
"""Further rounds in which growth may fade, the factor by which it then gets less in each, and how many rounds without
that show a leak."""
_MEASURED_SECONDS = 0.7


def global_generators(subject: Subject) -> None:
    """Neither `random`'s nor numpy's nor torch's global generator is used or seeded, from making to closing."""
    for seed in subject.seeds(subject.settings.few):
        with seeded(seed):
            _uses_none(subject, seed)


def _uses_none(subject: Subject, seed: int) -> None:
    """One episode; if the world raises in it, that may come of a generator that it uses."""
    before, raised = _generators(), None
    play = subject.play(subject.make())
    try:
        play.reset(seed)
        play.wander(subject.rng("globals", seed), 10)
        if not play.ended:
            for action in play.expert():
                if not play.ended:  # steps that were wasted before may have its limit cut the plan
                    play.step(action)
        play.env.restore(play.snapshot())
        play.env.reset()
        play.env.close()
    except Exception as error:
        raised = error
    changed = [name for name, state in _generators().items() if before.get(name, state) != state]
    used = f"the global generator of {' and '.join(changed)} is used in this episode" if changed else ""
    setup = SEEDED.format(number=seed) + _BEFORE
    if raised:
        broken = isinstance(raised, BrokenContractError)
        told = str(raised) if broken else raising(raised)
        moves = replace(shown_raising(play.moves, raised), setup=setup)
        cause = raised.__cause__ if broken else raised
        raise BrokenContractError(f"{used}, in which {told}" if used else told, moves) from cause
    if used:
        raise BrokenContractError(used, replace(play.moves, setup=setup, after=_AFTER))


def _generators() -> dict[str, Any]:
    states: dict[str, Any] = {"random": random.getstate(), "numpy.random": repr(np.random.get_state())}  # noqa: NPY002  # to see that nobody else uses it
    torch = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = bytes(torch.get_rng_state().numpy())
    return states


# -------------------------------------------------------------------------------------------------------------- memory


def memory(subject: Subject) -> None:
    """Over thousands of episodes in one instance memory stays flat, be their tasks new or old.

    Four quarters. In the first, caches may fill, up to `_CACHES` bytes of the process. The second has tasks that the
    first had not: caches are full then, and a process that grows on forgets nothing (fewer episodes than `_FILLED` in a
    quarter fill no cache, and show only what is gross). Third and fourth are the second again to the letter, in another
    instance under tracemalloc, and the fourth may leave nothing; the resident size shows what Python does not know of.
    """
    quarter = subject.settings.memory_episodes // _QUARTERS
    if quarter < 1:
        raise NotApplicableError("memory_episodes is 0")
    with _collecting_only_what_is_new():
        _memory(subject, quarter)


def _memory(subject: Subject, quarter: int) -> None:
    old, new = subject.seeds(2 * quarter)[:quarter], subject.seeds(2 * quarter)[quarter:]
    player = _Player(subject)
    filled, fresh = player.play(old), player.play(new)
    subject.close()  # blocks of the past that Python hands out again are not traced: they go first
    del player
    gc.collect()
    with _traced():
        player = _Player(subject)
        again, last = player.play(new), player.play(new)
        last = _settled(last, lambda: player.play(new))
        told = f"{last.traced:+,} bytes in the last {quarter:,} episodes"
        subject.notes.append(f"{told}, caches of {max(0, filled.resident) / (1 << 20):.1f} MiB")
        if last.traced > _NOISE:
            player.fail(f"{last.traced / quarter:.1f} bytes an episode stay: {told}", new, times=5)
        grown = min(again.resident, last.resident)
        if grown > _RESIDENT_NOISE:
            player.fail(f"the process grows by {grown:,} bytes in {quarter:,} episodes", new, times=5)
        if fresh.resident > (_CACHES if quarter < _FILLED else _FULL_NOISE):
            unseen = subject.seeds(2 * quarter + _CANDIDATES)[2 * quarter :]
            told = f"{fresh.resident / quarter / 1024:.1f} KiB stay for each of {quarter:,} new tasks, without bounds"
            player.fail(told, unseen, times=1)
    much = f"caches take {filled.resident:,} bytes after {quarter:,} tasks; up to {_CACHES:,} are a world's own affair"
    subject.need(filled.resident <= _CACHES, much)


def _settled(last: _Memory, play: Callable[[], _Memory]) -> _Memory:
    """What a round leaves, once traced memory no longer takes the place of untraced memory.

    Python keeps freed tuples and hands them out again without telling tracemalloc. What a full cache throws out is
    such memory from before, so a cache becomes traced memory only bit by bit: its growth fades. A leak's does not.
    """
    lasted = 0
    for _ in range(_FURTHER):
        if last.traced <= _NOISE or lasted >= _LASTS:
            break
        before, last = last, play()
        lasted = lasted + 1 if last.traced > _FADES * before.traced else 0
    return last


class _Player:
    """Episodes in one instance, with all that costs memory."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.env = subject, subject.make()
        self._episode(subject.seeds(1)[0])  # loads what the world loads once

    def play(self, seeds: Sequence[int]) -> _Memory:
        """Episodes of these seeds; returns what they leave in memory."""
        before = _Memory.now()
        for seed in seeds:
            self._episode(seed)
        self.subject.counts["episodes"] += len(seeds)
        return _Memory.now() - before

    def fail(self, message: str, seeds: Sequence[int], times: int) -> NoReturn:
        """The check fails, and shows the episode among some of these that leaves most when it is played so often."""
        left = {seed: self.play([seed] * times) for seed in seeds[:_CANDIDATES]}
        worst = max(left, key=lambda seed: left[seed])
        bytes_each = left[worst].traced // times
        raise BrokenContractError(f"{message}; this episode leaves {bytes_each:,}", self._episode(worst))

    def _episode(self, seed: int) -> Moves:
        said: list[str] = []
        try:
            self._play(seed, said)
        except Exception as error:  # the world raised: what it must never do
            moves = shown_raising(Moves(seed, None, tuple(said)), error)
            raise BrokenContractError(raising(error), moves) from error
        self.subject.counts["steps"] += len(said)
        return Moves(seed, None, tuple(said))

    def _play(self, seed: int, said: list[str]) -> None:
        env, rng = self.env, Rng("memory", seed)
        observation, _ = env.reset(seed=seed)
        while not env.stop_reason and len(said) < _STEPS:
            said.append(NONSENSE if rng.below(6) == 0 else any_action(env, rng, observation))
            observation = env.step(said[-1])[0]
        env.restore(env.snapshot())
        if seed % 10 == 0 and not env.stop_reason:
            for action in env.expert():
                said.append(action)
                env.step(action)


class _Memory(NamedTuple):
    """How much memory is in use, or how much more than before."""

    traced: int
    """Bytes that Python allocated, while it was traced, and has not freed."""
    resident: int
    """Bytes of the process but for what tracing itself takes; 0 where the system does not tell."""

    @classmethod
    def now(cls) -> _Memory:
        """What is in use, garbage collected, and without what the C library keeps for others to come."""
        gc.collect()
        _give_back()
        return cls(tracemalloc.get_traced_memory()[0], max(0, _resident() - tracemalloc.get_tracemalloc_memory()))

    def __sub__(self, other: _Memory) -> _Memory:
        return _Memory(self.traced - other.traced, self.resident - other.resident)


@contextmanager
def _collecting_only_what_is_new() -> Iterator[None]:
    """Collections leave out what is there already, which may be millions of objects of others."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _give_back() -> None:
    """Have the C library return free memory: what earlier work left free would hide as much of what grows."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # glibc's
        trim(0)


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
        if env.stop_reason:
            text = env.reset()[0]
        text = env.step(any_action(env, rng, text))[0]

    speeds = {"random steps a second": 1 / _seconds(step), "reset µs": 1e6 * _seconds(env.reset)}
    env.reset(seed=subject.seeds(1)[0])
    env.step(any_action(env, rng, text))
    if env.stop_reason:
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
