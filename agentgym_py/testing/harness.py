"""What every check works with: the world under test, and episodes that remember what was done to them."""

from __future__ import annotations

import json
import math
import random  # noqa: TID251  # what uses it is to be shown
import re
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.base import require_seed
from agentgym_py.env.tracebacks import env_frames
from agentgym_py.errors import ConfigError
from agentgym_py.rng import Rng

NONSENSE = "\x00 no such action"
"""What no world takes for an action."""
_WORDS_AT_MOST = 40


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is tried."""

    episodes: int = 100
    """Episodes that a check plays; dear checks play a fifth of them, those of agents as many for each."""
    memory_episodes: int = 10_000
    """Episodes over which memory must stay flat."""
    seed: int = 0
    """Another seed tries other tasks, moves and strings."""
    longest_step: float = 20.0
    """Seconds of computing, or ten times as many of waiting, after which a call of the world counts as hanging."""

    def __post_init__(self) -> None:
        require_seed(self.seed)
        if self.episodes < 1 or self.memory_episodes < 0 or self.longest_step <= 0:
            raise ConfigError("episodes must be at least 1, memory_episodes at least 0, longest_step above 0")

    @property
    def few(self) -> int:
        """Episodes of a check that looks at each one long."""
        return max(2, self.episodes // 5)


@dataclass(frozen=True, slots=True)
class Moves:
    """An episode that shows something: how it was reset, and what was said."""

    seed: int | None = None
    options: Mapping[str, Any] | None = None
    actions: tuple[str, ...] = ()
    snapshot: str | None = None
    """What is restored afterwards, its bytes read as latin-1; None where nothing is."""
    setup: str = ""
    """Lines of Python that come before the world is made."""
    after: str = ""
    """Lines of Python that go on from there: `env` is the world, `make()` another one of its kind."""

    @property
    def told(self) -> str:
        """The episode in words, without what follows it."""
        seed = "Any seed" if self.seed is None else f"Seed {self.seed}"
        start = f"Options {dict(self.options)}" if self.options else seed
        actions = f"{len(self.actions) or 'no'} action{'s' * (len(self.actions) != 1)}"
        return f"{start} and {actions}, as a program"


class Turn(NamedTuple):
    """What `step` gave."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class BrokenContractError(Exception):
    """The world does not do what it should; `moves` show it, `trace` says where, if it raised in another process."""

    def __init__(self, message: str, moves: Moves | None = None, trace: str = "") -> None:
        super().__init__(message)
        self.moves, self.trace = moves, trace


class NotApplicableError(Exception):
    """The check makes no sense for this world; the message says why."""


class StoppedError(Exception):
    """The check was given up, which says nothing about the world; the message says why."""


@dataclass(slots=True)
class Subject:
    """The world under test."""

    spec: EnvSpec
    settings: Settings = field(default_factory=Settings)
    counts: Counter[str] = field(default_factory=Counter)
    """What was tried: `episodes`, `steps`, `snapshots`, `strings`, ..."""
    notes: list[str] = field(default_factory=list)
    """What a check wants to have said in the report."""
    measured: dict[str, float] = field(default_factory=dict)
    """Speeds and sizes by name."""
    latest: Play | None = None
    """The episode that was touched last: if the world raises, it is the one to show."""
    _made: list[TextEnv] = field(default_factory=list)
    _shared: TextEnv | None = None

    def make(self, **more: Any) -> TextEnv:
        """A new instance; `close` closes it."""
        env = EnvSpec(self.spec.name, {**self.spec.kwargs, **more}).make()
        self._made.append(env)
        return env

    @property
    def shared(self) -> TextEnv:
        """One instance for whole episodes one after another."""
        if self._shared is None:
            self._shared = self.make()
        return self._shared

    def roomy(self, more: int = 200) -> TextEnv:
        """An instance whose episodes are cut later, so that a wanderer has time to come back."""
        env = self.make()
        env.max_steps += more
        return env

    def play(self, env: TextEnv | None = None) -> Play:
        """An episode of `env`, or of a new instance."""
        return Play(self, env or self.make())

    def rng(self, *parts: object) -> Rng:
        """A generator for one purpose."""
        return Rng("conformance", self.settings.seed, *parts)

    def seeds(self, number: int) -> range:
        """That many seeds for `reset`, none of them in the range of another `settings.seed`."""
        start = self.settings.seed * 1_000_000
        return range(start, start + number)

    def tasks(self, split: str, number: int) -> range:
        """Numbers of that many tasks of a split, or of all where there are fewer; seed 0 begins at 0."""
        start = self.settings.seed * 1_000_000
        if start and self.spec.count(split, start + number) < start + number:
            start = 0
        return range(start, start + self.spec.count(split, start + number) - start)

    def need(self, condition: bool, message: str, moves: Moves | None = None) -> None:
        """The check fails with `message` unless the condition holds; `moves` show it, else the latest episode."""
        if not condition:
            raise BrokenContractError(message, moves or (self.latest.moves if self.latest else None))

    def close(self) -> None:
        """Close what was made."""
        for env in self._made:
            with suppress(Exception):  # the checks have said what is wrong with it
                env.close()
        self._made.clear()
        self.latest = self._shared = None


