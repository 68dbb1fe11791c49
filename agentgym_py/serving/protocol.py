"""The protocol of server and client, version 1: requests as dataclasses, errors by name.

docs/guides/serving.md describes it for clients in other languages.
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
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, AgentGymError)
}
"""Errors of an environment, which the client raises again."""
SESSION_GONE = "SessionGone"
"""Error name for a session that expired, was used up or never existed."""
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Make:
    """Open a session: of an environment by name, or as a fork of another session."""

    env: str | None = None
    """Short name or Gymnasium id."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of the environment; plain data."""
    fork: str | None = None
    """The session to fork; excludes other fields."""

    def __post_init__(self) -> None:
        if (self.env is None) == (self.fork is None) or (self.fork is not None and self.kwargs):
            raise ConfigError("a session needs either env (and kwargs) or fork")


@dataclass(frozen=True, slots=True)
class Change:
    """A request that changes the episode."""

    n: int
    """Number of the change in its session, from 1. A repetition of the last change gets the same answer again."""


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
    """The snapshot in base64."""


@dataclass(frozen=True, slots=True)
class Limit(Change):
    """Change `max_steps`."""

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


def encode(value: Any) -> bytes:
    """Encode as JSON in ASCII, which can hold half of a surrogate pair; numpy's integers become numbers.

    Raises:
        ValueError, TypeError: it cannot be encoded.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=operator.index).encode("ascii")


def decode(kind: type[R], raw: bytes) -> R:
    """Decode a request of this kind and check the types of its fields.

    Raises:
        ConfigError: the bytes are not JSON, or not such a request.
    """
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"a request must be a JSON object, but this is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"a request must be a JSON object, got {content!r:.100}")
    require_arguments(kind, content)
    required = [f.name for f in fields(cast(Any, kind)) if f.default is f.default_factory is MISSING]
    missing = [name for name in required if name not in content]
    if missing:
        raise ConfigError(f"{kind.__name__} needs {', '.join(missing)}")
    return kind(**content)
