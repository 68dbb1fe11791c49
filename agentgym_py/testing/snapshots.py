"""Checks of `snapshot` and `restore`: the same future from every moment, the original untouched, nonsense refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from agentgym_py.env import TextEnv
from agentgym_py.errors import SnapshotError
from agentgym_py.rng import Rng
from agentgym_py.testing.harness import BrokenContractError, Moves, Play, Subject, Turn, raising, shown
from agentgym_py.testing.report import listed

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
_PATHS_AT_MOST = 60
_BYTES_AT_MOST = 100
_DEEP = 30


def futures(subject: Subject) -> None:
    """From a snapshot of any step of a random episode, another instance reaches the same end and next episode."""
    other = subject.make()
    for seed in subject.seeds(subject.settings.few):
        play = subject.play()
        rng = subject.rng("futures", seed)
        play.reset(seed)
        way = play.explore(rng, rng.below(_DEEP))
        while not play.ended:
            way.append((play.snapshot(), play.wander(rng, 1)[0]))
        moments, turns = [each for each, _ in way] + [play.snapshot()], [turn for _, turn in way]
        following = play.env.reset()
        for number, snapshot in enumerate(moments):
            where = f"restored after action {number} in another instance"
            with _shown_by(_forked(play, number)):
                other.restore(snapshot)
                play.need(other.snapshot() == snapshot, f"{where}, the snapshot is another")
                _same_turns(play, other, turns, number, where)
                play.need(other.reset() == following, f"{where} and played to the end, reset() gives another episode")


@contextmanager
def _shown_by(moves: Moves) -> Iterator[None]:
    """What fails within is shown by these moves."""
    try:
        yield
    except Exception as error:  # the world may raise anything
        known = isinstance(error, BrokenContractError)
        cause = error.__cause__ if known else error
        raise BrokenContractError(str(error) if known else raising(error), moves) from cause


def _forked(play: Play, number: int) -> Moves:
    """The first moves of an episode; then a snapshot, whose future is compared in two other instances."""
    moves = play.moves
    after = _FORK.format(rest=listed(moves.actions[number:]), seed=moves.seed)
    return replace(moves, actions=moves.actions[:number], after=after)


def _same_turns(play: Play, other: TextEnv, turns: list[Turn], start: int, where: str) -> None:
    """The turns from number `start` on, in the other instance."""
    actions = play.moves.actions
    for number in range(start, len(turns)):
        again = Turn(*other.step(actions[number]))
        play.subject.counts["steps"] += 1
        for what, one, two in zip(Turn._fields, turns[number], again, strict=True):
            same = one == two
            play.need(same, f"{where}, action {number + 1} gives {what} {two!r:.300}, not {one!r:.300}")


def forks(subject: Subject) -> None:
    """What a fork does, and what the world is asked, leaves an episode as it was."""
    for seed in subject.seeds(subject.settings.few):
        rng = subject.rng("forks", seed)
        play = subject.play()
        play.reset(seed)
        play.explore(rng, rng.below(12))
        questions = _questions(play)
        before = play.snapshot()
        for name, arguments in questions.items():
            call = f"{name}({', '.join(map(ascii, arguments))})"
            ask = partial(getattr(play.env, name), *arguments)
            with _shown_by(replace(play.moves, after=_QUESTION.format(call=call))):
                same = ask() == ask()
                play.need(same, f"{name}() answers differently the second time, in the same state")
                play.need(play.snapshot() == before, f"{name}() changes the episode")
        fork, third = subject.make(), subject.make()
        with _shown_by(replace(play.moves, after=_LIFE)):
            fork.restore(before)
            third.restore(before)
            _live(subject, fork, rng)
            play.need(play.snapshot() == before, "what a fork does changes the original's snapshot")
        start = len(play.moves.actions)
        turns: list[Any] = [None] * start + play.wander(rng, 10)
        shown_by = _forked(play, start)
        with _shown_by(replace(shown_by, after=f"{_LIFE}\n{shown_by.after}")):
            _same_turns(play, third, turns, start, "after a fork has lived, against another fork")


def _questions(play: Play) -> dict[str, tuple[str, ...]]:
    """What a world can be asked in this state: its methods, and what each takes."""
    questions: dict[str, tuple[str, ...]] = dict.fromkeys(("actions", "tools", "secrets", "render", "state"), ())
    if play.ended:
        return questions
    return questions | {"expert": (), "fair_expert": (), "expert_thought": (next(iter(play.expert()), ""),)}


def _live(subject: Subject, fork: TextEnv, rng: Rng) -> None:
    """The rest of the episode, and another one to the expert's end."""
    if not fork.stop_reason:
        for action in fork.expert()[:-1]:
            fork.step(action)
    other = subject.play(fork)
    other.reset(rng.below(1 << 20))
    other.wander(rng, 5)
    if not other.ended:
        for action in other.expert():
            fork.step(action)


