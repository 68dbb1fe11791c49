"""The protocol of server and client, version 1: requests as dataclasses, errors by their names.

docs/serving.md describes it for clients in other languages.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar, cast

from agentgym_py import errors
from agentgym_py.checks import require_arguments
from agentgym_py.errors import AgentGymError, ConfigError

VERSION = 1
SESSIONS = f"/v{VERSION}/sessions"
ERRORS: Mapping[str, type[AgentGymError]] = {
    name: each for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, AgentGymError)
}
"""Errors that an environment raises on purpose, and a client raises again."""
GONE = "SessionGone"
"""The error for a session that expired, was used up or never existed."""
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Make:
    """A new session: of an environment by its name, or a fork of another session as it is now."""

    env: str | None = None
    """Short name or Gymnasium id."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of the environment, plain data."""
    fork: str | None = None
    """The session to fork; then nothing else may be given."""

    def __post_init__(self) -> None:
        if (self.env is None) == (self.fork is None) or (self.fork is not None and self.kwargs):
            raise ConfigError("a session is made with env and kwargs, or with fork")


@dataclass(frozen=True, slots=True)
class Change:
    """A request that changes the episode."""

    n: int
    """Number of the change: 1 for the session's first, then one more each. The last one again gets its first answer
    again.
    """


@dataclass(frozen=True, slots=True)
class Reset(Change):
    """`TextEnv.reset`."""

    seed: int | None = None
    options: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Step(Change):
    """`TextEnv.step`."""

    action: str


@dataclass(frozen=True, slots=True)
class Restore(Change):
    """`TextEnv.restore`."""

    snapshot: str
    """The bytes in base64."""


@dataclass(frozen=True, slots=True)
class Limit(Change):
    """Another `max_steps`."""

    max_steps: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A question without arguments."""


@dataclass(frozen=True, slots=True)
class FindTask:
    """`TextEnv.task`."""

    name: str | int
    split: str | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """`TextEnv.read`."""

    text: str


@dataclass(frozen=True, slots=True)
class ExpertThought:
    """`TextEnv.expert_thought`."""

    action: str


def written(value: Any) -> bytes:
    """Encode as JSON in ASCII, which holds half of a surrogate pair too; numpy's integers are numbers.

    Raises:
        ValueError, TypeError: it cannot be encoded.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=operator.index).encode("ascii")


def read(kind: type[R], raw: bytes) -> R:
    """Read a request of this kind; every field by its type.

    Raises:
        ConfigError: the bytes are no JSON, or not such a request; says what is wrong.
    """
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"a JSON object is wanted, and these bytes are no JSON: {error}") from error
    if not isinstance(given, dict):
        raise ConfigError(f"a JSON object is wanted, not {given!r:.100}")
    require_arguments(kind, given)
    needed = [each.name for each in fields(cast(Any, kind)) if each.default is each.default_factory is MISSING]
    missing = [name for name in needed if name not in given]
    if missing:
        raise ConfigError(f"{kind.__name__} needs {', '.join(missing)}")
    return kind(**given)