class Play:
    """An episode under test: it is remembered, and each step is looked at."""

    def __init__(self, subject: Subject, env: TextEnv) -> None:
        self.subject, self.env = subject, env
        self.observation = ""
        self.info: dict[str, Any] = {}
        self._seed: int | None = None
        self._options: dict[str, Any] | None = None
        self._actions: list[str] = []

    @property
    def moves(self) -> Moves:
        """What was done so far."""
        return Moves(self._seed, self._options, tuple(self._actions))

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return bool(self.env.stop_reason)

    def fail(self, message: str) -> NoReturn:
        """The check fails, and this episode shows it."""
        raise BrokenContractError(message, self.moves)

    def need(self, condition: bool, message: str) -> None:
        """The check fails with `message` unless the condition holds."""
        if not condition:
            self.fail(message)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> str:
        """Begin an episode; returns its observation."""
        self.subject.latest = self
        self._seed, self._options, self._actions = seed, options, []
        with time_limit(self.subject.settings.longest_step, "reset"):
            self.observation, self.info = self.env.reset(seed=seed, options=options)
        self.subject.counts["episodes"] += 1
        self.need(isinstance(self.observation, str), f"reset observes {type(self.observation).__name__}, not text")
        self._look_at_info(self.info)
        self.need(self.info["success"] is False, f"reset says success: {self.info['success']!r}")
        return self.observation

    def step(self, action: str) -> Turn:
        """Do one action; what every step must be is looked at."""
        self.subject.latest = self
        self._actions.append(action)
        with time_limit(self.subject.settings.longest_step, "step"):
            turn = Turn(*self.env.step(action))
        self.subject.counts["steps"] += 1
        self.observation, self.info = turn.observation, turn.info
        self._look_at(turn)
        self.require_possible(turn.reward)
        return turn

    def expert(self) -> list[str]:
        """The expert's plan from here."""
        self.subject.latest = self
        with time_limit(self.subject.settings.longest_step, "expert"):
            plan = self.env.expert()
        self.subject.counts["plans"] += 1
        fine = isinstance(plan, list) and all(isinstance(action, str) for action in plan)
        self.need(fine, f"expert() is no list of strings: {plan!r:.200}")
        return plan

    def require_possible(self, total: float) -> None:
        """The check fails if an episode has gained more than `max_return`."""
        most = self.env.max_return
        if most is not None:
            self.need(total <= most + 1e-9, f"the return is {total:g}, and max_return says {most:g}")

    def snapshot(self) -> bytes:
        """The episode as bytes."""
        self.subject.latest = self
        self.subject.counts["snapshots"] += 1
        return self.env.snapshot()

    def follow(self, plan: Sequence[str]) -> Turn:
        """Do a plan to its end; returns the last turn."""
        self.need(bool(plan), "expert() is empty, and the episode is not over")
        for number, action in enumerate(plan):
            turn = self.step(action)
            self.need(turn.info["valid_action"], f"the expert's action is not valid: {shown(action)}")
            early = self.ended and number + 1 < len(plan)
            self.need(not early, f"the episode is over after {number + 1} of the {len(plan)} actions of the plan")
        return turn

    def any_action(self, rng: Rng) -> str:
        """An action that somebody might choose who does not think."""
        return any_action(self.env, rng, self.observation)

    def wander(self, rng: Rng, steps: int, nonsense: float = 0.2) -> list[Turn]:
        """Random moves, some of them nonsense, until the end at most."""
        turns: list[Turn] = []
        while len(turns) < steps and not self.ended:
            turns.append(self.step(NONSENSE if rng.uniform() < nonsense else self.any_action(rng)))
        return turns

    def explore(self, rng: Rng, steps: int) -> list[tuple[bytes, Turn]]:
        """Into the depth of an episode: random, senseless and expert's moves, but none that ends it before its limit.

        Returns a snapshot of each state in which something was done, and the turn that it was.
        """
        way: list[tuple[bytes, Turn]] = []
        for _ in range(steps):
            if self.ended:
                break
            before, observation = self.snapshot(), self.observation
            turn = self.step(self._some_move(rng))
            if turn.terminated:
                last = self._actions.pop()
                self._taken_back(before, last)
                self.observation = observation
            else:
                way.append((before, turn))
        return way

    def _taken_back(self, before: bytes, action: str) -> None:
        """Restore what was before an action."""
        try:
            self.env.restore(before)
        except Exception as error:  # it is the world's own snapshot
            again = f"before = env.snapshot()\nenv.step({action!a})\nenv.restore(before)"
            raise BrokenContractError(raising(error), replace(self.moves, after=again)) from error

    def _some_move(self, rng: Rng) -> str:
        kind = rng.below(8)
        plan = self.expert() if kind in (1, 2, 3) else []
        return NONSENSE if kind == 0 else plan[0] if plan else self.any_action(rng)

    def _look_at(self, turn: Turn) -> None:
        self.need(isinstance(turn.observation, str), f"step observes {type(turn.observation).__name__}, not text")
        self.need(self.env.observation_space.contains(turn.observation), "the observation is not in its space")
        fine = type(turn.reward) is float and math.isfinite(turn.reward)
        self.need(fine, f"the reward is no finite float: {turn.reward!r}")
        ends = turn.terminated, turn.truncated
        self.need(all(type(end) is bool for end in ends), f"terminated and truncated are no bools: {ends!r}")
        self.need(not all(ends), "an episode is terminated or truncated, never both")
        self._look_at_info(turn.info)

    def _look_at_info(self, info: Mapping[str, Any]) -> None:
        missing = {"success", "task_id", "valid_action"} - set(info)
        self.need(not missing, f"info lacks {', '.join(sorted(missing))}")
        fine = type(info["success"]) is bool and type(info["valid_action"]) is bool
        self.need(fine, f"success and valid_action are no bools: {info['success']!r}, {info['valid_action']!r}")
        try:
            json.dumps(info)
        except (TypeError, ValueError, RecursionError) as error:
            self.fail(f"info is not of JSON values: {error}: {info!r:.200}")
        task = self.env.current_task
        same = task is not None and info["task_id"] == task.id
        self.need(same, f"task_id is {info['task_id']!r}, the task is {task.id if task else None!r}")


