"""Checks of what an env uses: no global generator, no growing memory, and how much time."""

from __future__ import annotations

import ctypes
import gc
import random  # noqa: TID251  # to see that no env uses it
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from agentgym_py.policy.memory import unfreeze_afterwards
from agentgym_py.rng import Rng
from agentgym_py.testing.failures import (
    BrokenContractError,
    Moves,
    NotApplicableError,
    describe_error,
    moves_to_error,
    report_error,
)
from agentgym_py.testing.global_generators import SEED_GLOBALS, seed_globals
from agentgym_py.testing.harness import Episode, Subject
from agentgym_py.testing.random_actions import NONSENSE, any_action

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
"""Bytes that an env may cache of the tasks that it has met."""
_FILLED, _FULL_NOISE = 1_000, 4 << 20
"""Tasks after which a bounded cache is full, and bytes by which the process may still grow then."""
_CANDIDATES = 20
_MAX_ROUNDS, _FADES, _LASTS = 12, 0.9, 2
"""Further rounds in which growth may fade, the factor by which a fading growth shrinks per round, and the number of
rounds without fading that show a leak."""
_OWN_MEMORY = ("RssAnon:", "VmSwap:")
_SPEED_SECONDS = 0.7


def global_generators(subject: Subject) -> None:
    """Neither `random`'s nor numpy's nor torch's global generator is used or seeded, from making to closing."""
    for seed in subject.seeds(subject.settings.few_episodes):
        with seed_globals(seed):
            _check_generators(subject, seed)


def _check_generators(subject: Subject, seed: int) -> None:
    """Play one episode; an error in it may come from a generator that the env uses, so both are reported."""
    before = _generators()
    episode = subject.episode(subject.make())
    try:
        _full_episode(episode, seed)
    except Exception as error:
        broken = isinstance(error, BrokenContractError)
        message = str(error) if broken else describe_error(error)
        if used := _changed_generators(before):
            message = f"{used}, in which {message}"
        moves = replace(moves_to_error(episode.moves, error), setup=SEED_GLOBALS.format(number=seed) + _BEFORE)
        raise BrokenContractError(message, moves) from (error.__cause__ if broken else error)
    if used := _changed_generators(before):
        moves = replace(episode.moves, setup=SEED_GLOBALS.format(number=seed) + _BEFORE, after=_AFTER)
        raise BrokenContractError(used, moves)


def _full_episode(episode: Episode, seed: int) -> None:
    episode.reset(seed)
    episode.wander(episode.subject.rng("globals", seed), 10)
    for action in [] if episode.over else episode.expert():
        if not episode.over:  # the random steps may exhaust the limit before the plan ends
            episode.step(action)
    episode.env.restore(episode.snapshot())
    episode.env.reset()
    episode.env.close()


def _generators() -> dict[str, Any]:
    states: dict[str, Any] = {"random": random.getstate(), "numpy.random": repr(np.random.get_state())}  # noqa: NPY002  # to see that no env uses it
    torch = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = bytes(torch.get_rng_state().numpy())
    return states


def _changed_generators(before: dict[str, Any]) -> str:
    changed = [name for name, state in _generators().items() if before.get(name, state) != state]
    return f"the global generator of {' and '.join(changed)} is used in this episode" if changed else ""


# -------------------------------------------------------------------------------------------------------------- memory


def memory(subject: Subject) -> None:
    """Over thousands of episodes in one instance memory stays flat, for new tasks and for old ones.

    There are four quarters. In the first, caches may fill, up to `_CACHES` bytes of the process. The second has other
    tasks: caches are full by then, so a process that still grows never forgets. (Fewer episodes than `_FILLED` per
    quarter fill no cache and find only large leaks.) The third and fourth repeat the second in another instance under
    tracemalloc, and the fourth may leave nothing; the resident size shows memory that Python does not track.
    """
    quarter = subject.settings.memory_episodes // _QUARTERS
    if quarter < 1:
        number = subject.settings.memory_episodes
        raise NotApplicableError(f"it needs at least {_QUARTERS} memory_episodes, and there are {number}")
    with _frozen_heap():
        _check_memory(subject, quarter)


