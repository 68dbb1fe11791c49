"""What differs between the HTTP servers of AgentGym: names in requests and answers.

Read from the client classes of `agentenv/agentenv/envs` and the servers' models at commit 3ef9235.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of server."""

    task: str
    """Name of the task's number in `/reset`."""
    session: Literal["id", "env_idx"] = "id"
    """Name of the session in requests. `/create` answers with an object for `id`, and a bare number for `env_idx`."""
    observation: str = "observation"
    """Name of the observation in an answer of `/step`."""
    reward: Literal["reward", "score"] = "reward"
    """Name of the reward in an answer of `/step`: the return so far, as AgentGym takes the last one as the return."""
    whole_reply: bool = False
    """Whether `/step` takes the whole reply; otherwise the action alone, which the client parses."""
    reset_answer: Literal["object", "list", "text"] = "object"
    """Form of the answer of `/reset`. The first observation is in an object; otherwise `GET /observation` has it."""
    create_body: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `/create`."""
    reset_body: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `/reset`."""


DIALECTS: Mapping[str, Dialect] = {
    "textcraft": Dialect("data_idx"),
    "babyai": Dialect("data_idx", reward="score"),
    "sciworld": Dialect("data_idx", reward="score"),
    "alfworld": Dialect("game", reset_body={"world_type": "Text"}),
    "webshop": Dialect("session_id", "env_idx", "state", reset_answer="list"),
    "sqlgym": Dialect("item_id", "env_idx", "state", reset_answer="list"),
    "tools": Dialect("id", "env_idx", whole_reply=True, reset_answer="text", create_body={"id": 0}),
}
"""Kinds of servers; `tools` are weather, movie, academia, todo, sheet and searchqa."""
USUAL: Mapping[str, str] = {"textcraft": "textcraft", "shop": "webshop", "household": "alfworld"}
"""The dialect of a world of ours that resembles one of AgentGym's; the others speak `tools`."""