# -------------------------------------------------------------------------------------------- moves without a thought


def any_action(env: TextEnv, rng: Rng, observation: str) -> str:
    """A random admissible action; where none are listed a random tool call, else a word of the observation."""
    listed = env.actions()
    if listed:
        return rng.choice(listed)
    tools = env.tools()
    words = observation.split()[-_WORDS_AT_MOST:] or ["nothing"]
    return random_call(rng.choice(tools), rng, words) if tools else rng.choice(words)


def random_call(tool: Mapping[str, Any], rng: Rng, words: Sequence[str]) -> str:
    """A call of a tool with arguments that its schema allows, its texts from `words`."""
    function = tool.get("function", tool)
    schema = function.get("parameters", {})
    required = set(schema.get("required", ()))
    arguments = {
        name: random_value(each, rng, words)
        for name, each in schema.get("properties", {}).items()
        if name in required or rng.below(2)
    }
    return json.dumps({"name": function["name"], "arguments": arguments}, ensure_ascii=False)


def random_value(schema: Mapping[str, Any], rng: Rng, words: Sequence[str]) -> Any:
    """A value that a JSON schema allows; a word where the schema says nothing that is known here."""
    if schema.get("enum"):
        return rng.choice(schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = rng.choice(kind)
    makers: dict[Any, Callable[[], Any]] = {
        "integer": lambda: rng.below(20),
        "number": lambda: rng.below(200) / 10,
        "boolean": lambda: bool(rng.below(2)),
        "null": lambda: None,
        "array": lambda: [random_value(schema.get("items", {}), rng, words) for _ in range(rng.below(3))],
        "object": dict,
    }
    return makers.get(kind, lambda: rng.choice(words))()


# -------------------------------------------------------------------------------------------- what the world raises


_ASKED = {"restore": "env.restore(env.snapshot())", "expert_thought": "env.expert_thought(env.expert()[0])"}
_FRAMES = 3


def raising(error: BaseException) -> str:
    """`expert() raised IndexError('…')`."""
    calls = _calls(error)
    return f"{calls[-1][1]}() raised {error!r}" if calls else f"raised {error!r}"


def shown_raising(moves: Moves, error: BaseException) -> Moves:
    """The same moves, and then the call that raised, unless they make it themselves."""
    calls = _calls(error)
    if not calls or calls[-1][1] in ("__init__", "step") or (calls[-1][1] == "reset" and not moves.actions):
        return moves
    return replace(moves, after=_ASKED.get(calls[-1][1], f"print(env.{calls[-1][1]}())"))


def _calls(error: BaseException) -> list[tuple[type, str]]:
    """Methods on the way to where it was raised, as (class, name), up to the first one of the world."""
    calls: list[tuple[type, str]] = []
    for frame, _ in traceback.walk_tb(error.__traceback__):
        calls.append((type(frame.f_locals.get("self")), frame.f_code.co_name))
        if issubclass(calls[-1][0], TextEnv):
            return calls
    return []


def where_raised(error: BaseException | None) -> str:
    """Of the error that began it, from the world's own source on, or the end: where it was raised, and what."""
    if error is None:
        return ""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = traceback.format_list(env_frames(error) or traceback.extract_tb(error.__traceback__)[-_FRAMES:])
    if len(lines) > 2 * _FRAMES:
        lines = [*lines[:_FRAMES], f"  … {len(lines) - 2 * _FRAMES} calls …\n", *lines[-_FRAMES:]]
    return "".join([*lines, *traceback.format_exception_only(error)[-1:]]).rstrip()


# ------------------------------------------------------------------------------------------------------------- helpers


_PATIENCE = 10
_TIMERS = (
    ((signal.ITIMER_VIRTUAL, signal.SIGVTALRM, 1), (signal.ITIMER_REAL, signal.SIGALRM, _PATIENCE))
    if hasattr(signal, "setitimer")
    else ()
)


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Break a call that computes so long, or that lasts `_PATIENCE` times as long because it waits.

    Only in the main thread of a system with timers, and not within a call of C. Somebody else's timer rests meanwhile.
    """
    if threading.current_thread() is not threading.main_thread() or not _TIMERS:
        yield
        return

    def ring(*_: object) -> None:
        raise BrokenContractError(f"{what} takes longer than {seconds:g} seconds")

    before = [(signal.signal(each, ring), signal.setitimer(timer, seconds * times)) for timer, each, times in _TIMERS]
    try:
        yield
    finally:
        for (timer, each, _), (handler, left) in zip(_TIMERS, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(each, handler)
            signal.setitimer(timer, *left)


_NO_WORLDS = 771_000
SEEDED = f"""import random, numpy
random.seed({{number}} + {_NO_WORLDS})
numpy.random.seed({{number}} + {_NO_WORLDS})"""
"""The lines of Python that do what `seeded` does."""


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """Python's and numpy's global generators seeded, so that who uses them can be shown; afterwards as they were.

    The seed is none that a world may have given them.
    """
    before = random.getstate(), np.random.get_state()  # noqa: NPY002  # to put it back
    random.seed(number + _NO_WORLDS)
    np.random.seed(number + _NO_WORLDS)  # noqa: NPY002  # the lines above
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002  # as above


def shown(text: str) -> str:
    """A text as Python writes it, a long one shortened."""
    written = ascii(text) if any("\ud800" <= each <= "\udfff" for each in text[:200]) else repr(text)
    return written if len(written) <= 200 else f"{written[:150]}… ({len(text)} characters)"


def stands_in(secret: str, text: str) -> bool:
    """As whole words; that it is there at all is looked at first, for that is cheap."""
    return secret.strip() != "" and secret in text and bool(re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", text))
