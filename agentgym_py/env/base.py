"""`TextEnv`: a Gymnasium environment of text with tasks, snapshots and an exact expert."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from numbers import Integral
from typing import Any, ClassVar, Self, get_args

import gymnasium
import numpy as np
from gymnasium.utils import seeding

from agentgym_py.checks import is_path, parameters_of, require_arguments
from agentgym_py.env.actions import Reply, parse_reply
from agentgym_py.env.spaces import UnicodeText
from agentgym_py.env.types import SPLITS, Outcome, Prompt, StopReason, Task
from agentgym_py.errors import (
    ActionError,
    ConfigError,
    ResetNeededError,
    SnapshotError,
    UnknownNameError,
    did_you_mean,
    nearest,
)
from agentgym_py.rng import Rng

_TERMINATED, _TRUNCATED = StopReason.TERMINATED, StopReason.TRUNCATED
_ENDS = ("", _TERMINATED, _TRUNCATED)
"""How a snapshot says that its episode ended; empty while it runs."""
_SNAPSHOT_FORMAT = 1
_SNAPSHOT_KINDS = {"task": str, "steps": int, "ended": str, "success": bool, "rng": int, "last": str, "state": dict}
_SNAPSHOT_KEYS = dict.fromkeys(("format", "env", "version", *_SNAPSHOT_KINDS)).keys()
_RNG_STATES = range(1 << 64)
_WRITER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_INIT_ADVICE = "call super().__init__(max_steps=..., split=split, render_mode=render_mode) in it"
_NO_DIFFERENCE = ("split", "render_mode")
"""Arguments that an episode does not depend on, once its task is known by its id."""


class TextEnv(gymnasium.Env[str, str]):
    """A world of text: `reset`, `step`, and on top of Gymnasium tasks, snapshots, an expert and admissible actions.

    A world subclasses it and gives `task`, `begin`, `act`, `state`, `load_state`, `expert`; `actions` and `tools` where
    it can. `step` takes a whole reply: ReAct text, a tool call or the bare action (`agentgym_py.env.actions`).
    A reply that makes no sense is an observation with `info["valid_action"]` False, never an exception.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}  # type: ignore[misc]  # Gymnasium's is no ClassVar
    name: ClassVar[str]
    """Short name; the first part of every task id."""
    version: ClassVar[int] = 0
    """Goes up when observations, rewards or tasks change; part of snapshots and of provenance."""
    rules: ClassVar[Mapping[str, str]] = {"full": "", "brief": "", "none": ""}
    """The text that opens an episode for a language model, by `Prompt`."""
    random_baseline: float = 0.05
    """The share of episodes in which an agent that does not think may succeed by luck.

    The conformance kit tests it; above 5 % the card says why.
    """
    max_return: ClassVar[float | None] = None
    """The largest return that an episode can have; None if the world does not say. The conformance kit holds it."""
    id_arguments: ClassVar[tuple[str, ...]] = ()
    """Arguments that a task's id determines, such as `difficulty` in `shop/test/hard/17`; snapshots leave them out."""
    _kwargs: dict[str, Any]
    """The arguments that both a snapshot and the environment that restores it must have been made with."""
    stops_at_end: bool = True
    """False only if an env reproduces an original that continues after the end."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse a class that lacks a method, and an argument that it does not take, in one line.

        `gymnasium.Env` has no ABCMeta, so Python does not enforce abstract methods here; for a wrong argument
        `gymnasium.make` has only a TypeError.
        """
        world: type = cls
        if missing := _missing(world):
            raise ConfigError(f"{cls.__name__} lacks {', '.join(missing)}: define them (see TextEnv)")
        if cls.__init__ is TextEnv.__init__ and "max_steps" not in kwargs:
            raise ConfigError(f"{cls.__name__} sets no max_steps: define __init__ and {_INIT_ADVICE}")
        given = dict(zip(parameters_of(world), args, strict=False)) | kwargs
        require_arguments(world, given)
        env = super().__new__(cls)
        env._kwargs = _beside_defaults(world, given, (*_NO_DIFFERENCE, *cls.id_arguments))
        return env

    def __init__(
        self,
        *,
        max_steps: int | None,
        split: str = "train",
        render_mode: str | None = None,
        usual_steps: int | None = None,
    ) -> None:
        """`usual_steps` is `max_steps` where that is None: a default that depends on other arguments."""
        if max_steps in (None, usual_steps):
            self._kwargs.pop("max_steps", None)
            max_steps = usual_steps
        if max_steps is None or max_steps < 1:
            raise ConfigError(f"max_steps must be at least 1, got {max_steps}")
        self.max_steps = max_steps
        self.split = require_split(split)
        self.render_mode = render_mode
        self.observation_space = UnicodeText(1 << 20)
        self.action_space = UnicodeText(1 << 20)
        self.rng = Rng("unseeded")
        self.current_task: Task | None = None
        self.steps = 0
        self.stop_reason: StopReason | None = None
        """How the episode ended, `TERMINATED` or `TRUNCATED`; None while it runs."""
        self.succeeded = False
        self._seeded = False
        self._last = ""
        self._parsed: tuple[str, Reply] | None = None
        self.last_reply: Reply | None = None
        """What the last step was told, parsed; None before the first step and for a step after the end."""

    # ---- what a world gives -------------------------------------------------------------------------------------

    @abstractmethod
    def task(self, name: str | int, split: str | None = None) -> Task:
        """The task of an id, or number `name` of a split (default: the environment's). UnknownNameError if none."""

    @abstractmethod
    def begin(self, task: Task) -> str:
        """Set the world up for `task` and return the first observation."""

    @abstractmethod
    def act(self, reply: Reply) -> Outcome:
        """Do one action."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything of the current episode beyond task, steps and generator, as JSON values."""

    @abstractmethod
    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Take up a state that `state` gave, for the same task.

        The values may be anything that JSON holds: what cannot be is a SnapshotError, TypeError, ValueError or
        LookupError, raised before anything is changed.
        """

    def is_terminal(self, state: Mapping[str, Any]) -> bool | None:
        """Whether an episode in this state has terminated, or None where the state alone does not show it.

        `restore` refuses a snapshot that says otherwise.
        """
        del state
        return None

    @abstractmethod
    def expert(self) -> list[str]:
        """Actions that solve the task from the current state: a shortest plan where the class says so, else a plan.

        Who does the first action and asks again must get there too.
        """

    def fair_expert(self) -> str | None:
        """The next action of a teacher who knows only what the episode has shown, or None where nothing is left to do.

        It may fail, but whoever sees the same can learn it. By default the expert's.
        """
        plan = self.expert()
        return plan[0] if plan else None

    def sample_task(self, split: str) -> Task:
        """A random task of a split; a world whose tasks are finite overrides it."""
        return self.task(self.rng.below(1 << 31), split)

    def extra_info(self) -> Mapping[str, Any]:
        """What `info` of a reset holds beside what every world's does, as JSON values."""
        return {}

    def actions(self) -> list[str] | None:
        """What can be tried here, each as `step` takes it, or None where it cannot be listed.

        Most can be done; some may be refused all the same, such as to open a locked gate.
        """
        return None

    def tools(self) -> list[dict[str, Any]] | None:
        """JSON schemas (OpenAI function tools) of the actions, or None where there are none."""
        return None

    def secrets(self) -> list[str] | None:
        """Texts that neither observation nor `info` may show in the current state; None where the world says nothing.

        The hidden word, the answer that is to be worked out. The conformance kit looks for them in every step before
        the end; where there are None it guesses, from the last action of the expert's plan. A world that hides nothing
        says [], and nothing is looked for. Agents never ask.
        """
        return None

    def read(self, text: str) -> Reply:
        """Read an agent's reply; a world overrides it only to reproduce an original that reads it otherwise."""
        return parse_reply(text)

    def parse(self, text: str) -> Reply:
        """Return what `read` makes of a text, kept until the next step: a reply is parsed once."""
        if self._parsed is None or self._parsed[0] != text:
            self._parsed = text, self.read(text)
        return self._parsed[1]

    def invalid(self, why: str) -> Outcome:
        """What a reply does that cannot be done, as a call whose arguments are broken; a world may say it otherwise."""
        terminated = self.stop_reason is _TERMINATED
        return Outcome(why, terminated=terminated, success=self.succeeded, valid=False, info=self.extra_info())

    def expert_thought(self, action: str) -> str:
        """One sentence that a teacher would say before `action` in the current state; may be empty."""
        del action
        return ""

    # ---- Gymnasium ----------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: remakes the generator; the same seed gives the same task in every process.
            options: `{"task": id or number}` chooses a task, `{"split": name}` the split that it is drawn from.

        Raises:
            UnknownNameError: an option, split or task that does not exist, or a task of another split.
            ConfigError: a seed that is no whole number from 0 on, or options that are no mapping.
        """
        if seed is not None:
            seed = require_seed(seed)
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(
                f"options of reset is a dict such as {{'task': 0}} or {{'split': 'test'}}, not {options!r:.60}"
            )
        self._reseed(seed)
        options = options or {}
        for key in options:
            if key not in ("task", "split"):
                raise UnknownNameError(f"No reset option {key!r}." + did_you_mean(key, ["task", "split"], "There are"))
        split = require_split(options["split"]) if "split" in options else None
        name = options.get("task")
        task = self.sample_task(split or self.split) if name is None else self.task(name, split)
        if split is not None and task.split != split:
            raise UnknownNameError(
                f"Task {task.id!r} is of split {task.split!r}, not {split!r}: leave one of them out."
            )
        self.current_task = task
        self.steps, self.stop_reason, self.succeeded = 0, None, False
        self.last_reply = self._parsed = None
        self._last = self.begin(task)
        info = {"success": False, "task_id": task.id, "valid_action": True, **self.extra_info()}
        return self._last, info

    @cached_property
    def _np_random(self) -> np.random.Generator | None:  # type: ignore[override]  # Gymnasium's is a variable
        """Gymnasium's generator, made when it is asked for: worlds draw from `rng`, and numpy seeds one in 20 µs."""
        return None if self._np_random_seed is None else seeding.np_random(self._np_random_seed)[0]

    def _reseed(self, seed: int | None) -> None:
        if seed is not None:
            self.rng = Rng(self.name, seed)
            self._np_random_seed = seed
            self.__dict__.pop("_np_random", None)
        elif not self._seeded:
            self.rng = Rng(self.name, int(self.np_random.integers(1 << 62)))
        self._seeded = True

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do one action; see the class for what may stand in it.

        After the end of an episode nothing changes any more: reward 0, the end is repeated, the action is not valid.

        Raises:
            ActionError: `action` is no string.
        """
        task = self._require_reset()
        if not isinstance(action, str):
            raise ActionError(f"step takes a string, the agent's whole reply; got {action!r:.60}")
        if self.stop_reason and self.stops_at_end:
            terminated = self.stop_reason is _TERMINATED
            outcome = Outcome("The episode has ended.", terminated=terminated, valid=False)
            self.last_reply = None
        else:
            parsed, self._parsed = self._parsed, None
            reply = parsed[1] if parsed and parsed[0] == action else self.read(action)
            self.last_reply = reply
            outcome = self.invalid(reply.error) if reply.error else self.act(reply)
            self.steps += 1
            self.succeeded = outcome.success
        cut = self.steps >= self.max_steps or self.stop_reason is _TRUNCATED
        truncated = cut and not outcome.terminated
        self.stop_reason = _TERMINATED if outcome.terminated else _TRUNCATED if cut else None
        self._last = outcome.observation
        info: dict[str, Any] = {
            "success": self.succeeded,
            "task_id": task.id,
            "valid_action": outcome.valid,
            "reward_parts": dict(outcome.parts),
            **outcome.info,
        }
        return outcome.observation, outcome.reward, outcome.terminated, truncated, info

    def render(self) -> str | None:
        """The last observation, in render mode `ansi`."""
        return self._last if self.render_mode == "ansi" else None

    # ---- forks --------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole episode as JSON bytes; `restore` continues from it exactly, in this or any other process."""
        task = self._require_reset()
        whole = {
            "format": _SNAPSHOT_FORMAT,
            "env": self.name,
            "version": self.version,
            "task": task.id,
            "steps": self.steps,
            "ended": self.stop_reason or "",
            "success": self.succeeded,
            "rng": self.rng.state,
            "last": self._last,
            "state": self.state(),
        }
        if self._kwargs:
            whole["arguments"] = self._kwargs
        return _WRITER.encode(whole).encode("utf-8", "surrogatepass")

    def restore(self, snapshot: bytes) -> None:
        """Take up the episode of `snapshot`.

        Raises:
            SnapshotError: not a snapshot, or one of another world or version, or of one that was made with other
                arguments; nothing has changed then.
        """
        try:
            # json.loads would first guess the encoding of bytes
            whole = json.loads(snapshot.decode("utf-8", "surrogatepass") if type(snapshot) is bytes else snapshot)
        except (ValueError, TypeError, RecursionError) as error:
            raise SnapshotError(f"These bytes are no snapshot: no JSON: {error}") from error
        _check_origin(whole, {"format": _SNAPSHOT_FORMAT, "env": self.name, "version": self.version})
        if (given := whole.get("arguments", {})) != self._kwargs:
            raise SnapshotError(
                f"A snapshot that does not fit: its world was made with {given or 'no arguments'}, this one with "
                f"{self._kwargs or 'none'}"
            )
        try:
            for key, kind in _SNAPSHOT_KINDS.items():
                if type(whole[key]) is not kind:
                    raise SnapshotError(
                        f"A snapshot's {key!r} must be of type {kind.__name__}, found {whole[key]!r:.60}"
                    )
            if whole["steps"] < 0 or whole["ended"] not in _ENDS or whole["rng"] not in _RNG_STATES:
                raise SnapshotError("A snapshot whose 'steps', 'ended' or 'rng' cannot be")
            if self.stops_at_end:
                _check_end(whole, self.max_steps)
            over = self.is_terminal(whole["state"]) if self.stops_at_end else None
            if over is not None and over != (whole["ended"] == "terminated"):
                raise SnapshotError("A snapshot whose 'ended' does not fit its 'state'")
            task = self.task(whole["task"])
            self.load_state(task, whole["state"])
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise SnapshotError(f"A snapshot that does not fit this environment: {error}") from error
        self.current_task, self.steps = task, whole["steps"]
        self.stop_reason = StopReason(whole["ended"]) if whole["ended"] else None
        self.succeeded, self._last = whole["success"], whole["last"]
        self.last_reply = self._parsed = None
        self.rng.state, self._seeded = whole["rng"], True

    def _require_reset(self) -> Task:
        if self.current_task is None:
            raise ResetNeededError(f"{type(self).__name__} needs reset() before it can be used")
        return self.current_task


