"""Checks of `snapshot` and `restore`: the same future from every state, forks independent, broken snapshots refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from agentgym_py.env import TextEnv
from agentgym_py.errors import SnapshotError
from agentgym_py.rng import Rng
from agentgym_py.testing.failures import BrokenContractError, Moves, report_with
from agentgym_py.testing.harness import Episode, Subject, Turn, short_repr
from agentgym_py.testing.report import actions_source

_FORK = """actions, here = {rest}, env.snapshot()
turns = [env.step(action) for action in actions]
following = env.reset()
fresh, used = make(), make()
print(used.reset(seed={seed!r}))
for action in actions:
    used.step(action)
for other in (fresh, used):
    other.restore(here)
    print("restored: the snapshot is", "the same" if other.snapshot() == here else "ANOTHER")
    for action, turn in zip(actions, turns):
        again = other.step(action)
        print(repr(action), "gives the same" if again == turn else f"gives ANOTHER:\\n  {{again}}\\n  not {{turn}}")
    print("then reset() gives", "the same" if other.reset() == following else "ANOTHER episode")"""
_PLAN = """plan, fair, here = env.expert(), env.fair_expert(), env.snapshot()
turns = [env.step(action) for action in plan]
other = make()
other.restore(here)
print("restored: the expert's plan is", "the same" if (again := other.expert()) == plan else f"ANOTHER: {again}")
print("and the fair expert's action", "the same" if (again := other.fair_expert()) == fair else f"ANOTHER: {again}")
for action, turn in zip(plan, turns):
    again = other.step(action)
    print(repr(action), "gives the same" if again == turn else f"gives ANOTHER:\\n  {again}\\n  not {turn}")"""
_LIFE = """here, fork = env.snapshot(), make()
fork.restore(here)
for action in [] if fork.stop_reason else fork.expert()[:-1]:
    fork.step(action)
fork.reset()
for action in fork.expert():
    fork.step(action)
print("after a fork has lived, the original is", "the same" if env.snapshot() == here else "ANOTHER")"""
_QUESTION = """here = env.snapshot()
print(env.{call})
print(env.{call})
print("then the episode is", "the same" if env.snapshot() == here else "ANOTHER")"""
_WRONG: tuple[Any, ...] = (None, True, 5.5, -5, 1 << 70, "x", "", [], {}, [[]], [None], {"x": 1}, "\ud800", math.nan)
_OUTER_WRONG: tuple[Any, ...] = (None, 5.5, [])
_MAX_PATHS = 60
_BYTE_CHANGES = 50
_MAX_DEPTH = 30


def futures(subject: Subject) -> None:
    """From a snapshot of any step of a random episode, another instance reaches the same end and next episode.

    In another instance the experts also have the same plan, which leads to the same end, and the same next action.
    """
    other = subject.make()
    for seed in subject.seeds(subject.settings.few_episodes):
        _require_same_plan(subject.episode(), subject.make(), seed)
        episode = subject.episode()
        rng = subject.rng("futures", seed)
        episode.reset(seed)
        history = episode.explore(rng, rng.below(_MAX_DEPTH))
        while not episode.over:
            history.append((episode.snapshot(), episode.wander(rng, 1)[0]))
        snapshots, turns = [before for before, _ in history] + [episode.snapshot()], [turn for _, turn in history]
        following = episode.env.reset()
        for number, snapshot in enumerate(snapshots):
            label = f"restored after action {number} in another instance"
            with report_with(_fork_moves(episode, number)):
                other.restore(snapshot)
                episode.require(other.snapshot() == snapshot, f"{label}, the snapshot is another")
                _require_same_turns(episode, other, turns, number, label)
                same = other.reset() == following
                episode.require(same, f"{label} and played to the end, reset() gives another episode")


def _require_same_plan(episode: Episode, other: TextEnv, seed: int) -> None:
    """Compare the expert after some steps of an episode with the expert of another instance that takes it up."""
    rng = episode.subject.rng("plan", seed)
    episode.reset(seed)
    episode.explore(rng, rng.below(_MAX_DEPTH))
    if episode.over:
        return
    plan, start = episode.expert(), len(episode.moves.actions)
    label = f"restored after action {start} in another instance"
    moves = replace(episode.moves, after=_PLAN)
    with report_with(moves):
        fair = episode.env.fair_expert()
        other.restore(episode.snapshot())
        for name, here, there in (("expert", plan, other.expert()), ("fair_expert", fair, other.fair_expert())):
            if there != here:
                raise BrokenContractError(f"{label}, {name}() is {there!r:.200}, not {here!r:.200}", moves)
    turns: list[Any] = [None] * start + [episode.step(action) for action in plan if not episode.over]
    with report_with(moves):
        _require_same_turns(episode, other, turns, start, label)


def _fork_moves(episode: Episode, number: int) -> Moves:
    """Return the first `number` moves, then a program that compares the snapshot's future in two other instances."""
    moves = episode.moves
    after = _FORK.format(rest=actions_source(moves.actions[number:]), seed=moves.seed)
    return replace(moves, actions=moves.actions[:number], after=after)


