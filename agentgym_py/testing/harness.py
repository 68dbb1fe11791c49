"""What every check uses: the env under test, and episodes that check each step and remember their actions."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, get_args

from agentgym_py.checks import require_at_least, require_field_types, require_positive
from agentgym_py.collection.env_turn import read_partner, read_start, read_task, read_turn, read_version
from agentgym_py.env import EnvSpec, Prompt, TextEnv
from agentgym_py.env.arguments import require_seed
from agentgym_py.rng import Rng
from agentgym_py.testing.failures import BrokenContractError, Moves, report_with
from agentgym_py.testing.random_actions import NONSENSE, any_action
from agentgym_py.testing.time_limits import time_limit

_INFO = frozenset({"success", "task_id", "valid_action"})
"""What `info` always has."""
_JSON = json.JSONEncoder(allow_nan=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """How much the checks try."""

    episodes: int = 100
    """Episodes of a check. Expensive checks play a fifth, checks with several agents play as many with each."""
    memory_episodes: int = 10_000
    """Episodes over which memory must stay flat."""
    seed: int = 0
    """Another seed tries other tasks, actions and strings."""
    longest_step: float = 20.0
    """Seconds of CPU time, or ten times as many of wall time, after which a call of the env counts as hanging."""

    def __post_init__(self) -> None:
        require_field_types(self)
        require_seed(self.seed)
        require_at_least(self, {"episodes": 1, "memory_episodes": 0})
        require_positive(self, "longest_step")

    @property
    def few_episodes(self) -> int:
        """Episodes of an expensive check."""
        return max(2, self.episodes // 5)


class Turn(NamedTuple):
    """What `step` returned."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


@dataclass(slots=True)
class Subject:
    """The env under test."""

    spec: EnvSpec
    settings: Settings = field(default_factory=Settings)
    counts: Counter[str] = field(default_factory=Counter)
    """How much was tried: `episodes`, `steps`, `snapshots`, `strings`, ..."""
    notes: list[str] = field(default_factory=list)
    """Notes of a check for the report."""
    measured: dict[str, float] = field(default_factory=dict)
    """Speeds and sizes by name."""
    latest: Episode | None = None
    """The episode that began last, which is reported if the env raises."""
    parent: Subject | None = None
    """The subject of which this is one difficulty, by `at`."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """The arguments by which `spec` differs from the parent's."""
    _envs: list[TextEnv] = field(default_factory=list)
    _shared: TextEnv | None = None

    def at(self, **kwargs: Any) -> Subject:
        """Return the same env with other arguments, such as a difficulty; counts, notes and envs are shared."""
        spec = EnvSpec(self.spec.name, {**self.spec.kwargs, **kwargs})
        shared = (self.counts, self.notes, self.measured)
        return Subject(spec, self.settings, *shared, parent=self, env_kwargs=kwargs, _envs=self._envs)

    def begin(self, episode: Episode) -> None:
        """Remember the episode that began last, here and in the parent."""
        self.latest = episode
        if self.parent:
            self.parent.begin(episode)

    def make(self, **kwargs: Any) -> TextEnv:
        """Make a new instance, which `close` closes."""
        env = EnvSpec(self.spec.name, {**self.spec.kwargs, **kwargs}).make()
        self._envs.append(env)
        return env

    @property
    def shared(self) -> TextEnv:
        """One instance for many episodes, one after another."""
        if self._shared is None:
            self._shared = self.make()
        return self._shared

    def make_longer(self, extra_steps: int = 200) -> TextEnv:
        """Make an instance with a higher step limit, so that an expert can recover from random actions."""
        env = self.make()
        env.max_steps += extra_steps
        return env

    def episode(self, env: TextEnv | None = None) -> Episode:
        """Return an episode of `env`, or of a new instance."""
        return Episode(self, env or self.make())

    def rng(self, *parts: object) -> Rng:
        """Return a generator for one purpose."""
        return Rng("conformance", self.settings.seed, *parts)

    def seeds(self, number: int) -> range:
        """Return `number` seeds for `reset`; another `settings.seed` gives disjoint ones."""
        start = self.settings.seed * 1_000_000
        return range(start, start + number)

    def tasks(self, split: str, number: int) -> range:
        """Return the numbers of up to `number` tasks of a split; `settings.seed` 0 begins at 0."""
        start = self.settings.seed * 1_000_000
        if start and self.spec.count(split, start + number) < start + number:
            start = 0
        return range(start, start + self.spec.count(split, start + number) - start)

    def require(self, condition: bool, message: str, moves: Moves | None = None) -> None:
        """Fail the check with `message` unless `condition` holds; `moves` default to the latest episode's."""
        if not condition:
            raise BrokenContractError(message, moves or (self.latest.moves if self.latest else None))

    def require_overall(self, condition: bool, message: str) -> None:
        """Fail the check with `message`, without an episode, because no single one shows the failure."""
        if not condition:
            self.latest = None
            raise BrokenContractError(message)

    def close(self) -> None:
        """Close every instance."""
        for env in self._envs:
            with suppress(Exception, SystemExit):  # the checks have reported what is wrong with it
                env.close()
        self._envs.clear()
        self.latest = self._shared = None