@lru_cache(maxsize=256)
def _missing(world: type) -> list[str]:
    """The name, and the abstract methods, that a world's class does not define, in the order of their definition."""
    defined = [name for base in reversed(world.__mro__) for name, value in vars(base).items() if _is_abstract(value)]
    missing = [name for name in dict.fromkeys(defined) if _is_abstract(getattr(world, name))]
    return missing if hasattr(world, "name") else ["name", *missing]


def _is_abstract(value: object) -> bool:
    return bool(getattr(value, "__isabstractmethod__", False))


def _beside_defaults(world: type, given: Mapping[str, Any], without: Sequence[str]) -> dict[str, Any]:
    """The arguments, as JSON holds them, that are not what they are by default, `without` some.

    Files are not among them: where the same content stands elsewhere, a world takes it up, and its own state tells.
    """
    taken, found = parameters_of(world), dict[str, Any]()
    for name, value in given.items():
        known = taken.get(name)
        if name in without or (known and (value == known.default or is_path(known))):
            continue
        with suppress(TypeError, ValueError):  # what JSON does not hold is not compared
            found[name] = json.loads(json.dumps(sorted(value) if isinstance(value, set | frozenset) else value))
    return found


def _check_end(whole: Mapping[str, Any], limit: int) -> None:
    """SnapshotError where steps, end and success do not fit each other in a world that stops at the end."""
    steps, ended = whole["steps"], whole["ended"]
    if steps > limit or (not ended and steps == limit) or (ended == "truncated" and steps < limit):
        raise SnapshotError(f"A snapshot of {steps} steps that is {ended or 'not ended'}; the limit here is {limit}")
    if ended and not steps:
        raise SnapshotError(f"A snapshot that is {ended} before the first step")
    if whole["success"] and not ended:
        raise SnapshotError("A snapshot of success whose episode has not ended")