def _require_same_turns(episode: Episode, other: TextEnv, turns: list[Turn], start: int, label: str) -> None:
    """Do the episode's actions from number `start` on in another instance, and compare."""
    actions = episode.moves.actions
    for number in range(start, len(turns)):
        again = Turn(*other.step(actions[number]))
        episode.subject.counts["steps"] += 1
        for name, one, two in zip(Turn._fields, turns[number], again, strict=True):
            same = one == two
            episode.require(same, f"{label}, action {number + 1} gives {name} {two!r:.300}, not {one!r:.300}")


def forks(subject: Subject) -> None:
    """Neither what a fork does nor a question to the env changes an episode."""
    for seed in subject.seeds(subject.settings.few_episodes):
        rng = subject.rng("forks", seed)
        episode = subject.episode()
        episode.reset(seed)
        episode.explore(rng, rng.below(12))
        questions = _questions(episode)
        before = episode.snapshot()
        for name, arguments in questions.items():
            call = f"{name}({', '.join(map(ascii, arguments))})"
            ask = partial(getattr(episode.env, name), *arguments)
            with report_with(replace(episode.moves, after=_QUESTION.format(call=call))):
                same = ask() == ask()
                episode.require(same, f"{name}() answers differently the second time, in the same state")
                episode.require(episode.snapshot() == before, f"{name}() changes the episode")
        fork, third = subject.make(), subject.make()
        with report_with(replace(episode.moves, after=_LIFE)):
            fork.restore(before)
            third.restore(before)
            _play_on(subject, fork, rng)
            episode.require(episode.snapshot() == before, "what a fork does changes the original's snapshot")
        start = len(episode.moves.actions)
        turns: list[Any] = [None] * start + episode.wander(rng, 10)
        moves = _fork_moves(episode, start)
        with report_with(replace(moves, after=f"{_LIFE}\n{moves.after}")):
            _require_same_turns(episode, third, turns, start, "after a fork has lived, against another fork")


def _questions(episode: Episode) -> dict[str, tuple[str, ...]]:
    """Return the methods that answer in this state without changing it, with their arguments."""
    questions: dict[str, tuple[str, ...]] = dict.fromkeys(("actions", "tools", "secrets", "render", "state"), ())
    if episode.over:
        return questions
    return questions | {"expert": (), "fair_expert": (), "expert_thought": (next(iter(episode.expert()), ""),)}


def _play_on(subject: Subject, fork: TextEnv, rng: Rng) -> None:
    """Play the rest of the fork's episode, and another one to its end."""
    if not fork.stop_reason:
        for action in fork.expert()[:-1]:
            fork.step(action)
    other = subject.episode(fork)
    other.reset(rng.below(1 << 20))
    other.wander(rng, 5)
    if not other.over:
        for action in other.expert():
            fork.step(action)