def _check_memory(subject: Subject, quarter: int) -> None:
    seeds = subject.seeds(2 * quarter + _CANDIDATES)
    old, new, unseen = seeds[:quarter], seeds[quarter : 2 * quarter], seeds[2 * quarter :]
    player = _Player(subject)
    caches, growth = player.play(old).resident, player.play(new).resident
    subject.close()  # Python reuses freed blocks without tracing them, so the old instance goes first
    del player
    gc.collect()
    with _tracing():
        player = _Player(subject)
        third, fourth = player.play(new), player.play(new)
        fourth = _settled(fourth, lambda: player.play(new))
        note = f"memory changed by {fourth.traced:+,} bytes in the last {quarter:,} episodes"
        subject.notes.append(f"{note}, caches hold {max(0, caches) / (1 << 20):.1f} MiB")
        if fourth.traced > _NOISE:
            player.fail(f"{fourth.traced / quarter:.1f} bytes an episode stay: {note}", new, times=5)
        resident = min(third.resident, fourth.resident)
        if resident > _RESIDENT_NOISE:
            player.fail(f"the process grows by {resident:,} bytes in {quarter:,} episodes", new, times=5)
        if growth > (_CACHES if quarter < _FILLED else _FULL_NOISE):
            message = f"{growth / quarter / 1024:.1f} KiB stay for each of {quarter:,} new tasks, without bounds"
            player.fail(message, unseen, times=1)
    limit = f"caches take {caches:,} bytes after {quarter:,} tasks; a world may use up to {_CACHES:,}"
    subject.require(caches <= _CACHES, limit)


def _settled(last: _Memory, play: Callable[[], _Memory]) -> _Memory:
    """Play further rounds until traced memory no longer replaces untraced memory; return what the last one leaves.

    Python keeps freed tuples and reuses them without telling tracemalloc. A full cache evicts such untraced memory, so
    it becomes traced memory only gradually: its growth fades. A leak's does not.
    """
    lasted = 0
    for _ in range(_MAX_ROUNDS):
        if last.traced <= _NOISE or lasted >= _LASTS:
            break
        before, last = last, play()
        lasted = lasted + 1 if last.traced > _FADES * before.traced else 0
    return last


class _Player:
    """Plays episodes in one instance and measures the memory that they leave."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.env = subject, subject.make()
        self._episode(subject.seeds(1)[0])  # loads what the env loads once

    def play(self, seeds: Sequence[int]) -> _Memory:
        """Play the episodes of these seeds; return what they leave in memory."""
        before = _Memory.now()
        for seed in seeds:
            self._episode(seed)
        self.subject.counts["episodes"] += len(seeds)
        return _Memory.now() - before

    def fail(self, message: str, seeds: Sequence[int], times: int) -> NoReturn:
        """Fail the check with the episode of the first seeds that leaves most when it is played `times` times."""
        leaks = {seed: self.play([seed] * times) for seed in seeds[:_CANDIDATES]}
        worst = max(leaks, key=lambda seed: leaks[seed])
        leak = leaks[worst].traced // times
        raise BrokenContractError(f"{message}; this episode leaves {leak:,}", self._episode(worst))

    def _episode(self, seed: int) -> Moves:
        actions: list[str] = []
        with report_error(seed, actions):
            self._play(seed, actions)
        self.subject.counts["steps"] += len(actions)
        return Moves(seed, None, tuple(actions))

    def _play(self, seed: int, actions: list[str]) -> None:
        env, rng = self.env, Rng("memory", seed)
        observation, _ = env.reset(seed=seed)
        while not env.stop_reason and len(actions) < _STEPS:
            actions.append(NONSENSE if rng.below(6) == 0 else any_action(env, rng, observation))
            observation = env.step(actions[-1])[0]
        env.restore(env.snapshot())
        if seed % 10 == 0 and not env.stop_reason:
            for action in env.expert():
                actions.append(action)
                env.step(action)


class _Memory(NamedTuple):
    """How much memory is in use, or how much more than before."""

    traced: int
    """Bytes that Python allocated while tracing and has not freed."""
    resident: int
    """Resident bytes of the process without tracing's own; 0 if the system does not report them."""

    @classmethod
    def now(cls) -> _Memory:
        """Measure after a garbage collection, without what the C library keeps for later allocations."""
        gc.collect()
        _trim_heap()
        return cls(tracemalloc.get_traced_memory()[0], max(0, _resident() - tracemalloc.get_tracemalloc_memory()))

    def __sub__(self, other: _Memory) -> _Memory:
        return _Memory(self.traced - other.traced, self.resident - other.resident)


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Keep existing objects, possibly millions, out of garbage collections; they stay so if others already were."""
    with unfreeze_afterwards():
        gc.collect()
        gc.freeze()
        yield


def _trim_heap() -> None:
    """Have the C library return free memory, which would hide growth of the same size."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # glibc's
        trim(0)


def _resident() -> int:
    """Return the bytes of this process's own memory, also those that the system has swapped out.

    Pages of files are left out: how many of them are in memory depends on the machine's load.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(_OWN_MEMORY))


@contextmanager
def _tracing() -> Iterator[None]:
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
    """Return the mean seconds of a call, after three calls to warm up."""
    for _ in range(3):
        call()
    calls, began = 0, time.perf_counter()
    while (seconds := time.perf_counter() - began) <= _SPEED_SECONDS or not calls:
        call()
        calls += 1
    return seconds / calls