class Episode:
    """An episode under test, which records its actions and checks each step."""

    def __init__(self, subject: Subject, env: TextEnv) -> None:
        self.subject, self.env = subject, env
        self.observation = ""
        self.info: dict[str, Any] = {}
        self._seed: int | None = None
        self._options: dict[str, Any] | None = None
        self._actions: list[str] = []
        self._return = 0.0
        self._last = "", 0.0
        """The observation and the return before the last action."""

    @property
    def moves(self) -> Moves:
        """The reset and the actions so far."""
        return Moves(self._seed, self._options, tuple(self._actions), env_kwargs=self.subject.env_kwargs)

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return bool(self.env.stop_reason)

    def fail(self, message: str) -> NoReturn:
        """Fail the check; this episode reproduces it."""
        raise BrokenContractError(message, self.moves)

    def require(self, condition: bool, message: str) -> None:
        """Fail the check with `message` unless `condition` holds."""
        if not condition:
            self.fail(message)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> str:
        """Begin an episode and return its observation."""
        self.subject.begin(self)
        self._seed, self._options, self._actions, self._return = seed, options, [], 0.0
        with time_limit(self.subject.settings.longest_step, "reset"):
            start = self.env.reset(seed=seed, options=options)
        if not (isinstance(start, tuple) and len(start) == 2):
            self.fail(f"reset returns no pair: {start!r:.200}")
        self.observation, self.info = start
        self.subject.counts["episodes"] += 1
        self.require(isinstance(self.observation, str), f"reset observes {type(self.observation).__name__}, not text")
        self._check_info(self.info)
        self.require(self.info["success"] is False, f"reset says success: {self.info['success']!r}")
        for prompt in get_args(Prompt):
            self._require_readable(read_start, start, prompt, self.env)
        self._require_readable(read_version, self.env)
        self._require_readable(read_task, self.env.current_task)
        return self.observation

    def step(self, action: str) -> Turn:
        """Do one action and check everything that holds of every step."""
        self._actions.append(action)
        self._last = self.observation, self._return
        had_ended = self.over
        with time_limit(self.subject.settings.longest_step, "step"):
            values = self.env.step(action)
        if not (isinstance(values, tuple) and len(values) == 5):  # no `require`, whose message takes as long as a step
            self.fail(f"step returns no tuple of five values: {values!r:.200}")
        turn = Turn(*values)
        self.subject.counts["steps"] += 1
        self.observation, self.info = turn.observation, turn.info
        self._check_turn(turn)
        self._require_readable(read_turn, turn)
        if turn.terminated or turn.truncated:
            self._require_readable(read_partner, self.env)
        if not had_ended:
            self._return += turn.reward
            self._require_possible_return()
        return turn

    def expert(self) -> list[str]:
        """Return the expert's plan from the current state."""
        with time_limit(self.subject.settings.longest_step, "expert"):
            plan = self.env.expert()
        self.subject.counts["plans"] += 1
        valid = isinstance(plan, list) and all(isinstance(action, str) for action in plan)
        self.require(valid, f"expert() is not a list of strings: {plan!r:.200}")
        thought = self.env.expert_thought(plan[0]) if plan else ""
        self.require(isinstance(thought, str), f"expert_thought() is not a string: {thought!r:.200}")
        return plan

    def snapshot(self) -> bytes:
        """Take a snapshot."""
        self.subject.counts["snapshots"] += 1
        return self.env.snapshot()

    def follow(self, plan: Sequence[str]) -> Turn:
        """Do a whole plan and return the last turn."""
        self.require(bool(plan), "expert() is empty, and the episode is not over")
        for number, action in enumerate(plan):
            turn = self.step(action)
            self.require(turn.info["valid_action"], f"the expert's action is not valid: {short_repr(action)}")
            early = self.over and number + 1 < len(plan)
            self.require(not early, f"the episode is over after {number + 1} of the {len(plan)} actions of the plan")
        return turn

    def any_action(self, rng: Rng) -> str:
        """Return an action of an agent that does not think."""
        return any_action(self.env, rng, self.observation)

    def wander(self, rng: Rng, steps: int, nonsense: float = 0.2) -> list[Turn]:
        """Do up to `steps` random actions, a share of them nonsense."""
        turns: list[Turn] = []
        while len(turns) < steps and not self.over:
            turns.append(self.step(NONSENSE if rng.uniform() < nonsense else self.any_action(rng)))
        return turns

    def take_back(self, before: bytes) -> None:
        """Take back the last action, before which the snapshot was taken."""
        action = self._actions.pop()
        undo = f"before = env.snapshot()\nenv.step({action!a})\nenv.restore(before)"
        with report_with(replace(self.moves, after=undo)):
            self.env.restore(before)
        self.observation, self._return = self._last

    def explore(self, rng: Rng, steps: int) -> list[tuple[bytes, Turn]]:
        """Do random, nonsense and expert actions, and take back each one that terminates the episode.

        Returns the snapshot before each action, with the turn that followed.
        """
        history: list[tuple[bytes, Turn]] = []
        for _ in range(steps):
            if self.over:
                break
            before = self.snapshot()
            turn = self.step(self._mixed_action(rng))
            if turn.terminated:
                self.take_back(before)
            else:
                history.append((before, turn))
        return history

    def _mixed_action(self, rng: Rng) -> str:
        kind = rng.below(8)
        plan = self.expert() if kind in (1, 2, 3) else []
        return NONSENSE if kind == 0 else plan[0] if plan else self.any_action(rng)

    def _require_possible_return(self) -> None:
        """Fail the check if the return so far is above `max_return`: an agent may give up here."""
        limit = self.env.max_return
        if limit is not None:
            self.require(self._return <= limit + 1e-9, f"the return is {self._return:g}, and max_return says {limit:g}")

    def _require_readable(self, read: Callable[..., object], *values: Any) -> None:
        """Fail the check if the collector would refuse the values."""
        try:
            read(*values)
        except (TypeError, ValueError, LookupError) as error:
            self.fail(str(error.args[0]) if error.args else repr(error))

    def _check_turn(self, turn: Turn) -> None:
        self.require(isinstance(turn.observation, str), f"step observes {type(turn.observation).__name__}, not text")
        self.require(self.env.observation_space.contains(turn.observation), "the observation is not in its space")
        finite = type(turn.reward) is float and math.isfinite(turn.reward)
        self.require(finite, f"the reward is not a finite float: {turn.reward!r}")
        ends = turn.terminated, turn.truncated
        self.require(all(type(end) is bool for end in ends), f"terminated and truncated are not bools: {ends!r}")
        self.require(not all(ends), "an episode is terminated or truncated, never both")
        self._check_info(turn.info)

    def _check_info(self, info: Mapping[str, Any]) -> None:
        if not isinstance(info, Mapping):
            self.fail(f"info is no mapping: {info!r:.200}")
        missing = _INFO - info.keys()
        self.require(not missing, f"info lacks {', '.join(sorted(missing))}")
        flags = info["success"], info["valid_action"]
        bools = all(type(flag) is bool for flag in flags)
        self.require(bools, f"success and valid_action are not bools: {flags[0]!r}, {flags[1]!r}")
        try:
            _JSON.encode(info)
        except (TypeError, ValueError, RecursionError) as error:
            self.fail(f"info is not of JSON values: {error}: {info!r:.200}")
        task = self.env.current_task
        same = task is not None and info["task_id"] == task.id
        self.require(same, f"task_id is {info['task_id']!r}, the task is {task.id if task else None!r}")


def short_repr(text: str) -> str:
    """Return a text as a Python literal, shortened if it is long."""
    literal = ascii(text) if any("\ud800" <= char <= "\udfff" for char in text[:200]) else repr(text)
    return literal if len(literal) <= 200 else f"{literal[:150]}… ({len(text)} characters)"


def contains_words(text: str, words: str) -> bool:
    """Tell whether `words` occur in `text` as whole words; the cheap substring test comes first."""
    return words.strip() != "" and words in text and bool(re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text))