def corrupt(subject: Subject) -> None:
    """A corrupt snapshot raises SnapshotError and changes nothing, or is accepted and the episode can go on."""
    for seed in subject.seeds(max(2, subject.settings.few_episodes // 2)):
        rng = subject.rng("corrupt", seed)
        episode = subject.episode()
        episode.reset(seed)
        episode.explore(rng, rng.below(10))
        good = json.loads(episode.snapshot())
        for key, value in _wrong_fields(good):
            _try(episode, _with_value(good, [key], value), f"{key} = {value!r}", must_refuse=True)
        for path, value in _wrong_states(good, rng):
            text = short_repr(value) if isinstance(value, str) else repr(value)
            _try(episode, _with_value(good, path, value), f"{'.'.join(map(str, path))} = {text}")
        for raw, label in _wrong_bytes(episode.snapshot(), rng):
            _try(episode, raw, label)


def _wrong_fields(good: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in good:
        yield from ((key, value) for value in (*_OUTER_WRONG, 1 if key == "last" else "x", _MISSING))
    yield from (("steps", -1), ("steps", True), ("rng", -1), ("rng", 1 << 64), ("success", 1), ("task", 0))


def _wrong_states(good: dict[str, Any], rng: Rng) -> Iterator[tuple[list[Any], Any]]:
    """Replace or omit every value of the state, nested ones too; a sample of them if they are many."""
    paths = list(_paths(good["state"], ["state"]))
    for path in rng.sample(paths, min(_MAX_PATHS, len(paths))):
        yield from ((path, value) for value in (*_WRONG, _MISSING))


def _paths(value: Any, path: list[Any]) -> Iterator[list[Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield [*path, key]
        yield from _paths(child, [*path, key])


class _Missing:
    def __repr__(self) -> str:
        return "(left out)"


_MISSING = _Missing()


def _with_value(good: dict[str, Any], path: list[Any], value: Any) -> bytes:
    """Return a snapshot with another value at `path`, or without it."""
    copy = parent = json.loads(json.dumps(good))
    for key in path[:-1]:
        parent = parent[key]
    if value is _MISSING:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return json.dumps(copy).encode()


def _wrong_bytes(raw: bytes, rng: Rng) -> Iterator[tuple[bytes, str]]:
    """Truncate the bytes, and change single ones."""
    for _ in range(_BYTE_CHANGES):
        place, byte = rng.below(len(raw)), rng.below(256)
        yield raw[:place], f"the first {place} of {len(raw)} bytes"
        yield raw[:place] + bytes([byte]) + raw[place + 1 :], f"byte {place} = {byte}"
    yield b"[" * 100_000, "100,000 brackets"


def _try(episode: Episode, raw: bytes, label: str, must_refuse: bool = False) -> None:
    episode.subject.counts["corrupt snapshots"] += 1
    before = episode.snapshot()
    moves = replace(episode.moves, snapshot=raw.decode("latin-1"))
    label = f"a snapshot with {label}"
    try:
        episode.env.restore(raw)
    except SnapshotError as error:
        if episode.snapshot() != before:
            raise BrokenContractError(f"{label} is refused, and the episode has changed", moves) from error
        return
    except Exception as error:
        raise BrokenContractError(f"{label} raises {error!r}, no SnapshotError", moves) from error
    episode.subject.require(not must_refuse, f"{label} is accepted", moves)
    try:
        _use(episode.env)
        episode.env.restore(before)
    except Exception as error:
        raise BrokenContractError(f"{label} is accepted, and cannot be played on: {error!r}", moves) from error


def _use(env: TextEnv) -> None:
    for actions in (env.actions() or [], [] if env.stop_reason else env.expert()):
        assert all(isinstance(action, str) for action in actions), f"an action that is not a text: {actions!r:.200}"
    env.snapshot()
    env.step("anything")
    env.step(next(iter(env.actions() or []), "anything"))