def corrupt(subject: Subject) -> None:
    """A snapshot that cannot be is refused whole, by SnapshotError; one that is accepted can be played on."""
    for seed in subject.seeds(max(2, subject.settings.few // 2)):
        rng = subject.rng("corrupt", seed)
        play = subject.play()
        play.reset(seed)
        play.explore(rng, rng.below(10))
        good = json.loads(play.snapshot())
        for path, wrong in _outer(good):
            _tried(play, _bytes(_with(good, path, wrong)), f"{path[0]} = {wrong!r}", must_refuse=True)
        for path, wrong in _inner(good, rng):
            _tried(play, _bytes(_with(good, path, wrong)), f"{'.'.join(map(str, path))} = {shown_value(wrong)}")
        for raw, what in _mangled(play.snapshot(), rng):
            _tried(play, raw, what)


def _outer(good: dict[str, Any]) -> Iterator[tuple[list[Any], Any]]:
    for key in good:
        yield from (([key], wrong) for wrong in (*_OUTER_WRONG, 1 if key == "last" else "x"))
        yield [key], _GONE
    for key, wrong in (("steps", -1), ("steps", True), ("rng", -1), ("rng", 1 << 64), ("success", 1), ("task", 0)):
        yield [key], wrong


def _inner(good: dict[str, Any], rng: Rng) -> Iterator[tuple[list[Any], Any]]:
    """Every value of the state, those within others too (some of them, where they are many), replaced or left out."""
    paths = list(_paths(good["state"], ["state"]))
    for path in rng.sample(paths, min(_PATHS_AT_MOST, len(paths))):
        yield from ((path, wrong) for wrong in (*_WRONG, _GONE))


def _paths(value: Any, path: list[Any]) -> Iterator[list[Any]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield [*path, key]
        yield from _paths(each, [*path, key])


class _Gone:
    def __repr__(self) -> str:
        return "(left out)"


_GONE = _Gone()


def _with(good: Any, path: list[Any], wrong: Any) -> Any:
    """A copy of `good` with another value at `path`."""
    if not path:
        return wrong
    copy = dict(good) if isinstance(good, dict) else list(good)
    if len(path) == 1 and wrong is _GONE:
        del copy[path[0]]
    else:
        copy[path[0]] = _with(copy[path[0]], path[1:], wrong)
    return copy


def _bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def _mangled(raw: bytes, rng: Rng) -> Iterator[tuple[bytes, str]]:
    """The bytes cut, and single ones changed."""
    for _ in range(_BYTES_AT_MOST // 2):
        place, byte = rng.below(len(raw)), rng.below(256)
        yield raw[:place], f"the first {place} of {len(raw)} bytes"
        yield raw[:place] + bytes([byte]) + raw[place + 1 :], f"byte {place} = {byte}"
    yield b"[" * 100_000, "100,000 brackets"


def _tried(play: Play, raw: bytes, what: str, must_refuse: bool = False) -> None:
    play.subject.counts["corrupt snapshots"] += 1
    before = play.snapshot()
    moves = replace(play.moves, snapshot=raw.decode("latin-1"))
    try:
        play.env.restore(raw)
    except SnapshotError as error:
        if play.snapshot() != before:
            raise BrokenContractError(
                f"a snapshot with {what} is refused, and the episode has changed", moves
            ) from error
        return
    except Exception as error:
        raise BrokenContractError(f"a snapshot with {what} raises {error!r}, no SnapshotError", moves) from error
    if must_refuse:
        raise BrokenContractError(f"a snapshot with {what} is accepted", moves)
    try:
        _played_on(play.env)
        play.env.restore(before)
    except Exception as error:
        message = f"a snapshot with {what} is accepted, and cannot be played on: {error!r}"
        raise BrokenContractError(message, moves) from error


def _played_on(env: TextEnv) -> None:
    for actions in (env.actions() or [], [] if env.stop_reason else env.expert()):
        assert all(isinstance(action, str) for action in actions), f"an action that is no text: {actions!r:.200}"
    env.snapshot()
    env.step("anything")
    env.step(next(iter(env.actions() or []), "anything"))


def shown_value(value: Any) -> str:
    """A value as a message shows it."""
    return shown(value) if isinstance(value, str) else repr(value)
