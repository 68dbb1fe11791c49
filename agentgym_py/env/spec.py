"""`EnvSpec`: the name and arguments of an environment."""

from __future__ import annotations

import inspect
import sys
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from agentgym_py.env.base import TextEnv
from agentgym_py.env.registration import REMOTE, env_class, env_id
from agentgym_py.env.tracebacks import env_line
from agentgym_py.errors import AgentGymError, ConfigError, UnknownNameError
from agentgym_py.files import canonical_json

_CLIENT_ARGUMENTS = ("url", "env", "token", "timeout", "retries")
"""Arguments of `RemoteEnv` itself; the others go to its world."""
_REPLY_TOKENS = 64
_MAKE_ERRORS = (
    AttributeError, ImportError, LookupError, TypeError, ValueError, SystemExit, gymnasium.error.Error,
)  # fmt: skip
"""What a world raises when its arguments are wrong, or it cannot be made at all."""


def world_title(name: str, kwargs: Mapping[str, Any]) -> str:
    """Return what a reader sees of a world, such as `AgentMaze-v0, difficulty hard`; it need not be installed."""
    return ", ".join((name, *(f"{key} {value}" for key, value in kwargs.items())))


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """Name and arguments of an environment; `make` creates it."""

    name: str
    """Short name or Gymnasium id."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What a reader sees of the world itself; see `world_title`."""
        local = self.local_spec
        return world_title(env_id(local.name), local.kwargs)

    @property
    def key(self) -> str:
        """Text that is equal for specs of the same environment."""
        return env_id(self.name) + canonical_json(self.kwargs)

    @property
    def local_spec(self) -> EnvSpec:
        """The spec of the world itself, by its id, also if a server runs it."""
        name = env_id(self.name)
        if name != REMOTE:
            return EnvSpec(name, self.kwargs)
        name = str(self.kwargs.get("env"))
        with suppress(UnknownNameError):  # only the server may have it
            name = env_id(name)
        return EnvSpec(name, {key: value for key, value in self.kwargs.items() if key not in _CLIENT_ARGUMENTS})

    def make(self) -> TextEnv:
        """Make the environment, without Gymnasium's wrappers (they cost more than a step).

        Raises:
            ConfigError: it cannot be made with these arguments, or is not a TextEnv.
            UnknownNameError: there is no such environment.
        """
        for parameter in inspect.signature(gymnasium.make).parameters.values():
            if parameter.kind is not parameter.VAR_KEYWORD and parameter.name in self.kwargs:
                raise ConfigError(f"{self.name} cannot take {parameter.name!r}: gymnasium.make reserves that argument")
        try:
            env = gymnasium.make(env_id(self.name), disable_env_checker=True, **self.kwargs).unwrapped
        except AgentGymError:
            raise
        except _MAKE_ERRORS as error:
            cause = error.__cause__ or error  # Gymnasium wraps a TypeError and adds the arguments
            text = repr(cause) if isinstance(cause, SystemExit) else cause
            where = f" ({line})" if (line := env_line(cause)) else ""
            raise ConfigError(f"{self.name} cannot be made with {dict(self.kwargs)}: {text}{where}") from error
        if not isinstance(env, TextEnv):
            raise ConfigError(f"{self.name!r} makes {env!r:.100}, which is not a TextEnv")
        return env

    def task_ids(self, split: str, numbers: Iterable[int]) -> list[str]:
        """Return the ids of the tasks of a split with these numbers; UnknownNameError if it has none of one."""
        with closing(self.make()) as env:
            return [env.task(number, split).id for number in numbers]

    def count(self, split: str, most: int) -> int:
        """Count the tasks of a split, up to `most`."""

        def is_missing(number: int) -> bool:
            try:
                env.task(number, split)
            except UnknownNameError:
                return True
            return False

        with closing(self.make()) as env:
            if not most or not is_missing(most - 1):
                return most
            return bisect_left(range(min(most, sys.maxsize)), True, key=is_missing)


def reply_tokens(specs: Iterable[EnvSpec]) -> int:
    """Return the longest reply in tokens with which a model plays by default: the largest of the worlds.

    That of a world is `max_new_tokens` of its `evolve_defaults`, or 64.
    """
    longest = [_REPLY_TOKENS]
    for spec in specs:
        with suppress(UnknownNameError):  # only its server has it, or it is reported later
            longest.append(getattr(env_class(spec.local_spec.name), "evolve_defaults", {}).get("max_new_tokens", 0))
    return max(longest)
