"""`TextEnv`: a Gymnasium environment in text, with tasks, snapshots and an exact expert."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import gymnasium
import numpy as np
from gymnasium.utils import seeding

from agentgym_py.checks import is_path, parameters_of, require_arguments
from agentgym_py.env.actions import Reply, parse_reply
from agentgym_py.env.arguments import require_seed, require_split
from agentgym_py.env.snapshots import SNAPSHOT_FORMAT, read_snapshot, require_end, write_snapshot
from agentgym_py.env.spaces import UnicodeText
from agentgym_py.env.types import MAX_TEXT, Outcome, PartnerRecord, StopReason, Task
from agentgym_py.errors import ActionError, ConfigError, ResetNeededError, SnapshotError, UnknownNameError, did_you_mean
from agentgym_py.rng import Rng

_TERMINATED, _TRUNCATED = StopReason.TERMINATED, StopReason.TRUNCATED
_INIT_ADVICE = "call super().__init__(max_steps=..., split=split, render_mode=render_mode) in it"
NOT_IN_SNAPSHOTS = ("split", "render_mode")
"""Arguments that do not change an episode of a given task."""


class TextEnv(gymnasium.Env[str, str]):
    """A text world: Gymnasium's `reset` and `step`, and tasks, snapshots, an expert and admissible actions.

    A subclass defines `task`, `begin`, `act`, `state`, `load_state`, `expert`, and `actions` and `tools` if it can.
    `step` takes a whole reply: ReAct text, a tool call or the bare action (`agentgym_py.env.actions`). A reply that
    makes no sense leads to an observation with `info["valid_action"]` False, never to an exception.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]  # Gymnasium's is no ClassVar
        "render_modes": ["ansi"], "render_fps": 1,
    }  # fmt: skip
    """What Gymnasium asks of a world. A recording shows one step per second."""
    name: ClassVar[str]
    """Short name; the first part of every task id."""
    version: ClassVar[int] = 0
    """Increased when observations, rewards or tasks change; part of snapshots and of provenance."""
    held_out_version: ClassVar[int | None] = None
    """The oldest version with the same valid and test tasks, if only training tasks changed since."""
    rules: ClassVar[Mapping[str, str]] = {"full": "", "brief": "", "none": ""}
    """The text that opens an episode for a language model, by `Prompt`."""
    random_baseline: float = 0.05
    """Largest success rate of an agent that acts at random, tested by the conformance kit; the card explains one above
    5 %."""
    max_return: ClassVar[float | None] = None
    """Largest return of an episode, tested by the conformance kit; None if unknown."""
    evolve_defaults: ClassVar[Mapping[str, Any]] = {}
    """Other defaults of `agentgym evolve` that suit a small model here, by option: `{"expert_tasks": 100, "env_kwargs":
    {"difficulty": "easy"}}`. A run of several worlds takes the largest of their numbers, and their `model` if all
    name the same. `merge` and `restart` hold for trainers that clone the expert, such as filtered_bc."""
    reading_actions: ClassVar[tuple[str, ...]] = ()
    """First words of the actions that only read, as patterns such as `list_*`: their steps are retrieval for trainers
    that weigh kinds of steps (`trajectory.step_kinds`)."""
    id_arguments: ClassVar[tuple[str, ...]] = ()
    """Arguments that a task id determines, such as `difficulty` in `shop/test/hard/17`; snapshots leave them out."""
    _kwargs: dict[str, Any]
    """Arguments that a snapshot and the environment that restores it must have in common."""
    costs: ClassVar[Mapping[str, str]] = {}
    """What an agent must not do here beside failing, by name: what one unit means. Each step's `info["costs"]` has a
    number of at least 0 for each; they affect neither reward nor success."""
    stops_at_end: bool = True
    """False only for a world that reproduces an original whose episodes continue after the end."""
    has_model_partner: bool = False
    """Whether a model in the world plays other roles."""
    _reset_options: ClassVar[tuple[str, ...]] = ("task", "split")

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse a class that lacks a method, and an unknown argument, in a message of one line.

        `gymnasium.Env` has no ABCMeta, so Python does not enforce abstract methods here; and `gymnasium.make` reports a
        wrong argument by a bare TypeError.
        """
        env_class: type = cls  # mypy does not take type[Self] for hashable
        missing, problems = _missing(env_class), list[str]()
        if missing:
            problems.append(f"lacks {', '.join(missing)}: define them (see TextEnv)")
        if cls.__init__ is TextEnv.__init__ and "max_steps" not in kwargs:
            problems.append(f"sets no max_steps: define __init__ and {_INIT_ADVICE}")
        if problems:
            raise ConfigError(f"{cls.__name__} {'; it '.join(problems)}")
        arguments = dict(zip(parameters_of(env_class), args, strict=False)) | kwargs
        require_arguments(env_class, arguments)
        env = super().__new__(cls)
        env._kwargs = changed_arguments(env_class, arguments, (*NOT_IN_SNAPSHOTS, *cls.id_arguments))
        return env

    def __init__(
        self,
        *,
        max_steps: int | None,
        split: str = "train",
        render_mode: str | None = None,
        usual_steps: int | None = None,
    ) -> None:
        """`usual_steps` replaces a `max_steps` of None: a default that depends on other arguments."""
        if max_steps in (None, usual_steps):
            self._kwargs.pop("max_steps", None)
            max_steps = usual_steps
        if max_steps is None or max_steps < 1:
            raise ConfigError(f"max_steps must be at least 1, got {max_steps}")
        self.max_steps = max_steps
        self.split = require_split(split)
        self.render_mode = render_mode
        self.observation_space = UnicodeText(MAX_TEXT)
        self.action_space = UnicodeText(MAX_TEXT)
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
        """The parsed reply of the last step; None before the first step and after a step beyond the end."""

    # ---- what a world defines -----------------------------------------------------------------------------------

    @abstractmethod
    def task(self, name: str | int, split: str | None = None) -> Task:
        """Return the task of an id, or number `name` of a split (default: the environment's); else UnknownNameError."""

    @abstractmethod
    def begin(self, task: Task) -> str:
        """Set the world up for `task` and return the first observation."""

    @abstractmethod
    def act(self, reply: Reply) -> Outcome:
        """Do one action."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the state of the episode, besides task, steps and generator, as JSON values."""

    @abstractmethod
    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Load a state that `state` returned for the same task.

        The values may be any JSON. An impossible one raises SnapshotError, TypeError, ValueError or LookupError before
        anything changes.
        """

    def is_terminal(self, state: Mapping[str, Any]) -> bool | None:
        """Return whether an episode in this state has terminated; None if the state alone does not show it.

        `restore` refuses a snapshot that contradicts it.
        """
        del state
        return None

    @abstractmethod
    def expert(self) -> list[str]:
        """Return a plan that solves the task from the current state: a list of actions, in their order.

        It is a shortest one if the class says so. Doing its first action and then asking for a new plan must solve the
        task too. `fair_expert` returns one action, not a list.
        """

    def fair_expert(self) -> str | None:
        """Return the next action of a teacher that knows only what the episode has shown; None if there is none.

        It returns one action as text, and no plan as `expert` does, because later actions depend on what the world
        shows. It may fail, but a policy with the same observations can learn it. By default it is the expert's action.
        """
        plan = self.expert()
        return plan[0] if plan else None

    def sample_task(self, split: str) -> Task:
        """Draw a random task of a split; a world with finitely many tasks overrides it."""
        return self.task(self.rng.below(1 << 31), split)

    def extra_info(self) -> Mapping[str, Any]:
        """Return what this world adds to the `info` of a reset, as JSON values."""
        return {}

    def actions(self) -> list[str] | None:
        """List the actions that can be tried here, as `step` takes them; None if they cannot be listed.

        Some may still fail, such as opening a locked gate.
        """
        return None

    @property
    def difficulties(self) -> tuple[str, ...]:
        """Values of the argument `difficulty` from easy to hard: the levels of a curriculum; empty without them."""
        return ()

    @property
    def files_digest(self) -> str | None:
        """Digest of the files that an argument names and on which episodes depend; None without such files.

        It is part of a trajectory's provenance: a replay with other files says so.
        """
        return None

    @property
    def partner_record(self) -> PartnerRecord | None:
        """The episode's moves if `has_model_partner`, so that a replay needs no such model."""
        return None

    def tools(self) -> list[dict[str, Any]] | None:
        """Return JSON schemas (OpenAI function tools) of the actions; None if the world has no tools."""
        return None

    def call_forms(self) -> Mapping[str, str]:
        """Return how an action's text writes the call of each tool: `{"take": "take {object} from {receptacle}"}`.

        The call and its text must do the same. Rows for models that call tools have the call. A world whose actions are
        calls needs no forms.
        """
        return {}

    def secrets(self) -> list[str] | None:
        """Return texts that neither observation nor `info` may contain now, such as the hidden word or the answer.

        The conformance kit searches for them in every step before the end. With None it guesses them from the last
        action of the expert's plan; a world that hides nothing returns []. Agents never see them.
        """
        return None

    def read(self, text: str) -> Reply:
        """Parse an agent's reply; a world overrides it only to reproduce an original that parses differently."""
        return parse_reply(text)

    def parse(self, text: str) -> Reply:
        """Return `read(text)`, cached until the next step so that a reply is parsed once."""
        if self._parsed is None or self._parsed[0] != text:
            self._parsed = text, self.read(text)
        return self._parsed[1]

    def invalid(self, why: str) -> Outcome:
        """Return the outcome of a reply that cannot be read, such as a call with broken arguments."""
        terminated = self.stop_reason is _TERMINATED
        return Outcome(why, terminated=terminated, success=self.succeeded, valid=False, info=self.extra_info())

    def expert_thought(self, action: str) -> str:
        """Return one sentence that a teacher would say before `action` in the current state; may be empty."""
        del action
        return ""

    # ---- Gymnasium ----------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Seeds the generator; the same seed gives the same task in every process.
            options: `{"task": id or number}` chooses a task, `{"split": name}` the split that it is drawn from.

        Raises:
            UnknownNameError: an option, split or task that does not exist, or a task of another split.
            ConfigError: a seed that is not an integer >= 0, or options that are not a mapping.
        """
        return self._end_reset(self.begin(self._begin_reset(seed, options)))

    def _begin_reset(self, seed: int | None, options: Mapping[str, Any] | None) -> Task:
        """Choose the task of a new episode; the first half of `reset`, up to `begin`."""
        if seed is not None:
            seed = require_seed(seed)
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(
                f"options must be a dict such as {{'task': 0}} or {{'split': 'test'}}, not {options!r:.60}"
            )
        self._reseed(seed)
        options = options or {}
        for key in options:
            if key not in self._reset_options:
                raise UnknownNameError(
                    f"No reset option {key!r}." + did_you_mean(key, self._reset_options, "There are")
                )
        split = require_split(options["split"]) if "split" in options else None
        name = options.get("task")
        task = self.sample_task(split or self.split) if name is None else self.task(name, split)
        if split is not None and task.split != split:
            raise UnknownNameError(
                f"Task {task.id!r} is in split {task.split!r}, not {split!r}: leave one of them out."
            )
        self.current_task = task
        self.steps, self.stop_reason, self.succeeded = 0, None, False
        self.last_reply = self._parsed = None
        return task

    def _end_reset(self, observation: str) -> tuple[str, dict[str, Any]]:
        """Return what `reset` returns."""
        self._last, task = observation, self._require_reset()
        info = {"success": False, "task_id": task.id, "valid_action": True, **self.extra_info()}
        if self.costs:
            info["costs"] = dict.fromkeys(self.costs, 0.0)
        return observation, info

    @cached_property
    def _np_random(self) -> np.random.Generator | None:  # type: ignore[override]  # Gymnasium's is a variable
        """Gymnasium's generator, made on first use: worlds draw from `rng`, and numpy takes 20 µs to seed one."""
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
        """Do one action, given as a reply (see the class).

        After the end of an episode nothing changes: reward 0, the end is repeated, the action is not valid.

        Raises:
            ActionError: `action` is not a string.
        """
        reply = self._begin_step(action)
        return self._end_step(reply if isinstance(reply, Outcome) else self.act(reply))

    def _begin_step(self, action: str) -> Reply | Outcome:
        """Parse a reply; return the outcome if there is nothing to do, after the end or for an unreadable reply."""
        self._require_reset()
        if not isinstance(action, str):
            raise ActionError(f"action must be a string, the agent's whole reply; got {action!r:.60}")
        if self.stop_reason and self.stops_at_end:
            self.last_reply = None
            terminated = self.stop_reason is _TERMINATED
            return Outcome("The episode has ended.", terminated=terminated, success=self.succeeded, valid=False)
        parsed, self._parsed = self._parsed, None
        reply = self.last_reply = parsed[1] if parsed and parsed[0] == action else self.read(action)
        return self.invalid(reply.error) if reply.error else reply

    def _end_step(self, outcome: Outcome) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Return what `step` returns."""
        task = self._require_reset()
        if self.last_reply is not None:  # the episode had not ended
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
        if self.costs:
            info["costs"] = {name: float(outcome.costs.get(name, 0.0)) for name in self.costs}
        return outcome.observation, outcome.reward, outcome.terminated, truncated, info

    def render(self) -> str | None:
        """Return the last observation, in render mode `ansi`."""
        return self._last if self.render_mode == "ansi" else None

    # ---- forks --------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the episode as JSON bytes, from which `restore` continues exactly in any process."""
        task = self._require_reset()
        data = {
            "format": SNAPSHOT_FORMAT,
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
            data["arguments"] = self._kwargs
        return write_snapshot(data)

    def restore(self, snapshot: bytes) -> None:
        """Continue the episode of `snapshot`.

        Raises:
            SnapshotError: not a snapshot, or one of another world, version or set of arguments; nothing has changed.
        """
        data = read_snapshot(snapshot, self.name)
        if (arguments := data.get("arguments", {})) != self._kwargs:
            raise SnapshotError(
                f"The snapshot does not fit: its world was made with {arguments or 'no arguments'}, this one with "
                f"{self._kwargs or 'none'}"
            )
        try:
            if self.stops_at_end:
                require_end(data, self.max_steps)
                terminal = self.is_terminal(data["state"])
                if terminal is not None and terminal != (data["ended"] == "terminated"):
                    raise SnapshotError("The snapshot's 'ended' contradicts its 'state'")
            task = self.task(data["task"])
            if not self.reads_version(data["version"], task.split):
                raise SnapshotError(f"Its version is {data['version']!r:.100}, not {self.version}")
            self.load_state(task, data["state"])
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise SnapshotError(f"The snapshot does not fit this environment: {error}") from error
        self.current_task, self.steps = task, data["steps"]
        self.stop_reason = StopReason(data["ended"]) if data["ended"] else None
        self.succeeded, self._last = data["success"], data["last"]
        self.last_reply = self._parsed = None
        self.rng.state, self._seeded = data["rng"], True

    def reads_version(self, version: object, split: str) -> bool:
        """Return whether episodes at tasks of a split are the same in an earlier version of this environment."""
        held_out = None if split == "train" else self.held_out_version
        oldest = self.version if held_out is None else held_out
        return type(version) is int and oldest <= version <= self.version

    def _require_reset(self) -> Task:
        if self.current_task is None:
            raise ResetNeededError(f"{type(self).__name__} needs reset() before it can be used")
        return self.current_task


@lru_cache(maxsize=256)
def _missing(env_class: type) -> list[str]:
    """`name` and the abstract methods that a class does not define, in the order of their definition."""
    abstract = [
        name for base in reversed(env_class.__mro__) for name, value in vars(base).items() if _is_abstract(value)
    ]
    missing = [name for name in dict.fromkeys(abstract) if _is_abstract(getattr(env_class, name))]
    return missing if hasattr(env_class, "name") else ["name", *missing]


def _is_abstract(value: object) -> bool:
    return bool(getattr(value, "__isabstractmethod__", False))


def changed_arguments(env_class: type, arguments: Mapping[str, Any], without: Sequence[str]) -> dict[str, Any]:
    """Return the arguments, as JSON values, that differ from their defaults, except those in `without`.

    Paths are not compared, because the same files may lie elsewhere; the state shows whether their content fits.
    """
    parameters, changed = parameters_of(env_class), dict[str, Any]()
    for name, value in arguments.items():
        parameter = parameters.get(name)
        if name in without or (parameter and (value == parameter.default or is_path(parameter))):
            continue
        with suppress(TypeError, ValueError):  # values that JSON cannot hold are not compared
            changed[name] = as_json(value)
    return changed


def as_json(value: Any) -> Any:
    """Return an argument as a JSON value; sets and tuples become lists."""
    return json.loads(json.dumps(sorted(value) if isinstance(value, set | frozenset) else value))