def _check_origin(whole: Any, wanted: Mapping[str, Any]) -> None:
    """SnapshotError, which names what differs, unless this is a snapshot of the wanted format, world and version."""
    if not isinstance(whole, dict):
        raise SnapshotError(f"These bytes are no snapshot: {whole!r:.60} is no JSON object")
    if not whole.keys() >= _SNAPSHOT_KEYS:
        missing = [key for key in _SNAPSHOT_KEYS if key not in whole]
        raise SnapshotError(f"These bytes are no snapshot: they lack {', '.join(missing)}")
    for key, value in wanted.items():
        if whole[key] != value:
            raise SnapshotError(f"A snapshot that does not fit: its {key} is {whole[key]!r:.100}, wanted {value!r}")


def require_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """ConfigError unless `value`, an argument of a world, is one of its choices."""
    if value not in choices:
        near = nearest(str(value), [each for each in choices if isinstance(each, str)])
        hint = f". Did you mean {near!r}?" if near else ""
        raise ConfigError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}{hint}")


def unknown_task_error(name: str, world: str, difficulty: str, difficulties: Sequence[str]) -> UnknownNameError:
    """The error of an id that is no `world/split/difficulty/number` of this world; it says which part is wrong."""
    parts = name.split("/")
    if len(parts) != 4:
        wrong = "neither a number nor an id of four parts"
    elif parts[0] != world:
        wrong = f"its world is {parts[0]!r}, here it is {world!r}"
    elif parts[1] not in SPLITS:
        wrong = f"split must be one of {', '.join(SPLITS)}, not {parts[1]!r}"
    elif parts[2] not in difficulties:
        wrong = f"difficulty must be one of {', '.join(difficulties)}, not {parts[2]!r}"
    elif parts[2] != difficulty:
        wrong = f"its difficulty is {parts[2]!r}, here it is {difficulty!r} (an argument of the world)"
    else:
        wrong = f"{parts[3]!r} is no number such as 0 or 17, of 18 digits at most"
    return UnknownNameError(f"No task {name!r}: {wrong}; ids here look like '{world}/test/{difficulty}/17'.")


def require_seed(seed: object) -> int:
    """`seed` if it is a whole number from 0 on, else ConfigError."""
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise ConfigError(f"seed must be a whole number from 0 on, not {seed!r:.60}")
    return int(seed)


def require_split(split: str) -> str:
    """`split` if there is such a one, else UnknownNameError."""
    if split not in SPLITS:
        raise UnknownNameError(f"No split {split!r}." + did_you_mean(str(split), SPLITS, "There are"))
    return split


def require_prompt(prompt: Prompt) -> Prompt:
    """`prompt` if it is one, else ConfigError."""
    if prompt not in get_args(Prompt):
        raise ConfigError(f"No prompt {prompt!r}." + did_you_mean(str(prompt), get_args(Prompt), "There are"))
    return prompt
