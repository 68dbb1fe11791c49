"""An environment by name and arguments, and how it is made."""

from __future__ import annotations

import inspect
from bisect import bisect_left
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from agentgym_py.env.base import TextEnv
from agentgym_py.env.registration import REMOTE, env_id
from agentgym_py.env.tracebacks import env_line
from agentgym_py.errors import AgentGymError, ConfigError, UnknownNameError
from agentgym_py.files import canonical_json

_OF_THE_CLIENT = ("url", "env", "token", "timeout", "retries")
"""Arguments of `RemoteEnv` that are not its world's."""


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """An environment and how to make it."""

    name: str
    """Short name or Gymnasium id."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Equal for specs that make the same environment."""
        return env_id(self.name) + canonical_json(self.kwargs)

    @property
    def local_spec(self) -> EnvSpec:
        """The world that is played, by its id: one that a server runs is the same here as there."""
        name = env_id(self.name)
        if name != REMOTE:
            return EnvSpec(name, self.kwargs)
        name = str(self.kwargs.get("env"))
        with suppress(UnknownNameError):  # a world that only the server has
            name = env_id(name)
        return EnvSpec(name, {key: value for key, value in self.kwargs.items() if key not in _OF_THE_CLIENT})

    def make(self) -> TextEnv:
        """A fresh environment, without Gymnasium's wrappers (they cost more than a step).

        Raises:
            ConfigError: it cannot be made with these arguments, or is no TextEnv.
            UnknownNameError: there is no such environment.
        """
        own = inspect.signature(gymnasium.make).parameters.values()
        for each in own:
            if each.kind is not each.VAR_KEYWORD and each.name in self.kwargs:
                raise ConfigError(f"{self.name} cannot have it: gymnasium.make takes {each.name!r} for itself")
        try:
            made = gymnasium.make(env_id(self.name), disable_env_checker=True, **self.kwargs).unwrapped
        except AgentGymError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError, gymnasium.error.Error) as error:
            why = error.__cause__ or error  # Gymnasium says a TypeError again, with the arguments
            where = f" ({place})" if isinstance(why, Exception) and (place := env_line(why)) else ""
            raise ConfigError(f"{self.name} cannot be made with {dict(self.kwargs)}: {why}{where}") from error
        if not isinstance(made, TextEnv):
            raise ConfigError(f"{self.name!r} makes {made!r:.100}, which is no TextEnv")
        return made

    def count(self, split: str, wanted: int) -> int:
        """How many of the first `wanted` tasks of a split there are: all of them, but in a world of few."""

        def missing(number: int) -> bool:
            try:
                env.task(number, split)
            except UnknownNameError:
                return True
            return False

        with closing(self.make()) as env:
            if not wanted or not missing(wanted - 1):
                return wanted
            return bisect_left(range(wanted), True, key=missing)
