"""What is read of another program's evaluation, and the parts that its readers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agentgym_py.checks import is_finite
from agentgym_py.errors import DataError
from agentgym_py.trajectory.formats.rows import Row
from agentgym_py.trajectory.json_values import quote

MOST_JSON = 64 << 20
"""Largest JSON file in bytes, unpacked."""
_WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Texts among the values of Inspect's scorers."""
Env = tuple[str, str]
"""Name and arguments of a task of the other program, which stands for an environment."""


class Sample(NamedTuple):
    """An attempt at a sample."""

    env: Env
    id: str
    scores: Mapping[str, float]
    """Its scores by name; empty if it ended with an error."""


class Log(NamedTuple):
    """An evaluation of another program."""

    agent: Mapping[str, Any]
    """As in the manifest of an evaluation."""
    versions: Mapping[Env, Any]
    """Versions of the tasks."""
    samples: Sequence[Sample]


def agent_named(name: str, **sampling: Any) -> dict[str, Any]:
    """Return an agent as in the manifest of an evaluation, with those sampling parameters that are numbers."""
    known = {key: value for key, value in sampling.items() if is_finite(value)}
    return {"name": name, "policy_digest": None, "sampling": known}


def to_number(value: Any) -> float | None:
    """Return a score as a number; None if it is none."""
    if isinstance(value, str):
        value = _WORDS.get(value, _WORDS.get(value.lower()))
    return float(value) if isinstance(value, bool) or is_finite(value) else None


def id_of(row: Row, key: str) -> str:
    """Return what a line has under a key as the id of its task; raises DataError if it is no text and no number."""
    if not isinstance(row.get(key), str | int):
        raise DataError(f"{key}: expected text or a number, found {quote(row.get(key))}")
    return str(row[key])


def scores_of(row: Row, values: Mapping[str, Any]) -> dict[str, float]:
    """Return those values that are numbers; none of an attempt that ended with an error."""
    if row.get("error") is not None:
        return {}
    return {name: number for name, value in values.items() if (number := to_number(value)) is not None}
